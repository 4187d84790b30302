//! Captures made here byte by byte, and those of the test data.

mod files;

use fairspan_core::units::Span;
use fairspan_trace::capture::{Capture, CaptureError, Captured};
use fairspan_trace::replay::Replay;
use files::{ORDERS, Order, test_data};
use proptest::prelude::*;
use std::fs;

fn read(file: &[u8]) -> (Vec<Captured<'_>>, Option<CaptureError>) {
    let mut packets = Vec::new();
    match Capture::new(file) {
        Err(error) => return (packets, Some(error)),
        Ok(capture) => {
            for packet in capture {
                match packet {
                    Ok(packet) => packets.push(packet),
                    Err(error) => return (packets, Some(error)),
                }
            }
        }
    }
    (packets, None)
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_both_units_of_time() {
    for order in ORDERS {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let frames: [(u32, u32, u32, &[u8]); 2] = [(5, 7, 1500, &[1, 2, 3]), (4_000_000_000, 999_999, 4, &[9; 4])];
            let file = order.pcap(magic, 1, &frames);
            let (packets, error) = read(&file);
            assert_eq!(error, None);
            let first = Captured { time: 5_000_000_000 + 7 * unit, length: 1500, bytes: &[1, 2, 3], link_type: 1 };
            assert_eq!(packets[0], first);
            assert_eq!(packets[1].time, 4_000_000_000_000_000_000 + 999_999 * unit);
            assert_eq!(packets.len(), 2);
        }
    }
}

#[test]
fn what_a_pcap_tells_of_the_check_sequence_is_no_part_of_its_link_type() {
    for order in ORDERS {
        // Two units of 16 bits; the bit below says that this is known; and bits that are reserved.
        for upper in [0x2000_0000, 0x2400_0000, 0x03ff_0000] {
            let file = order.pcap(0xa1b2_c3d4, 113 | upper, &[(5, 7, 4, &[1; 4])]);
            let (packets, error) = read(&file);
            assert_eq!((packets[0].link_type, error), (113, None), "{upper:x}");
        }
    }
}

#[test]
fn pcap_files_one_behind_the_other_are_read_as_one() {
    for order in ORDERS {
        let first = order.pcap(0xa1b2_c3d4, 1, &[(5, 7, 4, &[1; 4])]);
        // It has a link type of its own, and may be much later.
        let second = order.pcap(0xa1b2_c3d4, 101, &[(2_000_000_000, 8, 5, &[2; 5]), (2_000_000_001, 9, 6, &[3; 6])]);
        let file = [&first[..], &second, &first].concat();
        let (packets, error) = read(&file);
        assert_eq!(error, None);
        let told: Vec<_> = packets.iter().map(|packet| (packet.time / 1000, packet.length, packet.link_type)).collect();
        let later = 2_000_000_000_000_008;
        assert_eq!(told, [(5_000_007, 4, 1), (later, 5, 101), (later + 1_000_001, 6, 101), (5_000_007, 4, 1)]);
        let file = [&first[..], &second[..20]].concat();
        let (packets, error) = read(&file);
        assert_eq!((packets.len(), error), (1, Some(CaptureError::Cut { offset: first.len() as u64, packet: false })));
    }
}

#[test]
fn pcapng_times_follow_the_resolution_and_offset_of_their_interface() {
    for order in ORDERS {
        let mut file = order.section();
        file.extend(order.interface(1, 0, None, 0));
        file.extend(order.interface(101, 0, Some(9), 100));
        file.extend(order.interface(1, 0, Some(0x80 | 10), -1));
        file.extend(order.interface(1, 0, Some(12), 0));
        file.extend(order.packet(0, 1_000_001, 60, &[1; 5]));
        file.extend(order.packet(1, (1 << 33) + 5, 61, &[2; 6]));
        file.extend(order.packet(2, 1024 + 512, 62, &[3; 7]));
        file.extend(order.packet(3, 5_999_999_999_999, 63, &[4; 8]));
        let (packets, error) = read(&file);
        assert_eq!(error, None);
        let times: Vec<i64> = packets.iter().map(|packet| packet.time).collect();
        assert_eq!(times, [1_000_001_000, 100_000_000_000 + (1 << 33) + 5, 500_000_000, 5_999_999_999]);
        assert_eq!(packets.iter().map(|packet| packet.bytes.len()).collect::<Vec<_>>(), [5, 6, 7, 8]);
        assert_eq!(packets.iter().map(|packet| packet.link_type).collect::<Vec<_>>(), [1, 101, 1, 1]);
    }
}

#[test]
fn a_new_section_has_its_own_byte_order_and_interfaces() {
    let [little, big] = ORDERS;
    let mut file = little.section();
    file.extend(little.interface(1, 0, None, 0));
    file.extend(little.packet(0, 1, 60, &[1; 4]));
    file.extend(big.section());
    let end = file.len();
    file.extend(big.packet(0, 2, 60, &[1; 4]));
    let (packets, error) = read(&file);
    assert_eq!((packets.len(), error), (1, Some(CaptureError::Interface { offset: end as u64, interface: 0 })));
}

#[test]
fn a_simple_packet_is_as_long_as_it_was_and_has_the_time_before_it() {
    for order in ORDERS {
        let mut file = order.section();
        file.extend(order.interface(1, 6, None, 0));
        file.extend(order.packet(0, 77, 60, &[1; 4]));
        let mut body = order.word(1000).to_vec();
        body.extend([7; 6]);
        file.extend(order.block(3, &body));
        let (packets, error) = read(&file);
        assert_eq!(error, None);
        assert_eq!(packets[1], Captured { time: 77_000, length: 1000, bytes: &[7; 6], link_type: 1 });
    }
}

