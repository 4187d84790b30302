//! Prometheus metrics: a [`Status`] as a page of text.
//!
//! Every counter of the status appears as `fairspan_events_total`, `fairspan_peer_events_total` or
//! `fairspan_channel_events_total` with its name as the label `event`, so that a counter that is added is never forgotten
//! here. The shell serves the page.

use crate::status::{
    ChannelStatus, Counters, GatewayStatus, LinkStatus, PeerStatus, PortStatus, RingStatus, ShapeDirectionStatus,
    ShapeStatus, SharingStatus, State, Status,
};
use fairspan_core::options::Words;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;

/// The kind of text that [`page`] writes, as HTTP names it.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Everything that `status` tells.
pub(crate) fn page(status: Status) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(StatusCollector(status)));
    let mut page = String::new();
    text::encode(&mut page, &registry).expect("a String takes whatever is written");
    page
}

#[derive(Debug)]
struct StatusCollector(Status);

impl Collector for StatusCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let status = &self.0;
        let interface = status.interface.as_str();

        gauge(&mut encoder, "fairspan_uptime_seconds", "Time since the daemon began", |m| {
            put_gauge(m, &[("interface", interface)], status.uptime_s)
        })?;
        gauge(&mut encoder, "fairspan_mtu_bytes", "The interface's MTU", |m| {
            put_gauge(m, &[("interface", interface)], status.mtu as f64)
        })?;
        gauge(&mut encoder, "fairspan_channel_up", "1 while the channel carries traffic", |m| {
            for peer in &status.peers {
                for channel in &peer.channels {
                    let up = f64::from(u8::from(channel.state == State::Up));
                    let labels = [("interface", interface), ("peer", &peer.name), ("channel", &channel.name)];
                    put_gauge(m, &labels, up)?;
                }
            }
            Ok(())
        })?;
        gauge(&mut encoder, "fairspan_port_up", "1 while the port has carrier", |m| {
            let labels = |port: &PortStatus| [("interface", interface.to_owned()), ("device", port.device.clone())];
            status.port.iter().try_for_each(|port| {
                let up = f64::from(u8::from(port.state == State::Up));
                put_gauge(m, &labels(port).each_ref().map(|(k, v)| (*k, v.as_str())), up)
            })
        })?;
        let bond = status.bond.as_ref();
        let link_labels = |link: &LinkStatus| [("interface", interface.to_owned()), ("link", link.name.clone())];
        gauge(&mut encoder, "fairspan_link_up", "1 while the link of an Ethernet bond is usable", |m| {
            bond.iter().flat_map(|bond| &bond.links).try_for_each(|link| {
                let labels = link_labels(link);
                put_gauge(
                    m,
                    &labels.each_ref().map(|(k, v)| (*k, v.as_str())),
                    f64::from(u8::from(link.state == State::Up)),
                )
            })
        })?;
        gauge(&mut encoder, "fairspan_link_current", "1 on the link that carries what is not balanced", |m| {
            bond.iter().flat_map(|bond| &bond.links).try_for_each(|link| {
                let labels = link_labels(link);
                put_gauge(m, &labels.each_ref().map(|(k, v)| (*k, v.as_str())), f64::from(u8::from(link.current)))
            })
        })?;
        counter(&mut encoder, "fairspan_bond_events", "Events of an Ethernet bond, by name", |m| {
            bond.iter().try_for_each(|bond| put_counters(m, &[("interface", interface)], &bond.counters))
        })?;
        counter(&mut encoder, "fairspan_link_events", "Events of a link of an Ethernet bond, by name", |m| {
            bond.iter().flat_map(|bond| &bond.links).try_for_each(|link| {
                let labels = link_labels(link);
                put_counters(m, &labels.each_ref().map(|(k, v)| (*k, v.as_str())), &link.counters)
            })
        })?;
        gauge(&mut encoder, "fairspan_channel_queued_bytes", "What waits for the channel, in mode flow", |m| {
            for peer in &status.peers {
                for channel in &peer.channels {
                    let labels = [("interface", interface), ("peer", &peer.name), ("channel", &channel.name)];
                    channel.queued_bytes.map_or(Ok(()), |bytes| put_gauge(m, &labels, bytes as f64))?;
                }
            }
            Ok(())
        })?;
        gauge(&mut encoder, "fairspan_peer_mode", "1, with how the peer's packets are spread as labels", |m| {
            status.peers.iter().try_for_each(|peer| {
                let how = peer.policy.as_deref().unwrap_or(peer.scheduler.word());
                put_gauge(
                    m,
                    &[("interface", interface), ("peer", &peer.name), ("mode", peer.mode.word()), ("how", how)],
                    1.0,
                )
            })
        })?;
        encode_paths(&mut encoder, interface, &status.peers)?;
        encode_queues(&mut encoder, interface, &status.peers)?;
        encode_role(&mut encoder, interface, status)?;
        counter(&mut encoder, "fairspan_events", "Events outside any peer, by name", |m| {
            put_counters(m, &[("interface", interface)], &status.counters)
        })?;
        counter(&mut encoder, "fairspan_peer_events", "Events of a peer's bond, by name", |m| {
            status
                .peers
                .iter()
                .try_for_each(|peer| put_counters(m, &[("interface", interface), ("peer", &peer.name)], &peer.counters))
        })?;
        encode_classes(&mut encoder, interface, &status.peers)?;
        counter(&mut encoder, "fairspan_channel_events", "Events of a channel, by name", |m| {
            for peer in &status.peers {
                for channel in &peer.channels {
                    let labels = [("interface", interface), ("peer", &peer.name), ("channel", &channel.name)];
                    put_counters(m, &labels, &channel.counters)?;
                }
            }
            Ok(())
        })
    }
}

