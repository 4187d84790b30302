//! The daemon of `fairspan up` with a `[bond]`: a TAP interface towards the host, frames as they are on the links.
//!
//! It decides nothing about links: [`fairspan_core::lan`] does. It reads, hands over, drains the polls, and writes, in
//! batches.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the way of a frame |
//! | `tap` | the host's side |
//! | `../device` | a device |
//! | `report` | log and status |
//!
//! **No queue of its own.** A link's queue is its device's: what that does not take is dropped and counted, as a full queue
//! of the kernel would. Policies that look at queues see the one that follows from the link's rate and what was sent.
//!
//! **The devices keep their addresses.** They are switched on and to promiscuous mode (which ends with the socket, also when
//! the daemon is killed), and the host's own stack is kept off them. Only where the bond is given the address of a device
//! does that device get another one meanwhile. With `fail_over_mac=active` the bond has the current device's address and that
//! device keeps it, as the option is for devices of which no other address is to be seen; with `follow` the current device is
//! given the bond's. The host's stack, kept off the devices, takes no packet there.

mod report;
mod tap;

use super::device::{self, Arrival, Device};
use crate::config::{Bond, Config};
use crate::netlink::{Guard, LinkChange};
use crate::pool::PacketBuf;
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token, Turn};
use crate::status::Status;
use fairspan_core::lan::{self, Event, Lan, Received, frame};
use fairspan_core::packet::Packet;
use fairspan_core::select::active_backup::FailOverMac;
use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_core::wire::mac::Mac;
use std::net::IpAddr;
use std::os::fd::AsFd;
use tap::Tap;

/// Frames read from the host in a row before the links get their turn.
const HOST_BURST: usize = 256;
/// Frames taken from one link before others get their turn.
const LINK_BURST: usize = 256;
/// The interface's MTU while there is no device.
const USUAL_MTU: usize = 1500;

/// Which of the addresses derived from a device's own is the bond's, and which the link's.
const BOND_VARIANT: u8 = 0x20;
const LINK_VARIANT: u8 = 0x10;

/// A bond of Ethernet links. Dropping it undoes all that it did to the host's network.
pub(super) struct EthernetBond {
    /// Undone before the interface goes with `tap`.
    guard: Guard,
    tap: Tap,
    tap_token: Token,
    bond: Lan<PacketBuf>,
    devices: Vec<Device>,
    /// Devices with frames for the next batch, in the order of their first ones.
    touched: Vec<usize>,
    mtu: usize,
    carrier: Option<bool>,
    config: Config,
    settings: Bond,
}

impl EthernetBond {
    /// Opens everything that `config` names; the interface is up when this returns.
    ///
    /// # Errors
    /// The first thing that failed; what was done by then is undone. [`DaemonError::Setting`] too where there is no
    /// `[bond]`.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<EthernetBond, DaemonError> {
        let Some(settings) = config.bond.clone() else {
            return Err(DaemonError::setting(&config.interface.name, "the configuration has no [bond]"));
        };
        let tap = Tap::open(&config.interface.name)?;
        let mut guard = Guard::new()?;
        let mut devices = Vec::new();
        for link in &settings.links {
            let carrier_counts = settings.settings.supervision.miimon > Span::ZERO;
            let device = Device::new(&link.device, link.rate, carrier_counts, poller, Turn::Links);
            devices.push(device.map_err(|source| DaemonError::Device { device: link.device.clone(), source })?);
        }
        for device in &mut devices {
            device.prepare(&mut guard, kept_off(&settings))?;
        }
        let own = |n: usize| devices.get(n).and_then(|device: &Device| device.mac);
        // A device that is not there yet gets an address that follows from the bond's name.
        let stand_in = |n: usize| named(&config.interface.name, n);
        let mac = settings.mac.unwrap_or_else(|| match (Bond::fail_over_mac(&settings.settings), own(0)) {
            // As Linux does: a device's own address is one that its port takes.
            (FailOverMac::Follow, Some(mac)) => mac,
            (_, mac) => frame::derived(mac.unwrap_or_else(|| stand_in(0)), BOND_VARIANT),
        });
        let links = settings.links.iter().enumerate().map(|(n, link)| {
            let mac = link_address(&settings, own(n).unwrap_or_else(|| stand_in(n)));
            link.config(mac)
        });
        let mut bond_config = lan::Config::new(settings.settings.clone(), mac);
        bond_config.arp_targets.clone_from(&settings.arp_ip_target);
        bond_config.announcements = settings.num_grat_arp;
        let seed = u64::from(std::process::id()) << 32 | u64::from(tap_seed());
        let bond = Lan::new(bond_config, links.collect(), seed)
            .map_err(|e| DaemonError::setting(&config.interface.name, e))?;

