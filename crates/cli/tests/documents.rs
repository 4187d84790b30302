//! Holds docs/ to the program: settings, counters, commands and exit statuses.

#[path = "common/child.rs"]
mod child;
#[path = "common/keys.rs"]
mod keys;

use fairspan_core::bond;
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::lan;
use fairspan_core::options::{Family, Member};
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::ring;
use fairspan_core::select::POLICIES;
use fairspan_live::config::{Config, ConfigError};
use fairspan_live::emulate::EmulateConfig;
use fairspan_live::{channel, secure, tun};
use keys::{KEY, PEER_KEY, key_folder};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}

fn document(name: &str) -> String {
    let path = root().join("docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The content of a cell that is one code span.
fn code_span(cell: &str) -> Option<&str> {
    let inner = cell.trim().strip_prefix('`')?.strip_suffix('`')?;
    (!inner.contains('`')).then_some(inner)
}

/// The rows below a heading: setting, example, default, meaning.
fn rows(document: &str, heading: &str) -> Vec<[String; 4]> {
    let (_, section) = document.split_once(heading).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    let table = section.split("\n\n").find(|part| part.trim_start().starts_with("| setting |")).expect("a table");
    let rows = table.trim().lines().skip(2).map(|line| {
        let mut cells = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned());
        [(); 4].map(|()| cells.next().unwrap_or_default())
    });
    rows.collect()
}

const UNITS: [&str; 12] = ["ns", "us", "ms", "s", "min", "h", "B", "kB", "MB", "kbit", "Mbit", "Gbit"];

/// The bounds in a text: numbers, perhaps with units, on both sides of ` to `.
fn bounds(text: &str) -> Vec<String> {
    let text = text.replace("µs", "us").replace(',', "");
    let words: Vec<&str> = text.split([' ', ';', '(', ')']).filter(|word| !word.is_empty()).collect();
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let unit = |place: usize| words.get(place).filter(|word| UNITS.contains(word)).copied().unwrap_or_default();
    let between = (1..words.len()).filter(|&place| words[place] == "to" && words.get(place + 1).is_some_and(is_number));
    between
        .filter_map(|place| {
            let least = words[..place].iter().rposition(is_number).filter(|&least| place - least <= 2)?;
            Some([words[least], unit(least + 1), " to ", words[place + 1], unit(place + 2)].concat())
        })
        .collect()
}

/// Holds the bounds in a setting's row to those that the program names when it refuses values beyond; tells whether it does.
fn holds_bounds<T>(key: &str, row: [&str; 2], read: impl Fn(&str) -> Result<T, ConfigError>) -> bool {
    // Of these the bounds follow from other settings.
    if ["node", "to", "copies"].contains(&key) {
        return false;
    }
    let [example, meaning] = row;
    let beyond: &[&str] = match example.trim_matches('"').trim_start_matches(|c: char| c.is_ascii_digit()) {
        "" => &["0", "60000", "70000"],
        "ns" | "us" | "ms" | "s" | "min" | "h" => &["\"0ns\"", "\"9999h\""],
        "B" | "kB" | "MB" | "GB" => &["\"0B\"", "\"999999GB\""],
        "kbit" | "Mbit" | "Gbit" => &["\"1bit\"", "\"9999Gbit\""],
        _ => &[],
    };
    let problems = beyond.iter().filter_map(|value| read(value).err()).map(|error| error.problem);
    let said: Vec<String> = problems.flat_map(|problem| bounds(&problem)).collect();
    let documented = bounds(meaning);
    assert!(said.iter().all(|said| documented.contains(said)), "{key}: {said:?}, in docs/settings.md {documented:?}");
    !said.is_empty()
}

type Settings = BTreeMap<String, String>;

/// A configuration that works, as settings by section.
fn sections(udp: bool) -> [(&'static str, Settings); 3] {
    let settings = |pairs: &[(&str, &str)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let channel: Settings = if udp {
        settings(&[("kind", "\"udp\""), ("endpoint", "\"203.0.113.1:51900\"")])
    } else {
        settings(&[("kind", "\"ethernet\""), ("device", "\"eth1\"")])
    };
    [
        ("[interface]", settings(&[("name", "\"fs0\""), ("private_key", KEY)])),
        ("[[peer]]", settings(&[("public_key", PEER_KEY), ("allowed_ips", "[\"10.77.0.9/32\"]")])),
        ("[[peer.channel]]", channel),
    ]
}

fn parse(folder: &Path, sections: &[(&str, Settings)]) -> Result<Config, ConfigError> {
    let mut text = String::new();
    let port = sections[0].1.get("kind").is_some_and(|kind| kind == "\"port\"");
    let invited = sections[1].1.contains_key("invitation_file");
    for (heading, settings) in sections.iter().filter(|(heading, _)| !(invited && *heading == "[[peer.channel]]")) {
        text += &format!("{heading}\n");
        // The peer of a port has none.
        let settings = settings.iter().filter(|(key, _)| !(port && *key == "allowed_ips"));
        settings.for_each(|(key, value)| text += &format!("{key} = {value}\n"));
    }
    Config::parse(&folder.join("fs0.toml"), &text)
}

/// The working configuration in which `key` of section `place` can stand.
fn base_for(place: usize, key: &str) -> [(&'static str, Settings); 3] {
    let ethernet = place == 2 && ["peer_mac", "ethertype", "secure"].contains(&key);
    let mut base = sections(!ethernet);
    if let Some(stem) = key.strip_suffix("_file") {
        base[place].1.remove(stem);
    }
    if key == "invitation_file" {
        base[0].1.insert("listen_port".into(), "51900".into());
        base[1].1.remove("public_key");
    }
    if key == "device" {
        base[0].1.insert("kind".into(), "\"port\"".into());
    }
    // The channel that the example names, among others.
    let of_channels =
        [("quota_day", "quota", "\"50GB\""), ("metered", "name", "\"lte\""), ("fragment_delay", "rate", "\"2Mbit\"")];
    for (_, setting, value) in of_channels.into_iter().filter(|(needs, ..)| *needs == key) {
        base[2].1.insert(setting.into(), value.into());
    }
    if key == "dns" {
        base[0].1.insert("lock".into(), "true".into());
    }
    let stripe = ["confirm_order", "credits", "fragment_delay", "marker_place", "marker_rounds", "stripe_buffer"];
    for (needs, mode) in [(&["copies"][..], "\"duplicate\""), (&["policy"], "\"flow\""), (&stripe, "\"stripe\"")] {
        if needs.contains(&key) {
            base[1].1.insert("mode".into(), mode.into());
        }
    }
    base
}

#[test]
fn every_setting_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let folder = key_folder();
    let document = document("settings.md");
    let mut bounded = 0;
    for (place, (heading, _)) in sections(true).iter().enumerate() {
        let rows = rows(&document, &format!("## `{heading}`"));
        // What the program knows: it lists its settings when it meets one that it does not know.
        let mut unknown = sections(true);
        unknown[place].1.insert("no_such_setting".into(), "1".into());
        let problem = parse(folder.path(), &unknown).expect_err("an unknown setting is refused").problem;
        let (_, known) = problem.split_once("expected one of").unwrap_or_else(|| panic!("{problem}"));
        let known = known.split(" (in ").next().unwrap_or_default();
        let tables = ["channel", "class", "split"];
        let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).filter(|key| !tables.contains(key)).collect();
        let mut documented: Vec<&str> = rows.iter().filter_map(|row| code_span(&row[0])).collect();
        known.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, known, "docs/settings.md against the program, {heading}");

        for [key, example, default, meaning] in &rows {
            let key = code_span(key).expect("a setting's name");
            let example = code_span(example).unwrap_or_else(|| panic!("{key}: the example is `{example}`"));
            let base = base_for(place, key);
            let read = |value: &str| {
                let mut sections = base.clone();
                sections[place].1.insert(key.into(), value.into());
                parse(folder.path(), &sections)
            };
            bounded += usize::from(holds_bounds(key, [example, meaning], read));
            let with = |value: &str| read(value).unwrap_or_else(|e| panic!("{heading} {key} = {value}: {e}"));
            let without = || {
                let mut sections = base.clone();
                sections[place].1.remove(key);
                parse(folder.path(), &sections)
            };
            let set = format!("{:?}", with(example));
            match default.as_str() {
                "required" => drop(without().expect_err(&format!("{heading} {key} is said to be required"))),
                "none" | "by its channels" => {
                    // A key is needed where a channel is encrypted.
                    let changes = without().map_or(true, |without| format!("{without:?}") != set);
                    assert!(changes, "{key} = {example} means nothing");
                }
                _ => {
                    let default = code_span(default).unwrap_or_else(|| panic!("{key}: the default is `{default}`"));
                    assert!(
                        key == "name" || format!("{:?}", without().unwrap()) != set,
                        "{key} = {example}: the default"
                    );
                    assert_eq!(format!("{:?}", with(default)), format!("{:?}", without().unwrap()), "{key}");
                }
            }
        }
    }
    assert!(bounded >= 8, "{bounded} settings with bounds");
}

#[test]
fn every_setting_of_a_class_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let folder = key_folder();
    let document = document("settings.md");
    let with = |settings: &[(&str, &str)]| {
        let class: Settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let [interface, peer, mut channel] = sections(true);
        channel.1.insert("name".into(), "\"dsl\"".into());
        parse(folder.path(), &[interface, peer, channel, ("[[peer.class]]", class)])
    };
    let rows = rows(&document, "## `[[peer.class]]`");
    let problem = with(&[("no_such_setting", "1")]).expect_err("an unknown setting is refused").problem;
    let known = problem.split_once("expected one of ").expect("a list").1.split(" (in ").next().unwrap_or_default();
    let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
    let mut documented: Vec<&str> = rows.iter().filter_map(|row| code_span(&row[0])).collect();
    known.sort_unstable();
    documented.sort_unstable();
    assert_eq!(documented, known, "docs/settings.md against the program");
    let mut bounded = 0;
    for [key, example, default, meaning] in &rows {
        let key = code_span(key).expect("a setting's name");
        let base: &[(&str, &str)] = if key == "only" { &[("channels", "\"dsl\"")] } else { &[] };
        let read = |value: &str| with(&[base, &[(key, value)]].concat());
        let shown = |value: &str| format!("{:?}", read(value).unwrap_or_else(|e| panic!("{key} = {value}: {e}")));
        let (example, default) = (code_span(example).expect("an example"), code_span(default).expect("a default"));
        let without = format!("{:?}", with(base).expect("nothing is required"));
        assert_ne!(shown(example), without, "{key}: the example is the default");
        assert_eq!(shown(default), without, "{key}: the default");
        bounded += usize::from(key == "latency" && holds_bounds(key, [example, meaning], read));
    }
    assert_eq!(bounded, 1);
}

