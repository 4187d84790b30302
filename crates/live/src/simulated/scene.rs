//! What a seed draws before anything happens: hosts, links, settings, how much traffic, and how much goes wrong.

use super::network::{address, device};
use super::traffic::inner;
use crate::secure::{PresharedKey, PrivateKey, SeededEntropy};
use fairspan_core::bond::{Config, Mode};
use fairspan_core::options::Words;
use fairspan_core::rng::Rng;
use fairspan_core::units::Span;
use std::fmt::Write;
use std::path::Path;

/// A number of a range.
pub(super) fn between(rng: &mut Rng, least: u64, most: u64) -> u64 {
    least + rng.below(most - least + 1)
}

/// Whether something happens that does so `percent` of the times.
pub(super) fn chance(rng: &mut Rng, percent: u64) -> bool {
    rng.below(100) < percent
}

fn one_of<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize]
}

/// One link, as it is while nothing goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) six: bool,
    pub(super) delay: u64,
    pub(super) jitter: u64,
    pub(super) rate: Option<u64>,
    /// The channel's settings say the rate.
    paced: bool,
    /// They name the interface.
    device: bool,
}

/// Two hosts that are peers. `calls` opens the channels; where both do, the other one too.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) calls: usize,
    pub(super) listens: usize,
    both: bool,
    pub(super) mode: Mode,
    /// Packets of a flow are kept in order.
    pub(super) ordered: bool,
    settings: String,
    preshared: Option<String>,
    pub(super) bond: Bounds,
}

/// Settings of a bond that bound how long a packet may be in it, and how much memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    deadline: Span,
    equalize: Span,
    queue_time: Span,
    /// Nothing bounds the time that packets wait, only their bytes: for a law of congestion control, or at a stripe's
    /// receiver for what an outage keeps away.
    waits: bool,
    pub(super) hold_bytes: usize,
    pub(super) queue_bytes: usize,
}

impl Bounds {
    /// How long a packet may be in the two ends of a bond.
    pub(super) fn age(&self) -> u64 {
        if self.waits { u64::MAX } else { self.order() + self.queue_time.as_nanos() }
    }

    /// How long a packet may wait for its order.
    pub(super) fn order(&self) -> u64 {
        self.deadline.as_nanos() + self.equalize.as_nanos()
    }
}

/// One phase: things go wrong, then all is mended and has to go well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    pub(super) troubled: u64,
    /// Datagrams of a million that each thing happens to, at most.
    pub(super) datagrams_ppm: u64,
    /// System calls of a million that fail, at most.
    pub(super) calls_ppm: u64,
    /// Time between what happens to links, hosts and processes, on average.
    pub(super) every: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) hosts: usize,
    pub(super) links: Vec<Link>,
    pub(super) pairs: Vec<Pair>,
    pub(super) phases: Vec<Phase>,
    /// Bursts of packets a second, over all flows.
    pub(super) bursts: u64,
    /// Most packets of a burst.
    pub(super) burst: u64,
    /// The adversary repeats what is years old, so that nothing is known of the age of what arrives.
    pub(super) patient: bool,
    /// Hosts other than those that listen are behind translators, by link.
    pub(super) translated: Vec<bool>,
    offload: Vec<bool>,
    padding: Vec<bool>,
    six: bool,
    default_route: bool,
    keys: Vec<PrivateKey>,
}

const POLICIES: &[&str] = &[
    "brr:12ms",
    "active-backup",
    "balance-rr",
    "balance-xor:layer3+4",
    "broadcast",
    "flowlet",
    "least_queue",
    "traffic_meter",
    "fastest_transmit",
    "potent",
    "balance-rr:flush=on",
];

const SECOND: u64 = 1_000_000_000;

impl Scene {
    pub(super) fn draw(seed: u64) -> Scene {
        let rng = &mut Rng::new(seed ^ 0x5ce_0e5c_e0e5);
        let hosts = one_of(rng, &[2, 2, 2, 2, 3, 3, 4, 5]);
        let links: Vec<Link> = (0..between(rng, 1, if hosts > 3 { 2 } else { 4 })).map(|_| draw_link(rng)).collect();
        let hub = chance(rng, 60);
        let mut pairs = Vec::new();
        for calls in 1..hosts {
            for listens in 0..if hub { 1 } else { calls } {
                pairs.push(draw_pair(rng, calls, listens, links.len(), hub));
            }
        }
        let long = chance(rng, 10);
        let phases = (0..between(rng, 1, 3)).map(|_| draw_phase(rng, long)).collect();
        let mut entropy = SeededEntropy::new(seed);
        Scene {
            hosts,
            phases,
            bursts: if long { between(rng, 2, 10) } else { between(rng, 10, 80) },
            burst: one_of(rng, &[1, 4, 24]),
            patient: chance(rng, 50),
            translated: (0..hosts * links.len()).map(|n| hub && n >= links.len() && chance(rng, 30)).collect(),
            offload: (0..hosts).map(|_| chance(rng, 60)).collect(),
            six: chance(rng, 50),
            default_route: hub && chance(rng, 15),
            keys: (0..hosts).map(|_| PrivateKey::generate(&mut entropy)).collect(),
            links,
            pairs,
            // Drawn last, so that what older seeds say of all else holds.
            padding: (0..hosts).map(|_| chance(rng, 30)).collect(),
        }
    }

