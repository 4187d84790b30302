//! Rules as `nft -j` prints them, and what they do.

use super::*;

/// A ruleset of one table with these chains; a chain has a head and its rules.
fn ruleset(chains: &[(&str, &[&str])]) -> Ruleset {
    let mut objects = vec![r#"{"metainfo":{"version":"1.0.6"}}"#.to_owned()];
    for (number, (head, rules)) in chains.iter().enumerate() {
        let (name, more) = head.split_once(' ').unwrap_or((head, ""));
        let more = match more.split_once(' ') {
            Some((hook, policy)) => format!(r#","type":"filter","hook":"{hook}","prio":0,"policy":"{policy}""#),
            None => String::new(),
        };
        objects.push(format!(r#"{{"chain":{{"family":"inet","table":"t","name":"{name}","handle":{number}{more}}}}}"#));
        for rule in *rules {
            objects.push(format!(
                r#"{{"rule":{{"family":"inet","table":"t","chain":"{name}","handle":9,"expr":[{rule}]}}}}"#
            ));
        }
    }
    Ruleset::parse(format!("{{\"nftables\":[{}]}}", objects.join(",")).as_bytes()).expect("rules")
}

fn matching(left: &str, op: &str, right: &str) -> String {
    format!(r#"{{"match":{{"op":"{op}","left":{left},"right":{right}}}}}"#)
}

fn dport(protocol: &str, right: &str) -> String {
    matching(&format!(r#"{{"payload":{{"protocol":"{protocol}","field":"dport"}}}}"#), "==", right)
}

fn saddr(op: &str, right: &str) -> String {
    matching(r#"{"payload":{"protocol":"ip","field":"saddr"}}"#, op, right)
}

const ESTABLISHED: &str =
    r#"{"match":{"op":"in","left":{"ct":{"key":"state"}},"right":["established","related"]}},{"accept":null}"#;
const ACCEPT: &str = r#"{"accept":null}"#;
const DROP: &str = r#"{"drop":null}"#;

/// Somebody calls UDP port 51900 by eth0.
fn call() -> Packet<'static> {
    Packet {
        hook: Hook::Input,
        is_v6: false,
        protocol: "udp",
        device: Some("eth0"),
        other: None,
        source_port: (1024, u16::MAX),
        destination_port: (51_900, 51_900),
        state: Some("new"),
    }
}

/// A hub at 203.0.113.1 answers.
fn answer() -> Packet<'static> {
    Packet {
        other: Some("203.0.113.1".parse().expect("an address")),
        source_port: (51_900, 51_900),
        destination_port: (32_768, 60_999),
        state: Some("established"),
        ..call()
    }
}

fn drops(rules: &[&str], packet: &Packet<'_>) -> bool {
    ruleset(&[("input input drop", rules)]).drops(packet).is_some()
}

#[test]
fn a_policy_that_drops_is_told_of_unless_a_rule_lets_the_packet_in() {
    let dropped = ruleset(&[("input input drop", &[])]).drops(&call()).expect("dropped");
    assert_eq!((&*dropped.family, &*dropped.table, &*dropped.chain), ("inet", "t", "input"));
    assert!(!drops(&[&format!("{},{ACCEPT}", dport("udp", "51900"))], &call()));
    assert!(drops(&[&format!("{},{ACCEPT}", dport("tcp", "51900"))], &call()), "another protocol");
    assert!(drops(&[&format!("{},{ACCEPT}", dport("udp", "51901"))], &call()), "another port");
    for set in [r#"{"set":[22,51900]}"#, r#"{"range":[51000,52000]}"#, r#"{"set":[22,{"range":[51000,52000]}]}"#] {
        assert!(!drops(&[&format!("{},{ACCEPT}", dport("udp", set))], &call()), "{set}");
    }
    assert!(!drops(&[&format!("{},{ACCEPT}", dport("udp", "\"@ports\""))], &call()), "a set with a name is not read");
    // Those that are let out are let in again, and those who call are not.
    assert!(drops(&[ESTABLISHED], &call()) && !drops(&[ESTABLISHED], &answer()));
    assert_eq!(ruleset(&[("input input accept", &[])]).drops(&call()), None);
    assert_eq!(ruleset(&[("output output drop", &[])]).drops(&call()), None, "another hook");
}

#[test]
fn rules_for_some_addresses_may_let_in_who_calls_and_those_for_devices_let_in_nobody_else() {
    let only = |condition: String| drops(&[&format!("{condition},{ACCEPT}")], &call());
    for right in ["\"192.0.2.1\"", r#"{"prefix":{"addr":"10.0.0.0","len":8}}"#, r#"{"range":["10.0.0.1","10.0.0.9"]}"#]
    {
        assert!(!only(saddr("==", right)) && !only(saddr("!=", right)), "perhaps it is who calls: {right}");
        let others = ruleset(&[("input input accept", &[&format!("{},{DROP}", saddr("!=", right))])]);
        assert_eq!(others.drops(&call()), None, "{right}");
    }
    let hub = |right: &str| drops(&[&format!("{},{ACCEPT}", saddr("==", right))], &answer());
    assert!(!hub("\"203.0.113.1\"") && !hub(r#"{"prefix":{"addr":"203.0.113.0","len":24}}"#) && hub("\"203.0.113.2\""));
    let device = |name: &str| only(matching(r#"{"meta":{"key":"iifname"}}"#, "==", &format!("\"{name}\"")));
    assert!(device("lan0") && !device("eth0") && !device("eth*") && device("wan*"));
    let unknown = Packet { device: None, ..call() };
    let lan = format!("{},{ACCEPT}", matching(r#"{"meta":{"key":"iifname"}}"#, "==", "\"lan0\""));
    assert!(!drops(&[&lan], &unknown), "perhaps it comes by lan0");
    assert!(drops(&[&lan.replace("lan0", "lo")], &unknown), "and not by lo");
}

#[test]
fn a_condition_on_a_header_that_a_packet_lacks_fits_it_with_no_operator() {
    let field = |protocol: &str, field: &str| format!(r#"{{"payload":{{"protocol":"{protocol}","field":"{field}"}}}}"#);
    let unlike = |protocol: &str, name: &str, right: &str| matching(&field(protocol, name), "!=", right);
    let dropped = |condition: &str, packet: &Packet<'_>| {
        ruleset(&[("input input accept", &[&format!("{condition},{DROP}")])]).drops(packet).is_some()
    };
    let six = Packet { is_v6: true, ..call() };
    let web = unlike("tcp", "dport", r#"{"set":[22,443]}"#);
    assert!(!dropped(&web, &call()) && dropped(&web, &Packet { protocol: "tcp", ..call() }));
    let net = unlike("ip", "daddr", "\"192.0.2.1\"");
    assert!(!dropped(&net, &six) && !dropped(&unlike("ip", "protocol", "\"tcp\""), &six));
    assert!(dropped(&unlike("ip", "protocol", "\"tcp\""), &call()));
    assert!(!dropped(&unlike("ip6", "nexthdr", "\"tcp\""), &call()));
    assert!(!dropped(&unlike("icmp", "type", "\"echo-request\""), &call()));
    assert!(!dropped(&unlike("icmpv6", "type", "\"echo-request\""), &six));
    let ssh = format!("{},{ACCEPT}", unlike("tcp", "dport", "22"));
    assert!(drops(&[&ssh], &call()), "it lets in no UDP");
}

#[test]
fn a_set_with_a_name_may_hold_what_a_packet_has() {
    let set = "\"@names\"";
    let keys = [r#"{"meta":{"key":"iifname"}}"#, r#"{"meta":{"key":"l4proto"}}"#, r#"{"ct":{"key":"state"}}"#];
    for (key, op) in keys.into_iter().flat_map(|key| [(key, "=="), (key, "!=")]) {
        let condition = matching(key, op, set);
        assert!(!drops(&[&format!("{condition},{ACCEPT}")], &call()), "{condition}");
        let dropped = ruleset(&[("input input accept", &[&format!("{condition},{DROP}")])]).drops(&call());
        assert_eq!(dropped, None, "{condition}");
    }
    let out = Packet { hook: Hook::Output, ..call() };
    let leaves = format!("{},{ACCEPT}", matching(r#"{"meta":{"key":"oifname"}}"#, "==", set));
    assert_eq!(ruleset(&[("output output drop", &[&leaves])]).drops(&out), None);
}

#[test]
fn who_leaves_packets_without_a_state_and_who_may_end_a_walk_leave_nothing_certain() {
    let state = |name: &str| matching(r#"{"ct":{"key":"state"}}"#, "in", &format!("\"{name}\""));
    let untracked = format!("{},{ACCEPT}", state("untracked"));
    assert!(drops(&[&untracked], &call()));
    for leaves in [r#"{"notrack":null}"#, r#"{"xt":null}"#] {
        let rules = ruleset(&[("input input drop", &[&untracked]), ("raw", &[leaves])]);
        assert_eq!(rules.drops(&call()), None, "{leaves}");
    }
    assert!(!drops(&[r#"{"synproxy":null}"#], &call()), "it takes the packet");
    assert!(drops(&[r#"{"limit":{"rate":10,"per":"second"}},{"log":null}"#], &call()), "a limit takes none");
    let tcp = matching(r#"{"meta":{"key":"l4proto"}}"#, "==", "\"tcp\"");
    assert!(drops(&[&format!("{tcp},{{\"synproxy\":null}}")], &call()), "and here another one");
}

#[test]
fn chains_are_followed_where_the_packet_goes_for_certain() {
    let to = |word: &str, target: &str| format!(r#"{{"{word}":{{"target":"{target}"}}}}"#);
    let udp = matching(r#"{"meta":{"key":"l4proto"}}"#, "==", "\"udp\"");
    let jump = format!("{udp},{}", to("jump", "more"));
    let with = |head: &[&str], more: &[&str], policy: &str| {
        let rules = ruleset(&[(&format!("input input {policy}"), head), ("more", more)]);
        rules.drops(&call()).is_some()
    };
    assert!(with(&[&jump], &[DROP], "accept") && !with(&[&jump], &[ACCEPT, DROP], "drop"));
    assert!(!with(&[&jump, ACCEPT], &[r#"{"return":null}"#, DROP], "drop"), "it returns");
    assert!(with(&[&format!("{udp},{}", to("goto", "more")), ACCEPT], &[], "drop"), "who goes does not come back");
    let perhaps = r#"{"limit":{"rate":10,"per":"second"}}"#;
    assert!(!with(&[&format!("{perhaps},{}", to("goto", "more")), ACCEPT], &[], "drop"));
    assert!(!with(&[&format!("{perhaps},{DROP}")], &[], "accept"), "only beyond a rate");
    assert!(
        !with(&[r#"{"jump":{"target":"input"}}"#], &[], "drop"),
        "of a circle, which no kernel has, nothing is said"
    );
    // What is not known may do anything, and what counts does nothing.
    assert!(!with(&[&format!(r#"{{"xt":null}},{ACCEPT}"#)], &[], "drop"));
    assert!(with(&[&format!(r#"{{"counter":{{"packets":0,"bytes":0}}}},{{"log":null}},{DROP}"#)], &[], "accept"));
    let tcp = matching(r#"{"meta":{"key":"l4proto"}}"#, "==", "\"tcp\"");
    assert!(
        !with(&[&format!("{tcp},{DROP}")], &[], "accept")
            && with(&[&format!("{udp},{{\"reject\":null}}")], &[], "accept")
    );
}

#[test]
fn a_map_of_verdicts_gives_each_its_own() {
    let by_state = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":{"set":[["established",{"accept":null}],["invalid",{"drop":null}]]}}}"#;
    assert!(drops(&[by_state], &call()) && !drops(&[by_state], &answer()));
    let by_device = r#"{"vmap":{"key":{"meta":{"key":"iifname"}},"data":{"set":[["lan0",{"accept":null}],["eth0",{"jump":{"target":"outside"}}]]}}}"#;
    let rules =
        |outside: &[&str]| ruleset(&[("input input accept", &[by_device]), ("outside", outside)]).drops(&call());
    assert!(rules(&[DROP]).is_some() && rules(&[]).is_none());
    let gone = by_device.replace("jump", "goto");
    let rules = ruleset(&[("input input drop", &[&gone, ACCEPT]), ("outside", &[])]);
    assert!(rules.drops(&call()).is_some(), "who goes does not come back");
    let named = r#"{"vmap":{"key":{"ct":{"key":"state"}},"data":"@verdicts"}}"#;
    assert!(!drops(&[named], &call()), "one with a name is not read");
}

#[test]
fn what_is_no_list_of_rules_is_none_and_odd_ones_are_read_without_a_panic() {
    assert!(Ruleset::parse(b"").is_none() && Ruleset::parse(b"{}").is_none() && Ruleset::parse(b"[1]").is_none());
    let odd = br#"{"nftables":[1,null,{"chain":3},{"rule":{"family":"inet","table":"t","chain":"input","expr":[3,{},{"match":1},{"vmap":[]},{"jump":7}]}},
        {"chain":{"family":"inet","table":"t","name":"input","type":"filter","hook":"input","policy":"drop"}}]}"#;
    assert_eq!(Ruleset::parse(odd).expect("a list").drops(&call()), None, "what is not understood may let it in");
}
