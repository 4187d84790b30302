//! Sources against what their traffic is defined to be: exact instants where they are determined, statistics with
//! tolerances of five deviations where they are drawn.

use fairspan_core::rng::Rng;
use fairspan_core::units::{Rate, Span, Time};
use fairspan_sim::traffic::clock::Drift;
use fairspan_sim::traffic::{Config, ConfigError, Sizes, Source};

fn source(traffic: &Config, drift_ppm: f64, stop: Time, seed: u64) -> Source {
    let source = Source::new(traffic, Drift::from_ppm(drift_ppm), Time::ZERO, stop, Rng::new(seed));
    source.expect("valid").expect("a source")
}

fn packets(mut source: Source) -> Vec<(u64, u32)> {
    std::iter::from_fn(|| source.next()).map(|(at, size)| (at.as_nanos(), size)).collect()
}

fn bits_per_second(packets: &[(u64, u32)], span: Span) -> f64 {
    packets.iter().map(|packet| f64::from(packet.1) * 8.0).sum::<f64>() / span.as_secs_f64()
}

#[test]
fn a_constant_rate_is_exact_to_the_nanosecond_at_any_packet() {
    // 1000 bytes at 622 Mbit/s every 12,861.7363… ns.
    let traffic = Config::Constant { rate: Rate::from_mbit(622), size: Sizes::Constant(1000) };
    let sent = packets(source(&traffic, 0.0, Time::from_millis(2000), 1));
    for (n, &(at, size)) in (0_u128..).zip(&sent) {
        assert_eq!((u128::from(at), size), (n * 8_000_000 / 622, 1000), "packet {n}");
    }
    // From 0 to 2 s, both ends included: 155,500 gaps of 2 s / 155,500.
    assert_eq!(sent.len(), 155_501);
}

#[test]
fn a_gap_follows_the_packet_before_it() {
    let traffic = Config::Constant { rate: Rate::from_mbit(8), size: Sizes::Alternating(vec![1000, 200]) };
    let sent = packets(source(&traffic, 0.0, Time::from_nanos(2_500_000), 1));
    assert_eq!(sent, [(0, 1000), (1_000_000, 200), (1_200_000, 1000), (2_200_000, 200), (2_400_000, 1000)]);
}

#[test]
fn a_drifting_clock_changes_the_rate_by_its_millionths() {
    let traffic = Config::Constant { rate: Rate::from_mbit(100), size: Sizes::Constant(1250) };
    for (ppm, gap) in [(1000.0, 100_100), (-1000.0, 99_900), (12.5, 100_001)] {
        let sent = packets(source(&traffic, ppm, Time::from_millis(500), 1));
        // No number of millionths is exact in binary, so a whole nanosecond may be missed by one.
        assert!(sent[1].0.abs_diff(gap) <= 1, "{ppm} ppm: {}", sent[1].0);
        let last = sent.len() as u64 - 1;
        let exact = last as f64 * 100_000.0 * (1.0 + ppm / 1e6);
        // The drift's own fraction has 64 bits: far below a nanosecond over half a second.
        assert!((sent[last as usize].0 as f64 - exact).abs() <= 1.0, "{ppm} ppm");
    }
}

#[test]
fn poisson_arrivals_have_their_rate_exponential_gaps_and_no_memory() {
    let traffic = Config::Poisson { rate: Rate::from_mbit(10), size: Sizes::Constant(500) };
    let span = Span::from_secs(100);
    let sent = packets(source(&traffic, 0.0, Time::ZERO + span, 21));
    // 250,000 arrivals expected, with a deviation of 500.
    assert!((sent.len() as f64 - 250_000.0).abs() < 2500.0, "{}", sent.len());
    let gaps: Vec<f64> = sent.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 400_000.0).collect();
    for multiple in [0.1, 0.5, 1.0, 2.0, 4.0] {
        let above = gaps.iter().filter(|&&gap| gap > multiple).count() as f64 / gaps.len() as f64;
        let expected = (-multiple).exp();
        let tolerance = 5.0 * (expected * (1.0 - expected) / gaps.len() as f64).sqrt();
        assert!((above - expected).abs() < tolerance, "gaps above {multiple} means: {above}, not {expected}");
    }
    // Neighbouring gaps are independent: their correlation has a deviation of 1 / sqrt(n) = 0.002.
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>();
    let correlation = gaps.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>() / variance;
    assert!(correlation.abs() < 0.01, "{correlation}");
}

