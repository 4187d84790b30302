//! What a gateway tells: its part of the status.

use super::SplitGateway;
use super::budget::Budget;
use super::bypass::Why;
use super::connection::Connection;
use super::half::Half;
use super::rules::table_of;
use crate::config::Gateway;
use crate::roles::sharing::sharing;
use crate::status::{ConnectionSideStatus, ConnectionStatus, Counters, GatewayStatus, LimitedBy, QueueStatus, State};
use crate::sys::tcp::{TcpInfo, send_queue, tcp_info};
use fairspan_core::split::Side;
use fairspan_core::units::{Span, Time};
use std::cmp::Reverse;
use std::os::fd::AsFd;

impl SplitGateway {
    /// What there is to tell of a gateway that is not there.
    pub(in crate::roles) fn absent_status(settings: &Gateway) -> GatewayStatus {
        GatewayStatus {
            up: false,
            rules: None,
            long: settings.long.clone(),
            state: State::Absent,
            problem: None,
            proxy: settings.proxy.map(|address| address.to_string()),
            open: 0,
            most_open: Budget::new(settings).connections(),
            opened: 0,
            refused: 0,
            bypassed: Why::ALL.iter().map(|why| (why.name().to_owned(), 0)).collect(),
            near_networks: 0,
            one_way_networks: 0,
            half_open: 0,
            most_half_open: settings.half_open.into(),
            memory_bytes: 0,
            most_memory_bytes: settings.memory.as_u64(),
            caller_mbit: 0.0,
            called_mbit: 0.0,
            rate_mbit: settings.rate.map(|rate| rate.as_bits_per_sec() as f64 / 1e6),
            queue: None,
            counters: Counters::new(),
            connections: Vec::new(),
        }
    }

    /// What there is to tell at `now`.
    pub(in crate::roles) fn gateway_status(&self, now: Time) -> GatewayStatus {
        let (settings, table) = (self.settings(), &self.connections);
        let mut all: Vec<&Connection> = table.iter().filter(|connection| connection.is_open()).collect();
        let open = all.len() as u64;
        all.sort_by_key(|connection| Reverse(connection.rates.iter().sum::<u64>()));
        let queue = settings.fair_queueing.then(|| {
            let (packets, bytes) = self.intake.waiting();
            QueueStatus {
                discipline: settings.split.discipline.to_string(),
                buffer: settings.split.buffer.to_string(),
                waiting_packets: packets,
                waiting_bytes: bytes.as_u64(),
                sharing: Some(sharing(&self.intake.accounts, now)),
            }
        });
        let state = match &self.long {
            Some(long) if long.running => State::Up,
            Some(_) => State::Down,
            None => State::Absent,
        };
        let mbit_from =
            |side: Side| all.iter().map(|connection| connection.rates[side as usize]).sum::<u64>() as f64 * 8.0 / 1e6;
        let (caller_mbit, called_mbit) = (mbit_from(Side::Called), mbit_from(Side::Caller));
        let mut status = GatewayStatus {
            caller_mbit,
            called_mbit,
            up: state == State::Up && (self.table.is_some() || !settings.transparent),
            rules: self.table.is_some().then(|| table_of(&self.config)),
            state,
            problem: self.problem.clone(),
            open,
            opened: table.counts.opened,
            refused: table.counts.refused,
            near_networks: self.bypass.near() as u64,
            one_way_networks: self.bypass.one_way() as u64,
            half_open: table.half_open().into(),
            memory_bytes: table.granted(),
            queue,
            counters: self.counters(),
            ..SplitGateway::absent_status(settings)
        };
        for (why, count) in &self.bypassed {
            status.bypassed.insert(why.name().to_owned(), *count);
        }
        let told = all.into_iter().take(GatewayStatus::TOLD).filter_map(|connection| told(now, connection));
        status.connections = told.collect();
        status
    }

    fn counters(&self) -> Counters {
        let (taken, packets) = (&self.connections.counts, &self.intake.counts);
        let own = [
            ("finished", taken.finished),
            ("abandoned", taken.abandoned),
            ("strangers", taken.strangers),
            ("no_descriptors", taken.no_descriptors),
            ("moved_bytes", taken.moved),
            ("forbidden", taken.forbidden),
            ("denied", self.proxy.as_ref().map_or(0, |proxy| proxy.denied)),
            ("turned_away", self.proxy.as_ref().map_or(0, |proxy| proxy.turned_away)),
            ("packets_passed", packets.passed),
            ("packets_marked", packets.marked),
        ];
        let own = own.map(|(name, n)| (name.to_owned(), n));
        let dropped = packets.dropped.iter().map(|(reason, n)| ((*reason).to_owned(), *n));
        own.into_iter().chain(dropped).collect()
    }
}

fn told(now: Time, connection: &Connection) -> Option<ConnectionStatus> {
    let side = |side: Side| {
        let half = connection.halves[side as usize].as_ref()?;
        Some(side_status(half, connection.rates[side.other() as usize]))
    };
    let explicit = connection.explicit.as_deref();
    Some(ConnectionStatus {
        caller: connection.way.source.to_string(),
        called: explicit.map_or_else(|| connection.way.destination.to_string(), |explicit| explicit.name.clone()),
        by: explicit.map_or("transparent", |explicit| explicit.request.protocol()).to_owned(),
        age_s: now.since(connection.since).as_secs_f64(),
        caller_side: side(Side::Caller)?,
        called_side: side(Side::Called)?,
    })
}

/// An end, to which so many bytes went in the last second.
fn side_status(half: &Half, rate: u64) -> ConnectionSideStatus {
    let info = tcp_info(half.socket.as_fd()).unwrap_or_default();
    let congestion = half.socket.tcp_congestion().unwrap_or_default();
    let name = congestion.split(|byte| *byte == 0).next().unwrap_or_default();
    let (held, unsent) = send_queue(half.socket.as_fd());
    ConnectionSideStatus {
        rtt_ms: (info.round_trip > Span::ZERO).then(|| info.round_trip.as_secs_f64() * 1e3),
        send_buffer_bytes: half.socket.send_buffer_size().unwrap_or(0) as u64,
        unsent_bytes: unsent,
        receive_buffer_bytes: half.socket.recv_buffer_size().unwrap_or(0) as u64,
        rate_mbit: rate as f64 * 8.0 / 1e6,
        congestion: String::from_utf8_lossy(name).into_owned(),
        limited_by: limited_by(half, &info, held, unsent),
    }
}

fn limited_by(half: &Half, info: &TcpInfo, held: u64, unsent: u64) -> Option<LimitedBy> {
    if unsent == 0 {
        return Some(LimitedBy::Application);
    }
    let under_way = held.saturating_sub(unsent);
    if half.is_at_its_pace(info) {
        Some(LimitedBy::Gateway)
    } else if under_way + info.segment >= info.window {
        Some(LimitedBy::Congestion)
    } else if info.offered > 0 && under_way + info.segment >= info.offered {
        Some(LimitedBy::Receiver)
    } else {
        // Half of what it may hold is for this direction, and the kernel's own needs take up to half of that.
        (held >= half.buffers.0 / 4).then_some(LimitedBy::SendBuffer)
    }
}
