//! Captures of all formats, packed and not, read piece by piece.

mod files;

use fairspan_trace::capture::stream::{Format, Stream};
use fairspan_trace::capture::{Capture, CaptureError};
use files::{ORDERS, Order, erf, ip, test_data, tsh};
use proptest::prelude::*;
use std::fs;
use std::io::{self, Read, Write};

/// A packet that owns its bytes: time, length, link type, bytes.
type Owned = (i64, u32, i32, Vec<u8>);

/// Gives a few bytes at a time, and then fails if it is told to.
struct Trickle<'a> {
    data: &'a [u8],
    most: usize,
    fails: bool,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.data.is_empty() && self.fails {
            return Err(io::Error::other("the disk is gone"));
        }
        let most = self.most.min(buffer.len());
        self.data.read(&mut buffer[..most])
    }
}

fn all(mut stream: Stream<'_>) -> (Vec<Owned>, Vec<CaptureError>) {
    let (mut packets, mut errors) = (Vec::new(), Vec::new());
    loop {
        match stream.advance() {
            Ok(true) => {
                let packet = stream.packet();
                packets.push((packet.time, packet.length, packet.link_type, packet.bytes.to_vec()));
            }
            Ok(false) => return (packets, errors),
            Err(error) => errors.push(error),
        }
    }
}

fn read(file: &[u8], name: &str) -> (Vec<Owned>, Vec<CaptureError>) {
    match Stream::open(file, name, None) {
        Ok(stream) => all(stream),
        Err(error) => (Vec::new(), vec![error]),
    }
}

