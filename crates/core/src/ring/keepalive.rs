//! Whether a link carries packets both ways, and whether the right neighbour is at its other end.
//!
//! Source: IEEE 802.17, clause 11 (keepalives, hold-off, wait to restore; a span that fails one way is failed for both);
//! the rings paper says nothing of it.
//!
//! | rule | default |
//! |---|---|
//! | each node sends its neighbours a keepalive every `keepalive`, and at once when what it hears changes | 3 ms |
//! | a neighbour silent for `silence` is not heard any more | 12 ms: four of them |
//! | a link is well while the driver has it up, the neighbour is heard, and says that it hears this node | |
//! | a link that is not well is used for `hold_off` yet | 0 |
//! | a link that was in use and failed is used again after being well for `wait_to_restore` | 100 ms |
//!
//! Departures: 802.17 waits 10 s before it restores. That protects from optics that come and go; here the whole ring learns
//! of a change within a ring time and nothing is rebuilt, so a tenth of a second is enough to tell a flapping link from one that is
//! back. A number of its keepalive that the neighbour heard must come back in the neighbour's; so frames that somebody
//! plays again keep no dead link alive for long. No clock is exchanged.
//!
//! A second node with the neighbour's number is refused while the first is heard. A node that restarts is therefore
//! taken after `silence`, and its link was down in between, which tells the ring to forget what the old instance said.
//!
//! What processes miss that do not run is no silence, here or there: see [`patience`](super::patience).
//!
//! Cost: constant. Invariant: a link is in use only if both ends heard one another.

use super::control::{Heard, Keepalive};
use super::discovery::config::Config;
use super::patience::Patience;
use super::refusal::Refused;
use super::{NodeId, Ringlet, Side};
use crate::units::{Span, Time};

/// How many keepalives may lie between the one that the neighbour heard and the next: three quarters of a second by default.
const FRESH: u32 = 256;
/// A frame that arrives behind this many later ones is refused, not taken for one of a count that began anew.
const LATE: u32 = 2;

/// One of a node's two links.
#[derive(Clone, Debug)]
pub(super) struct Neighbour {
    side: Side,
    /// What the driver says.
    carrier: bool,
    peer: Option<Peer>,
    /// How long it may be silent. Kept while nobody is heard.
    patience: Patience,
    state: State,
    /// Whether it was in use before.
    used: bool,
    /// Of the latest keepalive sent.
    number: u32,
    send: Time,
}

/// Who is heard.
#[derive(Clone, Copy, Debug)]
struct Peer {
    instance: u32,
    /// Of its latest keepalive.
    number: u32,
    /// Whether it hears this node.
    hears: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down,
    /// Well again, and used from then on.
    Restoring(Time),
    Up,
    /// Not well, and used until then.
    Failing(Time),
}

impl Neighbour {
    pub(super) fn new(side: Side) -> Neighbour {
        Neighbour {
            side,
            carrier: false,
            peer: None,
            patience: Patience::default(),
            state: State::Down,
            used: false,
            number: 0,
            send: Time::MAX,
        }
    }

    /// Whether the link is in use.
    pub(super) fn is_up(&self) -> bool {
        matches!(self.state, State::Up | State::Failing(_))
    }

    /// The instance of the neighbour, while it is heard.
    pub(super) fn heard(&self) -> Option<u32> {
        self.peer.map(|peer| peer.instance)
    }

    /// Whether the driver has the link up.
    pub(super) fn has_carrier(&self) -> bool {
        self.carrier
    }

    /// Whether frames from it are from the node that should be there, and frames for it have somebody to read them.
    pub(super) fn is_known(&self, config: &Config) -> bool {
        self.carrier && (config.keepalive.is_none() || self.peer.is_some())
    }

    pub(super) fn set_carrier(&mut self, now: Time, config: &Config, up: bool) {
        if up && !self.carrier {
            self.send = now;
        }
        self.carrier = up;
        if !up {
            self.peer = None;
            self.patience.on_cut();
        }
        self.evaluate(now, config);
    }

    /// The node that belongs at the other end.
    pub(super) fn expected(&self, config: &Config) -> NodeId {
        let (at, nodes) = (config.node.index(), config.nodes);
        NodeId::at(match self.side.ringlet() {
            Ringlet::Zero => (at + 1) % nodes,
            Ringlet::One => (at + nodes - 1) % nodes,
        })
    }

