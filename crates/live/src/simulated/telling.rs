//! What is printed of a seed that someone looks at.

use super::world::World;
use crate::status::Status;
use crate::system::enter;

impl World {
    /// What a host's daemon would show, if it runs: no call that it takes fails or is the last, as nobody asked a daemon that
    /// is not looked at.
    pub(super) fn status(&self, host: usize) -> Option<Status> {
        let node = &self.nodes[host];
        let daemon = node.daemon.as_ref()?;
        let mut state = node.host.state();
        let faults = (std::mem::take(&mut state.failing_ppm), state.kill_in.take());
        drop(state);
        let before = enter(node.host.clone());
        let status = daemon.status();
        enter(before);
        let mut state = node.host.state();
        (state.failing_ppm, state.kill_in) = faults;
        Some(status)
    }

    /// Prints what the daemons would show.
    pub(super) fn tell_status(&self) {
        for host in (0..self.nodes.len()).filter(|_| self.tells) {
            let Some(mut status) = self.status(host) else { continue };
            status.counters.retain(|_, count| *count > 0);
            println!("host {host}: {:?}", status.counters);
            for peer in &mut status.peers {
                peer.counters.retain(|_, count| *count > 0);
                println!("  {} {:?} MTU {}: {:?}", peer.name, peer.mode, peer.mtu, peer.counters);
                for channel in &mut peer.channels {
                    channel.counters.retain(|_, count| *count > 0);
                    println!("    {} {} {:?}: {:?}", channel.name, channel.state, channel.remote, channel.counters);
                    println!("      {:?}", channel.path);
                }
            }
        }
    }

    /// Prints which channels of a host came or went.
    pub(super) fn tell_channels(&mut self, host: usize) {
        if !self.tells {
            return;
        }
        let Some(status) = self.status(host) else { return };
        let channels = status.peers.iter().flat_map(|peer| peer.channels.iter().map(|channel| (&peer.name, channel)));
        let shown: Vec<String> = channels.map(|(peer, c)| format!("{peer}.{} {}", c.name, c.state)).collect();
        if self.nodes[host].shown != shown {
            self.tell(|| format!("host {host}: {}", shown.join(", ")));
            self.nodes[host].shown = shown;
        }
    }
}
