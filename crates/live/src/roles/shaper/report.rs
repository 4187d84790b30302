//! What a shaper tells: its part of the status.

use super::{DIRECTIONS, Shapers};
use crate::roles::sharing::sharing;
use crate::status::{Counters, ShapeDirectionStatus, ShapeStatus, State};
use fairspan_core::units::{Rate, Time};

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
                sharing: sharing(accounts, now),
                counters,
            }
        });
        ShapeStatus { up: [0, 1].map(state) == [State::Up; 2], directions: directions.collect() }
    }
}

fn mbit(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64 / 1e6
}
