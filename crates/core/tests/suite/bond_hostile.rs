//! Hostile input: no bytes from a channel make the bond panic, grow without bound, or deliver what is not a packet.

use crate::bond_network::{Net, Wire, check_ordered, config, packet};
use fairspan_core::bond::{Bond, Codepoint, Config, Event, Link, Mode};
use fairspan_core::ip::Header;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use fairspan_core::wire::envelope::{Envelope, Extended, Feedback, Fragment, Heartbeat, Message};
use fairspan_core::wire::parity::{LEN, Mended, Parity, Row};
use fairspan_core::wire::stamp::Stamp;
use proptest::prelude::*;

fn bond(mode: Mode) -> Bond<Vec<u8>> {
    let mut settings = config(3);
    settings.mode = mode;
    up(settings)
}

/// Mode `stripe` with fragments.
fn bond_that_cuts() -> Bond<Vec<u8>> {
    let mut settings = config(3);
    (settings.mode, settings.fragment_delay) = (Mode::Stripe, Some(Span::from_millis(30)));
    settings.channels.iter_mut().for_each(|channel| channel.rate = Some(Rate::from_mbit(1)));
    up(settings)
}

fn up(mut settings: Config) -> Bond<Vec<u8>> {
    (settings.feedback, settings.parity) = (true, true);
    settings.hold_bytes = 300_000;
    settings.policy = "brr:flush=on".parse().unwrap();
    let mut bond = Bond::new(settings, Time::ZERO, 1).unwrap();
    for channel in 0..3 {
        bond.set_link(Time::ZERO, ChannelId(channel), Link::Up);
    }
    bond
}

fn frame(message: Message, tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = Envelope { tag, message }.encode().as_slice().to_vec();
    bytes.extend_from_slice(body);
    bytes
}

fn mode() -> impl Strategy<Value = Mode> {
    prop_oneof![
        Just(Mode::Ordered),
        Just(Mode::Stripe),
        Just(Mode::Duplicate),
        Just(Mode::Backup),
        Just(Mode::Plain),
        Just(Mode::Flow),
        Just(Mode::Reliable)
    ]
}

