//! Why an uplink does not do, for people.

use thiserror::Error;

/// Why an uplink does not do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// It is switched off or has no carrier.
    #[error("it is down or has no carrier")]
    Down,
    /// It has no address of a version that the hub has.
    #[error("it has no address of an IP version at which the hub is called")]
    NoAddress,
    /// Nothing could be sent.
    #[error("nothing can be sent there: {0}")]
    NotSent(String),
    /// Nothing came back.
    #[error("no answer")]
    NoAnswer,
    /// Nothing came back, and would be dropped.
    #[error("no answer, and {0}: `sysctl -w net.ipv4.conf.{1}.rp_filter=2`")]
    Deaf(String, String),
    /// There is no connection over TCP, or none any more.
    #[error("no connection: {0}")]
    NotConnected(String),
    /// Neither over UDP, for the first reason, nor over TCP, for the second.
    #[error("over UDP: {0}; over TCP: {1}")]
    Neither(Box<Failure>, Box<Failure>),
    /// The hub is of another version.
    #[error("the hub speaks version {0} of the protocol, this is version {1}: run the same release on both ends")]
    OtherVersion(u8, u8),
}
