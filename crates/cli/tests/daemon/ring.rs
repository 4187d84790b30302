//! Nodes of a ring, in namespaces: links of every kind, what is learnt, and neighbours that are none.

use crate::common::*;

/// The public keys and the private ones.
type Keys = Vec<(String, String)>;

fn ring(lab_node: usize, nodes: usize, keys: &Keys, more: &str, sides: &str) -> String {
    let address = format!("[\"10.8.0.{lab_node}/24\", \"fd00:8::{lab_node}/64\"]");
    let key = keys.get(lab_node - 1).map_or("", |key| key.0.as_str());
    interface("ring0", &address, key, "listen_port = 51901")
        + &format!("[ring]\nnode = {lab_node}\nnodes = {nodes}\nrate = \"100Mbit\"\nsilence = \"2s\"\n{more}\n{sides}")
}

/// A side over UDP: it calls where there is an endpoint.
fn side(name: &str, keys: &Keys, neighbour: usize, endpoint: Option<&str>) -> String {
    let calls = endpoint.map_or_else(String::new, |to| format!("device = \"{name}\"\nendpoint = \"{to}:51901\"\n"));
    format!("[ring.{name}]\nkind = \"udp\"\npublic_key = \"{}\"\n{calls}", keys[neighbour - 1].1)
}

/// Three hosts in a ring: link n leads from `east` of host n to `west` of the next, 10.70.n.1 and 10.70.n.2.
fn three() -> Option<(Lab, Keys)> {
    let lab = Lab::new(&["n1", "n2", "n3"])?;
    for n in 1..=3 {
        let (a, b) = (format!("n{n}"), format!("n{}", n % 3 + 1));
        lab.cable((&a, "east", &format!("10.70.{n}.1/24")), (&b, "west", &format!("10.70.{n}.2/24")));
    }
    Some((lab, (0..3).map(|_| keys()).collect()))
}

fn node_of_three(n: usize, keys: &Keys, more: &str) -> String {
    let east = side("east", keys, n % 3 + 1, Some(&format!("10.70.{n}.2")));
    ring(n, 3, keys, more, &(east + &side("west", keys, (n + 1) % 3 + 1, None)))
}

fn is_whole(daemon: &Daemon) -> bool {
    let status = daemon.status();
    let stations = status["ring"]["stations"].as_array().expect("stations");
    status["ring"]["whole"] == true && stations.iter().all(|s| !s["networks"].as_array().expect("networks").is_empty())
}

fn node_counter(daemon: &Daemon, name: &str) -> u64 {
    let status = daemon.status();
    status["ring"]["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {status}"))
}

fn link_state(daemon: &Daemon, link: usize) -> String {
    daemon.status()["ring"]["links"][link]["state"].as_str().expect("a state").to_owned()
}

#[test]
fn three_nodes_learn_of_each_other_carry_tcp_and_leave_nothing_behind() {
    let Some((lab, keys)) = three() else { return };
    let before = lab.traces("n1");
    let allowed = "[[ring.station]]\nnode = 2\nallowed_ips = [\"10.9.2.0/24\", \"0.0.0.0/0\"]\n";
    let one = lab.daemon("n1", "n1", &(node_of_three(1, &keys, "") + allowed));
    let two = lab.daemon("n2", "n2", &node_of_three(2, &keys, "networks = [\"10.9.2.0/24\", \"0.0.0.0/0\"]"));
    let three = lab.daemon("n3", "n3", &node_of_three(3, &keys, ""));
    for daemon in [&one, &two, &three] {
        daemon.wait("a whole ring", is_whole);
    }
    lab.transfer("n1", "n2", "10.8.0.2:5001", 3);
    lab.transfer("n1", "n3", "[fd00:8::3]:5001", 3);
    for daemon in [&one, &two, &three] {
        assert_eq!(node_counter(daemon, "transit_full"), 0);
        assert_eq!(daemon.counter("spoofed_source"), 0);
    }

    // What lies behind node 2 is reached, also from the kernel's own tables; its default route is not the kernel's.
    let routes = lab.ip("n1", &["route"]);
    assert!(routes.contains("10.9.2.0/24 dev ring0") && !routes.contains("default"), "{routes}");
    lab.ip("n2", &["address", "add", "10.9.2.7/32", "dev", "lo"]);
    lab.transfer("n1", "n2", "10.9.2.7:5001", 1);

    // One link fails: the other way round.
    lab.ip("n1", &["link", "set", "east", "down"]);
    one.wait("the link fails", |d| link_state(d, 0) != "up");
    lab.transfer("n1", "n2", "10.8.0.2:5001", 1);
    assert!(node_counter(&three, "sent") > 0);
    lab.ip("n1", &["link", "set", "east", "up"]);
    one.wait("a whole ring", is_whole);

    // A node that ends takes its networks with it.
    two.stop();
    one.wait("the route goes", |_| !lab.ip("n1", &["route"]).contains("10.9.2.0/24"));
    one.stop();
    three.stop();
    assert_eq!(lab.traces("n1"), before);
}

