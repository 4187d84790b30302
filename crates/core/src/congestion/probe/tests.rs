use super::*;
use crate::congestion::{Algorithm, AnyLaw, Config};
use crate::loss::delivery_rate::{DeliveryRate, Stamp};
use crate::rng::Rng;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

const PACKET: u64 = 1500;
/// A step of the clock, in microseconds.
const STEP: u64 = 50;
/// How long what arrived is kept until it is told, in microseconds.
const REPORT: u64 = 5_000;
const MICROS: fn(u64) -> Time = |micros| Time::from_nanos(micros * 1000);

struct Flow {
    law: AnyLaw,
    rate: DeliveryRate,
    from: u64,
    /// What its application gives it.
    gives: Gives,
    in_flight: u64,
    sent: u64,
    paced: f64,
    delivered: u64,
    /// What arrived: when, what it waited, when it was sent, its number, whether it was lost.
    arrived: VecDeque<(u64, u64, u64, u64, Stamp, bool)>,
    told: u64,
    /// What was lost; up to which number all losses are one episode.
    lost: u64,
    episode: u64,
}

/// What an application gives a flow to send: at most so many bytes under way; or so many bytes at once, every so many microseconds.
#[derive(Clone, Copy)]
enum Gives {
    Window(u64),
    Bursts(u64, u64),
}

/// A path: `(Mbit/s, from second)`, round trip in ms, queue in packets, one in how many is lost.
struct Path<'a> {
    rates: &'a [(f64, f64)],
    trip: u64,
    room: u64,
    loses: u64,
}

/// Flows that begin at these seconds, over one path: each flow's Mbit/s and the mean queue in ms, of each second.
fn run(path: &Path<'_>, hint: Option<Rate>, starts: &[f64], seconds: u64) -> Vec<(Vec<f64>, f64)> {
    run_with(path, hint, starts, Gives::Window(u64::MAX), seconds)
}

/// The same of flows whose applications give them no more.
fn run_with(path: &Path<'_>, hint: Option<Rate>, starts: &[f64], gives: Gives, seconds: u64) -> Vec<(Vec<f64>, f64)> {
    let laws: Vec<_> = starts.iter().map(|start| (Algorithm::Probe, *start)).collect();
    run_laws(path, hint, &laws, gives, seconds).0
}

/// The same of flows of these laws; and the share of all packets that is lost.
fn run_laws(
    path: &Path<'_>,
    hint: Option<Rate>,
    starts: &[(Algorithm, f64)],
    gives: Gives,
    seconds: u64,
) -> (Vec<(Vec<f64>, f64)>, f64) {
    run_told(path, hint.map(PathRate::About), starts, gives, seconds)
}

