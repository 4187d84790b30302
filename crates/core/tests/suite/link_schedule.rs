//! The emulator's schedule against slow, obvious models. No sockets, no clock.

use fairspan_core::buffer::Reason;
use fairspan_core::link::{
    Capacity, DropReason, DuringOutage, Limit, Loss, Outage, Profile, Schedule, Series, Spell, Trace, Verdict,
};
use fairspan_core::units::{Rate, Span, Time};
use proptest::prelude::*;

fn due(verdict: Verdict) -> Time {
    match verdict {
        Verdict::Deliver(due) => due,
        Verdict::Drop(why) => panic!("dropped: {why:?}"),
    }
}

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

fn unbounded(capacity: Capacity) -> Profile {
    Profile { capacity, queue: Limit::Packets(u32::MAX), ..Profile::default() }
}

fn constant(bits_per_sec: u64) -> Capacity {
    Capacity::Constant(Rate::from_bits_per_sec(bits_per_sec))
}

/// Arrivals: gaps in nanoseconds and lengths.
fn arrivals() -> impl Strategy<Value = Vec<(u64, usize)>> {
    proptest::collection::vec((prop_oneof![Just(0u64), 0..2_000_000u64], 1..9000usize), 1..200)
}

#[test]
fn back_to_back_frames_leave_at_exact_multiples_of_the_bit_time_without_drift() {
    // At 3 Mbit/s a byte takes 2666.66 ns.
    let mut schedule = Schedule::new(unbounded(constant(3_000_000)), 1).expect("valid");
    for n in 1..=100_000u64 {
        let exact = (n * 8_000_000_000).div_ceil(3_000_000);
        assert_eq!(due(schedule.offer(Time::ZERO, 1)).as_nanos(), exact, "frame {n}");
    }
}

#[test]
fn the_rate_holds_to_a_nanosecond_at_one_gigabit() {
    let mut schedule = Schedule::new(unbounded(constant(1_000_000_000)), 1).expect("valid");
    let last = (0..100_000).map(|_| due(schedule.offer(Time::ZERO, 1514))).last();
    assert_eq!(last, Some(Time::from_nanos(100_000 * 1514 * 8)));
}

#[test]
fn overhead_counts_against_the_rate_and_a_trace_carries_1500_byte_packets() {
    let mut profile = unbounded(constant(8_000_000));
    profile.overhead = Some(24);
    let mut schedule = Schedule::new(profile, 1).expect("valid");
    assert_eq!(due(schedule.offer(Time::ZERO, 976)), ms(1));

    let trace = Trace::new(vec![1, 2, 3]).expect("valid");
    let mut schedule = Schedule::new(unbounded(Capacity::Trace(trace)), 1).expect("valid");
    let dues: Vec<Time> = (0..4).map(|_| due(schedule.offer(Time::ZERO, 1514))).collect();
    assert_eq!(dues, [ms(1), ms(2), ms(3), ms(4)]);
}

#[test]
fn a_trace_opportunity_is_shared_by_those_who_wait_and_wasted_otherwise() {
    let trace = Trace::new(vec![10, 20, 20, 30]).expect("valid");
    let mut schedule = Schedule::new(unbounded(Capacity::Trace(trace)), 1).expect("valid");
    let mut offer = |at, ip: usize| due(schedule.offer(ms(at), ip + 14));
    assert_eq!(offer(0, 700), ms(10));
    assert_eq!(offer(0, 700), ms(10));
    assert_eq!(offer(0, 700), ms(20), "100 bytes left at 10 ms, 600 of the next are needed");
    assert_eq!(offer(15, 900), ms(20), "exactly what is left of the first at 20 ms");
    assert_eq!(offer(16, 1500), ms(20), "the second at 20 ms");
    assert_eq!(offer(21, 1), ms(30));
    assert_eq!(offer(30, 1499), ms(30), "in time for the same instant");
    assert_eq!(offer(31, 3001), ms(50), "the loop begins at 30: 40, then both at 50");
    assert_eq!(offer(55, 1), ms(60), "what was left at 50 is gone");
}

