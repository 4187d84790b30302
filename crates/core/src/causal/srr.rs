//! Surplus round robin (SRR).
//!
//! Source: striping §3.5-3.6, appendix A. Each channel has a deficit counter; a packet is charged to the counter of
//! the channel it goes by, and the channel is left when its counter is no longer positive. What was overdrawn is
//! missing in the next round, so bytes follow the quanta whatever the packet sizes.
//!
//! | paper | here |
//! |---|---|
//! | sp, rp (the pointer) | `at` |
//! | DC_i | `channel[i].deficit`, and `current` for the selected channel; the counter itself is in `surplus.rs` |
//! | q_i, Quantum_i | `channel[i].quantum` |
//! | R_i | [`Srr::round_of`], from `round` and `at`: a channel that the pointer has passed is one round on |
//!
//! Departures: the appendix's form (counters start at the quantum, refill on leaving, rounds start at 1). R_i is
//! computed, not stored: it is `round + 1` for the channels before the pointer and `round` from the pointer on.
//! Channels that are not members are jumped over by a precomputed successor. The set and the quanta change between
//! rounds only: a counter then moves by (new quantum - old quantum), which keeps what the channel had overdrawn.
//! Where the set's quanta count packets, each packet is charged one: that is GRR (striping §6.2) with rounds and
//! counters, and so with markers.
//!
//! Cost: O(1) per packet, two cache lines. Invariant, for packets no longer than every quantum:
//! `0 <= quantum - deficit < max packet` on every channel that the pointer has left, `deficit > 0` on all.

use super::set::{ChannelSet, Unit, bits, next_in};
use super::surplus::Counter;
use super::{Causal, SetError};
use crate::units::{Bytes, ChannelId};

/// Surplus round robin over a [`ChannelSet`].
#[derive(Clone, Debug)]
pub struct Srr {
    at: u8,
    /// The counter of the selected channel; its place in the table is brought up to date when it is left.
    current: Counter,
    round: u32,
    by_packets: bool,
    mask: u64,
    channel: [Channel; ChannelId::LIMIT],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Channel {
    deficit: i64,
    quantum: u32,
    next: u8,
}

impl Srr {
    /// s0: every round 1, every deficit counter its quantum, the lowest channel first.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn new(set: &ChannelSet) -> Result<Srr, SetError> {
        Srr::starting_at(set, 1)
    }

    /// As [`Srr::new`], with another first round.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel.
    pub fn starting_at(set: &ChannelSet, round: u32) -> Result<Srr, SetError> {
        if set.is_empty() {
            return Err(SetError::Empty);
        }
        let mut srr = Srr { round, ..Srr::idle() };
        srr.adopt(set)?;
        Ok(srr)
    }

    /// A discipline without members, selecting channel 0: the state before a set is known.
    pub(crate) fn idle() -> Srr {
        let channel = [Channel::default(); ChannelId::LIMIT];
        Srr { at: 0, current: Counter(0), round: 1, by_packets: false, mask: 0, channel }
    }

    /// The round that the pointer is in.
    pub fn round(&self) -> u32 {
        self.round
    }

    /// R_i: the round of the next packet of `channel`.
    pub fn round_of(&self, channel: ChannelId) -> u32 {
        self.round.wrapping_add(u32::from(self.passed(channel)))
    }

    /// Whether the pointer has left `channel` behind in this round.
    pub fn passed(&self, channel: ChannelId) -> bool {
        channel.0 < self.at
    }

    /// DC_i: the deficit counter of `channel` before its next packet, in bytes.
    pub fn deficit(&self, channel: ChannelId) -> i64 {
        if channel.0 == self.at {
            return self.current.0;
        }
        self.channel.get(channel.index()).map_or(0, |c| c.deficit)
    }

    /// What a packet of `len` bytes is charged: that, or one where the quanta count packets.
    #[inline]
    pub fn charge(&self, len: Bytes) -> i64 {
        if self.by_packets { 1 } else { len.as_u64() as i64 }
    }

    /// What the quanta count.
    pub fn unit(&self) -> Unit {
        if self.by_packets { Unit::Packets } else { Unit::Bytes }
    }

    /// The quantum of `channel` a round; what it was last, if it is no member now.
    pub fn quantum(&self, channel: ChannelId) -> u32 {
        self.channel.get(channel.index()).map_or(0, |c| c.quantum)
    }

    /// The members as a bit mask.
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// Sets DC_i, as a marker tells it.
    pub fn set_deficit(&mut self, channel: ChannelId, deficit: i64) {
        if channel.0 == self.at {
            self.current = Counter(deficit);
        }
        if let Some(c) = self.channel.get_mut(channel.index()) {
            c.deficit = deficit;
        }
    }