#[test]
fn poisson_with_a_mixture_of_sizes_keeps_the_mean_rate() {
    let size = Sizes::Mixture(vec![(40, 0.5), (576, 0.25), (1500, 0.25)]);
    let traffic = Config::Poisson { rate: Rate::from_mbit(10), size };
    let span = Span::from_secs(200);
    let rate = bits_per_second(&packets(source(&traffic, 0.0, Time::ZERO + span, 22)), span);
    // Bytes are a compound Poisson sum: deviation sqrt(n E(s^2)) = 0.21 % of it for n = 463,000 packets; five of them.
    assert!((rate / 1e7 - 1.0).abs() < 0.0105, "{rate}");
}

#[test]
fn an_on_off_source_sends_its_rate_while_on_and_its_share_in_the_mean() {
    // Shape 3, so that the variance exists and the tolerance can be told.
    let (on, off) = (Span::from_millis(200), Span::from_millis(300));
    let size = Sizes::Constant(1000);
    let traffic = Config::ParetoOnOff { rate: Rate::from_mbit(8), size, on, off, shape: 3.0 };
    let span = Span::from_secs(4000);
    let sent = packets(source(&traffic, 0.0, Time::ZERO + span, 23));
    let rate = bits_per_second(&sent, span);
    // 8000 cycles; a period's deviation is 0.577 of its mean, so the share on/(on+off) has one of
    // 0.577 · sqrt(2) · 0.4 · 0.6 / sqrt(8000) = 0.0022, of 0.4: 0.55 %. Five of them.
    assert!((rate / 3.2e6 - 1.0).abs() < 0.0275, "{rate}");
    // While on, a packet every millisecond; an off period is never shorter than x_m = 200 ms.
    let gaps: Vec<u64> = sent.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(gaps.iter().all(|&gap| gap == 1_000_000 || gap >= 200_000_000));
    let bursts = 1 + gaps.iter().filter(|&&gap| gap > 1_000_000).count();
    assert!((7600..8400).contains(&bursts), "{bursts} bursts instead of about 8000");
}

#[test]
fn on_periods_shorter_than_a_gap_do_not_raise_the_rate() {
    // A gap of 10 ms, on periods of 4 ms: a packet an on period would be 2.5 times the rate.
    let (on, off) = (Span::from_millis(4), Span::from_millis(4));
    let size = Sizes::Constant(1000);
    let traffic = Config::ParetoOnOff { rate: Rate::from_bits_per_sec(800_000), size, on, off, shape: 3.0 };
    let span = Span::from_secs(400);
    let rate = bits_per_second(&packets(source(&traffic, 0.0, Time::ZERO + span, 24)), span);
    // 50,000 cycles, deviation of the share 0.577 · sqrt(2) · 0.25 / sqrt(50,000) = 0.0009, of 0.5: 0.18 %.
    assert!((rate / 4e5 - 1.0).abs() < 0.009, "{rate}");
}

#[test]
fn heavy_tails_show_at_all_scales() {
    // Shape 1.2: many short on periods and a few very long ones. Of on periods of 1000 packets or more, the formula says
    // (x_m / 1 s)^1.2 with x_m = 33.3 ms (1000 packets take 1 s): 1.69 %.
    let (on, off) = (Span::from_millis(200), Span::from_millis(200));
    let size = Sizes::Constant(100);
    let traffic = Config::ParetoOnOff { rate: Rate::from_bits_per_sec(800_000), size, on, off, shape: 1.2 };
    let sent = packets(source(&traffic, 0.0, Time::from_millis(4_000_000), 25));
    let mut bursts = vec![1_u32];
    for pair in sent.windows(2) {
        if pair[1].0 - pair[0].0 > 1_000_000 {
            bursts.push(0);
        }
        *bursts.last_mut().expect("one") += 1;
    }
    let long = bursts.iter().filter(|&&burst| burst >= 1000).count() as f64;
    let expected = bursts.len() as f64 * (1.0_f64 / 30.0).powf(1.2);
    // A binomial count; five deviations.
    assert!((long - expected).abs() < 5.0 * expected.sqrt(), "{long} of {} instead of {expected}", bursts.len());
}