    /// A keepalive came over the link.
    pub(super) fn handle(
        &mut self,
        now: Time,
        config: &Config,
        instance: u32,
        message: &Keepalive,
    ) -> Result<(), Refused> {
        let Some(_) = config.keepalive else { return Ok(()) };
        if !self.carrier {
            return Err(Refused::Down);
        }
        self.check(config, instance, message)?;
        let hears = message.heard.is_some_and(|heard| {
            (heard.node, heard.instance) == (config.node, instance) && self.number.wrapping_sub(heard.number) < FRESH
        });
        if self.peer.is_none() {
            self.send = now;
        }
        self.patience.on_heard(now, config, message.instance, message.number);
        self.peer = Some(Peer { instance: message.instance, number: message.number, hears });
        self.evaluate(now, config);
        Ok(())
    }

    fn check(&self, config: &Config, instance: u32, message: &Keepalive) -> Result<(), Refused> {
        if (message.node, message.instance) == (config.node, instance) {
            return Err(Refused::Own);
        }
        if usize::from(message.nodes) != config.nodes {
            return Err(Refused::Nodes { found: message.nodes });
        }
        if message.node == config.node {
            return Err(Refused::Taken { node: message.node });
        }
        let expected = self.expected(config);
        if message.node != expected {
            return Err(Refused::Neighbour { expected, found: message.node });
        }
        if message.east == (self.side == Side::East) {
            return Err(Refused::Side);
        }
        if message.nominal != config.nominal {
            return Err(Refused::Nominal { found: message.nominal });
        }
        if message.settings != config.settings {
            return Err(Refused::Settings);
        }
        match self.peer {
            Some(peer) if peer.instance != message.instance => Err(Refused::Taken { node: message.node }),
            Some(peer) if peer.number.wrapping_sub(message.number) <= LATE => Err(Refused::Stale),
            _ => Ok(()),
        }
    }

    /// The node slept for so long, until now: that is no silence of the neighbour's.
    pub(super) fn on_sleep(&mut self, now: Time, config: &Config, slept: Span) {
        self.patience.on_sleep(now, config, slept);
    }

    pub(super) fn handle_timeout(&mut self, now: Time, config: &Config) {
        if self.peer.is_some() && now >= self.patience.deadline() {
            self.peer = None;
            self.send = now;
        }
        self.evaluate(now, config);
    }

    fn evaluate(&mut self, now: Time, config: &Config) {
        let heard = config.keepalive.is_none() || self.peer.is_some_and(|peer| peer.hears);
        let well = self.carrier && heard;
        let failing = |used: &mut bool| {
            *used = true;
            State::Down
        };
        self.state = match self.state {
            State::Down if well && self.used && config.wait_to_restore > Span::ZERO => {
                State::Restoring(now + config.wait_to_restore)
            }
            State::Down if well => State::Up,
            State::Restoring(_) if !well => State::Down,
            State::Restoring(until) if now >= until => State::Up,
            State::Up if !well && config.hold_off > Span::ZERO => State::Failing(now + config.hold_off),
            State::Up if !well => failing(&mut self.used),
            State::Failing(_) if well => State::Up,
            State::Failing(until) if now >= until => failing(&mut self.used),
            same => same,
        };
    }

    /// When there is something to do.
    pub(super) fn due(&self, config: &Config) -> Time {
        let send = if self.carrier && config.keepalive.is_some() { self.send } else { Time::MAX };
        let deadline = self.peer.map_or(Time::MAX, |_| self.patience.deadline());
        let change = match self.state {
            State::Restoring(until) | State::Failing(until) => until,
            State::Down | State::Up => Time::MAX,
        };
        send.min(deadline).min(change)
    }

