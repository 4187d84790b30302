//! The addresses behind a peer, as ranges for the kernel.
//!
//! What it is: networks lie within each other, and the longest prefix says whose an address is. Ranges that lie beside each other say the
//! same, and the kernel finds an address among n of them in O(log n). Cost: O(n log n), once for each set of rules. Invariants: ranges rise,
//! and between two of them are addresses that are in none.

use ipnet::IpNet;
use std::cmp::Reverse;
use std::ops::RangeInclusive;

/// Those of one IP version that are the peer's own; of each network is said whether it is. Of two that are the same network it is the peer's.
pub(crate) fn own(networks: &[(IpNet, bool)], is_v6: bool) -> Vec<RangeInclusive<u128>> {
    let of_version = networks.iter().filter(|(net, _)| net.addr().is_ipv6() == is_v6);
    let mut nets: Vec<(RangeInclusive<u128>, bool)> = of_version.map(|(net, own)| (range(net), *own)).collect();
    // What lies within comes behind what it lies in.
    nets.sort_by_key(|(range, own)| (*range.start(), Reverse(*range.end()), *own));
    let mut found = Vec::new();
    // The networks around the address that comes next, the innermost last.
    let mut around: Vec<(u128, bool)> = Vec::new();
    let mut next = Some(0);
    for (range, own) in nets {
        leave(&mut around, &mut next, Some(*range.start()), &mut found);
        if let (Some((_, true)), Some(from)) = (around.last(), next)
            && from < *range.start()
        {
            add(&mut found, from, range.start() - 1);
        }
        next = Some(*range.start());
        around.push((*range.end(), own));
    }
    leave(&mut around, &mut next, None, &mut found);
    found
}

/// Leaves the networks that end before `until`.
fn leave(
    around: &mut Vec<(u128, bool)>,
    next: &mut Option<u128>,
    until: Option<u128>,
    found: &mut Vec<RangeInclusive<u128>>,
) {
    while let Some((last, own)) = around.pop_if(|(last, _)| until.is_none_or(|until| *last < until)) {
        if let Some(from) = next.filter(|from| *from <= last) {
            if own {
                add(found, from, last);
            }
            *next = last.checked_add(1);
        }
    }
}

/// One more range, which is part of the last where nothing is between.
fn add(found: &mut Vec<RangeInclusive<u128>>, first: u128, last: u128) {
    match found.last_mut() {
        Some(before) if before.end().checked_add(1) == Some(first) => *before = *before.start()..=last,
        _ => found.push(first..=last),
    }
}

fn range(net: &IpNet) -> RangeInclusive<u128> {
    match net {
        IpNet::V4(net) => net.network().to_bits().into()..=net.broadcast().to_bits().into(),
        IpNet::V6(net) => net.network().to_bits()..=net.broadcast().to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ipnet::{Ipv4Net, Ipv6Net};
    use proptest::prelude::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn net(text: &str) -> IpNet {
        text.parse().expect("a network")
    }

    #[test]
    fn networks_within_networks_become_ranges_beside_each_other() {
        let nets = [
            (net("10.20.7.7/32"), true),
            (net("10.20.7.0/24"), false),
            (net("10.20.0.0/16"), true),
            (net("10.21.0.0/16"), true),
            (net("fd00::/8"), true),
        ];
        let at = |text: &str| u128::from(text.parse::<Ipv4Addr>().expect("an address").to_bits());
        let expected = [
            at("10.20.0.0")..=at("10.20.6.255"),
            at("10.20.7.7")..=at("10.20.7.7"),
            at("10.20.8.0")..=at("10.21.255.255"),
        ];
        assert_eq!(own(&nets, false), expected);
        assert_eq!(own(&nets, true), [0xfd << 120..=u128::MAX >> 8 | 0xfd << 120]);
        assert_eq!(own(&[(net("0.0.0.0/0"), true)], false), [0..=u128::from(u32::MAX)]);
        assert_eq!(own(&[(net("::/0"), true)], true), [0..=u128::MAX]);
        assert_eq!(own(&[(net("::/0"), false), (net("8000::/1"), true)], true), [1 << 127..=u128::MAX]);
        assert!(own(&[], false).is_empty());
    }

    /// As the rules of the peer's networks say it, one after the other.
    fn is_own(nets: &[(IpNet, bool)], address: std::net::IpAddr) -> bool {
        let longest =
            nets.iter().filter(|(net, _)| net.contains(&address)).max_by_key(|(net, own)| (net.prefix_len(), *own));
        longest.is_some_and(|(_, own)| *own)
    }

    proptest! {
        #[test]
        fn an_address_is_in_a_range_if_the_longest_prefix_around_it_is_the_peer_s(
            nets in prop::collection::vec((0u8..=255, 24u8..=32, any::<bool>()), 0..12), is_v6 in any::<bool>(),
        ) {
            // The last 256 addresses there are.
            let address = |last: u8| match is_v6 {
                true => Ipv6Addr::from_bits(u128::MAX << 8 | u128::from(last)).into(),
                false => Ipv4Addr::from_bits(u32::MAX << 8 | u32::from(last)).into(),
            };
            let nets: Vec<(IpNet, bool)> = nets.into_iter().map(|(last, prefix, own)| match address(last) {
                std::net::IpAddr::V4(v4) => (Ipv4Net::new(v4, prefix).expect("a prefix").trunc().into(), own),
                std::net::IpAddr::V6(v6) => (Ipv6Net::new(v6, prefix + 96).expect("a prefix").trunc().into(), own),
            }).collect();
            let ranges = own(&nets, is_v6);
            for last in 0..=255 {
                let bits = if is_v6 { u128::MAX << 8 | u128::from(last) } else { (u32::MAX << 8 | u32::from(last)).into() };
                let found = ranges.iter().any(|range| range.contains(&bits));
                prop_assert_eq!(found, is_own(&nets, address(last)), "{} of {:?}: {:?}", last, &nets, &ranges);
            }
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end() + 1 < *pair[1].start(), "{:?}", &ranges);
            }
        }
    }
}