/// What is known of the channels' paths; what is not known is left out.
fn encode_paths(encoder: &mut DescriptorEncoder<'_>, interface: &str, peers: &[PeerStatus]) -> fmt::Result {
    type Read = fn(&ChannelStatus) -> Option<f64>;
    let gauges: [(&str, &str, Read); 5] = [
        ("fairspan_channel_rate_bits", "What may be sent there, in bit/s, as configured", |channel| {
            channel.rate_mbit.map(|rate| rate * 1e6)
        }),
        ("fairspan_channel_measured_bits", "What its path was found to carry, in bit/s", |channel| {
            channel.path.as_ref()?.measured_mbit.map(|rate| rate * 1e6)
        }),
        ("fairspan_channel_rtt_seconds", "Its smoothed round trip", |channel| channel.rtt_ms.map(|ms| ms / 1e3)),
        ("fairspan_channel_loss_ratio", "The share of its frames that is lost", |channel| {
            channel.path.as_ref().map(|path| f64::from(path.loss_ppm) / 1e6)
        }),
        ("fairspan_channel_queue_seconds", "How long frames wait on its way", |channel| {
            channel.path.as_ref()?.queue_ms.map(|ms| ms / 1e3)
        }),
    ];
    for (name, help, read) in gauges {
        gauge(encoder, name, help, |m| {
            peers.iter().flat_map(|peer| peer.channels.iter().map(move |channel| (peer, channel))).try_for_each(
                |(peer, channel)| {
                    let labels = [("interface", interface), ("peer", &peer.name), ("channel", &channel.name)];
                    read(channel).map_or(Ok(()), |value| put_gauge(m, &labels, value))
                },
            )
        })?;
    }
    Ok(())
}

/// The traffic classes of peers.
fn encode_classes(encoder: &mut DescriptorEncoder<'_>, interface: &str, peers: &[PeerStatus]) -> fmt::Result {
    let classes = || peers.iter().flat_map(|peer| peer.classes.iter().map(move |class| (peer, class)));
    counter(encoder, "fairspan_class_events", "Events of a traffic class, by name", |m| {
        classes().try_for_each(|(peer, class)| {
            let labels = [("interface", interface), ("peer", &peer.name), ("class", &class.name)];
            put_counters(m, &labels, &class.counters)
        })
    })?;
    counter(encoder, "fairspan_class_frames", "Frames of a traffic class sent by a channel", |m| {
        classes().try_for_each(|(peer, class)| {
            class.frames.iter().try_for_each(|(channel, frames)| {
                let labels =
                    [("interface", interface), ("peer", &peer.name), ("class", &class.name), ("channel", channel)];
                ConstCounter::new(*frames).encode(m.encode_family(&labels.to_vec())?)
            })
        })
    })
}

