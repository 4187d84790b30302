//! What an Ethernet bond takes for a sign that a probed link works.

use crate::lan_support::*;
use fairspan_core::lan::frame::Arp;
use fairspan_core::wire::mac::Mac;
use std::net::Ipv4Addr;

/// What keeps a link: nothing, any frame, an ARP packet of anybody, an answer to its own probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Frame,
    Arp,
    Answer,
}

/// The table of the kernel's documentation: what each value asks of the active link and of a backup.
#[test]
fn arp_validate_says_what_keeps_the_link_in_use_and_what_keeps_the_others() {
    let table = [
        ("none", Sign::Frame, Sign::Frame),
        ("active", Sign::Answer, Sign::Frame),
        ("backup", Sign::Frame, Sign::Answer),
        ("all", Sign::Answer, Sign::Answer),
        ("filter", Sign::Arp, Sign::Arp),
        ("filter_active", Sign::Answer, Sign::Arp),
        ("filter_backup", Sign::Arp, Sign::Answer),
    ];
    for (value, active, backup) in table {
        for (n, asked) in [(0, active), (1, backup)] {
            for sign in [Sign::Frame, Sign::Arp, Sign::Answer] {
                let policy = format!("active-backup:primary=eth0,arp_interval=100ms,arp_validate={value}");
                let mut bond = bond(&policy, 2, |c| c.arp_targets = vec![GATEWAY]);
                for ms in (0..2000).step_by(50) {
                    run(&mut bond, at(ms));
                    // The other link is answered always, so that the one looked at keeps its part.
                    let target_ip = Ipv4Addr::UNSPECIFIED;
                    for (on, sign) in [(n, sign), (1 - n, Sign::Answer)] {
                        let (mac, operation) = (link_mac(on), Arp::REPLY);
                        let reply = Arp { operation, sender_mac: PEER, sender_ip: GATEWAY, target_mac: mac, target_ip };
                        let stranger = Arp { operation: Arp::REQUEST, sender_ip: HOST, ..reply };
                        let frame = match sign {
                            Sign::Frame => udp(Mac([2, 0xdd, 0, 0, 0, 1]), PEER, 80),
                            Sign::Arp => stranger.frame(Mac::BROADCAST, PEER),
                            Sign::Answer => reply.frame(mac, PEER),
                        };
                        bond.handle_link(at(ms), link(on), &frame);
                    }
                }
                // A link that was left may come back, as it is no longer the one in use then.
                let kept = bond.link_stats(link(n)).is_some_and(|stats| stats.downs == 0);
                assert_eq!(kept, sign >= asked, "{value}: {sign:?} on link {n}");
            }
        }
    }
}

#[test]
fn under_a_policy_that_uses_all_links_arp_validate_takes_each_for_active() {
    for (value, kept) in [("backup", true), ("filter_backup", false), ("active", false), ("none", true)] {
        let policy = format!("balance-rr:arp_interval=100ms,arp_validate={value}");
        let mut bond = bond(&policy, 2, |c| c.arp_targets = vec![GATEWAY]);
        for ms in (0..2000).step_by(50) {
            run(&mut bond, at(ms));
            bond.handle_link(at(ms), link(1), &udp(BOND, PEER, 80));
        }
        assert_eq!(bond.links().usable().contains(link(1)), kept, "{value}");
        assert!(!bond.links().usable().contains(link(0)), "{value}: nothing comes there");
    }
}
