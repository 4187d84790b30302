//! What configurations mean, and how wrong ones are refused.

use super::*;
use fairspan_core::bond::{Mode, Scheduler};
use fairspan_core::select::Settings;

const KEY: &str = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=";

fn good() -> String {
    format!(
        "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.1/24\"]\nprivate_key = \"{KEY}\"\n\n\
         [[peer]]\npublic_key = \"{KEY}\"\nallowed_ips = [\"10.77.0.2\"]\n\n\
         [[peer.channel]]\nkind = \"udp\"\ndevice = \"eth0\"\nendpoint = \"192.0.2.1:51900\"\nrate = \"100Mbit\"\n"
    )
}

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(Path::new("site.toml"), text)
}

#[test]
fn defaults_are_the_documented_ones() {
    let config = parse(&good()).unwrap();
    assert_eq!(config.interface.table, Table::Auto);
    assert_eq!(config.interface.fwmark, 51900);
    assert!(config.interface.offload && config.interface.metrics.is_none());
    let peer = &config.peers[0];
    assert_eq!((peer.name.as_str(), peer.bond.mode, peer.bond.scheduler), ("peer0", Mode::Ordered, Scheduler::Srr));
    assert_eq!(peer.allowed_ips, ["10.77.0.2/32".parse::<IpNet>().unwrap()]);
    let channel = &peer.channels[0];
    assert_eq!((channel.name.as_str(), channel.overhead), ("channel0", 14));
    assert_eq!(channel.rate, Some(Rate::from_mbit(100)));
}

#[test]
fn ethernet_channels_default_to_stripe_without_a_key() {
    let text = "[interface]\nname = \"fs0\"\n[[peer]]\nallowed_ips = [\"::/0\"]\n[[peer.channel]]\n\
                kind = \"ethernet\"\ndevice = \"eth1\"\npeer_mac = \"02:00:00:00:00:01\"\n";
    let config = parse(text).unwrap();
    assert_eq!(config.peers[0].bond.mode, Mode::Stripe);
    let expected = ChannelKind::Ethernet { peer_mac: Some([2, 0, 0, 0, 0, 1]), ethertype: 0x88B5, secure: false };
    assert_eq!(config.peers[0].channels[0].kind, expected);
}

/// Each row: what is replaced in a good file, by what, the line and setting the error names, and a word of advice.
#[test]
fn each_error_names_line_setting_and_what_would_be_right() {
    let rows = [
        ("\"fs0\"", "\"a name far too long\"", 2, "interface.name", "1 to 15"),
        ("10.77.0.1/24", "10.77.0.1/33", 3, "interface.address", "10.77.0.1/24"),
        ("private_key = ", "privat_key = ", 4, "", "privat_key"),
        (KEY, "c2hvcnQ=", 4, "interface.private_key", "44 characters"),
        ("\"10.77.0.2\"", "\"10.77.0.2/24\"", 8, "peer.allowed_ips", "10.77.0.0/24"),
        ("\"udp\"", "\"tcp\"", 11, "peer.channel.kind", "udp, ethernet"),
        ("\"eth0\"", "\"eth/0\"", 12, "peer.channel.device", "such as"),
        ("192.0.2.1:51900", "192.0.2.1", 13, "peer.channel.endpoint", "203.0.113.1:51900"),
        ("100Mbit", "100", 14, "peer.channel.rate", "100Mbit"),
        ("100Mbit", "0", 14, "peer.channel.rate", "leave it out"),
        ("rate = \"100Mbit\"", "mtu = 500", 14, "peer.channel.mtu", "576"),
        ("rate = \"100Mbit\"", "peer_mac = \"02:00:00:00:00:01\"", 14, "peer.channel.peer_mac", "ethernet"),
        ("rate = \"100Mbit\"", "rate = ", 14, "", "string"),
        ("allowed_ips", "mode = \"stripe\"\nscheduler = \"rfq\"\nallowed_ips", 9, "peer.scheduler", "srr"),
    ];
    for (old, new, line, setting, advice) in rows {
        let text = good().replacen(old, new, 1);
        let error = parse(&text).expect_err(new);
        assert_eq!((error.line, error.setting.as_str()), (line, setting), "{new}: {error}");
        assert!(error.to_string().contains(advice), "{new}: {error}");
        assert!(error.to_string().starts_with("site.toml:"), "{error}");
    }
}

