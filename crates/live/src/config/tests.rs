//! What configurations mean, and how wrong ones are refused.

use super::*;
use fairspan_core::bond::{Mode, Scheduler};
use fairspan_core::select::Settings;
use fairspan_core::units::Rate;

const KEY: &str = "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=";
const PEER_KEY: &str = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";

fn good() -> String {
    format!(
        "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.1/24\"]\nprivate_key = \"{KEY}\"\n\n\
         [[peer]]\npublic_key = \"{PEER_KEY}\"\nallowed_ips = [\"10.77.0.2\"]\n\n\
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
    assert_eq!((peer.name.as_str(), peer.bond.mode, peer.bond.scheduler), ("peer0", Mode::Reliable, Scheduler::Srr));
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
    let text = text.replace("[[peer]]", "[[peer]]\nmode = \"auto\"");
    assert_eq!(parse(&text).unwrap().peers[0].bond, config.peers[0].bond, "`auto` by name is the same");
    let text = good().replace("allowed_ips", "mode = \"auto\"\nallowed_ips");
    assert_eq!(parse(&text).unwrap().peers[0].bond, parse(&good()).unwrap().peers[0].bond);
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
        ("\"udp\"", "\"sctp\"", 11, "peer.channel.kind", "udp, tcp, ethernet"),
        ("\"udp\"", "\"tcp\"\ntcp_endpoint = \"192.0.2.1:443\"", 12, "peer.channel.tcp_endpoint", "\"udp\" only"),
        (
            "192.0.2.1:51900\"",
            "hub.example.net:51900\"\ntcp_endpoint = \"192.0.2.1:443\"",
            14,
            "peer.channel.tcp_endpoint",
            "not a name",
        ),
        ("rate = \"100Mbit\"", "tcp_endpoint = \"192.0.2.1:0\"", 14, "peer.channel.tcp_endpoint", "port 0"),
        ("rate = \"100Mbit\"", "tcp_endpoint = \"10.77.0.1:443\"", 14, "peer.channel.tcp_endpoint", "own address"),
        ("\"udp\"", "\"tcp\"\nmtu = 1400", 12, "peer.channel.mtu", "leave it out"),
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
        ("confirm_order = true".into(), 9, "peer.confirm_order", "mode = \"stripe\""),
        ("credits = false".into(), 9, "peer.credits", "mode = \"stripe\""),
        ("marker_rounds = 4".into(), 9, "peer.marker_rounds", "mode = \"stripe\""),
        ("fragment_delay = \"30ms\"".into(), 9, "peer.fragment_delay", "mode = \"stripe\""),
        ("policy = \"active-backup:arp_validate=none\"".into(), 9, "peer.policy", "leave it out"),
        ("policy = \"active-backup:arp_all_targets=all\"".into(), 9, "peer.policy", "leave it out"),
        ("copies = 65".into(), 9, "peer.copies", "from 0 to 64"),
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
    assert!(error.problem.contains("mode = \"flow\"") && error.problem.contains("reliable"), "{error}");
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
            "[interface]\nname = \"fs0\"\nprivate_key = \"{KEY}\"\n[[peer]]\npublic_key = \"{PEER_KEY}\"\n{}{}",
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

/// What `up` would stumble over. Each row: what is replaced in a good file, by what, the line and setting the error names,
/// and a word of advice.
#[test]
fn what_could_not_come_up_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().display();
    let own: crate::secure::PrivateKey = KEY.parse().unwrap();
    let (own, zero) = (own.public_key().to_string(), "A".repeat(43) + "=");
    let one = "AQ".to_owned() + &"A".repeat(41) + "=";
    let listens = "private_key = \"".to_owned() + KEY;
    let interface = |more: &str| format!("{more}\n{listens}");
    let peer = |more: &str| format!("{more}\nallowed_ips");
    let channel = |more: &str| format!("{more}\nrate");
    let second = |more: &str| {
        format!("rate = \"1Mbit\"\n[[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.2:51900\"\n{more}\n#")
    };
    let key = format!("public_key = \"{PEER_KEY}\"");
    let rows = [
        ("\"10.77.0.1/24\"", "\"10.77.0.1/24\", \"10.77.0.1/16\"".into(), 3, "interface.address", "twice"),
        ("10.77.0.1/24", "0.0.0.0/24".into(), 3, "interface.address", "10.77.0.1/24"),
        (&listens, interface(&format!("control_socket = \"{folder}\"")), 4, "interface.control_socket", "name a file"),
        (&listens, interface("control_socket = \"/dev/null\""), 4, "interface.control_socket", "another path"),
        (
            &listens,
            interface(&format!("control_socket = \"/run/{}\"", "x".repeat(100))),
            4,
            "interface.control_socket",
            "shorter",
        ),
        (&listens, interface(&format!("record = \"{folder}\"")), 4, "interface.record", "name a file"),
        (&listens, interface("listen_port = 0"), 4, "interface.listen_port", "51900"),
        (&listens, interface("listen_tcp_port = 0"), 4, "interface.listen_tcp_port", "443"),
        (&listens, interface("table = 255"), 4, "interface.table", "auto"),
        (&key, format!("public_key = \"{own}\""), 7, "peer.public_key", "the other end's"),
        (&key, format!("public_key = \"{KEY}\""), 7, "peer.public_key", "private key"),
        (&key, format!("public_key = \"{zero}\""), 7, "peer.public_key", "keygen"),
        (&key, format!("public_key = \"{one}\""), 7, "peer.public_key", "pubkey"),
        (KEY, zero.clone(), 4, "interface.private_key", "keygen"),
        ("allowed_ips", peer(&format!("preshared_key = \"{zero}\"")), 8, "peer.preshared_key", "keygen"),
        ("allowed_ips", peer("dead_after = \"0ms\""), 8, "peer.dead_after", "longer than 200ms"),
        ("allowed_ips", peer("dead_after = \"200ms\""), 8, "peer.dead_after", "longer than 200ms"),
        ("allowed_ips", peer("reorder_deadline = \"0ms\""), 8, "peer.reorder_deadline", "1ms to"),
        ("allowed_ips", peer("reorder_memory = \"0B\""), 8, "peer.reorder_memory", "131072"),
        ("allowed_ips", peer("name = \"a\\u0007b\""), 8, "peer.name", "control"),
        ("100Mbit", "2000Gbit".into(), 14, "peer.channel.rate", "write a rate"),
        ("rate", channel("peer_rate = \"2000Gbit\""), 14, "peer.channel.peer_rate", "write a rate"),
        ("rate", channel("overhead = 257"), 14, "peer.channel.overhead", "from 0 to 256"),
        ("\"eth0\"", "\"fs0\"".into(), 12, "peer.channel.device", "below it"),
        ("192.0.2.1:51900", "0.0.0.0:51900".into(), 13, "peer.channel.endpoint", "203.0.113.1"),
        ("192.0.2.1:51900", "[::]:51900".into(), 13, "peer.channel.endpoint", "203.0.113.1"),
        ("192.0.2.1:51900", "224.0.0.1:51900".into(), 13, "peer.channel.endpoint", "203.0.113.1"),
        ("192.0.2.1:51900", "255.255.255.255:51900".into(), 13, "peer.channel.endpoint", "203.0.113.1"),
        ("192.0.2.1:51900", "192.0.2.1:0".into(), 13, "peer.channel.endpoint", "listen_port"),
        ("192.0.2.1:51900", "10.77.0.1:51900".into(), 13, "peer.channel.endpoint", "write the peer's"),
        ("rate", channel("name = \"\""), 14, "peer.channel.name", "1 to 64"),
        ("rate = \"100Mbit\"", second("name = \"channel0\""), 18, "peer.channel.name", "its own"),
        ("[[peer]]", "[peer]".into(), 6, "", "`[[peer]]`"),
        ("[[peer.channel]]", "[peer.channel]".into(), 10, "", "`[[peer.channel]]`"),
        ("[interface]", "[[interface]]".into(), 1, "", "`[interface]`"),
    ];
    for (old, new, line, setting, advice) in rows {
        let text = good().replacen(old, &new, 1);
        let error = parse(&text).expect_err(&new);
        assert_eq!((error.line, error.setting.as_str()), (line, setting), "{new}: {error}");
        assert!(error.problem.contains(advice), "{new}: {error}");
    }
}

/// The same of what a file names of its host.
#[test]
fn what_no_host_has_or_no_channel_reaches_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let precious = folder.path().join("precious");
    std::fs::write(&precious, "precious").unwrap();
    let older = folder.path().join("older");
    std::fs::write(&older, fairspan_core::record::MAGIC).unwrap();
    let (precious, older) = (precious.display(), older.display());
    let listens = format!("private_key = \"{KEY}\"");
    let interface = |more: &str| format!("{more}\n{listens}");
    let endpoint = |text: &str| format!("\"{text}\"");
    let end = |setting: &str| format!("peer.channel.{setting}");
    let (reached, from) = (end("endpoint"), end("source"));
    let elsewhere = "device = \"eth0\"\nendpoint = \"192.0.2.1:51900\"";
    let ends = |endpoint: &str, more: &str| format!("endpoint = \"{endpoint}\"\n{more}");
    let six = "[2001:db8::1]:51900";
    let named = "192.0.2.1:51900";
    let rows = [
        ("\"fs0\"", "\"lo\"".into(), 2, "interface.name", "keeps for itself"),
        ("\"fs0\"", "\"all\"".into(), 2, "interface.name", "keeps for itself"),
        ("\"fs0\"", "\"default\"".into(), 2, "interface.name", "such as `fs0`"),
        ("10.77.0.1/24", "::1/128".into(), 3, "interface.address", "the loopback's"),
        ("10.77.0.1/24", "127.0.0.5/8".into(), 3, "interface.address", "10.77.0.1/24"),
        (&listens, interface("control_socket = \"\""), 4, "interface.control_socket", "name a file"),
        (&listens, interface("control_socket = \"/tmp/a\\u0000b\""), 4, "interface.control_socket", "NUL"),
        (&listens, interface("control_socket = \"/tmp/none/\""), 4, "interface.control_socket", "name a file in it"),
        (
            &listens,
            interface(&format!("control_socket = \"{precious}/x\"")),
            4,
            "interface.control_socket",
            "is no folder",
        ),
        (&listens, interface("record = \"\""), 4, "interface.record", "name a file"),
        (&listens, interface(&format!("record = \"{precious}\"")), 4, "interface.record", "no recording"),
        (&listens, interface("record = \"/dev/null\""), 4, "interface.record", "another path"),
        (&listens, interface("metrics = \"127.0.0.1:0\""), 4, "interface.metrics", "9310"),
        (&listens, interface("metrics = \"224.0.0.1:9310\""), 4, "interface.metrics", "127.0.0.1:9310"),
        (&listens, interface("metrics = \"[fe80::1]:9310\""), 4, "interface.metrics", "fe80::1%2"),
        ("\"10.77.0.2\"", "\"10.77.0.2\", \"10.77.0.2/32\"".into(), 8, "peer.allowed_ips", "leave one out"),
        ("\"eth0\"", "\"lo\"".into(), 12, "peer.channel.device", "this host alone"),
        ("\"192.0.2.1:51900\"", endpoint("127.0.0.2:51900"), 13, &reached, "leave `device` out"),
        ("\"192.0.2.1:51900\"", endpoint("[::ffff:192.0.2.1]:51900"), 13, &reached, "IPv6's writing"),
        (elsewhere, ends("[fe80::1]:51900", ""), 12, &reached, "name the `device`"),
        (elsewhere, ends(named, "source = \"224.0.0.1\""), 13, &from, "leave it out"),
        (elsewhere, ends(named, "source = \"0.0.0.0\""), 13, &from, "leave it out"),
        (elsewhere, ends(named, "source = \"127.0.0.1\""), 13, &from, "nothing leaves"),
        (elsewhere, ends(named, "source = \"10.77.0.1\""), 13, &from, "lead into itself"),
        (elsewhere, ends(six, "source = \"fe80::1\""), 13, &from, "name the `device`"),
        (elsewhere, ends(six, "source = \"::ffff:192.0.2.7\""), 13, &from, "family"),
    ];
    for (old, new, line, setting, advice) in rows {
        let text = good().replacen(old, &new, 1);
        let error = parse(&text).expect_err(&new);
        assert_eq!((error.line, error.setting.as_str()), (line, setting), "{new}: {error}");
        assert!(error.problem.contains(advice), "{new}: {error}");
    }
    for (old, new) in [
        (listens.as_str(), interface(&format!("record = \"{older}\""))),
        (&listens, interface("metrics = \"0.0.0.0:9310\"")),
        (&listens, interface("metrics = \"[fe80::1%2]:9310\"")),
        (&listens, interface("user = \"root\"")),
        ("\"192.0.2.1:51900\"", endpoint("[fe80::1]:51900")),
        (elsewhere, ends("[fe80::1%2]:51900", "")),
        (elsewhere, ends("127.0.0.2:51900", "source = \"127.0.0.1\"")),
    ] {
        let config = parse(&good().replacen(old, &new, 1)).unwrap_or_else(|error| panic!("{new}: {error}"));
        assert!(config.notices.is_empty(), "{new}: {:?}", config.notices);
    }
    let config = parse(&good().replacen(&listens, &interface("user = \"nobody-such\""), 1)).unwrap();
    let [notice] = config.notices.as_slice() else { panic!("{:?}", config.notices) };
    assert_eq!((notice.line, notice.setting.as_str()), (4, "interface.user"), "{notice}");
}

