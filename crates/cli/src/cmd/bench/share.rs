//! What a frame carries of application data, for the benchmarks that compare a bond with what its links carry.

use fairspan_core::bond::Mode;
use fairspan_core::options::Words;

/// Bytes of an IPv4 and a TCP header with timestamps.
const HEADERS: f64 = 52.0;
/// Bytes of a full Ethernet frame, as rates count them.
const FRAME: f64 = 1514.0;
/// What compressed headers take off a full packet of one long TCP connection over IPv4, in bytes: 46.7 are measured for the
/// host's own connections, whose checksum the receiver makes, and 44.6 for forwarded ones.
const COMPRESSED: f64 = 47.0;

/// The share of TCP's payload in a link's bytes, where a bond of mode `mode` sends nothing but full packets, of `mtu` bytes.
///
/// All links of the benchmarks carry at most 1 Gbit/s, up to which a daemon compresses headers in mode `reliable`.
pub(super) fn payload(mtu: f64, mode: &str) -> f64 {
    let saved = if mode == Mode::Reliable.word() { COMPRESSED } else { 0.0 };
    (mtu - HEADERS) / (FRAME - saved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compressed_headers_leave_more_of_a_link_to_the_payload() {
        assert_eq!((payload(1431.0, "ordered") * 1e4).round(), 9108.0);
        assert_eq!((payload(1433.0, "reliable") * 1e4).round(), 9414.0);
    }
}
