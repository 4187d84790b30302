//! Answers of DNS in packets that pass: only those to questions that were seen, by who was asked.
//!
//! Over UDP a question is known by its ends, its number and its words, and answered once. Over TCP the ends of a connection say as
//! much: its begin is seen, and what comes back on it is put together by its numbers.

use super::message::{self, Answer, Asked};
use fairspan_core::flow::Key;
use fairspan_core::ip::{Piece, TCP, UDP, Version};
use fairspan_core::units::{Span, Time};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The port of DNS.
pub(super) const PORT: u16 = 53;
/// Questions of one of two halves: an older one is forgotten when there are as many newer ones, or so much later.
const QUESTIONS: usize = 2048;
const PATIENCE: Span = Span::from_secs(15);
/// Connections that are followed, at most.
const STREAMS: usize = 256;
/// Segments of one that came before their turn, at most, and how far ahead.
const AHEAD: usize = 16;
const FAR: u32 = 1 << 16;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Answers that were read.
    pub(super) answers: u64,
    /// Those that nobody asked for.
    pub(super) unasked: u64,
    /// Those that are cut or make no sense, and connections that could not be followed.
    pub(super) unread: u64,
}

/// Who asked whom, by which number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Exchange {
    asker: SocketAddr,
    asked: SocketAddr,
    number: u16,
}

/// Questions that wait for their answers, and connections to those who are asked.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    fresh: HashMap<Exchange, Asked>,
    old: HashMap<Exchange, Asked>,
    turned: Time,
    streams: HashMap<(SocketAddr, SocketAddr), Stream>,
    pub(super) counts: Counts,
}

impl Watcher {
    /// What a packet of `length` bytes, which begins with `bytes`, answers.
    pub(super) fn packet(&mut self, now: Time, bytes: &[u8], length: u32) -> Vec<Answer> {
        let Some((key, at)) = Key::read_to(bytes).filter(|(key, _)| key.piece == Piece::Whole) else {
            return Vec::new();
        };
        let (Some([from, to]), Some(body)) = (ends(&key), bytes.get(at..)) else { return Vec::new() };
        let is_whole = bytes.len() >= length as usize;
        match key.protocol {
            UDP => self.datagram(now, [from, to], body, is_whole).into_iter().collect(),
            TCP => self.segment(now, [from, to], body, is_whole),
            _ => Vec::new(),
        }
    }

    fn datagram(&mut self, now: Time, [from, to]: [SocketAddr; 2], datagram: &[u8], is_whole: bool) -> Option<Answer> {
        let length = usize::from(u16::from_be_bytes([*datagram.get(4)?, *datagram.get(5)?]));
        let content = datagram.get(8..length).or(datagram.get(8..).filter(|_| !is_whole))?;
        let (number, answers) = message::head(content)?;
        if !answers {
            if to.port() == PORT
                && let Some(asked) = message::question(content)
            {
                self.ask(now, Exchange { asker: from, asked: to, number }, asked);
            }
            return None;
        }
        if from.port() != PORT {
            return None;
        }
        let exchange = Exchange { asker: to, asked: from, number };
        let Some(asked) = self.fresh.get(&exchange).or(self.old.get(&exchange)) else {
            self.counts.unasked += 1;
            return None;
        };
        match message::answer(content).filter(|_| is_whole) {
            Some(answer) if answer.asked == *asked => {
                self.fresh.remove(&exchange);
                self.old.remove(&exchange);
                self.counts.answers += 1;
                Some(answer)
            }
            Some(_) => {
                self.counts.unasked += 1;
                None
            }
            None => {
                self.counts.unread += 1;
                None
            }
        }
    }

    fn ask(&mut self, now: Time, exchange: Exchange, asked: Asked) {
        if self.fresh.len() >= QUESTIONS || now.since(self.turned) >= PATIENCE {
            self.old = std::mem::take(&mut self.fresh);
            if now.since(self.turned) >= PATIENCE.times(2) {
                self.old.clear();
            }
            self.turned = now;
        }
        self.fresh.insert(exchange, asked);
    }