#[test]
fn every_setting_of_an_ethernet_bond_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let folder = key_folder();
    let document = document("settings.md");
    let settings = |pairs: &[(&str, &str)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect();
    let mut bounded = 0;
    // ARP targets go with an interval.
    let base: [(&str, Settings); 3] = [
        ("[interface]", settings(&[("name", "\"bond0\"")])),
        ("[bond]", settings(&[("policy", "\"active-backup:arp_interval=1s\""), ("arp_ip_target", "[\"10.0.0.1\"]")])),
        ("[[bond.link]]", settings(&[("device", "\"eth1\"")])),
    ];
    for place in [1, 2] {
        let heading = base[place].0;
        let rows = rows(&document, &format!("## `{heading}`"));
        let mut unknown = base.clone();
        unknown[place].1.insert("no_such_setting".into(), "1".into());
        let problem = parse(folder.path(), &unknown).expect_err("an unknown setting is refused").problem;
        let known = problem.split_once("expected ").expect("a list").1.split(" (in ").next().unwrap_or_default();
        let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).filter(|&key| key != "link").collect();
        let mut documented: Vec<&str> = rows.iter().filter_map(|row| code_span(&row[0])).collect();
        known.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, known, "docs/settings.md against the program, {heading}");
        for [key, example, default, meaning] in &rows {
            let key = code_span(key).expect("a setting's name");
            let with = |value: Option<&str>| {
                let mut sections = base.clone();
                sections[place].1.remove(key);
                sections[place].1.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                if key == "policy" || value == Some("[]") || (key == "arp_ip_target" && value.is_none()) {
                    sections[1].1.remove("arp_ip_target");
                    if key != "policy" {
                        sections[1].1.insert("policy".into(), "\"brr\"".into());
                    }
                }
                parse(folder.path(), &sections).map(|config| format!("{config:?}"))
            };
            let row = [code_span(example).unwrap_or_default(), meaning.as_str()];
            bounded += usize::from(holds_bounds(key, row, |value| with(Some(value))));
            let example = with(code_span(example)).unwrap_or_else(|e| panic!("{heading} {key}: {e}"));
            match default.as_str() {
                "required" => drop(with(None).expect_err(&format!("{heading} {key} is said to be required"))),
                "none" => assert_ne!(with(None).expect("not required"), example, "{key}: the example is the default"),
                _ => {
                    let without = with(None).expect("not required");
                    assert_ne!(without, example, "{key}: the example is the default");
                    assert_eq!(with(code_span(default)), Ok(without), "{key}: the default");
                }
            }
        }
    }
    assert!(bounded >= 1, "{bounded} settings with bounds");
}

