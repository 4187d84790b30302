//! What the peers' machine tells: events to the log, and its part of the status.

use super::Peers;
use super::peer::{ChannelState, PeerState};
use crate::quantity::show_rate;
use crate::roles::sharing::{sharing_of, ways};
use crate::status::{
    ChannelStatus, ClassStatus, Counters, ExplainedStatus, FlowStatus, PathStatus, PeerStatus, QueueStatus,
    QuotaStatus, State, Status,
};
use fairspan_core::bond::{self, CLASS_OPTIONS, ClassReport, Explanation, Mode, Reason};
use fairspan_core::flow::accounts::FlowReport;
use fairspan_core::path::{self, Measured};
use fairspan_core::units::{ChannelId, Rate, Span, Time};

impl Peers {
    /// Fills in what there is to tell, now.
    pub(super) fn tell(&self, now: Time, status: &mut Status) {
        let counters = &mut status.counters;
        counters.insert("host_no_peer".into(), self.counters.host_no_peer);
        counters.insert("spoofed_source".into(), self.counters.spoofed);
        counters.insert("send_refused".into(), self.counters.send_refused);
        self.transport.count(counters);
        counters.extend(self.guests.counters());
        self.side.tell(status);
        self.tell_domains(now, status);
        status.listen_port = self.config.interface.listen_port;
        status.listen_tcp_port = self.config.interface.listen_tcp_port;
        status.peers =
            self.peers.iter().enumerate().map(|(number, peer)| self.peer_status(now, number, peer)).collect();
    }

    /// Why a channel that leads to a name leads nowhere yet.
    fn unresolved(&self, channel: &ChannelState) -> Option<String> {
        let configured = channel.configured.as_deref().filter(|configured| configured.is_unresolved())?;
        let host = configured.host.as_deref()?;
        let why = self.lookups.problem(host).unwrap_or("it was asked for");
        Some(format!("its `endpoint` has no address yet: {host}: {why}"))
    }

    /// What a channel with a quota has carried of it.
    fn quota_status(&self, number: usize, channel: &ChannelState) -> Option<QuotaStatus> {
        let quota = channel.configured.as_deref()?.quota?;
        let used = self.quotas.used(self.config.peers.get(number)?.public_key?, &channel.name)?;
        let (bytes, since) = (used.bytes, used.since.to_string());
        Some(QuotaStatus { quota_bytes: quota.bytes.as_u64(), used_bytes: bytes, since })
    }

    fn peer_status(&self, now: Time, number: usize, peer: &PeerState) -> PeerStatus {
        let channels: Vec<ChannelStatus> = peer
            .channels()
            .map(|(id, channel)| {
                let stats = peer.bond.channel_stats(id);
                let mut counters = Counters::new();
                let mut rtt = None;
                let queued = (peer.mode == Mode::Flow).then(|| peer.bond.channel_queue(id));
                let path = peer.bond.channel_path(now, id);
                let state = match stats {
                    Some(stats) => {
                        counters.extend(stats.each().map(|(name, n)| (name.to_owned(), n)));
                        rtt = stats.rtt.map(milliseconds);
                        match path.map(|path| path.state) {
                            _ if stats.usable => State::Up,
                            Some(path::State::Held) => State::Held,
                            _ => State::Down,
                        }
                    }
                    None => State::Down,
                };
                ChannelStatus {
                    number: id.0,
                    name: channel.name.clone(),
                    kind: channel.carrier.kind().into(),
                    state: if channel.connected { state } else { State::Connecting },
                    reason: if channel.connected {
                        path.filter(|_| state == State::Held).map(|path| why_held(&path))
                    } else {
                        self.unresolved(channel).or_else(|| self.transport.trouble(channel.carrier, channel.failed))
                    },
                    remote: self.transport.sockets.show_remote(channel.carrier, (number, id)),
                    rate_mbit: channel.rate.map(mbit),
                    rtt_ms: rtt,
                    quota: self.quota_status(number, channel),
                    taken_out: peer.is_taken_out(&channel.name),
                    queued_packets: queued.map(|(packets, _)| packets as u64),
                    queued_bytes: queued.map(|(_, bytes)| bytes.as_u64()),
                    path: path.and_then(|path| path_status(&path)),
                    counters,
                }
            })
            .collect();
        PeerStatus {
            name: peer.name.clone(),
            mode: peer.mode,
            policy: (peer.mode == Mode::Flow).then(|| peer.policy.to_string()),
            scheduler: peer.scheduler,
            peer_mode: peer.differs.map(|(mode, _)| mode),
            peer_scheduler: peer.differs.map(|(_, scheduler)| scheduler),
            up: channels.iter().any(|c| c.state == State::Up),
            mtu: peer.bond.mtu(),
            counters: {
                let bond = peer.bond.stats().each().map(|(name, n)| (name.to_owned(), n));
                let flow = peer.bond.flow_stats();
                let cut = peer.bond.fragment_counts();
                let flow = flow.iter().flat_map(|f| f.each()).map(|(name, n)| (format!("flow_{name}"), n));
                let cut = cut.iter().flat_map(|f| f.each()).map(|(name, n)| (format!("fragments_{name}"), n));
                bond.chain(flow).chain(cut).collect()
            },
            channels,
            queue: (peer.mode != Mode::Flow).then(|| queue_status(now, peer)),
            classes: peer.bond.classes().map(|class| class_status(peer, &class)).collect(),
            invitation: self.invitation_status(number),
            split: None,
            explained: peer.bond.explain(now).into_iter().map(|told| explained(peer, told)).collect(),
        }
    }
}