/// A peer in mode `flow` with two channels and these settings of its own.
fn flow(policy: &str) -> String {
    let second = "[[peer.channel]]\nkind = \"udp\"\nname = \"lte\"\nendpoint = \"192.0.2.9:51900\"\n";
    good().replacen("allowed_ips", &format!("mode = \"flow\"\n{policy}\nallowed_ips"), 1) + second
}

#[test]
fn a_policy_is_text_or_a_table_or_a_linux_mode_and_means_the_same() {
    let settings =
        |policy: &str| parse(&flow(policy)).unwrap_or_else(|e| panic!("{policy}: {e}")).peers.remove(0).bond.policy;
    let expected: Settings = "brr:24ms,weighted=off,expiry=90s".parse().unwrap();
    for policy in [
        "policy = \"brr:24ms,expiry=90s,weighted=off\"",
        "policy = { name = \"brr\", expiry = \"90s\", threshold = \"24ms\", weighted = false }",
        "policy.name = 7\npolicy.threshold = 24\npolicy.expiry = \"90s\"\npolicy.weighted = 0",
    ] {
        assert_eq!(settings(policy), expected, "{policy}");
    }
    assert_eq!(settings("policy = 2"), "balance-xor".parse().unwrap());
    assert_eq!(settings(""), "brr".parse().unwrap());
    let late = "policy = { flush_wait = \"7ms\", name = \"potent\", flush = true }";
    assert_eq!(settings(late), "potent:flush=on,flush_wait=7ms".parse().unwrap());
    let named = settings("policy = \"active-backup:lte\"");
    assert_eq!(named, "active-backup:lte".parse().unwrap());
}

/// Each row: the policy, the line and setting the error names, and a word of advice.
#[test]
fn each_error_in_a_policy_names_line_option_and_what_would_be_right() {
    let table = |options: &str| format!("policy = {{ name = \"brr\",\n{options} }}");
    let rows = [
        ("policy = \"burst\"".to_owned(), 9, "peer.policy", "known are balance-rr"),
        ("policy = \"brr:12min,x=1\"".into(), 9, "peer.policy", "no option `x`"),
        ("policy = \"brr:25h\"".into(), 9, "peer.policy", "1us to 24h"),
        ("policy = { name = \"burst\" }".into(), 9, "peer.policy.name", "known are"),
        ("policy = { threshold = \"1ms\" }".into(), 9, "peer.policy.name", "missing"),
        ("policy = true".into(), 9, "", "brr:12ms"),
        (table("threshold = \"12 parsecs\""), 10, "peer.policy.threshold", "write a time"),
        (table("expiry = \"60s\",\nflushing = true"), 11, "peer.policy.flushing", "it has threshold"),
        (table("flush_wait = \"1ms\""), 10, "peer.policy.flush_wait", "flush=on"),
        (table("threshold = [1]"), 10, "peer.policy.threshold", "text, a number"),
        (table("threshold = \"10s\",\nexpiry = \"1s\""), 11, "peer.policy.expiry", "expire it later"),
        ("policy = \"balance-alb\"".into(), 9, "peer.policy", "[bond]"),
        ("policy = { name = \"802.3ad\" }".into(), 9, "peer.policy.name", "LACP"),
        ("policy = \"active-backup:fail_over_mac=active\"".into(), 9, "peer.policy", "leave it out"),
        ("policy = { name = \"balance-tlb\",\nlp_interval = \"1s\" }".into(), 10, "peer.policy.lp_interval", "[bond]"),
        (
            "policy = { name = \"active-backup\",\nprimary = \"dsl\" }".into(),
            10,
            "peer.policy.primary",
            "channel0, lte",
        ),
        ("policy = \"brr\"\nscheduler = \"rr\"".into(), 10, "peer.scheduler", "the policy chooses"),
        ("policy = \"brr:arp_interval=50ms\"\ndead_after = \"1s\"".into(), 10, "peer.dead_after", "arp_interval"),
        ("copies = 2".into(), 9, "peer.copies", "duplicate"),
    ];
    for (policy, line, setting, advice) in rows {
        let text = flow(&policy);
        let error = parse(&text).expect_err(&policy);
        assert_eq!((error.line, error.setting.as_str()), (line, setting), "{policy}: {error}");
        assert!(error.problem.contains(advice), "{policy}: {error}");
    }
    let text = flow("policy = \"brr\"").replacen("mode = \"flow\"\n", "", 1);
    let error = parse(&text).unwrap_err();
    assert_eq!((error.setting.as_str(), error.line), ("peer.policy", 8));
    assert!(error.problem.contains("mode = \"flow\"") && error.problem.contains("ordered"), "{error}");
}

