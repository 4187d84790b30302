//! Flows that move behind markers, over links that keep their order.

use super::*;
use crate::rng::Rng;
use alloc::collections::BTreeMap;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// What is under way on a link, by its time of arrival.
#[derive(Clone, Copy, Debug)]
enum Flight {
    Packet { flow: u16, number: u32 },
    Marker { token: u32 },
}

/// Links that keep their order, a policy that throws dice, and a receiver that looks at each flow's numbers.
struct Net {
    rng: Rng,
    now: u64,
    flush: Flush<(u16, u32)>,
    queues: Vec<VecDeque<(u16, u32)>>,
    flights: BTreeMap<(u64, u64), (usize, Flight)>,
    answers: BTreeMap<(u64, u64), u32>,
    last: Vec<u64>,
    delay: Vec<u64>,
    usable: LinkSet,
    loss: f64,
    count: u64,
    next: [u32; 40],
    newest: [Option<u32>; 40],
    arrived: u32,
    refused: u32,
    reordered: u32,
}

impl Net {
    fn new(seed: u64, links: usize, wait: Span, loss: f64, skew: u64) -> Net {
        let mut rng = Rng::new(seed);
        let delay = (0..links).map(|_| MS + rng.below(skew * MS)).collect();
        let mut flush = Flush::new(Config { wait }, 50_000, 7);
        let usable = LinkSet::below(links);
        flush.on_links(Time::ZERO, usable);
        Net {
            rng,
            now: 0,
            flush,
            queues: vec![VecDeque::new(); links],
            flights: BTreeMap::new(),
            answers: BTreeMap::new(),
            last: vec![0; links],
            delay,
            usable,
            loss,
            count: 0,
            next: [0; 40],
            newest: [None; 40],
            arrived: 0,
            refused: 0,
            reordered: 0,
        }
    }

    fn time(&self) -> Time {
        Time::from_nanos(self.now)
    }

    fn put(&mut self, flow: u16, number: u32) {
        let n = self.rng.below(self.usable.len() as u64) as usize;
        let Some(wanted) = self.usable.nth(n) else { return };
        let now = self.time();
        match self.flush.place(now, flow, wanted, 1000, (flow, number)) {
            Place::Queue(link, item) => self.queue(link, flow, item),
            Place::Held => {}
            Place::Refused(_) => self.refused += 1,
        }
        self.release();
    }

    fn queue(&mut self, link: ChannelId, flow: u16, item: (u16, u32)) {
        assert!(self.usable.contains(link), "a link that is down gets nothing");
        // A full queue drops it.
        if self.queues[link.index()].len() < 60 {
            self.queues[link.index()].push_back(item);
            self.flush.on_queued(flow, link);
        }
    }

    fn release(&mut self) {
        while let Some((link, flow, item)) = self.flush.poll_release() {
            self.queue(link, flow, item);
        }
    }

    fn fly(&mut self, link: usize, flight: Flight) {
        if self.rng.unit() < self.loss {
            return;
        }
        self.count += 1;
        // Up to twice the delay, in order.
        let at = (self.now + self.delay[link] + self.rng.below(self.delay[link])).max(self.last[link]);
        self.last[link] = at;
        self.flights.insert((at, self.count), (link, flight));
    }

