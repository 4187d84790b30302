//! What one end tells the other about a channel inside the encrypted handshake: tag, length, value; unknown tags are
//! skipped, so that later versions may say more.
//!
//! | tag | value |
//! |---|---|
//! | 1 | name of the channel, UTF-8, at most 64 bytes |
//! | 2 | what the receiver of the hello may send, bit/s, u64 big-endian |
//! | 3 | priority in `backup` mode, u8 |
//! | 4 | link overhead per packet in bytes, u16 big-endian |
//! | 5 | path MTU, IP header included, u16 big-endian |
//! | 6 | mode, u8: 0 ordered, 1 stripe, 2 duplicate, 3 backup, 4 plain, 5 flow; others are unknown |
//! | 7 | scheduler, u8: 0 srr, 1 rr, 2 grr, 3 rfq; others are unknown |
//! | 8 | weight where not all channels have a rate, u16 big-endian, from 1 to 1000 |
//! | 9 | which channels the sender has now: how often that has changed since it began, u32; a set of bits, u64; both big-endian |
//! | 10 | whether the channel costs its opener money, so that the other end too sends data there only while no other works, u8: 0 or 1 |
//! | 11 | whether the sender cuts packets into fragments, u8: 0 or 1 |

use fairspan_core::bond::{Mode, Scheduler};
use fairspan_core::options::Words;
use fairspan_core::units::Rate;
use thiserror::Error;

/// Longest name of a channel in bytes.
pub(super) const NAME_LIMIT: usize = 64;

/// One channel, as its initiator describes it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Hello {
    /// Its name.
    pub name: Option<String>,
    /// What the other end may send on it.
    pub rate: Option<Rate>,
    /// Its priority in `backup` mode.
    pub priority: Option<u8>,
    /// Bytes that the link adds to each IP packet.
    pub overhead: Option<u16>,
    /// Path MTU, IP header included.
    pub mtu: Option<u16>,
    /// How the sender of the hello spreads packets.
    pub mode: Option<Mode>,
    /// And by which discipline.
    pub scheduler: Option<Scheduler>,
    /// Its share where not all channels have a rate.
    pub weight: Option<u16>,
    /// Which channels there are.
    pub listed: Option<Listed>,
    /// Whether its use costs money.
    pub metered: bool,
    /// Whether packets go in fragments.
    pub cuts: bool,
}

/// Which channels an initiator has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(super) struct Listed {
    /// How often that has changed since its process began: the newest list counts.
    pub generation: u32,
    /// Their numbers.
    pub channels: u64,
}

/// Why a hello is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum HelloError {
    /// A field ends behind the hello's end.
    #[error("field {tag} is cut short")]
    Truncated {
        /// The field.
        tag: u8,
    },
    /// A field has an impossible length or value.
    #[error("field {tag} has an impossible value")]
    Value {
        /// The field.
        tag: u8,
    },
}

