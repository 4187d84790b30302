//! Sites that were invited: who they are, and who has joined.
//!
//! What a site says, and what that proves, is the [`Desk`]'s. What follows is in `joins`.

use crate::config::{Config, Interface, Invited};
use crate::joined::Joined;
use crate::secure::OsEntropy;
use crate::secure::joining::{Desk, Guest};
use fairspan_core::units::Time;

/// Who is invited, and who has joined.
pub(super) struct Guests {
    /// `None` where nothing is encrypted.
    pub(super) desk: Option<Desk>,
    pub(super) joined: Joined,
}

impl Guests {
    /// Finds who has joined before.
    pub(super) fn open(interface: &Interface, now: Time) -> Guests {
        let key = interface.private_key.clone();
        let desk = key.map(|key| Desk::new(key, Box::new(OsEntropy::new()), now));
        Guests { desk, joined: Joined::open(interface) }
    }

    /// Invites whom a configuration invites, whose peers have the keys by which they joined.
    pub(super) fn follow(&mut self, config: &Config) {
        let Some(desk) = &mut self.desk else { return };
        let guest =
            |(invited, key): (&Invited, _)| Guest { derived: invited.derived.clone(), expires: invited.expires, key };
        let invited = config.peers.iter().filter_map(|peer| Some((peer.invited.as_ref()?, peer.public_key)));
        desk.invite(invited.map(guest).collect());
    }

    /// What is counted, where somebody is invited.
    pub(super) fn counters(&self) -> impl Iterator<Item = (String, u64)> {
        let invites = self.desk.iter().filter(|desk| !desk.guests().is_empty());
        invites.flat_map(|desk| desk.stats().each()).map(|(name, count)| (format!("join_{name}"), count))
    }
}
