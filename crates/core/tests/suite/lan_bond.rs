//! An Ethernet bond as its driver sees it: which frames go where, what counts of what comes, and what it says unasked.

use crate::lan_support::*;
use fairspan_core::lacp::{Lacpdu, Pdu, PortInfo, State};
use fairspan_core::lan::frame::{self, Arp, Header, Neighbour};
use fairspan_core::lan::{Config, Event, Lan, LinkConfig, Received, Transmit};
use fairspan_core::rng::Rng;
use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_core::wire::mac::Mac;
use std::net::{IpAddr, Ipv4Addr};
#[test]
fn a_bond_under_balance_xor_sends_each_flow_on_one_link_and_uses_them_all() {
    let mut bond = bond("balance-xor:layer3+4", 4, |_| {});
    drain(&mut bond);
    let mut used = 0u64;
    for port in 1000..1100 {
        let mut links = Vec::new();
        for _ in 0..3 {
            bond.handle_host(at(1), udp(PEER, BOND, port));
            let sent = drain(&mut bond);
            assert_eq!((sent.len(), sent[0].links.len(), sent[0].source), (1, 1, None));
            links.push(sent[0].links);
        }
        assert!(links.windows(2).all(|pair| pair[0] == pair[1]), "flow {port} moved");
        used |= links[0].bits();
    }
    assert_eq!(used, 0b1111);
    bond.set_link(at(2), link(2), down());
    for port in 1000..1100 {
        bond.handle_host(at(3), udp(PEER, BOND, port));
    }
    assert!(drain(&mut bond).iter().all(|sent| !sent.links.contains(link(2))));
    assert_eq!(bond.stats().host_no_link, 0);
    (0..4).for_each(|n| bond.set_link(at(4), link(n), down()));
    bond.handle_host(at(5), udp(PEER, BOND, 1));
    bond.handle_host(at(5), vec![0; 13]);
    assert_eq!((bond.stats().host_no_link, bond.stats().host_malformed), (1, 1));
}

#[test]
fn broadcast_sends_a_copy_on_every_link() {
    let mut bond = bond("broadcast", 3, |_| {});
    bond.handle_host(at(1), udp(PEER, BOND, 9));
    let sent = drain(&mut bond);
    assert_eq!((sent.len(), sent[0].links.bits()), (1, 0b111));
    assert_eq!(bond.link_stats(link(2)).map(|stats| stats.sent_packets), Some(1));
}

#[test]
fn active_backup_listens_to_the_current_link_only_and_announces_a_fail_over() {
    let mut bond = bond("active-backup", 2, |config| config.announcements = 2);
    bond.set_addresses(&[HOST.into(), "fe80::1".parse::<IpAddr>().expect("an address")]);
    run(&mut bond, at(1000));
    assert_eq!(bond.current(), Some(link(0)));
    let frame = udp(BOND, PEER, 80);
    assert!(delivered(bond.handle_link(at(1001), link(0), &frame)));
    assert_eq!(bond.handle_link(at(1001), link(1), &frame), Received::Dropped);
    assert_eq!(bond.link_stats(link(1)).map(|stats| stats.received_inactive), Some(1));
    events(&mut bond);

    bond.set_link(at(1002), link(0), down());
    assert_eq!(
        events(&mut bond),
        [Event::LinkDown { link: link(0) }, Event::Current { link: Some(link(1)) }],
        "the other one takes over"
    );
    let said = run(&mut bond, at(2000));
    assert_eq!(said.len(), 4, "ARP and neighbour discovery, twice");
    for (n, (when, transmit)) in said.iter().enumerate() {
        assert_eq!(*when, if n < 2 { at(1002) } else { at(1102) });
        assert!(transmit.links.contains(link(1)) && transmit.links.len() == 1);
        match (Arp::parse(&transmit.frame), Neighbour::parse(&transmit.frame)) {
            (Some(arp), None) => {
                assert_eq!((arp.sender_mac, arp.sender_ip, arp.target_ip), (BOND, HOST, HOST));
                assert_eq!(Header::parse(&transmit.frame).map(|h| h.destination), Some(Mac::BROADCAST));
            }
            (None, Some(told)) => assert_eq!((told.mac, told.advertisement), (Some(BOND), true)),
            other => panic!("{other:?}"),
        }
    }
    assert!(delivered(bond.handle_link(at(2001), link(1), &frame)));
    assert_eq!(bond.stats().fail_overs, 1);
}

