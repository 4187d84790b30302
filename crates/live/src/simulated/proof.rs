//! What has to hold of all daemons together: their memory at each step; and that all goes well again, and when.

use super::scene::Pair;
use super::traffic::{Flow, Violation, What};
use super::world::{MILLI, SECOND, World};
use crate::secure;
use crate::status::State;
use fairspan_core::bond::Mode;
use fairspan_core::units::Span;

/// What a daemon has whatever its peers are: the buffers of a receive and of its interface, and the slots of the pool.
const BASE_MEMORY: usize = 24 << 20;
/// Sealed batches that wait on one channel.
const BATCHES: usize = 16 * 65_536;
/// What a bond has before the first packet, its table of flow buckets above all.
const EMPTY_BOND: usize = 1 << 20;

impl World {
    /// Until when all has to go well again, if nothing goes wrong from now on.
    pub(super) fn healed(&self) -> u64 {
        self.now + healing()
    }

    /// Whether the daemons' memory is within its bounds. The pool's slots go round among them, so it is that of all.
    pub(super) fn weigh(&self, host: usize) -> Result<(), Violation> {
        let links = self.scene.links.len();
        let bond = |pair: &Pair| 2 * (pair.bond.hold_bytes + pair.bond.queue_bytes + links * BATCHES + EMPTY_BOND);
        let bound = self.nodes.len() * BASE_MEMORY + self.scene.pairs.iter().map(bond).sum::<usize>();
        if self.memory > bound as i64 {
            return self.violation(What::Memory, host, format!("{} bytes, at most {bound}", self.memory));
        }
        Ok(())
    }

    /// On a network where nothing goes wrong any more every packet arrives, and every channel is up.
    pub(super) fn prove(&mut self) -> Result<(), Violation> {
        self.busy = false;
        self.tell(|| "now all has to go well".to_owned());
        let slowest = self.scene.pairs.iter().map(|pair| pair.bond.order()).max().unwrap_or(0) + SECOND;
        self.advance(self.now + slowest)?;
        let before: Vec<u64> = self.flows.iter().map(Flow::count).collect();
        self.judge_order_of_stripes(true);
        self.tell_status();
        for _ in 0..20 {
            for place in 0..self.flows.len() {
                self.send(place, 200, 1, false, false);
            }
            self.advance(self.now + 100 * MILLI)?;
        }
        self.advance(self.now + slowest)?;
        self.tell_status();
        for (place, before) in before.into_iter().enumerate() {
            let flow = &self.flows[place];
            let (from, to, until) = (flow.from, flow.to, flow.count());
            let arrived = flow.arrived(before..until);
            let sends = self.can_send(from, flow.is_six());
            if arrived < until - before || (until == before && sends) {
                let mode = self.scene.mode(from, to);
                self.advance(self.now + 30 * SECOND)?;
                let later = self.flows[place].arrived(before..until);
                let detail = format!(
                    "flow {place} from {from}, {mode:?}: of {} packets {arrived} arrived in time, {later} half a minute later",
                    until - before
                );
                return self.violation(What::Stuck, to, detail);
            }
        }
        self.judge_order_of_stripes(false);
        self.prove_channels()
    }

    /// What a stripe lets through is in order while nothing goes wrong, once its markers have made both ends agree again.
    fn judge_order_of_stripes(&mut self, ordered: bool) {
        for place in 0..self.flows.len() {
            let (from, to) = (self.flows[place].from, self.flows[place].to);
            if self.scene.mode(from, to) == Some(Mode::Stripe) {
                self.flows[place].set_ordered(ordered);
            }
        }
    }

    /// Whether a host's interface is there, and takes packets of the family: the kernel ends IPv6 on one whose MTU is below
    /// 1280, as that of a daemon is after three lost probes of a path.
    fn can_send(&self, host: usize, six: bool) -> bool {
        let state = self.nodes[host].host.state();
        state.routing.tun.as_ref().is_some_and(|tun| tun.up && (!six || tun.mtu >= 1280))
    }

    fn prove_channels(&self) -> Result<(), Violation> {
        for host in 0..self.nodes.len() {
            let Some(status) = self.status(host) else { return self.violation(What::Stuck, host, "it does not run") };
            for peer in &status.peers {
                let up = peer.channels.iter().filter(|channel| is_well(channel.state)).count();
                if up < self.scene.links.len() {
                    let detail = format!("{up} channels to {} are up: {:?}", peer.name, peer.channels);
                    return self.violation(What::Stuck, host, detail);
                }
            }
        }
        Ok(())
    }
}

/// What is held back because it came and went is well.
fn is_well(state: State) -> bool {
    matches!(state, State::Up | State::Held)
}

/// How long daemons may take until all channels are up on a network that is well again: sessions with a peer that was lost,
/// two tries at the longest wait (where the peer was last, and where it is configured to be), and the shell's own retry.
fn healing() -> u64 {
    let config = secure::Config::default();
    let tries = config.handshake_retry_max.as_nanos() * 6 / 5 * 2;
    let retry = Span::from_secs(1).as_nanos();
    config.lost_after.as_nanos() + config.silence_after.as_nanos() + tries + retry
}