#[test]
fn a_hash_of_addresses_that_packets_do_not_have_is_told() {
    let notices = |policy: &str| parse(&flow(policy)).unwrap().notices;
    for (policy, line) in [
        ("policy = \"balance-xor\"", 9),
        ("policy = \"balance-tlb\"", 9),
        ("policy = { name = \"balance-xor\",\nxmit_hash_policy = \"vlan+srcmac\" }", 10),
    ] {
        let notices = notices(policy);
        assert_eq!(notices.len(), 1, "{policy}");
        assert_eq!(notices[0].line, line, "{}", notices[0]);
        assert!(notices[0].problem.contains("write xmit_hash_policy=layer3+4"), "{}", notices[0]);
    }
    for policy in ["", "policy = \"balance-xor:layer2+3\"", "policy = \"balance-xor:encap3+4\"", "policy = \"brr\""] {
        assert!(notices(policy).is_empty(), "{policy}");
    }
    let one = good().replacen("allowed_ips", "mode = \"flow\"\npolicy = \"balance-xor\"\nallowed_ips", 1);
    assert!(parse(&one).unwrap().notices.is_empty(), "there is one channel only");
}

#[test]
fn ethernet_channels_that_could_not_be_told_apart_are_refused() {
    let channel = |more: &str| format!("[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth1\"\n{more}\n");
    let text = |one: &str, other: &str| {
        format!(
            "[interface]\nname = \"fs0\"\nprivate_key = \"{KEY}\"\n[[peer]]\npublic_key = \"{KEY}\"\n{}{}",
            channel(one),
            channel(other)
        )
    };
    let mac = "peer_mac = \"02:00:00:00:00:01\"";
    for (one, other, setting) in [
        ("", "", "peer.channel.peer_mac"),
        (mac, mac, "peer.channel.peer_mac"),
        ("secure = true", "", "peer.channel.secure"),
        ("ethertype = 0x88B5", "ethertype = 0x88B6", "peer.channel.ethertype"),
    ] {
        assert_eq!(parse(&text(one, other)).unwrap_err().setting, setting, "{one} and {other}");
    }
    for (one, other) in [(mac, ""), ("", "ethertype = 0x9000"), ("secure = true", "secure = true")] {
        assert!(parse(&text(one, other)).is_ok(), "{one} and {other}");
    }
}

#[test]
fn a_broken_key_is_never_printed() {
    let secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ=";
    let error = parse(&good().replacen(KEY, secret, 1)).unwrap_err();
    assert!(!error.to_string().contains(secret), "{error}");
}

#[test]
fn nobody_could_begin_is_an_error() {
    let text = good();
    let text = &text[..text.find("[[peer.channel]]").unwrap()];
    let error = parse(text).unwrap_err();
    assert_eq!(error.setting, "peer.channel");
    assert!(parse(&text.replacen("[interface]", "[interface]\nlisten_port = 51900", 1)).is_ok());
}