/// The same of flows that are told of this rate.
fn run_told(
    path: &Path<'_>,
    told: Option<PathRate>,
    starts: &[(Algorithm, f64)],
    gives: Gives,
    seconds: u64,
) -> (Vec<(Vec<f64>, f64)>, f64) {
    let mut flows: Vec<Flow> = starts
        .iter()
        .map(|(law, start)| Flow {
            law: AnyLaw::new(&Config::new(*law, PACKET as u32)),
            rate: DeliveryRate::default(),
            from: (start * 1e6) as u64,
            gives,
            in_flight: 0,
            sent: 0,
            paced: 0.0,
            delivered: 0,
            arrived: VecDeque::new(),
            told: 0,
            lost: 0,
            episode: 0,
        })
        .collect();
    if let Some(told) = told {
        flows.iter_mut().for_each(|flow| flow.law.on_path_rate(told));
    }
    let mut rng = Rng::new(7);
    let (mut free, mut out, mut queues) = (0.0_f64, Vec::new(), (0.0, 0u32));
    for now in (0..seconds * 1_000_000).step_by(STEP as usize) {
        let second = now as f64 / 1e6;
        let mbit = path.rates.iter().rev().find(|(_, from)| *from <= second).map_or(1.0, |(rate, _)| *rate);
        let number = flows.len();
        for turn in 0..number {
            let flow = &mut flows[(turn + (now / STEP) as usize) % number];
            flow.report(now);
            while now >= flow.from && flow.in_flight + PACKET <= flow.law.window().as_u64() && flow.paced <= now as f64
            {
                let over = match flow.gives {
                    Gives::Window(most) => flow.in_flight + PACKET > most,
                    Gives::Bursts(bytes, every) => (flow.sent + 1) * PACKET > (1 + (now - flow.from) / every) * bytes,
                };
                if over {
                    flow.rate.on_app_limited(flow.in_flight);
                    break;
                }
                let pace = flow
                    .law
                    .pacing_rate()
                    .filter(|_| flow.law.wants_delivery_rate())
                    .map_or(f64::INFINITY, |rate| rate.as_bits_per_sec() as f64 / 1e6);
                flow.paced = flow.paced.max(now as f64 - 1000.0) + PACKET as f64 * 8.0 / pace;
                let waits = (free - now as f64).max(0.0);
                let lost =
                    waits * mbit / 8.0 > (path.room * PACKET) as f64 || path.loses > 0 && rng.below(path.loses) == 0;
                if !lost {
                    free = free.max(now as f64) + PACKET as f64 * 8.0 / mbit;
                }
                queues = (queues.0 + waits, queues.1 + 1);
                let stamp = flow.rate.on_sent(MICROS(now), flow.in_flight == 0);
                let arrives = now + path.trip * 1000 + waits as u64;
                flow.arrived.push_back((arrives, waits as u64, now, flow.sent, stamp, lost));
                flow.sent += 1;
                flow.in_flight += PACKET;
            }
        }
        if (now + STEP).is_multiple_of(1_000_000) {
            let mbit = flows.iter_mut().map(|flow| core::mem::take(&mut flow.delivered) as f64 * 8.0 / 1e6);
            out.push((mbit.collect(), queues.0 / f64::from(queues.1.max(1)) / 1000.0));
            queues = (0.0, 0);
        }
    }
    let (lost, sent) = flows.iter().fold((0, 0), |(lost, sent), flow| (lost + flow.lost, sent + flow.sent));
    (out, lost as f64 / sent as f64)
}

/// Of flows that had these Mbit/s each second from the given one on: what each had, and Jain's index.
fn shares(out: &[(Vec<f64>, f64)], from: usize) -> (Vec<f64>, f64) {
    let mut shares = vec![0.0; out[0].0.len()];
    for (mbit, _) in &out[from..] {
        shares.iter_mut().zip(mbit).for_each(|(sum, mbit)| *sum += mbit / (out.len() - from) as f64);
    }
    let sum: f64 = shares.iter().sum();
    let jain = sum * sum / (shares.len() as f64 * shares.iter().map(|share| share * share).sum::<f64>());
    (shares, jain)
}

impl Flow {
    /// Tells the law what arrived, every [`REPORT`].
    fn report(&mut self, now: u64) {
        if now < self.told + REPORT {
            return;
        }
        self.told = now;
        let (mut bytes, mut newest, mut lost_bytes, mut begins) = (0, None, 0, false);
        let in_flight = Bytes::new(self.in_flight);
        while let Some(&(at, waited, sent, number, stamp, lost)) = self.arrived.front()
            && at <= now
        {
            self.arrived.pop_front();
            self.in_flight -= PACKET;
            if !lost {
                self.rate.on_delivered(MICROS(at), PACKET, MICROS(sent), false, &stamp);
                self.delivered += PACKET;
                bytes += PACKET;
                newest = Some((at - sent, waited, number));
            } else {
                self.lost += 1;
                lost_bytes += PACKET;
                begins |= number >= self.episode;
            }
        }
        if lost_bytes > 0 {
            if begins {
                self.episode = self.sent;
            }
            let (bytes, limit) = (Bytes::new(lost_bytes), Bytes::new(u64::MAX));
            self.law.on_lost(&Congested { now: MICROS(now), bytes, in_flight, limit, begins, exact: true });
        }
        let Some((trip, waited, number)) = newest else { return };
        self.law.on_acked(&Acked {
            now: MICROS(now),
            bytes: Bytes::new(bytes),
            in_flight: Bytes::new(self.in_flight),
            rtt: Some(Span::from_micros(trip)),
            waited: Some(Span::from_micros(waited)),
            smoothed_rtt: Span::from_micros(trip),
            up_to: number + 1,
            next: self.sent,
            limited: true,
            recovering: number < self.episode,
            delivery: self.rate.sample(),
        });
    }
}

