//! A gateway that splits TCP connections: its part of the status.

use super::sharing::QueueStatus;
use super::state::{Counters, State};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A gateway that splits TCP connections.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GatewayStatus {
    /// True while connections that begin are split; else all passes as if there were no gateway, where the long link is up.
    pub up: bool,
    /// The name of its table of packet rules in the kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// The device of the long link.
    pub long: String,
    /// Up, down while it is switched off or has no carrier, or absent while there is no such device.
    pub state: State,
    /// Why it does not do what its file says, where it does not; it is tried again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Where clients may ask by SOCKS5 or HTTP CONNECT, if anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<String>,
    /// Connections that are split now.
    pub open: u64,
    /// How many there may be at once.
    pub most_open: u64,
    /// Connections that were split since the daemon began.
    pub opened: u64,
    /// Those whose far end refused them, as their callers were told.
    pub refused: u64,
    /// Those that passed unsplit, by reason.
    pub bypassed: Counters,
    /// Networks that are not split now, because they are near.
    #[serde(default)]
    pub near_networks: u64,
    /// Pairs of networks, of callers and called, that are not split now, because answers between them come by another way.
    #[serde(default)]
    pub one_way_networks: u64,
    /// Connections whose far end has not answered yet.
    pub half_open: u64,
    /// How many there may be at once.
    pub most_half_open: u64,
    /// What the buffers of all sockets hold or are allowed to, in bytes.
    pub memory_bytes: u64,
    /// What they may be allowed to together.
    pub most_memory_bytes: u64,
    /// What callers acknowledged in the last second, in Mbit/s, of all connections.
    #[serde(default)]
    pub caller_mbit: f64,
    /// What those who were called did.
    #[serde(default)]
    pub called_mbit: f64,
    /// What the long link carries, in Mbit/s, where that is configured.
    pub rate_mbit: Option<f64>,
    /// What waits before the long link, and how its flows share; left out without fair queueing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
    /// The gateway's counters, drops by reason among them.
    pub counters: Counters,
    /// Connections that are split now, at most [`TOLD`](GatewayStatus::TOLD), those with the highest rates first.
    pub connections: Vec<ConnectionStatus>,
}

impl GatewayStatus {
    /// So many connections are told of.
    pub const TOLD: usize = 100;
}

/// A connection that is split.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionStatus {
    /// Address and port of who called.
    pub caller: String,
    /// Address and port, or name and port, of who was called.
    pub called: String,
    /// How it was asked for: `transparent`, `socks5` or `http`.
    pub by: String,
    /// Seconds since it was split.
    pub age_s: f64,
    /// The connection between the caller and the gateway.
    pub caller_side: ConnectionSideStatus,
    /// The connection between the gateway and who was called.
    pub called_side: ConnectionSideStatus,
}

/// One of both connections that a split one consists of. What it sends is what leaves the gateway towards its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConnectionSideStatus {
    /// The smoothed round trip in ms, once measured.
    pub rtt_ms: Option<f64>,
    /// Room for what is sent, in bytes.
    pub send_buffer_bytes: u64,
    /// Bytes that wait to be sent for the first time.
    pub unsent_bytes: u64,
    /// Room for what is received, in bytes.
    pub receive_buffer_bytes: u64,
    /// What its end acknowledged in the last second, in Mbit/s.
    pub rate_mbit: f64,
    /// The kernel's name for its congestion control.
    pub congestion: String,
    /// Why it does not send faster, once known.
    pub limited_by: Option<LimitedBy>,
}

/// What keeps a connection from sending faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitedBy {
    /// There is nothing to send: the other side brings no more.
    Application,
    /// Its congestion window is full.
    Congestion,
    /// Its end offers no larger window.
    Receiver,
    /// The send buffer is full of what was not acknowledged yet.
    #[serde(rename = "send buffer")]
    SendBuffer,
    /// The gateway paces it at its share of the link.
    Gateway,
}

impl LimitedBy {
    /// All of them.
    pub const ALL: [LimitedBy; 5] =
        [LimitedBy::Application, LimitedBy::Congestion, LimitedBy::Receiver, LimitedBy::SendBuffer, LimitedBy::Gateway];
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            LimitedBy::Application => "application",
            LimitedBy::Congestion => "congestion",
            LimitedBy::Receiver => "receiver",
            LimitedBy::SendBuffer => "send buffer",
            LimitedBy::Gateway => "gateway",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_read_as_it_is_written_and_limits_are_the_words_that_people_see() {
        let text = r#"{"up":true,"rules":"fairspan-gw-gw0","long":"sat0","state":"up","problem":"no room","open":1,"most_open":4000,"opened":7,"refused":2,"bypassed":{"memory":3},"near_networks":1,"one_way_networks":2,"half_open":0,"most_half_open":1024,"memory_bytes":9000,"most_memory_bytes":256000000,"caller_mbit":1.5,"called_mbit":0.0,"rate_mbit":null,"counters":{},"connections":[{"caller":"10.0.0.2:50123","called":"192.0.2.7:443","by":"transparent","age_s":1.5,"caller_side":{"rtt_ms":0.5,"send_buffer_bytes":87040,"unsent_bytes":0,"receive_buffer_bytes":131072,"rate_mbit":0.5,"congestion":"cubic","limited_by":"application"},"called_side":{"rtt_ms":null,"send_buffer_bytes":16000000,"unsent_bytes":4096,"receive_buffer_bytes":16000000,"rate_mbit":12.5,"congestion":"bbr","limited_by":null}}]}"#;
        let gateway: GatewayStatus = serde_json::from_str(text).expect("a gateway");
        assert_eq!(gateway.connections[0].caller_side.limited_by, Some(LimitedBy::Application));
        assert_eq!(serde_json::to_string(&gateway).expect("text"), text);
        for limit in LimitedBy::ALL {
            assert_eq!(serde_json::to_string(&limit).expect("text"), format!("\"{limit}\""));
        }
    }
}
