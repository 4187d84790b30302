//! Links as people look at them: the same few quantities of each, whatever the daemon's role is.

use crate::status::{ChannelStatus, GatewayStatus, RingLinkStatus, ShapeDirectionStatus, State, Status};
use fairspan_core::options::Words as _;
use fairspan_core::path;
use serde::{Deserialize, Serialize};

/// One link: a channel of a peer, a link of an Ethernet bond or of a ring's node, a direction of a shaper, or the long link of a
/// gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkReading {
    /// Whose it is: a peer's name, or what the daemon is.
    pub of: String,
    /// Its name.
    pub name: String,
    /// `udp`, `tcp`, `ethernet`, or what it leads to.
    pub kind: String,
    /// How it is, in a word.
    pub state: String,
    /// Whether it carries traffic.
    pub up: bool,
    /// Why it does not, or how its path is.
    pub note: Option<String>,
    /// Whether somebody took it out of use; `None` where that is not possible.
    pub taken_out: Option<bool>,
    /// What it may carry, in Mbit/s, as configured or measured.
    pub capacity_mbit: Option<f64>,
    /// Bytes sent since the daemon began.
    pub sent_bytes: Option<u64>,
    /// Bytes received.
    pub received_bytes: Option<u64>,
    /// What it sends, in Mbit/s.
    pub sent_mbit: Option<f64>,
    /// What it receives.
    pub received_mbit: Option<f64>,
    /// The round trip, in ms.
    pub delay_ms: Option<f64>,
    /// The share of frames that is lost.
    pub loss: Option<f64>,
    /// How long packets wait, in ms.
    pub queue_ms: Option<f64>,
}

impl LinkReading {
    /// Takes the rates from what was counted since `before`, `seconds` ago.
    fn measure(&mut self, before: &LinkReading, seconds: f64) {
        let mbit = |now: Option<u64>, then: Option<u64>| {
            let bytes = now?.checked_sub(then?)?;
            (seconds > 0.0).then(|| bytes as f64 * 8.0 / 1e6 / seconds)
        };
        self.sent_mbit = self.sent_mbit.or_else(|| mbit(self.sent_bytes, before.sent_bytes));
        self.received_mbit = self.received_mbit.or_else(|| mbit(self.received_bytes, before.received_bytes));
    }

    /// Whether both are the same link.
    fn is(&self, other: &LinkReading) -> bool {
        (&self.of, &self.name) == (&other.of, &other.name)
    }
}

/// All links of a daemon, without the rates that take two looks.
pub fn links(status: &Status) -> Vec<LinkReading> {
    let mut all = Vec::new();
    for peer in &status.peers {
        all.extend(peer.channels.iter().map(|channel| of_channel(&peer.name, channel)));
        all.extend(peer.split.iter().map(|split| of_gateway(&peer.name, split)));
    }
    for link in status.bond.iter().flat_map(|bond| &bond.links) {
        all.push(LinkReading {
            note: link.current.then(|| "current".to_owned()),
            capacity_mbit: link.rate_mbit,
            sent_bytes: link.counters.get("sent_bytes").copied(),
            received_bytes: link.counters.get("received_bytes").copied(),
            ..named("bond", &link.name, &link.device, link.state)
        });
    }
    all.extend(status.ring.iter().flat_map(|ring| &ring.links).map(of_ring));
    all.extend(status.shape.iter().flat_map(|shape| &shape.directions).map(of_direction));
    all.extend(status.gateway.iter().map(|gateway| of_gateway("gateway", gateway)));
    all
}

/// Fills in rates: what `now` counts beyond `before`, which was `seconds` ago.
pub fn measure(now: &mut [LinkReading], before: &[LinkReading], seconds: f64) {
    for (number, link) in now.iter_mut().enumerate() {
        let same = before.get(number).filter(|before| before.is(link));
        if let Some(before) = same.or_else(|| before.iter().find(|before| before.is(link))) {
            link.measure(before, seconds);
        }
    }
}

/// Takes the rates that the same links had `before`: since then too little time has passed.
pub fn keep_rates(now: &mut [LinkReading], before: &[LinkReading]) {
    for link in now {
        if let Some(before) = before.iter().find(|before| before.is(link)) {
            link.sent_mbit = link.sent_mbit.or(before.sent_mbit);
            link.received_mbit = link.received_mbit.or(before.received_mbit);
        }
    }
}