#[test]
fn with_fail_over_mac_active_the_bonds_address_is_the_current_links() {
    let mut bond = bond("active-backup:fail_over_mac=active", 2, |_| {});
    assert_eq!(bond.mac(), link_mac(0));
    assert!(delivered(bond.handle_link(at(1), link(0), &udp(link_mac(0), PEER, 80))));
    events(&mut bond);
    bond.set_link(at(2), link(0), down());
    assert!(events(&mut bond).contains(&Event::Address { mac: link_mac(1) }));
    let said = run(&mut bond, at(3));
    let arp = Arp::parse(&said[0].1.frame).expect("a gratuitous ARP");
    assert_eq!((arp.sender_mac, bond.mac()), (link_mac(1), link_mac(1)));
}

#[test]
fn with_fail_over_mac_active_another_device_on_the_current_link_brings_its_address() {
    let mut bond = bond("active-backup:fail_over_mac=active,arp_interval=1s", 2, |c| c.arp_targets = vec![GATEWAY]);
    run(&mut bond, at(1));
    events(&mut bond);
    let other = Mac([2, 0xaa, 0, 0, 0, 9]);
    bond.set_link_address(at(2), link(1), Mac([2, 0xaa, 0, 0, 0, 8]));
    assert!(events(&mut bond).is_empty(), "it is not in use");
    bond.set_link_address(at(3), link(0), other);
    assert_eq!((bond.mac(), events(&mut bond)), (other, vec![Event::Address { mac: other }]));
    bond.set_link_address(at(3), link(0), other);
    bond.set_link_address(at(3), link(7), other);
    assert!(events(&mut bond).is_empty());
    let said = run(&mut bond, at(1500));
    let arps: Vec<_> =
        said.iter().filter_map(|(_, sent)| Some((sent.links.bits(), Arp::parse(&sent.frame)?))).collect();
    assert_eq!((arps[0].1.sender_mac, arps[0].1.sender_ip), (other, HOST), "it is announced");
    let probe = arps.iter().find(|(links, arp)| *links == 1 && arp.target_ip == GATEWAY).expect("a probe");
    assert_eq!(probe.1.sender_mac, other);
    assert!(delivered(bond.handle_link(at(1600), link(0), &udp(other, PEER, 80))));
    assert_eq!(bond.handle_link(at(1600), link(0), &udp(link_mac(0), PEER, 80)), Received::Dropped);
}

#[test]
fn a_primary_link_that_comes_back_is_used_as_primary_reselect_says() {
    for (policy, slow_back, fast_back) in [("always", 1, 1), ("better", 0, 1), ("failure", 0, 0)] {
        for (name, back) in [("active-backup", slow_back), ("balance-tlb", slow_back), ("balance-alb", slow_back)] {
            let mut bond = bond(&format!("{name}:primary=eth1,primary_reselect={policy}"), 2, |_| {});
            assert_eq!(bond.current(), Some(link(1)), "{name}, {policy}");
            bond.set_link(at(1), link(1), down());
            assert_eq!(bond.current(), Some(link(0)));
            bond.set_link(at(2), link(1), up(100));
            assert_eq!(bond.current(), Some(link(back)), "{name}, {policy}");
            bond.set_link(at(3), link(1), down());
            bond.set_link(at(4), link(1), up(10_000));
            assert_eq!(bond.current(), Some(link(fast_back)), "{name}, {policy}");
        }
    }
}

#[test]
fn updelay_downdelay_missed_max_and_lp_interval_are_kept_to() {
    let mut bond = bond("balance-alb:updelay=300ms,downdelay=200ms,lp_interval=3s", 2, |_| {});
    run(&mut bond, at(1000));
    let taught = run(&mut bond, at(9_500)).into_iter().map(|(when, _)| when).collect::<Vec<_>>();
    assert_eq!(taught, [at(3000), at(3000), at(6000), at(6000), at(9000), at(9000)]);
    bond.set_link(at(10_000), link(1), down());
    run(&mut bond, at(10_199));
    assert_eq!(bond.links().usable().bits(), 0b11);
    run(&mut bond, at(10_200));
    assert_eq!(bond.links().usable().bits(), 0b01);
    bond.set_link(at(11_000), link(1), up(1000));
    run(&mut bond, at(11_299));
    assert_eq!(bond.links().usable().bits(), 0b01);
    run(&mut bond, at(11_300));
    assert_eq!(bond.links().usable().bits(), 0b11);
    for (missed, gone) in [(1, 200), (5, 600)] {
        let policy = format!("active-backup:arp_interval=100ms,missed_max={missed}");
        let mut bond = self::bond(&policy, 2, |config| config.arp_targets = vec![GATEWAY]);
        run(&mut bond, at(gone - 1));
        assert_eq!(bond.links().usable().len(), 2, "{policy}");
        run(&mut bond, at(gone));
        assert_eq!(bond.links().usable().len(), 0, "{policy}");
    }
}

