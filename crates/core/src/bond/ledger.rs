//! What became of each flow's packets on their way to a channel.
//!
//! What it is: [`Accounts`] of what waits in the bond, where a discipline tells flows apart; with first in, first out there is none,
//! and nothing is spent on it. Flows are the flow buckets: two that share one share an account. Frames are counted by channel, those that carry
//! a packet again among them: a frame that leaves after its flow's account went to another flow is counted with that one. Cost: those of the accounts.
//!
//! Accounts that there were once are kept while the order is first in, first out: what waits may still carry their numbers.
//! What comes meanwhile has no account of its own.

use super::config::Config;
use super::treatment::Treatment;
use crate::flow::accounts::{AccountId, Accounts};
use crate::flow::frame::{Frame, Layer};
use crate::flow::label::Label;
use crate::packet::Packet;
use crate::queue::DisciplineConfig;
use crate::units::{Bytes, ChannelId, FlowNumber, Time};
use alloc::boxed::Box;

/// Most flows that have an account of their own.
const FLOWS: usize = 1024;

/// The accounts, if there are any.
#[derive(Debug)]
pub(super) struct Ledger {
    accounts: Option<Box<Accounts>>,
    /// Whether flows are told apart at present.
    tells: bool,
    /// How many channels there were at most.
    ways: usize,
}

impl Ledger {
    /// That of a bond with these settings.
    pub(super) fn new(config: &Config) -> Ledger {
        let mut ledger = Ledger { accounts: None, tells: false, ways: 0 };
        ledger.set_discipline(config.discipline);
        ledger
    }

    /// Packets wait in this order from now on.
    pub(super) fn set_discipline(&mut self, discipline: DisciplineConfig) {
        self.tells = discipline != DisciplineConfig::Fifo;
        if self.tells {
            self.accounts.get_or_insert_with(|| Box::new(Accounts::new(FLOWS))).extend(self.ways);
        }
    }

    /// There are so many channels, of which `new` is one that is new.
    pub(super) fn on_channel(&mut self, channels: usize, new: Option<ChannelId>) {
        self.ways = channels;
        if let Some(accounts) = &mut self.accounts {
            accounts.extend(channels);
            if let Some(channel) = new {
                accounts.forget_way(channel.index());
            }
        }
    }

    /// The accounts.
    pub(super) fn accounts(&self) -> Option<&Accounts> {
        self.accounts.as_deref().filter(|_| self.tells)
    }

    /// An IP packet of `bucket` comes.
    #[inline]
    pub(super) fn on_arrival<P: Packet>(&mut self, now: Time, bucket: u16, packet: &P) -> AccountId {
        let Some(accounts) = self.accounts.as_mut().filter(|_| self.tells) else { return AccountId::default() };
        accounts.on_arrival(now, FlowNumber(bucket.into()), || {
            let bytes = packet.bytes();
            Label::of(&Frame { bytes, len: bytes.len(), layer: Layer::Ip })
        })
    }

    /// It goes by a channel.
    #[inline]
    pub(super) fn on_sent(&mut self, now: Time, id: AccountId, size: Bytes, since: Time, marked: bool) {
        if let Some(accounts) = &mut self.accounts {
            accounts.on_sent(now, id, size.as_u64(), now.since(since), marked);
        }
    }

    /// It has `size` bytes, and is to go so.
    #[inline]
    pub(super) fn on_treated(&mut self, now: Time, id: AccountId, treatment: Treatment, size: usize) {
        if let Some(accounts) = &mut self.accounts {
            accounts.on_noted(now, id, treatment.note(), size as u64);
        }
    }

    /// A frame with so many bytes of it, or of its parity, goes by `channel`: its first one, one more, or one in place of a lost one.
    #[inline]
    pub(super) fn on_frame(&mut self, now: Time, id: AccountId, channel: ChannelId, size: usize) {
        if let Some(accounts) = &mut self.accounts {
            accounts.on_left(now, id, channel.index(), size as u64);
        }
    }

    /// It is dropped.
    #[inline]
    pub(super) fn on_dropped(&mut self, id: AccountId) {
        if let Some(accounts) = &mut self.accounts {
            accounts.on_dropped(id);
        }
    }
}