fn named(of: &str, name: &str, kind: &str, state: State) -> LinkReading {
    LinkReading {
        of: of.to_owned(),
        name: name.to_owned(),
        kind: kind.to_owned(),
        state: state.to_string(),
        up: state == State::Up,
        ..LinkReading::default()
    }
}

fn of_channel(peer: &str, channel: &ChannelStatus) -> LinkReading {
    let measured = channel.path.as_ref();
    // What is in use says how; what is not says why.
    let how = measured.map(|path| path.state).filter(|state| channel.state == State::Up && *state != path::State::Up);
    let capacity = channel.rate_mbit.or_else(|| measured?.measured_mbit);
    let waiting = || Some(channel.queued_bytes? as f64 * 8.0 / 1e3 / capacity?);
    let taken_out = channel.taken_out == Some(true);
    let how = if taken_out { Some("taken out") } else { how.map(path::State::word) };
    LinkReading {
        taken_out: channel.taken_out,
        note: channel.reason.clone().or_else(|| how.map(str::to_owned)),
        capacity_mbit: capacity,
        sent_bytes: channel.counters.get("sent_bytes").copied(),
        received_bytes: channel.counters.get("received_bytes").copied(),
        delay_ms: channel.rtt_ms,
        loss: measured.map(|path| f64::from(path.loss_ppm) / 1e6),
        queue_ms: measured.and_then(|path| path.queue_ms).or_else(waiting),
        ..named(peer, &channel.name, &channel.kind, channel.state)
    }
}

fn of_ring(link: &RingLinkStatus) -> LinkReading {
    LinkReading {
        note: link.reason.clone(),
        capacity_mbit: Some(link.rate_mbit),
        sent_bytes: link.counters.get("data_sent_bytes").copied(),
        received_bytes: link.counters.get("data_received_bytes").copied(),
        ..named("ring", &link.side, &format!("to node {}", link.neighbour), link.state)
    }
}

fn of_direction(direction: &ShapeDirectionStatus) -> LinkReading {
    let counted = |name: &str| direction.counters.get(name).copied();
    LinkReading {
        capacity_mbit: Some(direction.rate_mbit),
        sent_bytes: counted("sent_bytes"),
        received_bytes: counted("received_bytes"),
        queue_ms: direction.sharing.delay.median_ms,
        ..named("shaper", &direction.name, &format!("{} > {}", direction.from, direction.to), direction.state)
    }
}

fn of_gateway(of: &str, gateway: &GatewayStatus) -> LinkReading {
    let delay = gateway.queue.as_ref().and_then(|queue| queue.sharing.as_ref()?.delay.median_ms);
    LinkReading {
        note: gateway.problem.clone(),
        up: gateway.up,
        capacity_mbit: gateway.rate_mbit,
        sent_mbit: Some(gateway.called_mbit),
        received_mbit: Some(gateway.caller_mbit),
        queue_ms: delay,
        ..named(of, &gateway.long, "split TCP", gateway.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel(name: &str, sent: u64) -> LinkReading {
        LinkReading { sent_bytes: Some(sent), received_bytes: Some(2 * sent), ..named("hub", name, "udp", State::Up) }
    }

    #[test]
    fn a_rate_is_what_was_counted_since_of_the_same_link_wherever_it_stands() {
        let before = [channel("dsl", 1000), channel("lte", 0)];
        let mut now = [channel("lte", 250_000), channel("dsl", 126_000), channel("new", 5)];
        measure(&mut now, &before, 2.0);
        assert_eq!([now[0].sent_mbit, now[0].received_mbit], [Some(1.0), Some(2.0)]);
        assert_eq!(now[1].sent_mbit, Some(0.5));
        assert_eq!(now[2].sent_mbit, None, "nothing is known of what was not there");
    }

    #[test]
    fn a_daemon_that_began_anew_has_no_rate_rather_than_a_wrong_one() {
        let mut now = [channel("dsl", 10)];
        measure(&mut now, &[channel("dsl", 5000)], 1.0);
        assert_eq!((now[0].sent_mbit, now[0].received_mbit), (None, None));
        measure(&mut now, &[channel("dsl", 0)], 0.0);
        assert_eq!(now[0].sent_mbit, None, "no time passed");
    }
}