/// Well-formed in parts, hostile in its numbers; or any bytes at all.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let number = prop_oneof![any::<u32>(), 0u32..300, Just(u32::MAX), Just(1 << 31)];
    let ordered = (0u16..1200, number.clone(), number.clone(), any::<u8>(), 36usize..1600).prop_map(
        |(bucket, sequence, bond, tag, size)| {
            frame(Message::Ordered { bucket, sequence, bond }, tag % 3, &packet(1, sequence, size))
        },
    );
    let heartbeat = (0u8..4, number.clone(), number.clone(), number, any::<[u64; 2]>()).prop_map(
        |(channel, epoch, number, high, [deaf, using])| {
            let channel = ChannelId(channel);
            let epoch = epoch % 3;
            frame(
                Message::Heartbeat(Heartbeat {
                    channel,
                    epoch,
                    number,
                    high,
                    deaf,
                    using,
                    paced: number % 2 == 0,
                    expands: number % 3 == 0,
                    mends: number % 3 == 0,
                    joins: number % 3 != 0,
                }),
                epoch as u8,
                &[],
            )
        },
    );
    let any_kind = (0u8..16, proptest::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, mut bytes)| {
            bytes.insert(0, 0x20 | kind);
            bytes
        })
        .boxed();
    let counted = (any::<u32>(), any::<u8>(), 0u32..300, any_kind.clone()).prop_map(|(number, tag, sequence, rest)| {
        let ordered =
            frame(Message::Ordered { bucket: 1, sequence, bond: sequence }, tag % 3, &packet(1, sequence, 100));
        frame(Message::Counted { number }, tag % 3, if tag % 2 == 0 { &ordered } else { &rest })
    });
    let feedback = (0u8..4, any::<[u8; 2]>(), 0u32..200, any::<[u32; 4]>(), any::<[u64; 2]>()).prop_map(
        |(channel, [of, tag], highest, [packets, marked, held, bytes], [arrived, set])| {
            let channel = ChannelId(channel);
            let feedback = Feedback { channel, of, highest, packets, marked, held, bytes, arrived, set };
            frame(Message::Feedback(feedback), tag % 3, &[])
        },
    );
    let kept = (any::<[u32; 2]>(), 0u16..1200, 0u32..300, any::<u8>(), proptest::option::of(0u8..3)).prop_map(
        |([number, stamp], bucket, sequence, tag, again)| {
            // Near to one another, and far: half a turn of 24 bits and more.
            let [number, bond] = [number % 400, sequence].map(|n| n + stamp % 4 * 0x0040_0000);
            let stamp = if stamp % 3 == 0 { Stamp::NONE } else { Stamp(stamp as u16) };
            let message = Message::Kept { number, bucket: bucket % 8, sequence: bond, bond, stamp, again };
            frame(message, tag % 3, &packet(1, sequence, 100))
        },
    );
    // Of one packet, or of any bytes.
    let rows = (any::<[u8; 6]>(), 0u16..300, proptest::collection::vec(any::<u8>(), 0..150)).prop_map(
        |([row, packets, bucket, tag, what, of], first, any)| {
            let bucket = u16::from(bucket % 8);
            let message = match what % 8 {
                0 => Parity::Mended(Mended { of: of % 3, bucket, first, places: u16::from_be_bytes([row, packets]) }),
                _ => Parity::Row(Row { number: first.into(), row: row % 8, packets: packets % 16 + 1, bucket, first }),
            };
            let packet = packet(1, first.into(), 100);
            let coded = [&[0, 103, 0, first.to_be_bytes()[0], first as u8], &packet[..]].concat();
            frame(Message::Parity(message), tag % 3, if what % 3 == 0 { &coded } else { &any })
        },
    );
    // Near to one another and far, parts of the same packets and of others.
    let parts = (any::<[u8; 3]>(), 0u32..600, proptest::collection::vec(any::<u8>(), 0..150)).prop_map(
        |([flags, tag, far], sequence, any)| {
            let sequence = (sequence + if far < 20 { u32::from(far) << 19 } else { 0 }) & 0xff_ffff;
            let (begin, end) = (flags % 4 != 0, flags % 5 != 0);
            let part = Fragment { begin, end, null: begin && end && flags % 3 == 0, sequence };
            let whole = packet(1, sequence, 200);
            let body = match flags % 7 {
                0 => &[][..],
                1 => &any,
                _ if part.begin && part.end => &whole,
                _ if part.begin => &whole[..100],
                _ => &whole[100..],
            };
            frame(Message::Extended(Extended::Fragment(part)), tag % 3, body)
        },
    );
    prop_oneof![4 => ordered, 4 => parts, 4 => kept, 4 => rows, 2 => heartbeat, 2 => counted, 1 => feedback, 2 => any_kind, 1 => proptest::collection::vec(any::<u8>(), 0..100)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_frames_are_survived_within_the_memory_bound(
        mode in mode(), cuts: bool, frames in proptest::collection::vec((hostile(), 0u8..70, any::<bool>(), any::<u8>(), 0u64..300), 1..150),
    ) {
        let mut bond = if cuts { bond_that_cuts() } else { bond(mode) };
        let mut now = Time::from_millis(1);
        for (bytes, channel, raw, tos, wait) in frames {
            let codepoint = if raw { Codepoint::Raw } else { Codepoint::Envelope };
            bond.handle_channel(now, ChannelId(channel), codepoint, bytes, tos);
            while let Some(frame) = bond.poll_transmit(now) {
                prop_assert!(frame.packet.is_none_or(|p| p.len() <= 65_535));
            }
            while let Some(packet) = bond.poll_deliver() {
                let header = Header::parse(&packet, packet.len());
                prop_assert!(header.is_ok_and(|h| h.total == packet.len()), "delivered {packet:02x?}");
            }
            prop_assert!(bond.held_bytes() <= 300_000, "{} bytes held", bond.held_bytes());
            now += Span::from_millis(wait);
            bond.handle_timeout(now);
        }
    }

    #[test]
    fn any_host_bytes_are_survived(packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..120), 1..60), six: bool) {
        let mut bond = bond(Mode::Ordered);
        for mut bytes in packets {
            if let Some(first) = bytes.first_mut() { *first = if six { 0x60 } else { 0x45 } | *first & 0x0a; }
            bond.handle_host(Time::ZERO, bytes);
            while bond.poll_transmit(Time::ZERO).is_some() {}
            while bond.poll_deliver().is_some() {}
        }
    }
}

