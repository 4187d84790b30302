//! One host's end of a stripe: a sender, and the receiver of the other direction.
//!
//! Source: striping §6.3.1: the receiver's credits ride on the sender's markers. Nothing else couples the two.

use super::config::{Config, ConfigError, ReceiverConfig};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::causal::ChannelSet;
use crate::packet::Packet;
use crate::units::{ChannelId, Time};
use crate::wire::marker::Control;

/// A sender and the receiver of the other direction.
#[derive(Clone, Debug)]
pub struct Endpoint<P> {
    /// The sending side.
    pub sender: Sender,
    /// The receiving side.
    pub receiver: Receiver<P>,
}

impl<P: Packet> Endpoint<P> {
    /// An endpoint that sends over `channels`, beginning with `epoch` (see [`Sender::new`]).
    ///
    /// # Errors
    /// [`ConfigError`] names the setting or channel.
    pub fn new(
        config: Config,
        receiver: ReceiverConfig,
        channels: &ChannelSet,
        now: Time,
        epoch: u32,
    ) -> Result<Endpoint<P>, ConfigError> {
        Ok(Endpoint { sender: Sender::new(config, channels, now, epoch)?, receiver: Receiver::new(receiver) })
    }

    /// A data packet arrived on `channel`.
    #[inline]
    pub fn handle_data(&mut self, now: Time, channel: ChannelId, packet: P) {
        self.receiver.handle_data(now, channel, packet);
    }

    /// A control message arrived on `channel`.
    pub fn handle_control(&mut self, now: Time, channel: ChannelId, control: &Control) {
        match control {
            Control::Marker(marker) => {
                if let Some(grant) = marker.grant.filter(|_| marker.channel == channel) {
                    self.sender.handle_grant(channel, &grant);
                }
                self.receiver.handle_marker(now, channel, marker);
            }
            Control::Plan(plan) => self.receiver.handle_plan(now, channel, plan),
            Control::Ack(ack) => self.sender.handle_ack(now, channel, ack),
        }
    }

    /// The next control message to send, with its channel.
    #[inline]
    pub fn poll_control(&mut self, now: Time) -> Option<(ChannelId, Control)> {
        if let Some((channel, mut control)) = self.sender.poll_control(now) {
            if let Control::Marker(marker) = &mut control {
                marker.grant = self.receiver.grant(channel);
            }
            return Some((channel, control));
        }
        self.receiver.poll_reply().map(|(channel, ack)| (channel, Control::Ack(ack)))
    }

    /// The next packet in the peer's order, if it is here.
    #[inline]
    pub fn poll_deliver(&mut self) -> Option<P> {
        self.receiver.poll_deliver()
    }

    /// When [`handle_timeout`](Endpoint::handle_timeout) is due.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.sender.poll_timeout().into_iter().chain(self.receiver.poll_timeout()).min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
        self.receiver.handle_timeout(now);
    }
}
