//! Mode `reliable` with compressed headers: what arrives is what was sent, whatever the channels and the peer do.

use crate::bond_network::{Flight, Net, Wire, check_ordered, config, packet};
use fairspan_core::bond::{Compression, Config, Mode};
use fairspan_core::ip::{Header, checksum};
use fairspan_core::record::replay;
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Rate, Span};

const MS: fn(u64) -> Span = Span::from_millis;

fn settings(channels: usize, compress: Compression) -> Config {
    let mut settings = config(channels);
    (settings.mode, settings.compress_headers) = (Mode::Reliable, compress);
    settings.resend_within = Some(Span::from_secs(5));
    settings.deadline = Some(Span::from_secs(10));
    for channel in &mut settings.channels {
        channel.rate = Some(Rate::from_mbit(100));
    }
    settings
}

/// Segment `n` of a TCP connection with timestamps, of `payload` bytes that begin with `n`, its checksum left to the device.
fn segment(flow: u8, n: u32, payload: usize) -> Vec<u8> {
    let total = 52 + payload.max(4);
    let mut p = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1, 4, flow, 0x13, 0x89];
    p[2..4].copy_from_slice(&(total as u16).to_be_bytes());
    p[4..6].copy_from_slice(&(n as u16).to_be_bytes());
    let sum = checksum::of(&p[..20]);
    p[10..12].copy_from_slice(&sum.to_be_bytes());
    p.extend((n.wrapping_mul(payload as u32)).to_be_bytes());
    p.extend([0, 0, 0, 1, 0x80, if n % 44 == 43 { 0x18 } else { 0x10 }, 1, 245]);
    let pseudo = checksum::add(6 + total as u32 - 20, &p[12..20]) as u16;
    p.extend(pseudo.to_be_bytes());
    p.extend([0, 0, 1, 1, 8, 10]);
    p.extend((1000 + n / 8).to_be_bytes());
    p.extend((2000 + n / 9).to_be_bytes());
    p.extend(n.to_be_bytes());
    p.resize(total, n as u8);
    p
}

/// Sends `packets` of 17 flows from end 0, one every `every`; they are returned.
fn stream(net: &mut Net, packets: std::ops::Range<u32>, every: Span) -> Vec<Vec<u8>> {
    let send = |n| {
        let packet = packet((n % 17) as u16, n, 60 + n as usize % 5);
        net.host(0, packet.clone());
        net.run(every);
        packet
    };
    packets.map(send).collect()
}

/// Nothing twice, each flow in order, and nothing missing.
fn all_arrived(net: &Net, sent: &[Vec<u8>]) {
    check_ordered(sent, &net.delivered[1]).unwrap();
    let stats = net.ends[0].stats();
    assert_eq!((net.delivered[1].len(), stats.given_up), (sent.len(), 0), "{stats:?}");
    assert_eq!((net.ends[0].kept_bytes(), net.ends[1].stats().packets_missing), (0, 0));
    assert_eq!(net.ends[1].stats().bad_compressed, 0);
}

#[test]
fn losses_copies_and_disorder_leave_nothing_out_and_change_no_byte() {
    let storm = Wire { loss: 0.05, twice: 0.02, jitter: MS(3), reorders: true, ..Wire::new(10) };
    let wires = vec![storm, Wire { loss: 0.2, ..Wire::new(30) }, Wire { jitter: MS(20), ..Wire::new(60) }];
    for seed in 0..3 {
        let mut net = Net::settled(settings(3, Compression::On), wires.clone(), seed);
        let sent = stream(&mut net, 0..20_000, Span::from_micros(100));
        net.run(Span::from_secs(10));
        all_arrived(&net, &sent);
        let stats = *net.ends[0].stats();
        assert!(stats.compressed > 15_000 && stats.compressed_saved > 15 * stats.compressed, "{stats:?}");
        assert_eq!(
            (net.ends[1].stats().unknown_reference, stats.forgotten_reference),
            (0, 0),
            "{:?}",
            net.ends[1].stats()
        );
        // The same again: what a bond with references does follows from its inputs.
        for end in &mut net.ends {
            replay(&end.finish().unwrap(), |_| ()).unwrap();
        }
    }
}

#[test]
fn a_bulk_transfer_over_two_unlike_channels_takes_twenty_bytes_before_its_payload() {
    let mut settings = settings(2, Compression::Auto);
    settings.spare_copies = false;
    let mut net = Net::settled(settings, vec![Wire::new(10), Wire::new(40)], 1);
    let (mut sent, mut frames) = (vec![], 0);
    for n in 0..20_000 {
        sent.push(segment(1, n, 1382));
        net.host(0, sent[n as usize].clone());
        net.run(Span::from_micros(130));
        if n == 2_000 {
            frames = net.ends[0].channel_stats(ChannelId(0)).unwrap().sent_bytes
                + net.ends[0].channel_stats(ChannelId(1)).unwrap().sent_bytes;
        }
    }
    net.run(Span::from_secs(1));
    assert!(net.delivered[1].iter().map(|(_, packet)| packet).eq(sent.iter()), "all, in order, byte for byte");
    let bytes: u64 = (0..2).map(|c| net.ends[0].channel_stats(ChannelId(c)).unwrap().sent_bytes).sum();
    // Kept frames have 15 and 52 before the payload; a link header of 14 is counted besides.
    let each = (bytes - frames) as f64 / 17_999.0 - 14.0 - 1382.0;
    assert!((19.5..21.5).contains(&each), "{each} bytes");
}

