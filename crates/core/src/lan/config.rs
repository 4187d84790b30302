//! What a bond of Ethernet links is told: its settings, its links, and how these are.

use crate::select::Settings;
use crate::units::{Rate, Span};
use crate::wire::mac::Mac;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// The settings of a bond.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The policy with its options.
    pub settings: Settings,
    /// The bond's address.
    pub mac: Mac,
    /// Who is asked whether a link works, where `arp_interval` is set. Default nobody.
    pub arp_targets: Vec<Ipv4Addr>,
    /// How often a fail-over is announced, by gratuitous ARP and unsolicited neighbour advertisements. Default 1.
    pub announcements: u8,
}

impl Config {
    /// The defaults, with this policy and address.
    pub fn new(settings: Settings, mac: Mac) -> Config {
        Config { settings, mac, arp_targets: Vec::new(), announcements: 1 }
    }
}

/// What a link is.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinkConfig {
    /// Its name, for options that name links.
    pub name: String,
    /// The address that it sends from where it does not send from the bond's.
    pub mac: Mac,
    /// Lower is better, where a policy looks for the best. Default 0.
    pub priority: u32,
    /// Its share where rates are not known. Default 1.
    pub weight: u32,
    /// From leaving to arriving, for policies that keep order by it. Only differences between links count. Default zero on
    /// every link, as links into one LAN are alike.
    pub delay: Span,
    /// By how much that varies. Default [`USUAL_JITTER`].
    pub jitter: Span,
}

/// What the delays of idle links of one LAN differ by: what a receiver's interrupt moderation makes of them.
pub const USUAL_JITTER: Span = Span::from_micros(100);

impl LinkConfig {
    /// The defaults, with this name and address.
    pub fn new(name: impl Into<String>, mac: Mac) -> LinkConfig {
        LinkConfig { name: name.into(), mac, priority: 0, weight: 1, delay: Span::ZERO, jitter: USUAL_JITTER }
    }
}

/// How a link is, as its device says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// It is switched on and has carrier.
    pub carrier: bool,
    /// What it carries, where that is known.
    pub rate: Option<Rate>,
    /// Whether both ends may send at once.
    pub full_duplex: bool,
}
