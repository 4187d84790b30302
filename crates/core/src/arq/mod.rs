//! Reliable multipath with one stage of sequence numbers: EFL-MP.
//!
//! Source: efl-mp (Enomoto, Shimonishi, Higuchi, Takashi, Iwata 2008). A flow's packets are numbered once and spread over
//! several paths. The receiver has one FIFO buffer a path, picks from their heads in order, and takes it as a sign of loss when
//! all of them hold something and none holds what comes next. Nothing is lost, all is in order, and whatever the number of paths
//! is, there is one number to add, one to remove, and one retransmission buffer (Table 1).
//!
//! | paper | here |
//! |---|---|
//! | Sender MAC: retransmission, congestion and distribution control (3.2 to 3.4) | [`Sender`] |
//! | Receiver MAC: reorder control, Figure 7 | [`Receiver`] |
//! | EFL header, Table 3 | [`Header`] |
//! | SEQ | [`Seq`] |
//! | congestion control, by delay with bandwidth probing (3.3) | `congestion/delay.rs`, by the setting `congestion` |
//!
//! Sans IO: packets, acknowledgments and times go in; what is to be sent, delivered and woken for comes out. After any input
//! drain [`Receiver::poll_deliver`] and [`Receiver::poll_ack`], or [`Sender::poll_transmit`], and ask for the timeout. In
//! steady state no packet costs an allocation, and all memory is bounded by settings.
//!
//! Beyond the paper, as options of [`Config`]: `striping = "srr"` spreads by measured rates (a law of congestion control for
//! each path) instead of in turns; `repair = "selective"` sends only what is missing, on the path that arrives first; `trigger =
//! "time"` asks for what is late; `parity` sends ahead what may be lost, so that it need not be asked for (`cover.rs`, `mender.rs`); `probes`
//! and `failover` are for ends of streams and for paths that die.
//!
//! Numbers begin anew with each start of a sender, so every frame says which start it belongs to ([`Header::stream`]). A sender that
//! begins anew ends its receiver ([`Replaced`]). A receiver that begins anew takes nothing, and ends its sender
//! ([`Unacknowledged`]). Frames are taken to be whole: whoever carries them checks that, as Ethernet does by its FCS.

mod config;
mod cover;
mod dropped;
mod frame;
mod late;
mod mender;
mod octets;
mod receiver;
mod sender;
mod ways;

pub use config::{Config, OPTIONS, Parity, Repair, Striping, Trigger};
pub use dropped::Dropped;
pub use frame::{FrameError, Header, Kind};
pub use octets::Octets;
pub use receiver::{Receiver, ReceiverStats, Replaced};
pub use sender::{AckError, Content, Sender, SenderStats, Transmit, Unacknowledged};

/// Most packets between what a receiver waits for and what it takes; most that a sender keeps.
pub const MOST_PACKETS: u32 = 1 << 20;

/// SEQ: the number of a packet in its flow, in serial arithmetic (RFC 1982).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// The number `n` further on.
    #[inline]
    pub fn plus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_add(n))
    }

    /// The number before.
    #[inline]
    pub fn before(self) -> Seq {
        Seq(self.0.wrapping_sub(1))
    }

    /// The number `n` back.
    #[inline]
    pub fn minus(self, n: u32) -> Seq {
        Seq(self.0.wrapping_sub(n))
    }

    /// How far it is ahead of `other`.
    #[inline]
    pub fn ahead_of(self, other: Seq) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }
}

/// How far generation `a` of restarts is ahead of `b`.
#[inline]
fn restarts_ahead(a: u8, b: u8) -> i8 {
    a.wrapping_sub(b) as i8
}