#[test]
fn a_full_queue_drops_by_frames_or_by_bytes_and_a_free_link_takes_any_frame() {
    let cases = [(Limit::Packets(3), 4), (Limit::Bytes(3000), 4), (Limit::Bytes(2999), 3), (Limit::Bytes(1), 1)];
    for (queue, passed) in cases {
        // 1000 bytes take 1 ms.
        let mut profile = Profile::new(Rate::from_mbit(8), Span::ZERO);
        profile.queue = queue;
        let mut schedule = Schedule::new(profile, 1).expect("valid");
        let verdicts: Vec<Verdict> = (0..10).map(|_| schedule.offer(Time::ZERO, 1000)).collect();
        let delivered = verdicts.iter().filter(|v| matches!(v, Verdict::Deliver(_))).count();
        assert_eq!(delivered, passed, "{queue:?}");
        assert!(verdicts[passed..].iter().all(|v| *v == Verdict::Drop(DropReason::Queue(Reason::Full))));
        assert_eq!(due(schedule.offer(ms(passed as u64), 1000)), ms(passed as u64 + 1), "{queue:?}");
    }
}

#[test]
fn an_outage_loses_what_it_meets_or_holds_it() {
    let mut profile = Profile::new(Rate::from_mbit(8), Span::from_millis(100));
    profile.outages = vec![Outage { start: Span::from_millis(10), length: Span::from_millis(5), every: None }];
    let mut lose = Schedule::new(profile.clone(), 1).expect("valid");
    // 1000 bytes take 1 ms: those that begin at 0 to 9 ms pass, 10 to 14 are lost, from 15 on they pass again.
    let passed: Vec<bool> = (0..20).map(|_| matches!(lose.offer(Time::ZERO, 1000), Verdict::Deliver(_))).collect();
    let expected: Vec<bool> = (0..20).map(|n| !(10..15).contains(&n)).collect();
    assert_eq!(passed, expected);

    profile.during_outage = DuringOutage::Hold;
    let mut hold = Schedule::new(profile.clone(), 1).expect("valid");
    let dues: Vec<u64> = (0..12).map(|_| due(hold.offer(Time::ZERO, 1000)).as_nanos() / 1_000_000 - 100).collect();
    assert_eq!(dues, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 17]);

    // Half a frame before, half after.
    let mut hold = Schedule::new(profile, 1).expect("valid");
    assert_eq!(due(hold.offer(Time::from_nanos(9_500_000), 1000)).as_nanos(), 115_500_000);
}

#[test]
fn a_spell_loses_and_delays_while_it_lasts_and_order_is_kept_behind_it() {
    let spell = |loss, delay| Spell { start: Span::from_millis(100), length: Span::from_millis(50), loss, delay };
    let slow = spell(0.0, Span::from_millis(30));
    let mut profile = unbounded(constant(8_000_000));
    profile.delay = Span::from_millis(5);
    profile.spells = vec![slow];
    let mut schedule = Schedule::new(profile.clone(), 1).expect("valid");
    // A millisecond each; the spell counts where the transmission ends.
    let took = |schedule: &mut Schedule, at| due(schedule.offer(ms(at), 1000)).since(ms(at));
    for (at, expected) in [(0, 6), (98, 6), (99, 36), (148, 36), (149, 35), (160, 24), (179, 6)] {
        assert_eq!(took(&mut schedule, at), Span::from_millis(expected), "{at}");
    }
    // Two at once: what the one leaves, the other loses half of.
    profile.spells = vec![spell(0.5, Span::ZERO); 2];
    let mut schedule = Schedule::new(profile, 1).expect("valid");
    let mut lost = |from: u64, until: u64| {
        let offered = (from * 100..until * 100).map(|n| schedule.offer(Time::from_nanos(n * 10_000), 1));
        offered.filter(|verdict| *verdict == Verdict::Drop(DropReason::Loss)).count()
    };
    assert_eq!(lost(0, 100), 0);
    let during = lost(100, 150);
    assert!((3_600..3_900).contains(&during), "{during} of 5000");
    assert_eq!(lost(150, 200), 0);
}

