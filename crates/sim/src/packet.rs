//! What crosses a simulated link.

use crate::tcp::segment::Segment;
use fairspan_core::units::Time;

/// A packet. Its payload is not stored: its length is.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Which flow of the scenario it belongs to, from 0.
    pub flow: u32,
    /// Whether it travels from the flow's receiver to its sender.
    pub reverse: bool,
    /// Its number in its flow and direction, from 0, in the order of sending; a retransmission has a new one.
    pub number: u64,
    /// Length of the IP packet in bytes, headers included.
    pub size: u32,
    /// When its source sent it.
    pub created: Time,
    /// Which connection of its flow it belongs to, from 0: several where the traffic opens several.
    pub connection: u32,
    /// Where on its path it is: the engine's.
    pub step: u32,
    /// The class of service (RFC 2474): the upper six bits of the type of service.
    pub dscp: u8,
    /// What it is.
    pub body: Body,
}

/// What a packet carries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Body {
    /// A datagram: nothing but its length matters.
    Datagram,
    /// A TCP segment.
    Segment(Segment),
    /// A frame of a bond: the number of its content with the bond (`bond`). Its `flow` numbers the bond,
    /// behind all flows, and `reverse` says that end 1 sent it.
    Frame(u32),
}

/// A packet on its way from one part of a world to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Crossing {
    /// Over which link of the scenario.
    pub link: u32,
    /// When it comes to the link's far end.
    pub due: Time,
    /// It.
    pub packet: Packet,
}

/// A packet that an end of a flow sends, before it has a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outgoing {
    /// From the flow's receiver to its sender.
    pub reverse: bool,
    /// Which connection of the flow, from 0.
    pub connection: u32,
    /// Length of the IP packet.
    pub size: u32,
    /// What it is.
    pub body: Body,
}