#[test]
fn every_setting_of_a_ring_is_documented_with_an_example_that_is_accepted_and_its_true_default() {
    let folder = key_folder();
    let document = document("settings.md");
    let settings =
        |pairs: &[(&str, &str)]| pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect::<Settings>();
    let mut bounded = 0;
    let udp = settings(&[("kind", "\"udp\""), ("public_key", PEER_KEY), ("endpoint", "\"203.0.113.1:51900\"")]);
    let called = settings(&[("kind", "\"udp\""), ("public_key", PEER_KEY)]);
    let plain = settings(&[("kind", "\"ethernet\""), ("device", "\"eth1\"")]);
    let sealed = settings(&[("kind", "\"ethernet\""), ("device", "\"eth1\""), ("public_key", PEER_KEY)]);
    let base: [(&str, Settings); 5] = [
        ("[interface]", settings(&[("name", "\"ring0\""), ("private_key", KEY), ("listen_port", "51900")])),
        ("[ring]", settings(&[("node", "1"), ("nodes", "8"), ("rate", "\"100Mbit\"")])),
        ("[ring.east]", udp.clone()),
        ("[[ring.station]]", settings(&[("node", "4"), ("networks", "[\"10.7.0.0/16\"]")])),
        ("[[ring.reservation]]", settings(&[("class", "\"A\""), ("rate", "\"1Mbit\"")])),
    ];
    let headings =
        ["", "## `[ring]`", "## `[ring.east]`, `[ring.west]`", "## `[[ring.station]]`", "## `[[ring.reservation]]`"];
    for place in 1..base.len() {
        let rows = rows(&document, headings[place]);
        let mut unknown = base.clone();
        unknown[place].1.insert("no_such_setting".into(), "1".into());
        let problem = parse(folder.path(), &unknown).expect_err("an unknown setting is refused").problem;
        let known = problem.split_once("expected ").expect("a list").1.split(" (in ").next().unwrap_or_default();
        let sections = ["east", "west", "station", "reservation"];
        let mut known: Vec<&str> = known.split('`').skip(1).step_by(2).filter(|key| !sections.contains(key)).collect();
        let mut documented: Vec<&str> = rows.iter().filter_map(|row| code_span(&row[0])).collect();
        known.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, known, "docs/settings.md against the program, {}", headings[place]);
        for [key, example, default, meaning] in &rows {
            let key = code_span(key).expect("a setting's name");
            let with = |value: Option<&str>| {
                let mut sections = base.clone();
                if place == 2 {
                    sections[2].1 = match key {
                        "peer_mac" | "ethertype" => plain.clone(),
                        "secure" if value == Some("true") => sealed.clone(),
                        "secure" => plain.clone(),
                        "endpoint" => called.clone(),
                        _ => udp.clone(),
                    };
                }
                sections[place].1.remove(key);
                sections[place].1.extend(value.map(|value| (key.to_owned(), value.to_owned())));
                parse(folder.path(), &sections).map(|config| format!("{config:?}"))
            };
            let row = [code_span(example).unwrap_or_default(), meaning.as_str()];
            bounded += usize::from(holds_bounds(key, row, |value| with(Some(value))));
            let example = with(code_span(example)).unwrap_or_else(|e| panic!("{} {key}: {e}", headings[place]));
            match default.as_str() {
                "required" => drop(with(None).expect_err(&format!("{} {key} is said to be required", headings[place]))),
                "none" => assert_ne!(with(None).expect("not required"), example, "{key}: the example is the default"),
                _ => {
                    let without = with(None).expect("not required");
                    assert_ne!(without, example, "{key}: the example is the default");
                    assert_eq!(with(code_span(default)), Ok(without), "{key}: the default");
                }
            }
        }
    }
    assert!(bounded >= 8, "{bounded} settings with bounds");
}