        let mut machine = EthernetBond {
            tap_token: poller.watch(tap.as_fd(), Turn::Others)?,
            guard,
            tap,
            bond,
            devices,
            touched: Vec::with_capacity(64),
            mtu: 0,
            carrier: None,
            config,
            settings,
        };
        machine.configure()?;
        for number in 0..machine.devices.len() {
            machine.devices[number].watch();
            machine.tell(now, number);
        }
        machine.read_addresses();
        machine.move_frames(now);
        Ok(machine)
    }

    /// Gives the interface its address, MTU and IP addresses and switches it on.
    fn configure(&mut self) -> Result<(), DaemonError> {
        let name = self.tap.name().to_owned();
        self.guard.netlink().set_address(&name, self.bond.mac().0)?;
        self.mtu = self.fitting_mtu();
        self.guard.netlink().set_mtu(&name, self.mtu as u32)?;
        for address in self.config.interface.addresses.clone() {
            self.guard.add_address(&name, address)?;
        }
        Ok(self.guard.set_up(&name, true)?)
    }

    fn read_host(&mut self, now: Time) -> Result<(), DaemonError> {
        for _ in 0..HOST_BURST {
            let Some(frame) = self.tap.recv()? else { break };
            self.bond.handle_host(now, frame);
            self.transmit();
        }
        Ok(())
    }

    fn read_device(&mut self, now: Time, number: usize) {
        let Some(device) = self.devices.get_mut(number) else { return };
        let (bond, tap) = (&mut self.bond, &mut self.tap);
        let link = ChannelId(number as u8);
        let taken = device.receive(LINK_BURST, |arrival| {
            if let Received::Deliver { destination } = bond.handle_link(now, link, arrival.frame) {
                deliver(tap, &arrival, destination);
            }
        });
        if taken == 0 {
            // Readable without a frame: an error is pending.
            self.look_at(now, number);
        }
    }

    /// Moves the bond's frames to the links, and says what happened.
    fn move_frames(&mut self, now: Time) {
        self.transmit();
        self.flush();
        while let Some(event) = self.bond.poll_event() {
            self.log(event);
            match event {
                Event::Address { mac } => {
                    let name = self.tap.name().to_owned();
                    if let Err(error) = self.guard.netlink().set_address(&name, mac.0) {
                        tracing::warn!(%error, %mac, "the interface keeps its address");
                    }
                }
                Event::LinkAddress { link, mac } => {
                    if let Some(device) = self.devices.get_mut(link.index()) {
                        device.set_mac(&mut self.guard, mac);
                    }
                }
                _ => {}
            }
        }
        let carrier = !self.bond.links().usable().is_empty();
        if self.carrier != Some(carrier) {
            self.carrier = Some(carrier);
            self.tap.set_carrier(carrier);
        }
        if self.bond.poll_timeout().is_some_and(|due| due <= now) {
            self.bond.handle_timeout(now);
            self.transmit();
            self.flush();
        }
    }

    /// Hands each device its batch. Devices go in the order of their first frames: in another one each batch would arrive out
    /// of order where it is spread over idle links.
    fn flush(&mut self) {
        for number in self.touched.drain(..) {
            self.devices[number].flush();
        }
    }

    fn transmit(&mut self) {
        while let Some(transmit) = self.bond.poll_transmit() {
            let mut frame = Some(transmit.frame);
            let mut links = transmit.links;
            while let Some(link) = links.first() {
                links = links.without(link);
                let copy = if links.is_empty() { frame.take() } else { frame.as_ref().and_then(Packet::duplicate) };
                if let (Some(copy), Some(device)) = (copy, self.devices.get_mut(link.index())) {
                    if device.is_idle() {
                        self.touched.push(link.index());
                    }
                    device.push(transmit.source, copy);
                }
            }
        }
    }

    /// The largest packet that fits every device that is there.
    fn fitting_mtu(&self) -> usize {
        let fits =
            self.devices.iter().filter(|device| device.is_open()).map(|device| device.mtu).min().unwrap_or(USUAL_MTU);
        self.config.interface.mtu.map_or(fits, |set| fits.min(set.into()))
    }

    fn fit_mtu(&mut self) {
        let mtu = self.fitting_mtu();
        if mtu == self.mtu {
            return;
        }
        let name = self.tap.name().to_owned();
        match self.guard.netlink().set_mtu(&name, mtu as u32) {
            Ok(()) => tracing::info!(interface = name, mtu, "interface MTU"),
            Err(error) => tracing::warn!(interface = name, mtu, %error, "the kernel refuses this MTU"),
        }
        self.mtu = mtu;
    }

    /// What the host calls itself on the interface: a fail-over announces it.
    fn read_addresses(&mut self) {
        let name = self.tap.name().to_owned();
        match self.guard.netlink().addresses(&name) {
            Ok(nets) => {
                let addresses: Vec<IpAddr> = nets.iter().map(|net| net.addr()).collect();
                self.bond.set_addresses(&addresses);
            }
            Err(error) => tracing::debug!(%error, "the interface's addresses cannot be read"),
        }
    }

    fn look_at_all(&mut self, now: Time) {
        for number in 0..self.devices.len() {
            self.look_at(now, number);
        }
    }

    /// Looks at a device, and tells the bond how it is.
    fn look_at(&mut self, now: Time, number: usize) {
        self.devices[number].follow(&mut self.guard, kept_off(&self.settings));
        self.tell(now, number);
        self.fit_mtu();
    }

    fn tell(&mut self, now: Time, number: usize) {
        let mut condition = self.devices[number].condition;
        condition.carrier &= self.devices[number].is_open();
        if let Some(mac) = self.devices[number].address().filter(|_| has_device_addresses(&self.settings)) {
            self.bond.set_link_address(now, ChannelId(number as u8), mac);
        }
        self.bond.set_link(now, ChannelId(number as u8), condition);
    }
}