#[test]
fn what_a_bond_says_by_lacp_is_what_its_options_say() {
    let policy = "802.3ad:lacp_rate=fast,ad_user_port_key=77,ad_actor_sys_prio=100,ad_actor_system=02:ab:cd:00:00:01";
    let said = |policy: &str| {
        let mut sent: Vec<_> = run(&mut bond(policy, 1, |_| {}), at(3000)).into_iter().map(|(_, sent)| sent).collect();
        sent.extend(drain(&mut bond(policy, 1, |_| {})));
        let pdus = sent.iter().map(|sent| Pdu::decode(&sent.frame).expect("a PDU"));
        pdus.map(|pdu| match pdu {
            Pdu::Lacp(pdu) => pdu.actor,
            other => panic!("{other:?}"),
        })
        .next_back()
    };
    let actor = said(policy).expect("LACPDUs");
    assert_eq!((actor.key >> 6, actor.system_priority), (77, 100));
    assert_eq!(actor.system, Mac([2, 0xab, 0xcd, 0, 0, 1]));
    assert!(actor.state.has(State::TIMEOUT) && actor.state.has(State::ACTIVITY));
    let plain = said("802.3ad").expect("LACPDUs");
    assert_eq!((plain.key >> 6, plain.system_priority, plain.system), (0, 65_535, BOND));
    assert!(!plain.state.has(State::TIMEOUT));
    assert_eq!(said("802.3ad:lacp_active=off"), None, "nobody asked");
}

/// One flow's packets of 1000 bytes, one each `gap`, over links of 1 Gbit/s of which these are the delays in milliseconds.
/// How many took each link, and how many arrive before one that was sent earlier.
fn adaptive(policy: &str, delays: [u64; 2], gap: Span) -> ([usize; 2], usize) {
    let links = (0..2).map(|n| {
        let mut config = LinkConfig::new(format!("eth{n}"), link_mac(n));
        config.delay = Span::from_millis(delays[usize::from(n)]);
        config
    });
    let mut bond = bond_of(policy, links.collect(), |_| {});
    let (mut packets, mut overtaking, mut latest, mut now) = ([0; 2], 0, Time::ZERO, at(1));
    for _ in 0..1000 {
        let mut bytes = udp(PEER, BOND, 1);
        bytes.resize(1000, 0);
        bond.handle_host(now, bytes);
        let on = drain(&mut bond).pop().and_then(|sent| sent.links.first()).expect("one link").index();
        let arrives = now + Span::from_micros(8) + Span::from_millis(delays[on]);
        packets[on] += 1;
        overtaking += usize::from(arrives < latest);
        latest = latest.max(arrives);
        now += gap;
    }
    (packets, overtaking)
}

#[test]
fn a_policy_that_adapts_moves_flows_where_the_links_delays_keep_their_order() {
    for policy in ["brr:adaptive", "flowlet:adaptive", "potent:adaptive"] {
        let (packets, _) = adaptive(policy, [0, 0], Span::from_micros(50));
        assert!(packets.contains(&1000), "{policy}: within what links of a LAN differ by, {packets:?}");
        let (packets, overtaking) = adaptive(policy, [0, 0], Span::from_micros(150));
        // Of a heavy flow `potent` has its own idea.
        let spread = policy.starts_with("potent") || packets.iter().all(|packets| *packets > 300);
        assert!(spread && overtaking == 0, "{policy}: like links, {packets:?}");
        let (packets, overtaking) = adaptive(policy, [0, 20], Span::from_millis(5));
        assert_eq!(overtaking, 0, "{policy}: {packets:?}");
        let (packets, overtaking) = adaptive(policy, [0, 20], Span::from_millis(25));
        assert!(overtaking == 0 && packets[0] > 0, "{policy}: {packets:?}");
    }
    let (_, overtaking) = adaptive("brr:2ms", [0, 20], Span::from_millis(5));
    assert!(overtaking > 300, "{overtaking}: a constant threshold below the difference does reorder");
}