#[test]
fn every_example_is_a_configuration_that_is_accepted() {
    let folder = key_folder();
    let mut examples = 0;
    for entry in fs::read_dir(root().join("docs/examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("an example");
        if path.ends_with("links.toml") {
            let (links, _) = EmulateConfig::load(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert_eq!(links.len(), 2);
        } else if path.ends_with("profiles.toml") {
            // A unit test of `bench profiles` reads it.
            continue;
        } else {
            let text = text.replace("/etc/fairspan/private.key", "private.key");
            Config::parse(&folder.path().join("fs0.toml"), &text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        }
        examples += 1;
    }
    assert!(examples >= 5, "{examples} examples");
}

/// The names in code spans in the first cells of a document's tables.
fn documented_names(document: &str) -> Vec<&str> {
    let rows = document.lines().filter(|line| line.starts_with('|'));
    rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_counter_of_the_status_is_documented_once() {
    let document = document("status.md");
    let (_, tables) = document.split_once("\n## Counters of a peer").expect("tables of counters");
    let names = documented_names(tables);
    let prefixed = |prefix: &str, counters: Vec<(&'static str, u64)>| {
        counters.into_iter().map(|(name, _)| format!("{prefix}{name}")).collect::<Vec<String>>()
    };
    let counters = [
        prefixed("", bond::Stats::default().each().collect()),
        prefixed("", bond::ChannelStats::default().each().collect()),
        prefixed("", bond::ClassStats::default().each().collect()),
        prefixed("flow_", bond::FlowStats::default().each().collect()),
        prefixed("fragments_", bond::FragmentCounts::default().each().collect()),
        prefixed("tun_", tun::Stats::default().each().collect()),
        prefixed("secure_", secure::Stats::default().each().collect()),
        prefixed("socket_", channel::udp::UdpStats::default().each().collect()),
        prefixed("stream_", channel::tcp::TcpStats::default().each().collect()),
    ];
    let mut missing: Vec<String> = counters.concat();
    missing.retain(|name| names.iter().filter(|documented| *documented == name).count() != 1);
    assert!(missing.is_empty(), "not in the tables of docs/status.md, or twice: {missing:?}");
}

#[test]
fn every_counter_of_an_ethernet_bond_is_documented() {
    let document = document("status.md");
    let (_, tables) = document.split_once("\n## Counters of an Ethernet bond").expect("tables of counters");
    let names = documented_names(tables.split("\n## ").next().unwrap_or_default());
    let (bond, link) = (lan::Stats::default(), lan::LinkStats::default());
    let counters = bond.each().chain(link.each());
    let missing: Vec<_> = counters.map(|(name, _)| name).filter(|name| !names.contains(name)).collect();
    assert!(missing.is_empty(), "not in docs/status.md: {missing:?}");
}

#[test]
fn every_counter_of_a_ring_s_node_is_documented() {
    let document = document("status.md");
    let (_, tables) = document.split_once("\n## Counters of a ring's node").expect("tables of counters");
    let names = documented_names(tables.split("\n## ").next().unwrap_or_default());
    let node = ring::node::Stats::default();
    let discovery = ring::discovery::Stats::default();
    let prefixed = |prefix: &str, name: &str| format!("{prefix}{name}");
    let counters = node.each().map(|(name, _)| name.to_owned());
    let counters = counters.chain(discovery.each().map(|(name, _)| prefixed("discovery_", name)));
    let counters = counters.chain(ring::discovery::REASONS.iter().map(|name| prefixed("refused_", name)));
    let missing: Vec<_> = counters.filter(|name| !names.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "not in docs/status.md: {missing:?}");
}

fn fairspan(arguments: &[&str]) -> Output {
    child::output(Command::new(env!("CARGO_BIN_EXE_fairspan")).args(arguments))
}

#[test]
fn every_command_is_documented_and_every_documented_command_exists() {
    let help = String::from_utf8(fairspan(&["--help"]).stdout).expect("text");
    let (_, commands) = help.split_once("Commands:\n").expect("a list of commands");
    let lines = commands.lines().take_while(|line| line.starts_with("  "));
    // A description that is too long for its line goes on below, indented further.
    let lines = lines.filter(|line| !line.starts_with("   "));
    let mut listed: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
    listed.retain(|&command| command != "help");
    let document = document("commands.md");
    let mut documented: Vec<&str> = documented_names(&document)
        .iter()
        .filter_map(|name| name.strip_prefix("fairspan ")?.split(' ').next())
        .collect();
    listed.sort_unstable();
    documented.sort_unstable();
    // One that has commands of its own has a row for each.
    documented.dedup();
    assert_eq!(documented, listed);
    let help = String::from_utf8(fairspan(&["bench", "--help"]).stdout).expect("text");
    for what in ["gateway", "profiles", "reliable", "replay", "sim", "tunnel", "watched"] {
        assert!(
            help.contains(&format!("\n  {what} ")) && document.contains(&format!("`fairspan bench {what}`")),
            "{what}"
        );
    }
}

#[test]
fn bad_usage_and_bad_input_end_with_the_documented_status_and_say_what_would_be_right() {
    let missing = "/nonexistent/fs0.toml";
    for arguments in [
        &["no-such-command"][..],
        &["demo", "--duration", "0"],
        &["demo", "--no-such-flag"],
        &["bench", "tunnel", "--runs", "many"],
        &["bench", "sim", "--runs", "0"],
        &["up"],
        &["up", missing],
        &["check", missing],
        &["replay", missing],
        &["select"],
        &["select", "Cargo.toml"],
        &["select", missing, "--links", "4"],
        &["select", "--links", "4"],
        &["select", "Cargo.toml", "--links", "4"],
        &["select", "Cargo.toml", "--links", "0"],
        &["select", "Cargo.toml", "--links", "65"],
        &["select", "Cargo.toml", "--links", "dsl"],
        &["select", "Cargo.toml", "--links", "dsl:fast"],
        &["select", "Cargo.toml", "--links", "dsl:0"],
        &["select", "Cargo.toml", "--links", "4", "--policy", "no-such-policy"],
        &["select", "Cargo.toml", "--links", "4", "--policy", "brr:soon"],
        &["select", "Cargo.toml", "--links", "4", "--policy", "brr", "--all"],
        &["select", "Cargo.toml", "--links", "4", "--interval", "1ms"],
        &["sim"],
        &["sim", missing],
        &["sim", missing, "--set", "duration"],
        &["figure", "no.such-figure"],
        &["figure", "striping", "--all"],
        &["claims", "striping.no-such-claim"],
        &["claims", "--kept", missing],
        &["ring"],
        &["ring", "rias", missing],
        &["ring", "rias", "Cargo.toml"],
        &["ring", "check", missing, "--rates", "-"],
        &["ring", "check", "-", "--rates", "-"],
        &["ring", "check", missing],
        &["emulate", "--a", "x:y"],
        &["emulate", "--a", "x:y", "--b", "x:z", "--rate", "fast"],
    ] {
        let output = fairspan(arguments);
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(
            output.stdout.is_empty() && !message.is_empty() && !message.contains("panicked"),
            "{arguments:?}: {message}"
        );
    }
    for command in [
        "demo", "up", "status", "check", "keygen", "pubkey", "emulate", "bench", "replay", "select", "sim", "figure",
        "claims", "ring",
    ] {
        let output = fairspan(&[command, "--help"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{command} --help");
    }
}

#[test]
fn the_policies_and_their_options_are_documented_as_they_are() {
    let mut names = String::from("| policy | mode | main option | does |\n|---|---|---|---|\n");
    for spec in POLICIES {
        let mode = spec.mode.map(|mode| mode.to_string()).unwrap_or_default();
        let main = spec.main.map(|main| format!("`{main}`")).unwrap_or_default();
        names += &format!("| `{}` | {mode} | {main} | {} |\n", spec.name, spec.help);
    }
    let options = options_table(POLICIES);
    generated("select.md", &[(["<!-- policies:", "<!-- end of policies -->"], names), (OPTION_MARKS, options)]);
}

#[test]
fn fairness_algorithms_and_their_options_are_documented_as_they_are() {
    let mut names = String::from("| algorithm | is |\n|---|---|\n");
    for spec in ring::algorithm::ALGORITHMS {
        names += &format!("| `{}` | {} |\n", spec.name, spec.help);
    }
    let options = options_table(ring::algorithm::ALGORITHMS);
    generated("rings.md", &[(["<!-- algorithms:", "<!-- end of algorithms -->"], names), (OPTION_MARKS, options)]);
}

#[test]
fn queue_disciplines_and_buffer_policies_are_documented_as_they_are() {
    generated(
        "scenarios.md",
        &[
            (["<!-- disciplines:", "<!-- end of disciplines -->"], members_table(DisciplineConfig::MEMBERS)),
            (["<!-- buffers:", "<!-- end of buffers -->"], members_table(PolicyConfig::MEMBERS)),
        ],
    );
}

/// The members of a family, with their options and defaults.
fn members_table<F: Family>(members: &[Member<F>]) -> String {
    let mut text = String::from("| name | options | what it does |\n|---|---|---|\n");
    for member in members {
        let options: Vec<String> =
            member.options().map(|(option, default)| format!("`{}={default}`", option.name)).collect();
        text += &format!("| `{}` | {} | {} |\n", member.name, options.join(", "), member.help);
    }
    text
}

/// The options of a family's members, in the order in which they first come: whose each is, what it takes, its default.
fn options_table<F: Family>(members: &[Member<F>]) -> String {
    let mut text = String::from("| option | of | takes | default | does |\n|---|---|---|---|---|\n");
    let mut told: Vec<&str> = Vec::new();
    for (option, _) in members.iter().flat_map(Member::options) {
        if told.contains(&option.name) {
            continue;
        }
        told.push(option.name);
        let default = |member: &Member<F>| {
            let (_, default) = member.options().find(|(own, _)| own.name == option.name)?;
            Some((member.name, default))
        };
        let owners: Vec<(&str, String)> = members.iter().filter_map(default).collect();
        let names: Vec<String> = owners.iter().map(|(name, _)| format!("`{name}`")).collect();
        let of = if names.len() == members.len() { "all".to_owned() } else { names.join(", ") };
        let default = match owners.split_first() {
            Some(((_, first), others)) if others.iter().all(|(_, default)| default == first) => format!("`{first}`"),
            _ => owners.iter().map(|(name, default)| format!("`{default}` ({name})")).collect::<Vec<_>>().join(", "),
        };
        let expected = option.expected();
        let takes = expected.trim_start_matches("write ");
        text += &format!("| `{}` | {of} | {takes} | {default} | {} |\n", option.name, option.help);
    }
    text
}

/// Around a table of options.
const OPTION_MARKS: [&str; 2] = ["<!-- options", "<!-- end of options -->"];

/// Holds the parts of a document between marks to what the program's tables say; with UPDATE_DOCS, writes them.
fn generated(name: &str, parts: &[([&str; 2], String)]) {
    let path = root().join("docs").join(name);
    let mut text = document(name);
    for (marks, table) in parts {
        let (before, rest) = text.split_once(marks[0]).expect("a mark");
        let (mark, rest) = rest
            .split_once("-->\n")
            .map(|(mark, rest)| (mark.to_owned() + "-->\n", rest))
            .unwrap_or_else(|| panic!("a mark's end"));
        let (_, after) = rest.split_once(marks[1]).expect("the end's mark");
        text = format!("{before}{}{mark}{table}{}{after}", marks[0], marks[1]);
    }
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, &text).expect("written");
    }
    let now = fs::read_to_string(&path).expect("a document");
    assert!(now == text, "docs/{name} is not what the program's tables say; UPDATE_DOCS=1 renews it");
}

/// The Markdown documents of the project.
fn documents() -> Vec<PathBuf> {
    let folders = [root(), root().join("docs")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("a folder"));
    entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "md"))
        .collect()
}

#[test]
fn every_file_that_a_document_names_is_there() {
    let documents = documents();
    assert!(documents.len() >= 9, "{documents:?}");
    for path in documents {
        let text = fs::read_to_string(&path).expect("a document");
        let folder = path.parent().expect("a folder");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            assert!(folder.join(link).exists(), "{} links to {link}", path.display());
        }
        let named = text.split('`').skip(1).step_by(2);
        let ours = ["crates/", "docs/", "tests/", "scripts/", "fuzz/"];
        for name in named.filter(|name| ours.iter().any(|start| name.starts_with(start))) {
            let name = name.split_whitespace().next().unwrap_or_default();
            if !name.contains(['*', '{']) && !name.contains("TARGET") {
                assert!(root().join(name).exists(), "{} names {name}", path.display());
            }
        }
    }
}

/// The Rust files below a folder.
fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(fs::read_to_string(&path).expect("a source"));
        }
    }
}

