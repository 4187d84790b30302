//! What a packet is numbered by, and the envelope that says so.
//!
//! Numbers are 32 bits and serial (RFC 1982); frames carry the low 24 of most ([`short`](crate::wire::short)). Those of the bond start at 1 and leave 0 out: it means none. Numbers of a
//! flow bucket start at 0. Cost: O(1), no allocation.

use super::config::Config;
use super::confirm;
use super::preset::{Numbering, Preset, Protection};
use crate::compress::Coded;
use crate::flow::Buckets;
use crate::ip::Header;
use crate::queue::DisciplineConfig;
use crate::wire::envelope::{COUNTED_LEN, Compressed, Envelope, Extended, Fragment, Head, Message};
use crate::wire::stamp::Stamp;
use alloc::vec;
use alloc::vec::Vec;

/// The numbers that a packet was given; zeros where its envelope has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    /// Its number in its flow bucket; of a fragment, its number.
    pub(super) sequence: u32,
    /// Its number in the bond; 0: it has none yet. Of a fragment `PART` and which part it is.
    pub(super) bond: u32,
    /// When it left first, where lost packets are sent again.
    pub(super) stamp: Stamp,
}

/// In place of a number in the bond: a fragment, the first and the last of its packet.
const PART: u32 = 1;
const BEGIN: u32 = 2;
const END: u32 = 4;

impl Numbers {
    /// Those of a fragment.
    pub(super) fn of_fragment(begin: bool, end: bool, sequence: u32) -> Numbers {
        let bond = PART | if begin { BEGIN } else { 0 } | if end { END } else { 0 };
        Numbers { sequence, bond, ..Numbers::default() }
    }
}

/// Gives packets their numbers and envelopes.
#[derive(Debug)]
pub(super) struct Numberer {
    preset: Preset,
    /// Whether frames have a number on their channel before all else.
    counts: bool,
    /// Chosen at the start; another one tells the peer that we restarted.
    epoch: u32,
    hash: Buckets,
    /// Whether the flow bucket of a packet is asked for: by its number, or by the queue that it waits in.
    tells_flows: bool,
    /// The next number of each flow bucket.
    sequence: Vec<u32>,
    /// The bond number of the next packet.
    next: u32,
}

impl Numberer {
    /// The numbers of the epoch `epoch`, the hash onto the flow buckets keyed by `seed`.
    pub(super) fn new(preset: Preset, config: &Config, epoch: u32, seed: u64) -> Numberer {
        Numberer {
            preset,
            counts: config.counting().counts,
            epoch,
            hash: Buckets::new(seed, config.buckets),
            tells_flows: preset.tells_flows(config.discipline),
            sequence: vec![0; config.all_buckets()],
            next: 1,
        }
    }

    /// The sender's epoch.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Packets wait in this order from now on.
    pub(super) fn set_discipline(&mut self, discipline: DisciplineConfig) {
        self.tells_flows = self.preset.tells_flows(discipline);
    }

    /// Whether packets have a number in their flow bucket, or in the one that all have.
    #[inline]
    pub(super) fn orders_flows(&self) -> bool {
        matches!(self.preset.number, Numbering::Flow | Numbering::Confirmed)
    }

    /// Whether packets that are lost are sent again.
    #[inline]
    pub(super) fn resends(&self) -> bool {
        self.preset.protect == Protection::Resend
    }

    /// Bytes of the envelope of a data frame, on a channel that is raw or not.
    pub(super) fn head_len(&self, raw: bool) -> usize {
        match self.counts {
            true if self.resends() => self.preset.head_len(false),
            true => COUNTED_LEN + self.preset.head_len(false),
            false => self.preset.head_len(raw),
        }
    }

    /// The flow bucket of a packet, where anything depends on it.
    #[inline]
    pub(super) fn bucket(&self, header: &Header, packet: &[u8]) -> u16 {
        if self.tells_flows { self.hash.bucket(header, packet) } else { 0 }
    }

    /// The numbers of the next packet, which is of `bucket`.
    #[inline]
    pub(super) fn assign(&mut self, bucket: u16) -> Numbers {
        match self.preset.number {
            Numbering::None | Numbering::Place | Numbering::Fragment => Numbers::default(),
            Numbering::Bond => Numbers { bond: self.next(), ..Numbers::default() },
            Numbering::Flow | Numbering::Confirmed => {
                let bucket = self.own(bucket);
                let next = &mut self.sequence[usize::from(bucket)];
                let sequence = *next;
                *next = sequence.wrapping_add(1);
                Numbers { sequence, bond: self.next(), stamp: Stamp::NONE }
            }
        }
    }

    /// The bucket in which a packet of `bucket` is numbered.
    #[inline]
    fn own(&self, bucket: u16) -> u16 {
        if self.preset.number == Numbering::Confirmed { confirm::BUCKET } else { bucket }
    }

    #[inline]
    fn next(&mut self) -> u32 {
        let number = self.next;
        self.next = number.wrapping_add(1).max(1);
        number
    }

    /// The bond number of the last packet; 0 before the first, of which `sent_any` tells.
    pub(super) fn last(&self, sent_any: impl FnOnce() -> bool) -> u32 {
        match self.next.wrapping_sub(1) {
            0 if sent_any() => u32::MAX,
            last => last,
        }
    }