    /// A millisecond passes: each link sends up to four packets, markers first where they are due.
    fn step(&mut self) {
        self.now += MS;
        let now = self.time();
        self.flush.handle_timeout(now);
        self.release();
        for link in self.usable.iter() {
            for _ in 0..4 {
                if self.flush.due(now).contains(link) {
                    let token = self.flush.mark(now, link).unwrap();
                    self.fly(link.index(), Flight::Marker { token });
                }
                let Some((flow, number)) = self.queues[link.index()].pop_front() else { break };
                self.flush.on_left(link, 1);
                // One in fifty is dropped at the head.
                if self.rng.below(50) > 0 {
                    self.fly(link.index(), Flight::Packet { flow, number });
                }
            }
        }
        while let Some(entry) = self.flights.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                (_, Flight::Packet { flow, number }) => {
                    self.arrived += 1;
                    let newest = &mut self.newest[usize::from(flow)];
                    self.reordered += u32::from(newest.is_some_and(|newest| newest > number));
                    *newest = (*newest).max(Some(number));
                }
                (link, Flight::Marker { token }) if self.rng.unit() >= self.loss => {
                    self.count += 1;
                    self.answers.insert((self.now + self.delay[link], self.count), token);
                }
                _ => {}
            }
        }
        while let Some(entry) = self.answers.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let token = entry.remove();
            self.flush.on_answer(now, token);
            self.release();
        }
    }

    fn set_usable(&mut self, usable: LinkSet) {
        let now = self.time();
        let went = self.usable - usable;
        self.usable = usable;
        self.flush.on_links(now, usable);
        for link in went {
            // What a dead link still brings, it brings within the wait.
            let latest = self.now + self.flush.config.wait.as_nanos() - 2 * MS;
            self.flights.retain(|(at, _), (on, _)| *on != link.index() || *at <= latest);
            self.last[link.index()] = self.last[link.index()].min(latest);
            let left = core::mem::take(&mut self.queues[link.index()]);
            self.flush.on_left(link, left.len() as u64);
            for (flow, number) in left {
                self.put(flow, number);
            }
        }
        while let Some((flow, number)) = self.flush.poll_again() {
            self.put(flow, number);
        }
    }

    fn send(&mut self, flows: u64) {
        let flow = self.rng.below(flows) as usize;
        let number = self.next[flow];
        self.next[flow] += 1;
        self.put(flow as u16, number);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_reordered_at_any_loss_and_skew(
        seed: u64, links in 2usize..6, wait in 0u64..300, loss in 0.0..0.9f64, skew in 1u64..200, flows in 1u64..40,
    ) {
        let mut net = Net::new(seed, links, Span::from_millis(wait), loss, skew);
        for _ in 0..3000 {
            for _ in 0..net.rng.below(6) { net.send(flows); }
            net.step();
            prop_assert!(net.flush.bytes() <= 50_000);
        }
        prop_assert_eq!(net.reordered, 0);
        for _ in 0..1000 { net.step(); }
        prop_assert_eq!((net.flush.bytes(), net.refused), (0, 0), "nothing is held for ever, nothing is lost in it");
        let queued: usize = net.queues.iter().map(VecDeque::len).sum();
        prop_assert_eq!(queued, 0);
    }

    #[test]
    fn nothing_is_reordered_when_links_fail_that_bring_nothing_late(
        seed: u64, links in 2usize..6, wait in 20u64..300, loss in 0.0..0.5f64, skew in 1u64..200, flows in 1u64..40,
    ) {
        let mut net = Net::new(seed, links, Span::from_millis(wait), loss, skew);
        let all = net.usable.bits();
        for n in 0..4000 {
            for _ in 0..net.rng.below(6) { net.send(flows); }
            net.step();
            if n % 97 == 96 {
                let bits = net.rng.next_u64() & all;
                net.set_usable(LinkSet::from_bits(if bits == 0 { 1 } else { bits }));
            }
        }
        prop_assert_eq!(net.reordered, 0);
        prop_assert!(net.arrived > 100, "{}", net.arrived);
    }
}

#[test]
fn without_loss_every_packet_arrives_and_flows_do_move() {
    let mut net = Net::new(3, 4, Span::from_millis(100), 0.0, 20);
    for _ in 0..5000 {
        net.send(20);
        net.step();
    }
    for _ in 0..500 {
        net.step();
    }
    let counters = *net.flush.counters();
    // One in fifty was dropped at the head of its queue: 100 of 5000, standard deviation 10.
    assert!((4850..4950).contains(&net.arrived), "{}", net.arrived);
    assert!(counters.moved > 500 && counters.held > 500, "{counters:?}");
    assert!(counters.markers < 2 * counters.moved + 5000, "{counters:?}");
    assert_eq!(net.reordered, 0);
}

#[test]
fn a_flow_that_paused_moves_at_once_and_one_that_did_not_waits_for_its_marker() {
    let mut flush = Flush::new(Config::default(), 10_000, 0);
    let (a, b) = (ChannelId(0), ChannelId(1));
    let at = Time::from_millis;
    flush.on_links(at(0), LinkSet::from_bits(3));
    assert_eq!(flush.place(at(0), 5, a, 100, 'p'), Place::Queue(a, 'p'));
    flush.on_queued(5, a);
    assert_eq!(flush.place(at(1), 5, b, 100, 'q'), Place::Held);
    assert!(flush.due(at(1)).is_empty(), "the marker goes behind the packet");
    flush.on_left(a, 1);
    assert_eq!(flush.due(at(2)), LinkSet::only(a));
    let token = flush.mark(at(2), a).unwrap();
    assert!(flush.due(at(2)).is_empty());
    assert!(!flush.on_answer(at(3), token.wrapping_add(1)), "nobody's answer");
    assert_eq!(flush.poll_release(), None);
    assert!(flush.on_answer(at(4), token));
    assert_eq!(flush.poll_release(), Some((b, 5, 'q')));
    flush.on_queued(5, b);
    // All of it arrived: the unasked marker of b tells.
    flush.on_left(b, 1);
    let token = flush.mark(at(20), b).unwrap();
    flush.on_answer(at(22), token);
    assert_eq!(flush.place(at(23), 5, a, 100, 'r'), Place::Queue(a, 'r'));
    assert_eq!(flush.counters().held, 1);
}

