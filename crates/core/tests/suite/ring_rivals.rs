//! DVSR's rivals alone, message by message: what their nodes put in, pass on and limit, against the formulas that their files name.

use fairspan_core::ring::dba::Dba;
use fairspan_core::ring::explicit::Explicit;
use fairspan_core::ring::fairness::{Fairness, Station, View};
use fairspan_core::ring::message::{self, Bits, Head, Kind};
use fairspan_core::ring::topology::{Topology, Way};
use fairspan_core::ring::{NodeId, Ringlet};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};

const INTERVAL: Span = Span::from_millis(1);
const NOMINAL: u64 = 1_000_000_000;
const WHOLE: f64 = 65_535.0;
/// The place of the node whose agent it is; the node before it makes the messages.
const HERE: usize = 1;

/// A link's fair rate after an interval in which this came, from each ingress and from the node's own station, as shares of the link. `before`: its fair
/// rate until now.
type Formula = fn(others: &[f64], own: f64, before: f64) -> f64;

/// F += (C - A) / M, with M = A / F but at least a tenth, and F between C / N and C.
fn dba(others: &[f64], own: f64, before: f64) -> f64 {
    let arrivals = others.iter().sum::<f64>() + own;
    let flows = (arrivals / before).max(0.1);
    (before + (1.0 - arrivals) / flows).clamp(1.0 / (others.len() + 1) as f64, 1.0)
}

/// Table I: the largest load and what is idle, or what is left for those that want more than it.
fn explicit(others: &[f64], own: f64, _: f64) -> f64 {
    let mut loads: Vec<f64> = others.iter().copied().chain([own]).filter(|load| *load > 0.0).collect();
    loads.sort_by(f64::total_cmp);
    let Some(largest) = loads.last().copied() else { return 1.0 };
    let sum: f64 = loads.iter().sum();
    if sum < 1.0 {
        return largest + 1.0 - sum;
    }
    let (mut left, mut count) = (1.0, loads.len() as f64);
    for load in loads {
        if load >= left / count || largest < left / count {
            break;
        }
        (left, count) = (left - load, count - 1.0);
    }
    left / count
}

fn limits_are_the_least_on_the_way(agent: &impl Fairness, topology: &Topology, ringlet: Ringlet, codes: &[u16]) {
    let mut least = u16::MAX;
    for hops in 0..codes.len() - 1 {
        let [link, egress] = [hops, hops + 1].map(|hops| topology.after(NodeId::at(HERE), ringlet, hops));
        least = least.min(codes[link.index()]);
        let limit = agent.limit(egress).expect("a limit for each egress").as_bits_per_sec();
        let right = (f64::from(least) / WHOLE * NOMINAL as f64) as u64;
        assert!(limit.abs_diff(right) <= 1, "{limit} to {egress}, not {right}");
        assert!((agent.fair(link).expect("a node") - f64::from(codes[link.index()]) / WHOLE).abs() < 1e-9);
    }
    let beyond = NodeId::at(codes.len());
    assert_eq!((agent.limit(beyond), agent.fair(beyond)), (None, None), "no such node");
}

