//! A port: an Ethernet device whose frames travel the bond, so that it and the peer's port are joined as by a cable.
//!
//! A frame goes as an EtherIP packet ([`fairspan_core::wire::etherip`]), so that the bond, whatever its mode, treats it as any
//! other packet. What this host itself sends by the device does not travel, and what travels does not reach this host.

use crate::config::Interface;
use crate::netlink::{Guard, LinkChange};
use crate::offload::frame::cut;
use crate::pool::PacketBuf;
use crate::roles::device::Device;
use crate::roles::host::Change;
use crate::shell::DaemonError;
use crate::shell::poller::{Interest, Poller, Token, Turn};
use crate::status::{Counters, PortStatus, State};
use fairspan_core::units::Time;
use fairspan_core::wire::etherip::{Assembler, HEAD, Wrapper};

/// So many frames are read before the bond's frames are sent; more only where what is read at once has joined segments.
const BATCH: usize = 64;
/// Frames, or units of joined segments, that are read at once.
const STEP: usize = 16;
/// What a full frame with a tag has beyond the device's MTU.
const HEADER: usize = 18;

/// The port, and what was done to its device.
pub(super) struct Port {
    /// Undone before the device's socket goes.
    guard: Guard,
    device: Device,
    name: String,
    wrapper: Wrapper,
    assembler: Assembler<PacketBuf>,
    /// Whether frames of the device are waited for.
    wanted: bool,
    /// What the bond carried in one packet when it was last compared.
    fits: usize,
    stats: Stats,
}

#[derive(Debug, Default)]
struct Stats {
    received: u64,
    received_bytes: u64,
    malformed: u64,
    sent: u64,
    sent_bytes: u64,
}

impl Port {
    /// Opens the device, which need not exist yet. `seed` is random.
    ///
    /// # Errors
    /// Another daemon has it, it is no Ethernet device, or a privilege is missing.
    pub(super) fn open(interface: &Interface, device: &str, poller: &Poller, seed: u64) -> Result<Port, DaemonError> {
        let failed = |source| DaemonError::Device { device: device.to_owned(), source };
        let mut port = Port {
            guard: Guard::new()?,
            device: Device::new(device, None, true, poller, Turn::Others).map_err(failed)?,
            name: interface.name.clone(),
            wrapper: Wrapper::new(seed),
            assembler: Assembler::new(),
            wanted: true,
            fits: 0,
            stats: Stats::default(),
        };
        port.device.prepare(&mut port.guard, None)?;
        if !port.device.is_open() {
            tracing::warn!(device, "there is no such interface: waiting for it");
        }
        Ok(port)
    }

    /// Begins to wait for frames.
    pub(super) fn watch(&mut self) {
        self.device.watch();
    }

    /// Whether `token` is the device's.
    pub(super) fn is(&self, token: Token) -> bool {
        self.device.is(token)
    }

    /// Whether frames are waited for.
    pub(super) fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Waits for frames, or for errors alone.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn set_wanted(&mut self, wanted: bool) -> Result<(), DaemonError> {
        if self.wanted != wanted {
            self.device.set_interest(if wanted { Interest::Read } else { Interest::Nothing })?;
            self.wanted = wanted;
        }
        Ok(())
    }

    /// Gives the next frames to `sink` as packets; those above `fits` bytes will be fragmented. How many units were read, which
    /// is 0 where there was none.
    pub(super) fn read(&mut self, fits: usize, mut sink: impl FnMut(PacketBuf)) -> usize {
        let (wrapper, stats) = (&mut self.wrapper, &mut self.stats);
        let (before, mut units) = (stats.received, 0);
        loop {
            let some = self.device.receive(STEP, |arrival| {
                let cut = cut(&arrival.vnet, arrival.frame, arrival.tag, HEAD, &mut |mut packet: PacketBuf| {
                    let frame = packet.len() - HEAD;
                    if wrapper.wrap(packet.as_mut_slice(), fits) {
                        stats.received += 1;
                        stats.received_bytes += frame as u64;
                        sink(packet);
                    } else {
                        stats.malformed += 1;
                    }
                });
                if let Err(error) = cut {
                    tracing::debug!(%error, "malformed unit from the port");
                    stats.malformed += 1;
                }
            });
            units += some;
            if some < STEP || units >= BATCH || stats.received - before >= BATCH as u64 {
                return units;
            }
        }
    }

    /// A packet of the peer's: the frame in it waits for [`flush`](Self::flush).
    pub(super) fn push(&mut self, now: Time, packet: PacketBuf) {
        if let Some(frame) = self.assembler.handle(now, packet) {
            self.stats.sent += 1;
            self.stats.sent_bytes += frame.len() as u64;
            self.device.push(None, frame);
        }
    }

    /// Sends the frames that wait.
    pub(super) fn flush(&mut self) {
        self.device.flush();
    }

    /// Looks whether the device is there and how it is.
    pub(super) fn follow(&mut self) {
        let was = self.is_up();
        if self.device.follow(&mut self.guard, None) {
            self.wanted = true;
        }
        let is = self.is_up();
        if was != is && self.device.is_open() {
            tracing::info!(device = self.device.name(), up = is, "the port's carrier");
        }
    }

    /// Follows what happens to an interface of the host.
    pub(super) fn change(&mut self, change: LinkChange) -> Change {
        let change = Change::from(change);
        if !matches!(&change, Change::Device { name, .. } if name != self.device.name()) {
            self.follow();
        }
        change
    }

    /// Says, once for each change, when a full frame needs more than one packet of the bond.
    pub(super) fn compare(&mut self, fits: usize) {
        let full = self.device.mtu + HEADER + HEAD;
        if fits != self.fits && fits > 0 && self.device.is_open() {
            let short = full.saturating_sub(fits);
            if short > 0 {
                tracing::info!(
                    device = self.device.name(),
                    short,
                    "full frames leave in two packets: less goes through than if the channels' MTUs were that much larger"
                );
            }
        }
        self.fits = fits;
    }

    fn is_up(&self) -> bool {
        self.device.is_open() && self.device.condition.carrier
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn mtu(&self) -> usize {
        self.device.mtu
    }

    /// How the device is.
    pub(super) fn status(&self) -> PortStatus {
        PortStatus {
            device: self.device.name().to_owned(),
            state: match (self.device.is_open(), self.is_up()) {
                (false, _) => State::Absent,
                (true, true) => State::Up,
                (true, false) => State::Down,
            },
        }
    }

    /// Adds the port's counters.
    pub(super) fn count(&self, counters: &mut Counters) {
        let assembled = self.assembler.stats();
        let own = [
            ("received", self.stats.received),
            ("received_bytes", self.stats.received_bytes),
            ("malformed", self.stats.malformed),
            ("sent", self.stats.sent),
            ("sent_bytes", self.stats.sent_bytes),
            ("not_frames", assembled.not_frames),
            ("assembled", assembled.assembled),
            ("incomplete", assembled.incomplete),
        ];
        counters.extend(own.into_iter().chain(self.device.stats.each()).map(|(name, n)| (format!("port_{name}"), n)));
    }
}
