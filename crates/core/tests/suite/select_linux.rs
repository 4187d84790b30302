//! The Linux bonding modes beside a Linux kernel: the same link for the same packet.
//!
//! Three sources of what a 6.1 kernel did: the shared test data, this project's own vectors (`select/linux-6.1.json`, made by
//! `tests/uml/bonding.sh` under User-Mode Linux), and a run of that script with frames of another seed, which it hands to
//! the ignored test here.

use fairspan_core::select::{Frame, Layer, LinkState, Links, Select, Selector, Settings};
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use serde_json::Value;

fn hex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A bond of `n` links and the driver's steps on it.
struct Bond {
    links: Links,
    selector: Selector,
    now: Time,
}

impl Bond {
    fn new(policy: &str, links: Vec<LinkState>) -> Bond {
        let mut settings: Settings = policy.parse().unwrap_or_else(|e| panic!("{policy}: {e}"));
        let names: Vec<String> = (0..links.len()).map(|n| format!("s{n}")).collect();
        settings.resolve(&names.iter().map(String::as_str).collect::<Vec<_>>()).expect("its links are there");
        let links = Links::new(links);
        let selector = Selector::new(&settings, &links, 1).expect("valid");
        Bond { links, selector, now: Time::ZERO }
    }

    fn send(&mut self, bytes: &[u8]) -> Vec<usize> {
        let frame = Frame { bytes, len: bytes.len(), layer: Layer::Ethernet };
        self.selector.select(self.now, &frame, &self.links).iter().map(ChannelId::index).collect()
    }

    fn set_usable(&mut self, link: usize, usable: bool) {
        let link = ChannelId(link as u8);
        let state = *self.links.get(link).expect("a link");
        self.links.set(link, LinkState { usable, ..state });
        self.selector.on_links(self.now, &self.links);
    }

    fn wait(&mut self, span: Span) {
        let until = self.now + span;
        while let Some(due) = self.selector.poll_timeout().filter(|due| *due <= until) {
            self.selector.handle_timeout(due, &self.links);
        }
        self.now = until;
    }
}

/// What carried a frame, as the kernel's runs tell it: a number, several, or null.
fn carried(value: &Value) -> Vec<usize> {
    match value {
        Value::Null => Vec::new(),
        Value::Array(all) => all.iter().flat_map(carried).collect(),
        one => vec![one.as_u64().expect("a link's number") as usize],
    }
}

/// `balance-xor/layer2+3/n=4` is the policy `balance-xor:layer2+3` over four links.
fn policy_of(label: &str) -> (String, usize) {
    let mut parts = label.split('/');
    let mode = parts.next().expect("a mode");
    let mut links = 0;
    let mut options = Vec::new();
    for part in parts {
        match part.strip_prefix("n=") {
            Some(n) => links = n.parse().expect("a number of links"),
            None => options.push(part),
        }
    }
    (if options.is_empty() { mode.into() } else { format!("{mode}:{}", options.join(",")) }, links)
}

#[test]
fn every_packet_of_the_shared_oracle_takes_the_link_that_linux_gave_it() {
    let folder = std::env::var("FAIRSPAN_TESTDATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared").to_owned());
    let Ok(text) = std::fs::read_to_string(format!("{folder}/oracles/linux-bonding-6.1.json")) else {
        println!("skipped: no test data");
        return;
    };
    let oracle: Value = serde_json::from_str(&text).expect("JSON");
    let packets = oracle["packets"].as_array().expect("packets");
    let mut checked = 0;
    for (label, expected) in oracle["results"].as_object().expect("results") {
        let (policy, n) = policy_of(label);
        if policy.ends_with("packets_per_slave=0") {
            continue; // random
        }
        let mut bond = Bond::new(&policy, vec![LinkState::default(); n]);
        // The packets that balance-rr and active-backup saw were others, without IGMP.
        let counted = policy.starts_with("balance-rr") || policy.starts_with("active-backup");
        for (i, expected) in expected.as_array().expect("a list").iter().enumerate() {
            let packet = if counted { &packets[0] } else { &packets[i] };
            let bytes = hex(packet["hex"].as_str().expect("bytes"));
            assert_eq!(bond.send(&bytes), carried(expected), "{label}: packet {i}, {}", packet["desc"]);
            checked += 1;
        }
    }
    assert!(checked >= 1000, "{checked} packets looked at");
}

