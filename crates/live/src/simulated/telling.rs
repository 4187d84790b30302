//! What is printed of a seed that someone looks at.

use super::world::World;
use crate::system::enter;

impl World {
    /// Prints what the daemons would show.
    pub(super) fn tell_status(&self) {
        for (host, node) in self.nodes.iter().enumerate().filter(|_| self.tells) {
            let Some(daemon) = &node.daemon else { continue };
            let before = enter(node.host.clone());
            let mut status = daemon.status();
            enter(before);
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
        let Some(daemon) = self.nodes[host].daemon.as_ref().filter(|_| self.tells) else { return };
        let before = enter(self.nodes[host].host.clone());
        let status = daemon.status();
        enter(before);
        let channels = status.peers.iter().flat_map(|peer| peer.channels.iter().map(|channel| (&peer.name, channel)));
        let shown: Vec<String> = channels.map(|(peer, c)| format!("{peer}.{} {}", c.name, c.state)).collect();
        if self.nodes[host].shown != shown {
            self.tell(|| format!("host {host}: {}", shown.join(", ")));
            self.nodes[host].shown = shown;
        }
    }
}