#[test]
fn frames_that_are_not_the_hosts_do_not_reach_it_and_each_is_counted_under_its_reason() {
    let mut bond = bond("balance-rr", 2, |_| {});
    let other = Mac([2, 0xdd, 0, 0, 0, 1]);
    let lldp = Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
    let multicast = Mac([1, 0, 0x5e, 0, 0, 1]);
    for (destination, source, reaches) in [
        (BOND, PEER, true),
        (Mac::BROADCAST, PEER, true),
        (multicast, PEER, true),
        (other, PEER, false),
        (lldp, PEER, false),
        (BOND, BOND, false),
        (Mac::BROADCAST, link_mac(1), false),
    ] {
        let received = bond.handle_link(at(1), link(0), &udp(destination, source, 80));
        assert_eq!(delivered(received), reaches, "{source} to {destination}");
    }
    assert_eq!(bond.handle_link(at(1), link(0), &[0; 13]), Received::Dropped);
    let stats = bond.link_stats(link(0)).expect("the link");
    assert_eq!(
        (stats.received_other_station, stats.received_link_local, stats.received_own, stats.received_malformed),
        (1, 1, 2, 1)
    );
    bond.set_promiscuous(true);
    assert!(delivered(bond.handle_link(at(2), link(0), &udp(other, PEER, 80))), "a bridge wants it");
    assert_eq!(bond.handle_link(at(2), link(9), &udp(BOND, PEER, 80)), Received::Dropped, "there is no such link");
}

#[test]
fn a_link_whose_arp_probes_are_not_answered_is_left_for_one_whose_are() {
    let mut bond = bond("active-backup:arp_interval=100ms,missed_max=2", 2, |c| c.arp_targets = vec![GATEWAY]);
    let mut now = at(0);
    // Both are answered for a second, then only the second one.
    while now < at(2000) {
        for (when, transmit) in run(&mut bond, now) {
            let Some(probe) = Arp::parse(&transmit.frame).filter(|arp| arp.sender_ip.is_unspecified()) else {
                continue;
            };
            let asked = transmit.links.first().expect("one link");
            assert_eq!((probe.sender_mac, probe.target_ip), (link_mac(asked.0), GATEWAY));
            if asked == link(1) || when < at(1000) {
                let answer = Arp {
                    operation: Arp::REPLY,
                    sender_mac: PEER,
                    sender_ip: GATEWAY,
                    target_mac: probe.sender_mac,
                    target_ip: Ipv4Addr::UNSPECIFIED,
                };
                let answer = answer.frame(probe.sender_mac, PEER);
                assert_eq!(bond.handle_link(when, asked, &answer), Received::Consumed);
            }
        }
        if now == at(1100) {
            assert_eq!(bond.current(), Some(link(0)));
        }
        now += Span::from_millis(10);
    }
    assert_eq!((bond.current(), bond.links().usable().bits()), (Some(link(1)), 0b10));
    assert!(bond.stats().arp_answers >= 25, "{:?}", bond.stats());
}

/// A full queue of 1500 bytes at 10 Mbit/s: 1.2 ms each.
#[test]
fn the_queue_of_a_link_is_reckoned_from_its_rate_and_least_queue_goes_by_it() {
    let mut bond = bond("least_queue", 2, |_| {});
    bond.set_link(at(0), link(0), up(10));
    bond.set_link(at(0), link(1), up(30));
    let mut bytes = udp(PEER, BOND, 1);
    bytes.resize(1500, 0);
    for _ in 0..400 {
        bond.handle_host(at(1), bytes.clone());
    }
    let sent = |n| bond.link_stats(link(n)).map(|stats| stats.sent_packets).unwrap_or_default();
    assert_eq!(sent(0) + sent(1), 400);
    let state = |n| *bond.links().get(link(n)).expect("the link");
    // Least queue in bytes: both alike, so that the queues are of one length whatever the rates are.
    assert!(state(0).backlog.as_u64().abs_diff(state(1).backlog.as_u64()) <= 1500, "{:?}", bond.links());
    assert!(state(0).free > state(1).free);
    bond.handle_host(at(5000), bytes);
    assert!(state_of_idle(&bond), "what was sent long ago has left");
}

fn state_of_idle(bond: &Lan<Vec<u8>>) -> bool {
    (0..2).filter(|n| bond.links().get(link(*n)).is_some_and(|state| state.free <= at(5000))).count() == 1
}

