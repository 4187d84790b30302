//! The readers of captures, and what tells flows.

use fairspan_core::flow::Reading;
use fairspan_core::units::{Span, Time};
use fairspan_trace::capture::stream::{Format, Stream};
use fairspan_trace::capture::{Capture, CaptureError, Captured};
use fairspan_trace::flows::gateway::Config as GatewayConfig;
use fairspan_trace::flows::{Config, Flows};
use fairspan_trace::info::Info;
use std::io::Read;

/// Gives a few bytes at a time.
struct Trickle<'a> {
    data: &'a [u8],
    most: usize,
}

impl Read for Trickle<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let most = self.most.min(buffer.len());
        self.data.read(&mut buffer[..most])
    }
}

/// Everything that counts packets. Each has to account for all of them.
struct Counting {
    flows: Vec<Flows>,
    info: Info,
    packets: u64,
}

impl Counting {
    fn new() -> Counting {
        let config = |reading| Config {
            definitions: ["five-tuple", "five-tuple-both", "prefix/20", "network"]
                .map(|name| name.parse().expect("a name"))
                .into(),
            timeouts: vec![Some(Span::ZERO), Some(Span::from_millis(1)), Some(Span::from_secs(5)), None],
            gateway: (GatewayConfig { limit: 60, ..GatewayConfig::default() }, Span::from_millis(300)),
            table_size: 8,
            limit: 64,
            reading,
            interval: Some(Span::from_secs(1)),
            secret: 7,
            ..Config::default()
        };
        let flows = [Reading::Plain, Reading::Outer, Reading::Inner]
            .map(|reading| Flows::new(&config(reading)).expect("settings that work"));
        Counting { flows: flows.into(), info: Info::default(), packets: 0 }
    }

    fn packet(&mut self, packet: &Captured<'_>) {
        let mut last = Time::ZERO;
        for flows in &mut self.flows {
            flows.packet(packet, &mut |at, _| last = last.max(at));
        }
        self.info.packet(packet);
        self.packets += 1;
    }

    fn unreadable(&mut self, error: &CaptureError) {
        self.flows.iter_mut().for_each(|flows| flows.unreadable(error));
        self.info.unreadable(error);
        self.packets += u64::from(error.is_packet());
    }

    fn finish(mut self) {
        for flows in &mut self.flows {
            flows.finish(&mut |_, _| ());
            let tally = *flows.tally();
            assert_eq!(tally.packets, self.packets);
            assert_eq!(tally.packets, tally.classified + tally.skipped().map(|(_, packets)| packets).sum::<u64>());
            for row in flows.rows() {
                let counts = row.counts;
                assert!(counts.most <= 64 && row.most_sampled <= counts.most && counts.created <= tally.classified);
                assert_eq!(counts.created, counts.expired + u64::from(counts.active));
                assert!(counts.collisions <= tally.packets);
            }
        }
        let tally = self.info.tally();
        assert_eq!(tally.packets, tally.classified + tally.skipped().map(|(_, packets)| packets).sum::<u64>());
    }
}

/// Reads a stream to its end, in the order of time; what it held, in short.
fn read(stream: Result<Stream<'_>, CaptureError>) -> (Vec<(i64, u32, usize)>, Vec<CaptureError>) {
    let (mut packets, mut errors) = (Vec::new(), Vec::new());
    let mut counting = Counting::new();
    let mut last = i64::MIN;
    match stream {
        Err(error) => errors.push(error),
        Ok(mut stream) => loop {
            match stream.advance() {
                Ok(true) => {
                    let packet = stream.packet();
                    assert!(packet.bytes.len() <= 16 << 20);
                    last = last.max(packet.time);
                    counting.packet(&Captured { time: last, ..packet });
                    packets.push((packet.time, packet.length, packet.bytes.len()));
                }
                Ok(false) => break,
                Err(error) => {
                    counting.unreadable(&error);
                    errors.push(error);
                }
            }
        },
    }
    counting.finish();
    (packets, errors)
}

/// The readers of captures. The first byte chooses a format, or that it is to be found out; how the bytes come must not matter.
pub fn capture(data: &[u8]) {
    let Some((choice, data)) = data.split_first() else { return };
    let formats = [Format::Pcap, Format::Pcapng, Format::Erf, Format::Tsh, Format::Ita];
    let format = formats.get(usize::from(choice % 8)).copied();
    let whole = read(Stream::open(data, "", format));
    let pieces = Trickle { data, most: 1 + usize::from(choice / 8) };
    assert_eq!(read(Stream::open(pieces, "", format)), whole);
    if let Ok(capture) = Capture::new(data) {
        let mut packets = Vec::new();
        let mut errors = Vec::new();
        for packet in capture {
            match packet {
                Ok(packet) => packets.push((packet.time, packet.length, packet.bytes.len())),
                Err(error) => errors.push(error),
            }
        }
        if format.is_none() {
            assert_eq!((packets, errors), whole);
        }
    }
}

/// Packed captures: what is packed as gzip, xz or zstd.
pub fn packed(data: &[u8]) {
    read(Stream::open(data, "", None));
}

/// Headers of links, tunnels and IP. The first two bytes are the link type, and then each packet stands behind its length.
pub fn headers(data: &[u8]) {
    let [high, low, rest @ ..] = data else { return };
    let link_type = i32::from(u16::from_be_bytes([*high, *low]));
    let (mut rest, mut time, mut counting) = (rest, 0, Counting::new());
    while let [length, after @ ..] = rest {
        let (bytes, after) = after.split_at(usize::from(*length).min(after.len()));
        (rest, time) = (after, time + 700_000_000);
        counting.packet(&Captured { time, length: bytes.len() as u32, bytes, link_type });
    }
    counting.finish();
}