#[test]
fn an_ethertype_that_others_own_is_refused() {
    let text = |ethertype: u16| {
        format!(
            "[interface]\nname = \"fs0\"\n[[peer]]\nallowed_ips = [\"10.0.0.0/8\"]\n[[peer.channel]]\n\
             kind = \"ethernet\"\ndevice = \"eth1\"\nethertype = {ethertype}\n"
        )
    };
    for (ethertype, whose) in [
        (0x0800, "IPv4"),
        // Its control frames would be IPv4's.
        (0x07ff, "IPv4"),
        (0x0806, "ARP"),
        (0x86dc, "IPv6"),
        (0x8100, "VLAN"),
        (0x8809, "LACP"),
        (0x05ff, "0x0600"),
        (0xffff, "0xFFFE"),
    ] {
        let error = parse(&text(ethertype)).expect_err(whose);
        assert_eq!((error.line, error.setting.as_str()), (8, "peer.channel.ethertype"), "{error}");
        assert!(error.problem.contains(whose), "{ethertype:#06x}: {error}");
    }
    for ethertype in [0x0600, 0x0801, 0x0807, 0x88b5, 0xfffe] {
        assert!(parse(&text(ethertype)).is_ok(), "{ethertype:#06x}");
    }
}

#[test]
fn a_default_route_that_would_catch_the_daemon_s_own_datagrams_is_refused() {
    let text = |more: &str| {
        let line = format!("private_key = \"{KEY}\"");
        good().replacen("10.77.0.2", "0.0.0.0/0", 1).replacen(&line, &format!("{more}\n{line}"), 1)
    };
    for (more, setting) in
        [("fwmark = 0", "interface.fwmark"), ("fwmark = 254", "interface.fwmark"), ("table = 254", "interface.table")]
    {
        let error = parse(&text(more)).expect_err(more);
        assert_eq!((error.setting.as_str(), error.line), (setting, 7), "{error}");
        assert!(parse(&text(more).replacen("0.0.0.0/0", "10.0.0.0/8", 1)).is_ok(), "{more}");
    }
    for more in ["lock = false", "lock = false\nfwmark = 7", "table = \"off\"", "fwmark = 0\ntable = \"off\""] {
        assert!(parse(&text(more)).unwrap().notices.is_empty(), "{more}");
    }
    let notices = parse(&text("table = 7")).unwrap().notices;
    assert!(notices[0].problem.contains("rules of your own") && notices[0].problem.contains("51900"), "{notices:?}");
}