/// A node of a ring: its links, its limiters, and the fair rates that it knows.
fn encode_ring(encoder: &mut DescriptorEncoder<'_>, interface: &str, ring: &RingStatus) -> fmt::Result {
    let link_labels = |link| [("interface", interface), ("side", link)];
    gauge(encoder, "fairspan_ring_whole", "1 while all links of the ring are up", |m| {
        put_gauge(m, &[("interface", interface)], f64::from(u8::from(ring.whole)))
    })?;
    gauge(encoder, "fairspan_ring_link_up", "1 while the node's link carries packets", |m| {
        ring.links.iter().try_for_each(|link| {
            put_gauge(m, &link_labels(link.side.as_str()), f64::from(u8::from(link.state == State::Up)))
        })
    })?;
    gauge(encoder, "fairspan_ring_link_rate_bits", "What the node's link carries, in bit/s", |m| {
        ring.links.iter().try_for_each(|link| put_gauge(m, &link_labels(link.side.as_str()), link.rate_mbit * 1e6))
    })?;
    let labels = |ringlet: u8, node: u8| [ringlet.to_string(), node.to_string()];
    gauge(encoder, "fairspan_ring_fair_rate_bits", "The fair rate of a node's outgoing link, in bit/s", |m| {
        ring.ringlets.iter().try_for_each(|ringlet| {
            ringlet.fair.iter().try_for_each(|fair| {
                let [number, node] = labels(ringlet.ringlet, fair.node);
                put_gauge(m, &[("interface", interface), ("ringlet", &number), ("node", &node)], fair.rate_mbit * 1e6)
            })
        })
    })?;
    gauge(encoder, "fairspan_ring_limit_bits", "The rate at which packets to a node may enter, in bit/s", |m| {
        ring.ringlets.iter().try_for_each(|ringlet| {
            ringlet.limits.iter().try_for_each(|limit| {
                let [number, to] = labels(ringlet.ringlet, limit.to);
                let labels = [("interface", interface), ("ringlet", number.as_str()), ("to", to.as_str())];
                limit.rate_mbit.map_or(Ok(()), |rate| put_gauge(m, &labels, rate * 1e6))
            })
        })
    })?;
    gauge(encoder, "fairspan_ring_backlog_bytes", "What waits for the limiter towards a node", |m| {
        ring.ringlets.iter().try_for_each(|ringlet| {
            ringlet.limits.iter().try_for_each(|limit| {
                let [number, to] = labels(ringlet.ringlet, limit.to);
                let labels = [("interface", interface), ("ringlet", number.as_str()), ("to", to.as_str())];
                put_gauge(m, &labels, limit.backlog_bytes as f64)
            })
        })
    })?;
    counter(encoder, "fairspan_ring_events", "Events of a ring's node, by name", |m| {
        put_counters(m, &[("interface", interface)], &ring.counters)
    })?;
    counter(encoder, "fairspan_ring_link_events", "Events of a ring node's link, by name", |m| {
        ring.links.iter().try_for_each(|link| put_counters(m, &link_labels(link.side.as_str()), &link.counters))
    })
}

/// A shaper: what waits in each direction, for how long, and how evenly flows share.
fn encode_shape(encoder: &mut DescriptorEncoder<'_>, interface: &str, shape: &ShapeStatus) -> fmt::Result {
    type Read = fn(&ShapeDirectionStatus) -> f64;
    let gauges: [(&str, &str, Read); 3] = [
        ("fairspan_shape_up", "1 while the device where frames come in has carrier", |direction| {
            f64::from(u8::from(direction.state == State::Up))
        }),
        ("fairspan_shape_rate_bits", "What leaves at most, in bit/s", |direction| direction.rate_mbit * 1e6),
        ("fairspan_shape_waiting_bytes", "What waits", |direction| direction.waiting_bytes as f64),
    ];
    for (name, help, read) in gauges {
        gauge(encoder, name, help, |m| {
            shape.directions.iter().try_for_each(|direction| {
                put_gauge(m, &[("interface", interface), ("direction", &direction.name)], read(direction))
            })
        })?;
    }
    let queues: Vec<_> =
        shape.directions.iter().map(|direction| (direction.name.as_str(), &direction.sharing)).collect();
    encode_sharing(encoder, "fairspan_shape", (interface, "direction"), &queues)?;
    counter(encoder, "fairspan_shape_events", "Events of a direction of a shaper, by name", |m| {
        shape.directions.iter().try_for_each(|direction| {
            put_counters(m, &[("interface", interface), ("direction", &direction.name)], &direction.counters)
        })
    })
}

