//! The daemon of `fairspan up` with a `[shape]`, and of `fairspan shape`: two devices joined as by a cable, with a queue of
//! choice in each direction.
//!
//! It decides nothing about packets: [`fairspan_core::shape`] does. It reads, hands over, and writes what may leave, in batches.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | opening, the way of a frame, another configuration |
//! | `report` | status |
//! | `../device` | a device |
//!
//! **Whole frames pass, whatever is in them**: ARP, tags, spanning trees. The devices need no addresses; their own stay as they
//! are, and the host's own stack is kept off them. What the host itself sends by them is not seen.
//!
//! **What passes is what a wire would carry.** A device's offloads may join segments and leave checksums; both are undone where a
//! frame comes in ([`offload::frame`](crate::offload)), so that the queue sees each packet and a turn is one of packets.

mod report;

use super::device::Device;
use crate::config::{Config, Shape};
use crate::netlink::{Guard, LinkChange};
use crate::offload::frame::cut;
use crate::pool::PacketBuf;
use crate::reloaded::Reloaded;
use crate::shell::error::DaemonError;
use crate::shell::machine::{Machine, Order, TimerName};
use crate::shell::poller::{Poller, Token, Turn};
use crate::status::Status;
use fairspan_core::flow::{FlowHash, Frame, Label, Layer, ethernet};
use fairspan_core::options::Entry;
use fairspan_core::queue::{self, End, Parcel};
use fairspan_core::shape::{self, OPTIONS, Shaper};
use fairspan_core::units::Time;
use std::hash::{BuildHasher, Hasher};

/// Frames, or units of joined segments, taken from one device before the other gets its turn.
const BURST: usize = 256;
/// The directions, by the number of the device where frames come in.
const DIRECTIONS: [&str; 2] = ["forward", "backward"];

/// A frame that waits.
#[derive(Debug)]
struct Waiting(PacketBuf);

impl Waiting {
    fn frame(&self) -> Frame<'_> {
        let bytes = self.0.as_slice();
        Frame { bytes, len: bytes.len(), layer: Layer::Ethernet }
    }
}

impl Parcel for Waiting {
    fn size(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    fn memory(&self) -> u64 {
        self.0.slot_bytes().as_u64()
    }

    fn mark(&mut self) -> bool {
        ethernet::mark(self.0.as_mut_slice())
    }

    fn host(&self, end: End) -> u128 {
        queue::host_of_frame(self.0.as_slice(), end)
    }

    fn class(&self) -> u8 {
        queue::class_of_frame(self.0.as_slice())
    }

    fn is_scalable(&self) -> bool {
        queue::is_scalable_frame(self.0.as_slice())
    }
}

/// A direction: frames of the device of the same number, which leave by the other one.
struct Direction {
    shaper: Shaper<Waiting>,
    /// Units that could not be made frames of.
    malformed: u64,
}

/// Two devices and what stands between them. Dropping it undoes all that it did to the host's network.
pub(super) struct Shapers {
    /// Undone before the devices' sockets go.
    guard: Guard,
    devices: [Device; 2],
    directions: [Direction; 2],
    hash: FlowHash,
    config: Config,
    /// The devices' MTUs when they were last compared.
    mtus: [usize; 2],
}

impl Shapers {
    /// Opens the devices that `config` names, as far as they exist.
    ///
    /// # Errors
    /// Another daemon has one, it is no Ethernet device, or a privilege is missing. [`DaemonError::Setting`] where there is no
    /// `[shape]`.
    pub(super) fn start(config: Config, now: Time, poller: &Poller) -> Result<Shapers, DaemonError> {
        let name = config.interface.name.clone();
        let Some(settings) = &config.shape else {
            return Err(DaemonError::setting(&name, "the configuration has no [shape]"));
        };
        let mut guard = Guard::new()?;
        let device = |device: &str| {
            Device::new(device, None, true, poller, Turn::Links)
                .map_err(|source| DaemonError::Device { device: device.to_owned(), source })
        };
        let mut devices = [device(&settings.a)?, device(&settings.b)?];
        for device in &mut devices {
            device.prepare(&mut guard, None)?;
            if !device.is_open() {
                tracing::warn!(device = device.name(), "there is no such interface: waiting for it");
            }
        }
        let direction = |config, seed| {
            let shaper = Shaper::new(config, seed).map_err(|error| DaemonError::setting(&name, error))?;
            Ok::<_, DaemonError>(Direction { shaper, malformed: 0 })
        };
        let directions = [direction(settings.forward, random())?, direction(settings.backward, random())?];
        let mut machine = Shapers { guard, devices, directions, hash: FlowHash::new(random()), config, mtus: [0; 2] };
        machine.devices.iter_mut().for_each(Device::watch);
        machine.compare_mtus();
        machine.move_frames(now);
        Ok(machine)
    }

    fn read(&mut self, now: Time, number: usize) {
        let (device, direction) = (&mut self.devices[number], &mut self.directions[number]);
        let (hash, Direction { shaper, malformed }) = (&self.hash, direction);
        let taken = device.receive(BURST, |arrival| {
            let whole = cut(&arrival.vnet, arrival.frame, arrival.tag, 0, &mut |frame: PacketBuf| {
                let frame = Waiting(frame);
                let flow = hash.flow(&frame.frame()).number();
                shaper.handle_packet(now, flow, frame, |frame| Label::of(&frame.frame()));
            });
            if let Err(error) = whole {
                tracing::debug!(%error, "malformed unit");
                *malformed += 1;
            }
        });
        if taken == 0 {
            // Readable without a frame: an error is pending.
            self.follow(number);
        }
    }

