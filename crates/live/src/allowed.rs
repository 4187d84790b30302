//! Allowed addresses: which peer an address belongs to, by the longest matching prefix.
//!
//! One table serves both ways, as in WireGuard: it routes the host's packets to a peer, and a peer's packets are let in
//! only from addresses that it would route back to that peer, so an authenticated peer cannot spoof another.
//!
//! Cost of a look-up: one hash probe for each prefix length in use (usually one or two), and none for the address that
//! was asked last.

use ipnet::IpNet;
use std::collections::HashMap;
use std::net::IpAddr;

/// Which peer (by number) owns which prefixes.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    v4: Family,
    v6: Family,
}

#[derive(Debug, Default)]
struct Family {
    /// Prefix lengths in use, longest first, each with its networks (aligned to the top of the 128 bits).
    lengths: Vec<(u8, HashMap<u128, usize>)>,
    last: Option<(u128, Option<usize>)>,
}

impl Allowed {
    /// Gives `net` to `peer`; the newest owner of a prefix wins.
    pub(crate) fn insert(&mut self, net: IpNet, peer: usize) {
        let (family, bits) = self.family(net.network());
        family.last = None;
        let length = net.prefix_len();
        let at = family.lengths.partition_point(|(l, _)| *l > length);
        if family.lengths.get(at).is_none_or(|(l, _)| *l != length) {
            family.lengths.insert(at, (length, HashMap::new()));
        }
        family.lengths[at].1.insert(bits, peer);
    }

    /// The peer that `address` belongs to.
    pub(crate) fn owner(&mut self, address: IpAddr) -> Option<usize> {
        let (family, bits) = self.family(address);
        if let Some((last, owner)) = family.last
            && last == bits
        {
            return owner;
        }
        let owner = family.lengths.iter().find_map(|(length, nets)| nets.get(&(bits & mask(*length))).copied());
        family.last = Some((bits, owner));
        owner
    }

    fn family(&mut self, address: IpAddr) -> (&mut Family, u128) {
        match address {
            IpAddr::V4(a) => (&mut self.v4, u128::from(u32::from(a)) << 96),
            IpAddr::V6(a) => (&mut self.v6, u128::from(a)),
        }
    }
}

fn mask(length: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    fn table(rows: &[(&str, usize)]) -> Allowed {
        let mut table = Allowed::default();
        for (net, peer) in rows {
            table.insert(net.parse().unwrap(), *peer);
        }
        table
    }

    #[test]
    fn the_longest_prefix_wins_in_either_order_and_families_are_apart() {
        for rows in [
            [("0.0.0.0/0", 0), ("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("::/0", 3), ("fd00::1/128", 4)],
            [("fd00::1/128", 4), ("::/0", 3), ("10.1.0.0/16", 2), ("10.0.0.0/8", 1), ("0.0.0.0/0", 0)],
        ] {
            let mut table = table(&rows);
            for (address, peer) in [("10.1.2.3", 2), ("10.2.2.3", 1), ("9.9.9.9", 0), ("fd00::1", 4), ("fd00::2", 3)] {
                assert_eq!(table.owner(address.parse().unwrap()), Some(peer), "{address}");
            }
        }
        assert_eq!(table(&[("10.0.0.0/8", 1)]).owner("11.0.0.1".parse().unwrap()), None);
        assert_eq!(table(&[("0.0.0.0/0", 1)]).owner("::1".parse().unwrap()), None);
    }

    proptest! {
        #[test]
        fn look_ups_match_a_linear_search(
            nets in prop::collection::vec((any::<u32>(), 0u8..=32), 1..20),
            asked in prop::collection::vec(any::<u32>(), 1..50),
        ) {
            let nets: Vec<IpNet> = nets
                .iter()
                .map(|(a, l)| ipnet::Ipv4Net::new(Ipv4Addr::from(*a), *l).unwrap().trunc().into())
                .collect();
            let mut table = Allowed::default();
            for (peer, net) in nets.iter().enumerate() {
                table.insert(*net, peer);
            }
            for address in asked.iter().map(|a| Ipv4Addr::from(*a)).chain(nets.iter().map(|n| match n.addr() {
                IpAddr::V4(a) => a,
                IpAddr::V6(_) => unreachable!(),
            })) {
                let address = IpAddr::V4(address);
                let model = nets.iter().enumerate().filter(|(_, n)| n.contains(&address))
                    .max_by_key(|(i, n)| (n.prefix_len(), *i)).map(|(i, _)| i);
                prop_assert_eq!(table.owner(address), model);
                prop_assert_eq!(table.owner(address), model);
            }
        }
    }
}
