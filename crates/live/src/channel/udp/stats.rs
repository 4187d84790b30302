//! What a UDP socket counts.

/// The counters of one socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpStats {
    /// Datagrams sent.
    pub sent: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// System calls that sent them.
    pub send_calls: u64,
    /// Messages received; with GRO each may be many datagrams.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Times the send buffer was full.
    pub blocked: u64,
    /// Times the interface's queue was full (`ENOBUFS`).
    pub congested: u64,
    /// Datagrams above the interface's MTU, dropped.
    pub too_big: u64,
    /// Datagrams dropped because the link was gone.
    pub down: u64,
    /// Calls that failed for reasons that mean nothing to a datagram socket (`ECONNREFUSED`, a firewall's `EPERM`).
    pub ignored: u64,
    /// Times the kernel refused to segment a batch, which then went one by one.
    pub segmentation_refused: u64,
    /// Times the socket was opened anew.
    pub reopened: u64,
}

impl UdpStats {
    /// Every counter by its name in metrics and status.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("sent", self.sent),
            ("sent_bytes", self.sent_bytes),
            ("send_calls", self.send_calls),
            ("received_messages", self.received),
            ("received_bytes", self.received_bytes),
            ("blocked", self.blocked),
            ("congested", self.congested),
            ("too_big", self.too_big),
            ("link_down", self.down),
            ("ignored_errors", self.ignored),
            ("segmentation_refused", self.segmentation_refused),
            ("reopened", self.reopened),
        ]
        .into_iter()
    }
}