#[test]
fn what_works_and_is_hardly_meant_is_told() {
    let alike = "\n[[peer.channel]]\nkind = \"udp\"\ndevice = \"eth0\"\nendpoint = \"192.0.2.1:51900\"\n";
    let inside = good().replacen("\"10.77.0.2\"", "\"192.0.2.0/24\"", 1);
    let rows = [
        (good() + alike, Some((16, "peer.channel", "of its own"))),
        (good() + &alike.replace("eth0", "eth1"), None),
        (good() + &alike.replace("2.1:", "2.2:"), None),
        (good() + alike + "source = \"192.0.2.7\"\n", None),
        (good().replacen("\"10.77.0.2\"", "", 1), Some((6, "peer.allowed_ips", "is empty"))),
        (good().replacen("\"10.77.0.2\"", "\"10.77.0.1\"", 1), Some((6, "peer.allowed_ips", "the other end's"))),
        (good().replacen("\"10.77.0.2\"", "\"10.77.0.0/24\"", 1), None),
        (inside.clone(), None),
        (inside.replacen("device = \"eth0\"\n", "", 1), Some((12, "peer.channel.endpoint", "name the `device`"))),
        (
            good().replacen("device = \"eth0\"\n", "", 1) + "tcp_endpoint = \"10.77.0.2:443\"\n",
            Some((14, "peer.channel.tcp_endpoint", "name the `device`")),
        ),
        (good() + "tcp_endpoint = \"10.77.0.2:443\"\n", None),
        (
            inside.replacen("device = \"eth0\"\n", "", 1).replacen("[interface]", "[interface]\ntable = \"off\"", 1),
            None,
        ),
    ];
    for (text, expected) in rows {
        let notices = parse(&text).unwrap_or_else(|e| panic!("{e}: {text}")).notices;
        let told = notices.first().map(|n| (n.line, n.setting.as_str()));
        assert_eq!(
            (told, notices.len()),
            (expected.map(|(l, s, _)| (l, s)), usize::from(expected.is_some())),
            "{text}"
        );
        assert!(expected.is_none_or(|(_, _, advice)| notices[0].problem.contains(advice)), "{notices:?}");
    }
}