#[test]
fn damaged_frames_on_the_way_never_reach_the_host_as_something_else() {
    let mut net = Net::settled(config(2), vec![Wire::new(5), Wire::new(15)], 1);
    net.mangle = Some(|flight, rng| {
        if rng.below(4) == 0 {
            let cut = rng.below(flight.bytes.len() as u64) as usize;
            flight.bytes.truncate(cut);
        }
    });
    let mut sent = vec![];
    for n in 0..500 {
        let p = packet((n % 5) as u16, n, 200);
        sent.push(p.clone());
        net.host(0, p);
        net.run(Span::from_millis(1));
    }
    net.run(Span::from_secs(1));
    check_ordered(&sent, &net.delivered[1]).unwrap();
    let stats = net.ends[1].stats();
    assert!(stats.bad_truncated > 0 && stats.bad_packet > 0, "{stats:?}");
}

#[test]
fn each_bad_frame_is_counted_under_its_reason() {
    let mut b = bond(Mode::Ordered);
    let good = packet(1, 1, 100);
    let ordered = |tag, sequence| frame(Message::Ordered { bucket: 0, sequence, bond: sequence + 1 }, tag, &good);
    let mut put = |channel: u8, bytes: Vec<u8>| {
        b.handle_channel(Time::from_millis(1), ChannelId(channel), Codepoint::Envelope, bytes, 0);
        let name = b.stats().each().filter(|(name, n)| *n > 0 && !name.starts_with("peer")).map(|(name, _)| name);
        name.collect::<Vec<_>>()
    };
    assert_eq!(put(9, ordered(1, 0)), ["unknown_channel"]);
    assert!(put(0, vec![0x21, 0]).contains(&"bad_truncated"));
    assert!(put(0, vec![0x11, 0]).contains(&"bad_version"));
    assert!(put(0, vec![0x2f, 0, 0]).contains(&"bad_kind"));
    assert!(put(0, frame(Message::Ordered { bucket: 0, sequence: 0, bond: 1 }, 1, &[0x45])).contains(&"bad_packet"));
    assert!(put(0, frame(Message::Striped, 1, &good)).contains(&"unexpected_stripe"));
    let heartbeat = Heartbeat { channel: ChannelId(2), ..Heartbeat::default() };
    assert!(put(0, frame(Message::Heartbeat(heartbeat), 0, &[])).contains(&"bad_channel"));
    assert!(!put(0, ordered(1, 0)).contains(&"late"));
    assert!(put(0, ordered(1, 0)).contains(&"late"));
    assert!(!put(0, ordered(2, 0)).contains(&"stale_epoch"), "another tag: the peer restarted");
    assert!(put(0, ordered(1, 1)).contains(&"stale_epoch"), "and this comes from before");
    let event =
        std::iter::from_fn(|| b.poll_event()).find(|e| matches!(e, fairspan_core::bond::Event::PeerVersion { .. }));
    assert!(event.is_some(), "a person is told of the other version");
}

#[test]
fn a_fragment_that_nobody_asked_for_is_counted_and_not_delivered() {
    let mut b = bond(Mode::Ordered);
    let part = Extended::Fragment(Fragment { begin: true, end: true, null: false, sequence: 0 });
    let bytes = frame(Message::Extended(part), 1, &packet(1, 1, 100));
    b.handle_channel(Time::from_millis(1), ChannelId(0), Codepoint::Envelope, bytes, 0);
    assert_eq!((b.stats().unexpected_stripe, b.stats().bad_kind), (1, 0));
    b.handle_timeout(Time::from_millis(1000));
    assert!(b.poll_deliver().is_none());
}

#[test]
fn a_jump_of_the_sequence_costs_the_flow_that_made_it_and_no_other() {
    let mut b = bond(Mode::Ordered);
    let mut put = |bucket, sequence, bond: u32| {
        let bytes = frame(Message::Ordered { bucket, sequence, bond }, 1, &packet(bucket, sequence, 100));
        b.handle_channel(Time::from_millis(1), ChannelId(0), Codepoint::Envelope, bytes, 0);
        std::iter::from_fn(|| b.poll_deliver()).count()
    };
    assert_eq!(put(1, 0, 1), 1);
    assert_eq!(put(2, 0, 2), 1);
    put(1, 1 << 23, 3);
    assert_eq!(put(2, 1, 4), 1, "the other flow goes on");
}

#[test]
fn a_clock_that_jumps_ahead_does_no_harm() {
    let mut net = Net::settled(Config::default(), vec![], 1);
    net.now += Span::from_secs(86_400 * 365);
    net.run(Span::from_secs(1));
    let mut net = Net::settled(config(2), vec![Wire::new(5), Wire::new(50)], 1);
    net.host(0, packet(1, 1, 100));
    net.now += Span::from_secs(86_400);
    net.run(Span::from_secs(8));
    net.delivered[1].clear();
    for n in 2..100 {
        net.host(0, packet(1, n, 100));
        net.run(Span::from_millis(2));
    }
    net.run(Span::from_secs(1));
    assert_eq!(net.delivered[1].len(), 98);
}