/// What a daemon tells that has no peers.
fn encode_role(encoder: &mut DescriptorEncoder<'_>, interface: &str, status: &Status) -> fmt::Result {
    if let Some(ring) = &status.ring {
        encode_ring(encoder, interface, ring)?;
    }
    if let Some(shape) = &status.shape {
        encode_shape(encoder, interface, shape)?;
    }
    if let Some(gateway) = &status.gateway {
        encode_gateways(encoder, interface, "device", &[(&gateway.long, gateway)])?;
    }
    let split: Vec<_> =
        status.peers.iter().filter_map(|peer| Some((peer.name.as_str(), peer.split.as_deref()?))).collect();
    if split.is_empty() { Ok(()) } else { encode_gateways(encoder, interface, "peer", &split) }
}

/// Gateways: what is split and what is not, and what waits for the long link. Each has a name as the label `which`; a daemon's own has it only
/// where flows share.
fn encode_gateways(
    encoder: &mut DescriptorEncoder<'_>,
    interface: &str,
    which: &str,
    gateways: &[(&str, &GatewayStatus)],
) -> fmt::Result {
    type Read = fn(&GatewayStatus) -> f64;
    let labels = |name| match which {
        "peer" => vec![("interface", interface), ("peer", name)],
        _ => vec![("interface", interface)],
    };
    let gauges: [(&str, &str, Read); 7] = [
        ("fairspan_gateway_up", "1 while connections that begin are split", |gateway| f64::from(u8::from(gateway.up))),
        ("fairspan_gateway_connections", "Connections that are split now", |gateway| gateway.open as f64),
        ("fairspan_gateway_near_networks", "Networks that are not split now, as they are near", |gateway| {
            gateway.near_networks as f64
        }),
        (
            "fairspan_gateway_one_way_networks",
            "Pairs of networks that are not split now, as answers come by another way",
            |gateway| gateway.one_way_networks as f64,
        ),
        ("fairspan_gateway_half_open", "Connections whose far end has not answered yet", |gateway| {
            gateway.half_open as f64
        }),
        ("fairspan_gateway_buffers_bytes", "What the buffers of all sockets may hold", |gateway| {
            gateway.memory_bytes as f64
        }),
        ("fairspan_gateway_waiting_bytes", "What waits for the long link", |gateway| {
            gateway.queue.as_ref().map_or(0, |queue| queue.waiting_bytes) as f64
        }),
    ];
    for (name, help, read) in gauges {
        gauge(encoder, name, help, |m| {
            gateways.iter().try_for_each(|(name, gateway)| put_gauge(m, &labels(name), read(gateway)))
        })?;
    }
    let sharing = |gateway: &GatewayStatus| gateway.queue.as_ref()?.sharing.clone();
    let queues: Vec<_> = gateways.iter().filter_map(|(name, gateway)| Some((*name, sharing(gateway)?))).collect();
    let queues: Vec<_> = queues.iter().map(|(name, sharing)| (*name, sharing)).collect();
    encode_sharing(encoder, "fairspan_gateway", (interface, which), &queues)?;
    counter(encoder, "fairspan_gateway_bypassed", "Connections that passed unsplit, by reason", |m| {
        gateways.iter().try_for_each(|(name, gateway)| put_counters(m, &labels(name), &gateway.bypassed))
    })?;
    counter(encoder, "fairspan_gateway_events", "Events of a gateway, by name", |m| {
        gateways.iter().try_for_each(|(name, gateway)| {
            let mut counters = gateway.counters.clone();
            counters.extend([("opened".to_owned(), gateway.opened), ("refused".to_owned(), gateway.refused)]);
            put_counters(m, &labels(name), &counters)
        })
    })
}

/// What waits for the channels of each peer, and how the flows share.
fn encode_queues(encoder: &mut DescriptorEncoder<'_>, interface: &str, peers: &[PeerStatus]) -> fmt::Result {
    let queues: Vec<_> = peers.iter().filter_map(|peer| Some((peer.name.as_str(), peer.queue.as_ref()?))).collect();
    gauge(encoder, "fairspan_peer_waiting_bytes", "What waits for a channel of the peer", |m| {
        queues.iter().try_for_each(|(peer, queue)| {
            put_gauge(m, &[("interface", interface), ("peer", peer)], queue.waiting_bytes as f64)
        })
    })?;
    let sharing: Vec<_> = queues.iter().filter_map(|(peer, queue)| Some((*peer, queue.sharing.as_ref()?))).collect();
    encode_sharing(encoder, "fairspan_peer", (interface, "peer"), &sharing)
}

