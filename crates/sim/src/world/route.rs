//! Paths, compiled: every flow and direction is a run of steps in one table, and a packet carries its place in it.
//! There is no routing: a scenario gives each path, and nodes that cost nothing leave no step.

use super::WorldError;
use super::processor::Work;
use crate::model::{Card, Crossing, Hop, Node, Scenario};
use std::collections::BTreeMap;

/// What happens to a packet next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is offered to a link.
    Link(u32),
    /// It needs a node's processor, on one of its interfaces.
    /// `cards` is a place in [`Routes::cards`].
    Process { node: u32, interface: u32, work: Work, cards: u32 },
    /// It enters a bond at one of its ends, and comes out at the other.
    Bond { bond: u32, end: u8 },
    /// It is a frame of a bond's channel and has come to the bond's other end.
    Frame { bond: u32, end: u8, channel: u8 },
    /// It enters a ring at one of its nodes, and comes out at another.
    Ring { ring: u32, way: Crossing },
    /// It has come to its receiver.
    Deliver,
}

/// The table of steps while it is made.
pub(crate) struct Routes<'a> {
    scenario: &'a Scenario,
    /// For each link the interface of the node where it ends.
    interfaces: Vec<u32>,
    /// For each ring the interface of each of its nodes.
    ring_interfaces: Vec<Vec<u32>>,
    /// For each node the number of interfaces, its own sending among them.
    pub(crate) counts: Vec<usize>,
    pub(crate) steps: Vec<Step>,
    /// What the cards by which a packet comes and goes cost together: each sum that there is, once.
    pub(crate) cards: Vec<Card>,
    places: BTreeMap<Card, u32>,
}

impl<'a> Routes<'a> {
    /// Checks the numbers that links, bonds and rings have for nodes.
    pub(crate) fn new(scenario: &'a Scenario) -> Result<Routes<'a>, WorldError> {
        let mut counts = vec![1; scenario.nodes.len()];
        let mut interfaces = Vec::with_capacity(scenario.links.len());
        for link in &scenario.links {
            let what = || format!("link `{}`", link.name);
            node(scenario, link.from, what)?;
            node(scenario, link.to, what)?;
            let count = &mut counts[link.to as usize];
            interfaces.push(*count as u32);
            *count += 1;
        }
        for bond in &scenario.bonds {
            for end in bond.ends {
                node(scenario, end, || format!("bond `{}`", bond.name))?;
            }
        }
        let mut ring_interfaces = Vec::with_capacity(scenario.rings.len());
        for ring in &scenario.rings {
            let mut its = Vec::with_capacity(ring.nodes.len());
            for &number in &ring.nodes {
                node(scenario, number, || format!("ring `{}`", ring.name))?;
                its.push(counts[number as usize] as u32);
                counts[number as usize] += 1;
            }
            ring_interfaces.push(its);
        }
        let (cards, places) = (Vec::new(), BTreeMap::new());
        Ok(Routes { scenario, interfaces, ring_interfaces, counts, steps: Vec::new(), cards, places })
    }

    /// Compiles the path from node `from` over `hops` to node `to`, with `last` at its end; gives the first step's
    /// number. `what` names it in errors.
    pub(crate) fn add(
        &mut self,
        what: &dyn Fn() -> String,
        from: u32,
        hops: &[Hop],
        to: u32,
        last: Step,
    ) -> Result<u32, WorldError> {
        let scenario = self.scenario;
        node(scenario, from, what)?;
        node(scenario, to, what)?;
        if hops.is_empty() {
            return Err(WorldError::NoPath { what: what() });
        }
        let begin = self.steps.len() as u32;
        // Where the packet is, and by which interface and card it came there.
        let (mut at, mut interface, mut came) = (from, 0, Card::default());
        for (number, hop) in hops.iter().enumerate() {
            let (start, end, step, next, card) = match *hop {
                Hop::Link(link) => {
                    let model = known(&scenario.links, link, "link", what)?;
                    (model.from, model.to, Step::Link(link), self.interfaces[link as usize], model.card)
                }
                Hop::Bond(bond, side) => {
                    let model = known(&scenario.bonds, bond, "bond", what)?;
                    let Some(&near) = model.ends.get(usize::from(side)) else {
                        return Err(WorldError::Unknown { what: what(), kind: "end", number: side.into(), count: 2 });
                    };
                    // The bond's frames have paid for the reception at the far end already.
                    let far = model.ends[1 - usize::from(side)];
                    (near, far, Step::Bond { bond, end: side }, 0, Card::default())
                }
                Hop::Ring(ring, way) => {
                    let model = known(&scenario.rings, ring, "ring", what)?;
                    let place = |place: u8| {
                        let (number, count) = (u32::from(place), model.nodes.len());
                        let unknown = || WorldError::Unknown { what: what(), kind: "place of a ring", number, count };
                        model.nodes.get(usize::from(place)).copied().ok_or_else(unknown)
                    };
                    let (near, far) = (place(way.from)?, place(way.to)?);
                    let interface = self.ring_interfaces[ring as usize][usize::from(way.to)];
                    (near, far, Step::Ring { ring, way }, interface, Card::default())
                }
            };
            if start != at {
                return Err(self.misplaced(what(), number, start, at));
            }
            // Into a bond a packet needs no sending: its frames do.
            let work = Work { receive: interface > 0, send: !matches!(step, Step::Bond { .. }) };
            self.process(at, interface, work, [came, card]);
            self.steps.push(step);
            (at, interface, came) = (end, next, card);
        }
        if at != to {
            return Err(self.misplaced(what(), hops.len(), to, at));
        }
        self.process(at, interface, Work { receive: interface > 0, send: false }, [came, Card::default()]);
        self.steps.push(last);
        Ok(begin)
    }

    fn process(&mut self, node: u32, interface: u32, work: Work, cards: [Card; 2]) {
        if !(work.receive || work.send) || !self.scenario.nodes[node as usize].cost.any() {
            return;
        }
        let [a, b] = cards;
        let sum = Card { packet: a.packet + b.packet, per_byte_ps: a.per_byte_ps.saturating_add(b.per_byte_ps) };
        let cards = *self.places.entry(sum).or_insert_with(|| {
            self.cards.push(sum);
            self.cards.len() as u32 - 1
        });
        self.steps.push(Step::Process { node, interface, work, cards });
    }

    fn misplaced(&self, what: String, hop: usize, found: u32, expected: u32) -> WorldError {
        let name = |node: u32| self.scenario.nodes[node as usize].name.clone();
        WorldError::Path { what, hop, found: name(found), expected: name(expected) }
    }
}

fn node(scenario: &Scenario, number: u32, what: impl Fn() -> String) -> Result<&Node, WorldError> {
    known(&scenario.nodes, number, "node", &what)
}

fn known<'a, T>(
    list: &'a [T],
    number: u32,
    kind: &'static str,
    what: &dyn Fn() -> String,
) -> Result<&'a T, WorldError> {
    let unknown = || WorldError::Unknown { what: what(), kind, number, count: list.len() };
    list.get(number as usize).ok_or_else(unknown)
}
