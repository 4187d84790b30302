//! What a bond says of its decisions is what it does, and what it says would change them does.

use crate::bond_network::{Net, Wire, config, packet};
use fairspan_core::bond::{ChannelReport, Config, Explanation, Link, Mode};
use fairspan_core::queue::End;
use fairspan_core::units::{ChannelId, Rate, Span};

const MS: fn(u64) -> Span = Span::from_millis;

/// Channels of these rates (kbit/s) and delays (ms), named `a`, `b` and so on, and some seconds of a little traffic.
pub(crate) fn joined(links: &[(u64, u64)], change: &dyn Fn(&mut Config)) -> Net {
    let end = || {
        let mut settings = Config::usual();
        settings.channels = config(links.len()).channels;
        for (channel, (name, (rate, _))) in settings.channels.iter_mut().zip(('a'..).zip(links)) {
            (channel.name, channel.rate) = (name.to_string(), Some(Rate::from_bits_per_sec(rate * 1000)));
        }
        change(&mut settings);
        let settings = settings.with_queue(None, None, End::Source);
        settings.validate().unwrap();
        settings
    };
    let mut net = Net::new([end(), end()], links.iter().map(|(_, delay)| Wire::new(*delay)).collect(), 7);
    for n in 0..1000 {
        net.host(0, packet(1, n, 300));
        net.run(MS(4));
    }
    net
}

pub(crate) fn explained(net: &Net, name: &str) -> Explanation {
    let mut all = net.ends[0].explain(net.now).into_iter();
    all.find(|class| class.name == name).unwrap_or_else(|| panic!("no class {name}"))
}

pub(crate) fn carriers(net: &Net, name: &str) -> Vec<u8> {
    explained(net, name).channels.iter().map(|channel| channel.0).collect()
}

/// The number before `unit` in the sentence of `all` that has these words.
pub(crate) fn number(all: &[String], words: &str, unit: &str) -> f64 {
    let sentence = all.iter().find(|text| text.contains(words)).unwrap_or_else(|| panic!("{words}: {all:#?}"));
    let words: Vec<&str> = sentence.split([' ', ',', ')']).collect();
    let at = words.iter().position(|word| *word == unit).expect("the unit");
    words[at - 1].parse().expect("a number")
}

#[test]
fn a_channel_waits_in_reserve_until_the_rate_or_the_delay_that_is_told() {
    let slow = |kbit, delay| joined(&[(50_000, 10), (kbit, delay)], &|_| {});
    let with_rate = |kbit: u64| {
        let mut net = slow(5_000, 200);
        let report = ChannelReport { rate: Some(Rate::from_bits_per_sec(kbit * 1000)), ..ChannelReport::default() };
        net.ends[0].report(net.now, ChannelId(1), report);
        net.run(Span::from_secs(2));
        carriers(&net, "all else")
    };
    let with_delay = |mut net: Net, ms: u64| {
        net.wires[1].delay = MS(ms);
        // What it took before is long forgotten.
        for n in 1000..7_000 {
            net.host(0, packet(1, n, 300));
            net.run(MS(200));
        }
        carriers(&net, "all else")
    };
    let net = slow(5_000, 200);
    assert_eq!(carriers(&net, "all else"), [0]);
    let Explanation { because, would_change_if, .. } = explained(&net, "all else");
    assert!(because.iter().any(|text| text.starts_with("b adds 5.0 Mbit/s to 50.0 Mbit/s")), "{because:#?}");
    let rate = (number(&would_change_if, "b carried", "Mbit/s") * 1000.0) as u64;
    // It is looked for in steps of a tenth.
    assert_eq!((with_rate(rate * 86 / 100), with_rate(rate * 102 / 100)), (vec![0], vec![0, 1]), "{rate}");
    assert!(!would_change_if.iter().any(|text| text.contains("at most")), "a tenth more is not worth any delay");
    // And in steps of a sixtieth of what it takes more.
    let Explanation { would_change_if, .. } = explained(&slow(10_000, 350), "all else");
    let more = number(&would_change_if, "b took at most", "ms") as u64;
    assert_eq!(
        (with_delay(slow(10_000, 350), 10 + more + 6), with_delay(slow(10_000, 350), 10 + more - 1)),
        (vec![0], vec![0, 1]),
        "{more}"
    );
    // The other way round. A step up looks as if the delay varied for a while, so it grows little by little. A channel that is new would wait sooner.
    let told = explained(&slow(10_000, 12), "all else");
    let delay = number(&told.would_change_if, "it would wait in reserve", "ms") as u64;
    let mut net = slow(10_000, 12);
    let most = 10 + delay * 85 / 100;
    for ms in 12..=most {
        net.wires[1].delay = MS(ms);
        for n in 0..150 {
            net.host(0, packet(1, 1000 + 150 * ms as u32 + n, 300));
            net.run(MS(200));
        }
    }
    assert_eq!(carriers(&net, "all else"), [0, 1], "{delay}");
    assert_eq!(carriers(&slow(10_000, most), "all else"), [0], "{delay}");
    assert_eq!(with_delay(slow(10_000, 12), 10 + delay + 2), [0], "{delay}");
}