    /// Two hosts with a link of each of these one-way delays in nanoseconds and nothing drawn: settings that nobody made, and `translated`
    /// or not the one that calls.
    pub(super) fn plain(delays: &[u64], translated: bool) -> Scene {
        let mut entropy = SeededEntropy::new(7);
        let link = |delay: &u64| Link {
            six: false,
            delay: *delay,
            jitter: 0,
            rate: Some(50_000_000),
            paced: false,
            device: true,
        };
        let bond = Config::usual();
        let pair = Pair {
            calls: 1,
            listens: 0,
            both: false,
            mode: bond.mode,
            ordered: true,
            settings: String::new(),
            preshared: None,
            bond: Bounds {
                deadline: bond.deadline(),
                equalize: bond.equalize,
                queue_time: bond.queue_time,
                waits: true,
                hold_bytes: bond.hold_bytes,
                queue_bytes: bond.queue_bytes,
            },
        };
        Scene {
            hosts: 2,
            links: delays.iter().map(link).collect(),
            pairs: vec![pair],
            phases: Vec::new(),
            bursts: 0,
            burst: 0,
            patient: false,
            translated: (0..2 * delays.len()).map(|n| translated && n >= delays.len()).collect(),
            padding: vec![false; 2],
            offload: vec![false; 2],
            six: false,
            default_route: false,
            keys: (0..2).map(|_| PrivateKey::generate(&mut entropy)).collect(),
        }
    }

    /// Whether the hosts send each other IPv6.
    pub(super) fn has_six(&self) -> bool {
        self.six
    }

    /// The mode between two hosts.
    pub(super) fn mode(&self, one: usize, other: usize) -> Option<Mode> {
        let pair = self.pairs.iter().find(|pair| (pair.calls, pair.listens) == (one.max(other), one.min(other)))?;
        Some(pair.mode)
    }

    /// The file that `fairspan up` would read on a host.
    pub(super) fn file(&self, host: usize, control_socket: &Path, state: &Path) -> String {
        let mut text = String::new();
        let put = &mut text;
        let _ = writeln!(put, "[interface]\nname = \"fs0\"");
        let six = if self.six { format!(", \"{}/64\"", inner(host, true)) } else { String::new() };
        let _ = writeln!(put, "address = [\"{}/24\"{six}]", inner(host, false));
        let _ = writeln!(put, "private_key = \"{}\"", *self.keys[host].to_base64());
        let _ = writeln!(put, "listen_port = {}", port(host));
        let _ = writeln!(put, "control_socket = \"{}\"", control_socket.display());
        let _ = writeln!(put, "state_dir = \"{}\"", state.display());
        let _ = writeln!(put, "offload = {}", self.offload[host]);
        let _ = writeln!(put, "padding = {}", self.padding[host]);
        for pair in self.pairs.iter().filter(|pair| pair.calls == host || pair.listens == host) {
            let other = if pair.calls == host { pair.listens } else { pair.calls };
            self.put_peer(put, pair, host, other);
        }
        text
    }

    fn put_peer(&self, put: &mut String, pair: &Pair, host: usize, other: usize) {
        let _ = writeln!(put, "\n[[peer]]\nname = \"host{other}\"\npublic_key = \"{}\"", self.keys[other].public_key());
        let whole = if self.default_route && host == pair.calls { ", \"0.0.0.0/0\"" } else { "" };
        let six = if self.six { format!(", \"{}/128\"", inner(other, true)) } else { String::new() };
        let _ = writeln!(put, "allowed_ips = [\"{}/32\"{six}{whole}]", inner(other, false));
        let _ = writeln!(put, "mode = \"{}\"\n{}", pair.mode.word(), pair.settings);
        if let Some(key) = &pair.preshared {
            let _ = writeln!(put, "preshared_key = \"{key}\"");
        }
        if host != pair.calls && !pair.both {
            return;
        }
        for (number, link) in self.links.iter().enumerate() {
            let endpoint = std::net::SocketAddr::new(address(number, other, link.six), port(other));
            let _ = writeln!(put, "\n[[peer.channel]]\nkind = \"udp\"\nendpoint = \"{endpoint}\"");
            if link.device {
                let _ = writeln!(put, "device = \"{}\"", device(number));
            }
            if let (true, Some(rate)) = (link.paced, link.rate) {
                let _ = writeln!(put, "rate = \"{rate}bit\"\npeer_rate = \"{rate}bit\"");
            }
        }
    }
}