/// Sends `count` frames one every millisecond; returns the frames that the bond sent and its events.
fn flood(b: &mut Bond<Vec<u8>>, count: u32, of: impl Fn(u32) -> Vec<u8>) -> (usize, Vec<Event>) {
    let (mut sent, mut events) = (0, vec![]);
    for n in 0..count {
        let now = Time::from_millis(u64::from(n) + 1);
        b.handle_channel(now, ChannelId(0), Codepoint::Envelope, of(n), 0);
        sent += std::iter::from_fn(|| b.poll_transmit(now)).count();
        events.extend(std::iter::from_fn(|| b.poll_event()));
        while b.poll_deliver().is_some() {}
    }
    (sent, events)
}

#[test]
fn a_peer_that_claims_to_restart_all_the_time_is_heeded_a_bounded_number_of_times() {
    let mut b = bond(Mode::Ordered);
    // Of the epochs before, eight are remembered: each claim is of one that is not.
    let (sent, events) = flood(&mut b, 4000, |n| {
        frame(Message::Ordered { bucket: 9, sequence: n, bond: n + 1 }, n as u8, &packet(1, n, 100))
    });
    let restarts = events.iter().filter(|e| matches!(e, Event::PeerRestarted { .. })).count();
    // 100 at once and 50 a second, for 4 s; each is answered by a heartbeat on each of the three channels.
    assert!((290..=300).contains(&restarts), "{restarts}");
    assert!(sent <= 3 * 300 + 20, "{sent} frames for 4000");
}

#[test]
fn a_peer_that_changes_its_mind_on_what_it_hears_all_the_time_is_heeded_a_bounded_number_of_times() {
    for mode in [Mode::Ordered, Mode::Stripe] {
        let mut b = bond(mode);
        let (sent, events) = flood(&mut b, 4000, |n| {
            let deaf = if n % 2 == 0 { 0b110 } else { 0 };
            let heartbeat = Heartbeat { epoch: 5, number: n + 1, deaf, using: !0, ..Heartbeat::default() };
            frame(Message::Heartbeat(heartbeat), 5, &[])
        });
        let changes = events.iter().filter(|e| matches!(e, Event::ChannelDown { .. })).count();
        assert!((250..=300).contains(&changes), "{changes} of two channels");
        assert!(sent <= 3 * 300 + 700, "{sent} frames for 4000, in {mode}");
    }
}

#[test]
fn sequence_numbers_that_leap_about_cost_little_each() {
    // Counted in work that shows: time, beside that of packets in order, of which each is delivered at once. Full rings of many buckets, then
    // leaps in one.
    let bond = || {
        let mut b = Bond::<Vec<u8>>::new(Config::default(), Time::ZERO, 1).unwrap();
        b.join(Time::ZERO, ChannelId(0), Default::default()).unwrap();
        b.set_link(Time::ZERO, ChannelId(0), Link::Up);
        let mut bond_number = 0;
        move |bucket: u16, sequence| {
            bond_number += 1;
            let bytes = frame(Message::Ordered { bucket, sequence, bond: bond_number }, 1, &packet(1, 1, 36));
            b.handle_channel(Time::ZERO, ChannelId(0), Codepoint::Envelope, bytes, 0);
            std::iter::from_fn(|| b.poll_deliver()).for_each(drop);
            b.held_bytes()
        }
    };
    // The shortest of many turns: no machine is so busy that it interrupts each.
    let least = |turns: u32, turn: &mut dyn FnMut(u32)| {
        let timed = |n| {
            let begun = std::time::Instant::now();
            turn(n);
            begun.elapsed()
        };
        (0..turns).map(timed).min().unwrap().as_nanos() as f64 / 100.0
    };
    let mut put = bond();
    let in_order = least(200, &mut |turn| {
        for n in 100 * turn..100 * (turn + 1) {
            put(9, n);
        }
    });
    let (mut put, mut most) = (bond(), 0);
    let mut fill = |n: u32| most = most.max(put((n % 65_536) as u16, 300 + n / 65_536 * 2));
    (0..300_000).for_each(&mut fill);
    let each = least(1_000, &mut |turn| (0..100).for_each(|n| fill(300_000 + 100 * turn + n)));
    assert!(most <= Config::default().hold_bytes && most > 50_000_000, "the bound was reached: {most}");
    let leap = least(20, &mut |turn| {
        for n in 100 * turn..100 * (turn + 1) {
            put(9, (1 << 20) + n * 30_000);
        }
    });
    println!("in order {in_order:.0} ns, {each:.0} ns each, {leap:.0} ns for a leap");
    assert!(each < 10.0 * in_order && leap < 10.0 * in_order, "{in_order:.0} ns, {each:.0} and {leap:.0} ns");
}