#[test]
fn two_bonds_that_speak_lacp_agree_and_leave_a_link_that_fails() {
    let mut ends = [bond("802.3ad:layer3+4,lacp_rate=fast", 2, |_| {}), bond("802.3ad:lacp_rate=fast", 2, |_| {})];
    let links = (0..2).map(|n| LinkConfig::new(format!("e{n}"), Mac([2, 0xee, 0, 0, 0, n]))).collect();
    let config = Config::new("802.3ad:lacp_rate=fast".parse().expect("a policy"), Mac([2, 0xb1, 0, 0, 0, 0]));
    ends[1] = Lan::new(config, links, 8).expect("a bond");
    (0..2).for_each(|n| ends[1].set_link(at(0), link(n), up(1000)));
    let mut cut = false;
    let mut now = at(0);
    while now < at(12_000) {
        for end in 0..2 {
            let sent: Vec<_> = drain(&mut ends[end]);
            for transmit in sent {
                for port in transmit.links.iter().filter(|port| !(cut && *port == link(1))) {
                    ends[1 - end].handle_link(now, port, &transmit.frame);
                }
            }
        }
        now = ends.iter().filter_map(Lan::poll_timeout).min().map_or(at(12_000), |due| due.max(now));
        ends.iter_mut().for_each(|end| end.handle_timeout(now));
        if now >= at(6000) && !cut {
            assert_eq!(ends.each_ref().map(|end| end.links().usable().bits()), [0b11, 0b11], "both carry");
            cut = true;
        }
    }
    // Silence, not carrier, told it: the fast timeout is 3 s.
    assert_eq!(ends.each_ref().map(|end| end.links().usable().bits()), [0b01, 0b01]);
    ends[0].handle_host(now, udp(PEER, BOND, 5));
    assert_eq!(drain(&mut ends[0]).last().map(|sent| sent.links.bits()), Some(0b01));
    assert_eq!(ends[0].handle_link(now, link(1), &udp(BOND, PEER, 5)), Received::Dropped);
    assert!(delivered(ends[0].handle_link(now, link(0), &udp(BOND, PEER, 5))));
}

/// Two bonds over two links, the first of which takes 80 ms and the second 1 ms; the second joins late, so that half of the
/// flows move to it. How many frames arrive behind a later one of their flow, how many arrive, and how many flows moved.
fn join_late(flush: &str) -> (usize, usize, u64) {
    let policy = format!("802.3ad:layer3+4,lacp_rate=fast{flush}");
    let mut ends = [bond(&policy, 2, |_| {}), bond("802.3ad:lacp_rate=fast", 2, |_| {})];
    let links = (0..2).map(|n| LinkConfig::new(format!("e{n}"), Mac([2, 0xee, 0, 0, 0, n]))).collect();
    let config = Config::new("802.3ad:lacp_rate=fast".parse().expect("a policy"), PEER);
    ends[1] = Lan::new(config, links, 8).expect("a bond");
    ends[0].set_link(at(0), link(1), down());
    ends[1].set_link(at(0), link(0), up(1000));
    // When, a tie's order, to which end, over which link, and what.
    let mut wire: std::collections::BTreeMap<(u64, u64), (usize, ChannelId, Vec<u8>)> = Default::default();
    let (mut order, mut sent) = (0, 0u32);
    let mut newest = [0u32; 40];
    let (mut behind, mut arrived) = (0, 0);
    for ms in 0..9000 {
        let now = at(ms);
        if ms == 4000 {
            ends.iter_mut().for_each(|end| end.set_link(now, link(1), up(1000)));
        }
        while let Some(entry) = wire.first_entry().filter(|entry| entry.key().0 <= ms) {
            let (end, on, bytes) = entry.remove();
            let data = Header::parse(&bytes).is_some_and(|header| header.ether_type == 0x0800);
            if delivered(ends[end].handle_link(now, on, &bytes)) && data {
                let flow = usize::from(u16::from_be_bytes([bytes[34], bytes[35]])) - 1000;
                let number = u32::from_be_bytes(bytes[42..46].try_into().expect("four bytes"));
                behind += usize::from(number < newest[flow]);
                newest[flow] = newest[flow].max(number);
                arrived += 1;
            }
        }
        // Every millisecond one frame of each of 40 flows.
        if (3000..8000).contains(&ms) {
            for flow in 0..40 {
                sent += 1;
                let mut bytes = udp(PEER, BOND, 1000 + flow);
                bytes[42..46].copy_from_slice(&sent.to_be_bytes());
                ends[0].handle_host(now, bytes);
            }
        }
        for (end, bond) in ends.iter_mut().enumerate() {
            if bond.poll_timeout().is_some_and(|due| due <= now) {
                bond.handle_timeout(now);
            }
            for transmit in drain(bond) {
                for on in transmit.links.iter() {
                    order += 1;
                    let delay = if on == link(0) { 80 } else { 1 };
                    wire.insert((ms + delay, order), (1 - end, on, transmit.frame.clone()));
                }
            }
        }
    }
    assert_eq!(ends[0].links().usable().bits(), 0b11, "the late link carries");
    assert!(ends[0].link_stats(link(1)).is_some_and(|stats| stats.sent_packets > 10_000), "and much");
    assert_eq!(arrived, 200_000, "all arrive");
    (behind, arrived, ends[0].flush().map_or(0, |flush| flush.moved))
}