    /// Leaves the selected channel as it is and goes to the next: the appendix's `AdvanceReceiverPointer`.
    #[inline]
    pub fn advance(&mut self) {
        let c = &mut self.channel[usize::from(self.at & 63)];
        c.deficit = self.current.0;
        let next = c.next;
        self.round = self.round.wrapping_add(u32::from(next <= self.at));
        self.select_channel(next);
    }

    /// The quantum of the selected channel.
    #[inline]
    fn quantum_here(&self) -> i64 {
        i64::from(self.channel[usize::from(self.at & 63)].quantum)
    }

    #[inline]
    fn select_channel(&mut self, at: u8) {
        self.at = at & 63;
        self.current = Counter(self.channel[usize::from(at & 63)].deficit);
    }

    /// Goes to the first channel of `round`, whatever is left of the rounds before.
    pub fn jump(&mut self, round: u32) {
        self.channel[usize::from(self.at & 63)].deficit = self.current.0;
        self.round = round;
        self.select_channel(self.mask.trailing_zeros() as u8);
    }

    /// Replaces members and quanta between two rounds: to be called when the pointer has just entered a round, at
    /// its first channel. A channel that stays keeps what it had overdrawn, in the same unit; a new one, and all where
    /// the unit changes, start at their quantum. The pointer goes to the first member.
    ///
    /// # Errors
    /// [`SetError::Empty`] when the set has no channel; nothing is changed then.
    pub fn adopt(&mut self, set: &ChannelSet) -> Result<(), SetError> {
        if set.is_empty() {
            return Err(SetError::Empty);
        }
        self.channel[usize::from(self.at & 63)].deficit = self.current.0;
        let stays = if set.unit() == self.unit() { self.mask } else { 0 };
        self.by_packets = set.unit() == Unit::Packets;
        for channel in set.channels() {
            let c = &mut self.channel[channel.index()];
            let quantum = set.quantum(channel);
            if stays & (1 << channel.0) != 0 {
                c.deficit += i64::from(quantum) - i64::from(c.quantum);
            } else {
                c.deficit = i64::from(quantum);
            }
            c.quantum = quantum;
        }
        self.link(set.mask());
        self.select_channel(self.mask.trailing_zeros() as u8);
        self.settle();
        Ok(())
    }

    /// Takes `channel` out at once, in the middle of a round (it is dead). Returns false, and does nothing, if it is
    /// no member or the last one.
    pub fn remove(&mut self, channel: ChannelId) -> bool {
        let rest = self.mask & !super::set::bit(channel);
        if rest == 0 || rest == self.mask {
            return false;
        }
        if self.at == channel.0 {
            self.advance();
        }
        self.link(rest);
        true
    }

    /// Whoever is selected has something left.
    #[inline]
    fn settle(&mut self) {
        if self.current.0 <= 0 {
            self.sit_out();
        }
    }

    /// A channel whose debt is beyond its quantum sits rounds out (never with quantum >= largest packet). What is still
    /// owed after as many visits as [`MOST_SIT_OUTS`] is forgiven: time per packet is bounded whatever the state.
    #[cold]
    fn sit_out(&mut self) {
        for _ in 0..MOST_SIT_OUTS {
            if !self.current.sits_out(self.quantum_here()) {
                return;
            }
            self.advance();
        }
        if self.current.0 <= 0 {
            self.current = Counter(self.quantum_here().max(1));
        }
    }

    fn link(&mut self, mask: u64) {
        self.mask = mask;
        for channel in bits(mask) {
            self.channel[channel.index()].next = next_in(mask, channel.0);
        }
    }
}

const MOST_SIT_OUTS: u32 = 4096;

impl Causal for Srr {
    #[inline]
    fn select(&self) -> ChannelId {
        ChannelId(self.at)
    }

    #[inline]
    fn update(&mut self, len: Bytes) {
        if self.current.charge(self.charge(len)) {
            self.current.refill(self.quantum_here());
            self.advance();
            self.settle();
        }
    }