#[test]
fn neither_a_peer_that_does_not_understand_it_nor_a_fast_channel_gets_compressed_frames() {
    fn none(flight: &mut Flight, _: &mut Rng) {
        assert_ne!(flight.bytes[0], 0x2f);
    }
    let (on, off) = (settings(2, Compression::On), settings(2, Compression::Off));
    let mut fast = settings(2, Compression::Auto);
    let mut unknown = fast.clone();
    fast.channels.iter_mut().for_each(|channel| channel.rate = Some(Rate::from_mbit(1_001)));
    unknown.channels.iter_mut().for_each(|channel| channel.rate = None);
    for configs in [[on.clone(), off.clone()], [off.clone(), on.clone()], [fast, on.clone()], [unknown, on]] {
        let mut net = Net::new(configs, vec![Wire::new(10), Wire::new(20)], 3);
        net.mangle = Some(none);
        net.run(MS(700));
        let sent = stream(&mut net, 0..2_000, Span::from_micros(500));
        net.run(Span::from_secs(1));
        all_arrived(&net, &sent);
        assert_eq!((net.ends[0].stats().compressed, net.ends[0].stats().compressed_saved), (0, 0));
    }
}

#[test]
fn a_bond_says_on_which_channels_headers_are_compressed_and_why_not_on_others() {
    let (on, off) = (settings(2, Compression::On), settings(2, Compression::Off));
    let mut auto = settings(2, Compression::Auto);
    auto.channels[0].rate = Some(Rate::from_mbit(100));
    auto.channels[1].rate = Some(Rate::from_mbit(1_001));
    let told = |configs: [Config; 2]| {
        let mut net = Net::new(configs, vec![Wire::new(10), Wire::new(20)], 3);
        net.run(MS(700));
        stream(&mut net, 0..2_000, Span::from_micros(500));
        let all = net.ends[0].explain(net.now);
        let rest = all.iter().find(|class| class.name == "all else").unwrap_or_else(|| panic!("{all:#?}"));
        let stats = *net.ends[0].stats();
        let of_headers = |text: &&String| text.contains("headers");
        let because: Vec<String> = rest.because.iter().filter(of_headers).cloned().collect();
        let change: Vec<String> = rest.would_change_if.iter().filter(of_headers).cloned().collect();
        (because, change, stats)
    };
    let (because, change, stats) = told([on.clone(), on.clone()]);
    let each = stats.compressed_saved / stats.compressed;
    let expected = format!(
        "headers of TCP and UDP are compressed on channel 0, channel 1: {} packets so far, {each} bytes less each",
        stats.compressed
    );
    assert_eq!((because, change.len()), (vec![expected], 0));
    let (because, change, _) = told([on, off.clone()]);
    assert_eq!(because, ["the peer takes no compressed headers, so all go whole"]);
    assert!(change.len() == 1 && change[0].contains("both ends have `compress_headers` set"), "{change:?}");
    let (because, change, _) = told([auto.clone(), auto]);
    assert!(because[0].starts_with("headers of TCP and UDP are compressed on channel 0:"), "{because:?}");
    assert!(because[1].starts_with("headers go whole on channel 1, of which it is not known"), "{because:?}");
    assert!(because.len() == 2 && change.len() == 1 && change[0].contains("at most 1000.0 Mbit/s"), "{change:?}");
    assert_eq!(told([off.clone(), off]).0, Vec::<String>::new());
}

#[test]
fn an_end_that_begins_anew_has_no_references_and_nothing_wrong_comes_of_it() {
    for end in 0..2 {
        let settings = settings(2, Compression::On);
        let mut net = Net::settled(settings.clone(), vec![Wire::new(10), Wire::new(30)], 7);
        let mut sent = stream(&mut net, 0..3_000, Span::from_micros(500));
        net.restart(end, settings, 99 + end as u64);
        sent.extend(stream(&mut net, 3_000..6_000, Span::from_micros(500)));
        net.run(Span::from_secs(1));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        assert!(net.delivered[1].len() > 5_000, "{}", net.delivered[1].len());
        let before = net.ends[0].stats().compressed;
        sent.extend(stream(&mut net, 6_000..7_000, Span::from_micros(500)));
        net.run(Span::from_secs(1));
        check_ordered(&sent, &net.delivered[1]).unwrap();
        let after = net.ends[0].stats().compressed;
        assert!(after > before + 800 && before > 0, "{before}, {after}: {:?}", [0, 1].map(|n| *net.ends[n].stats()));
        assert_eq!(net.ends[1].stats().bad_compressed, 0);
    }
}