#[test]
fn a_far_channel_is_used_at_once_where_the_near_one_loses_packets_by_itself() {
    let mut net = joined(&[(263_000, 76), (268_000, 138)], &|_| {});
    assert_eq!(carriers(&net, "all else"), [0]);
    // So little that it matters to nobody by which channel it goes.
    net.wires[0].loss = 0.02;
    for n in 1000..6_000 {
        net.host(0, packet(1, n, 300));
        net.run(MS(8));
    }
    assert_eq!(carriers(&net, "all else"), [0, 1]);
    let because = explained(&net, "all else").because;
    let told = number(&because, "a loses", "%");
    assert!((1.0..2.5).contains(&told), "what it surely loses: {told}");
    net.wires[0].loss = 0.0;
    for n in 6_000..60_000 {
        net.host(0, packet(1, n, 300));
        net.run(MS(8));
    }
    assert_eq!(carriers(&net, "all else"), [0], "when it is well again");
}

#[test]
fn a_channel_that_adds_and_gains_little_is_told_to_be_in_reserve_for_that() {
    let net = joined(&[(85_000, 30), (2_200, 34)], &|_| {});
    assert_eq!(carriers(&net, "all else"), [0]);
    let because = explained(&net, "all else").because;
    assert!(because.iter().any(|text| text.contains("that gains too little, so it is in reserve")), "{because:#?}");
}

#[test]
fn what_waits_calls_the_reserve_at_the_bytes_that_are_told() {
    let mut net = joined(&[(50_000, 10), (5_000, 200)], &|_| {});
    let told = number(&explained(&net, "all else").would_change_if, "is called", "kB");
    assert!((1_000.0..1_400.0).contains(&told), "50 Mbit/s for what the slow one takes more: {told} kB");
    for n in 0..12_000 {
        net.host(0, packet(2, n, 1250));
        net.run(Span::from_micros(166));
    }
    assert_eq!(carriers(&net, "all else"), [0, 1]);
    let Explanation { because, would_change_if, .. } = explained(&net, "all else");
    assert!(because.iter().any(|text| text == "b is called now, because too much waited"), "{because:#?}");
    assert!(would_change_if.iter().any(|text| text.ends_with("b waits again")), "{would_change_if:#?}");
    net.run(Span::from_secs(10));
    assert_eq!(carriers(&net, "all else"), [0]);
}

#[test]
fn a_running_bond_that_is_to_hold_none_back_holds_none_back() {
    let mut net = joined(&[(50_000, 10), (5_000, 200)], &|_| {});
    assert_eq!(carriers(&net, "all else"), [0]);
    let mut settings = net.ends[0].config().clone();
    settings.reserve = false;
    let now = net.now;
    net.ends[0].reconfigure(now, &settings).unwrap();
    assert_eq!(carriers(&net, "all else"), [0, 1]);
}

