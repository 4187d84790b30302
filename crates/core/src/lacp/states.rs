//! What the machines of a port are at: IEEE 802.1AX-2014, 6.4.12 (receive), 6.4.13 (periodic transmission), 6.4.15 (mux).

use core::fmt;

/// What the receive machine of a port is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveState {
    /// The link is down.
    #[default]
    PortDisabled,
    /// No LACPDU in time: 3 s more to hear one.
    Expired,
    /// The port speaks no LACP: half duplex.
    LacpDisabled,
    /// No LACPDU: the partner's parameters are assumed.
    Defaulted,
    /// The partner's parameters are from a LACPDU.
    Current,
}

impl fmt::Display for ReceiveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReceiveState::PortDisabled => "port disabled",
            ReceiveState::Expired => "expired",
            ReceiveState::LacpDisabled => "LACP disabled",
            ReceiveState::Defaulted => "defaulted",
            ReceiveState::Current => "current",
        })
    }
}

/// How often a port sends LACPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeriodicState {
    /// Not at all.
    #[default]
    None,
    /// Every second.
    Fast,
    /// Every 30 s.
    Slow,
}

impl fmt::Display for PeriodicState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PeriodicState::None => "none",
            PeriodicState::Fast => "fast",
            PeriodicState::Slow => "slow",
        })
    }
}

/// What the mux machine of a port is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MuxState {
    /// In no aggregator.
    #[default]
    Detached,
    /// Others may join within 2 s.
    Waiting,
    /// In its aggregator; waits until the partner is as well.
    Attached,
    /// Takes frames; sends none until the partner takes them.
    Collecting,
    /// Takes frames and sends them.
    Distributing,
}

impl fmt::Display for MuxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MuxState::Detached => "detached",
            MuxState::Waiting => "waiting",
            MuxState::Attached => "attached",
            MuxState::Collecting => "collecting",
            MuxState::Distributing => "distributing",
        })
    }
}
