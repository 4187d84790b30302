//! What goes wrong with links, hosts and processes, and how it ends.

use super::host::{EPOCH, TUN_QUEUE};
use super::network::{Chances, device};
use super::scene::{between, chance};
use super::traffic::Violation;
use super::world::{Happening, MILLI, Mend, SECOND, World};

impl World {
    /// Datagrams and system calls fail as often as the phase may have it.
    pub(super) fn worsen(&mut self) {
        let phase = self.scene.phases[self.phase];
        let most = phase.datagrams_ppm;
        let rng = &mut self.rng;
        self.network.chances = Chances {
            lost: rng.below(most + 1),
            doubled: rng.below(most + 1),
            late: rng.below(most + 1),
            corrupted: rng.below(most + 1),
            replayed: rng.below(most + 1),
            forged: rng.below(most + 1),
        };
        for node in &self.nodes {
            node.host.state().failing_ppm = rng.below(phase.calls_ppm + 1);
        }
    }

    /// One more thing goes wrong, and the next one is due.
    pub(super) fn make_trouble(&mut self) -> Result<(), Violation> {
        let every = self.scene.phases[self.phase].every;
        let next = self.now + between(&mut self.rng, 0, 2 * every);
        self.push(next, Happening::Trouble);
        let links = self.scene.links.len() as u64;
        let link = self.rng.below(links) as usize;
        let host = self.rng.below(self.nodes.len() as u64) as usize;
        let other = (host + 1 + self.rng.below(self.nodes.len() as u64 - 1) as usize) % self.nodes.len();
        let span = self.draw_span();
        let kind = self.rng.below(21);
        self.note([6, kind, (host << 8 | link) as u64]);
        self.faults += 1;
        self.tell(|| format!("trouble {kind}: link {link}, host {host}, host {other}, {} ms", span / MILLI));
        match kind {
            0 => self.cut(link, host, other, span),
            1 => {
                self.cut(link, host, other, span);
                self.cut(link, other, host, span);
            }
            2 => (0..self.nodes.len()).for_each(|from| self.cut_off(link, from, span)),
            3 => (0..links as usize).for_each(|link| self.cut_off(link, host, span)),
            4 => {
                self.network.way(link, host, other).mtu = between(&mut self.rng, 600, 1500) as usize;
                self.push(self.now + span, Happening::Mends(Mend::Way(link, host, other)));
            }
            5 => self.rebind(link, host),
            6 => {
                self.nodes[host].host.state().routing.change_link(link, |interface| interface.up = false);
                self.push(self.now + span, Happening::Mends(Mend::Interface(link, host)));
                self.wake_if_ready(host);
            }
            7 => {
                self.nodes[host].host.state().routing.remove_link(link);
                self.push(self.now + span, Happening::Mends(Mend::Interface(link, host)));
                self.wake_if_ready(host);
            }
            8 => {
                let mtu = between(&mut self.rng, 1280, 1500) as u32;
                self.nodes[host].host.state().routing.change_link(link, |interface| interface.mtu = mtu);
                self.push(self.now + span, Happening::Mends(Mend::Interface(link, host)));
                self.wake_if_ready(host);
            }
            9 | 10 => {
                let calls = if chance(&mut self.rng, 50) { 20 } else { 500 };
                self.nodes[host].host.state().kill_in = Some(self.rng.below(calls));
            }
            11 => {
                if chance(&mut self.rng, 30) {
                    self.nodes[host].host.state().kill_in = Some(self.rng.below(30));
                }
                self.stop(host)?;
                let after = self.rng.below(3 * SECOND);
                self.start_in(host, after);
            }
            12 => self.nodes[host].frozen_until = self.now + span.min(3 * SECOND),
            13 => self.attack(),
            14 => {
                let which = self.rng.next_u64();
                self.nodes[host].host.state().block_a_socket(which, self.now + span.min(2 * SECOND));
            }
            15 => {
                let delay = between(&mut self.rng, MILLI / 10, 300 * MILLI);
                let way = self.network.way(link, host, other);
                (way.delay, way.rate) = (delay, Some(1_000_000 + delay));
            }
            16 if chance(&mut self.rng, 20) => {
                self.nodes[host].host.state().routing.remove_tun();
                self.wake_if_ready(host);
            }
            17 => self.set_clock(host),
            18 => self.lose_kept(host),
            19 => self.flood(host),
            _ => self.worsen(),
        }
        Ok(())
    }