    /// The envelope of a data frame on a channel that is raw or not; empty where it has none.
    #[inline(always)]
    pub(super) fn head(&self, bucket: u16, numbers: Numbers, raw: bool) -> Head {
        let message = match self.preset.number {
            Numbering::Flow | Numbering::Confirmed => {
                Message::Ordered { bucket: self.own(bucket), sequence: numbers.sequence, bond: numbers.bond }
            }
            Numbering::Bond => Message::Duplicate { bond: numbers.bond },
            Numbering::None | Numbering::Place if raw && self.preset.bare() => return Head::EMPTY,
            Numbering::Fragment if numbers.bond & PART != 0 => Message::Extended(Extended::Fragment(Fragment {
                begin: numbers.bond & BEGIN != 0,
                end: numbers.bond & END != 0,
                null: false,
                sequence: numbers.sequence,
            })),
            // Of fragments: what goes whole, ahead of them.
            Numbering::None | Numbering::Fragment => Message::Plain,
            Numbering::Place => Message::Striped,
        };
        self.control(message)
    }

    /// The same of the frame that is the channel's `number`th. `again`: the packet was lost by the peer's process with this tag.
    pub(super) fn counted_head(&self, bucket: u16, numbers: Numbers, number: u32, again: Option<u8>) -> Head {
        if self.resends() {
            let Numbers { sequence, bond, stamp } = numbers;
            return self.control(Message::Kept { number, bucket, sequence, bond, stamp, again });
        }
        let mut head = self.control(Message::Counted { number });
        // A test of the wire format holds that there is room.
        let _ = head.push(self.head(bucket, numbers, false).as_slice());
        head
    }

    /// The head of a compressed frame that is the channel's `number`th.
    pub(super) fn compressed_head(&self, numbers: Numbers, number: u32, coded: &Coded) -> Head {
        let Numbers { sequence, bond, stamp } = numbers;
        let (form, reference) = (coded.form, coded.reference);
        let compressed = Compressed { number, sequence, bond, stamp, form, reference };
        let mut head = self.control(Message::Extended(Extended::Compressed(compressed)));
        // A test of the wire format holds that there is room.
        let _ = head.push(coded.as_slice());
        head
    }

    /// The envelope of a control message.
    #[inline]
    pub(super) fn control(&self, message: Message) -> Head {
        Envelope { tag: self.epoch as u8, message }.encode()
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Mode;
    use super::*;

    fn numberer(mode: Mode) -> Numberer {
        let config = Config { mode, buckets: 4, ..Config::default() };
        Numberer::new(Preset::of(&config), &config, 0x0102_0304, 1)
    }

    #[test]
    fn each_bucket_counts_for_itself_and_the_bond_for_all() {
        let mut number = numberer(Mode::Ordered);
        let got: Vec<_> = [0, 3, 0, 0, 3].map(|bucket| number.assign(bucket)).map(|n| (n.sequence, n.bond)).into();
        assert_eq!(got, [(0, 1), (0, 2), (1, 3), (2, 4), (1, 5)]);
        assert_eq!(number.last(|| true), 5);
    }

    #[test]
    fn zero_is_no_bond_number_at_the_wrap_either() {
        let mut number = numberer(Mode::Duplicate);
        assert_eq!((number.last(|| false), number.assign(0).bond), (0, 1));
        number.next = u32::MAX;
        assert_eq!([number.assign(0).bond, number.assign(0).bond], [u32::MAX, 1]);
        number.next = 1;
        assert_eq!(number.last(|| true), u32::MAX);
    }

    #[test]
    fn an_envelope_says_the_numbers_and_the_epochs_tag() {
        let numbers = Numbers { sequence: 7, bond: 9, stamp: Stamp(258) };
        let bytes = |mode, raw| numberer(mode).head(2, numbers, raw).as_slice().to_vec();
        assert_eq!(bytes(Mode::Ordered, true), [0x21, 4, 0, 2, 0, 0, 7, 0, 0, 9]);
        assert_eq!(bytes(Mode::Duplicate, true), [0x22, 4, 0, 0, 0, 9]);
        assert_eq!(bytes(Mode::Plain, true), [0x23, 4]);
        assert_eq!([bytes(Mode::Stripe, false), bytes(Mode::Stripe, true)], [vec![0x24, 4], vec![]]);
        assert_eq!([bytes(Mode::Flow, false), bytes(Mode::Flow, true)], [vec![0x23, 4], vec![]]);
        let counted = numberer(Mode::Duplicate).counted_head(2, numbers, 258, None);
        assert_eq!(counted.as_slice(), [0x2b, 4, 0, 1, 2, 0x22, 4, 0, 0, 0, 9]);
        let kept = |again| numberer(Mode::Reliable).counted_head(2, numbers, 258, again).as_slice().to_vec();
        assert_eq!(kept(None), [0x2d, 4, 0, 1, 2, 0, 2, 0, 0, 7, 0, 0, 9, 1, 2]);
        assert_eq!(kept(Some(5)), [0x2e, 4, 0, 1, 2, 0, 2, 0, 0, 7, 0, 0, 9, 1, 2, 5]);
    }
}