    fn segment(&mut self, now: Time, [from, to]: [SocketAddr; 2], segment: &[u8], is_whole: bool) -> Vec<Answer> {
        let Some(header) = segment.first_chunk::<20>() else { return Vec::new() };
        let (flags, begin) = (header[13], usize::from(header[12] >> 4) * 4);
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        if to.port() == PORT && flags & (SYN | ACK | RST | FIN) == SYN {
            self.follow(now, (from, to));
            return Vec::new();
        }
        let ends = (to, from);
        let Some(stream) = self.streams.get_mut(&ends).filter(|_| from.port() == PORT) else { return Vec::new() };
        if flags & (SYN | RST) == SYN {
            stream.next.get_or_insert(sequence.wrapping_add(1));
            return Vec::new();
        }
        let content = segment.get(begin.max(20)..).unwrap_or_default();
        let (mut messages, mut is_followed) = (Vec::new(), is_whole);
        if is_whole && !content.is_empty() {
            is_followed = stream.take(now, sequence, content, &mut messages);
        }
        if !is_followed {
            self.counts.unread += 1;
        }
        if !is_followed || flags & (RST | FIN) != 0 {
            self.streams.remove(&ends);
        }
        let mut answers = Vec::new();
        for message in messages {
            match message::head(&message).filter(|(_, answers)| *answers).and_then(|_| message::answer(&message)) {
                Some(answer) => answers.push(answer),
                None => self.counts.unread += 1,
            }
        }
        self.counts.answers += answers.len() as u64;
        answers
    }

    /// Follows a connection that begins; of too many, the one that was quiet for longest is not followed any more.
    fn follow(&mut self, now: Time, ends: (SocketAddr, SocketAddr)) {
        if self.streams.len() >= STREAMS
            && let Some(quiet) = self.streams.iter().min_by_key(|(_, stream)| stream.heard).map(|(ends, _)| *ends)
        {
            self.streams.remove(&quiet);
        }
        self.streams.insert(ends, Stream { heard: now, ..Stream::default() });
    }
}

/// What comes back on a connection.
#[derive(Debug, Default)]
struct Stream {
    heard: Time,
    /// The number of the byte that comes next, once that is known.
    next: Option<u32>,
    /// What is there of the message that is not whole yet, its length first.
    begun: Vec<u8>,
    ahead: Vec<(u32, Vec<u8>)>,
}

impl Stream {
    /// Takes what a segment brings, and gives the messages that are whole by that. False: it cannot be followed any more.
    fn take(&mut self, now: Time, sequence: u32, content: &[u8], messages: &mut Vec<Vec<u8>>) -> bool {
        self.heard = now;
        let Some(next) = self.next else { return false };
        let before = sequence.wrapping_sub(next);
        if before.cast_signed() > 0 {
            let is_known = self.ahead.iter().any(|(known, _)| *known == sequence);
            if before > FAR || (self.ahead.len() >= AHEAD && !is_known) {
                return false;
            }
            if !is_known {
                self.ahead.push((sequence, content.to_vec()));
            }
            return true;
        }
        self.append(sequence, content);
        // What waited has its turn as soon as nothing is missing before it.
        while let Some(at) = self
            .ahead
            .iter()
            .position(|(sequence, _)| self.next.is_some_and(|next| sequence.wrapping_sub(next).cast_signed() <= 0))
        {
            let (sequence, content) = self.ahead.swap_remove(at);
            self.append(sequence, &content);
        }
        while let Some(length) = self.begun.first_chunk().map(|length| usize::from(u16::from_be_bytes(*length))) {
            let Some(message) = self.begun.get(2..2 + length) else { break };
            messages.push(message.to_vec());
            self.begun.drain(..2 + length);
        }
        true
    }

    /// Adds what is new of it.
    fn append(&mut self, sequence: u32, content: &[u8]) {
        let Some(next) = self.next else { return };
        let new = content.get(next.wrapping_sub(sequence) as usize..).unwrap_or_default();
        self.begun.extend(new);
        self.next = Some(next.wrapping_add(new.len() as u32));
    }
}