#[test]
fn simple_packets_before_the_first_time_have_that_time() {
    for order in ORDERS {
        let simple = order.block(3, &[&order.word(6)[..], &[7; 6]].concat());
        let head = [order.section(), order.interface(1, 0, None, 0)].concat();
        let file = [&head[..], &simple, &simple, &order.packet(0, 77, 60, &[1; 4]), &simple].concat();
        let (packets, error) = read(&file);
        assert_eq!((packets.iter().map(|packet| packet.time).collect::<Vec<_>>(), error), (vec![77_000; 4], None));
        assert_eq!(read(&[head, simple].concat()).0[0].time, 0);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    assert_eq!(read(b"not a capture").1, Some(CaptureError::Format));
    assert_eq!(read(b"").1, Some(CaptureError::Format));
    let order = ORDERS[0];
    let file = order.pcap(0xa1b2_c3d4, 1, &[(1, 0, 4, &[0; 4]), (2, 0, 9, &[0; 9])]);
    let (packets, error) = read(&file[..file.len() - 1]);
    assert_eq!((packets.len(), error), (1, Some(CaptureError::Cut { offset: 44, packet: true })));
    let mut file = order.section();
    file.extend(order.interface(1, 0, Some(0x7f), 0));
    let place = file.len();
    file.extend(order.packet(0, 1, 60, &[1; 4]));
    assert_eq!(read(&file).1, Some(CaptureError::Time { offset: place as u64 }));
}

#[test]
fn a_replay_has_ip_lengths_and_times_since_its_first_packet() {
    let mut ip = vec![0; 12];
    ip.extend([0x08, 0x00, 0x45, 0, 0, 28]);
    ip.resize(60, 0);
    let mut arp = vec![0; 12];
    arp.extend([0x08, 0x06]);
    arp.resize(60, 0);
    let frames: [(u32, u32, u32, &[u8]); 4] =
        [(9, 0, 60, &arp), (10, 0, 60, &ip), (10, 500, 60, &ip), (10, 400, 60, &ip)];
    let replay = Replay::read(&ORDERS[1].pcap(0xa1b2_c3d4, 1, &frames)).expect("a capture");
    let half = Span::from_micros(500);
    assert_eq!(replay.packets, [(Span::ZERO, 28), (half, 28), (half, 28)]);
    assert_eq!((replay.others, replay.backwards, &replay.error), (1, 1, &None));
    assert_eq!(replay.to_lines(), "0.000000000,28\n0.000500000,28\n0.000500000,28\n");
}

proptest! {
    #[test]
    fn a_cut_or_damaged_file_gives_a_prefix_or_an_error_and_never_more(
        big in any::<bool>(),
        next in any::<bool>(),
        cut in 0_usize..400,
        damage in proptest::option::of((0_usize..400, any::<u8>())),
    ) {
        let order = Order { big };
        let mut file = if next {
            let mut file = order.section();
            file.extend(order.interface(1, 0, Some(9), 3));
            (0..6).for_each(|n| file.extend(order.packet(0, u64::from(n), 60 + n, &[n as u8; 14])));
            file
        } else {
            let frames: Vec<(u32, u32, u32, &[u8])> = (0..6).map(|n| (n, 0, 60, &[7_u8; 14][..])).collect();
            order.pcap(0xa1b2_c3d4, 1, &frames)
        };
        let whole = file.clone();
        let (expected, _) = read(&whole);
        file.truncate(cut);
        if let Some((at, byte)) = damage {
            if let Some(place) = file.get_mut(at) {
                *place = byte;
            }
            let (packets, _) = read(&file);
            prop_assert!(packets.len() <= file.len() / 16);
        } else {
            let (packets, _) = read(&file);
            prop_assert!(packets.len() <= expected.len());
            prop_assert_eq!(&packets[..], &expected[..packets.len()]);
        }
        let _ = Replay::read(&file);
    }
}

#[test]
fn captures_of_the_test_data_are_read_to_their_end() {
    let Some(traces) = test_data() else { return };
    let file = fs::read(traces.join("real/fragtest.pcap")).expect("a file");
    let replay = Replay::read(&file).expect("a capture");
    assert_eq!(replay.packets.len() as u64 + replay.others, 10_000);
    assert_eq!(replay.error, None);
    let span = replay.packets.last().map(|packet| packet.0.as_secs_f64()).expect("packets");
    // What the data's description says: a busy access link for 0.6 s.
    assert!((0.5..0.7).contains(&span), "{span}");
}

#[test]
fn both_byte_orders_of_a_suite_hold_the_same_packets() {
    let Some(traces) = test_data() else { return };
    let mut compared = 0;
    for entry in fs::read_dir(traces.join("nasty")).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
        if !name.contains("-be-") {
            continue;
        }
        let Ok(little) = fs::read(path.with_file_name(name.replace("-be-", "-le-"))) else { continue };
        let big = fs::read(&path).expect("a file");
        let (big, little) = (read(&big), read(&little));
        assert_eq!(big.0, little.0, "{name}");
        compared += usize::from(!big.0.is_empty());
    }
    assert!(compared >= 5, "{compared} pairs with packets");
}

#[test]
fn no_file_of_the_test_data_makes_the_reader_fail_otherwise_than_by_an_error() {
    let Some(traces) = test_data() else { return };
    let (mut files, mut packets) = (0, 0);
    for directory in ["nasty", "real", "attack"] {
        for entry in fs::read_dir(traces.join(directory)).expect("a directory") {
            let file = fs::read(entry.expect("an entry").path()).expect("a file");
            let (found, _) = read(&file);
            let _ = Replay::read(&file);
            (files, packets) = (files + 1, packets + found.len());
        }
    }
    assert!(files > 50 && packets > 20_000, "{files} files, {packets} packets");
}