    /// Sends what may leave.
    fn move_frames(&mut self, now: Time) {
        for (number, direction) in self.directions.iter_mut().enumerate() {
            let device = &mut self.devices[1 - number];
            while let Some(Waiting(frame)) = direction.shaper.poll_transmit(now) {
                device.push(None, frame);
            }
            device.flush();
        }
    }

    /// Looks whether a device is there and how it is.
    fn follow(&mut self, number: usize) {
        let device = &mut self.devices[number];
        let carrier = |device: &Device| device.is_open() && device.condition.carrier;
        let was = carrier(device);
        device.follow(&mut self.guard, None);
        let is = carrier(device);
        if was != is && device.is_open() {
            tracing::info!(device = device.name(), up = is, "carrier");
        }
        self.compare_mtus();
    }

    fn follow_all(&mut self) {
        (0..self.devices.len()).for_each(|number| self.follow(number));
    }

    /// Says, once for each change, that frames of the one device are too long for the other.
    fn compare_mtus(&mut self) {
        let mtus = self.devices.each_ref().map(|device| if device.is_open() { device.mtu } else { 0 });
        if mtus != self.mtus && mtus[0] != mtus[1] && !mtus.contains(&0) {
            let [a, b] = self.devices.each_ref().map(|device| device.name().to_owned());
            tracing::warn!(
                "{a} has an MTU of {} and {b} one of {}: longer frames than the smaller allows are dropped and counted as \
                 send_too_big; set both alike (`ip link set DEVICE mtu N`)",
                mtus[0],
                mtus[1]
            );
        }
        self.mtus = mtus;
    }

    /// Takes over the settings of both directions; what changed, in words.
    fn change(&mut self, now: Time, settings: &Shape) -> Result<Vec<String>, String> {
        let wanted = [settings.forward, settings.backward];
        let mut changed = Vec::new();
        for ((direction, wanted), name) in self.directions.iter_mut().zip(wanted).zip(DIRECTIONS) {
            let shaper = &mut direction.shaper;
            let before = *shaper.config();
            let differs = |entry: &&Entry<shape::Config>| entry.get(&before) != entry.get(&wanted);
            let words = OPTIONS.iter().filter(differs).map(|entry| {
                format!("shape.{name}.{} is now {}", entry.spec.name, entry.spec.show(&entry.get(&wanted)))
            });
            changed.extend(words);
            // Both were checked with the file, so that neither is refused.
            shaper.reconfigure(now, wanted).map_err(|error| error.to_string())?;
        }
        Ok(changed)
    }
}

impl Machine for Shapers {
    /// What was due leaves before what comes: so a packet that comes finds the queue as it is at that time.
    fn order(&self) -> Order {
        Order::TimersFirst
    }

    fn handle_readable(&mut self, now: Time, token: Token) -> Result<(), DaemonError> {
        if let Some(number) = self.devices.iter().position(|device| device.is(token)) {
            self.read(now, number);
        }
        Ok(())
    }

    fn handle_link_change(&mut self, _now: Time, change: LinkChange) -> Result<(), DaemonError> {
        let name = match change {
            LinkChange::Changed(interface) => interface.name,
            LinkChange::Removed { name, .. } => name,
            LinkChange::Address { .. } => return Ok(()),
            LinkChange::Missed => {
                self.follow_all();
                return Ok(());
            }
        };
        if let Some(number) = self.devices.iter().position(|device| device.name() == name) {
            self.follow(number);
        }
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.move_frames(now);
    }

    /// Looks for devices that are missing.
    fn handle_housekeeping(&mut self, _now: Time) {
        self.follow_all();
    }

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        let due = self.directions.iter().filter_map(|direction| direction.shaper.poll_timeout()).min()?;
        Some((due, TimerName("shaper")))
    }

    fn drain(&mut self, now: Time) -> Result<(), DaemonError> {
        self.move_frames(now);
        Ok(())
    }

    fn interface(&self) -> &str {
        &self.config.interface.name
    }

    fn mtu(&self) -> usize {
        self.mtus.into_iter().filter(|mtu| *mtu > 0).min().unwrap_or(0)
    }

    fn reload(&mut self, now: Time, config: Config) -> Reloaded {
        let needs: Vec<String> = self.config.needing_restart(&config).into_iter().collect();
        if !needs.is_empty() {
            return Reloaded { needs_restart: needs, ..Reloaded::default() };
        }
        let Some(settings) = config.shape.clone() else { return Reloaded::impossible("the file has no [shape]") };
        match self.change(now, &settings) {
            Ok(changed) => {
                self.config = config;
                Reloaded { ok: true, changed, ..Reloaded::default() }
            }
            Err(problem) => Reloaded { failed: vec![problem], ..Reloaded::default() },
        }
    }

    fn report(&self, now: Time, status: &mut Status) {
        status.shape = Some(self.shape_status(now));
    }
}

/// For keys of hashes that strangers must not foresee, and what policies draw.
fn random() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}
