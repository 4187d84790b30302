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

/// The kernel's documentation: `any` takes a link for up where one target is reached, `all` where all are, on links whose answers are
/// validated.
#[test]
fn arp_all_targets_says_how_many_targets_have_to_answer_on_a_link_that_is_validated() {
    let second = Ipv4Addr::new(10, 3, 31, 2);
    let rows = [
        // Of the link in use and of the other one: whether the second target's answers are missed where only the first one answers.
        ("any", "all", [true, true]),
        ("all", "all", [false, false]),
        ("all", "active", [false, true]),
        ("all", "backup", [true, false]),
        ("all", "filter_active", [false, true]),
        ("all", "filter_backup", [true, false]),
        ("all", "filter", [true, true]),
        ("all", "none", [true, true]),
    ];
    for (targets, validate, kept) in rows {
        for (n, kept) in [(0, kept[0]), (1, kept[1])] {
            let policy = format!(
                "active-backup:primary=eth0,arp_interval=100ms,arp_validate={validate},arp_all_targets={targets}"
            );
            let mut bond = bond(&policy, 2, |c| c.arp_targets = vec![GATEWAY, second]);
            let answer = |bond: &mut fairspan_core::lan::Lan<Vec<u8>>, ms, on, from| {
                let (mac, target_ip) = (link_mac(on), Ipv4Addr::UNSPECIFIED);
                let (operation, sender_mac) = (Arp::REPLY, PEER);
                let reply = Arp { operation, sender_mac, sender_ip: from, target_mac: mac, target_ip };
                bond.handle_link(at(ms), link(on), &reply.frame(mac, PEER));
            };
            for ms in (0..2000).step_by(50) {
                run(&mut bond, at(ms));
                answer(&mut bond, ms, n, GATEWAY);
                // The other link has all answers, so that the one looked at keeps its part.
                [GATEWAY, second].into_iter().for_each(|target| answer(&mut bond, ms, 1 - n, target));
            }
            let downs = |bond: &fairspan_core::lan::Lan<Vec<u8>>| bond.link_stats(link(n)).map(|stats| stats.downs);
            assert_eq!(downs(&bond) == Some(0), kept, "{targets}, {validate}: link {n}");
            // With the missing answer it is back.
            run(&mut bond, at(2000));
            answer(&mut bond, 2000, n, second);
            answer(&mut bond, 2000, n, GATEWAY);
            assert!(bond.links().usable().contains(link(n)), "{targets}, {validate}: link {n}");
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