#[test]
fn a_link_that_never_comes_back_loses_frames_instead_of_looping() {
    let mut profile = Profile::new(Rate::from_mbit(8), Span::ZERO);
    profile.during_outage = DuringOutage::Hold;
    let hour = Span::from_secs(3600);
    profile.outages = vec![Outage { start: Span::ZERO, length: hour, every: None }];
    let mut schedule = Schedule::new(profile.clone(), 1).expect("valid");
    assert_eq!(schedule.offer(Time::ZERO, 1000), Verdict::Drop(DropReason::Outage));
    assert_eq!(due(schedule.offer(Time::ZERO + hour, 1000)), Time::ZERO + hour + Span::from_millis(1));
    for capacity in [Capacity::Trace(Trace::new(vec![1]).expect("valid")), Capacity::Unlimited] {
        profile.capacity = capacity;
        let mut schedule = Schedule::new(profile.clone(), 1).expect("valid");
        assert_eq!(schedule.offer(Time::ZERO, 1000), Verdict::Drop(DropReason::Outage));
    }
}

#[test]
fn a_series_is_integrated_over_its_steps_and_its_pauses() {
    // 8 Mbit/s for 10 ms, nothing for 10 ms, 16 Mbit/s for 10 ms, over again.
    let step = |at, mbit| (Span::from_millis(at), Rate::from_mbit(mbit));
    let series = Series::new(vec![step(0, 8), step(10, 0), step(20, 16)], Span::from_millis(30)).expect("valid");
    let mut schedule = Schedule::new(unbounded(Capacity::Series(series)), 1).expect("valid");
    assert_eq!(due(schedule.offer(Time::ZERO, 9_000)), ms(9));
    assert_eq!(due(schedule.offer(Time::ZERO, 3_000)), ms(21), "1 ms at 8, the pause, 1 ms at 16 Mbit/s");
    assert_eq!(due(schedule.offer(Time::ZERO, 20_000)), ms(32), "9 ms at 16, 2 ms at 8 Mbit/s");
}

#[test]
fn independent_and_gilbert_loss_have_the_statistics_of_their_models() {
    const FRAMES: usize = 400_000;
    let run = |loss: Loss| -> Vec<bool> {
        let mut schedule = Schedule::new(Profile { loss, ..Profile::default() }, 42).expect("valid");
        (0..FRAMES).map(|_| schedule.offer(Time::ZERO, 100) == Verdict::Drop(DropReason::Loss)).collect()
    };
    let rate = |lost: &[bool]| lost.iter().filter(|lost| **lost).count() as f64 / FRAMES as f64;
    let mean_run = |lost: &[bool]| {
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        rate(lost) * FRAMES as f64 / bursts
    };
    // The tolerances are about six standard deviations of the estimate; the seed is fixed, so nothing flickers.
    let independent = run(Loss::Independent(0.03));
    assert!((rate(&independent) - 0.03).abs() < 0.0017, "{}", rate(&independent));
    assert!((mean_run(&independent) - 1.0 / 0.97).abs() < 0.01, "{}", mean_run(&independent));
    // Gilbert: loss p/(p+r), mean burst 1/r.
    let gilbert = run(Loss::Gilbert { p: 0.01, r: 0.25, bad: 1.0, good: 0.0 });
    assert!((rate(&gilbert) - 0.01 / 0.26).abs() < 0.005, "{}", rate(&gilbert));
    assert!((mean_run(&gilbert) - 4.0).abs() < 0.35, "{}", mean_run(&gilbert));
    // Gilbert-Elliott: (p (1-h) + r (1-k)) / (p + r).
    let elliott = run(Loss::Gilbert { p: 0.02, r: 0.1, bad: 0.5, good: 0.01 });
    let expected = (0.02 * 0.5 + 0.1 * 0.01) / 0.12;
    assert!((rate(&elliott) - expected).abs() < 0.007, "{} {expected}", rate(&elliott));
}

