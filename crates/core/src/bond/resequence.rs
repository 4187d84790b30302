//! What the receiver does with packets before the host gets them.
//!
//! Every kind of frame has its way, whatever this end's own mode is: numbered by flow, through the delay lines and the
//! order of its bucket; numbered in the bond, through the window of first copies; without a number, straight on. What the
//! stripe puts in order by logical reception (`striped.rs`) comes out of the same queue. Delay lines and packets behind
//! gaps share one bound on memory.

use super::config::Config;
use super::equalize::{Arrival, Equalizer};
use super::event::Stats;
use super::ordered::Ordered;
use super::preset::{Preset, Resequencing};
use super::window::{Verdict, Window};
use crate::packet::Packet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::stamp::Stamp;

/// The receiver's buffers.
#[derive(Debug)]
pub(super) struct Resequence<P> {
    /// What this end's mode asks for.
    how: Resequencing,
    /// Bound on the memory of all.
    hold_bytes: usize,
    /// The channels that bring data: those that a gap waits for.
    bringing: u64,
    equalizer: Equalizer<P>,
    ordered: Ordered<P>,
    window: Window,
}

impl Config {
    /// Longest time a packet waits behind a gap where round trips are short.
    pub fn deadline(&self) -> Span {
        self.deadline.unwrap_or(Span::from_millis(500))
    }
}

impl<P: Packet> Resequence<P> {
    /// Before the first frame.
    pub(super) fn new(preset: Preset, config: &Config) -> Resequence<P> {
        Resequence {
            how: preset.resequence,
            hold_bytes: config.order_bytes(),
            bringing: 0,
            equalizer: Equalizer::new(config.equalize),
            ordered: Ordered::new(config.buckets, config.order_bytes(), config.deadline()),
            window: Window::new(),
        }
    }

    /// Other bounds, from the next packet on.
    pub(super) fn set_bounds(&mut self, config: &Config) {
        self.hold_bytes = config.order_bytes();
        self.equalizer.limit = config.equalize;
        self.limit_order();
        self.refresh_delays();
    }

    /// What waits for an earlier packet is given up after so long.
    pub(super) fn set_deadline(&mut self, deadline: Span) {
        self.ordered.set_deadline(deadline);
    }

    /// Whether the peer's discipline is to be followed.
    #[inline]
    pub(super) fn is_logical(&self) -> bool {
        self.how == Resequencing::Logical
    }

    /// A packet for the host, which nothing goes before.
    #[inline]
    pub(super) fn push(&mut self, packet: P) {
        self.ordered.push(packet);
    }