/// How the flows of queues share, each with its name as the label `which`: metrics whose names begin with `prefix`.
fn encode_sharing(
    encoder: &mut DescriptorEncoder<'_>,
    prefix: &str,
    (interface, which): (&str, &str),
    queues: &[(&str, &SharingStatus)],
) -> fmt::Result {
    type Read = fn(&SharingStatus) -> Option<f64>;
    let gauges: [(&str, &str, Read); 4] = [
        ("flows", "Flows that sent in the last second", |sharing| Some(sharing.active_flows as f64)),
        ("backlogged_flows", "Those whose packets waited for each other", |sharing| {
            Some(sharing.backlogged_flows as f64)
        }),
        ("jain", "Jain's index over flows that sent in the last second", |sharing| sharing.jain),
        ("backlogged_jain", "Jain's index over those whose packets waited for each other", |sharing| {
            sharing.backlogged_jain
        }),
    ];
    for (name, help, read) in gauges {
        gauge(encoder, &format!("{prefix}_{name}"), help, |m| {
            queues.iter().try_for_each(|(name, sharing)| {
                let labels = [("interface", interface), (which, *name)];
                read(sharing).map_or(Ok(()), |value| put_gauge(m, &labels, value))
            })
        })?;
    }
    let delay = format!("{prefix}_delay_seconds");
    gauge(encoder, &delay, "How long packets waited, in the last 10 to 20 s", |m| {
        queues.iter().try_for_each(|(name, sharing)| {
            let each = [("all", sharing.delay), ("sparse", sharing.sparse_delay)];
            each.into_iter().try_for_each(|(packets, delay)| {
                [("0.5", delay.median_ms), ("0.99", delay.p99_ms)].into_iter().try_for_each(|(q, ms)| {
                    let labels = [("interface", interface), (which, *name), ("packets", packets), ("quantile", q)];
                    ms.map_or(Ok(()), |ms| put_gauge(m, &labels, ms / 1e3))
                })
            })
        })
    })
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    fill: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    fill(&mut encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)
}

fn counter(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    fill: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
) -> fmt::Result {
    fill(&mut encoder.encode_descriptor(name, help, None, MetricType::Counter)?)
}

fn put_gauge(metric: &mut MetricEncoder<'_>, labels: &[(&str, &str)], value: f64) -> fmt::Result {
    ConstGauge::new(value).encode(metric.encode_family(&labels.to_vec())?)
}

fn put_counters(metric: &mut MetricEncoder<'_>, labels: &[(&str, &str)], counters: &Counters) -> fmt::Result {
    counters.iter().try_for_each(|(event, count)| {
        let mut labels = labels.to_vec();
        labels.push(("event", event));
        ConstCounter::new(*count).encode(metric.encode_family(&labels)?)
    })
}

#[cfg(test)]
mod board;