const DSL: Path<'static> = Path { rates: &[(50.0, 0.0)], trip: 40, room: 500, loses: 0 };

#[test]
fn a_path_of_which_nothing_is_known_is_full_soon_and_its_queue_is_short() {
    // Nothing is known beforehand; or too little, the truth, too much.
    for hint in [None, Some(20), Some(50), Some(120)] {
        let out = run(&DSL, hint.map(Rate::from_mbit), &[0.0], 10);
        for (second, (mbit, queue)) in out.iter().enumerate().skip(2) {
            assert!((47.0..=50.1).contains(&mbit[0]), "{hint:?}, second {second}: {mbit:?} of 50 Mbit/s");
            assert!(*queue < if second < 5 { 40.0 } else { 8.0 }, "{hint:?}, second {second}: {queue} ms of queue");
        }
    }
}

#[test]
fn a_random_loss_is_not_congestion() {
    for loses in [100, 50, 20] {
        let out = run(&Path { loses, ..DSL }, None, &[0.0], 10);
        let arrives = 50.0 * (1.0 - 1.0 / loses as f64);
        for (second, (mbit, _)) in out.iter().enumerate().skip(2) {
            assert!(mbit[0] > 0.95 * arrives, "one in {loses}, second {second}: {mbit:?} of {arrives}");
        }
    }
}

#[test]
fn a_rate_that_falls_to_a_quarter_or_rises_fourfold_is_found_within_two_seconds() {
    let rates = [(48.0, 0.0), (12.0, 6.0), (48.0, 14.0)];
    let out = run(&Path { rates: &rates, ..DSL }, None, &[0.0], 20);
    for (second, (mbit, queue)) in out.iter().enumerate() {
        let (rate, since) = rates.iter().rev().find(|(_, from)| *from <= second as f64).unwrap();
        if second as f64 >= since + 2.0 {
            assert!((0.9 * rate..=1.01 * rate).contains(&mbit[0]), "second {second}: {mbit:?} of {rate}");
        }
        if second as f64 >= since + 4.0 {
            assert!(*queue < 30.0, "second {second}: {queue} ms of queue");
        }
    }
}

#[test]
fn flows_that_meet_share_fairly_whoever_came_first() {
    for starts in [vec![0.0, 3.0], vec![0.0, 2.0, 4.0, 6.0]] {
        let out = run(&DSL, None, &starts, 40);
        let (shares, jain) = shares(&out, 10);
        let sum: f64 = shares.iter().sum();
        assert!(jain > 0.9 && sum > 45.0, "{jain}: {shares:?}");
        let queue = out[10..].iter().map(|(_, queue)| queue).sum::<f64>() / 30.0;
        assert!(queue < 80.0, "{queue} ms, where there is room for 120");
    }
}

#[test]
fn flows_that_meet_do_not_keep_a_queue_full_whatever_room_it_has() {
    // Without looking at what overflows: 11, 3 and 2 % lost, and 11, 33 and 70 ms.
    for (room, most_lost, most_queue) in [(50, 0.03, 10.0), (200, 0.02, 28.0), (500, 0.015, 55.0)] {
        let path = Path { trip: 20, room, ..DSL };
        let laws = [(Algorithm::Probe, 0.0), (Algorithm::Probe, 2.0)];
        let (out, lost) = run_laws(&path, None, &laws, Gives::Window(u64::MAX), 40);
        let queue = out[10..].iter().map(|(_, queue)| queue).sum::<f64>() / 30.0;
        let (shares, jain) = shares(&out, 10);
        assert!(lost < most_lost && queue < most_queue, "{room} packets: {lost} lost, {queue} ms");
        assert!(jain > 0.95 && shares.iter().sum::<f64>() > 47.5, "{room} packets: {shares:?}");
    }
}

#[test]
fn beside_cubic_each_has_its_share_of_a_queue_of_a_round_trip_or_more() {
    // One and two of this law and one of CUBIC: buffers of 2.4 to 12 round trips, and of one.
    for (trip, room) in [(20, 200), (20, 500), (20, 1000), (60, 250)] {
        for count in [1, 2] {
            let mut laws = vec![(Algorithm::Probe, 0.0), (Algorithm::Probe, 1.0)];
            laws.truncate(count);
            laws.push((Algorithm::Cubic, 3.0));
            let (out, _) = run_laws(&Path { trip, room, ..DSL }, None, &laws, Gives::Window(u64::MAX), 80);
            let (shares, jain) = shares(&out, 20);
            assert!(jain > 0.85 && shares.iter().sum::<f64>() > 48.0, "{trip} ms, {room} packets: {jain}, {shares:?}");
        }
    }
}

