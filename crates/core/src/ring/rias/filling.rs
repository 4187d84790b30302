//! One ringlet, its flows under a common ceiling, and the path of its fair rates as the ceiling moves.
//!
//! Ways are numbered in the direction of the data, and so are nodes: way p leaves node p. A pair (i, k) is what enters at
//! node i on the k-th way from there; every flow of i with more than k hops belongs to it.

use super::line::Equations;
use crate::ring::problem::Problem;
use crate::ring::{NodeId, Ringlet};
use crate::rng::Rng;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// What holds a flow at its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Held {
    Ceiling,
    Demand,
    /// The last tight pair on its way.
    Pair,
}

#[derive(Clone, Debug)]
struct Flow {
    /// Its place in the problem.
    index: usize,
    ingress: usize,
    hops: usize,
    demand: f64,
    /// Its own ceiling is so many times the common one.
    ceiling: f64,
    held: Held,
    rate: f64,
    slope: f64,
}

/// A pair whose aggregate is at its way's level, and that holds flows.
#[derive(Clone, Debug)]
struct Tight {
    /// k
    hop: usize,
    /// Of the flows that end before the next tight pair: those that it holds, the others' ceilings, their demands.
    holds: f64,
    ceilings: f64,
    demands: f64,
    /// The rate of the flows that it holds.
    level: f64,
    slope: f64,
}

#[derive(Clone, Debug, Default)]
struct Ingress {
    /// Its flows, by hops.
    flows: Range<usize>,
    /// By hop, as far as its flows go.
    weights: Vec<f64>,
    /// By hop, how many of its flows go no farther: the others belong to the pair.
    short: Vec<usize>,
    /// By flow of its own, what that one and those that go farther sum up to.
    sums: Vec<Sums>,
    /// By hop. Their levels fall.
    tight: Vec<Tight>,
}

/// Of several flows.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// How many tight pairs hold.
    holds: f64,
    /// Of the others.
    ceilings: f64,
    demands: f64,
    /// Of all.
    rate: f64,
    slope: f64,
}

impl Ingress {
    /// Rate and slope of the pair at `hop`.
    fn aggregate(&self, hop: usize) -> (f64, f64) {
        let sums = self.sums[self.short[hop]];
        (sums.rate, sums.slope)
    }
}

#[derive(Clone, Debug)]
struct Way {
    capacity: f64,
    /// Its place among the full ones, if it is full.
    column: Option<usize>,
    /// The aggregate that it gives a node of weight 1, if it is full.
    level: f64,
    slope: f64,
    /// How many pairs are tight.
    tight: usize,
    carried: (f64, f64),
}

/// Where a path bends.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Something else holds this flow now.
    Flow(usize, Held),
    /// Of this ingress, the tight pair before the one at this place would hold its flows lower.
    Merge(usize, usize),
    /// The pair of this ingress and hop has reached its share.
    Tighten(usize, usize),
    /// The way has become full.
    Fill(usize),
}

/// What was an equation until now and has to become an inequality.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// Nothing: the path begins.
    Nothing,
    /// The flow is below what held it.
    Flow(usize, Held),
    /// Of this ingress, the tight pair at this hop holds its flows lower than the one before.
    Level(usize, usize),
    /// The pair of this ingress and hop is below its share.
    Pair(usize, usize),
    /// The way has room.
    Way(usize),
}

/// The path could not be followed any further: rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lost;

/// A ringlet.
#[derive(Clone, Debug)]
pub(super) struct Filling {
    flows: Vec<Flow>,
    ingresses: Vec<Ingress>,
    ways: Vec<Way>,
    /// The full ways.
    full: Vec<usize>,
    /// The common ceiling, and how it moves.
    ceiling: (f64, f64),
    equations: Equations,
    /// What rates are divided by.
    unit: f64,
    ringlet: Ringlet,
}

/// Below this share of them the difference of two slopes is nothing but rounding.
const FLAT: f64 = 1e-13;

