//! The traffic of one or several captures as one sequence of frames, with the flow of each.
//!
//! Several captures are one sequence by their times: parts of one capture follow one another, captures of the same hour
//! are merged. A packet whose time is before its predecessor's in the same file gets that one's time. Packets of equal
//! times keep the order of the files. The first packet's time is the origin.
//!
//! A packet's *place* is its number in the order of the files as they were given; packets that cannot be forwarded have
//! places too.

use super::flow::Flows;
use crate::capture::{Capture, CaptureError};
use crate::hex::HexFrames;
use crate::link_type::{self, NoFrame};
use fairspan_core::select::{Frame, Layer};
use fairspan_core::units::{Span, Time};
use std::collections::BTreeMap;

/// One frame of the sequence.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Nanoseconds; while the sequence is put together since the captures' origin, then since the first packet.
    time: i64,
    bytes: &'a [u8],
    len: u32,
    flow: u32,
    place: u32,
    layer: Layer,
}

impl<'a> Packet<'a> {
    /// Since the first one.
    pub fn time(&self) -> Time {
        Time::from_nanos(self.time as u64)
    }

    /// As a selector sees it.
    pub fn frame(&self) -> Frame<'a> {
        // Selectors rely on it, whatever the file says.
        Frame { bytes: self.bytes, len: (self.len as usize).max(self.bytes.len()), layer: self.layer }
    }

    /// The number of its flow, from 0 in the order of their first packets.
    pub fn flow(&self) -> usize {
        self.flow as usize
    }

    /// Its place among all packets of the files.
    pub fn place(&self) -> usize {
        self.place as usize
    }
}

/// Frames in the order of their times.
#[derive(Debug, Default)]
pub struct Traffic<'a> {
    packets: Vec<Packet<'a>>,
    flows: usize,
    places: usize,
    left_out: BTreeMap<NoFrame, u64>,
    backwards: u64,
}

/// More packets than can be counted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("more than 4294967295 packets; give fewer files at once")]
pub struct TooMany;

/// What the files give, before it is put in order.
#[derive(Debug, Default)]
pub struct Gathered<'a> {
    traffic: Traffic<'a>,
    /// What the next frame without a time gets.
    clock: i64,
}

impl<'a> Gathered<'a> {
    /// Adds the packets of the capture in `data`, a whole file. Where its rest cannot be read, everything before is added,
    /// and why is given.
    ///
    /// # Errors
    /// It is no capture.
    pub fn capture(&mut self, data: &'a [u8]) -> Result<Option<CaptureError>, CaptureError> {
        let traffic = &mut self.traffic;
        let mut last = i64::MIN;
        for packet in Capture::new(data)? {
            let packet = match packet {
                Ok(packet) => packet,
                Err(error) => return Ok(Some(error)),
            };
            traffic.backwards += u64::from(packet.time < last);
            last = last.max(packet.time);
            match link_type::frame(&packet) {
                Ok(framed) => traffic.push(last, framed.layer, framed.bytes, framed.len),
                Err(reason) => *traffic.left_out.entry(reason).or_default() += 1,
            }
            traffic.places += 1;
        }
        Ok(None)
    }

    /// Adds Ethernet frames that have no times: each comes `interval` after the one before it, the first at the origin.
    pub fn hex(&mut self, frames: &'a HexFrames, interval: Span) {
        for bytes in frames.iter() {
            self.traffic.push(self.clock, Layer::Ethernet, bytes, bytes.len() as u32);
            self.traffic.places += 1;
            self.clock = self.clock.saturating_add_unsigned(interval.as_nanos());
        }
    }

    /// Puts everything in order.
    ///
    /// # Errors
    /// There are more packets than can be numbered.
    pub fn finish(self) -> Result<Traffic<'a>, TooMany> {
        let mut traffic = self.traffic;
        if u32::try_from(traffic.places).is_err() {
            return Err(TooMany);
        }
        traffic.packets.sort_by_key(|packet| packet.time);
        let first = traffic.packets.first().map_or(0, |packet| packet.time);
        let mut flows = Flows::new();
        for packet in &mut traffic.packets {
            // A broken clock that spans more than 292 years stands still at their end.
            packet.time = packet.time.saturating_sub(first);
            packet.flow = flows.number(&packet.frame());
        }
        traffic.flows = flows.len();
        Ok(traffic)
    }
}

impl<'a> Traffic<'a> {
    fn push(&mut self, time: i64, layer: Layer, bytes: &'a [u8], len: u32) {
        self.packets.push(Packet { time, bytes, len, flow: 0, place: self.places as u32, layer });
    }

    /// The frames, earliest first.
    pub fn packets(&self) -> &[Packet<'a>] {
        &self.packets
    }

    /// How many flows they belong to.
    pub fn flows(&self) -> usize {
        self.flows
    }

    /// How many packets the files have, those included that are no frames.
    pub fn places(&self) -> usize {
        self.places
    }

    /// How many packets were left out, and why.
    pub fn left_out(&self) -> &BTreeMap<NoFrame, u64> {
        &self.left_out
    }

    /// How many packets had a time before their predecessor's.
    pub fn backwards(&self) -> u64 {
        self.backwards
    }

    /// From the first packet to the last one.
    pub fn duration(&self) -> Span {
        self.packets.last().map_or(Span::ZERO, |packet| packet.time().since(Time::ZERO))
    }
}