#[test]
fn a_node_that_announces_what_it_may_not_draws_nobodys_traffic_and_is_shown() {
    let Some((lab, keys)) = three() else { return };
    let one = lab.daemon("n1", "n1", &node_of_three(1, &keys, ""));
    let three = lab.daemon("n3", "n3", &node_of_three(3, &keys, ""));
    let networks = |d: &Daemon, node: usize| d.status()["ring"]["stations"][node - 1]["networks"].clone();
    one.wait("node 3 has its addresses", |d| networks(d, 3).as_array().is_some_and(|all| all.len() == 2));
    let greedy = "networks = [\"0.0.0.0/1\", \"128.0.0.0/1\", \"2000::/3\", \"10.8.0.3/32\", \"10.8.0.1/32\"]";
    let two = lab.daemon("n2", "n2", &node_of_three(2, &keys, greedy));
    for daemon in [&one, &two, &three] {
        daemon.wait("a whole ring", is_whole);
    }
    one.wait("it is counted", |d| d.counter("refused_network") >= 5);
    one.wait("its own addresses and nothing else", |d| {
        let status = d.status();
        let count = |what: &str| status["ring"]["stations"][1][what].as_array().map(Vec::len);
        (count("refused"), count("networks")) == (Some(5), Some(2))
    });
    for (family, drawn) in [("-4", ["0.0.0.0/1", "128.0.0.0/1", "10.8.0.3 "]), ("-6", ["2000::/3", "::/0", "default"])]
    {
        let routes = lab.ip("n1", &[family, "route"]);
        assert!(drawn.iter().all(|net| !routes.contains(net)), "{routes}");
    }
    lab.transfer("n1", "n3", "10.8.0.3:5001", 1);
}

#[test]
fn a_packet_from_an_address_that_is_not_behind_its_node_is_dropped() {
    let Some((lab, keys)) = three() else { return };
    let all: Vec<Daemon> =
        (1..=3).map(|n| lab.daemon(&format!("n{n}"), &format!("n{n}"), &node_of_three(n, &keys, ""))).collect();
    for daemon in &all {
        daemon.wait("a whole ring", is_whole);
    }
    let victim = lab.udp("n1", "10.8.0.1:7000");
    // Node 2 takes node 3's address for its own, and one that is nobody's.
    for address in ["10.8.0.3", "10.66.0.1"] {
        lab.ip("n2", &["address", "add", &format!("{address}/32"), "dev", "lo"]);
        let forger = lab.udp("n2", &format!("{address}:0"));
        let before = all[0].counter("spoofed_source");
        all[0].wait("they are counted", |d| {
            forger.send_to(b"trust me", "10.8.0.1:7000").expect("sent");
            d.counter("spoofed_source") >= before + 5
        });
    }
    let honest = lab.udp("n2", "10.8.0.2:0");
    let from = lab.until_received(&honest, b"it is me", &victim);
    assert_eq!(from, honest.local_addr().expect("an address"));
    let nobody = lab.udp("n1", "10.8.0.1:0");
    nobody.send_to(b"anybody?", "10.8.0.77:7000").expect("sent");
    all[0].wait("counted", |d| d.counter("host_no_node") > 0);
}

