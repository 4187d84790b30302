//! What a shaper tells: its part of the status.

use super::{DIRECTIONS, Shapers};
use crate::status::{Counters, ShapeDelayStatus, ShapeDirectionStatus, ShapeFlowStatus, ShapeStatus, State};
use fairspan_core::flow::accounts::Quantiles;
use fairspan_core::units::{Rate, Span, Time};

/// So many flows are told of in each direction.
const FLOWS: usize = 20;

impl Shapers {
    /// What there is to tell at `now`.
    pub(super) fn shape_status(&self, now: Time) -> ShapeStatus {
        let state = |number: usize| match (self.devices[number].is_open(), self.devices[number].condition.carrier) {
            (false, _) => State::Absent,
            (true, true) => State::Up,
            (true, false) => State::Down,
        };
        let directions = self.directions.iter().zip(DIRECTIONS).enumerate().map(|(number, (direction, name))| {
            let (shaper, from, to) = (&direction.shaper, &self.devices[number], &self.devices[1 - number]);
            let (config, accounts) = (shaper.config(), shaper.accounts());
            let (waiting, bytes) = shaper.waiting();
            let summary = accounts.summary(now);
            let flows = accounts.heaviest(now, FLOWS).into_iter().map(|flow| ShapeFlowStatus {
                flow: flow.label.to_string(),
                mbit: flow.last_second as f64 * 8.0 / 1e6,
                packets: flow.packets,
                bytes: flow.bytes,
                dropped: flow.dropped,
                marked: flow.marked,
                waiting: flow.waiting,
            });
            let mut counters: Counters = shaper.stats().each().map(|(name, n)| (name.to_owned(), n)).collect();
            counters.insert("malformed".into(), direction.malformed);
            // Of each device what has to do with this direction.
            let received = from.stats.each().filter(|(name, _)| !name.starts_with("send_"));
            let sent = to.stats.each().filter(|(name, _)| name.starts_with("send_"));
            counters.extend(received.chain(sent).map(|(name, n)| (name.to_owned(), n)));
            ShapeDirectionStatus {
                name: name.to_owned(),
                from: from.name().to_owned(),
                state: state(number),
                to: to.name().to_owned(),
                rate_mbit: mbit(config.rate),
                discipline: config.discipline.to_string(),
                buffer: config.buffer.to_string(),
                waiting_packets: waiting as u64,
                waiting_bytes: bytes.as_u64(),
                delay: delay(summary.all),
                sparse_delay: delay(summary.sparse),
                active_flows: summary.active,
                jain: summary.jain,
                backlogged_flows: summary.backlogged,
                backlogged_jain: summary.backlogged_jain,
                flows: flows.collect(),
                counters,
            }
        });
        ShapeStatus { up: [0, 1].map(state) == [State::Up; 2], directions: directions.collect() }
    }
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}

fn delay(quantiles: Quantiles) -> ShapeDelayStatus {
    let ms = |span: Option<Span>| span.map(|span| span.as_secs_f64() * 1e3);
    ShapeDelayStatus { packets: quantiles.packets, median_ms: ms(quantiles.median), p99_ms: ms(quantiles.p99) }
}
