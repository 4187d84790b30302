//! `lock` and `lock_except`: whether traffic may leave the host by other ways than the interface.

use super::peer::Peer;
use super::{ConfigError, Interface, Reader, Table};
use ipnet::IpNet;
use std::net::IpAddr;
use std::ops::Range;
use toml::Spanned;

const DNS: &str = "interface.dns";
/// Most networks in `lock_except`: the kernel takes all rules in one message, and tries one after the other.
const EXCEPT_MAX: usize = 64;

impl Reader<'_> {
    /// `lock`, which tells the daemon's datagrams from others by their mark.
    pub(super) fn lock(&self, lock: Option<&Spanned<bool>>, fwmark: u32) -> Result<bool, ConfigError> {
        match lock {
            Some(lock) if *lock.get_ref() && fwmark == 0 => {
                let problem = "needs a `fwmark` other than 0, by which the daemon's own datagrams are let out: leave `fwmark` \
                               out, or write another number";
                Err(self.error(lock.span(), "interface.lock", problem))
            }
            lock => Ok(lock.is_some_and(|lock| *lock.get_ref())),
        }
    }

    /// Networks that the lock spares.
    pub(super) fn lock_except(&self, texts: &[Spanned<String>], lock: bool) -> Result<Vec<IpNet>, ConfigError> {
        const SETTING: &str = "interface.lock_except";
        let nets = self.networks(texts, SETTING)?;
        if let Some((_, text)) = nets.iter().zip(texts).find(|(net, _)| net.prefix_len() == 0) {
            let problem = "is everything, so that nothing would be locked: name the networks that may be reached in the clear, \
                           or write `lock = false`";
            return Err(self.error(text.span(), SETTING, problem));
        }
        if let Some(text) = texts.get(EXCEPT_MAX) {
            let problem = format!("has more than {EXCEPT_MAX} networks: write larger ones");
            return Err(self.error(text.span(), SETTING, problem));
        }
        if let (false, Some(text)) = (lock, texts.first()) {
            self.notice(
                text.span(),
                SETTING,
                "spares nothing, as nothing is locked: write `lock = true`, or leave it out",
            );
        }
        Ok(nets)
    }

    /// Resolvers beyond the interface, which the lock's rules lead questions to.
    pub(super) fn dns(
        &self,
        texts: &[Spanned<String>],
        lock: bool,
        addresses: &[IpNet],
    ) -> Result<Vec<IpAddr>, ConfigError> {
        let mut servers: Vec<IpAddr> = Vec::new();
        for text in texts {
            let server: IpAddr = self.parsed(text, DNS, "10.77.0.1")?;
            let problem = if !lock {
                "is the lock's to hold: without it a resolver beside the tunnel answers as soon as the daemon is not there; \
                 write `lock = true`"
            } else if servers.iter().any(|other| other.is_ipv6() == server.is_ipv6()) {
                "is a second one of this IP version: questions are led to one; leave the other out"
            } else if server.is_unspecified() || server.is_multicast() || server.is_loopback() {
                "is no resolver beyond the interface: write one such as \"10.77.0.1\""
            } else if addresses.iter().any(|own| own.addr() == server) {
                "is this interface's own address: write one beyond it"
            } else {
                servers.push(server);
                continue;
            };
            return Err(self.error(text.span(), DNS, format!("{server} {problem}")));
        }
        Ok(servers)
    }

    /// A resolver has to be some peer's.
    pub(super) fn dns_is_reached(
        &self,
        interface: &Interface,
        spans: &[Range<usize>],
        peers: &[Peer],
    ) -> Result<(), ConfigError> {
        let nets = || peers.iter().flat_map(|peer| &peer.allowed_ips);
        match interface.dns.iter().zip(spans).find(|(server, _)| !nets().any(|net| net.contains(*server))) {
            Some((server, span)) => {
                let problem = format!("{server} is in no peer's `allowed_ips`, so it is not reached: add it there");
                Err(self.error(span.clone(), DNS, problem))
            }
            None => Ok(()),
        }
    }

    /// Addresses of peers are translated where there are some. `at`: where that is said.
    pub(super) fn masquerade_fits(
        &self,
        interface: &Interface,
        at: Option<Range<usize>>,
        has_peers: bool,
    ) -> Result<(), ConfigError> {
        let Some(at) = at.filter(|_| interface.masquerade) else { return Ok(()) };
        let problem = if !has_peers {
            "is for [[peer]]s, whose packets leave with this host's addresses: leave it out"
        } else if interface.port.is_some() {
            "has no meaning for a port, whose frames keep their addresses: leave it out"
        } else if interface.lock {
            "does not go together with `lock`, which lets nothing leave but through the interface: leave one of them out"
        } else {
            return Ok(());
        };
        Err(self.error(at, "interface.masquerade", problem))
    }

    /// Everything is routed through the tunnel, and nothing is said of what happens without it.
    pub(super) fn fails_open(&self, interface: &Interface, span: Range<usize>, setting: &str, nets: &[IpNet]) {
        let default = nets.iter().find(|net| net.prefix_len() == 0);
        if let Some(default) = default
            && interface.table != Table::Off
        {
            let problem = format!(
                "{default} leads everything through the tunnel, but when the daemon is stopped or killed it leaves in the clear: \
                 write `lock = true` in [interface], or `lock = false` if that is meant"
            );
            self.notice(span, setting, problem);
        }
    }
}