#[test]
fn a_sender_that_has_little_to_send_leaves_no_queue_on_a_path() {
    // What it has fills the path and 56 ms of queue, from the beginning on; or 140 ms once the path has a fifth of its rate.
    let slower = Path { rates: &[(50.0, 0.0), (10.0, 10.0)], ..DSL };
    for (path, most, least) in [(DSL, 400, 45.0), (slower, 150, 8.5)] {
        let out = run_with(&path, None, &[0.0], Gives::Window(most * PACKET), 30);
        let mbit = out[15..].iter().map(|(mbit, _)| mbit[0]).sum::<f64>() / 15.0;
        let queue = out[15..].iter().map(|(_, queue)| queue).sum::<f64>() / 15.0;
        assert!(queue < 30.0 && mbit > least, "{queue} ms, {mbit} Mbit/s");
    }
}

#[test]
fn what_comes_in_bursts_leaves_no_queue_on_a_path_that_became_slower() {
    // 15 Mbit/s, all of a period at once: at 45 Mbit/s each burst leaves 200 ms in the path when that has 18.
    let path = Path { rates: &[(45.0, 0.0), (18.0, 10.0)], trip: 52, room: 1000, loses: 0 };
    for every in [200, 400, 700] {
        let out = run_with(&path, Some(Rate::from_mbit(45)), &[0.0], Gives::Bursts(every * 1875, every * 1000), 30);
        let mbit = out[15..].iter().map(|(mbit, _)| mbit[0]).sum::<f64>() / 15.0;
        let queue = out[15..].iter().map(|(_, queue)| queue).sum::<f64>() / 15.0;
        assert!(queue < 40.0 && mbit > 14.5, "every {every} ms: {queue} ms, {mbit} Mbit/s");
    }
}

/// What a report at `now` tells that comes so many milliseconds after the one before: the bytes that had arrived, and that did since.
fn sample(now: Time, every: u64, (before, bytes): (u64, u64), app_limited: bool) -> Sample {
    Sample {
        delivered: Bytes::new(bytes),
        interval: Span::from_millis(every),
        prior_delivered: Bytes::new(before),
        delivered_at: now,
        app_limited,
    }
}

/// C in Mbit/s after `quiet` samples in which packets wait 0 to `before` ms, then as many ms of `idle` time, and `loud` samples in which they
/// wait 55 to 60 ms, one each 5 ms, of a sender that was told of 100 Mbit/s and has 40 to send on a path of 100 ms.
fn after_a_wait(before: u64, quiet: u64, idle: u64, loud: u64) -> u64 {
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    law.on_path_rate(PathRate::About(Rate::from_mbit(100)));
    let mut rng = Rng::new(7);
    for n in 0..quiet + loud {
        let now = MICROS(1_000_000 + 5_000 * n + if n < quiet { 0 } else { 1000 * idle });
        if n == quiet && idle > 0 {
            law.on_idle(Span::from_millis(idle));
        }
        let waited = if n < quiet { rng.below(1000 * before + 1) } else { 55_000 + rng.below(5_001) };
        law.on_acked(&Acked {
            now,
            bytes: Bytes::new(25_000),
            in_flight: Bytes::new(500_000),
            rtt: Some(Span::from_micros(100_000 + waited)),
            waited: Some(Span::from_micros(waited)),
            up_to: 17 * n + 1,
            next: 17 * (n + 20),
            limited: false,
            delivery: Some(sample(now, 5, (25_000 * n, 25_000), true)),
            ..Acked::new(0, 0)
        });
    }
    law.path_rate().unwrap().as_bits_per_sec() / 1_000_000
}