#[test]
fn a_slow_channel_is_told_that_what_is_sent_does_not_need() {
    let mut net = joined(&[(50_000, 10), (50_000, 60)], &|_| {});
    for n in 1000..4000 {
        net.host(0, packet(1, n, 300));
        net.run(MS(2));
    }
    assert_eq!(carriers(&net, "all else"), [0]);
    let Explanation { because, would_change_if, .. } = explained(&net, "all else");
    let (why, change) = (
        "what is sent fits the others, and b takes 50.0 ms longer than a: it is in reserve",
        "next to nothing is sent for a second: b is used at once again",
    );
    assert!(because.iter().any(|text| text == why), "{because:#?}");
    assert!(would_change_if.iter().any(|text| text == change), "{would_change_if:#?}");
    // What waits longer than b takes more calls it all the same.
    let told = number(&would_change_if, "is called", "kB");
    assert!((300.0..330.0).contains(&told), "50 Mbit/s for 50 ms: {told} kB");
    net.run(Span::from_secs(3));
    assert_eq!(carriers(&net, "all else"), [0, 1]);
}

#[test]
fn classes_are_told_with_what_carries_them_and_the_delay_that_would_change_it() {
    let classes = "name=call\tport=1001\tmode=prompt\tlatency=30ms\nname=sync\tport=1002\tmode=backup\tchannels=c,b\nname=any\tport=1003";
    let net = |delay| {
        let change = |c: &mut Config| (c.classes, c.reserve) = (classes.parse().unwrap(), false);
        joined(&[(20_000, 10), (20_000, delay), (20_000, 90)], &change)
    };
    let all = net(20);
    assert_eq!(
        all.ends[0].explain(all.now).iter().map(|class| (class.name.clone(), class.mode)).collect::<Vec<_>>(),
        [("call", "prompt"), ("sync", "backup"), ("any", "reliable"), ("urgent", "prompt"), ("all else", "reliable")]
            .map(|(name, mode)| (name.to_string(), mode))
    );
    for (name, channels) in
        [("call", &[0][..]), ("sync", &[1]), ("any", &[0, 1, 2]), ("urgent", &[0]), ("all else", &[0, 1, 2])]
    {
        assert_eq!(carriers(&all, name), channels, "{name}");
    }
    let call = explained(&all, "call");
    let longer = number(&call.because, "c takes", "ms");
    assert!((79.0..82.0).contains(&longer), "{call:#?}");
    let sync = explained(&all, "sync");
    assert!(sync.because.iter().any(|text| text.starts_with("b is the usable one of the best priority")), "{sync:#?}");
    assert!(sync.would_change_if.contains(&"b fails: c may take over".to_string()), "{sync:#?}");
}

#[test]
fn what_carries_nothing_is_told_with_the_reason() {
    let mut net = joined(&[(20_000, 10), (20_000, 20)], &|_| {});
    let change = |told: &Explanation| told.would_change_if.iter().any(|text| text.starts_with("b "));
    net.wires[1].cut = [true; 2];
    net.run(Span::from_secs(1));
    let told = explained(&net, "all else");
    assert!(told.because.contains(&"a alone carries it".to_string()) && change(&told), "{told:#?}");
    assert!(
        told.because.iter().any(|text| text.starts_with("b is silent") || text.starts_with("b brings nothing")),
        "{told:#?}"
    );
    net.set_link(0, 1, Link::Down);
    let told = explained(&net, "all else");
    assert!(
        told.because.iter().any(|text| text == "b is not connected, or its link is down") && change(&told),
        "{told:#?}"
    );
    net.ends[0].set_link(net.now, ChannelId(1), Link::Removed);
    net.set_link(0, 0, Link::Down);
    let told = explained(&net, "all else");
    assert_eq!((told.channels.len(), told.because[0].as_str()), (0, "no channel works"));
    assert!(!told.because.iter().any(|text| text.starts_with("b ")), "it is none of the bond's any more: {told:#?}");
}

#[test]
fn other_modes_say_that_they_do_what_is_configured() {
    for mode in [Mode::Ordered, Mode::Stripe, Mode::Duplicate, Mode::Backup, Mode::Plain, Mode::Flow] {
        let net = joined(&[(20_000, 10), (20_000, 20)], &|config| {
            config.mode = mode;
            config.measure_rates = false;
        });
        let all = net.ends[0].explain(net.now);
        assert_eq!((all.len(), all[0].name.as_str(), all[0].mode), (1, "all", mode.to_string().as_str()));
        assert!(all[0].because[0].starts_with(&format!("mode {mode} is configured")), "{all:#?}");
        assert_eq!(all[0].channels.len(), if mode == Mode::Backup { 1 } else { 2 }, "{mode}");
    }
}