fn port(host: usize) -> u16 {
    51_900 + host as u16
}

fn draw_link(rng: &mut Rng) -> Link {
    let slowest = one_of(rng, &[2_000_000, 40_000_000, 150_000_000]);
    Link {
        six: chance(rng, 15),
        delay: between(rng, 200_000, slowest),
        jitter: one_of(rng, &[0, 0, 1_000_000, 10_000_000]),
        rate: one_of(rng, &[None, Some(2_000_000), Some(20_000_000), Some(200_000_000)]),
        paced: chance(rng, 50),
        device: chance(rng, 70),
    }
}

fn draw_pair(rng: &mut Rng, calls: usize, listens: usize, links: usize, hub: bool) -> Pair {
    let mode = one_of(
        rng,
        &[Mode::Ordered, Mode::Reliable, Mode::Stripe, Mode::Duplicate, Mode::Backup, Mode::Plain, Mode::Flow],
    );
    let mut settings = String::new();
    let put = &mut settings;
    let mut bond = Config::default();
    let mut ordered = matches!(mode, Mode::Ordered | Mode::Reliable | Mode::Backup);
    if mode == Mode::Flow {
        let policy = one_of(rng, POLICIES);
        ordered = policy == "traffic_meter";
        let _ = writeln!(put, "policy = \"{policy}\"");
    } else if chance(rng, 50) {
        let scheduler =
            one_of(rng, if mode == Mode::Stripe { &["srr", "grr", "rr"] } else { &["srr", "grr", "rr", "rfq"] });
        let _ = writeln!(put, "scheduler = \"{scheduler}\"");
    }
    if chance(rng, 40) {
        let deadline = between(rng, 20, 1000);
        bond.deadline = Some(Span::from_millis(deadline));
        let _ = writeln!(put, "reorder_deadline = \"{deadline}ms\"");
    }
    if chance(rng, 40) {
        bond.equalize = Span::from_millis(one_of(rng, &[0, 20, 200]));
        let _ = writeln!(put, "equalize = \"{}ms\"", bond.equalize.as_nanos() / 1_000_000);
    }
    if chance(rng, 40) {
        bond.hold_bytes = one_of(rng, &[132_000, 1_000_000, 8_000_000]);
        let _ = writeln!(put, "reorder_memory = \"{}kB\"", bond.hold_bytes / 1000);
    }
    if mode == Mode::Duplicate && chance(rng, 50) {
        let _ = writeln!(put, "copies = {}", between(rng, 1, links as u64));
    }
    if chance(rng, 30) {
        let _ = writeln!(put, "feedback = true");
    }
    let waits_for_law = chance(rng, 20);
    if waits_for_law {
        let _ = writeln!(put, "congestion = \"{}\"", one_of(rng, &["reno", "cubic"]));
    }
    if mode != Mode::Flow && chance(rng, 30) {
        let _ = writeln!(put, "discipline = \"{}\"", one_of(rng, &["round-robin", "drr", "srr", "sfq", "stochastic"]));
    }
    if chance(rng, 20) {
        let _ = writeln!(put, "buffer = \"codel\"");
    }
    if mode == Mode::Reliable {
        // By draws of its own: seeds mean what they meant.
        let word = one_of(&mut rng.clone(), &["\"auto\"", "true", "true", "false"]);
        let _ = writeln!(put, "compress_headers = {word}");
    }
    let mut entropy = SeededEntropy::new(rng.next_u64());
    let preshared = chance(rng, 30).then(|| PresharedKey::generate(&mut entropy).to_base64().to_string());
    Pair {
        calls,
        listens,
        both: !hub && chance(rng, 40),
        mode,
        ordered,
        settings,
        preshared,
        bond: Bounds {
            deadline: bond.deadline(),
            equalize: bond.equalize,
            queue_time: bond.queue_time,
            waits: waits_for_law || mode == Mode::Stripe,
            hold_bytes: bond.hold_bytes,
            queue_bytes: bond.queue_bytes,
        },
    }
}

fn draw_phase(rng: &mut Rng, long: bool) -> Phase {
    Phase {
        troubled: if long { between(rng, 60, 400) * SECOND } else { between(rng, 2, 25) * SECOND },
        datagrams_ppm: one_of(rng, &[0, 10_000, 100_000, 250_000]),
        calls_ppm: one_of(rng, &[0, 1_000, 20_000, 80_000]),
        every: one_of(rng, &[100_000_000, 500_000_000, 3 * SECOND]) * if long { 10 } else { 1 },
    }
}
