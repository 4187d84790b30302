//! Whose Ethernet address is whose in a bond of Ethernet links, and whose ARP answers are whose.

use crate::lan_support::*;
use fairspan_core::lan::frame::Arp;
use fairspan_core::lan::{Event, LinkConfig, Received};
use fairspan_core::units::ChannelId;
use fairspan_core::wire::mac::Mac;
use std::net::Ipv4Addr;

#[test]
fn with_fail_over_mac_follow_the_link_in_use_has_the_bonds_address_and_who_had_it_gets_the_other_ones() {
    let mut bond = bond("active-backup:fail_over_mac=follow,arp_interval=1s", 3, |c| {
        (c.mac, c.arp_targets) = (link_mac(0), vec![GATEWAY]);
    });
    assert!(!events(&mut bond).iter().any(|event| matches!(event, Event::LinkAddress { .. })), "it has it already");
    bond.set_link(at(1), link(0), down());
    let swap = |to: u8, from: u8, own: u8| {
        [(to, link_mac(0)), (from, link_mac(own))].map(|(n, mac)| Event::LinkAddress { link: link(n), mac })
    };
    assert_eq!(events(&mut bond)[2..], swap(1, 0, 1), "the new one first, as the driver does");
    assert_eq!(bond.mac(), link_mac(0));
    let said = run(&mut bond, at(1500));
    let arps: Vec<_> =
        said.iter().filter_map(|(_, sent)| Some((sent.links.bits(), Arp::parse(&sent.frame)?))).collect();
    let announced = arps.iter().find(|(_, arp)| arp.sender_ip == HOST).expect("an announcement");
    assert_eq!((announced.0, announced.1.sender_mac), (0b10, link_mac(0)));
    let prober = |links| arps.iter().find(|(on, arp)| *on == links && arp.target_ip == GATEWAY).expect("probed");
    assert_eq!((prober(0b10).1.sender_mac, prober(0b100).1.sender_mac), (link_mac(0), link_mac(2)));
    // The third one takes over from the second one, the first one back is no primary.
    bond.set_link(at(1600), link(0), up(1000));
    bond.set_link(at(1700), link(1), down());
    let told: Vec<_> =
        events(&mut bond).into_iter().filter(|event| matches!(event, Event::LinkAddress { .. })).collect();
    assert_eq!(told, swap(0, 1, 1), "the first usable one takes over");
    assert!(delivered(bond.handle_link(at(1701), link(0), &udp(link_mac(0), PEER, 80))));
}

#[test]
fn with_fail_over_mac_follow_a_device_that_comes_never_keeps_the_address_of_the_link_in_use() {
    let mut bond = bond("active-backup:fail_over_mac=follow", 2, |c| c.mac = link_mac(0));
    bond.set_link(at(1), link(0), down());
    events(&mut bond);
    // The device is put in again, with the address that it is made with.
    bond.set_link_address(at(2), link(0), link_mac(0));
    let told = events(&mut bond);
    assert!(matches!(told[..], [Event::LinkAddress { link: ChannelId(0), mac }] if mac != link_mac(0)), "{told:?}");
    // Another device comes on the link in use: it is given the bond's address, and everybody hears where that is.
    run(&mut bond, at(3));
    bond.set_link_address(at(4), link(1), Mac([2, 0xaa, 0, 0, 0, 9]));
    assert_eq!(events(&mut bond), [Event::LinkAddress { link: link(1), mac: link_mac(0) }]);
    let said = run(&mut bond, at(5));
    assert_eq!(said.first().and_then(|(_, sent)| Arp::parse(&sent.frame)).map(|arp| arp.sender_ip), Some(HOST));
}

#[test]
fn with_fail_over_mac_follow_no_two_links_have_the_same_address_whichever_is_in_use() {
    let spare = |told: &[Event]| match told {
        [Event::LinkAddress { link, mac }] => (*link, *mac),
        other => panic!("{other:?}"),
    };
    // Two that begin with the same one, as networks on one device do: the one in use keeps it.
    let links = (0..3).map(|n| LinkConfig::new(format!("eth{n}"), link_mac(n.min(1)))).collect();
    let mut bond = bond_of("active-backup:fail_over_mac=follow", links, |c| c.mac = link_mac(0));
    events(&mut bond);
    for n in 0..3 {
        bond.set_link_address(at(1), link(n), link_mac(n.min(1)));
    }
    let (first, mac) = spare(&events(&mut bond));
    assert!(first == link(1) && ![link_mac(0), link_mac(1)].contains(&mac), "{first:?} {mac}");
    // None is in use, and a device comes with an address that another link was given: it is given one of its own.
    for n in 0..3 {
        bond.set_link(at(2), link(n), down());
    }
    events(&mut bond);
    bond.set_link_address(at(3), link(0), link_mac(1));
    let (second, other) = spare(&events(&mut bond));
    assert!(second == link(0) && ![link_mac(0), link_mac(1)].contains(&other), "{second:?} {other}");
}

#[test]
fn an_arp_answer_to_the_host_reaches_it_also_where_the_link_probes_from_the_bonds_address() {
    for (policy, bonds) in [("active", link_mac(0)), ("follow", BOND)] {
        let policy = format!("active-backup:fail_over_mac={policy},arp_interval=100ms");
        let mut bond = bond(&policy, 2, |c| c.arp_targets = vec![GATEWAY]);
        assert_eq!(bond.mac(), bonds);
        let mut answer = |to| {
            let [sender_mac, target_mac] = [PEER, bonds];
            let arp = Arp { operation: Arp::REPLY, sender_mac, sender_ip: GATEWAY, target_mac, target_ip: to };
            bond.handle_link(at(1), link(0), &arp.frame(bonds, PEER))
        };
        assert!(delivered(answer(HOST)), "{policy}: the host asked");
        assert_eq!(answer(Ipv4Addr::UNSPECIFIED), Received::Consumed, "{policy}: the bond asked");
    }
}