/// What the reader in memory gives, until the file's end.
fn in_memory(file: &[u8]) -> (Vec<Owned>, Vec<CaptureError>) {
    let (mut packets, mut errors) = (Vec::new(), Vec::new());
    match Capture::new(file) {
        Err(_) => return read(file, ""),
        Ok(capture) => {
            for packet in capture {
                match packet {
                    Ok(packet) => packets.push((packet.time, packet.length, packet.link_type, packet.bytes.to_vec())),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    (packets, errors)
}

fn some_pcapng(order: Order) -> Vec<u8> {
    let mut file = order.section();
    file.extend(order.interface(1, 0, Some(9), 3));
    file.extend(order.block(0x0bad, &[7; 40]));
    file.extend(order.interface(101, 9, None, 0));
    for n in 0..9 {
        file.extend(order.packet(n % 3, u64::from(n) << 20, 60 + n, &[n as u8; 33]));
    }
    file
}

fn some_pcap(order: Order) -> Vec<u8> {
    let frames: Vec<(u32, u32, u32, &[u8])> = (0..9).map(|n| (n, 5, 60 + n, &[7_u8; 33][..])).collect();
    order.pcap(0xa1b2_c3d4, 1, &frames)
}

fn packed(file: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(file).expect("memory");
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 6);
    xz.write_all(file).expect("memory");
    let zstd = ruzstd::encoding::compress_to_vec(file, ruzstd::encoding::CompressionLevel::Fastest);
    vec![("gzip", gzip.finish().expect("memory")), ("xz", xz.finish().expect("memory")), ("zstd", zstd)]
}

#[test]
fn a_stream_gives_what_memory_gives_however_small_its_pieces() {
    for order in ORDERS {
        for file in [some_pcap(order), some_pcapng(order)] {
            let whole = in_memory(&file);
            assert!(whole.0.len() >= 6);
            for most in [1, 7, 4096] {
                let source = Trickle { data: &file, most, fails: false };
                assert_eq!(all(Stream::open(source, "", None).expect("a capture")), whole);
            }
        }
    }
}

#[test]
fn packed_captures_give_what_they_hold_also_put_together_of_several_parts() {
    for file in [some_pcap(ORDERS[0]), some_pcapng(ORDERS[1])] {
        let whole = in_memory(&file);
        let (first, second) = file.split_at(file.len() / 2);
        for (name, bytes) in packed(&file) {
            assert_eq!(read(&bytes, ""), whole, "{name}");
        }
        for ((name, first), (_, second)) in packed(first).into_iter().zip(packed(second)) {
            assert_eq!(read(&[first, second].concat(), ""), whole, "{name} of two parts");
        }
        let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], &packed(&file)[2].1[..]].concat();
        assert_eq!(read(&skipped, ""), whole, "zstd behind a frame that is to be skipped");
    }
}

#[test]
fn a_packed_file_that_is_damaged_gives_what_comes_before_and_says_so() {
    // Long enough that no packer holds it back to the end, and not the same all over.
    let bytes: Vec<Vec<u8>> = (0..40_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes().repeat(9)).collect();
    let frames: Vec<(u32, u32, u32, &[u8])> = bytes.iter().map(|bytes| (1, 5, 60, &bytes[..])).collect();
    let file = ORDERS[0].pcap(0xa1b2_c3d4, 1, &frames);
    let whole = in_memory(&file).0;
    for (name, bytes) in packed(&file) {
        let (packets, errors) = read(&bytes[..bytes.len() * 9 / 10], "");
        assert!(!packets.is_empty() && packets.len() < whole.len(), "{name}: {}", packets.len());
        assert_eq!(packets[..], whole[..packets.len()], "{name}");
        let untold = errors.iter().all(|error| !matches!(error, CaptureError::Unreadable { .. }));
        assert!(!untold && errors.len() <= 2, "{name}: {errors:?}");
    }
}

#[test]
fn a_source_that_fails_gives_what_came_before_and_its_reason() {
    let file = some_pcap(ORDERS[0]);
    let source = Trickle { data: &file[..file.len() - 40], most: 50, fails: true };
    let (packets, errors) = all(Stream::open(source, "", None).expect("a capture"));
    assert_eq!(packets.len(), 8);
    let told: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert!(told.last().is_some_and(|last| last.contains("the disk is gone")), "{told:?}");
}

#[test]
fn erf_records_are_read_with_extension_headers_and_padding() {
    let frame = [&[0; 12][..], &[0x08, 0], &ip(1, 2, [3, 4], 1000)].concat();
    let padding = [&1_u64.to_le_bytes()[..], &[48, 0, 0, 24, 0, 0, 0, 0], &[0; 8]].concat();
    let file = [erf(9, 0, 1018, &frame), padding, erf(10, 3, 1018, &frame), erf(11, 0, 40, &frame)].concat();
    let (packets, errors) = read(&file, "x.erf");
    assert_eq!((packets.len(), &errors[..]), (3, &[][..]));
    assert_eq!(packets[0], (9_500_000_000, 1018, 1, frame.clone()));
    assert_eq!(packets[1], (10_500_000_000, 1018, 1, frame.clone()));
    assert_eq!(packets[2], (11_500_000_000, 40, 1, frame[..40].to_vec()), "what pads a record is no part of the frame");
    let unnamed = [erf(9, 0, 1018, &frame), erf(10, 3, 1018, &frame)].concat();
    assert_eq!(read(&unnamed, "").0.len(), 2, "it is known without its name");
    let (packets, errors) = read(&unnamed[..unnamed.len() - 1], "");
    assert_eq!((packets.len(), &errors[..]), (1, &[CaptureError::Cut { offset: 68, packet: true }][..]));
}

#[test]
fn what_a_wrong_length_makes_a_packet_of_does_not_hide_those_behind_it() {
    let frame = [&[0; 12][..], &[0x08, 0], &ip(1, 2, [3, 4], 1000)].concat();
    let mut records: Vec<Vec<u8>> = (0..6).map(|n| erf(900 + n, 0, 1018, &frame)).collect();
    // A record that is 40 bytes too short, behind it what looks like one of another time, and behind that none.
    let wrong = &mut records[1];
    let at = wrong.len() - 40;
    wrong[10..12].copy_from_slice(&(at as u16).to_be_bytes());
    wrong[at..].fill(0);
    wrong[at..at + 24].copy_from_slice(&erf(0x7777_0000, 0, 6, &[7; 6]));
    let (packets, errors) = read(&records.concat(), "x.erf");
    let times: Vec<i64> = packets.iter().map(|packet| packet.0 / 1_000_000_000).collect();
    assert_eq!((times, errors.len()), (vec![900, 901, 0x7777_0000, 902, 903, 904, 905], 1));

    for order in ORDERS {
        let bytes = [7; 60];
        let frames: Vec<(u32, u32, u32, &[u8])> = (0..6).map(|n| (900 + n, 0, 60, &bytes[..])).collect();
        let mut file = order.pcap(0xa1b2_c3d4, 1, &frames);
        // The same: the second one ends 40 bytes early.
        let (start, at) = (24 + 76, 24 + 2 * 76 - 40);
        file[start + 8..start + 12].copy_from_slice(&order.word(20));
        file[at..at + 40].fill(0xff);
        file[at..at + 16].copy_from_slice(&[0x7777_0000, 0, 8, 8].map(|word| order.word(word)).concat());
        let (packets, errors) = read(&file, "");
        let times: Vec<i64> = packets.iter().map(|packet| packet.0 / 1_000_000_000).collect();
        assert_eq!((times, errors.len()), (vec![900, 901, 0x7777_0000, 902, 903, 904, 905], 1));
    }
}

#[test]
fn behind_a_broken_record_of_erf_or_block_of_pcapng_reading_goes_on_where_the_next_one_stands() {
    let frame = [&[0; 12][..], &[0x08, 0], &ip(1, 2, [3, 4], 1000)].concat();
    let records: Vec<Vec<u8>> = (0..6).map(|n| erf(900 + n, 0, 1018, &frame)).collect();
    let size = records[0].len();
    let mut broken = records.concat();
    broken[size + 11] = 15;
    let (packets, errors) = read(&broken, "x.erf");
    assert_eq!(errors, [CaptureError::Lost { offset: size as u64 }]);
    let times: Vec<i64> = packets.iter().map(|packet| packet.0 / 1_000_000_000).collect();
    assert_eq!(times, [900, 902, 903, 904, 905]);
    // Bytes that are gone cost the record whose they were; here it takes the next one's head for its end.
    let mut cut = records.concat();
    cut.drain(size + 20..size + 27);
    let (packets, errors) = read(&cut, "x.erf");
    assert!(packets.len() >= 4 && errors.len() <= 1, "{} {errors:?}", packets.len());
    assert_eq!(packets.last(), read(&records.concat(), "x.erf").0.last());
    // Nothing behind it looks like one.
    broken[2 * size..].fill(0);
    assert_eq!((read(&broken, "x.erf").0.len(), read(&broken, "x.erf").1.len()), (1, 1));

    for order in ORDERS {
        let head = [order.section(), order.interface(1, 0, Some(9), 3)].concat();
        let blocks: Vec<Vec<u8>> = (0..6).map(|n| order.packet(0, n, 60, &[n as u8; 14])).collect();
        let size = blocks[0].len();
        let whole = [head.clone(), blocks.concat()].concat();
        let expected = read(&whole, "").0;
        let place = head.len() + size;
        // The first copy of its length, a length that is none, and the second copy.
        for (at, byte) in [(place + 4, 0x0c), (place + 4, 0x05), (place + size - 1, 0x77), (place + size - 4, 0x77)] {
            let mut broken = whole.clone();
            broken[at] ^= byte;
            for (packets, errors) in [read(&broken, ""), in_memory(&broken)] {
                assert_eq!(errors, [CaptureError::Lost { offset: place as u64 }], "{at} {byte}");
                assert_eq!((&packets[..1], &packets[1..]), (&expected[..1], &expected[2..]));
            }
        }
        // A piece is gone, and the rest does not stand at a multiple of four.
        let mut cut = whole.clone();
        cut.drain(place + 9..place + 16);
        let (packets, errors) = read(&cut, "");
        assert_eq!((&packets[1..], errors.len()), (&expected[2..], 1));
        // Another section, of the other byte order.
        let other = Order { big: !order.big };
        let mut two =
            [whole.clone(), other.section(), other.interface(1, 0, None, 0), other.packet(0, 9, 60, &[9; 4])].concat();
        two[whole.len() - size + 4] ^= 4;
        let (packets, errors) = read(&two, "");
        assert_eq!((packets.len(), errors.len(), packets[5].3.len()), (6, 1, 4));
    }
}

#[test]
fn tsh_records_are_ip_packets_of_the_length_in_their_header() {
    let mut file = Vec::new();
    (0..3).for_each(|n| file.extend(tsh(800_000_000 + n, 17, &ip(1, 2, [80, n as u16], 576))));
    let (packets, errors) = read(&file, "");
    assert_eq!((packets.len(), &errors[..]), (3, &[][..]));
    assert_eq!(packets[2], (800_000_002_000_017_000, 576, 101, ip(1, 2, [80, 2], 576).to_vec()));
    file[44 + 5] = 0xff;
    let (packets, errors) = read(&file, "a.tsh.gz");
    assert_eq!((packets.len(), &errors[..]), (2, &[CaptureError::Time { offset: 44 }][..]));
    let (packets, errors) = read(&file[..100], "a.tsh");
    assert_eq!((packets.len(), errors.len()), (1, 2));
}

#[test]
fn lines_of_text_are_packets_and_wrong_lines_are_told_one_by_one() {
    let text = "# a comment\n\n0.25 1 2 80 1024 512\n1.000001 10.0.0.1 2 7 9 0\nnonsense\n2 1 2 80 70000 5\n 3.5 1 2 80 1024 9 more\n4";
    let (packets, errors) = read(text.as_bytes(), "");
    let packet = |source: [u8; 4], ports: [u8; 4], protocol: u8| {
        let head = [0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0];
        [&head[..], &source, &[0, 0, 0, 2], &ports].concat()
    };
    assert_eq!(packets.len(), 3);
    assert_eq!(packets[0], (250_000_000, 512, 101, packet([0, 0, 0, 1], [0, 80, 4, 0], 6)));
    assert_eq!(packets[1], (1_000_001_000, 0, 101, packet([10, 0, 0, 1], [0, 7, 0, 9], 6)));
    assert_eq!(packets[2].0, 3_500_000_000);
    let offsets: Vec<u64> = errors
        .iter()
        .map(|error| match error {
            CaptureError::Line { offset } => *offset,
            error => panic!("{error}"),
        })
        .collect();
    let places: Vec<u64> = ["nonsense", "2 1 2 80 7", "4"].map(|line| text.rfind(line).unwrap_or(0) as u64).into();
    assert_eq!(offsets, places);
    assert_eq!(read(text.as_bytes(), "dec-pkt-1.udp.gz").0[0].3[9], 17, "the name tells UDP");
    let endless = [b"1 1 1 1 1 1\n".to_vec(), vec![b'1'; 100_000], b"\n2 1 1 1 1 1\n".to_vec()].concat();
    let (packets, errors) = read(&endless, "");
    assert!(packets.len() == 2 && errors.len() >= 24, "a line without an end is cut in parts: {}", errors.len());
}

#[test]
fn a_format_that_is_named_is_believed_and_what_is_no_capture_is_refused() {
    assert_eq!(read(b"", "").1, [CaptureError::Empty]);
    for none in [&b"x"[..], b"GIF89a, and more than is needed of it", &[0; 4096]] {
        assert_eq!(read(none, "").1, [CaptureError::NoFormat], "{:?}", &none[..none.len().min(9)]);
    }
    let file = some_pcap(ORDERS[0]);
    for cut in 4..24 {
        assert_eq!(read(&file[..cut], "").1, [CaptureError::CutHeader], "{cut}");
    }
    assert_eq!(read(&file[..3], "").1, [CaptureError::NoFormat], "that may be anything");
    let stream = Stream::open(&file[..], "", Some(Format::Pcap)).expect("a capture");
    assert_eq!(all(stream).0.len(), 9);
    assert!(matches!(Stream::open(&b"no"[..], "", Some(Format::Pcap)), Err(CaptureError::NoFormat)));
    let stream = Stream::open(&[0_u8; 88][..], "", Some(Format::Tsh)).expect("believed");
    assert_eq!(all(stream).0.len(), 2);
}

#[test]
fn frames_longer_than_64_kib_and_long_foreign_blocks_pass() {
    let order = ORDERS[0];
    let frame = vec![5; 200_000];
    let file = order.pcap(0xa1b2_c3d4, 1, &[(1, 0, 262_144, &frame), (2, 0, 60, &[6; 60])]);
    let (packets, errors) = read(&file, "");
    assert_eq!((packets[0].1, packets[0].3.len(), packets.len(), errors.len()), (262_144, 200_000, 2, 0));
    let mut file = order.section();
    file.extend(order.interface(1, 0, None, 0));
    file.extend(order.block(0x0bad, &vec![1; 40 << 20]));
    file.extend(order.packet(0, 5, 60, &[1; 5]));
    assert_eq!(read(&file, "").0.len(), 1);
    file.truncate(30 << 20);
    let (packets, errors) = read(&file, "");
    let place = (order.section().len() + order.interface(1, 0, None, 0).len()) as u64;
    assert_eq!((packets.len(), &errors[..]), (0, &[CaptureError::Cut { offset: place, packet: false }][..]));
}

#[test]
fn a_packet_that_claims_too_much_costs_itself_only() {
    for order in ORDERS {
        let mut file = order.section();
        file.extend(order.interface(1, 0, None, 0));
        let place = file.len();
        file.extend(order.packet(0, 5, 60, &[1; 5]));
        file[place + 20..place + 24].copy_from_slice(&order.word(9));
        file.extend(order.packet(7, 5, 60, &[1; 5]));
        file.extend(order.packet(0, 5, 60, &[2; 5]));
        let (packets, errors) = read(&file, "");
        assert_eq!((packets.len(), packets[0].3[0], errors.len()), (1, 2, 2));
        assert_eq!(errors[0], CaptureError::Length { offset: place as u64 });
        assert!(matches!(errors[1], CaptureError::Interface { interface: 7, .. }));
    }
}

proptest! {
    #[test]
    fn damaged_files_of_any_format_end_and_give_the_same_however_they_come(
        kind in 0_usize..6,
        damage in proptest::collection::vec((0_usize..700, any::<u8>()), 0..5),
        cut in 0_usize..700,
        most in 1_usize..90,
    ) {
        let frame = [&[0; 12][..], &[0x08, 0], &ip(1, 2, [3, 4], 1000)].concat();
        let mut file = match kind {
            0 | 1 => some_pcap(ORDERS[kind]),
            2 | 3 => some_pcapng(ORDERS[kind - 2]),
            4 => (0..8).flat_map(|n| erf(n + 9, n as usize % 3, 99, &frame)).collect(),
            _ => (0..12).flat_map(|n| tsh(n + 9, n, &ip(1, 2, [3, 4], 99))).collect(),
        };
        for (place, byte) in damage {
            if let Some(there) = file.get_mut(place) {
                *there = byte;
            }
        }
        file.truncate(cut.max(1));
        let whole = read(&file, "");
        prop_assert!(whole.0.len() + whole.1.len() <= file.len());
        match Stream::open(Trickle { data: &file, most, fails: false }, "", None) {
            Ok(stream) => prop_assert_eq!(&all(stream), &whole),
            Err(error) => prop_assert_eq!(&vec![error], &whole.1),
        }
        if Capture::is_one(&file) {
            prop_assert_eq!(in_memory(&file), whole);
        }
    }
}

#[test]
fn captures_of_the_test_data_give_the_same_from_a_stream_as_from_memory() {
    let Some(traces) = test_data() else { return };
    let mut files = 0;
    for directory in ["nasty", "real", "attack"] {
        for entry in fs::read_dir(traces.join(directory)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let file = fs::read(&path).expect("a file");
            assert_eq!(read(&file, ""), in_memory(&file), "{}", path.display());
            files += 1;
        }
    }
    assert!(files > 50, "{files} files");
}
