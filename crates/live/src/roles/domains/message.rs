//! What questions and answers of DNS say (RFC 1035, RFC 9460), as far as addresses of names are concerned.

use simple_dns::rdata::{RData, SVCB, SVCParam};
use simple_dns::{CLASS, Name, OPCODE, Packet, PacketFlag, QCLASS, Question, RCODE, ResourceRecord, header_buffer};
use std::net::IpAddr;

/// A header's length, and the least that a question and a record take.
const HEADER: usize = 12;
const QUESTION: usize = 5;
const RECORD: usize = 11;
/// Names that one leads on to, at most.
const CHAIN: usize = 16;
/// Addresses of one answer, at most.
const ADDRESSES: usize = 64;
/// Key numbers of the addresses that a record of a service has with it (RFC 9460, section 7.3).
const HINTS: [u16; 2] = [4, 6];

/// What is asked, to the letter: whoever asks may spell a name as nobody else does.
pub(super) type Asked = Vec<u8>;

/// An answer's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// What was asked.
    pub(super) asked: Asked,
    /// The name that was asked for, and those that it led on to, in small letters.
    pub(super) names: Vec<String>,
    /// Their addresses, each with its time to live in seconds.
    pub(super) addresses: Vec<(IpAddr, u32)>,
}

/// The number of a message, and whether it is an answer.
pub(super) fn head(message: &[u8]) -> Option<(u16, bool)> {
    let number = header_buffer::id(message).ok()?;
    Some((number, header_buffer::has_flags(message, PacketFlag::RESPONSE).ok()?))
}

/// What a question asks.
pub(super) fn question(message: &[u8]) -> Option<Asked> {
    asked_in(&parse(message)?)
}

/// What an answer says; `None` where it cannot be read. One that says that there is nothing has no addresses.
pub(super) fn answer(message: &[u8]) -> Option<Answer> {
    let packet = parse(message)?;
    let asked = asked_in(&packet)?;
    let first = &packet.questions.first()?.qname;
    if packet.rcode() != RCODE::NoError {
        return Some(Answer { asked, names: Vec::new(), addresses: Vec::new() });
    }
    let chain = chain(&packet, first);
    let of_chain = |record: &&ResourceRecord<'_>| record.class == CLASS::IN && chain.contains(&&record.name);
    let records = packet.answers.iter().filter(of_chain);
    let addresses = records.flat_map(|record| addresses_in(&record.rdata).into_iter().map(|ip| (ip, record.ttl)));
    let addresses = addresses.take(ADDRESSES).collect();
    Some(Answer { asked, names: chain.into_iter().filter_map(text).collect(), addresses })
}

/// The message, if it can hold as much as it says: the reader makes room for that first.
fn parse(message: &[u8]) -> Option<Packet<'_>> {
    let counts = [header_buffer::answers, header_buffer::name_servers, header_buffer::additional_records];
    let questions = usize::from(header_buffer::questions(message).ok()?);
    let mut least = HEADER + questions * QUESTION;
    for count in counts {
        least += usize::from(count(message).ok()?) * RECORD;
    }
    let packet = if least <= message.len() { Packet::parse(message).ok()? } else { return None };
    (packet.opcode() == OPCODE::StandardQuery).then_some(packet)
}

/// What the one question of a message is.
fn asked_in(packet: &Packet<'_>) -> Option<Asked> {
    let [Question { qname, qtype, qclass: QCLASS::CLASS(CLASS::IN), .. }] = packet.questions.as_slice() else {
        return None;
    };
    let mut asked = Vec::new();
    for label in qname.as_bytes() {
        asked.push(label.len() as u8);
        asked.extend(label);
    }
    asked.extend(u16::from(*qtype).to_be_bytes());
    Some(asked)
}

/// A name, and those that it leads on to by what the answer says.
fn chain<'a>(packet: &'a Packet<'a>, first: &'a Name<'a>) -> Vec<&'a Name<'a>> {
    let mut chain = vec![first];
    while let Some(last) = chain.last().copied().filter(|_| chain.len() <= CHAIN) {
        let next = packet.answers.iter().find_map(|record| match &record.rdata {
            RData::CNAME(to) if record.class == CLASS::IN && record.name == *last => Some(&to.0),
            _ => None,
        });
        match next.filter(|next| !chain.contains(next)) {
            Some(next) => chain.push(next),
            None => break,
        }
    }
    chain
}