/// A bond of mode `reliable` that takes parity, and knows the peer's epoch 0.
fn mends() -> Bond<Vec<u8>> {
    let mut b = bond(Mode::Reliable);
    let bytes = frame(Message::Heartbeat(Heartbeat { mends: true, using: !0, ..Heartbeat::default() }), 0, &[]);
    b.handle_channel(Time::from_millis(1), ChannelId(0), Codepoint::Envelope, bytes, 0);
    b
}

fn kept(bucket: u16, sequence: u32) -> Vec<u8> {
    let (number, bond, stamp, again) = (sequence + 1, sequence + 1, Stamp::NONE, None);
    frame(Message::Kept { number, bucket, sequence, bond, stamp, again }, 0, &packet(bucket, sequence, 500))
}

fn row(bucket: u16, first: u16, row: u8, packets: u8, octets: &[u8]) -> Vec<u8> {
    frame(Message::Parity(Parity::Row(Row { number: 1, row, packets, bucket, first })), 0, octets)
}

#[test]
fn rows_that_no_block_can_have_are_counted_and_blocks_that_never_become_whole_cost_bounded_memory() {
    let mut b = mends();
    let at = Time::from_millis(2);
    let put = |b: &mut Bond<Vec<u8>>, bytes| b.handle_channel(at, ChannelId(0), Codepoint::Envelope, bytes, 0);
    put(&mut b, row(5, 0, 0, 4, &[0; 600]));
    put(&mut b, kept(5, 0));
    for (n, bad) in [row(5, 0, 4, 4, &[0; 600]), row(5, 0, 0, 4, &[0; 4]), row(5, 0, 0, 4, &[])[..LEN].to_vec()]
        .into_iter()
        .enumerate()
    {
        put(&mut b, bad);
        assert_eq!((b.stats().bad_parity, b.stats().parity_received), (n as u64 + 1, 1));
    }
    put(&mut b, row(5, 0, 0, 4, &[0; 600]));
    put(&mut b, row(5, 0, 0, 4, &[0; 600]));
    assert_eq!(b.stats().bad_parity, 4, "a row twice");
    put(&mut b, row(5, 0, 1, 5, &[0; 600]));
    assert_eq!(b.stats().bad_parity, 5, "another length of the block");
    // Rows of ten thousand blocks in a hundred buckets, each as long as a frame can be, and packets that are no part of them.
    let long = vec![0; 60_000];
    for n in 0..10_000u32 {
        let (bucket, number) = ((n % 100) as u16, n / 100 * 40);
        (0..3).for_each(|r| put(&mut b, row(bucket, number as u16 + 8, r, 16, &long)));
        put(&mut b, kept(bucket, number));
        while b.poll_transmit(at).is_some() {}
        while b.poll_deliver().is_some() {}
        assert!(b.parity_bytes() <= 8_200_000, "{} bytes", b.parity_bytes());
    }
    assert!(b.parity_bytes() > 7_000_000 && b.stats().rebuilt == 0, "the bound was near: {}", b.parity_bytes());
}

#[test]
fn word_of_what_was_never_sent_changes_nothing() {
    let mut b = mends();
    let at = Time::from_millis(2);
    for n in 0..100 {
        let mut packet = packet(1, n, 200);
        packet[1] = 46 << 2;
        b.handle_host(at, packet);
        while let Some(frame) = b.poll_transmit(at) {
            if b.wants_back() {
                b.give_back(frame.packet.unwrap());
            }
        }
    }
    let before = b.kept_bytes();
    assert!(before > 100 * 200);
    for bucket in 0..1200 {
        for (of, first) in [(0, 0), (7, 3), (255, 65_535)] {
            let mended = Mended { of, bucket: bucket + 1024, first, places: !0 };
            let bytes = frame(Message::Parity(Parity::Mended(mended)), 0, &[]);
            b.handle_channel(at, ChannelId(0), Codepoint::Envelope, bytes, 0);
        }
    }
    assert_eq!(b.kept_bytes(), before);
    assert!(b.stats().stale_epoch > 0);
}