/// What waits for a channel of `peer`, and by which channels each flow goes.
fn queue_status(now: Time, peer: &PeerState) -> QueueStatus {
    let bond = &peer.bond;
    let (packets, bytes) = bond.waiting();
    let complete = |report: &FlowReport, flow: &mut FlowStatus| {
        if let Some((class, because)) = report.noted.map(|noted| bond.treatment(noted)) {
            (flow.class, flow.because) = (Some(class), Some(because.to_owned()));
        }
        flow.ways = ways(&report.ways, |channel| peer.channel_name(ChannelId(channel as u8)));
    };
    QueueStatus {
        discipline: bond.config().discipline.to_string(),
        buffer: bond.config().buffer.to_string(),
        waiting_packets: packets as u64,
        waiting_bytes: bytes.as_u64(),
        sharing: bond.accounts().map(|accounts| sharing_of(accounts, now, complete)),
    }
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

fn milliseconds(span: Span) -> f64 {
    span.as_secs_f64() * 1e3
}

/// What there is to tell of a traffic class.
fn class_status(peer: &PeerState, class: &ClassReport<'_>) -> ClassStatus {
    let config = class.config;
    let written = |option: &str| {
        let entry = CLASS_OPTIONS.find(option)?;
        Some((option.to_owned(), entry.spec.show(&entry.get(config)))).filter(|(_, text)| !text.is_empty())
    };
    let frames = class.frames.iter().enumerate().filter(|(_, frames)| **frames > 0);
    ClassStatus {
        name: config.name.clone(),
        matches: ["dscp", "protocol", "port", "address"].into_iter().filter_map(written).collect(),
        mode: config.mode,
        channels: config.channels.0.iter().map(|name| name.0.clone()).collect(),
        only: config.only,
        latency_ms: config.latency.map(milliseconds),
        carried_by: class.channels.iter().map(|channel| peer.channel_name(channel)).collect(),
        frames: frames.map(|(n, frames)| (peer.channel_name(ChannelId(n as u8)), *frames)).collect(),
        counters: class.stats.each().map(|(name, n)| (name.to_owned(), n)).collect(),
    }
}

/// What carries a class of traffic, and why.
fn explained(peer: &PeerState, told: Explanation) -> ExplainedStatus {
    ExplainedStatus {
        name: told.name,
        mode: told.mode.to_owned(),
        channels: told.channels.iter().map(|channel| peer.channel_name(channel)).collect(),
        because: told.because,
        would_change_if: told.would_change_if,
    }
}

/// Why a channel that is well is not used.
fn why_held(path: &Measured) -> String {
    match path.held {
        Some(span) => format!("failed {} times lately; used again in {:.1} s", path.failures, span.as_secs_f64()),
        None if path.late => "what goes there comes too late behind what goes by the other channels".into(),
        None if path.lossy => "more than a quarter of what goes there is lost".into(),
        None => "not yet, says the policy (updelay)".into(),
    }
}

/// What the peer's feedback tells of a path; `None` where frames are not counted.
fn path_status(path: &Measured) -> Option<PathStatus> {
    Some(PathStatus {
        state: path.state,
        delivery_mbit: path.delivery_rate.map(mbit),
        measured_mbit: path.path_rate.map(mbit),
        extra_delay_ms: path.extra_delay.map(milliseconds),
        queue_ms: path.queue.map(milliseconds),
        loss_ppm: path.loss_ppm?,
        delivered: path.delivered?,
        lost: path.lost?,
        in_flight_bytes: path.in_flight?.as_u64(),
    })
}

/// A line in the log for a change in a bond.
pub(super) fn log_bond_event(peer: &PeerState, event: bond::Event) {
    let name = |id| peer.channel_name(id).to_owned();
    let why = |reason| match reason {
        Reason::Link => "its link",
        Reason::Silence => "silence",
        Reason::PeerNotice => "the peer says so",
        Reason::Stalled => "its socket",
        Reason::Delay => "its delay",
        Reason::Loss => "its losses",
        Reason::HeldBack => "held back for long enough",
        Reason::Leaving => "it is removed",
    };
    let peer_name = peer.name.as_str();
    match event {
        bond::Event::ChannelUp { channel, reason } => {
            tracing::info!(peer = peer_name, channel = name(channel), reason = why(reason), "channel up");
        }
        bond::Event::ChannelDown { channel, reason } => {
            tracing::warn!(peer = peer_name, channel = name(channel), reason = why(reason), "channel down");
        }
        bond::Event::ChannelHeld { channel, span, failures } => {
            let seconds = span.as_secs_f64();
            tracing::warn!(
                peer = peer_name,
                channel = name(channel),
                failures,
                seconds,
                "channel held back: it comes and goes (hold_down)"
            );
        }
        bond::Event::Mtu { mtu } => tracing::info!(peer = peer_name, mtu, "packets of this size fit all channels"),
        bond::Event::PathMtu { channel, mtu } => {
            tracing::info!(peer = peer_name, channel = name(channel), mtu, "path MTU");
        }
        bond::Event::PeerRestarted { .. } => tracing::info!(peer = peer_name, "the peer restarted"),
        bond::Event::PeerVersion { channel, theirs } => {
            tracing::warn!(
                peer = peer_name,
                channel = name(channel),
                theirs,
                "the peer speaks another version of the envelope: run the same release on both ends"
            );
        }
        other => tracing::info!(peer = peer_name, event = ?other, "bond"),
    }
}

/// A line in the log for a channel that joined.
pub(super) fn log_joined(peer: &str, channel: &str, remote: &str, rate: Option<fairspan_core::units::Rate>) {
    let rate = rate.map_or_else(|| "not paced".to_owned(), show_rate);
    tracing::info!(peer, channel, remote, rate, "channel connected");
}