#[test]
fn flows_that_move_behind_markers_to_a_faster_link_are_not_reordered_as_they_are_without() {
    let (behind, ..) = join_late("");
    assert!(behind > 500, "{behind} frames: the move alone reorders, else this shows nothing");
    let (behind, _, moved) = join_late(",flush=on,flush_wait=500ms");
    assert_eq!(behind, 0);
    assert!(moved >= 10, "{moved} flows moved");
}

#[test]
fn balance_tlb_sends_from_the_links_own_address_where_it_is_not_the_current_one_and_teaches_the_switch() {
    let mut bond = bond("balance-tlb:tlb_dynamic_lb=off,xmit_hash_policy=layer3+4", 3, |_| {});
    let taught: Vec<_> = run(&mut bond, at(999)).into_iter().map(|(_, sent)| sent).collect();
    let current = bond.current().expect("a current link");
    let mut learnt: Vec<_> = taught
        .iter()
        .filter_map(|sent| Some((sent.links.first()?, Header::parse(&sent.frame)?)))
        .filter(|(_, header)| header.ether_type == frame::TYPE_LOOPBACK)
        .map(|(on, header)| (on, header.source, header.destination))
        .collect();
    learnt.sort_unstable();
    let mac_on = |n: u8| if link(n) == current { BOND } else { link_mac(n) };
    assert_eq!(learnt, (0..3).map(|n| (link(n), mac_on(n), mac_on(n))).collect::<Vec<_>>());
    let mut used = 0;
    for port in 0..64 {
        bond.handle_host(at(1000), udp(PEER, BOND, port));
        let sent = drain(&mut bond).remove(0);
        let on = sent.links.first().expect("one link");
        assert_eq!(sent.source, (on != current).then(|| link_mac(on.0)));
        used |= sent.links.bits();
    }
    assert_eq!(used, 0b111);
    assert_eq!(bond.handle_link(at(1001), link(2), &udp(BOND, PEER, 1)), Received::Dropped);
    assert_eq!(run(&mut bond, at(1500)).len(), 3, "again every second");
}

/// Clients of an `balance-alb` bond: what each last learnt of the host's address.
struct Clients {
    learnt: Vec<Option<Mac>>,
}

impl Clients {
    fn ip(n: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 3, 31, 1 + n as u8)
    }

    fn mac(n: usize) -> Mac {
        Mac([2, 0xcc, 0, 0, 1, n as u8])
    }

    /// Frames of the bond reach whom they are for.
    fn hear(&mut self, sent: impl IntoIterator<Item = Transmit<Vec<u8>>>) {
        for transmit in sent {
            let Some(arp) = Arp::parse(&transmit.frame) else { continue };
            let to = Header::parse(&transmit.frame).expect("a header").destination;
            for (n, learnt) in self.learnt.iter_mut().enumerate() {
                let mine = arp.target_ip == Clients::ip(n) && to == Clients::mac(n);
                let known = learnt.is_some() && to == Mac::BROADCAST && arp.sender_ip == HOST;
                if mine || known {
                    *learnt = Some(arp.sender_mac);
                }
                if mine {
                    assert_eq!(transmit.source.unwrap_or(arp.sender_mac), arp.sender_mac, "the frame's own source");
                }
            }
        }
    }

    /// Each asks for the host, and the host answers.
    fn ask(&mut self, bond: &mut Lan<Vec<u8>>, now: Time) {
        for n in 0..self.learnt.len() {
            let question = Arp {
                operation: Arp::REQUEST,
                sender_mac: Clients::mac(n),
                sender_ip: Clients::ip(n),
                target_mac: Mac::ZERO,
                target_ip: HOST,
            };
            let on = bond.current().expect("a current link");
            let question = question.frame(Mac::BROADCAST, Clients::mac(n));
            assert!(delivered(bond.handle_link(now, on, &question)));
            let answer = Arp {
                operation: Arp::REPLY,
                sender_mac: BOND,
                sender_ip: HOST,
                target_mac: Clients::mac(n),
                target_ip: Clients::ip(n),
            };
            bond.handle_host(now, answer.frame(Clients::mac(n), BOND));
            self.hear(drain(bond));
        }
    }

    /// How many send to each link.
    fn spread(&self, bond: &Lan<Vec<u8>>, links: u8) -> Vec<usize> {
        let mac_on = |n: u8| if bond.current() == Some(link(n)) { BOND } else { link_mac(n) };
        (0..links).map(|n| self.learnt.iter().filter(|mac| **mac == Some(mac_on(n))).count()).collect()
    }
}