#[test]
fn every_promise_of_security_md_names_tests_that_are_run() {
    let text = document("security.md");
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let tables = text.split("\n\n").filter(|part| part.starts_with("| promise |"));
    let mut named = 0;
    for row in tables.flat_map(|table| table.lines().skip(2)) {
        let held_by = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        for name in held_by.split('`').skip(1).step_by(2) {
            if name.contains('/') {
                assert!(root().join(name).is_file(), "{name}: {row}");
            } else if !name.contains(' ') {
                let head = format!("fn {name}(");
                let before = files.iter().find_map(|file| file.split_once(&head)).map(|(before, _)| before);
                let before = before.unwrap_or_else(|| panic!("there is no test `{name}`: {row}"));
                let above = before.lines().rev().skip_while(|line| line.trim().is_empty());
                let attributes: Vec<&str> = above.take_while(|line| line.trim_start().starts_with("#[")).collect();
                assert!(attributes.iter().any(|line| line.trim() == "#[test]"), "`{name}` is no test: {row}");
                let ignored = attributes.iter().any(|line| line.contains("#[ignore"));
                assert_eq!(ignored, row.contains("(a measurement)"), "`{name}` is not run by itself: {row}");
                named += 1;
            }
        }
    }
    assert!(named >= 70, "{named} tests");
}
