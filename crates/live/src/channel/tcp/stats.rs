//! What the streams of a socket are counted by.

/// What became of connections and of what was in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpStats {
    /// Datagrams written.
    pub sent: u64,
    /// Bytes written.
    pub sent_bytes: u64,
    /// Calls that wrote.
    pub send_calls: u64,
    /// Datagrams read.
    pub received: u64,
    /// Bytes read.
    pub received_bytes: u64,
    /// Writes that the kernel took in part or not at all.
    pub blocked: u64,
    /// Connections made.
    pub connected: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections that could not be made.
    pub unconnected: u64,
    /// Connections closed because the other end, the network or a writer's patience ended them.
    pub closed: u64,
    /// Connections that their peer left for another way, so that they are strangers' again.
    pub superseded: u64,
    /// Connections closed for a length that no datagram has.
    pub bad_length: u64,
    /// Connections closed because nothing authentic came in time.
    pub unproven: u64,
    /// Connections closed, before they proved anything, in favour of newer ones.
    pub evicted: u64,
    /// Connections closed because nothing authentic came for long.
    pub idle: u64,
}

impl TcpStats {
    /// The counters by name.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("sent", self.sent),
            ("sent_bytes", self.sent_bytes),
            ("send_calls", self.send_calls),
            ("received", self.received),
            ("received_bytes", self.received_bytes),
            ("blocked", self.blocked),
            ("connected", self.connected),
            ("accepted", self.accepted),
            ("unconnected", self.unconnected),
            ("closed", self.closed),
            ("superseded", self.superseded),
            ("bad_length", self.bad_length),
            ("unproven", self.unproven),
            ("evicted", self.evicted),
            ("idle", self.idle),
        ]
        .into_iter()
    }
}