#[test]
fn at_the_bound_a_flow_stays_and_from_a_dead_link_it_goes() {
    let wait = Span::from_millis(30);
    let mut flush = Flush::new(Config { wait }, 10_000, 0);
    let (a, b) = (ChannelId(0), ChannelId(1));
    let at = Time::from_millis;
    flush.on_links(at(0), LinkSet::from_bits(3));
    flush.place(at(0), 1, a, 100, 1);
    flush.on_queued(1, a);
    assert_eq!(flush.place(at(5), 1, b, 100, 2), Place::Held);
    assert_eq!(flush.poll_timeout(LinkSet::EMPTY), Some(at(35)));
    flush.handle_timeout(at(35));
    assert_eq!(flush.poll_release(), Some((a, 1, 2)));
    flush.on_queued(1, a);
    assert_eq!(flush.place(at(36), 1, b, 100, 3), Place::Queue(a, 3), "not tried again at once");
    flush.on_queued(1, a);
    flush.on_links(at(40), LinkSet::only(b));
    assert_eq!(flush.place(at(50), 1, b, 100, 4), Place::Held);
    flush.handle_timeout(at(79));
    assert_eq!(flush.poll_release(), None);
    flush.handle_timeout(at(80));
    assert_eq!(flush.poll_release(), Some((b, 1, 4)));
}

#[test]
fn what_is_held_is_bounded_in_bytes_and_flows() {
    let mut flush = Flush::new(Config::default(), 1_000, 0);
    let (a, b) = (ChannelId(0), ChannelId(1));
    flush.on_links(Time::ZERO, LinkSet::from_bits(3));
    for flow in 0..20 {
        flush.place(Time::ZERO, flow, a, 100, 0);
        flush.on_queued(flow, a);
    }
    let held = |place: Place<i32>| place == Place::Held;
    let count = (0..20).filter(|flow| held(flush.place(Time::ZERO, *flow, b, 100, 0))).count();
    assert_eq!((count, flush.bytes()), (10, 1_000));
    let mut flush = Flush::new(Config::default(), usize::MAX, 0);
    flush.on_links(Time::ZERO, LinkSet::from_bits(3));
    for flow in 0..2000 {
        flush.place(Time::ZERO, flow, a, 1, 0);
        flush.on_queued(flow, a);
    }
    let count = (0..2000).filter(|flow| held(flush.place(Time::ZERO, *flow, b, 1, 0))).count();
    assert_eq!(count, MOVES);
}

/// A packet of `flow` that goes into the queue of `link`, and leaves it if `leaves`.
fn queued(flush: &mut Flush<u32>, flow: u16, link: ChannelId, leaves: bool) {
    assert_eq!(flush.place(Time::ZERO, flow, link, 100, 0), Place::Queue(link, 0));
    flush.on_queued(flow, link);
    flush.on_left(link, u64::from(leaves));
}

fn three(wait: Span, limit: usize) -> (Flush<u32>, [ChannelId; 3]) {
    let mut flush = Flush::new(Config { wait }, limit, 0);
    flush.on_links(Time::ZERO, LinkSet::from_bits(7));
    (flush, [0, 1, 2].map(ChannelId))
}

const WAIT: Span = Span::from_millis(50);

#[test]
fn what_moved_and_what_stayed_is_counted_and_a_flow_that_is_wanted_back_did_neither() {
    let (mut flush, [a, b, _]) = three(WAIT, 250);
    (0..4).for_each(|flow| queued(&mut flush, flow, a, false));
    let place = |flush: &mut Flush<u32>, ms, flow, link| flush.place(Time::from_millis(ms), flow, link, 100, 0);
    assert_eq!([0, 1].map(|flow| place(&mut flush, 0, flow, b)), [Place::Held; 2]);
    // Wanted back, and then without room: both are released where they were.
    assert_eq!((place(&mut flush, 1, 0, a), flush.counters().stayed), (Place::Held, 0));
    assert_eq!((place(&mut flush, 1, 2, b), place(&mut flush, 1, 1, b)), (Place::Held, Place::Held));
    assert_eq!((flush.counters().stayed, flush.counters().moved, flush.bytes()), (1, 0, 100));
    assert_eq!(place(&mut flush, 1, 3, b), Place::Held);
    flush.handle_timeout(Time::from_millis(51));
    assert_eq!((flush.counters().stayed, flush.counters().moved), (3, 0));
    // From a link that is down flows move when the wait is over, held or not.
    let (mut flush, [a, b, _]) = three(WAIT, 250);
    (0..3).for_each(|flow| queued(&mut flush, flow, a, false));
    flush.on_links(Time::ZERO, LinkSet::only(b));
    assert_eq!([0, 1].map(|flow| place(&mut flush, 0, flow, b)), [Place::Held; 2]);
    flush.handle_timeout(Time::from_millis(50));
    assert_eq!((flush.counters().moved, flush.counters().stayed), (2, 0));
    assert_eq!((place(&mut flush, 50, 2, b), flush.counters().moved), (Place::Queue(b, 0), 3));
}