#[test]
fn a_queue_is_told_of_while_every_packet_waits() {
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    law.on_path_rate(PathRate::About(Rate::from_mbit(100)));
    let mut seen = Vec::new();
    for n in 0..300 {
        let (now, waited) = (MICROS(1_000_000 + 5_000 * n), if (100..200).contains(&n) { 20_000 } else { 0 });
        law.on_acked(&Acked {
            now,
            in_flight: Bytes::new(500_000),
            rtt: Some(Span::from_micros(50_000 + waited)),
            waited: Some(Span::from_micros(waited)),
            up_to: 17 * n + 1,
            next: 17 * (n + 10),
            limited: false,
            delivery: Some(sample(now, 5, (1_000 * n, 1_000), true)),
            ..Acked::new(0, 1_000)
        });
        seen.push(law.has_queue());
    }
    assert_eq!([99, 199, 299].map(|n| seen[n]), [false, true, false]);
}

#[test]
fn a_wait_that_jitter_explains_is_no_slower_path_and_one_that_it_does_not_is() {
    assert_eq!((after_a_wait(45, 400, 0, 200), after_a_wait(2, 400, 0, 200)), (100, 50));
}

#[test]
fn a_wait_of_which_nothing_is_known_yet_is_no_slower_path() {
    // The same 150 ms of waits after much, after little, after a pause, and after a long one.
    let rates = [(400, 0), (20, 0), (400, 1_000), (400, 10_000)].map(|(quiet, idle)| after_a_wait(2, quiet, idle, 30));
    assert_eq!(rates, [50, 100, 50, 100]);
}

/// Whether a sender still starts that is told of 20 Mbit/s at least, and has next to nothing to send for 2 s and 15 Mbit/s then. Packets wait 0 to `jitter`
/// ms, and from 2.4 s on all wait 55 to 60 ms: a report each 5 ms on a path of 250 ms.
fn starts_after(jitter: u64) -> bool {
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    law.on_path_rate(PathRate::AtLeast(Rate::from_mbit(20)));
    assert!(law.is_starting() && law.pacing_rate() > Some(Rate::from_mbit(50)), "it is looked for more");
    let (mut rng, mut delivered) = (Rng::new(7), 0);
    for n in 0..1000 {
        let now = MICROS(1_000_000 + 5_000 * n);
        let bytes = if n < 400 { 100 } else { 9_375 };
        let waited = if n < 480 { rng.below(1000 * jitter + 1) } else { 55_000 + rng.below(5_001) };
        law.on_acked(&Acked {
            now,
            bytes: Bytes::new(bytes),
            in_flight: Bytes::new(50 * bytes),
            rtt: Some(Span::from_micros(250_000 + waited)),
            waited: Some(Span::from_micros(waited)),
            up_to: 17 * n + 1,
            next: 17 * (n + 50),
            limited: false,
            delivery: Some(sample(now, 5, (delivered, bytes), true)),
            ..Acked::new(0, 0)
        });
        delivered += bytes;
    }
    law.is_starting()
}

#[test]
fn what_packets_wait_that_go_nearly_alone_is_no_queue_in_the_start() {
    // A path that keeps order and jitters by 60 ms, and one that has a queue.
    assert_eq!((starts_after(60), starts_after(2)), (true, false));
}

#[test]
fn a_path_that_carries_more_than_it_is_told_is_full_within_two_seconds() {
    let path = Path { rates: &[(160.0, 0.0)], trip: 280, room: 4000, loses: 0 };
    for (path_rate, from) in [(PathRate::AtLeast(Rate::from_mbit(30)), 2), (PathRate::AtLeast(Rate::from_mbit(160)), 3)]
    {
        let out = run_told(&path, Some(path_rate), &[(Algorithm::Probe, 0.0)], Gives::Window(u64::MAX), 8).0;
        // What it found is let drain once.
        let mbit: Vec<f64> = out[from..].iter().map(|(mbit, _)| mbit[0]).collect();
        let mean = mbit.iter().sum::<f64>() / mbit.len() as f64;
        assert!(mean > 150.0 && mbit.iter().all(|mbit| *mbit > 120.0), "{path_rate:?}: {mbit:?}");
    }
}

