//! Settings that a running bond takes.
//!
//! What it is: each of these is a bound or a time that is looked at when it is needed, so that another value holds from the next packet
//! or timer on. All others decide how packets are numbered, what stands in front of them, or what the parts of the bond are made of; the
//! peer would have to change at the same packet.

use super::Bond;
use super::config::{Config, ConfigError, Mode, OPTIONS};
use super::event::Reason;
use super::queue::Queued;
use crate::ip::Header;
use crate::packet::Packet;
use crate::units::Time;
use alloc::vec::Vec;

/// The settings that may change, by their names in a file.
const LIVE: [&str; 19] = [
    "ack_filter",
    "buffer",
    "copies",
    "dead_after",
    "discipline",
    "equalize",
    "hold_down",
    "metered",
    "parity",
    "queue_limit",
    "reorder_deadline",
    "reorder_memory",
    "resend_memory",
    "resend_within",
    "resend_within_ef",
    "reserve",
    "silent_after",
    "spare_copies",
    "sparse",
];
/// Where both ends' buffers were agreed on.
const FIXED_IN_STRIPE: [&str; 2] = ["dead_after", "reorder_memory"];

impl Config {
    /// The names in a file of the settings in which `other` differs, each with whether a running bond takes it.
    pub fn differences(&self, other: &Config) -> impl Iterator<Item = (&'static str, bool)> {
        let fixed = |name: &str| {
            let in_mode = match self.mode {
                Mode::Stripe => FIXED_IN_STRIPE.contains(&name),
                // The policy's queues and supervision are made with them.
                Mode::Flow => ["buffer", "dead_after", "discipline", "queue_limit"].contains(&name),
                _ => false,
            };
            in_mode || !LIVE.contains(&name)
        };
        let differs = OPTIONS.iter().filter(|entry| entry.get(self) != entry.get(other));
        let names: Vec<_> = differs.filter_map(|entry| entry.spec.file).collect();
        names.into_iter().map(move |name| (name, !fixed(name)))
    }
}

impl<P: Packet> Bond<P> {
    /// Takes over from `config` the settings that a running bond takes ([`Config::differences`]); nothing else of it counts.
    ///
    /// # Errors
    /// The first setting that cannot work; nothing is changed then.
    pub fn reconfigure(&mut self, now: Time, config: &Config) -> Result<(), ConfigError> {
        config.validate()?;
        let names: Vec<_> = self.config.differences(config).filter(|(_, live)| *live).collect();
        for entry in OPTIONS.iter().filter(|entry| names.iter().any(|(name, _)| entry.spec.file == Some(name))) {
            entry.set(&mut self.config, entry.get(config));
        }
        self.config.dead_after_idle = self.config.dead_after_idle.max(self.config.dead_after);
        if names.iter().any(|(name, _)| ["buffer", "discipline"].contains(name)) {
            self.reorder(now)?;
        }
        self.resequence.set_bounds(&self.config);
        if names.iter().any(|(name, _)| *name == "parity") {
            self.switch_parity(now);
        }
        self.protect.set_bounds(&self.config);
        self.rebuild(now, 0);
        self.refresh(now, Reason::Link);
        Ok(())
    }

    /// What waits, and what comes, is in another order or let in by another policy from now on.
    fn reorder(&mut self, now: Time) -> Result<(), ConfigError> {
        self.end_wait(now);
        let queue = (self.config.discipline, self.config.buffer, self.rng.next_u64());
        self.number.set_discipline(self.config.discipline);
        self.ingress.ledger.set_discipline(self.config.discipline);
        // It had none while no order depended on it.
        let number = &self.number;
        let bucket = |queued: &Queued<P>| match Header::parse(queued.packet.bytes(), queued.packet.bytes().len()) {
            Ok(header) if !number.orders_flows() => number.bucket(&header, queued.packet.bytes()),
            _ => queued.bucket,
        };
        self.ingress.queue.reorder(now, queue, &mut self.stats, bucket).map_err(ConfigError::Queue)?;
        let mut bulk = self.classed.all.iter_mut().filter(|class| !class.is_urgent());
        bulk.try_for_each(|class| class.queue.reorder(now, queue, &mut self.stats, |queued| queued.bucket))
            .map_err(ConfigError::Queue)
    }
}
