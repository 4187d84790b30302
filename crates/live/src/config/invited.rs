//! `invitation_file`: a site that was invited, of which the hub knows nothing yet but the secret that it will show.

use super::secret::Text;
use super::{ConfigError, Interface, Peer, Reader};
use crate::secure::joining::Derived;
use fairspan_core::wire::invitation::Invitation;
use ipnet::IpNet;
use std::ops::Range;
use toml::Spanned;

/// What the hub knows of a site that it has invited.
#[derive(Clone, Debug)]
pub struct Invited {
    /// What follows from the invitation's secret.
    pub(crate) derived: Derived,
    /// When the invitation expires, in seconds since 1970.
    pub(crate) expires: u64,
    /// What the invitation says of the inner network: the hub's address, and the site's.
    inner: [IpNet; 2],
}

/// The settings of a peer that say who it is.
pub(super) struct Identity<'a> {
    pub(super) public_key: Option<&'a Spanned<Text>>,
    pub(super) preshared_key: Option<Range<usize>>,
    pub(super) has_channels: bool,
    pub(super) invitation_file: Option<&'a Spanned<String>>,
}

const SETTING: &str = "peer.invitation_file";

impl Reader<'_> {
    /// The invitation of a peer that has one in place of keys.
    pub(super) fn invited(
        &self,
        interface: &Interface,
        identity: &Identity<'_>,
        allowed_ips: &[IpNet],
    ) -> Result<Option<Invited>, ConfigError> {
        let Some(file) = identity.invitation_file else { return Ok(None) };
        if let Some(key) = identity.public_key {
            let problem =
                "has no meaning beside `invitation_file`: the site makes its key known when it joins; keep one of them";
            return Err(self.error(key.span(), "peer.public_key", problem));
        }
        if let Some(span) = &identity.preshared_key {
            let problem = "has no meaning beside `invitation_file`: the invitation has one; leave it out";
            return Err(self.error(span.clone(), "peer.preshared_key", problem));
        }
        let wrong = |problem: &str| Err(self.error(file.span(), SETTING, problem));
        if identity.has_channels {
            return wrong("is of a site that calls, so this end has no [[peer.channel]] to it: leave one of them out");
        }
        let Some(own) = interface.private_key.as_ref() else {
            return wrong("needs interface.private_key_file, to which the invitation belongs");
        };
        if interface.listen_port.is_none() {
            return wrong("needs interface.listen_port: there the site calls when it joins");
        }
        let Some((text, span, _)) = self.secret(None, Some(file), "peer.invitation")? else { return Ok(None) };
        let invitation = Invitation::decode(&text).map_err(|error| {
            self.error(span.clone(), SETTING, format!("{error}; the file holds what `fairspan invite` put there"))
        })?;
        if invitation.hub_key != *own.public_key().as_bytes() && !self.only_locks {
            return wrong("is an invitation to another hub: its public key is not that of this interface");
        }
        let inner = [invitation.hub, invitation.site].map(|address| IpNet::new(address, invitation.prefix));
        let [Ok(hub), Ok(site)] = inner else { return wrong("makes no sense") };
        if !allowed_ips.iter().any(|net| net.contains(&site.addr())) {
            let problem = format!(
                "the invitation gives the site {}, which `allowed_ips` does not have: write it there",
                site.addr()
            );
            self.notice(span, SETTING, problem);
        }
        Ok(Some(Invited {
            derived: Derived::of(&invitation.secret),
            expires: invitation.expires.into(),
            inner: [hub, site],
        }))
    }

    /// What the newest of the peers must not have in common with those before.
    pub(super) fn invited_once(&self, span: Range<usize>, peers: &[Peer]) -> Result<(), ConfigError> {
        let number = |peer: &Peer| peer.invited.as_ref().map(|invited| invited.derived.number());
        let Some((last, others)) = peers.split_last() else { return Ok(()) };
        match others.iter().find(|other| other.invited.is_some() && number(other) == number(last)) {
            Some(other) => {
                let problem =
                    format!("is that of peer `{}` too, and an invitation is of one site: invite each", other.name);
                Err(self.error(span, SETTING, problem))
            }
            None => Ok(()),
        }
    }
}

impl Invited {
    /// The site's address in the inner network.
    pub fn site(&self) -> IpNet {
        self.inner[1]
    }
}