#[test]
fn only_the_neighbour_whose_key_and_place_are_right_gets_a_link() {
    let Some((lab, mut keys)) = three() else { return };
    let one = lab.daemon("n1", "n1", &node_of_three(1, &keys, ""));

    // Another key at the right place.
    let right = std::mem::replace(&mut keys[2], crate::common::keys());
    let impostor = lab.daemon("n3", "impostor", &node_of_three(3, &keys, ""));
    one.wait("it is refused", |d| d.counter("secure_dropped_unknown_peer") > 0);
    assert_eq!(link_state(&one, 1), "connecting");
    impostor.stop();
    keys[2] = right;

    // The right key, and the wrong number: its east link is none that leads here.
    let text = node_of_three(3, &keys, "").replace("node = 3", "node = 2");
    let misplaced = lab.daemon("n3", "misplaced", &text);
    one.wait("its link is another", |d| d.counter("wrong_link") > 0);
    assert_eq!(link_state(&one, 1), "connecting");
    misplaced.stop();

    // Settings that must be alike are not.
    for more in ["algorithm = \"fifo\"", "protection = \"wrap\""] {
        let before = node_counter(&one, "refused_settings");
        let other = lab.daemon("n3", "other", &node_of_three(3, &keys, more));
        one.wait("it is refused", |d| node_counter(d, "refused_settings") > before);
        one.wait("a session and no link", |d| link_state(d, 1) == "down");
        other.stop();
    }
    let text = node_of_three(3, &keys, "").replace("rate = \"100Mbit\"", "rate = \"200Mbit\"");
    let other = lab.daemon("n3", "other", &text);
    one.wait("it is refused", |d| node_counter(d, "refused_nominal") > 0);
    other.stop();

    let three = lab.daemon("n3", "n3", &node_of_three(3, &keys, ""));
    one.wait("the right one is taken", |d| link_state(d, 1) == "up");
    drop(three);
}

#[test]
fn a_ring_of_two_has_a_link_in_the_clear_and_a_sealed_one_on_ethernet() {
    let Some(lab) = Lab::new(&["n1", "n2"]) else { return };
    lab.cable(("n1", "eth0", ""), ("n2", "eth0", ""));
    lab.cable(("n1", "eth1", ""), ("n2", "eth1", ""));
    let keys: Keys = (0..2).map(|_| keys()).collect();
    let plain = |name: &str| format!("[ring.{name}]\nkind = \"ethernet\"\ndevice = \"eth0\"\n");
    let sealed = |name: &str, other: usize| {
        let key = &keys[other - 1].1;
        format!("[ring.{name}]\nkind = \"ethernet\"\ndevice = \"eth1\"\nsecure = true\npublic_key = \"{key}\"\n")
    };
    let one = lab.daemon("n1", "n1", &ring(1, 2, &keys, "", &(plain("east") + &sealed("west", 2))));
    let two = lab.daemon("n2", "n2", &ring(2, 2, &keys, "", &(plain("west") + &sealed("east", 1))));
    for daemon in [&one, &two] {
        daemon.wait("a whole ring", is_whole);
    }
    // Between two nodes the ways are equally long: the tie takes ringlet 0, east, which is plain from 1 and sealed from 2.
    lab.transfer("n1", "n2", "10.8.0.2:5001", 5);
    lab.transfer("n2", "n1", "[fd00:8::1]:5001", 5);
    let sent =
        |d: &Daemon, link: usize| d.status()["ring"]["links"][link]["counters"]["data_sent"].as_u64().expect("n");
    assert!(sent(&one, 0) > 1000 && sent(&two, 0) > 1000, "{} {}", sent(&one, 0), sent(&two, 0));

    // Either way carries everything alone.
    for device in ["eth0", "eth1"] {
        lab.ip("n1", &["link", "set", device, "down"]);
        lab.transfer("n1", "n2", "10.8.0.2:5001", 2);
        lab.ip("n1", &["link", "set", device, "up"]);
        one.wait("a whole ring", is_whole);
    }
}
