//! Who has which Ethernet address: the bond, and each link.
//!
//! What it is: Linux's `fail_over_mac`. Source: the kernel's bonding documentation, and what the 6.1 driver does at a
//! fail-over (`bond_do_fail_over_mac`).
//!
//! | `fail_over_mac` | the bond's address | the link in use | the others |
//! |---|---|---|---|
//! | `none` | its own | an address of its own | as that one |
//! | `active` | that of the link in use | its device's | theirs |
//! | `follow` | stays | has the bond's; its device is given it | who had the bond's before gets what the new one had |
//!
//! Departures: with `follow`, a device that comes with the address that another link's device has by then is given one made
//! from it, always the same, where the driver draws one.
//!
//! Invariant: with `follow`, no two links of which the devices were told have the same address, and of the bond's the link in use is the one.

use super::frame;
use crate::select::active_backup::FailOverMac;
use crate::units::ChannelId;
use crate::wire::mac::Mac;
use alloc::vec::Vec;

/// Which of the addresses derived from the bond's a link has that must not have that one.
const SPARE_VARIANT: u8 = 0x04;

/// What a change of the link in use, or of a device, changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    /// The bond has another address.
    pub(super) bond: bool,
    /// Links that have another address, in the order in which their devices are to be given it.
    pub(super) links: Vec<(ChannelId, Mac)>,
}

/// The addresses of a bond and its links.
#[derive(Clone, Debug)]
pub(super) struct Addresses {
    rule: FailOverMac,
    bond: Mac,
    links: Vec<Mac>,
}

impl Addresses {
    pub(super) fn new(rule: FailOverMac, bond: Mac, links: Vec<Mac>) -> Addresses {
        Addresses { rule, bond, links }
    }

    /// The bond's.
    pub(super) fn bond(&self) -> Mac {
        self.bond
    }

    /// The one that `link` sends from where it does not send from the bond's.
    pub(super) fn link(&self, link: ChannelId) -> Option<Mac> {
        self.links.get(link.index()).copied()
    }

    /// Whether a link has `mac`.
    pub(super) fn is_link(&self, mac: Mac) -> bool {
        self.links.contains(&mac)
    }

    /// The device of `link` has `mac`; `current` is the link in use.
    pub(super) fn set(&mut self, link: ChannelId, mac: Mac, current: Option<ChannelId>) -> Changes {
        let Some(place) = self.links.get_mut(link.index()) else { return Changes::default() };
        *place = mac;
        if current == Some(link) {
            return self.take_over(link);
        }
        let bonds = self.rule == FailOverMac::Follow && mac == self.bond && current.is_some();
        if !bonds && !self.is_shared(link) {
            return Changes::default();
        }
        let spare = |variant| frame::derived(mac, variant);
        let free = (SPARE_VARIANT..64).map(spare).find(|spare| *spare != self.bond && !self.links.contains(spare));
        let spare = free.unwrap_or_else(|| spare(SPARE_VARIANT));
        self.links[link.index()] = spare;
        Changes { bond: false, links: [(link, spare)].into() }
    }

    /// Whether another link has the address of `link`, and must not.
    pub(super) fn is_shared(&self, link: ChannelId) -> bool {
        let others = || self.links.iter().enumerate().filter(|(n, _)| *n != link.index());
        self.rule == FailOverMac::Follow && others().any(|(_, mac)| self.link(link) == Some(*mac))
    }

    /// `link` is the one in use.
    pub(super) fn take_over(&mut self, link: ChannelId) -> Changes {
        let Some(own) = self.link(link).filter(|own| *own != self.bond) else { return Changes::default() };
        match self.rule {
            FailOverMac::None => Changes::default(),
            FailOverMac::Active => {
                self.bond = own;
                Changes { bond: true, links: Vec::new() }
            }
            FailOverMac::Follow => {
                let before = self.links.iter().position(|mac| *mac == self.bond).map(|n| ChannelId(n as u8));
                let gets = [(link, self.bond)].into_iter().chain(before.map(|before| (before, own)));
                let links: Vec<_> = gets.collect();
                for (link, mac) in &links {
                    self.links[link.index()] = *mac;
                }
                Changes { bond: false, links }
            }
        }
    }
}