/// From where to where a packet goes.
fn ends(key: &Key<'_>) -> Option<[SocketAddr; 2]> {
    let [s0, s1, d0, d1] = key.ports?;
    let (source, destination) = key.addresses.split_at_checked(key.addresses.len() / 2)?;
    let ip = |octets: &[u8]| -> Option<IpAddr> {
        Some(match key.version {
            Version::V4 => Ipv4Addr::from(*octets.first_chunk::<4>()?).into(),
            Version::V6 => Ipv6Addr::from(*octets.first_chunk::<16>()?).into(),
        })
    };
    Some([
        SocketAddr::new(ip(source)?, u16::from_be_bytes([s0, s1])),
        SocketAddr::new(ip(destination)?, u16::from_be_bytes([d0, d1])),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::message::tests::{answer_for, question_for};
    use super::*;
    use proptest::prelude::*;

    const NOW: Time = Time::from_millis(1000);
    const ASKER: u16 = 40_000;

    /// An IPv4 packet from the host 1, or from its resolver 2.
    fn ip(is_back: bool, protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        let hosts = [[192, 0, 2, 1], [192, 0, 2, 2]];
        packet.extend(hosts[usize::from(is_back)]);
        packet.extend(hosts[usize::from(!is_back)]);
        packet.extend(transport);
        let length = packet.len() as u16;
        packet[2..4].copy_from_slice(&length.to_be_bytes());
        packet
    }

    fn ports(is_back: bool, port: u16) -> Vec<u8> {
        let both = if is_back { [PORT, port] } else { [port, PORT] };
        both.iter().flat_map(|port| port.to_be_bytes()).collect()
    }

    fn udp(is_back: bool, port: u16, content: &[u8]) -> Vec<u8> {
        let length = (8 + content.len() as u16).to_be_bytes();
        ip(is_back, UDP, &[&ports(is_back, port)[..], &length, &[0, 0], content].concat())
    }

    fn tcp(is_back: bool, sequence: u32, flags: u8, content: &[u8]) -> Vec<u8> {
        let rest = [0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0];
        ip(is_back, TCP, &[&ports(is_back, ASKER)[..], &sequence.to_be_bytes(), &rest, content].concat())
    }

    fn see(watcher: &mut Watcher, packet: &[u8]) -> Vec<Answer> {
        watcher.packet(NOW, packet, packet.len() as u32)
    }

    fn framed(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes(), content].concat()
    }

    #[test]
    fn only_the_answer_to_a_question_that_was_asked_counts_and_only_once() {
        let mut watcher = Watcher::default();
        let answer = |number, name| answer_for(number, name, &[("192.0.2.77", 60)]);
        let good = udp(true, ASKER, &answer(7, "Example.com"));
        assert_eq!(see(&mut watcher, &good), []);
        assert_eq!(watcher.counts.unasked, 1);
        assert_eq!(see(&mut watcher, &udp(false, ASKER, &question_for(7, "Example.com"))), []);
        // Another number, another port, another name, other letters, and a question for an answer.
        for (port, content) in [
            (ASKER, answer(8, "Example.com")),
            (ASKER + 1, answer(7, "Example.com")),
            (ASKER, answer(7, "other.example")),
            (ASKER, answer(7, "example.com")),
        ] {
            assert_eq!(see(&mut watcher, &udp(true, port, &content)), []);
        }
        assert_eq!(watcher.counts.unasked, 5);
        assert_eq!(see(&mut watcher, &udp(true, ASKER, &question_for(7, "Example.com"))), []);
        assert_eq!(see(&mut watcher, &good)[0].names, ["example.com"]);
        assert_eq!(see(&mut watcher, &good), []);
        assert_eq!(watcher.counts, Counts { answers: 1, unasked: 6, unread: 0 });
    }

    #[test]
    fn a_cut_answer_and_a_fragment_say_nothing() {
        let mut watcher = Watcher::default();
        see(&mut watcher, &udp(false, ASKER, &question_for(7, "example.com")));
        let whole = udp(true, ASKER, &answer_for(7, "example.com", &[("192.0.2.77", 60)]));
        for cut in 0..whole.len() {
            assert_eq!(watcher.packet(NOW, &whole[..cut], whole.len() as u32), [], "{cut}");
            assert_eq!(see(&mut watcher, &whole[..cut]), [], "{cut}");
        }
        let mut fragment = whole.clone();
        fragment[6] = 0x20;
        assert_eq!(see(&mut watcher, &fragment), []);
        assert_eq!(see(&mut watcher, &whole).len(), 1);
    }

    #[test]
    fn questions_are_forgotten_when_many_or_much_later_and_never_more_than_so_many() {
        let mut watcher = Watcher::default();
        for n in 0..10_000u16 {
            see(&mut watcher, &udp(false, 1 + n, &question_for(7, "example.com")));
            assert!(watcher.fresh.len() + watcher.old.len() <= 2 * QUESTIONS);
        }
        let answer = |port| udp(true, port, &answer_for(7, "example.com", &[("192.0.2.77", 60)]));
        assert_eq!(see(&mut watcher, &answer(1)), []);
        assert_eq!(see(&mut watcher, &answer(10_000)).len(), 1);
        let late = Time::from_millis(100_000);
        let other = udp(false, 1, &question_for(7, "example.com"));
        watcher.packet(late, &other, other.len() as u32);
        assert_eq!(see(&mut watcher, &answer(9_999)), []);
    }

    /// A connection whose answers begin with number 101.
    fn connected() -> Watcher {
        let mut watcher = Watcher::default();
        see(&mut watcher, &tcp(false, 9, SYN, &[]));
        see(&mut watcher, &tcp(true, 100, SYN | ACK, &[]));
        watcher
    }

    #[test]
    fn answers_in_a_connection_are_put_together_whatever_the_order_of_segments() {
        let both = [("a.example", "192.0.2.77"), ("b.example", "192.0.2.78")]
            .map(|(name, ip)| framed(&answer_for(7, name, &[(ip, 60)])));
        let stream = both.concat();
        let segment = |from: usize, to: usize| tcp(true, 101 + from as u32, ACK, &stream[from..to]);
        let (middle, end) = (both[0].len() + 5, stream.len());
        for order in [
            vec![(0, end)],
            vec![(0, 1), (1, 2), (2, middle), (middle, end)],
            vec![(middle, end), (1, middle), (0, 2), (0, end)],
            vec![(0, middle), (0, middle), (10, end)],
        ] {
            let mut watcher = connected();
            let answers: Vec<Answer> =
                order.iter().flat_map(|(from, to)| see(&mut watcher, &segment(*from, *to))).collect();
            let names: Vec<&str> = answers.iter().map(|answer| answer.names[0].as_str()).collect();
            assert_eq!((names, watcher.counts.unread), (vec!["a.example", "b.example"], 0), "{order:?}");
        }
        // The last byte of a message makes it whole, and not one before.
        let mut watcher = connected();
        assert_eq!(see(&mut watcher, &segment(0, both[0].len() - 1)), []);
        assert_eq!(see(&mut watcher, &segment(both[0].len() - 1, both[0].len())).len(), 1);
    }

    #[test]
    fn a_connection_whose_begin_was_not_seen_or_with_gaps_without_end_is_not_followed() {
        let whole = framed(&answer_for(7, "a.example", &[("192.0.2.77", 60)]));
        assert_eq!(see(&mut Watcher::default(), &tcp(true, 101, ACK, &whole)), []);
        let mut watcher = connected();
        for n in 0..=AHEAD as u32 {
            see(&mut watcher, &tcp(true, 1000 + n, ACK, &[0]));
        }
        assert_eq!((watcher.streams.len(), watcher.counts.unread), (0, 1));
        let mut watcher = connected();
        see(&mut watcher, &tcp(true, 101 + FAR + 1, ACK, &[0]));
        assert_eq!(watcher.streams.len(), 0);
        let mut watcher = connected();
        see(&mut watcher, &tcp(true, 101, ACK | FIN, &whole));
        assert_eq!((watcher.streams.len(), watcher.counts.answers), (0, 1));
        for port in 0..1000u16 {
            let mut packet = tcp(false, 9, SYN, &[]);
            packet[20..22].copy_from_slice(&port.to_be_bytes());
            see(&mut watcher, &packet);
        }
        assert_eq!(watcher.streams.len(), STREAMS);
    }

    proptest! {
        #[test]
        fn whatever_passes_nothing_breaks_or_grows(
            packets in prop::collection::vec(
                (any::<bool>(), any::<bool>(), 0u32..300, any::<u8>(), prop::collection::vec(any::<u8>(), 0..80)), 0..60),
        ) {
            let mut watcher = connected();
            for (is_tcp, is_back, sequence, flags, content) in packets {
                let packet =
                    if is_tcp { tcp(is_back, sequence, flags, &content) } else { udp(is_back, ASKER, &content) };
                see(&mut watcher, &packet);
                let kept: usize = watcher.streams.values().map(|stream| stream.begun.len()).sum();
                prop_assert!(kept <= 70_000);
            }
        }
    }
}