    /// The next packet for the host.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<P> {
        self.ordered.pop()
    }

    /// Memory that what waits takes.
    pub(super) fn used(&self) -> usize {
        self.equalizer.used() + self.ordered.used()
    }

    /// When a delay is made up for.
    pub(super) fn equalize_timeout(&self) -> Option<Time> {
        self.equalizer.timeout()
    }

    /// When a gap has been waited for long enough.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.ordered.timeout()
    }

    /// A packet that is numbered in the bond only: the first of its copies passes.
    pub(super) fn handle_copy(&mut self, bond: u32, packet: P, stats: &mut Stats) {
        match self.window.accept(bond) {
            Verdict::New => self.ordered.push(packet),
            Verdict::Seen => stats.duplicates += 1,
            Verdict::Beyond => stats.beyond_window += 1,
        }
    }

    /// A packet of an ordered flow, or a marker among such: taken at once or when its channel's delay is made up for.
    #[inline]
    pub(super) fn handle(&mut self, now: Time, channel: ChannelId, arrival: Arrival<P>, stats: &mut Stats) {
        let delay = self.equalizer.line_of(channel);
        self.hold(now, channel, delay, arrival, stats);
    }

    /// The same of a packet with a stamp, which tells when it is due.
    #[inline]
    pub(super) fn handle_kept(
        &mut self,
        now: Time,
        channel: ChannelId,
        stamp: Stamp,
        again: bool,
        arrival: Arrival<P>,
        stats: &mut Stats,
    ) {
        let through = match (stamp, again) {
            (Stamp::NONE, _) => Some(arrival),
            (_, false) => {
                let delay = self.equalizer.delay_of(now, channel, stamp, false);
                return self.hold(now, channel, delay, arrival, stats);
            }
            (_, true) => {
                let delay = self.equalizer.delay_of(now, channel, stamp, true);
                self.equalizer.hold_aside(now, channel, delay, arrival, self.room())
            }
        };
        self.limit_order();
        if let Some(arrival) = through {
            self.take(now, channel, arrival, stats);
        }
    }

    #[inline]
    fn hold(&mut self, now: Time, channel: ChannelId, delay: Span, arrival: Arrival<P>, stats: &mut Stats) {
        let room = self.room();
        match self.equalizer.hold(now, channel, delay, arrival, room) {
            Some(arrival) => self.take(now, channel, arrival, stats),
            // It may have gone behind others although there was no room for it.
            None if self.equalizer.used() > room => self.release(now, stats),
            None => self.limit_order(),
        }
    }

    /// Does what is due: releases what the delay lines held long enough, and gives up gaps at their deadline.
    pub(super) fn handle_timeout(&mut self, now: Time, stats: &mut Stats) {
        self.release(now, stats);
        self.ordered.handle_timeout(now, stats);
    }

    /// The peer's clock was `clock` when a message left that arrived on `channel` now.
    pub(super) fn measured(&mut self, now: Time, channel: ChannelId, clock: u64) {
        self.equalizer.measured(now, channel, clock);
        self.refresh_delays();
    }

    /// The peer keeps to a rate on `channel`, or knows none.
    #[inline]
    pub(super) fn set_paced(&mut self, channel: ChannelId, paced: bool) {
        self.equalizer.set_paced(channel, paced);
    }

    /// `channel` is another path now.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.equalizer.forget(channel);
    }

    /// The channels that bring data are `bringing` now.
    pub(super) fn set_bringing(&mut self, bringing: u64, stats: &mut Stats) {
        self.bringing = bringing;
        // What a channel brought before it was left is still to come out of its delay line.
        self.ordered.wait_for(bringing | self.equalizer.busy(), stats);
        self.refresh_delays();
    }

    /// The peer is another one: delivers what waits and forgets its numbers. `from_start`: its first packets are still to
    /// come.
    pub(super) fn reset(&mut self, now: Time, from_start: bool, stats: &mut Stats) {
        self.equalizer.forget_all();
        while let Some((channel, arrival)) = self.equalizer.release(Time::MAX, 0) {
            self.limit_order();
            self.take(now, channel, arrival, stats);
        }
        self.ordered.reset(from_start, stats);
        self.window.reset();
    }

    #[inline]
    fn take(&mut self, now: Time, channel: ChannelId, arrival: Arrival<P>, stats: &mut Stats) {
        match arrival {
            Arrival::Packet { bucket, number, bond, packet } => {
                self.ordered.handle(now, channel, bucket, number, bond, packet, stats);
            }
            Arrival::Kept { bucket, number, bond, packet } => {
                self.ordered.handle_kept(now, bucket, number, bond, packet, stats);
            }
            Arrival::Marker { high } => self.ordered.on_marker(channel, high, stats),
        }
    }

    /// Takes what the delay lines are to release by now.
    fn release(&mut self, now: Time, stats: &mut Stats) {
        let busy = self.equalizer.busy();
        while let Some((channel, arrival)) = self.equalizer.release(now, self.room()) {
            self.limit_order();
            self.take(now, channel, arrival, stats);
        }
        if busy & !self.bringing & !self.equalizer.busy() != 0 {
            // The last of a channel that brings no more has come out.
            self.set_bringing(self.bringing, stats);
        }
    }

    #[inline]
    fn limit_order(&mut self) {
        self.ordered.set_limit(self.hold_bytes.saturating_sub(self.equalizer.used()));
    }

    /// Memory that the delay lines may take: at most half of the bound.
    #[inline]
    fn room(&self) -> usize {
        (self.hold_bytes / 2).min(self.hold_bytes.saturating_sub(self.ordered.used()))
    }

    /// Works out the delays anew: a transit was measured, or other channels bring data.
    fn refresh_delays(&mut self) {
        if self.how == Resequencing::Equalized {
            self.equalizer.set(self.bringing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Mode;
    use super::*;
    use alloc::vec::Vec;

    const MS: fn(u64) -> Time = Time::from_millis;

    fn made(mode: Mode) -> (Resequence<Vec<u8>>, Stats) {
        let config = Config { mode, ..Config::default() };
        let (mut receiver, mut stats) = (Resequence::new(Preset::of(&config), &config), Stats::default());
        receiver.reset(MS(0), true, &mut stats);
        receiver.set_bringing(0b11, &mut stats);
        (receiver, stats)
    }

    fn packet(number: u32) -> Arrival<Vec<u8>> {
        Arrival::Packet { bucket: 0, number, bond: number + 1, packet: number.to_be_bytes().to_vec() }
    }

    /// Channel 0 is 20 ms faster than channel 1.
    fn measure(receiver: &mut Resequence<Vec<u8>>) {
        receiver.measured(MS(100), ChannelId(0), MS(90).as_nanos());
        receiver.measured(MS(100), ChannelId(1), MS(70).as_nanos());
    }

    #[test]
    fn only_the_preset_that_equalizes_delays_the_faster_channel() {
        for (mode, waits) in [(Mode::Ordered, true), (Mode::Backup, false), (Mode::Plain, false)] {
            let (mut receiver, mut stats) = made(mode);
            measure(&mut receiver);
            receiver.handle(MS(200), ChannelId(0), packet(0), &mut stats);
            assert_eq!(receiver.pop().is_none(), waits, "{mode}");
            receiver.handle_timeout(MS(220), &mut stats);
            assert_eq!(receiver.pop().is_some(), waits, "{mode}");
        }
    }

    #[test]
    fn a_first_copy_passes_and_a_second_does_not() {
        let (mut receiver, mut stats) = made(Mode::Duplicate);
        for bond in [5, 4, 5] {
            receiver.handle_copy(bond, Vec::from([bond as u8]), &mut stats);
        }
        let out: Vec<_> = core::iter::from_fn(|| receiver.pop()).collect();
        assert_eq!((out, stats.duplicates), (Vec::from([Vec::from([5]), Vec::from([4])]), 1));
    }

    #[test]
    fn a_gap_waits_for_what_a_left_channel_still_has_in_its_delay_line() {
        let (mut receiver, mut stats) = made(Mode::Ordered);
        measure(&mut receiver);
        receiver.handle(MS(200), ChannelId(0), packet(0), &mut stats);
        receiver.set_bringing(0b10, &mut stats);
        receiver.handle(MS(201), ChannelId(1), packet(1), &mut stats);
        assert!(receiver.pop().is_none());
        receiver.handle_timeout(MS(220), &mut stats);
        let out: Vec<_> = core::iter::from_fn(|| receiver.pop()).map(|p| p[3]).collect();
        assert_eq!((out, stats.packets_missing), (Vec::from([0, 1]), 0));
    }

    #[test]
    fn while_all_channels_are_away_a_gap_waits_for_what_is_sent_again() {
        for (mode, out) in [(Mode::Ordered, Vec::from([0, 2])), (Mode::Reliable, Vec::from([0, 1, 2]))] {
            let (mut receiver, mut stats) = made(mode);
            let arrives = |receiver: &mut Resequence<Vec<u8>>, number: u32, stats: &mut Stats| {
                let (bond, packet) = (number + 1, number.to_be_bytes().to_vec());
                let arrival = match mode {
                    Mode::Reliable => Arrival::Kept { bucket: 0, number, bond, packet },
                    _ => Arrival::Packet { bucket: 0, number, bond, packet },
                };
                receiver.take(MS(100), ChannelId(0), arrival, stats);
            };
            arrives(&mut receiver, 0, &mut stats);
            arrives(&mut receiver, 2, &mut stats);
            receiver.set_bringing(0, &mut stats);
            receiver.set_bringing(0b10, &mut stats);
            arrives(&mut receiver, 1, &mut stats);
            let all: Vec<_> = core::iter::from_fn(|| receiver.pop()).map(|p| p[3]).collect();
            assert_eq!((all, stats.packets_missing), (out, u64::from(mode == Mode::Ordered)), "{mode}");
        }
    }

    #[test]
    fn a_reset_delivers_what_waits_first() {
        let (mut receiver, mut stats) = made(Mode::Ordered);
        measure(&mut receiver);
        receiver.handle(MS(200), ChannelId(0), packet(1), &mut stats);
        receiver.reset(MS(201), true, &mut stats);
        assert_eq!(receiver.pop().map(|p| p[3]), Some(1));
        assert_eq!((receiver.equalize_timeout(), receiver.deadline()), (None, None));
    }
}