#[test]
fn what_a_peer_claims_moves_it_no_further_than_what_was_sent() {
    // Whatever its clock says: samples are of 10 Mbit/s at most, because no more was sent.
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    for n in 0..10_000u64 {
        let sample = Sample {
            delivered: Bytes::new(50_000),
            interval: Span::from_millis(40 + n % 3),
            prior_delivered: Bytes::new(n * 100_000),
            delivered_at: MICROS(n * 40_000 / (1 + n % 1000)),
            app_limited: n % 3 == 0,
        };
        law.on_acked(&Acked {
            rtt: Some(Span::from_nanos(40_000_000 + n % 5)),
            waited: Some(Span::from_nanos(u64::MAX >> (n % 64))),
            up_to: n * 1000,
            next: n * 1000 + 1,
            delivery: Some(sample),
            ..Acked::new(40 * n, 1)
        });
        let pace = law.pacing_rate().map_or(0, Rate::as_bits_per_sec);
        assert!(pace <= 27_700_000, "{n}: {pace} bit/s");
    }
}

#[test]
fn a_path_that_nearly_stood_still_for_a_moment_is_used_again_within_four_seconds() {
    for low in [8.0, 12.0, 17.0, 30.0, 45.0] {
        let rates = [(215.0, 0.0), (133.0, 10.0), (low, 10.5), (200.0, 11.0)];
        let out = run(&Path { rates: &rates, trip: 60, room: 1000, loses: 0 }, None, &[0.0], 18);
        let mbit: Vec<f64> = out[10..].iter().map(|(mbit, _)| mbit[0]).collect();
        assert!(out[10].1 > 100.0, "the check sees the queue of that moment: {} ms", out[10].1);
        assert!(mbit[5..].iter().all(|mbit| *mbit > 170.0), "{low} Mbit/s: {mbit:?}");
    }
}

#[test]
fn rounds_in_which_nothing_is_told_of_deliveries_bring_nothing() {
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    law.on_path_rate(PathRate::About(Rate::from_mbit(100)));
    for n in 0..200_u64 {
        let now = MICROS(1_000_000 + 20_000 * n);
        let told = sample(now, 20, (250_000 * n, 250_000), false);
        law.on_acked(&Acked {
            now,
            rtt: Some(Span::from_millis(50)),
            waited: Some(Span::ZERO),
            up_to: n + 1,
            next: n + 2,
            // Of every four reports two say nothing of it.
            delivery: (n % 4 < 2).then_some(told),
            ..Acked::new(0, 250_000)
        });
        let mbit = law.path_rate().unwrap().as_bits_per_sec() / 1_000_000;
        assert!((90..=101).contains(&mbit), "{n}: {mbit} Mbit/s");
    }
}

#[test]
fn what_a_drain_slowed_itself_is_no_slower_path() {
    let mut law = Probe::new(&window::Config::new(PACKET as u32));
    law.on_path_rate(PathRate::About(Rate::from_mbit(100)));
    let (mut sent, mut delivered, mut after) = (VecDeque::from([25_000; 10]), 0, None);
    let mut least = u64::MAX;
    for n in 0..900_u64 {
        // 40 Mbit/s are to be sent until the path seems slower, and then more than it carries. A report each 5 ms, on a path of 50 ms.
        let pace = law.pacing_rate().map_or(0, |rate| rate.bytes_in(Span::from_millis(5)).as_u64());
        let drains = matches!(law.phase, Phase::Drain { slower: true, .. });
        after = after.or(drains.then_some(n));
        sent.push_back(if after.is_some() { pace } else { 25_000 });
        // All wait 90 ms from one moment on, and 130 ms for a while when they have been waited for.
        let waited = match after {
            _ if n < 400 => n % 2,
            Some(from) if !drains && n < from + 60 => 130,
            _ => 90,
        };
        let bytes = sent.pop_front().unwrap();
        let now = MICROS(1_000_000 + 5_000 * n);
        law.on_acked(&Acked {
            now,
            in_flight: Bytes::new(250_000),
            rtt: Some(Span::from_millis(50 + waited)),
            waited: Some(Span::from_millis(waited)),
            up_to: 17 * n + 1,
            next: 17 * (n + 10),
            limited: false,
            delivery: Some(sample(now, 5, (delivered, bytes), after.is_none())),
            ..Acked::new(0, bytes)
        });
        delivered += bytes;
        least = least.min(law.path_rate().unwrap().as_bits_per_sec() / 1_000_000);
    }
    assert!(after.is_some(), "the check sees a path that seems slower");
    assert!(least >= 45, "it falls to its half once, and not to {least} Mbit/s");
}
