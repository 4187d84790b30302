//! What the machine of an Ethernet bond tells: events to the log, and its part of the status.

use super::EthernetBond;
use crate::status::{BondStatus, Counters, LinkStatus, State, Status};
use fairspan_core::lan::Event;
use fairspan_core::units::ChannelId;

impl EthernetBond {
    /// Fills in what there is to tell, now.
    pub(super) fn tell_all(&self, status: &mut Status) {
        let counters = &mut status.counters;
        counters.insert("tap_read_malformed".into(), self.tap.stats.read_malformed);
        counters.insert("tap_lost".into(), self.tap.stats.lost);
        for device in &self.devices {
            device.stats.each().for_each(|(name, n)| *counters.entry(format!("device_{name}")).or_default() += n);
        }
        status.bond = Some(self.bond_status());
    }

    fn bond_status(&self) -> BondStatus {
        let usable = self.bond.links().usable();
        let current = self.bond.current();
        let links = self.settings.links.iter().zip(&self.devices).enumerate().map(|(n, (link, device))| {
            let id = ChannelId(n as u8);
            let mut counters = Counters::new();
            if let Some(stats) = self.bond.link_stats(id) {
                counters.extend(stats.each().map(|(name, n)| (name.to_owned(), n)));
            }
            counters.extend(device.stats.each().map(|(name, n)| (name.to_owned(), n)));
            LinkStatus {
                number: id.0,
                name: link.name.clone(),
                device: link.device.clone(),
                state: match (device.is_open(), usable.contains(id)) {
                    (false, _) => State::Absent,
                    (true, true) => State::Up,
                    (true, false) => State::Down,
                },
                rate_mbit: device.condition.rate.map(|rate| rate.as_bits_per_sec() as f64 / 1e6),
                full_duplex: device.condition.full_duplex,
                current: current == Some(id),
                clients: self.bond.clients(id),
                counters,
            }
        });
        let mut counters: Counters = self.bond.stats().each().map(|(name, n)| (name.to_owned(), n)).collect();
        if let Some(flush) = self.bond.flush() {
            counters.insert("flush_moved".into(), flush.moved);
            counters.insert("flush_stayed".into(), flush.stayed);
            counters.insert("flush_held".into(), flush.held);
            counters.insert("flush_markers".into(), flush.markers);
        }
        BondStatus {
            lacp: self.bond.lacp().map(|lacp| lacp.status().to_string()),
            policy: self.bond.settings().to_string(),
            mac: self.bond.mac().to_string(),
            up: !usable.is_empty(),
            counters,
            links: links.collect(),
        }
    }

    /// A line in the log for a change in the bond.
    pub(super) fn log(&self, event: Event) {
        let bond = self.tap.name();
        let name = |id: ChannelId| self.settings.links.get(id.index()).map_or("?", |link| link.name.as_str());
        match event {
            Event::LinkUp { link } => tracing::info!(bond, link = name(link), "link up"),
            Event::LinkDown { link } => tracing::warn!(bond, link = name(link), "link down"),
            Event::Current { link: Some(link) } => tracing::info!(bond, link = name(link), "current link"),
            Event::Current { link: None } => tracing::warn!(bond, "no current link"),
            Event::Partner { link, system } => tracing::info!(bond, link = name(link), %system, "LACP partner"),
            Event::Aggregator { number: Some(number) } => tracing::info!(bond, number, "aggregator"),
            Event::Aggregator { number: None } => tracing::warn!(bond, "no aggregator"),
            Event::Loopback { link } => {
                tracing::warn!(
                    bond,
                    link = name(link),
                    "the link leads back to this bond: it is wired to another of its links"
                );
            }
            Event::Churned { link, partner } => {
                let end = if partner { "the partner's" } else { "this" };
                tracing::warn!(bond, link = name(link), end, "LACP: an end is not in synchronization for a minute");
            }
            Event::Address { mac } => tracing::info!(bond, %mac, "address"),
            Event::LinkAddress { link, mac } => tracing::info!(bond, link = name(link), %mac, "the device's address"),
            other => tracing::info!(bond, event = ?other, "bond"),
        }
    }
}
