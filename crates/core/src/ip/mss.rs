//! TCP maximum segment size clamping.
//!
//! What it is: lowers the MSS option of a SYN to what fits the tunnel, so that neither end ever sends a segment too
//! big for it (RFC 9293 section 3.7.1 defines the option; RFC 4459 section 3.2 describes clamping). A SYN without the
//! option is left alone: its default (RFC 9293: 536, 1220 over IPv6) is smaller than any sane tunnel. Cost: one byte
//! compare for packets that are no SYN. Invariants: never raises the value; the checksum stays right; malformed
//! options end the walk.

use super::{Header, Piece, TCP, Version, checksum};

const SYN: u8 = 0x02;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_MSS: u8 = 2;

/// Whether the packet is the start of a TCP connection, and so may carry the option.
#[inline]
pub fn is_syn(header: &Header, bytes: &[u8]) -> bool {
    header.protocol == TCP
        && header.piece != Piece::Later
        && bytes.get(header.payload + 13).is_some_and(|flags| flags & SYN != 0)
}

/// Lowers the MSS option of the SYN `bytes` so that segments fit packets of `mtu` bytes. Returns whether it did.
/// Its TCP checksum must be complete.
pub fn clamp(header: &Header, bytes: &mut [u8], mtu: usize) -> bool {
    let fixed = match header.version {
        Version::V4 => 20,
        Version::V6 => 40,
    } + 20;
    let most = mtu.saturating_sub(fixed).clamp(1, 65_535) as u16;
    let end = header.total.min(bytes.len());
    let Some(tcp) = bytes.get_mut(header.payload..end) else { return false };
    let Some(&offset) = tcp.get(12) else { return false };
    let length = usize::from(offset >> 4) * 4;
    if length < 20 || length > tcp.len() {
        return false;
    }
    let mut at = 20;
    while at + 1 < length {
        let (kind, size) = (tcp[at], usize::from(tcp[at + 1]));
        match kind {
            OPTION_END => return false,
            OPTION_NOP => at += 1,
            _ if size < 2 || at + size > length => return false,
            OPTION_MSS if size == 4 => {
                let old = u16::from_be_bytes([tcp[at + 2], tcp[at + 3]]);
                if old <= most {
                    return false;
                }
                tcp[at + 2..at + 4].copy_from_slice(&most.to_be_bytes());
                // An option may start at an odd place; then the sum sees its bytes swapped (RFC 1071, 2B).
                let swap = |word: u16| if at % 2 == 1 { word.swap_bytes() } else { word };
                let sum = u16::from_be_bytes([tcp[16], tcp[17]]);
                let sum = checksum::update(sum, swap(old), swap(most));
                tcp[16..18].copy_from_slice(&sum.to_be_bytes());
                return true;
            }
            _ => at += size,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// A SYN with these options, its checksum right.
    fn syn(six: bool, options: &[u8]) -> Vec<u8> {
        let mut tcp = vec![0, 80, 1, 1, 0, 0, 0, 9, 0, 0, 0, 0, 0, SYN, 255, 255, 0, 0, 0, 0];
        tcp.extend_from_slice(options);
        while tcp.len() % 4 != 0 {
            tcp.push(OPTION_NOP);
        }
        tcp[12] = ((tcp.len() / 4) << 4) as u8;
        let mut p = if six { testing::udp6(1, 2, 0, 0, &[]) } else { testing::udp4(1, 2, 0, 0, &[]) };
        p.truncate(if six { 40 } else { 20 });
        p[if six { 6 } else { 9 }] = TCP;
        p.extend_from_slice(&tcp);
        let (total, payload) = (p.len() as u16, tcp.len() as u16);
        if six {
            p[4..6].copy_from_slice(&payload.to_be_bytes());
        } else {
            p[2..4].copy_from_slice(&total.to_be_bytes());
            testing::seal4(&mut p);
        }
        let at = p.len() - tcp.len() + 16;
        let sum = tcp_sum(&p, six);
        p[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        p
    }

    /// The checksum over pseudo header and segment.
    fn tcp_sum(p: &[u8], six: bool) -> u16 {
        let (addresses, tcp) = if six { (&p[8..40], &p[40..]) } else { (&p[12..20], &p[20..]) };
        let sum = checksum::add(u32::from(TCP) + tcp.len() as u32, addresses);
        checksum::finish(checksum::add(sum, tcp))
    }

    fn parsed(p: &[u8]) -> Header {
        Header::parse(p, p.len()).unwrap()
    }

    #[test]
    fn a_syn_is_lowered_to_what_fits_and_its_checksum_stays_right() {
        for (six, mtu, fits) in [(false, 1400, 1360u16), (true, 1400, 1340)] {
            for before in [vec![], vec![1u8], vec![1, 1], vec![3, 3, 7], vec![4, 2]] {
                let mut options = before;
                let at = options.len();
                options.extend_from_slice(&[OPTION_MSS, 4, 5, 180, 8, 10, 0, 0, 0, 0, 0, 0, 0, 0]);
                let mut p = syn(six, &options);
                assert!(is_syn(&parsed(&p), &p));
                let h = parsed(&p);
                assert!(clamp(&h, &mut p, mtu));
                let place = h.payload + 20 + at + 2;
                assert_eq!(p[place..place + 2], fits.to_be_bytes());
                assert_eq!(tcp_sum(&p, six), 0, "checksum with the option at {at}");
                assert!(!clamp(&h, &mut p, mtu), "a second time changes nothing");
            }
        }
    }

    #[test]
    fn a_smaller_value_and_a_missing_option_are_left_alone() {
        for options in [&[OPTION_MSS, 4, 1, 0][..], &[], &[3, 3, 7], &[OPTION_END, OPTION_MSS, 4, 255, 255]] {
            let mut p = syn(false, options);
            let before = p.clone();
            let h = parsed(&p);
            assert!(!clamp(&h, &mut p, 1400));
            assert_eq!(p, before);
        }
    }

    #[test]
    fn other_packets_are_no_syn() {
        let p = testing::udp4(1, 2, 3, 4, &[0xff; 40]);
        assert!(!is_syn(&parsed(&p), &p));
        let mut p = syn(false, &[]);
        p[33] = 0x10;
        assert!(!is_syn(&parsed(&p), &p));
    }

    proptest! {
        #[test]
        fn malformed_options_never_panic_and_never_break_the_checksum(
            options in proptest::collection::vec(any::<u8>(), 0..40), six: bool, offset: u8, mtu in 0usize..3000,
        ) {
            let mut p = syn(six, &options[..options.len() / 4 * 4]);
            let h = parsed(&p);
            clamp(&h, &mut p, mtu);
            prop_assert_eq!(tcp_sum(&p, six), 0);
            // Any data offset at all:
            p[h.payload + 12] = offset;
            clamp(&h, &mut p, mtu);
        }
    }
}
