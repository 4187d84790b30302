//! What is done wrong on purpose, to see that each promise can be seen broken.

use super::traffic::Flow;
use crate::roles::Daemon;
use crate::shell::DaemonError;
use fairspan_core::units::Span;

/// What is done wrong on purpose, to see that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sabotage {
    /// A host gets a packet that nobody sent.
    Invents,
    /// A bit of a packet is turned before it is judged.
    Alters,
    /// A packet is delivered twice.
    Doubles,
    /// The first packets of a flow are delivered behind the later ones.
    Delays,
    /// The last mending leaves two hosts apart.
    Parts,
    /// A daemon takes memory without bound.
    Hoards,
    /// A killed process leaves a file in the place of its control socket.
    Blocks,
    /// A process that stops in order leaves a setting changed.
    Litters,
    /// A packet is kept for longer than any bond may, and then delivered.
    Keeps,
    /// A daemon panics.
    Panics,
    /// A daemon ends by itself.
    Ends,
    /// A daemon asks for its next turn at once, for ever.
    Spins,
}

/// Longer than a packet may be anywhere, in nanoseconds.
const FOR_TOO_LONG: u64 = 20_000_000_000;

impl Sabotage {
    /// One turn of the loop of a daemon on which this is done.
    pub(super) fn turn(self, daemon: &mut Daemon, hoard: &mut Vec<Vec<u8>>) -> Result<Span, DaemonError> {
        let turned = daemon.turn();
        match self {
            Sabotage::Hoards => hoard.push(vec![0; 1 << 20]),
            Sabotage::Panics => panic!("on purpose"),
            Sabotage::Ends => {
                return Err(DaemonError::Setting { peer: String::new(), problem: "on purpose".to_owned() });
            }
            Sabotage::Spins => return Ok(Span::ZERO),
            _ => {}
        }
        turned
    }
}

/// What is done to the packets that daemons deliver.
#[derive(Debug)]
pub(super) struct Spoiling {
    sabotage: Sabotage,
    /// On which host a packet is kept back, and since when.
    since: Option<(usize, u64)>,
    kept: Option<Vec<u8>>,
}

impl Spoiling {
    pub(super) fn new(sabotage: Sabotage) -> Spoiling {
        Spoiling { sabotage, since: None, kept: None }
    }

    /// Makes of what a host's daemon delivers what a sabotaged one would.
    pub(super) fn spoil(&mut self, now: u64, host: usize, flows: &[Flow], packets: &mut Vec<Vec<u8>>) {
        match self.sabotage {
            Sabotage::Invents => packets.extend(flows.iter().find(|flow| flow.to == host).map(Flow::forged)),
            Sabotage::Alters => {
                let middle = packets[0].len() / 2;
                packets[0][middle] ^= 1;
            }
            Sabotage::Doubles => packets.push(packets[0].clone()),
            Sabotage::Delays => packets.reverse(),
            Sabotage::Keeps => self.keep(now, host, packets),
            _ => {}
        }
    }

    /// Keeps the first packet back, and loses those that come meanwhile: they would be late for their order instead.
    fn keep(&mut self, now: u64, host: usize, packets: &mut Vec<Vec<u8>>) {
        let (at, since) = *self.since.get_or_insert_with(|| {
            self.kept = Some(packets.remove(0));
            (host, now)
        });
        if at != host {
            return;
        }
        if now - since > FOR_TOO_LONG {
            packets.splice(0..0, self.kept.take());
        } else {
            packets.clear();
        }
    }
}
