//! Two hosts with a bond between them.

use super::Line;
use fairspan_core::bond::{ChannelConfig, Config};
use fairspan_core::link::Profile;
use fairspan_core::units::{Bytes, Time};
use fairspan_sim::model::{Bond, Card, Flow, Framing, Hop, HostCost, Link, Metrics, Node, Room, Scenario, Transport};
use fairspan_sim::traffic;

/// Two hosts and a bond with the settings `config`, over these channels: what each has there and back.
pub fn bonded(mut config: Config, channels: impl IntoIterator<Item = (ChannelConfig, [Profile; 2])>) -> Scenario {
    let mut scenario = Line::new(&[]).scenario;
    scenario.nodes = ["a", "b"].map(|name| Node { name: name.into(), cost: HostCost::default() }).into();
    scenario.metrics = Metrics { reordering: true, ..Metrics::default() };
    let mut links = vec![];
    for (n, (settings, profiles)) in channels.into_iter().enumerate() {
        config.channels.push(settings);
        for (way, profile) in (0..).zip(profiles) {
            let name = format!("link{n}.{way}");
            let (framing, card) = (Framing::Bytes(14), Card::default());
            scenario.links.push(Link {
                name,
                from: way,
                to: 1 - way,
                profile: profile.into(),
                framing,
                card,
                medium: None,
            });
        }
        links.push([vec![2 * n as u32], vec![2 * n as u32 + 1]]);
    }
    scenario.bonds.push(Bond { name: "bond".into(), ends: [0, 1], channels: links, config, policy_back: None });
    scenario
}

/// The settings of a channel whose frames are so much longer than what they carry.
pub fn channel(overhead: usize) -> ChannelConfig {
    let mut channel = ChannelConfig::default();
    channel.overhead = overhead;
    channel
}

/// A flow over the bond between these milliseconds.
pub fn over_bond(name: &str, [start, stop]: [u64; 2], traffic: traffic::Config, transport: Transport) -> Flow {
    Flow {
        name: name.into(),
        from: 0,
        to: 1,
        path: vec![Hop::Bond(0, 0)],
        back: vec![Hop::Bond(0, 1)],
        others: Vec::new(),
        start: Time::from_millis(start),
        stop: Time::from_millis(stop),
        traffic,
        transport,
        drift_ppm: None,
        dscp: 0,
        weight: 1,
        room: Room::default(),
        deadline: None,
    }
}

/// Datagrams over IP and UDP.
pub const UDP: Transport = Transport::Datagram { header: 28 };

/// One endless transfer by a TCP connection (CUBIC) with buffers of 32 MiB, between these milliseconds.
pub fn download(between: [u64; 2]) -> Flow {
    let mut tcp = fairspan_sim::tcp::Config::preset("linux").unwrap();
    (tcp.send_buffer, tcp.receive_buffer) = (Bytes::new(32 << 20), Bytes::new(32 << 20));
    over_bond("tcp", between, traffic::Config::Ftp { bytes: None, writes: None }, Transport::Tcp(tcp.into()))
}