#[test]
fn a_replay_gives_the_recorded_packets_and_begins_again_after_its_period() {
    let list = [(Span::ZERO, 60), (Span::from_millis(3), 1500), (Span::from_millis(3), 40)];
    let once = Config::Replay { packets: list.into(), period: None };
    assert_eq!(packets(source(&once, 0.0, Time::MAX, 1)), [(0, 60), (3_000_000, 1500), (3_000_000, 40)]);
    let again = Config::Replay { packets: list.into(), period: Some(Span::from_millis(10)) };
    let sent = packets(source(&again, 0.0, Time::from_millis(23), 1));
    assert_eq!(sent[3..6], [(10_000_000, 60), (13_000_000, 1500), (13_000_000, 40)]);
    assert_eq!((sent.len(), sent.last()), (9, Some(&(23_000_000, 40))));
    let slow = packets(source(&again, 1000.0, Time::from_millis(23), 1));
    assert_eq!(slow[4], (13_013_000, 1500));
}

#[test]
fn nothing_is_sent_before_the_start_or_after_the_stop() {
    let (start, stop) = (Time::from_millis(5), Time::from_millis(9));
    for traffic in [
        Config::Constant { rate: Rate::from_mbit(1), size: Sizes::Constant(50) },
        Config::Poisson { rate: Rate::from_mbit(10), size: Sizes::Uniform(40, 1500) },
        Config::ParetoOnOff {
            rate: Rate::from_mbit(10),
            size: Sizes::Constant(99),
            on: Span::from_millis(1),
            off: Span::from_millis(1),
            shape: 1.5,
        },
    ] {
        let source = Source::new(&traffic, Drift::NONE, start, stop, Rng::new(3)).expect("valid").expect("a source");
        let sent = packets(source);
        assert!(!sent.is_empty());
        assert!(sent.iter().all(|packet| (5_000_000..=9_000_000).contains(&packet.0)), "{traffic:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_packets_and_another_seed_others() {
    let traffic = Config::Poisson { rate: Rate::from_mbit(1), size: Sizes::Uniform(40, 1500) };
    let run = |seed| packets(source(&traffic, 0.0, Time::from_millis(1000), seed));
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_reason() {
    let refused = |traffic: Config| Source::new(&traffic, Drift::NONE, Time::ZERO, Time::MAX, Rng::new(1)).err();
    let (rate, size) = (Rate::from_mbit(1), Sizes::Constant(100));
    let zero = Rate::from_bits_per_sec(0);
    assert_eq!(refused(Config::Constant { rate: zero, size: size.clone() }), Some(ConfigError::ZeroRate));
    let (on, off) = (Span::from_millis(1), Span::ZERO);
    let pareto = |off, shape| Config::ParetoOnOff { rate, size: size.clone(), on, off, shape };
    assert_eq!(refused(pareto(off, 1.5)), Some(ConfigError::ZeroPeriod { which: "off" }));
    assert_eq!(refused(pareto(on, 1.0)), Some(ConfigError::Shape { shape: 1.0 }));
    let packets = [(Span::from_millis(2), 60), (Span::from_millis(1), 60)];
    let replay = Config::Replay { packets: packets.into(), period: None };
    assert_eq!(refused(replay), Some(ConfigError::ReplayOrder { index: 1 }));
    let packets = [(Span::from_millis(2), 60)];
    let replay = Config::Replay { packets: packets.into(), period: Some(Span::from_millis(1)) };
    let expected = ConfigError::ReplayPeriod { period: Span::from_millis(1), last: Span::from_millis(2) };
    assert_eq!(refused(replay), Some(expected));
    let answered =
        Source::new(&Config::Ftp { bytes: None, writes: None }, Drift::NONE, Time::ZERO, Time::MAX, Rng::new(1));
    assert!(matches!(answered, Ok(None)));
}