#[test]
fn references_that_are_not_there_cost_a_packet_sent_again_and_no_more() {
    /// Every fifth frame names a reference that nobody founded.
    fn confuse(flight: &mut Flight, rng: &mut Rng) {
        if flight.bytes[0] == 0x2f && flight.bytes[2] == 1 && rng.below(5) == 0 {
            flight.bytes[14] ^= 0x84;
        }
    }
    let mut net = Net::settled(settings(2, Compression::On), vec![Wire::new(10), Wire::new(20)], 5);
    net.mangle = Some(confuse);
    let sent = stream(&mut net, 0..10_000, Span::from_micros(200));
    net.run(Span::from_secs(2));
    all_arrived(&net, &sent);
    let (unknown, resent) = (net.ends[1].stats().unknown_reference, net.ends[0].stats().resent);
    assert!(unknown > 500 && resent > 500 && net.ends[0].stats().forgotten_reference > 0, "{unknown} {resent}");
}

#[test]
fn a_flow_whose_reference_the_peer_does_not_have_founds_another() {
    /// The peer takes part in nothing that is compressed: it says that it does not know any reference.
    fn forget(flight: &mut Flight, _: &mut Rng) {
        if flight.bytes[0] == 0x2f && flight.bytes[2] == 1 {
            flight.bytes[14..16].copy_from_slice(&[0xff, 0xff]);
        }
    }
    let mut net = Net::settled(settings(1, Compression::On), vec![Wire::new(10)], 5);
    let sent = stream(&mut net, 0..1_000, MS(1));
    let before = net.ends[0].stats().compressed;
    net.mangle = Some(forget);
    let more = stream(&mut net, 1_000..2_000, MS(1));
    net.mangle = None;
    let rest = stream(&mut net, 2_000..3_000, MS(1));
    net.run(Span::from_secs(2));
    all_arrived(&net, &[sent, more, rest].concat());
    assert!(net.ends[0].stats().compressed > before + 700);
}

#[test]
fn the_largest_packets_still_fit_and_those_that_found_a_reference_too() {
    let mut net = Net::settled(settings(2, Compression::On), vec![Wire { largest: 1500, ..Wire::new(10) }; 2], 2);
    let whole = Net::settled(settings(2, Compression::Off), vec![Wire::new(10); 2], 2);
    let mtu = net.ends[0].mtu();
    assert_eq!(mtu, whole.ends[0].mtu());
    let mut sent = vec![];
    for n in 0..400 {
        for flow in 1..5 {
            sent.push(segment(flow, n, mtu - 52));
            net.host(0, sent[sent.len() - 1].clone());
            net.run(Span::from_micros(200));
        }
    }
    net.run(Span::from_secs(1));
    let mut delivered: Vec<_> = net.delivered[1].iter().map(|(_, packet)| packet.clone()).collect();
    delivered.sort();
    sent.sort();
    assert_eq!(delivered, sent);
    assert_eq!((net.ends[0].stats().resent, net.ends[0].stats().compressed > 1_000), (0, true));
}

#[test]
fn frames_that_lie_give_whole_packets_or_are_counted() {
    /// A byte of a compressed frame is another one, or the frame is cut.
    fn lie(flight: &mut Flight, rng: &mut Rng) {
        if flight.bytes[0] == 0x2f {
            let at = 2 + rng.below(flight.bytes.len() as u64 - 2) as usize;
            match rng.below(4) {
                0 => flight.bytes.truncate(at),
                1 => flight.bytes[2] = rng.below(256) as u8,
                _ => flight.bytes[at] = rng.below(256) as u8,
            }
        }
    }
    let mut net = Net::settled(settings(2, Compression::On), vec![Wire::new(10), Wire::new(20)], 5);
    stream(&mut net, 0..1_000, Span::from_micros(200));
    net.mangle = Some(lie);
    stream(&mut net, 1_000..6_000, Span::from_micros(200));
    net.mangle = None;
    for n in 0..3_000 {
        net.host(0, segment((n % 5) as u8, n, 60));
        if n == 500 {
            net.mangle = Some(lie);
        }
        net.run(Span::from_micros(200));
    }
    net.run(Span::from_secs(2));
    let stats = net.ends[1].stats();
    for (name, value) in [
        ("bad_compressed", stats.bad_compressed),
        ("unknown_reference", stats.unknown_reference),
        ("bad_kind", stats.bad_kind),
        ("bad_truncated", stats.bad_truncated),
    ] {
        assert!(value > 0, "{name}: {stats:?}");
    }
    for (_, packet) in &net.delivered[1] {
        assert!(Header::parse(packet, packet.len()).is_ok_and(|header| header.total == packet.len()), "{packet:02x?}");
    }
    assert!(net.most_held[1] <= 60_000_000);
}