/// A link of `[Mbit/s, "full" or "half"]`, or one of a rate that is not known.
fn speed(value: &Value) -> LinkState {
    LinkState { rate: value[0].as_u64().map(Rate::from_mbit), full_duplex: value[1] != "half", ..LinkState::default() }
}

/// Checks a run of `tests/uml/bonding.sh`: how many frames were sent, and which took other links than under Linux.
fn check_run(path: &str) -> (usize, Vec<String>) {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let spec: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
    let frames: Vec<Vec<u8>> =
        spec["frames"].as_array().expect("frames").iter().map(|f| hex(f.as_str().expect("bytes"))).collect();
    let (mut checked, mut wrong) = (0, Vec::new());
    for config in spec["configs"].as_array().expect("configurations") {
        let label = config["label"].as_str().expect("a label");
        let n = config["n"].as_u64().expect("links") as usize;
        let options = config["options"].as_object().expect("options");
        let options: Vec<String> = options
            .iter()
            .filter(|(name, _)| *name != "miimon")
            .map(|(name, value)| format!("{name}={}", value.as_str().expect("text")))
            .collect();
        let mode = config["mode"].as_str().expect("a mode");
        let policy = if options.is_empty() { mode.into() } else { format!("{mode}:{}", options.join(",")) };
        let links = (0..n).map(|n| speed(&spec["speeds"][n])).collect();
        let mut bond = Bond::new(&policy, links);
        let all: Vec<Value> = (0..frames.len()).map(|i| serde_json::json!(["send", i])).collect();
        let mut results = spec["results"][label].as_array().expect("results").iter();
        for (nth, step) in config["steps"].as_array().unwrap_or(&all).iter().enumerate() {
            let arg = step[1].as_u64().unwrap_or(0) as usize;
            match step[0].as_str() {
                Some("down") => bond.set_usable(arg, false),
                Some("up") => bond.set_usable(arg, true),
                Some("sleep") => {
                    bond.wait(Span::from_millis((step[1].as_f64().expect("seconds") * 1000.0).round() as u64));
                }
                Some("send") => {
                    let (sent, kernel) = (bond.send(&frames[arg]), carried(results.next().expect("a result")));
                    checked += 1;
                    if sent != kernel {
                        let bytes: String = frames[arg].iter().take(200).map(|b| format!("{b:02x}")).collect();
                        wrong.push(format!(
                            "{label}: step {nth}, frame {arg}: here {sent:?}, Linux {kernel:?}: {bytes}"
                        ));
                    }
                }
                _ => panic!("an unknown step {step}"),
            }
        }
    }
    (checked, wrong)
}

#[test]
fn every_frame_of_the_recorded_run_takes_the_link_that_linux_gave_it() {
    let (checked, wrong) = check_run(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/select/linux-6.1.json"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 5_000, "{checked} frames");
}

#[test]
#[ignore = "tests/uml/bonding.sh runs it, where User-Mode Linux is installed"]
fn every_frame_of_a_new_run_takes_the_link_that_linux_gave_it() {
    let path = std::env::var("FAIRSPAN_LINUX_RUN").expect("FAIRSPAN_LINUX_RUN names a run of tests/uml/bonding.sh");
    let (checked, wrong) = check_run(&path);
    println!("{checked} frames sent, {} on another link than Linux's", wrong.len());
    assert!(wrong.is_empty() && checked > 0, "{}", wrong[..wrong.len().min(20)].join("\n"));
}