    /// A keepalive to be sent now.
    pub(super) fn poll(&mut self, now: Time, config: &Config, instance: u32) -> Option<Keepalive> {
        let interval = config.keepalive?;
        if !self.carrier || now < self.send {
            return None;
        }
        self.send = now + interval;
        self.number = self.number.wrapping_add(1);
        let node = self.expected(config);
        let heard = self.peer.map(|peer| Heard { node, instance: peer.instance, number: peer.number });
        Some(Keepalive {
            node: config.node,
            nodes: config.nodes as u8,
            east: self.side == Side::East,
            instance,
            number: self.number,
            heard,
            settings: config.settings,
            nominal: config.nominal,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Rate;

    fn node(n: u8) -> NodeId {
        NodeId::new(n).unwrap()
    }

    fn ms(n: u64) -> Time {
        Time::from_millis(n)
    }

    /// Of node 2 of four: a keepalive every 3 ms, silence after 12.
    fn config() -> Config {
        Config::new(node(2), 4, Rate::from_mbit(100))
    }

    /// What node 3, in the east, sends under this number; it has heard `heard` of node 2's instance 7.
    fn keepalive(number: u32, heard: u32) -> Keepalive {
        let heard = Some(Heard { node: node(2), instance: 7, number: heard });
        let (nodes, settings, nominal) = (4, 0, Rate::from_mbit(100));
        Keepalive { node: node(3), nodes, east: false, instance: 9, number, heard, settings, nominal }
    }

    /// The neighbour in the east, after so many keepalives to it.
    fn neighbour(sent: u32) -> Neighbour {
        let mut neighbour = Neighbour::new(Side::East);
        neighbour.set_carrier(ms(0), &config(), true);
        for n in 0..u64::from(sent) {
            assert!(neighbour.poll(ms(3 * n), &config(), 7).is_some());
        }
        neighbour
    }

    #[test]
    fn a_link_is_well_while_the_neighbour_has_heard_one_of_the_last_256_keepalives() {
        for (heard, well) in [(300, true), (45, true), (44, false), (301, false)] {
            let mut neighbour = neighbour(300);
            assert_eq!(neighbour.handle(ms(1000), &config(), 7, &keepalive(1, heard)), Ok(()));
            assert_eq!((neighbour.is_up(), neighbour.heard()), (well, Some(9)), "heard {heard}");
        }
    }

    #[test]
    fn a_keepalive_that_comes_behind_later_ones_is_refused_and_one_of_a_count_that_began_anew_is_not() {
        for (number, result) in
            [(11, Ok(())), (10, Err(Refused::Stale)), (9, Err(Refused::Stale)), (8, Err(Refused::Stale)), (7, Ok(()))]
        {
            let mut neighbour = neighbour(1);
            assert_eq!(neighbour.handle(ms(1), &config(), 7, &keepalive(10, 1)), Ok(()));
            assert_eq!(neighbour.handle(ms(2), &config(), 7, &keepalive(number, 1)), result, "{number}");
        }
    }

    #[test]
    fn a_link_that_is_up_already_is_no_occasion_for_another_keepalive() {
        let mut neighbour = neighbour(1);
        neighbour.set_carrier(ms(1), &config(), true);
        assert_eq!(neighbour.poll(ms(1), &config(), 7), None);
        neighbour.set_carrier(ms(1), &config(), false);
        neighbour.set_carrier(ms(2), &config(), true);
        assert!(neighbour.poll(ms(2), &config(), 7).is_some(), "one that comes back is");
    }

    #[test]
    fn behind_a_carrier_that_was_gone_the_neighbour_must_be_heard_again() {
        let mut neighbour = neighbour(1);
        assert_eq!(neighbour.handle(ms(1), &config(), 7, &keepalive(10, 1)), Ok(()));
        neighbour.set_carrier(ms(2), &config(), true);
        assert!(neighbour.is_known(&config()), "it was there all the time");
        for up in [false, true] {
            neighbour.set_carrier(ms(3), &config(), up);
            assert!(!neighbour.is_known(&config()) && !neighbour.is_up() && neighbour.has_carrier() == up);
        }
        assert_eq!(neighbour.handle(ms(4), &config(), 7, &keepalive(11, 1)), Ok(()));
        assert!(neighbour.is_known(&config()) && !neighbour.is_up());
        neighbour.handle_timeout(ms(103), &config());
        assert!(!neighbour.is_up());
    }

    #[test]
    fn without_a_wait_to_restore_a_link_that_was_gone_serves_as_soon_as_it_is_well() {
        let config = Config { wait_to_restore: Span::ZERO, ..config() };
        let mut neighbour = neighbour(1);
        assert_eq!(neighbour.handle(ms(1), &config, 7, &keepalive(10, 1)), Ok(()));
        neighbour.set_carrier(ms(2), &config, false);
        neighbour.set_carrier(ms(2), &config, true);
        assert_eq!(neighbour.handle(ms(2), &config, 7, &keepalive(11, 1)), Ok(()));
        assert!(neighbour.is_up());
    }
}
