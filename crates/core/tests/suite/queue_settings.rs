//! Queue disciplines as settings: as text and as values, what is allowed, and the buffer policy that goes with each.

use fairspan_core::buffer::PolicyConfig;
use fairspan_core::options::{Family, Field, Value};
use fairspan_core::queue::{Config, DisciplineConfig, MOST_DELAY, MOST_QUANTUM};
use fairspan_core::units::{Bytes, Rate, Span};

fn parse(text: &str) -> DisciplineConfig {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn each_option_of_each_discipline_is_written_and_read_again() {
    for (name, options) in [
        ("drr", &["quantum=500"][..]),
        ("srr", &["quantum=500"]),
        ("wrr", &["quantum=500"]),
        ("flow-queue", &["quantum=500"]),
        ("priority", &["quantum=500"]),
        ("hosts", &["by=destination", "quantum=500"]),
        ("classes", &["weights=1-2-3-4-5-6-7-8", "quantum=500"]),
        ("wfq", &["rate=8Mbit"]),
        ("virtual-clock", &["rate=2Mbit"]),
        ("delay-edd", &["rate=2Mbit", "delay=5ms"]),
        ("qfq", &["largest=9000"]),
        ("stochastic", &["buckets=7", "quantum=500"]),
        ("dual", &["scheduler=shifted", "classic=0.2", "shift=9ms"]),
    ] {
        let plain = parse(name);
        assert_eq!(plain.to_string(), name);
        let alone = options.iter().map(|option| format!("{name}:{option}"));
        for text in alone.chain([format!("{name}:{}", options.join(","))]) {
            let config = parse(&text);
            assert_ne!(config, plain, "{text}");
            assert_eq!(parse(&config.to_string()), config, "{text}");
            let mut taken = DisciplineConfig::Fifo;
            taken.take(Value::Text(text));
            assert_eq!(taken, config);
        }
    }
}

#[test]
fn what_is_just_allowed_is_accepted_and_what_is_just_not_is_named() {
    let bytes = |most: u64| [(0, false), (1, true), (most, true), (most + 1, false)].map(|(n, ok)| (Bytes::new(n), ok));
    let named = |config: DisciplineConfig, ok: bool| assert_eq!(config.check().is_ok(), ok, "{config:?}");
    let plain = |name| parse(name);
    assert_eq!((MOST_QUANTUM, MOST_DELAY), (1_073_741_824, Span::from_secs(60)));
    for (quantum, ok) in bytes(1_073_741_824) {
        named(DisciplineConfig::Drr { quantum }, ok);
        named(DisciplineConfig::Srr { quantum }, ok);
        named(DisciplineConfig::Priority { quantum }, ok);
        named(DisciplineConfig::Stochastic { buckets: 1, quantum }, ok);
    }
    for (largest, ok) in bytes(1_048_576) {
        named(DisciplineConfig::Qfq { largest }, ok);
    }
    for (buckets, ok) in [(0, false), (1, true), (1_048_576, true), (1_048_577, false)] {
        named(DisciplineConfig::Stochastic { buckets, quantum: Bytes::new(1) }, ok);
    }
    for (bits, ok) in [(0, false), (1, true), (1_000_000_000_000, true), (1_000_000_000_001, false)] {
        let rate = Rate::from_bits_per_sec(bits);
        named(DisciplineConfig::Wfq { rate: Some(rate) }, ok);
        named(DisciplineConfig::VirtualClock { rate }, ok);
        named(DisciplineConfig::DelayEdd { rate, delay: Span::from_millis(1) }, ok);
    }
    for (nanos, ok) in [(0, false), (1, true), (60_000_000_000, true), (60_000_000_001, false)] {
        named(DisciplineConfig::DelayEdd { rate: Rate::from_mbit(1), delay: Span::from_nanos(nanos) }, ok);
    }
    for name in ["fifo", "round-robin", "rfq", "sfq", "scfq", "wfq", "dual"] {
        named(plain(name), true);
    }
}

#[test]
fn a_fair_queue_comes_with_longest_queue_drop_and_the_dual_one_with_pi2() {
    for member in DisciplineConfig::MEMBERS {
        let usual = (member.plain)().usual_buffer().to_string();
        let expected = match member.name {
            "fifo" => "drop-tail",
            "dual" => "pi2",
            _ => "longest-queue",
        };
        assert_eq!(usual, expected, "{}", member.name);
        assert!(usual.parse::<PolicyConfig>().is_ok());
    }
}

#[test]
fn arithmetic_will_do_for_first_in_first_out_with_drop_tail_alone() {
    let mut config = Config::default();
    assert!(config.is_plain());
    config.discipline = parse("drr");
    assert!(!config.is_plain());
    config.buffer = PolicyConfig::LongestQueue;
    assert!(!config.is_plain());
    config.discipline = parse("fifo");
    assert!(!config.is_plain());
}