    /// Mostly short, so that one thing overtakes the other.
    fn draw_span(&mut self) -> u64 {
        let most = [100 * MILLI, 2 * SECOND, 15 * SECOND][self.rng.below(3) as usize];
        between(&mut self.rng, MILLI, most)
    }

    fn cut(&mut self, link: usize, from: usize, to: usize, span: u64) {
        self.network.way(link, from, to).cut = true;
        self.push(self.now + span, Happening::Mends(Mend::Way(link, from, to)));
    }

    /// Both ways between a host and all others.
    fn cut_off(&mut self, link: usize, host: usize, span: u64) {
        for other in (0..self.nodes.len()).filter(|other| *other != host) {
            self.cut(link, host, other, span);
            self.cut(link, other, host, span);
        }
    }

    /// Someone sets the wall clock: a little, by a day, or to where a host without a battery begins.
    fn set_clock(&mut self, host: usize) {
        let day = 86_400 * SECOND;
        let offset = between(&mut self.rng, 0, 2 * day);
        let epoch = match self.rng.below(4) {
            0 => 0,
            1 => EPOCH - day + offset,
            2 => EPOCH - 2 * SECOND + offset % (4 * SECOND),
            _ => EPOCH,
        };
        self.nodes[host].host.state().epoch = epoch;
    }

    /// A host sends at once more than its interface's queue holds: the last of it are lost.
    fn flood(&mut self, host: usize) {
        let flows: Vec<usize> = (0..self.flows.len()).filter(|place| self.flows[*place].from == host).collect();
        let len = between(&mut self.rng, 64, 1500) as usize;
        for n in 0..between(&mut self.rng, 1, 2 * TUN_QUEUE as u64) as usize {
            self.send(flows[n % flows.len()], len, 1, false, false);
        }
    }

    fn rebind(&mut self, link: usize, host: usize) {
        if self.network.is_translated(link, host) {
            self.network.translate(link, host);
        }
    }

    /// A burst of what was ever sent, and of what never was.
    fn attack(&mut self) {
        let mut arrivals = Vec::new();
        for _ in 0..between(&mut self.rng, 1, 200) {
            self.faults += 1;
            if chance(&mut self.rng, 70) {
                self.network.replay(self.now, &mut arrivals);
            } else {
                self.network.forge(self.now, &mut arrivals);
            }
        }
        for arrival in arrivals {
            self.push(arrival.at, Happening::Arrives(Box::new(arrival)));
        }
    }

    pub(super) fn mend_one(&mut self, mend: Mend) {
        match mend {
            Mend::Way(link, from, to) => {
                let drawn = self.scene.links[link].clone();
                let way = self.network.way(link, from, to);
                (way.cut, way.mtu, way.delay, way.rate) = (false, 1500, drawn.delay, drawn.rate);
                way.jitter = drawn.jitter;
            }
            Mend::Interface(link, host) => {
                let mut state = self.nodes[host].host.state();
                if state.routing.link(link).is_none() {
                    state.routing.add_link(link, device(link));
                }
                state.routing.change_link(link, |interface| (interface.up, interface.mtu) = (true, 1500));
                drop(state);
                self.wake_if_ready(host);
            }
        }
    }

    /// Every link is as it was drawn.
    pub(super) fn mend_links(&mut self) {
        self.network.chances = Chances::default();
        for link in 0..self.scene.links.len() {
            for from in 0..self.nodes.len() {
                for to in 0..self.nodes.len() {
                    self.mend_one(Mend::Way(link, from, to));
                }
            }
        }
    }

    /// Every host has its interfaces, no call fails, and every process runs.
    pub(super) fn mend_hosts(&mut self) {
        for host in 0..self.nodes.len() {
            for link in 0..self.scene.links.len() {
                self.mend_one(Mend::Interface(link, host));
            }
            let node = &mut self.nodes[host];
            let mut state = node.host.state();
            (state.failing_ppm, state.kill_in, state.epoch) = (0, None, EPOCH);
            state.free_sockets();
            node.frozen_until = 0;
        }
    }
}