impl Hello {
    /// The bytes for the handshake; at most 127 with a name that keeps to [`NAME_LIMIT`].
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut put = |tag: u8, value: &[u8]| {
            out.push(tag);
            out.push(value.len() as u8);
            out.extend_from_slice(value);
        };
        if let Some(name) = &self.name {
            let fits = |end: &usize| name.is_char_boundary(*end);
            let end = (0..=NAME_LIMIT.min(name.len())).rev().find(fits).unwrap_or(0);
            put(1, &name.as_bytes()[..end]);
        }
        if let Some(rate) = self.rate {
            put(2, &rate.as_bits_per_sec().to_be_bytes());
        }
        if let Some(priority) = self.priority {
            put(3, &[priority]);
        }
        if let Some(overhead) = self.overhead {
            put(4, &overhead.to_be_bytes());
        }
        if let Some(mtu) = self.mtu {
            put(5, &mtu.to_be_bytes());
        }
        if let Some(n) = self.mode.map(Words::number) {
            put(6, &[n]);
        }
        if let Some(n) = self.scheduler.map(Words::number) {
            put(7, &[n]);
        }
        if let Some(weight) = self.weight {
            put(8, &weight.to_be_bytes());
        }
        if let Some(Listed { generation, channels }) = self.listed {
            put(9, &[&generation.to_be_bytes()[..], &channels.to_be_bytes()].concat());
        }
        if self.metered {
            put(10, &[1]);
        }
        if self.cuts {
            put(11, &[1]);
        }
        out
    }

    /// Reads the peer's hello.
    ///
    /// # Errors
    /// Names the field that is cut short or impossible.
    pub(super) fn decode(mut bytes: &[u8]) -> Result<Hello, HelloError> {
        let mut hello = Hello::default();
        while let Some((&tag, rest)) = bytes.split_first() {
            let (&length, rest) = rest.split_first().ok_or(HelloError::Truncated { tag })?;
            let (value, rest) = rest.split_at_checked(length.into()).ok_or(HelloError::Truncated { tag })?;
            bytes = rest;
            let bad = HelloError::Value { tag };
            match tag {
                1 => {
                    let name = std::str::from_utf8(value).map_err(|_| bad)?;
                    // It is printed and becomes a metric's label.
                    if name.is_empty() || name.len() > NAME_LIMIT || name.chars().any(char::is_control) {
                        return Err(bad);
                    }
                    hello.name = Some(name.to_owned());
                }
                2 => {
                    let rate = u64::from_be_bytes(value.try_into().map_err(|_| bad)?);
                    if rate < 1000 {
                        return Err(bad);
                    }
                    hello.rate = Some(Rate::from_bits_per_sec(rate));
                }
                3 => match value {
                    [priority] => hello.priority = Some(*priority),
                    _ => return Err(bad),
                },
                4 => hello.overhead = Some(u16::from_be_bytes(value.try_into().map_err(|_| bad)?)),
                5 => {
                    let mtu = u16::from_be_bytes(value.try_into().map_err(|_| bad)?);
                    if mtu < 576 {
                        return Err(bad);
                    }
                    hello.mtu = Some(mtu);
                }
                6 => match value {
                    // One that we do not know is a later version's.
                    [n] => hello.mode = Mode::from_number(*n),
                    _ => return Err(bad),
                },
                7 => match value {
                    [n] => hello.scheduler = Scheduler::from_number(*n),
                    _ => return Err(bad),
                },
                8 => {
                    let weight = u16::from_be_bytes(value.try_into().map_err(|_| bad)?);
                    if !(1..=1000).contains(&weight) {
                        return Err(bad);
                    }
                    hello.weight = Some(weight);
                }
                9 => {
                    let (generation, channels) = value.split_first_chunk().ok_or(bad)?;
                    hello.listed = Some(Listed {
                        generation: u32::from_be_bytes(*generation),
                        channels: u64::from_be_bytes(channels.try_into().map_err(|_| bad)?),
                    });
                }
                11 => match value {
                    [cuts @ (0 | 1)] => hello.cuts = *cuts == 1,
                    _ => return Err(bad),
                },
                10 => match value {
                    [metered @ (0 | 1)] => hello.metered = *metered == 1,
                    _ => return Err(bad),
                },
                _ => {}
            }
        }
        Ok(hello)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn full() -> Hello {
        Hello {
            name: Some("dsl".into()),
            rate: Some(Rate::from_mbit(100)),
            priority: Some(2),
            overhead: Some(14),
            mtu: Some(1492),
            mode: Some(Mode::Stripe),
            scheduler: Some(Scheduler::Grr),
            weight: Some(300),
            listed: Some(Listed { generation: 2, channels: 0b101 }),
            metered: true,
            cuts: true,
        }
    }

    #[test]
    fn the_bytes_are_the_documented_ones_and_come_back() {
        let bytes = full().encode();
        assert_eq!(
            bytes,
            b"\x01\x03dsl\x02\x08\0\0\0\0\x05\xf5\xe1\0\x03\x01\x02\x04\x02\0\x0e\x05\x02\x05\xd4\x06\x01\x01\x07\x01\x02\x08\x02\x01\x2c\
              \x09\x0c\0\0\0\x02\0\0\0\0\0\0\0\x05\x0a\x01\x01\x0b\x01\x01"
        );
        assert_eq!(Hello::decode(&bytes), Ok(full()));
        assert_eq!(Hello::decode(&[]), Ok(Hello::default()));
    }

    #[test]
    fn every_truncation_is_named_or_a_shorter_hello() {
        let bytes = full().encode();
        for end in 0..bytes.len() {
            if let Ok(hello) = Hello::decode(&bytes[..end]) {
                assert_eq!(hello.encode(), &bytes[..end], "cut at {end}");
            }
        }
        assert_eq!(Hello::decode(b"\x07\xff"), Err(HelloError::Truncated { tag: 7 }));
        assert_eq!(Hello::decode(b"\x06\x01\xff\x07\x01\x09"), Ok(Hello::default()), "later versions' modes");
    }

    #[test]
    fn unknown_fields_are_skipped_and_impossible_values_refused() {
        assert_eq!(Hello::decode(b"\x63\x02ab\x03\x01\x05").unwrap().priority, Some(5));
        for (bytes, tag) in [
            (&b"\x01\x00"[..], 1),
            (b"\x01\x02\xff\xfe", 1),
            (b"\x01\x02a\n", 1),
            (b"\x02\x08\0\0\0\0\0\0\0\x01", 2),
            (b"\x03\x02ab", 3),
            (b"\x05\x02\0\x10", 5),
            (b"\x06\x00", 6),
            (b"\x07\x02\0\0", 7),
            (b"\x08\x02\0\0", 8),
            (b"\x08\x02\x03\xe9", 8),
            (b"\x08\x01\x01", 8),
            (b"\x09\x03\0\0\0", 9),
            (b"\x09\x08\0\0\0\0\0\0\0\0", 9),
            (b"\x0a\x01\x02", 10),
            (b"\x0a\x02\0\0", 10),
            (b"\x0b\x01\x02", 11),
            (b"\x0b\x00", 11),
            (b"\x09\x0d\0\0\0\0\0\0\0\0\0\0\0\0\0", 9),
        ] {
            assert_eq!(Hello::decode(bytes), Err(HelloError::Value { tag }), "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_and_what_is_understood_survives(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(hello) = Hello::decode(&bytes) {
                prop_assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
            }
        }
    }
}