impl Filling {
    /// The flows of `ringlet`, all rates at 0. `blur` makes all numbers unlike by that share, at random.
    pub(super) fn new(problem: &Problem, ringlet: Ringlet, blur: Option<(&mut Rng, f64)>) -> Filling {
        let nodes = problem.nodes();
        let (mut rng, blur) = blur.map_or((None, 0.0), |(rng, blur)| (Some(rng), blur));
        let mut blurred = |value: f64| match &mut rng {
            Some(rng) => value * (1.0 + blur * rng.unit()),
            None => value,
        };
        // There and back it is the same.
        let place = |at: NodeId| node(ringlet, nodes, at.index()).index();
        let mut flows: Vec<Flow> = Vec::new();
        for (index, flow) in problem.flows().iter().enumerate().filter(|(_, flow)| flow.route.ringlet == ringlet) {
            let (ingress, hops) = (place(flow.from), flow.route.hops);
            let demand = flow.most();
            let held = if demand == 0.0 { Held::Demand } else { Held::Ceiling };
            flows.push(Flow { index, ingress, hops, demand, ceiling: 1.0, held, rate: 0.0, slope: 0.0 });
        }
        flows.sort_by_key(|flow| (flow.ingress, flow.hops, flow.index));
        let at = |place: usize| node(ringlet, nodes, place);
        let capacities: Vec<f64> = (0..nodes).map(|place| problem.capacity(at(place), ringlet)).collect();
        let crossed = flows.iter().flat_map(|flow| (0..flow.hops).map(|hop| (flow.ingress + hop) % nodes));
        let unit = crossed.map(|way| capacities[way]).fold(0.0, f64::max);
        let weights: Vec<f64> = (0..nodes).map(|place| problem.weight(at(place))).collect();
        let heaviest = flows.iter().map(|flow| weights[flow.ingress]).fold(0.0, f64::max);
        let mut ingresses = vec![Ingress::default(); nodes];
        for (place, flow) in flows.iter_mut().enumerate() {
            flow.demand = blurred(flow.demand / unit);
            flow.ceiling = blurred(1.0);
            let ingress = &mut ingresses[flow.ingress];
            if ingress.flows.is_empty() {
                ingress.flows = place..place;
            }
            ingress.flows.end = place + 1;
            while ingress.weights.len() < flow.hops {
                ingress.weights.push(blurred(weights[flow.ingress] / heaviest));
                ingress.short.push(place - ingress.flows.start);
            }
        }
        for ingress in &mut ingresses {
            ingress.sums = vec![Sums::default(); ingress.flows.len() + 1];
        }
        let way = |capacity: f64| Way {
            capacity: blurred(capacity / unit),
            column: None,
            level: 0.0,
            slope: 0.0,
            tight: 0,
            carried: (0.0, 0.0),
        };
        let ways = capacities.into_iter().map(way).collect();
        let (full, equations) = (Vec::new(), Equations::default());
        Filling { flows, ingresses, ways, full, ceiling: (0.0, 0.0), equations, unit, ringlet }
    }

    /// Lets the ceiling rise from 0 and follows the fair rates until it holds no flow any more.
    ///
    /// # Errors
    /// When the path gets lost.
    pub(super) fn fill(&mut self) -> Result<(), Lost> {
        let most = 1000 + 100 * (self.flows.len() + self.ways.len());
        let mut left = Left::Nothing;
        for _ in 0..most {
            self.group();
            if self.flows.iter().all(|flow| flow.held != Held::Ceiling) {
                return Ok(());
            }
            self.direct()?;
            self.survey();
            let forwards = if self.slope_of(left) < 0.0 { -1.0 } else { 1.0 };
            let (step, event) = self.next(forwards).ok_or(Lost)?;
            self.advance(forwards * step);
            left = self.bend(event);
        }
        Err(Lost)
    }

