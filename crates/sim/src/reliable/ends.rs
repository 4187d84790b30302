//! Both ends of a reliable flow, and its greedy application: a sender that always has another packet.

use super::payload::{Carried, Complexity, Frame, Payload, received, sent, take};
use super::two_stage::TwoStage;
use crate::model::Scheme;
use fairspan_core::arq::{Config, Header, Receiver, Sender, Seq};
use fairspan_core::units::{Bytes, ChannelId, Time};

/// The machines of a flow.
#[derive(Debug)]
pub(super) enum Ends {
    One(Box<OneStage>),
    Two(Box<TwoStage>),
}

/// One stage of numbers.
#[derive(Debug)]
pub(super) struct OneStage {
    sender: Sender<Payload>,
    receiver: Receiver<Payload>,
    size: Bytes,
    number: u64,
}

impl Ends {
    pub(super) fn new(scheme: Scheme, config: &Config, paths: usize) -> Ends {
        let mut config = config.clone();
        match scheme {
            Scheme::Mtcp => return Ends::Two(Box::new(TwoStage::new(&config, paths))),
            Scheme::Larr => config.reorder_packets = 0,
            Scheme::EflMp | Scheme::Lah | Scheme::Ideal | Scheme::Bound => {}
        }
        let paths = if scheme == Scheme::Lah { 1 } else { paths };
        Ends::One(Box::new(OneStage {
            sender: Sender::new(&config, paths, Seq(0)),
            receiver: Receiver::new(&config, paths, Seq(0)),
            size: config.segment,
            number: 0,
        }))
    }

    /// A frame has come to the receiver.
    #[inline]
    pub(super) fn handle_data(&mut self, now: Time, path: usize, header: &Header, carried: Carried) {
        match self {
            Ends::One(one) => take(&mut one.receiver, now, ChannelId(path as u8), header, carried),
            Ends::Two(two) => two.handle_data(now, path, header, carried),
        }
    }

    /// An acknowledgment has come to the sender.
    #[inline]
    pub(super) fn handle_ack(&mut self, now: Time, path: usize, header: &Header) {
        match self {
            Ends::One(one) => {
                let _ = one.sender.handle_ack(now, header);
            }
            Ends::Two(two) => two.handle_ack(now, path, header),
        }
    }

    /// The next frame that goes now; `fresh`: new packets are sent.
    #[inline]
    pub(super) fn poll_data(&mut self, now: Time, fresh: bool) -> Option<Frame> {
        match self {
            Ends::One(one) => {
                if fresh && one.sender.room_at(now, one.size).is_some_and(|at| at <= now) {
                    let payload = Payload { number: one.number, created: now };
                    one.number += u64::from(one.sender.handle_packet(payload, one.size).is_ok());
                }
                let transmit = one.sender.poll_transmit(now)?;
                Frame::of(transmit.path.index(), &transmit)
            }
            Ends::Two(two) => two.poll_data(now, fresh),
        }
    }

    /// The next acknowledgment that goes now, and its path.
    #[inline]
    pub(super) fn poll_ack(&mut self, now: Time) -> Option<(usize, Header)> {
        match self {
            Ends::One(one) => one.receiver.poll_ack(now).map(|header| (header.path.index(), header)),
            Ends::Two(two) => two.poll_ack(now),
        }
    }

    /// The next packet in order.
    #[inline]
    pub(super) fn poll_deliver(&mut self) -> Option<Payload> {
        match self {
            Ends::One(one) => one.receiver.poll_deliver(),
            Ends::Two(two) => two.poll_deliver(),
        }
    }

    /// A timer of the sender has run out.
    pub(super) fn handle_timeout(&mut self, now: Time) {
        match self {
            Ends::One(one) => one.sender.handle_timeout(now),
            Ends::Two(two) => two.handle_timeout(now),
        }
    }

    /// When the sender has something to do.
    pub(super) fn poll_sender(&mut self, now: Time, fresh: bool) -> Option<Time> {
        match self {
            Ends::One(one) => {
                let room = if fresh { one.sender.room_at(now, one.size) } else { None };
                [room, one.sender.poll_timeout()].into_iter().flatten().min()
            }
            Ends::Two(two) => two.poll_sender(now, fresh),
        }
    }

    /// When the receiver has something to do.
    pub(super) fn poll_receiver(&self) -> Option<Time> {
        match self {
            Ends::One(one) => one.receiver.poll_timeout(),
            Ends::Two(two) => two.poll_receiver(),
        }
    }

    /// Counters of the sender's and the receiver's end.
    pub(super) fn counters(&self) -> [Vec<(&'static str, u64)>; 2] {
        match self {
            Ends::One(one) => [sent([&one.sender]), received([&one.receiver])],
            Ends::Two(two) => two.counters(),
        }
    }

    pub(super) fn complexity(&self) -> Complexity {
        match self {
            Ends::One(one) => Complexity {
                sequences: 1,
                retransmission_buffers: 1,
                // One that holds nothing is none.
                reorder_buffers: if one.receiver.has_room(ChannelId(0)) { one.receiver.reorder_buffers() } else { 0 },
            },
            Ends::Two(two) => two.complexity(),
        }
    }
}
