//! What a bond says unasked: announcements after a fail-over, and learning packets.
//!
//! Source: the kernel's bonding documentation (`num_grat_arp`, `num_unsol_na`, `peer_notif_delay`, `lp_interval`).

use super::Config;
use super::frame::{Arp, Neighbour};
use crate::select::Policy;
use crate::units::{Span, Time};
use crate::wire::mac::Mac;
use alloc::vec::Vec;
use core::net::IpAddr;

/// Between two announcements of one fail-over.
const ANNOUNCE_INTERVAL: Span = Span::from_millis(100);

/// When what is to be said.
#[derive(Clone, Debug)]
pub(super) struct Notifier {
    announcements: u8,
    addresses: Vec<IpAddr>,
    /// How often the last fail-over is to be announced still.
    left: u8,
    next: Option<Time>,
    /// Between learning packets, where the policy has them.
    interval: Option<Span>,
    learning: Option<Time>,
}

impl Notifier {
    pub(super) fn new(config: &Config) -> Notifier {
        let interval = match &config.settings.policy {
            Policy::BalanceTlb(config) => Some(config.lp_interval),
            Policy::BalanceAlb(config) => Some(config.lp_interval),
            _ => None,
        };
        Notifier {
            announcements: config.announcements,
            addresses: Vec::new(),
            left: 0,
            next: None,
            interval,
            learning: None,
        }
    }

    pub(super) fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    pub(super) fn set_addresses(&mut self, addresses: &[IpAddr]) {
        self.addresses = addresses.to_vec();
    }

    /// Another link is the current one: tell everybody at once.
    pub(super) fn on_fail_over(&mut self, now: Time) {
        self.left = self.announcements;
        self.next = (self.left > 0).then_some(now);
        self.learning = self.interval.map(|_| now);
    }

    pub(super) fn announcement_due(&self, now: Time) -> bool {
        self.next.is_some_and(|due| due <= now)
    }

    /// The announcements of one round.
    pub(super) fn announce(&mut self, now: Time, mac: Mac) -> Vec<Vec<u8>> {
        self.left = self.left.saturating_sub(1);
        self.next = (self.left > 0).then(|| now + ANNOUNCE_INTERVAL);
        let frame = |address: &IpAddr| match *address {
            IpAddr::V4(ip) => Arp::announcement(mac, ip),
            IpAddr::V6(ip) => Neighbour::announcement(mac, ip),
        };
        self.addresses.iter().map(frame).collect()
    }

    pub(super) fn learning_due(&self, now: Time) -> bool {
        self.learning.is_some_and(|due| due <= now)
    }

    pub(super) fn on_learning(&mut self, now: Time) {
        self.learning = self.interval.map(|interval| now + interval);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.next, self.learning].into_iter().flatten().min()
    }
}