#[test]
fn who_only_locks_needs_no_key_and_all_else_of_the_file_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fs0.toml");
    let text = good().replace(
        &format!("private_key = \"{KEY}\""),
        "private_key_file = \"/run/credentials/none/private.key\"\nlock = true\nweb = \"127.0.0.1:9320\"\nweb_password_file = \"none\"",
    ) + "[[peer]]\npublic_key = \"YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=\"\nallowed_ips = [\"10.77.0.3\"]\npreshared_key_file = \"none\"\n\
         [[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.9:51900\"\n";
    std::fs::write(&file, &text).unwrap();
    assert_eq!(Config::load(&file).unwrap_err().setting, "interface.private_key_file");
    let config = Config::load_to_lock(&file).unwrap();
    assert!(config.interface.lock && config.notices.is_empty(), "{:?}", config.notices);
    std::fs::write(&file, text.replace("10.77.0.3", "10.77.0.300")).unwrap();
    assert_eq!(Config::load_to_lock(&file).unwrap_err().setting, "peer.allowed_ips");
}

#[test]
fn a_lock_that_could_not_hold_is_refused_and_a_default_route_without_one_is_told() {
    let text = |more: &str, nets: &str| {
        good().replacen("[interface]", &format!("[interface]\n{more}"), 1).replacen("\"10.77.0.2\"", nets, 1)
    };
    let all = "\"0.0.0.0/0\"";
    for (more, line, setting, advice) in [
        ("lock = true\nfwmark = 0\n", 2, "interface.lock", "other than 0"),
        ("lock = true\nlock_except = [\"10.0.0.0/8\", \"::/0\"]\n", 3, "interface.lock_except", "`lock = false`"),
        ("lock = true\nlock_except = [\"10.0.0.1/8\"]\n", 3, "interface.lock_except", "10.0.0.0/8"),
    ] {
        let error = parse(&text(more, "\"10.77.0.2\"")).unwrap_err();
        assert_eq!((error.line, error.setting.as_str()), (line, setting), "{error}");
        assert!(error.problem.contains(advice), "{error}");
    }
    for (more, nets, advice) in [
        ("dns = [\"10.77.0.7\"]\n", all, "write `lock = true`"),
        ("lock = true\ndns = [\"resolver\"]\n", all, "10.77.0.1"),
        ("lock = true\ndns = [\"10.77.0.7\", \"10.77.0.3\"]\n", all, "leave the other out"),
        ("lock = true\ndns = [\"127.0.0.53\"]\n", all, "beyond the interface"),
        ("lock = true\ndns = [\"10.77.0.1\"]\n", all, "own address"),
        ("lock = true\ndns = [\"10.77.0.3\"]\n", "\"10.77.0.2\"", "add it there"),
    ] {
        let error = parse(&text(more, nets)).unwrap_err();
        assert_eq!(error.setting, "interface.dns", "{error}");
        assert!(error.problem.contains(advice), "{error}");
    }
    let many: Vec<String> = (0..65).map(|n| format!("\"10.{n}.0.0/16\"")).collect();
    let error = parse(&text(&format!("lock = true\nlock_except = [{}]\n", many.join(",")), all)).unwrap_err();
    assert!(error.problem.contains("more than 64"), "{error}");
    for (more, nets, told) in [
        ("", all, Some(("peer.allowed_ips", "`lock = true` in [interface]"))),
        ("", "\"::/0\"", Some(("peer.allowed_ips", "in the clear"))),
        ("lock = true\n", all, None),
        ("lock = false\n", all, None),
        ("table = \"off\"\n", all, None),
        ("", "\"10.77.0.2\"", None),
        ("lock_except = [\"10.0.0.0/8\"]\n", "\"10.77.0.2\"", Some(("interface.lock_except", "nothing is locked"))),
    ] {
        let notices = parse(&text(more, nets)).unwrap().notices;
        assert_eq!(notices.first().map(|n| n.setting.as_str()), told.map(|(setting, _)| setting), "{more}{nets}");
        assert!(told.is_none_or(|(_, words)| notices[0].problem.contains(words)), "{notices:?}");
    }
    let bond = "[interface]\nname = \"b0\"\nlock = true\n[bond]\npolicy = \"active-backup\"\n[[bond.link]]\ndevice = \"eth0\"\n";
    assert_eq!(parse(bond).unwrap_err().setting, "interface.lock");
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

#[test]
fn an_endpoint_may_be_a_name_and_what_is_neither_name_nor_address_is_refused() {
    let text = |endpoint: &str, more: &str| {
        format!(
            "[interface]\nname = \"fs0\"\nprivate_key = \"QHRWemFtcGxlLWtleS1leGFtcGxlLWtleS1leGFtcGw=\"\n{more}[[peer]]\n\
             public_key = \"TrMvSoP4jYQlY6RIzBgbssQqY3vxI2Pi+y71lOWWXX0=\"\nallowed_ips = [\"10.1.0.0/16\"]\n\
             [[peer.channel]]\nkind = \"udp\"\nendpoint = \"{endpoint}\"\n"
        )
    };
    for (endpoint, host) in [
        ("hub.example.net:51900", Some("hub.example.net")),
        ("hub:1", Some("hub")),
        ("3com.example-2.org:51900", Some("3com.example-2.org")),
        ("192.0.2.1:51900", None),
        ("[2001:db8::1]:51900", None),
    ] {
        let config = Config::parse(Path::new("fs0.toml"), &text(endpoint, "")).unwrap_or_else(|e| panic!("{e}"));
        let channel = &config.peers[0].channels[0];
        assert_eq!((channel.host.as_deref(), channel.is_unresolved()), (host, host.is_some()), "{endpoint}");
    }
    for endpoint in
        ["hub:0", "hub", "hub:99999", "-hub:1", "a..b:1", "hub_1.net:1", "192.0.2.300:1", "hub.1:1", ":1", "", "h b:1"]
    {
        let refused = Config::parse(Path::new("fs0.toml"), &text(endpoint, "")).expect_err(endpoint);
        assert_eq!(refused.setting, "peer.channel.endpoint", "{refused}");
    }
    let locked = Config::parse(Path::new("fs0.toml"), &text("hub.example.net:51900", "lock = true\n")).expect("good");
    assert!(locked.notices.iter().any(|notice| notice.problem.contains("/etc/hosts")), "{:?}", locked.notices);
}

/// A good file with a second channel, and classes.
fn classed(classes: &str) -> Result<Config, ConfigError> {
    let second =
        "\n[[peer.channel]]\nname = \"lte\"\nkind = \"udp\"\ndevice = \"eth1\"\nendpoint = \"192.0.2.1:51900\"\n";
    parse(&format!("{}{second}{classes}", good()))
}

#[test]
fn classes_are_read_in_their_order_as_lists_or_single_words() {
    let text = "[[peer.class]]\nname = \"calls\"\ndscp = [\"EF\", \"CS5\", 26]\nprotocol = \"udp\"\nport = [\"5060-5080\", 443]\n\
                address = [\"198.51.100.0/24\"]\nmode = \"prompt\"\nlatency = \"20ms\"\nchannels = [\"channel0\", \"lte\"]\n\
                [[peer.class]]\nport = 22\nchannels = \"lte\"\nonly = true\n";
    let config = classed(text).unwrap();
    let written = "name=calls\tdscp=EF,CS5,AF31\tprotocol=udp\tport=5060-5080,443\taddress=198.51.100.0/24\tmode=prompt\t\
                   channels=channel0,lte\tlatency=20ms\nname=class1\tport=22\tchannels=lte\tonly=on";
    assert_eq!(config.peers[0].bond.classes.to_string(), written);
    assert!(classed("").unwrap().peers[0].bond.classes.0.is_empty());
}

#[test]
fn a_class_that_cannot_work_is_refused_at_its_line() {
    let rows = [
        ("dscp = \"EX\"", "peer.class.dscp", "from 0 to 63"),
        ("dscp = 64", "peer.class.dscp", "from 0 to 63"),
        ("protocol = true", "peer.class.protocol", "a list of them"),
        ("protocol = \"sctp\"", "peer.class.protocol", "tcp, udp, icmp"),
        ("port = [\"80\", \"9-8\"]", "peer.class.port", "such as 5060-5080"),
        ("address = \"198.51.100.1/24\"", "peer.class.address", "198.51.100.0/24"),
        ("mode = \"flow\"", "peer.class.mode", "reliable, prompt, duplicate, backup"),
        ("latency = \"20\"", "peer.class.latency", "write a time"),
        ("latency = \"11s\"", "peer.class.latency", "to 10s"),
        ("only = \"yes\"", "peer.class.only", "true or false"),
        ("only = true", "peer.class.only", "needs `channels`"),
        ("channels = \"dsl\"", "peer.class.channels", "channel0, lte"),
        ("channels = \"a,b\"", "peer.class.channels", "without commas"),
        ("name = \"\"", "peer.class.name", "1 to 64 bytes"),
        ("colour = \"red\"", "", "expected one of `name`, `dscp`"),
    ];
    let lines = good().lines().count() + 6;
    for (line, setting, advice) in rows {
        let error = classed(&format!("[[peer.class]]\n{line}\n")).unwrap_err();
        let place = if setting.is_empty() { error.line } else { lines + 2 };
        assert_eq!((error.setting.as_str(), error.line), (setting, place), "{line}: {error}");
        assert!(error.problem.contains(advice), "{line}: {error}");
    }
    let error =
        classed("[[peer.class]]\nname = \"a\"\nport = 1\n[[peer.class]]\nname = \"a\"\nport = 2\n").unwrap_err();
    assert_eq!((error.setting.as_str(), error.line), ("peer.class.name", lines + 5), "{error}");
    let text = good().replace("allowed_ips", "mode = \"flow\"\nallowed_ips") + "[[peer.class]]\nport = 1\n";
    let error = parse(&text).unwrap_err();
    assert!(error.setting == "peer.class" && error.problem.contains("mode = \"reliable\""), "{error}");
}

#[test]
fn who_listens_may_name_channels_that_come_with_the_handshake() {
    let text = good().split("[[peer.channel]]").next().unwrap().replace("[[peer]]", "listen_port = 51900\n[[peer]]");
    let config = parse(&format!("{text}[[peer.class]]\nchannels = [\"dsl\"]\nonly = true\n")).unwrap();
    assert_eq!(config.peers[0].bond.classes.0[0].channels.to_string(), "dsl");
}

#[test]
fn other_classes_need_a_restart() {
    let class = |port: u16| classed(&format!("[[peer.class]]\nport = {port}\n")).unwrap();
    assert!(class(1).needing_restart(&class(1)).is_empty());
    assert_eq!(class(1).needing_restart(&class(2)).into_iter().collect::<Vec<_>>(), ["peer.class"]);
}
