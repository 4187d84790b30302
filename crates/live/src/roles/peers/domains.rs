//! Names whose addresses are reached through a peer, or past the bond: what of the peers matters for them.

use super::Peers;
use super::peer::PeerState;
use crate::reloaded::Reloaded;
use crate::roles::domains::{Around, Domains};
use crate::status::Status;
use fairspan_core::units::Time;

impl Peers {
    /// Takes what was asked and answered.
    pub(super) fn hear_names(&mut self, now: Time) {
        let Some(domains) = &mut self.domains else { return };
        if domains.receive(now, &around(&self.config, &self.peers)) {
            self.route_to_peers();
        }
    }

    /// Addresses that are too old go.
    pub(super) fn expire_domains(&mut self, now: Time) {
        if self.domains.as_mut().is_some_and(|domains| domains.expire(now)) {
            self.route_to_peers();
        }
    }

    /// Follows the names of a configuration that was taken over.
    pub(super) fn follow_domains(&mut self, done: &mut Reloaded) {
        let changed = match &mut self.domains {
            Some(_) if self.config.domains.is_empty() => {
                self.domains = None;
                Ok(true)
            }
            Some(domains) => domains.follow(&around(&self.config, &self.peers)).map_err(|error| error.to_string()),
            None => match Domains::start(&self.config, &self.poller) {
                Ok(domains) => {
                    self.domains = domains;
                    Ok(self.domains.is_some())
                }
                Err(error) => Err(error.to_string()),
            },
        };
        match changed {
            Ok(true) => done.changed.push("domains".to_owned()),
            Ok(false) => {}
            Err(error) => done.failed.push(error),
        }
        self.route_to_peers();
    }

    /// What there is to tell of names.
    pub(super) fn tell_domains(&self, now: Time, status: &mut Status) {
        let Some(domains) = &self.domains else { return };
        domains.count(&mut status.counters);
        status.domains =
            domains.status(now, |number| self.peers.get(number).map_or_else(String::new, |peer| peer.name.clone()));
    }
}

fn around<'a>(config: &'a crate::config::Config, peers: &[PeerState]) -> Around<'a> {
    let channels = peers.iter().flat_map(PeerState::channels);
    let outer = channels.filter_map(|(_, channel)| Some(channel.carrier.remote()?.ip())).collect();
    Around { config, outer }
}