    /// As in deficit round robin, an empty queue keeps no credit for later.
    fn pass(&mut self) {
        self.current = Counter(self.quantum_here());
        self.advance();
        self.settle();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn srr(quanta: &[u64]) -> Srr {
        Srr::new(&ChannelSet::of(quanta, Bytes::new(1)).unwrap()).unwrap()
    }

    #[test]
    fn figure_5_is_followed_step_by_step() {
        let mut s = srr(&[500, 500]);
        let mut trace = std::vec::Vec::new();
        // a; d and e (600 together); b and c.
        for len in [550, 200, 400, 150, 300] {
            let channel = s.select();
            s.update(Bytes::new(len));
            trace.push((channel.0, s.round_of(channel), s.deficit(channel)));
        }
        // Refilled on leaving: -50 + 500 and -100 + 500 and, after b and c, 0 + 500.
        assert_eq!(trace, [(0, 2, 450), (1, 1, 300), (1, 2, 400), (0, 2, 300), (0, 3, 500)]);
    }

    #[test]
    fn a_quantum_change_between_rounds_keeps_what_was_overdrawn() {
        let mut s = srr(&[1000, 1000]);
        s.update(Bytes::new(1300));
        s.update(Bytes::new(1000));
        assert_eq!((s.round(), s.deficit(ChannelId(0))), (2, 700));
        s.adopt(&ChannelSet::of(&[3000, 1000], Bytes::new(1)).unwrap()).unwrap();
        assert_eq!((s.deficit(ChannelId(0)), s.deficit(ChannelId(1))), (2700, 1000));
    }

    #[test]
    fn rounds_wrap_around() {
        let mut s = Srr::starting_at(&ChannelSet::of(&[10, 10], Bytes::new(1)).unwrap(), u32::MAX).unwrap();
        s.update(Bytes::new(10));
        assert_eq!((s.round_of(ChannelId(0)), s.round_of(ChannelId(1))), (0, u32::MAX));
        s.update(Bytes::new(10));
        assert_eq!(s.round(), 0);
    }

    #[test]
    fn a_removed_channel_is_left_at_once_and_the_last_one_stays() {
        let mut s = srr(&[10, 10, 10]);
        assert!(s.remove(ChannelId(0)));
        assert_eq!((s.select(), s.round()), (ChannelId(1), 1));
        s.update(Bytes::new(10));
        assert!(s.remove(ChannelId(2)));
        assert_eq!((s.select(), s.round()), (ChannelId(1), 2));
        assert!(!s.remove(ChannelId(1)));
        assert!(!s.remove(ChannelId(200)));
    }

    #[test]
    fn nobody_in_debt_is_selected_after_a_turn_that_was_passed_or_a_quantum_that_shrank() {
        let mut s = srr(&[100, 20, 100]);
        s.update(Bytes::new(100));
        // Channel 1 owes 80 from now on.
        s.update(Bytes::new(100));
        s.update(Bytes::new(100));
        assert_eq!((s.select(), s.deficit(ChannelId(1))), (ChannelId(0), -60));
        s.pass();
        assert_eq!((s.select(), s.deficit(ChannelId(1))), (ChannelId(2), -40));
        let mut s = srr(&[100, 100]);
        s.update(Bytes::new(150));
        s.update(Bytes::new(100));
        s.adopt(&ChannelSet::of(&[40, 100], Bytes::new(1)).unwrap()).unwrap();
        assert_eq!((s.select(), s.deficit(ChannelId(0))), (ChannelId(1), 30));
    }

    #[test]
    fn a_set_of_nobody_is_refused_and_changes_nothing() {
        let some = ChannelSet::of(&[100, 200], Bytes::new(1)).unwrap();
        let none = some.without(some.mask());
        assert_eq!(Srr::new(&none).err(), Some(SetError::Empty));
        let mut s = Srr::new(&some).unwrap();
        s.update(Bytes::new(30));
        assert_eq!(s.adopt(&none), Err(SetError::Empty));
        assert_eq!((s.mask(), s.select(), s.deficit(ChannelId(0))), (0b11, ChannelId(0), 70));
        assert_eq!([0, 1].map(|c| s.quantum(ChannelId(c))), [100, 200]);
    }

    #[test]
    fn who_is_left_by_a_jump_keeps_what_it_has() {
        let mut s = srr(&[100, 100, 100]);
        s.update(Bytes::new(100));
        s.update(Bytes::new(30));
        s.jump(7);
        assert_eq!((s.select(), s.round()), (ChannelId(0), 7));
        assert_eq!([0, 1, 2].map(|c| s.deficit(ChannelId(c))), [100, 70, 100]);
    }

    #[test]
    fn an_absurd_debt_costs_bounded_time() {
        let mut s = srr(&[1, 1]);
        s.set_deficit(ChannelId(1), -(1 << 60));
        s.update(Bytes::new(1 << 40));
        assert_eq!(s.deficit(s.select()), 1);
        s.update(Bytes::new(1));
    }

    #[test]
    fn a_packet_beyond_the_quantum_makes_its_channel_sit_out() {
        let mut s = srr(&[100, 100]);
        s.update(Bytes::new(350));
        let order: std::vec::Vec<u8> = (0..5)
            .map(|_| {
                let c = s.select().0;
                s.update(Bytes::new(100));
                c
            })
            .collect();
        assert_eq!(order, [1, 1, 1, 0, 1]);
    }
}