#[test]
fn without_a_wait_nothing_is_held() {
    let (mut flush, [a, b, _]) = three(Span::ZERO, 1000);
    queued(&mut flush, 1, a, false);
    assert_eq!(flush.place(Time::ZERO, 1, b, 100, 0), Place::Queue(a, 0));
}

#[test]
fn only_the_flows_of_a_link_that_went_down_are_placed_again() {
    let (mut flush, [a, b, c]) = three(WAIT, 1000);
    queued(&mut flush, 1, a, false);
    queued(&mut flush, 2, b, false);
    assert_eq!([1, 2].map(|flow| flush.place(Time::ZERO, flow, c, 100, flow.into())), [Place::Held; 2]);
    flush.on_links(Time::ZERO, LinkSet::from_bits(0b110));
    assert_eq!((flush.poll_again(), flush.poll_again()), (Some(1), None));
}

#[test]
fn a_marker_goes_when_something_has_left_that_is_not_confirmed_and_ever_more_seldom_while_nobody_answers() {
    let (mut flush, [a, ..]) = three(WAIT, 1000);
    let (only, at) = (LinkSet::only(a), Time::from_millis);
    queued(&mut flush, 1, a, false);
    assert_eq!(flush.poll_timeout(only), None, "it has not left yet");
    flush.on_left(a, 1);
    assert_eq!((flush.poll_timeout(only), flush.poll_timeout(LinkSet::EMPTY)), (Some(at(10)), None));
    for (now, next) in [(10, 60), (60, 160), (160, 360), (360, 760), (760, 1560), (1560, 2560), (2560, 3560)] {
        assert!(flush.due(Time::from_nanos(now * MS - 1)).is_empty() && flush.due(at(now)) == only);
        flush.mark(at(now), a);
        assert_eq!(flush.poll_timeout(only), Some(at(next)));
    }
    assert_eq!(flush.counters().markers, 7);
}

#[test]
fn how_long_answers_take_is_averaged_over_eight_and_says_when_the_next_marker_goes() {
    let (mut flush, [a, ..]) = three(WAIT, 1000);
    let (only, at) = (LinkSet::only(a), Time::from_millis);
    queued(&mut flush, 1, a, true);
    let token = flush.mark(at(10), a).unwrap();
    flush.on_answer(at(40), token);
    assert_eq!(flush.poll_timeout(only), None, "all is confirmed");
    queued(&mut flush, 1, a, true);
    assert_eq!(flush.poll_timeout(only), Some(at(40)), "30 ms behind the one before");
    let token = flush.mark(at(100), a).unwrap();
    assert_eq!(flush.poll_timeout(only), Some(at(180)), "an answer has twice 30 ms, and 20");
    flush.on_answer(at(122), token);
    queued(&mut flush, 1, a, true);
    assert_eq!(flush.poll_timeout(only), Some(at(129)), "7/8 of 30 ms and 1/8 of 22");
}

#[test]
fn an_answer_may_be_late_and_a_marker_behind_the_packet_is_not_asked_for_twice() {
    let (mut flush, [a, b, _]) = three(WAIT, 10_000);
    let at = Time::from_millis;
    queued(&mut flush, 1, a, true);
    let first = flush.mark(at(1), a).unwrap();
    assert_eq!(flush.place(at(2), 1, b, 100, 0), Place::Held);
    assert!(flush.due(at(2)).is_empty(), "it is under way");
    queued(&mut flush, 2, a, true);
    queued(&mut flush, 3, a, false);
    assert_eq!([2, 3].map(|flow| flush.place(at(2), flow, b, 100, 0)), [Place::Held; 2]);
    assert_eq!(flush.due(at(2)), LinkSet::only(a), "behind the second");
    flush.mark(at(2), a);
    assert!(flush.due(at(2)).is_empty(), "the third has not left yet");
    flush.on_left(a, 1);
    assert_eq!(flush.due(at(2)), LinkSet::only(a));
    flush.mark(at(3), a);
    assert!(flush.on_answer(at(3), first), "the first of three");
    assert_eq!(flush.poll_release(), Some((b, 1, 0)));
    assert_eq!(flush.poll_release(), None);
}

#[test]
fn at_most_eight_markers_are_under_way_before_their_time() {
    let (mut flush, [a, b, _]) = three(WAIT, 10_000);
    let mut marked = 0;
    for flow in 0..20 {
        queued(&mut flush, flow, a, true);
        assert_eq!(flush.place(Time::ZERO, flow, b, 100, 0), Place::Held);
        if !flush.due(Time::ZERO).is_empty() {
            flush.mark(Time::ZERO, a);
            marked += 1;
        }
    }
    assert_eq!(marked, UNDER_WAY);
}
