//! What people and metrics are shown of a system, as Linux shows it in `/proc/net/bonding`.

use super::churn::Churn;
use super::pdu::PortInfo;
use super::port::{Port, PortStats};
use super::states::{MuxState, PeriodicState, ReceiveState};
use crate::select::ieee8023ad::{AdSelect, Config, LacpRate};
use crate::set::LinkSet;
use crate::units::ChannelId;
use crate::wire::mac::Mac;
use alloc::vec::Vec;
use core::fmt;

/// An aggregator as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AggregatorStatus {
    /// Its number, from 1.
    pub id: u16,
    /// Whether it is the one in use.
    pub active: bool,
    /// Whether no other port may join.
    pub individual: bool,
    /// Its ports, up or down.
    pub ports: LinkSet,
    /// The key of its ports here.
    pub actor_key: u16,
    /// The key of its ports at the partner.
    pub partner_key: u16,
    /// The partner; zero where none speaks LACP.
    pub partner_system: Mac,
}

/// A port as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// Which one.
    pub port: ChannelId,
    /// Whether its link is up.
    pub up: bool,
    /// The number of its aggregator, from 1.
    pub aggregator: Option<u16>,
    /// Its receive machine.
    pub receive: ReceiveState,
    /// Its mux machine.
    pub mux: MuxState,
    /// How often it sends LACPDUs.
    pub periodic: PeriodicState,
    /// This end.
    pub actor: PortInfo,
    /// The other end.
    pub partner: PortInfo,
    /// Whether this end comes into synchronization, and how often it did not.
    pub actor_churn: (Churn, u64),
    /// The same for the other end.
    pub partner_churn: (Churn, u64),
    /// What it counted.
    pub stats: PortStats,
}

impl PortStatus {
    pub(super) fn of(port: &Port) -> PortStatus {
        PortStatus {
            port: port.id,
            up: port.enabled(),
            aggregator: port.aggregator.map(|place| place as u16 + 1),
            receive: port.receive,
            mux: port.mux,
            periodic: port.periodic,
            actor: port.actor,
            partner: port.partner,
            actor_churn: (port.actor_churn.state, port.actor_churn.count),
            partner_churn: (port.partner_churn.state, port.partner_churn.count),
            stats: port.stats,
        }
    }
}

/// A system as it stands. Its text is for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its settings.
    pub config: Config,
    /// Its address in LACPDUs.
    pub system: Mac,
    /// Its aggregators that have ports.
    pub aggregators: Vec<AggregatorStatus>,
    /// Its ports.
    pub ports: Vec<PortStatus>,
    /// The ports that carry the bond's traffic.
    pub distributing: LinkSet,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Config { lacp_active, lacp_rate, min_links, ad_select, ad_actor_sys_prio, .. } = self.config;
        let rate = if lacp_rate == LacpRate::Fast { "fast" } else { "slow" };
        let select = match ad_select {
            AdSelect::Stable => "stable",
            AdSelect::Bandwidth => "bandwidth",
            AdSelect::Count => "count",
        };
        let active = if lacp_active { "on" } else { "off" };
        writeln!(f, "system {} priority {ad_actor_sys_prio}, LACP active {active}, rate {rate}", self.system)?;
        writeln!(f, "aggregator selection {select}, min links {min_links}")?;
        for a in &self.aggregators {
            let used = if a.active { " (in use)" } else { "" };
            let alone = if a.individual { ", individual" } else { "" };
            write!(
                f,
                "aggregator {}{used}: keys {} and {}, partner {}{alone}, ports",
                a.id, a.actor_key, a.partner_key, a.partner_system
            )?;
            a.ports.iter().try_for_each(|port| write!(f, " {port}"))?;
            writeln!(f)?;
        }
        for p in &self.ports {
            let link = if p.up { "up" } else { "down" };
            let carries = if self.distributing.contains(p.port) { ", carries traffic" } else { "" };
            let aggregator = p.aggregator.unwrap_or(0);
            writeln!(
                f,
                "port {}: {link}, aggregator {aggregator}, {}{carries}; receive: {}",
                p.port, p.mux, p.receive
            )?;
            let ends = [("actor  ", &p.actor, p.actor_churn), ("partner", &p.partner, p.partner_churn)];
            for (end, info, (churn, count)) in ends {
                let PortInfo { system_priority, system, key, port_priority, port, state } = info;
                writeln!(
                    f,
                    "  {end} system {system_priority},{system} key {key} port {port_priority},{port} state {:#04x} ({state}); churn {churn}, {count} times",
                    state.0
                )?;
            }
        }
        Ok(())
    }
}