#[cfg(test)]
mod collector;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ClassStatus, RingFairStatus, RingLimitStatus, RingLinkStatus, RingletStatus, WaitStatus};
    use fairspan_core::bond::{ClassMode, Mode, Scheduler};
    use std::collections::BTreeMap;

    #[test]
    fn how_the_flows_of_a_peer_share_is_told_and_what_is_not_known_is_left_out() {
        let wait = |ms: Option<f64>| WaitStatus { packets: 3, median_ms: ms, p99_ms: ms.map(|ms| ms * 2.0) };
        let sharing = SharingStatus {
            delay: wait(Some(40.0)),
            sparse_delay: wait(None),
            active_flows: 3,
            jain: Some(0.5),
            backlogged_flows: 0,
            backlogged_jain: None,
            flows: vec![],
        };
        let mut registry = Registry::default();
        #[derive(Debug)]
        struct Sharing(SharingStatus);
        impl Collector for Sharing {
            fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
                encode_sharing(&mut encoder, "fairspan_peer", ("fs0", "peer"), &[("hub", &self.0)])
            }
        }
        registry.register_collector(Box::new(Sharing(sharing)));
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            "fairspan_peer_flows{interface=\"fs0\",peer=\"hub\"} 3.0\n",
            "fairspan_peer_jain{interface=\"fs0\",peer=\"hub\"} 0.5\n",
            "fairspan_peer_delay_seconds{interface=\"fs0\",peer=\"hub\",packets=\"all\",quantile=\"0.99\"} 0.08\n",
        ] {
            assert!(page.contains(line), "{line} is not in\n{page}");
        }
        assert!(!page.contains("backlogged_jain{") && !page.contains("sparse"), "{page}");
    }

    fn ring_status(counters: impl Fn(&str, u64) -> Counters) -> Status {
        let link = RingLinkStatus {
            side: "east".into(),
            neighbour: 3,
            kind: "udp".into(),
            state: State::Up,
            reason: None,
            remote: None,
            rate_mbit: 100.0,
            overhead: 78,
            mtu: 1436,
            counters: counters("control_sent", 6),
        };
        let limit = |to, rate_mbit, backlog_bytes| RingLimitStatus { to, rate_mbit, backlog_bytes };
        let ringlet = RingletStatus {
            ringlet: 0,
            fair: vec![RingFairStatus { node: 3, share: 0.5, byte: 128, rate_mbit: 50.0 }],
            limits: vec![limit(4, Some(25.0), 0), limit(5, None, 9000)],
        };
        let ring = RingStatus {
            node: 2,
            nodes: 8,
            nominal_mbit: 100.0,
            algorithm: "dvsr".into(),
            interval_ms: 1.0,
            protection: "steer".into(),
            weight: 1.0,
            whole: false,
            counters: counters("transit_full", 4),
            links: vec![link],
            stations: Vec::new(),
            ringlets: vec![ringlet],
        };
        Status {
            version: "0".into(),
            interface: "ring0".into(),
            uptime_s: 1.5,
            mtu: 1400,
            listen_port: None,
            listen_tcp_port: None,
            confinement: None,
            lock: None,
            port: None,
            web: None,
            webhook: None,
            metrics: None,
            domains: Vec::new(),
            counters: Counters::new(),
            peers: Vec::new(),
            bond: None,
            ring: Some(ring),
            shape: None,
            gateway: None,
            events: Vec::new(),
        }
    }

    #[test]
    fn every_counter_of_the_status_is_served_with_its_labels() {
        let counters = |name: &str, n| Counters::from([(name.to_owned(), n)]);
        let status = Status {
            version: "0".into(),
            interface: "fs0".into(),
            uptime_s: 1.5,
            mtu: 1400,
            listen_port: None,
            listen_tcp_port: None,
            confinement: None,
            lock: None,
            port: None,
            web: None,
            webhook: None,
            metrics: None,
            domains: Vec::new(),
            bond: None,
            ring: None,
            shape: None,
            gateway: None,
            events: Vec::new(),
            counters: counters("handshake_unknown_peer", 3),
            peers: vec![PeerStatus {
                name: "hub".into(),
                mode: Mode::Flow,
                policy: Some("brr:24ms".into()),
                scheduler: Scheduler::Srr,
                peer_mode: None,
                peer_scheduler: None,
                invitation: None,
                up: true,
                mtu: 1400,
                counters: counters("late", 5),
                channels: vec![ChannelStatus {
                    number: 0,
                    name: "dsl".into(),
                    kind: "udp".into(),
                    state: State::Up,
                    reason: None,
                    remote: None,
                    rate_mbit: None,
                    rtt_ms: None,
                    quota: None,
                    taken_out: None,
                    queued_packets: Some(2),
                    queued_bytes: Some(3000),
                    path: None,
                    counters: counters("tx_packets", 7),
                }],
                split: None,
                explained: Vec::new(),
                queue: None,
                classes: vec![ClassStatus {
                    name: "calls".into(),
                    matches: BTreeMap::new(),
                    mode: ClassMode::Prompt,
                    channels: vec![],
                    only: false,
                    latency_ms: None,
                    carried_by: vec![],
                    frames: counters("dsl", 9),
                    counters: counters("packets", 8),
                }],
            }],
        };
        let text = page(status);
        for line in [
            "fairspan_uptime_seconds{interface=\"fs0\"} 1.5",
            "fairspan_channel_up{interface=\"fs0\",peer=\"hub\",channel=\"dsl\"} 1.0",
            "fairspan_channel_queued_bytes{interface=\"fs0\",peer=\"hub\",channel=\"dsl\"} 3000.0",
            "fairspan_peer_mode{interface=\"fs0\",peer=\"hub\",mode=\"flow\",how=\"brr:24ms\"} 1.0",
            "fairspan_events_total{interface=\"fs0\",event=\"handshake_unknown_peer\"} 3",
            "fairspan_peer_events_total{interface=\"fs0\",peer=\"hub\",event=\"late\"} 5",
            "fairspan_channel_events_total{interface=\"fs0\",peer=\"hub\",channel=\"dsl\",event=\"tx_packets\"} 7",
            "fairspan_class_events_total{interface=\"fs0\",peer=\"hub\",class=\"calls\",event=\"packets\"} 8",
            "fairspan_class_frames_total{interface=\"fs0\",peer=\"hub\",class=\"calls\",channel=\"dsl\"} 9",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let text = page(ring_status(counters));
        for line in [
            "fairspan_ring_whole{interface=\"ring0\"} 0.0",
            "fairspan_ring_link_up{interface=\"ring0\",side=\"east\"} 1.0",
            "fairspan_ring_link_rate_bits{interface=\"ring0\",side=\"east\"} 100000000.0",
            "fairspan_ring_fair_rate_bits{interface=\"ring0\",ringlet=\"0\",node=\"3\"} 50000000.0",
            "fairspan_ring_limit_bits{interface=\"ring0\",ringlet=\"0\",to=\"4\"} 25000000.0",
            "fairspan_ring_backlog_bytes{interface=\"ring0\",ringlet=\"0\",to=\"5\"} 9000.0",
            "fairspan_ring_events_total{interface=\"ring0\",event=\"transit_full\"} 4",
            "fairspan_ring_link_events_total{interface=\"ring0\",side=\"east\",event=\"control_sent\"} 6",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains("to=\"5\"} 25"), "no limit, no gauge");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn what_can_fall_of_a_gateway_is_a_gauge_and_what_passed_unsplit_is_counted_by_reason() {
        let text = r#"{"up":true,"long":"sat0","state":"up","open":1,"most_open":4000,"opened":7,"refused":2,"bypassed":{"one_way":3},
            "near_networks":4,"one_way_networks":5,"half_open":0,"most_half_open":1024,"memory_bytes":9000,
            "most_memory_bytes":256000000,"rate_mbit":null,"counters":{"denied":6},"connections":[]}"#;
        let mut status = ring_status(|_, _| Counters::new());
        (status.ring, status.gateway) = (None, Some(serde_json::from_str(text).expect("a gateway")));
        let peers = ["hub", "site"].map(|name| {
            let split: serde_json::Value = serde_json::from_str(text).expect("a gateway");
            let peer = serde_json::json!({
                "name": name, "mode": "reliable", "policy": null, "scheduler": "srr", "peer_mode": null, "peer_scheduler": null, "up": true,
                "mtu": 1400, "counters": {}, "channels": [], "split": split
            });
            serde_json::from_value(peer).expect("a peer")
        });
        let of_peers = page(Status { peers: peers.into(), ..ring_status(|_, _| Counters::new()) });
        for line in [
            "fairspan_gateway_near_networks{interface=\"ring0\",peer=\"hub\"} 4.0",
            "fairspan_gateway_near_networks{interface=\"ring0\",peer=\"site\"} 4.0",
            "fairspan_gateway_events_total{interface=\"ring0\",peer=\"site\",event=\"denied\"} 6",
        ] {
            assert!(of_peers.contains(line), "{line} is not in\n{of_peers}");
        }
        assert_eq!(of_peers.matches("# TYPE fairspan_gateway_up ").count(), 1);
        let text = page(status);
        for line in [
            "# TYPE fairspan_gateway_near_networks gauge",
            "fairspan_gateway_near_networks{interface=\"ring0\"} 4.0",
            "fairspan_gateway_one_way_networks{interface=\"ring0\"} 5.0",
            "fairspan_gateway_bypassed_total{interface=\"ring0\",event=\"one_way\"} 3",
            "fairspan_gateway_events_total{interface=\"ring0\",event=\"denied\"} 6",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
