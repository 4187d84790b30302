//! Channels that have carried what they may in a month, or that somebody takes out, are left while there are others, and the peer is
//! told.

use super::Peers;
use crate::system::system;
use fairspan_core::flow::matching::Name;
use fairspan_core::units::Time;

impl Peers {
    /// Takes a channel of a peer out, or in again.
    pub(super) fn take_channel_out(&mut self, now: Time, peer: &str, name: &str, out: bool) -> Result<(), String> {
        let found = self.peers.iter().position(|known| known.name == peer);
        let Some(number) = found else { return Err(format!("there is no peer `{peer}`")) };
        let peer = &mut self.peers[number];
        if !peer.channels().any(|(_, channel)| channel.name == name) {
            return Err(format!("the peer `{}` has no channel `{name}`", peer.name));
        }
        if peer.is_taken_out(name).is_none() {
            return Err(format!("mode `{}` decides by itself which channels carry what", peer.mode));
        }
        if peer.take_out(now, name, out) {
            self.tell_channels(now, number);
        }
        Ok(())
    }

    /// Counts what channels with a quota have carried since, and leaves those that have carried as much as they may.
    pub(super) fn follow_quotas(&mut self, now: Time) {
        let wall = system().wall();
        for number in 0..self.peers.len() {
            let Some(key) = self.config.peers.get(number).and_then(|peer| peer.public_key) else { continue };
            let mut spent = Vec::new();
            for channel in self.peers[number].channels_mut() {
                let bytes = std::mem::take(&mut channel.carried);
                let Some(quota) = channel.configured.as_deref().and_then(|configured| configured.quota) else {
                    continue;
                };
                let used = self.quotas.add((key, channel.name.clone()), quota, wall, bytes);
                if used.bytes >= quota.bytes.as_u64() {
                    spent.push(Name(channel.name.clone()));
                }
            }
            if self.peers[number].set_spent(now, spent) {
                self.tell_channels(now, number);
            }
        }
        self.quotas.keep(now);
    }
}