#[test]
fn balance_alb_gives_clients_other_links_addresses_and_moves_them_when_links_come_and_go() {
    let mut bond = bond("balance-alb", 4, |_| {});
    run(&mut bond, at(100));
    let mut clients = Clients { learnt: vec![None; 8] };
    clients.ask(&mut bond, at(200));
    assert_eq!(clients.spread(&bond, 4), [2, 2, 2, 2]);

    // What a client sends to its link's address reaches the host under the bond's.
    let to_link = udp(link_mac(3), PEER, 80);
    assert_eq!(bond.handle_link(at(300), link(3), &to_link), Received::Deliver { destination: Some(BOND) });
    assert_eq!(bond.handle_link(at(300), link(3), &udp(Mac::BROADCAST, PEER, 80)), Received::Dropped);

    bond.set_link(at(1000), link(3), down());
    clients.hear(run(&mut bond, at(1500)).into_iter().map(|(_, sent)| sent));
    let spread = clients.spread(&bond, 4);
    assert_eq!((spread[3], spread.iter().sum::<usize>()), (0, 8), "{spread:?}");
    bond.set_link(at(2000), link(3), up(1000));
    clients.hear(run(&mut bond, at(2500)).into_iter().map(|(_, sent)| sent));
    assert_eq!(clients.spread(&bond, 4), [2, 2, 2, 2]);

    // The current link fails: its clients and those of the new one are told.
    bond.set_link(at(3000), link(0), down());
    clients.hear(run(&mut bond, at(6000)).into_iter().map(|(_, sent)| sent));
    let spread = clients.spread(&bond, 4);
    assert_eq!((spread[0], spread.iter().sum::<usize>()), (0, 8), "{spread:?}");

    // The host asks for somebody: all hear the bond's address, and are told theirs again.
    let question = Arp {
        operation: Arp::REQUEST,
        sender_mac: BOND,
        sender_ip: HOST,
        target_mac: Mac::ZERO,
        target_ip: Clients::ip(20),
    };
    bond.handle_host(at(7000), question.frame(Mac::BROADCAST, BOND));
    clients.hear(drain(&mut bond));
    assert_eq!(clients.learnt, vec![Some(BOND); 8]);
    clients.hear(run(&mut bond, at(10_000)).into_iter().map(|(_, sent)| sent));
    assert_eq!(clients.spread(&bond, 4), spread);
}

#[test]
fn balance_alb_balances_neighbour_discovery_and_takes_clients_by_the_links_rates() {
    let mut bond = bond("balance-alb", 2, |_| {});
    bond.set_link(at(0), link(0), up(3000));
    run(&mut bond, at(100));
    let ours = "fe80::1".parse().expect("an address");
    let mut told = [0; 2];
    for n in 0..8u8 {
        let theirs = Mac([2, 0xcc, 0, 0, 2, n]);
        let mut answer = Neighbour::update(BOND, ours, (theirs, format!("fe80::1:{n}").parse().expect("an address")));
        answer[58] |= 0x40;
        let sum = u16::from_be_bytes([answer[56], answer[57]]) - 0x4000;
        answer[56..58].copy_from_slice(&sum.to_be_bytes());
        bond.handle_host(at(200), answer);
        let sent = drain(&mut bond).remove(0);
        let parsed = Neighbour::parse(&sent.frame).expect("its checksum is right");
        let on = sent.links.first().expect("one link");
        assert_eq!(parsed.mac, Some(if bond.current() == Some(on) { BOND } else { link_mac(on.0) }));
        told[on.index()] += 1;
    }
    assert_eq!(told, [6, 2]);
}