fn addresses_in(data: &RData<'_>) -> Vec<IpAddr> {
    match data {
        RData::A(a) => vec![IpAddr::V4(a.address.into())],
        RData::AAAA(aaaa) => vec![IpAddr::V6(aaaa.address.into())],
        RData::HTTPS(service) => hints(&service.0),
        RData::SVCB(service) => hints(service),
        _ => Vec::new(),
    }
}

/// Addresses that a browser may use without asking for them.
fn hints(service: &SVCB<'_>) -> Vec<IpAddr> {
    let mut found: Vec<IpAddr> = Vec::new();
    for key in HINTS {
        match service.get_param(key) {
            Some(SVCParam::Ipv4Hint(hints)) => found.extend(hints.iter().map(|bits| IpAddr::V4((*bits).into()))),
            Some(SVCParam::Ipv6Hint(hints)) => found.extend(hints.iter().map(|bits| IpAddr::V6((*bits).into()))),
            _ => {}
        }
    }
    found
}

/// A name as people write it, in small letters; `None` where it is one that nobody could write into a file.
fn text(name: &Name<'_>) -> Option<String> {
    let mut text = String::new();
    for label in name.as_bytes() {
        if !label.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    Some(text)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use simple_dns::rdata::{A, AAAA, CNAME, HTTPS};
    use simple_dns::{QTYPE, TYPE};

    fn name(text: &str) -> Name<'_> {
        Name::new(text).expect("a name")
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn asks<'a>(number: u16, of: &'a str, kind: TYPE, answers: bool) -> Packet<'a> {
        let mut packet = if answers { Packet::new_reply(number) } else { Packet::new_query(number) };
        packet.questions.push(Question::new(name(of), QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
        packet
    }

    fn add<'a>(packet: &mut Packet<'a>, of: &'a str, ttl: u32, data: RData<'a>) {
        packet.answers.push(ResourceRecord::new(name(of), CLASS::IN, ttl, data));
    }

    fn address(text: &str) -> RData<'static> {
        match ip(text) {
            IpAddr::V4(four) => RData::A(A::from(four)),
            IpAddr::V6(six) => RData::AAAA(AAAA::from(six)),
        }
    }

    /// A question for the addresses of a name, as it stands in a datagram.
    pub(in super::super) fn question_for(number: u16, of: &str) -> Vec<u8> {
        asks(number, of, TYPE::A, false).build_bytes_vec_compressed().expect("bytes")
    }

    /// Its answer.
    pub(in super::super) fn answer_for(number: u16, of: &str, addresses: &[(&str, u32)]) -> Vec<u8> {
        let mut packet = asks(number, of, TYPE::A, true);
        addresses.iter().for_each(|(text, ttl)| add(&mut packet, of, *ttl, address(text)));
        packet.build_bytes_vec_compressed().expect("bytes")
    }

    #[test]
    fn an_answer_has_the_addresses_of_the_name_and_of_those_that_it_leads_on_to_and_no_others() {
        let mut packet = asks(7, "WWW.Example.com", TYPE::A, true);
        add(&mut packet, "elsewhere.example", 1, address("192.0.2.99"));
        add(&mut packet, "b.cdn.example", 60, address("192.0.2.1"));
        add(&mut packet, "a.cdn.example", 60, RData::CNAME(CNAME(name("B.cdn.example"))));
        add(&mut packet, "www.example.com", 60, RData::CNAME(CNAME(name("a.cdn.example"))));
        add(&mut packet, "b.cdn.example", 1_000_000_000, address("2001:db8::1"));
        packet.additional_records.push(ResourceRecord::new(name("b.cdn.example"), CLASS::IN, 1, address("192.0.2.98")));
        let bytes = packet.build_bytes_vec_compressed().expect("bytes");
        let read = answer(&bytes).expect("an answer");
        assert_eq!(read.names, ["www.example.com", "a.cdn.example", "b.cdn.example"]);
        assert_eq!(read.addresses, [(ip("192.0.2.1"), 60), (ip("2001:db8::1"), 1_000_000_000)]);
        assert_eq!(head(&bytes), Some((7, true)));
        // What was asked is known to the letter, for who spells it as nobody else does.
        let asked = |of: &str| question(&question_for(7, of)).expect("a question");
        assert_eq!(read.asked, asked("WWW.Example.com"));
        assert_ne!(read.asked, asked("www.example.com"));
    }

    #[test]
    fn addresses_that_a_record_of_a_service_has_with_it_count_too() {
        let mut packet = asks(7, "example.com", TYPE::HTTPS, true);
        let mut service = SVCB::new(1, name("."));
        let bits = |text: &str| match ip(text) {
            IpAddr::V4(four) => four.to_bits(),
            IpAddr::V6(_) => unreachable!(),
        };
        service.set_ipv4hint(&[bits("192.0.2.1"), bits("192.0.2.2")]);
        service.set_ipv6hint(&["2001:db8::7".parse::<std::net::Ipv6Addr>().expect("an address").to_bits()]);
        add(&mut packet, "example.com", 30, RData::HTTPS(HTTPS(service)));
        let read = answer(&packet.build_bytes_vec().expect("bytes")).expect("an answer");
        let addresses: Vec<IpAddr> = read.addresses.iter().map(|(ip, _)| *ip).collect();
        assert_eq!(addresses, [ip("192.0.2.1"), ip("192.0.2.2"), ip("2001:db8::7")]);
    }

    #[test]
    fn names_that_lead_in_a_circle_or_on_and_on_come_to_an_end() {
        let mut packet = asks(7, "a.example", TYPE::A, true);
        add(&mut packet, "a.example", 60, RData::CNAME(CNAME(name("b.example"))));
        add(&mut packet, "b.example", 60, RData::CNAME(CNAME(name("a.example"))));
        add(&mut packet, "b.example", 60, address("192.0.2.1"));
        let read = answer(&packet.build_bytes_vec_compressed().expect("bytes")).expect("an answer");
        assert_eq!((read.names.len(), read.addresses.len()), (2, 1));
        let names: Vec<String> = (0..40).map(|n| format!("n{n}.example")).collect();
        let mut packet = asks(7, &names[0], TYPE::A, true);
        names.windows(2).for_each(|two| add(&mut packet, &two[0], 60, RData::CNAME(CNAME(name(&two[1])))));
        add(&mut packet, &names[39], 60, address("192.0.2.1"));
        let read = answer(&packet.build_bytes_vec_compressed().expect("bytes")).expect("an answer");
        assert_eq!((read.names.len(), read.addresses.len()), (CHAIN + 1, 0));
    }

    #[test]
    fn what_says_no_or_more_than_it_can_hold_gives_no_address() {
        let mut bytes = answer_for(7, "example.com", &[("192.0.2.1", 60)]);
        bytes[3] |= 3;
        assert_eq!(answer(&bytes).expect("an answer that there is no such name").addresses, []);
        let bytes = answer_for(7, "example.com", &[("192.0.2.1", 60)]);
        for at in [4, 6, 8, 10] {
            let mut bent = bytes.clone();
            bent[at] = 0xff;
            assert_eq!(answer(&bent), None, "{at}");
        }
        // Two questions, another class, another kind of message.
        let mut packet = asks(7, "example.com", TYPE::A, true);
        packet.questions.push(packet.questions[0].clone());
        assert_eq!(answer(&packet.build_bytes_vec().expect("bytes")), None);
        let mut bent = bytes.clone();
        bent[2] |= 0x28;
        assert_eq!(answer(&bent), None);
        let addresses: Vec<String> = (0..200).map(|n| format!("192.0.2.{n}")).collect();
        let many: Vec<(&str, u32)> = addresses.iter().map(|text| (text.as_str(), 60)).collect();
        assert_eq!(answer(&answer_for(7, "example.com", &many)).expect("an answer").addresses.len(), ADDRESSES);
        assert_eq!(answer(&answer_for(7, r"ex\.ample.com", &[("192.0.2.1", 60)])).expect("an answer").names.len(), 0);
    }

    #[test]
    fn cut_anywhere_a_message_has_nothing_that_it_had_not_whole() {
        let whole = answer_for(7, "example.com", &[("192.0.2.1", 60), ("192.0.2.2", 60)]);
        for cut in 0..whole.len() {
            assert_eq!(answer(&whole[..cut]), None, "{cut}");
        }
        // A name that points at itself, and one that points behind the end.
        for pointer in [[0xc0, 12], [0xc0, 0xff], [0xff, 0xff]] {
            let mut bytes = whole.clone();
            bytes[12..14].copy_from_slice(&pointer);
            assert_eq!(answer(&bytes), None);
        }
    }

    proptest! {
        #[test]
        fn whatever_comes_nothing_breaks(
            bytes in prop::collection::vec(any::<u8>(), 0..600),
            at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        ) {
            let _ = (head(&bytes), question(&bytes), answer(&bytes));
            let mut bent = answer_for(7, "www.example.com", &[("192.0.2.1", 60), ("192.0.2.2", 60)]);
            for (index, value) in at {
                let at = index.index(bent.len());
                bent[at] = value;
            }
            let _ = (head(&bent), question(&bent), answer(&bent));
        }
    }
}
