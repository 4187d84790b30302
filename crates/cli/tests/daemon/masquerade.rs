//! What peers send to others leaves as the hub's own.

use crate::common::*;
use rustix::process::Signal;
use std::net::UdpSocket;

/// A site, its hub, and a host in the internet behind the hub that knows no route to the site.
fn scene() -> Option<(Pair, String)> {
    let lab = Lab::new(&["site", "hub", "world"])?;
    lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
    lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
    lab.cable(("hub", "wan0", "203.0.113.1/24"), ("world", "eth0", "203.0.113.9/24"));
    lab.ip("hub", &["route", "add", "default", "via", "203.0.113.9"]);
    // As its owner has it, since the hub is a router.
    lab.run("hub", || std::fs::write("/proc/sys/net/ipv4/conf/wan0/forwarding", "1").expect("a setting"));
    let pair = Pair { lab, site_key: keys(), hub_key: keys() };
    let site = pair.site_config("", "").replace("\"10.77.0.1/32\"", "\"0.0.0.0/0\"");
    Some((pair, site))
}

fn forwarding(lab: &Lab, device: &'static str) -> String {
    lab.run("hub", move || {
        let path = format!("/proc/sys/net/ipv4/conf/{device}/forwarding");
        std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
    })
}

/// From whom the world sees a datagram of the site's come, if it does; it answers.
fn seen(site: &UdpSocket, world: &UdpSocket) -> Option<String> {
    let mut buffer = [0; 64];
    for _ in 0..10 {
        let _ = site.send_to(b"hello", "203.0.113.9:7000");
        if let Ok((_, from)) = world.recv_from(&mut buffer) {
            world.send_to(b"answer", from).expect("sent");
            if site.recv_from(&mut buffer).is_ok() {
                return Some(from.ip().to_string());
            }
        }
    }
    None
}

#[test]
fn what_a_site_sends_to_the_internet_leaves_as_the_hubs_own_and_answers_come_back() {
    let Some((pair, site)) = scene() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("masquerade = true\n", ""));
    let site = lab.daemon("site", "site", &site);
    site.wait_up(2);
    let world = lab.udp("world", "203.0.113.9:7000");
    let from_site = lab.udp("site", "10.77.0.2:0");
    assert_eq!(seen(&from_site, &world).as_deref(), Some("203.0.113.1"));
    // What goes through the bond keeps its address.
    lab.echo("hub", "10.77.0.1:7");
    assert!(lab.until_answered("site", "10.77.0.2:0", "10.77.0.1:7").is_some());
    // No other device forwards that did not before.
    assert_eq!((forwarding(lab, "fs0"), forwarding(lab, "eth0")), ("1".to_owned(), "0".to_owned()));
    // In order: nothing is left.
    hub.stop();
    let tables = |lab: &Lab| lab.run("hub", || fairspan_live::netlink::nftables::tables(None).expect("tables"));
    assert_eq!(tables(lab), Vec::<String>::new());
    // Killed: the kernel takes the rules away, and the next start is as the first one.
    let mut hub = lab.daemon("hub", "hub", &pair.hub_config("masquerade = true\n", ""));
    assert_eq!(tables(lab), ["fairspan-masq-fs0"]);
    hub.signal(Signal::KILL);
    hub.ended();
    assert_eq!(tables(lab), Vec::<String>::new());
    drop(hub);
    let hub = lab.daemon("hub", "hub", &pair.hub_config("masquerade = true\n", ""));
    hub.wait_up(2);
    assert_eq!(seen(&from_site, &world).as_deref(), Some("203.0.113.1"));
    hub.stop();
    site.stop();
}

#[test]
fn without_masquerade_nobody_beyond_the_hub_hears_of_a_site() {
    let Some((pair, site)) = scene() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", ""));
    let site = lab.daemon("site", "site", &site);
    site.wait_up(2);
    let world = lab.udp("world", "203.0.113.9:7000");
    let from_site = lab.udp("site", "10.77.0.2:0");
    assert_eq!(seen(&from_site, &world), None);
    // Though the bond carries, and the world is there.
    lab.echo("hub", "10.77.0.1:7");
    assert!(lab.until_answered("site", "10.77.0.2:0", "10.77.0.1:7").is_some());
    lab.echo("world", "203.0.113.9:7");
    assert!(lab.until_answered("hub", "203.0.113.1:0", "203.0.113.9:7").is_some());
    hub.stop();
    site.stop();
}

#[test]
fn a_hub_that_does_not_forward_answers_is_told_so() {
    let Some((pair, _)) = scene() else { return };
    let lab = &pair.lab;
    lab.run("hub", || std::fs::write("/proc/sys/net/ipv4/conf/wan0/forwarding", "0").expect("a setting"));
    let file = lab.config("hub", &pair.hub_config("masquerade = true\n", ""));
    let said = || {
        let output = lab.fairspan("hub", &["check", &file.display().to_string()]);
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(said().contains("net.ipv4.conf.wan0.forwarding=1"), "{}", said());
    lab.run("hub", || std::fs::write("/proc/sys/net/ipv4/conf/wan0/forwarding", "1").expect("a setting"));
    assert!(!said().contains("conf.wan0.forwarding"), "{}", said());
    let text = pair.hub_config("masquerade = true\nlock = true\n", "");
    let file = lab.config("wrong", &text).display().to_string();
    assert_eq!(lab.fairspan("hub", &["check", &file]).status.code(), Some(2));
}