impl Machine for EthernetBond {
    fn order(&self) -> Order {
        Order::TimersFirst
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        if token == self.tap_token {
            return self.read_host(now);
        }
        if let Some(number) = self.devices.iter().position(|device| device.is(token)) {
            self.read_device(now, number);
        }
        Ok(())
    }

    fn handle_link_change(&mut self, now: Time, change: LinkChange) -> Result<(), DaemonError> {
        let name = match change {
            LinkChange::Changed(interface) if interface.name == self.tap.name() => {
                self.bond.set_promiscuous(interface.promiscuous);
                return Ok(());
            }
            LinkChange::Changed(interface) => interface.name,
            LinkChange::Removed { name, .. } => name,
            // Nothing of a bond's depends on it.
            LinkChange::Address { .. } => return Ok(()),
            LinkChange::Missed => {
                self.look_at_all(now);
                return Ok(());
            }
        };
        if let Some(number) = self.devices.iter().position(|device| device.name() == name) {
            self.look_at(now, number);
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.bond.poll_timeout().is_some_and(|due| due <= now) {
            self.bond.handle_timeout(now);
        }
    }

    /// Looks for devices that are missing, and reads the interface's addresses.
    fn handle_housekeeping(&mut self, now: Time) {
        self.look_at_all(now);
        self.read_addresses();
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        Some((self.bond.poll_timeout()?, TimerName("bond of Ethernet links")))
    }

    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.move_frames(now);
        Ok(())
    }

    fn interface(&self) -> &str {
        self.tap.name()
    }

    fn mtu(&self) -> usize {
        self.mtu
    }

    fn report(&self, _: Time, status: &mut Status) {
        self.tell_all(status);
    }
}

/// Gives the host a frame as a link received it, with its tag in it again.
fn deliver(tap: &mut Tap, arrival: &Arrival<'_>, destination: Option<Mac>) {
    let Some((addresses, rest)) = arrival.frame.split_first_chunk::<12>() else { return };
    let mut addresses = *addresses;
    if let Some(mac) = destination {
        addresses[..6].copy_from_slice(&mac.0);
    }
    match arrival.tag {
        Some(tag) => tap.send(&[&device::behind_tag(arrival.vnet), &addresses, &tag, rest]),
        None => tap.send(&[&arrival.vnet, &addresses, rest]),
    }
}

/// The address that a link sends from where it does not send from the bond's; its device has `device`.
fn link_address(settings: &Bond, device: Mac) -> Mac {
    if has_device_addresses(settings) { device } else { frame::derived(device, LINK_VARIANT) }
}

/// Whether links send from their devices' addresses.
fn has_device_addresses(settings: &Bond) -> bool {
    Bond::fail_over_mac(&settings.settings) != FailOverMac::None
}

/// The address that no device is to have.
fn kept_off(settings: &Bond) -> Option<Mac> {
    settings.mac.filter(|_| !has_device_addresses(settings))
}

/// An address for a link whose device is not there yet: the same in every run.
fn named(interface: &str, number: usize) -> Mac {
    let mut sum: u32 = 0x811c_9dc5;
    for byte in interface.bytes().chain([number as u8]) {
        sum = (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    let [a, b, c, d] = sum.to_be_bytes();
    Mac([0x02, 0xf5, a, b, c, d])
}

/// For what is random, and for the keys of hashes that strangers must not predict.
fn tap_seed() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    std::hash::RandomState::new().build_hasher().finish() as u32
}