#[test]
fn jitter_is_normal_with_its_deviation_and_reorders_only_when_asked() {
    let run = |reorder: bool| -> Vec<f64> {
        let mut profile = Profile::default();
        (profile.delay, profile.jitter) = (Span::from_millis(50), Span::from_millis(5));
        profile.reorder = reorder;
        let mut schedule = Schedule::new(profile, 3).expect("valid");
        (0..100_000u64).map(|n| due(schedule.offer(Time::from_nanos(n * 100_000), 100)).as_secs_f64()).collect()
    };
    let reordered = run(true);
    let offsets: Vec<f64> = reordered.iter().enumerate().map(|(n, due)| (due - n as f64 * 1e-4) * 1e3).collect();
    let mean = offsets.iter().sum::<f64>() / offsets.len() as f64;
    let deviation = (offsets.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / offsets.len() as f64).sqrt();
    let within_one = offsets.iter().filter(|x| (*x - 50.0).abs() < 5.0).count() as f64 / offsets.len() as f64;
    assert!((mean - 50.0).abs() < 0.1 && (deviation - 5.0).abs() < 0.07, "{mean} {deviation}");
    assert!((within_one - 0.6827).abs() < 0.01, "{within_one}");
    assert!(reordered.windows(2).any(|pair| pair[1] < pair[0]));
    assert!(run(false).windows(2).all(|pair| pair[1] >= pair[0]));
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_seed_another() {
    let run = |seed| -> Vec<Verdict> {
        let mut profile = Profile::new(Rate::from_mbit(10), Span::from_millis(5));
        profile.jitter = Span::from_millis(2);
        profile.loss = Loss::Independent(0.2);
        let mut schedule = Schedule::new(profile, seed).expect("valid");
        (0..500).map(|n| schedule.offer(ms(n), 1000)).collect()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The obvious model: a list of frames with exact start and end in units of 1/rate nanoseconds.
    #[test]
    fn a_constant_rate_is_a_fifo_server_with_tail_drop(
        arrivals in arrivals(),
        rate in 1_000u64..2_000_000_000,
        limit in 1usize..20,
    ) {
        let mut profile = Profile::new(Rate::from_bits_per_sec(rate), Span::ZERO);
        profile.queue = Limit::Packets(limit as u32);
        let mut schedule = Schedule::new(profile, 1).expect("valid");
        let scale = u128::from(rate);
        let (mut now, mut busy) = (0u64, 0u128);
        let mut starts: Vec<u64> = Vec::new();
        for (gap, len) in arrivals {
            now += gap;
            let verdict = schedule.offer(Time::from_nanos(now), len);
            let waiting = starts.iter().filter(|start| **start > now).count();
            if waiting >= limit {
                prop_assert_eq!(verdict, Verdict::Drop(DropReason::Queue(Reason::Full)));
                continue;
            }
            // The link is free from the nanosecond on that its last transmission ends in.
            let free = busy.div_ceil(scale) as u64;
            let start = if free < now { u128::from(now) * scale } else { busy };
            starts.push(start.div_ceil(scale) as u64);
            busy = start + len as u128 * 8_000_000_000;
            prop_assert_eq!(verdict, Verdict::Deliver(Time::from_nanos(busy.div_ceil(scale) as u64)));
        }
    }

    /// The obvious model: walk the opportunities one by one.
    #[test]
    fn a_trace_is_served_opportunity_by_opportunity(
        arrivals in arrivals(),
        mut opportunities in proptest::collection::vec(0u64..30, 1..30),
    ) {
        opportunities.sort_unstable();
        let last = opportunities.len() - 1;
        opportunities[last] = opportunities[last].max(1);
        let period = opportunities[last];
        let mut profile = unbounded(Capacity::Trace(Trace::new(opportunities.clone()).expect("valid")));
        profile.overhead = Some(0);
        let mut schedule = Schedule::new(profile, 1).expect("valid");
        let opportunities = &opportunities;
        let mut walk = (0u64..).flat_map(|cycle| opportunities.iter().map(move |o| (cycle * period + o) * 1_000_000));
        let (mut at, mut left) = (walk.next().expect("endless"), 1500usize);
        let mut now = 0;
        for (gap, len) in arrivals {
            now += gap;
            let mut work = len;
            loop {
                if at < now || left == 0 {
                    (at, left) = (walk.next().expect("endless"), 1500);
                    continue;
                }
                let take = left.min(work);
                (left, work) = (left - take, work - take);
                if work == 0 {
                    break;
                }
            }
            prop_assert_eq!(schedule.offer(Time::from_nanos(now), len), Verdict::Deliver(Time::from_nanos(at)));
        }
    }

    #[test]
    fn no_frame_leaves_before_it_came_nor_out_of_order_whatever_the_profile(
        arrivals in arrivals(),
        kind in 0..4,
        jitter in 0u64..10_000_000,
        hold: bool,
        seed: u64,
    ) {
        let step = |at, mbit| (Span::from_millis(at), Rate::from_mbit(mbit));
        let steps = vec![step(0, 1), step(3, 0), step(7, 100)];
        let mut profile = unbounded(match kind {
            0 => Capacity::Unlimited,
            1 => constant(10_000_000),
            2 => Capacity::Series(Series::new(steps, Span::from_millis(9)).expect("valid")),
            _ => Capacity::Trace(Trace::new(vec![0, 0, 3, 9]).expect("valid")),
        });
        (profile.delay, profile.jitter) = (Span::from_millis(3), Span::from_nanos(jitter));
        let ms = Span::from_millis;
        profile.outages = vec![
            Outage { start: ms(5), length: ms(2), every: Some(ms(20)) },
            Outage { start: ms(6), length: ms(9), every: None },
        ];
        profile.during_outage = if hold { DuringOutage::Hold } else { DuringOutage::Lose };
        let mut schedule = Schedule::new(profile, seed).expect("valid");
        let (mut now, mut last) = (0, Time::ZERO);
        for (gap, len) in arrivals {
            now += gap;
            match schedule.offer(Time::from_nanos(now), len) {
                Verdict::Deliver(due) => {
                    prop_assert!(due >= Time::from_nanos(now) && due >= last);
                    last = due;
                }
                Verdict::Drop(why) => prop_assert!(why == DropReason::Outage && !hold),
            }
        }
    }
}

#[test]
fn real_traces_deliver_what_their_files_say() {
    let folder = std::env::var("FAIRSPAN_TESTDATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
    let path = std::path::Path::new(&folder).join("links/mahimahi/Verizon-LTE-short.down");
    if !path.exists() {
        println!("skipped: no test data");
        return;
    }
    let text = std::fs::read_to_string(&path).expect("readable");
    let lines = text.lines().count() as u64;
    let mut schedule =
        Schedule::new(unbounded(Capacity::Trace(Trace::parse("trace", &text).expect("valid"))), 1).expect("valid");
    // Full frames, always waiting: each takes one opportunity, and the loop ends at 140 s.
    let dues: Vec<Time> = (0..2 * lines).map(|_| due(schedule.offer(Time::ZERO, 1514))).collect();
    assert_eq!(dues[lines as usize - 1], ms(140_000));
    assert_eq!(dues[2 * lines as usize - 1], ms(280_000));
}

proptest! {
    #[test]
    fn a_constant_rate_serves_as_a_series_of_one_step_does(
        rate in prop_oneof![1_u64..1000, 1_000_000_u64..10_000_000_000, 100_000_000_000_u64..2_000_000_000_000],
        period in 1_000_u64..100_000_000,
        overhead in -20_i32..40,
        frames in prop::collection::vec((0_u64..3_000, prop_oneof![Just(40_usize), Just(1500), 1_usize..70_000]), 1..300),
    ) {
        let rate = Rate::from_bits_per_sec(rate);
        // A step costs the slow form a division, so slow links get long ones.
        let period = Span::from_nanos(period.saturating_mul(1 + 10_000_000_000 / rate.as_bits_per_sec()));
        let series = Series::new(vec![(Span::ZERO, rate)], period).expect("valid");
        let schedule = |capacity| {
            let profile = Profile { capacity, queue: Limit::Packets(50), overhead: Some(overhead), ..Profile::default() };
            Schedule::new(profile, 1).expect("valid")
        };
        let (mut fast, mut slow) = (schedule(Capacity::Constant(rate)), schedule(Capacity::Series(series)));
        let mut at = Time::ZERO;
        for (gap, len) in frames {
            at += Span::from_nanos(gap);
            let (fast, slow) = (fast.pass(at, len), slow.pass(at, len));
            // A series says that what takes longer than ten minutes is lost.
            if slow != Err(DropReason::Outage) {
                prop_assert_eq!(fast, slow);
            } else {
                break;
            }
        }
    }
}

#[test]
fn frames_shorter_than_a_nanosecond_still_take_their_time_together() {
    let mut link = Schedule::new(Profile::new(Rate::from_mbit(1_600_000), Span::ZERO), 1).expect("valid");
    // 40 bytes at 1.6 Tbit/s take 0.2 ns.
    let ends: Vec<u64> = (0..1000).map(|_| link.pass(Time::ZERO, 40).expect("room").end.as_nanos()).collect();
    assert_eq!((ends[0], ends[4], ends[5], ends[999]), (1, 1, 2, 200));
}