fn holds(agent: &mut impl Fairness, kind: Kind, formula: Formula, ringlet: Ringlet, rng: &mut Rng, nodes: usize) {
    let topology = Topology::ring(nodes, Rate::from_bits_per_sec(NOMINAL));
    let mut station = vec![Station::default(); nodes];
    let (mut now, mut measured, mut sequence) = (Time::ZERO, Time::ZERO, 0);
    // As shares of the nominal rate; the own one of the link too, as the agent keeps it.
    let (mut codes, mut fair) = (vec![65_535_u16; nodes], 1.0);
    let mut came = vec![0u64; nodes];
    let mut heard = Time::ZERO;
    for step in 0..200 {
        let capacity = NOMINAL / (1 + rng.below(2));
        let by_itself = step > 0 && rng.below(8) == 0;
        let next = if by_itself {
            agent.poll_timeout().expect("it acts when it hears nothing for three intervals")
        } else {
            now + Span::from_nanos(250_000 + rng.below(1_000_000))
        };
        assert!(!by_itself || next == heard + INTERVAL.times(3), "{kind:?}: {next:?}");
        let active = rng.below(4);
        for (ingress, came) in came.iter_mut().enumerate() {
            let bytes = if rng.below(4) < active { rng.below(next.since(now).as_nanos() / 8) as u32 } else { 0 };
            agent.on_arrival(now, NodeId::at(ingress), bytes);
            *came += u64::from(bytes);
        }
        now = next;
        for egress in &mut station {
            egress.waiting = if rng.below(2) == 0 { 3000 } else { 0 };
        }
        station[nodes - 1].waiting += rng.below(2);
        let view = View {
            topology: &topology,
            node: NodeId::at(HERE),
            ringlet,
            capacity: Rate::from_bits_per_sec(capacity),
            nominal: Rate::from_bits_per_sec(NOMINAL),
            transit: 0,
            transit_limit: 100_000,
            station: &station,
        };
        let mut sent = Vec::new();
        if by_itself {
            agent.handle_timeout(now, &view);
            // Next it acts after an interval, unless it is told.
            assert_eq!(agent.poll_timeout(), Some(now + INTERVAL));
            heard = Time::from_nanos(now.as_nanos() - INTERVAL.times(2).as_nanos());
        } else {
            let kept = codes[HERE];
            codes.iter_mut().for_each(|code| *code = 1 + rng.below(65_535) as u16);
            (codes[HERE], sequence) = (kept, sequence + 1);
            let head = Head { kind, bits: Bits::Sixteen, originator: NodeId::at(0), sequence };
            let mut told = codes.clone();
            told[HERE] = 7;
            message::encode(head, &told, &mut sent);
            assert_eq!(agent.handle_control(now, &view, &sent), Ok(()), "{kind:?}");
            heard = now;
        }
        if now.since(measured).times(2) >= INTERVAL {
            let line = capacity as f64 / 8e9 * now.since(measured).as_nanos() as f64;
            let mut loads: Vec<f64> = came.iter().map(|bytes| *bytes as f64 / line).collect();
            let mut own = loads.remove(HERE);
            let before = if kind == Kind::Dba {
                fair
            } else {
                f64::from(codes[HERE]) / WHOLE * NOMINAL as f64 / capacity as f64
            };
            if station.iter().any(|egress| egress.waiting > 3000) {
                own = own.max(before);
            }
            fair = formula(&loads, own, before);
            let share = fair * capacity as f64 / NOMINAL as f64;
            let expected = (share.min(1.0) * WHOLE) as u16;
            let found = (agent.fair(NodeId::at(HERE)).expect("a node of the ring") * WHOLE).round() as u16;
            assert!(found.abs_diff(expected.max(1)) <= 1, "{kind:?}, step {step}: {found}, not {expected}");
            (codes[HERE], measured) = (found, now);
            came.fill(0);
        }
        if let Some(passed) = agent.poll_control() {
            let (head, passed) = message::decode(kind, Bits::Sixteen, nodes, passed).expect("a message");
            assert_eq!((head.originator, head.sequence), (NodeId::at(0), sequence));
            assert!(
                passed.iter().eq(codes.iter().copied()),
                "{kind:?}: with its own rate in place of what stood there"
            );
            assert!(!by_itself);
        } else {
            assert!(by_itself, "{kind:?}: what came goes on");
        }
        assert_eq!(agent.poll_control(), None);
        limits_are_the_least_on_the_way(agent, &topology, ringlet, &codes);
    }
}

#[test]
fn dba_and_explicit_rates_follow_their_formulas_whatever_comes_and_whenever_it_is_told() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let nodes = 3 + rng.below(8) as usize;
        let ringlet = Ringlet::BOTH[rng.below(2) as usize];
        let here = NodeId::at(HERE);
        let mut agent = Dba::new(here, ringlet, nodes, INTERVAL, Time::ZERO);
        holds(&mut agent, Kind::Dba, dba, ringlet, &mut rng, nodes);
        let mut agent = Explicit::new(here, ringlet, nodes, INTERVAL, Time::ZERO);
        holds(&mut agent, Kind::Explicit, explicit, ringlet, &mut rng, nodes);
    }
}

#[test]
fn where_a_link_is_lost_the_node_before_it_makes_the_messages_from_then_on() {
    let here = NodeId::at(HERE);
    let agents = |ringlet| -> [Box<dyn Fairness>; 2] {
        [
            Box::new(Dba::new(here, ringlet, 5, INTERVAL, Time::ZERO)),
            Box::new(Explicit::new(here, ringlet, 5, INTERVAL, Time::ZERO)),
        ]
    };
    for ringlet in Ringlet::BOTH {
        for mut agent in agents(ringlet) {
            let mut topology = Topology::ring(5, Rate::from_bits_per_sec(NOMINAL));
            let station = vec![Station::default(); 5];
            let change = |agent: &mut dyn Fairness, at: Time, topology: &Topology| {
                let rate = Rate::from_bits_per_sec(NOMINAL);
                let view = View {
                    topology,
                    node: here,
                    ringlet,
                    capacity: rate,
                    nominal: rate,
                    transit: 0,
                    transit_limit: 100_000,
                    station: &station,
                };
                agent.handle_change(at, &view);
            };
            let at = Time::from_millis(1);
            change(&mut *agent, at, &topology);
            assert_eq!(agent.poll_timeout(), Some(Time::ZERO + INTERVAL.times(3)), "the first node makes them");
            assert_eq!(agent.limit(NodeId::at(0)), Some(Rate::from_bits_per_sec(NOMINAL)), "nothing is known yet");
            let way = topology.way(here, ringlet);
            topology.set_way(here, ringlet, Way { up: false, ..way });
            change(&mut *agent, at, &topology);
            assert_eq!(agent.poll_timeout(), Some(at));
        }
    }
}