    /// Takes the numbers of `exact`, which are not blurred, and solves for them with what holds each flow here.
    pub(super) fn sharpen(&mut self, exact: &Filling) {
        for (flow, exact) in self.flows.iter_mut().zip(&exact.flows) {
            (flow.demand, flow.ceiling) = (exact.demand, exact.ceiling);
        }
        for (ingress, exact) in self.ingresses.iter_mut().zip(&exact.ingresses) {
            ingress.weights.clone_from(&exact.weights);
        }
        for (way, exact) in self.ways.iter_mut().zip(&exact.ways) {
            way.capacity = exact.capacity;
        }
        self.group();
        // The second time takes back what rounding did the first time.
        for _ in 0..2 {
            self.assemble();
            let point = self.equations.point();
            for (&way, change) in self.full.iter().zip(point) {
                self.ways[way].level += change;
            }
        }
        self.survey();
    }

    /// Index and rate of each flow, and the node whose outgoing way holds it.
    pub(super) fn rates(&self) -> impl Iterator<Item = (usize, f64, Option<NodeId>)> + '_ {
        self.flows.iter().map(|flow| {
            let ingress = &self.ingresses[flow.ingress];
            let pair = (flow.held == Held::Pair).then(|| holder(ingress, flow.hops)).flatten();
            let node = pair.map(|pair| node(self.ringlet, self.ways.len(), self.way(flow.ingress, pair.hop)));
            (flow.index, (flow.rate * self.unit).max(0.0), node)
        })
    }

    fn way(&self, ingress: usize, hop: usize) -> usize {
        wrapped(ingress + hop, self.ways.len())
    }

    /// Sums up what holds which flows, and, for each tight pair, those that end before the next one.
    fn group(&mut self) {
        for ingress in &mut self.ingresses {
            let mut sums = Sums::default();
            for (place, flow) in self.flows[ingress.flows.clone()].iter().enumerate().rev() {
                match flow.held {
                    Held::Pair => sums.holds += 1.0,
                    Held::Ceiling => sums.ceilings += flow.ceiling,
                    Held::Demand => sums.demands += flow.demand,
                }
                ingress.sums[place] = sums;
            }
            let mut farther = Sums::default();
            for pair in ingress.tight.iter_mut().rev() {
                let sums = ingress.sums[ingress.short[pair.hop]];
                pair.holds = sums.holds - farther.holds;
                pair.ceilings = sums.ceilings - farther.ceilings;
                pair.demands = sums.demands - farther.demands;
                farther = sums;
            }
        }
    }

    /// One equation for each full way: its capacity is what crosses it. Unknown are the levels of the full ways, and the
    /// ceiling.
    fn assemble(&mut self) {
        let size = self.full.len();
        let equations = &mut self.equations;
        equations.reset(size);
        for (row, &way) in self.full.iter().enumerate() {
            *equations.right(row) = self.ways[way].capacity;
        }
        let count = self.ways.len();
        for (from, ingress) in self.ingresses.iter().enumerate() {
            let column = |pair: &Tight| self.ways[wrapped(from + pair.hop, count)].column.unwrap_or_default();
            for (row, &way) in self.full.iter().enumerate() {
                let hop = wrapped(way + count - from, count);
                let Some(&weight) = ingress.weights.get(hop) else { continue };
                let place = ingress.tight.partition_point(|pair| pair.hop < hop);
                let next = ingress.tight.get(place);
                if next.is_some_and(|pair| pair.hop == hop) {
                    *equations.cell(row, row) += weight;
                    continue;
                }
                // Flows that end before the next tight pair, and all that the next one stands for.
                let sums = ingress.sums[ingress.short[hop]];
                let farther = next.map_or(Sums::default(), |pair| ingress.sums[ingress.short[pair.hop]]);
                let holds = sums.holds - farther.holds;
                let mut of_next = 1.0;
                if let Some(last) = place.checked_sub(1).filter(|_| holds > 0.0) {
                    let pair = &ingress.tight[last];
                    let part = holds / pair.holds;
                    *equations.cell(row, column(pair)) += part * ingress.weights[pair.hop];
                    *equations.cell(row, size) -= part * pair.ceilings;
                    *equations.right(row) += part * pair.demands;
                    of_next -= part;
                }
                if let Some(pair) = next {
                    *equations.cell(row, column(pair)) += of_next * ingress.weights[pair.hop];
                }
                *equations.cell(row, size) += sums.ceilings - farther.ceilings;
                *equations.right(row) -= sums.demands - farther.demands;
            }
        }
        let mut now: Vec<f64> = self.full.iter().map(|&way| self.ways[way].level).collect();
        now.push(self.ceiling.0);
        equations.subtract(&now);
    }

    /// Where the path leads, or comes from.
    fn direct(&mut self) -> Result<(), Lost> {
        self.assemble();
        let (direction, offset) = self.equations.line().ok_or(Lost)?;
        let largest = direction.iter().fold(0.0, |most: f64, slope| most.max(slope.abs()));
        for (place, &way) in self.full.iter().enumerate() {
            let way = &mut self.ways[way];
            way.level += offset[place];
            way.slope = direction[place] / largest;
        }
        let last = self.full.len();
        self.ceiling = (self.ceiling.0 + offset[last], direction[last] / largest);
        Ok(())
    }

    /// From the levels of ways and the ceiling: all rates, aggregates and loads.
    fn survey(&mut self) {
        let (ceiling, rise) = self.ceiling;
        for way in &mut self.ways {
            way.carried = (0.0, 0.0);
        }
        let count = self.ways.len();
        for (from, ingress) in self.ingresses.iter_mut().enumerate() {
            let (mut beyond, mut beyond_slope) = (0.0, 0.0);
            for pair in ingress.tight.iter_mut().rev() {
                let (way, weight) = (&self.ways[wrapped(from + pair.hop, count)], ingress.weights[pair.hop]);
                let (share, slope) = (weight * way.level, weight * way.slope);
                let holds = pair.holds;
                pair.level = (share - beyond - pair.demands - pair.ceilings * ceiling) / holds;
                pair.slope = (slope - beyond_slope - pair.ceilings * rise) / holds;
                (beyond, beyond_slope) = (share, slope);
            }
            let mut next = 0;
            for flow in &mut self.flows[ingress.flows.clone()] {
                while ingress.tight.get(next).is_some_and(|pair| pair.hop < flow.hops) {
                    next += 1;
                }
                (flow.rate, flow.slope) = match flow.held {
                    Held::Ceiling => (flow.ceiling * ceiling, flow.ceiling * rise),
                    Held::Demand => (flow.demand, 0.0),
                    Held::Pair => {
                        let pair = &ingress.tight[next - 1];
                        (pair.level, pair.slope)
                    }
                };
            }
            let (mut rate, mut slope) = (0.0, 0.0);
            for (place, flow) in self.flows[ingress.flows.clone()].iter().enumerate().rev() {
                (rate, slope) = (rate + flow.rate, slope + flow.slope);
                (ingress.sums[place].rate, ingress.sums[place].slope) = (rate, slope);
            }
            for hop in 0..ingress.weights.len() {
                let (rate, slope) = ingress.aggregate(hop);
                let carried = &mut self.ways[wrapped(from + hop, count)].carried;
                *carried = (carried.0 + rate, carried.1 + slope);
            }
        }
    }

    /// How what is left behind grows.
    fn slope_of(&self, left: Left) -> f64 {
        match left {
            Left::Nothing => self.ceiling.1,
            Left::Flow(flow, held) => {
                let flow = &self.flows[flow];
                let above = match held {
                    Held::Ceiling => flow.ceiling * self.ceiling.1,
                    Held::Demand => 0.0,
                    Held::Pair => holder(&self.ingresses[flow.ingress], flow.hops).map_or(0.0, |pair| pair.slope),
                };
                above - flow.slope
            }
            Left::Level(from, hop) => {
                let tight = &self.ingresses[from].tight;
                let place = tight.partition_point(|pair| pair.hop < hop);
                tight[place - 1].slope - tight[place].slope
            }
            Left::Pair(from, hop) => {
                let ingress = &self.ingresses[from];
                ingress.weights[hop] * self.ways[self.way(from, hop)].slope - ingress.aggregate(hop).1
            }
            Left::Way(way) => -self.ways[way].carried.1,
        }
    }

    /// The next bend, and how far it is. `None`: there is none.
    fn next(&self, forwards: f64) -> Option<(f64, Event)> {
        let mut first: Option<(f64, Event)> = None;
        // What has `room` below a limit that moves by `limit`, while it moves by `own` itself.
        let mut offer = |room: f64, limit: f64, own: f64, event: Event| {
            let nearing = forwards * (own - limit);
            if nearing > FLAT * (own.abs() + limit.abs()) {
                let step = room.max(0.0) / nearing;
                if first.is_none_or(|(least, _)| step < least) {
                    first = Some((step, event));
                }
            }
        };
        for (place, flow) in self.flows.iter().enumerate() {
            let (ceiling, rise) = (flow.ceiling * self.ceiling.0, flow.ceiling * self.ceiling.1);
            if flow.held != Held::Ceiling {
                offer(ceiling - flow.rate, rise, flow.slope, Event::Flow(place, Held::Ceiling));
            }
            if flow.held != Held::Demand {
                offer(flow.demand - flow.rate, 0.0, flow.slope, Event::Flow(place, Held::Demand));
            }
        }
        for (from, ingress) in self.ingresses.iter().enumerate() {
            let mut next = 0;
            for (place, flow) in ingress.flows.clone().zip(&self.flows[ingress.flows.clone()]) {
                while ingress.tight.get(next).is_some_and(|pair| pair.hop < flow.hops) {
                    next += 1;
                }
                if flow.held != Held::Pair
                    && let Some(pair) = next.checked_sub(1).map(|last| &ingress.tight[last])
                {
                    offer(pair.level - flow.rate, pair.slope, flow.slope, Event::Flow(place, Held::Pair));
                }
            }
            for (place, pair) in ingress.tight.windows(2).enumerate() {
                let room = pair[0].level - pair[1].level;
                offer(room, pair[0].slope, pair[1].slope, Event::Merge(from, place + 1));
            }
            for &way in &self.full {
                let hop = wrapped(way + self.ways.len() - from, self.ways.len());
                let Some(weight) = ingress.weights.get(hop) else { continue };
                if ingress.tight.binary_search_by_key(&hop, |pair| pair.hop).is_err() {
                    let ((sum, slope), way) = (ingress.aggregate(hop), &self.ways[way]);
                    offer(weight * way.level - sum, weight * way.slope, slope, Event::Tighten(from, hop));
                }
            }
        }
        for (place, way) in self.ways.iter().enumerate().filter(|(_, way)| way.column.is_none()) {
            offer(way.capacity - way.carried.0, 0.0, way.carried.1, Event::Fill(place));
        }
        first
    }

    /// Moves everything along the path.
    fn advance(&mut self, step: f64) {
        self.ceiling.0 += step * self.ceiling.1;
        for way in &mut self.ways {
            way.level += step * way.slope;
        }
        for flow in &mut self.flows {
            flow.rate += step * flow.slope;
        }
        for ingress in &mut self.ingresses {
            ingress.tight.iter_mut().for_each(|pair| pair.level += step * pair.slope);
            ingress.sums.iter_mut().for_each(|sums| sums.rate += step * sums.slope);
        }
    }

    /// Changes what holds whom.
    fn bend(&mut self, event: Event) -> Left {
        match event {
            Event::Flow(place, held) => {
                let flow = &mut self.flows[place];
                let former = core::mem::replace(&mut flow.held, held);
                let (from, hops) = (flow.ingress, flow.hops);
                let tight = &self.ingresses[from].tight;
                let last = tight.partition_point(|pair| pair.hop < hops);
                if former == Held::Pair && tight[last - 1].holds < 1.5 {
                    return self.loosen(from, last - 1);
                }
                Left::Flow(place, former)
            }
            Event::Merge(from, place) => self.loosen(from, place),
            Event::Tighten(from, hop) => self.tighten(from, hop),
            Event::Fill(way) => {
                let count = self.ways.len();
                let mut highest: Option<(f64, usize, usize)> = None;
                for (from, ingress) in self.ingresses.iter().enumerate() {
                    let hop = wrapped(way + count - from, count);
                    if let Some(weight) = ingress.weights.get(hop) {
                        let level = ingress.aggregate(hop).0 / weight;
                        if highest.is_none_or(|(highest, ..)| level > highest) {
                            highest = Some((level, from, hop));
                        }
                    }
                }
                let Some((level, from, hop)) = highest else { return Left::Way(way) };
                let column = Some(self.full.len());
                self.full.push(way);
                let way = &mut self.ways[way];
                (way.column, way.level, way.slope) = (column, level, 0.0);
                self.tighten(from, hop)
            }
        }
    }

    /// The pair becomes tight: it holds those of its flows that have most.
    fn tighten(&mut self, from: usize, hop: usize) -> Left {
        let way = self.way(from, hop);
        self.ways[way].tight += 1;
        let ingress = &mut self.ingresses[from];
        let place = ingress.tight.partition_point(|pair| pair.hop < hop);
        let next = ingress.tight.get(place);
        let (end, level) = next.map_or((usize::MAX, f64::NEG_INFINITY), |pair| (pair.hop, pair.level));
        let begin = place.checked_sub(1).map_or(0, |last| ingress.tight[last].hop);
        let new = Tight { hop, holds: 0.0, ceilings: 0.0, demands: 0.0, level: 0.0, slope: 0.0 };
        ingress.tight.insert(place, new);
        let flows = || ingress.flows.clone().zip(&self.flows[ingress.flows.clone()]);
        let before = flows().any(|(_, flow)| flow.held == Held::Pair && flow.hops > begin && flow.hops <= hop);
        let within = || flows().filter(|(_, flow)| flow.hops > hop && flow.hops <= end);
        if within().any(|(_, flow)| flow.held == Held::Pair) {
            // They were the previous pair's.
            return if before { Left::Level(from, hop) } else { self.loosen(from, place - 1) };
        }
        let largest = within().max_by(|(_, a), (_, b)| a.rate.total_cmp(&b.rate));
        match largest.filter(|(_, flow)| flow.rate > level).map(|(largest, _)| largest) {
            Some(largest) => {
                let former = core::mem::replace(&mut self.flows[largest].held, Held::Pair);
                Left::Flow(largest, former)
            }
            // Those of the next pair have most, and all of them are this one's too.
            None => self.loosen(from, place + 1),
        }
    }

    /// The tight pair at this place of an ingress's is it no longer; the last one of a way frees the way.
    fn loosen(&mut self, from: usize, place: usize) -> Left {
        let hop = self.ingresses[from].tight.remove(place).hop;
        let place = self.way(from, hop);
        let way = &mut self.ways[place];
        way.tight -= 1;
        if way.tight > 0 {
            return Left::Pair(from, hop);
        }
        way.slope = 0.0;
        if let Some(column) = way.column.take() {
            self.full.swap_remove(column);
            if let Some(&moved) = self.full.get(column) {
                self.ways[moved].column = Some(column);
            }
        }
        Left::Way(place)
    }
}

/// A place less than twice around the ring; a division would cost more than all else.
fn wrapped(place: usize, count: usize) -> usize {
    if place < count { place } else { place - count }
}

/// The node at this place in the direction of the data.
fn node(ringlet: Ringlet, nodes: usize, place: usize) -> NodeId {
    NodeId::at(if ringlet == Ringlet::Zero { place } else { nodes - 1 - place })
}

/// The last tight pair on the way of a flow.
fn holder(ingress: &Ingress, hops: usize) -> Option<&Tight> {
    let last = ingress.tight.partition_point(|pair| pair.hop < hops);
    last.checked_sub(1).map(|last| &ingress.tight[last])
}

#[cfg(test)]
mod tests;