#[test]
fn a_flood_of_clients_keeps_the_table_bounded() {
    let mut bond = bond("balance-alb", 2, |_| {});
    for n in 0..5000u32 {
        let ip = Ipv4Addr::from(0x0a00_0000 + n);
        let arp = Arp { operation: Arp::REPLY, sender_mac: BOND, sender_ip: HOST, target_mac: PEER, target_ip: ip };
        bond.handle_host(at(1), arp.frame(PEER, BOND));
        drain(&mut bond);
    }
    assert_eq!(bond.clients(link(0)) + bond.clients(link(1)), 256);
}

#[test]
fn min_links_counts_the_ports_that_are_up_and_not_those_whose_partner_is_ready() {
    let mut bond = bond("802.3ad:lacp_rate=fast,min_links=2", 2, |_| {});
    let states = [State(0x1f), State(0x07)]; // of two ports of one partner, only one takes frames
    for second in 0..4 {
        for (n, state) in (0..).zip(states) {
            let partner = bond.lacp().and_then(|lacp| lacp.port(link(n))).expect("a port").actor;
            let actor =
                PortInfo { system_priority: 1, system: PEER, key: 3, port_priority: 1, port: 1 + u16::from(n), state };
            let pdu = Pdu::Lacp(Lacpdu { actor, partner, collector_max_delay: 0 });
            assert_eq!(bond.handle_link(at(1000 * second), link(n), &pdu.encode(PEER)), Received::Consumed);
        }
        run(&mut bond, at(1000 * second + 999));
    }
    bond.handle_host(at(4000), udp(PEER, BOND, 5));
    assert_eq!(drain(&mut bond).last().map(|sent| sent.links.bits()), Some(0b01));
    bond.set_link(at(4001), link(1), down());
    drain(&mut bond);
    bond.handle_host(at(4002), udp(PEER, BOND, 5));
    assert_eq!((drain(&mut bond).len(), bond.stats().host_no_link), (0, 1), "one port is up");
}

#[test]
fn no_frame_from_either_side_makes_any_policy_panic_and_none_is_lost_uncounted() {
    let policies = [
        "balance-rr",
        "balance-rr:0",
        "active-backup",
        "balance-xor:encap3+4",
        "broadcast",
        "802.3ad:layer2+3",
        "brr",
        "flowlet",
        "least_queue",
        "balance-tlb",
        "balance-alb",
        "n_to_one",
        "layer34-xor",
        "fastest_transmit",
        "potent",
    ];
    for (seed, policy) in policies.into_iter().enumerate() {
        let mut rng = Rng::new(seed as u64);
        let mut bond = bond(policy, 3, |_| {});
        let (mut host, mut host_out) = (0, 0);
        for step in 0..3000 {
            let now = at(step);
            let mut bytes = udp(BOND, PEER, rng.below(5) as u16);
            if rng.below(3) == 0 {
                bytes = Neighbour::announcement(PEER, "fe80::9".parse().expect("an address"));
            }
            for _ in 0..rng.below(4) {
                let place = rng.below(bytes.len() as u64) as usize;
                bytes[place] = rng.below(256) as u8;
            }
            bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
            match rng.below(10) {
                0 => bond.set_link(now, link(rng.below(3) as u8), if rng.below(2) == 0 { up(10) } else { down() }),
                1..=5 => {
                    host += 1;
                    bond.handle_host(now, bytes);
                }
                _ => drop(bond.handle_link(now, link(rng.below(3) as u8), &bytes)),
            }
            host_out += drain(&mut bond).iter().filter(|t| Header::parse(&t.frame).is_some() && is_hosts(t)).count();
            if bond.poll_timeout().is_some_and(|due| due <= now) {
                bond.handle_timeout(now);
                drain(&mut bond);
            }
            events(&mut bond);
        }
        let stats = bond.stats();
        assert_eq!(stats.host_packets, host, "{policy}");
        assert_eq!(host_out as u64 + stats.host_malformed + stats.host_no_link, host, "{policy}, seed {seed}");
    }
}

/// Not one of the bond's own: those go to groups that the test's host does not send to.
fn is_hosts(transmit: &Transmit<Vec<u8>>) -> bool {
    let header = Header::parse(&transmit.frame).expect("whole");
    !(header.ether_type == frame::TYPE_SLOW && transmit.frame.len() == 124)
}
