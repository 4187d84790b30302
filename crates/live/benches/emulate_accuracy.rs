//! How true the emulator is: `cargo bench -p fairspan-live --bench emulate_accuracy`. Needs root.
//!
//! 1514-byte Ethernet frames (1500-byte packets) go from one namespace through the emulator to another. The sender
//! notes when it sends; the receiver's kernel notes when they arrive. Each frame's due time is computed afterwards from
//! the sender's times by the emulator's schedule. So the error contains everything: the way to the emulator, its
//! wake-ups, its sends, the way from it. Targets: 99 % of the frames within 0.5 ms, rate within 1 %; status 1 when
//! one is missed. One run of 3 s each; CPU is that of the emulator's threads, the receivers' soft interrupts that
//! its sends trigger included.

#[path = "../tests/support/mod.rs"]
mod support;

use fairspan_core::units::{Rate, Span, Time};
use fairspan_live::channel::ethernet::{Codepoint, EthernetConfig, EthernetSocket, Outgoing, Sent};
use fairspan_live::emulate::{Emulator, Link, Options, Profile, Schedule, Verdict, switch_offloads_off};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use support::Lab;

const FRAME: usize = 1514;
const PACKET: usize = 1500;
const SECONDS: u64 = 3;

struct Case {
    what: &'static str,
    /// Mbit/s, ms, offered as a share of the rate.
    links: &'static [(u64, u64, f64)],
    thread_per_link: bool,
}

const CASES: &[Case] = &[
    Case { what: "100 Mbit/s, 95 % load", links: &[(100, 10, 0.95)], thread_per_link: false },
    Case { what: "100 Mbit/s, overload", links: &[(100, 10, 1.2)], thread_per_link: false },
    Case { what: "1 Gbit/s, 95 % load", links: &[(1000, 10, 0.95)], thread_per_link: false },
    Case { what: "1 Gbit/s, overload", links: &[(1000, 10, 1.1)], thread_per_link: false },
    Case {
        what: "the demo's three, one thread",
        links: &[(100, 10, 1.1), (40, 25, 1.1), (10, 40, 1.1)],
        thread_per_link: false,
    },
    Case {
        what: "the demo's three, three threads",
        links: &[(100, 10, 1.1), (40, 25, 1.1), (10, 40, 1.1)],
        thread_per_link: true,
    },
];

fn main() {
    // `cargo test --benches` runs benches too, with --test: nothing is measured then.
    if std::env::args().any(|arg| arg == "--test") {
        return;
    }
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with("--"));
    let mut missed = false;
    println!(
        "| case | link | frames | within 0.5 ms | p50 us | p99 us | max us | Mbit/s | rate error | CPU | real-time |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for case in CASES.iter().filter(|case| wanted.as_ref().is_none_or(|wanted| case.what.contains(wanted.as_str()))) {
        let Some(lab) = Lab::new(&["a", "e", "b"]) else { return };
        missed |= !measure(case, &lab);
    }
    std::process::exit(i32::from(missed));
}

fn measure(case: &Case, lab: &Lab) -> bool {
    let mut links = Vec::new();
    for (n, (mbit, ms, _)) in case.links.iter().enumerate() {
        let [va, pa, vb, pb] = ["va", "pa", "vb", "pb"].map(|name| format!("{name}{n}"));
        lab.veth(("a", &va), ("e", &pa));
        lab.veth(("e", &pb), ("b", &vb));
        for port in [lab.port("a", &va), lab.port("b", &vb)] {
            switch_offloads_off(&port.parse().expect("a port")).expect("offloads off");
        }
        let profile = Profile::new(Rate::from_mbit(*mbit), Span::from_millis(*ms));
        let [a, b] = [lab.port("e", &pa), lab.port("e", &pb)].map(|port| port.parse().expect("a port"));
        links.push(Link::new(format!("link{n}"), a, b, profile));
    }
    let mut options = Options::default();
    options.thread_per_link = case.thread_per_link;
    let emulator = Emulator::start(links.clone(), options).expect("started");
    let stop = Arc::new(AtomicBool::new(false));
    let mut runs = Vec::new();
    for (n, (mbit, _, load)) in case.links.iter().enumerate() {
        let (stop, device) = (stop.clone(), format!("vb{n}"));
        let receiver = lab.inside("b", move || receive(&device, &stop));
        let peer = lab.run("b", {
            let device = format!("vb{n}");
            move || EthernetSocket::open(EthernetConfig::new(device)).expect("opened").mac()
        });
        let (device, gap) = (format!("va{n}"), FRAME as f64 * 8.0 / (*mbit as f64 * 1e6 * load) * 1e9);
        let sender = lab.inside("a", move || send(&device, peer, gap as u64));
        runs.push((sender, receiver));
    }
    let before = cpu();
    let mut results = Vec::new();
    let mut receivers = Vec::new();
    for (sender, receiver) in runs {
        results.push(sender.join().expect("sent"));
        receivers.push(receiver);
    }
    let used = cpu() - before;
    std::thread::sleep(Duration::from_millis(300));
    stop.store(true, Relaxed);
    let summary = emulator.stop();
    let mut good = true;
    for (n, (sent, receiver)) in results.into_iter().zip(receivers).enumerate() {
        let received = receiver.join().expect("received");
        let mut schedule = Schedule::new(links[n].forward.clone(), 1).expect("valid");
        let origin = sent[0];
        let dues: Vec<Option<u64>> = sent
            .iter()
            .map(|at| match schedule.offer(Time::from_nanos(at - origin), FRAME) {
                Verdict::Deliver(due) => Some(due.as_nanos() + origin),
                Verdict::Drop(_) => None,
            })
            .collect();
        let mut errors: Vec<u64> =
            received.iter().filter_map(|(number, at)| dues[*number as usize].map(|due| at.abs_diff(due))).collect();
        errors.sort_unstable();
        let within = errors.iter().filter(|error| **error <= 500_000).count() as f64 / errors.len() as f64;
        let quantile = |q: f64| errors[((errors.len() - 1) as f64 * q) as usize] / 1000;
        // The first frame opens the interval, so its bytes do not count. Expected is what the schedule makes of the
        // sender's own times, so that a sender held up by other programs is not the emulator's error.
        let rate =
            |frames: usize, first: u64, last: u64| (frames - 1) as f64 * FRAME as f64 * 8e9 / (last - first) as f64;
        let delivered: Vec<u64> = dues.iter().flatten().copied().collect();
        let expected = rate(delivered.len(), delivered[0], delivered[delivered.len() - 1]);
        let measured = rate(received.len(), received[0].1, received[received.len() - 1].1);
        let error = measured / expected - 1.0;
        good &= within >= 0.99 && error.abs() <= 0.01;
        println!(
            "| {} | {} | {} | {:.2} % | {} | {} | {} | {:.2} | {:+.2} % | {:.0} % | {} |",
            case.what,
            n,
            received.len(),
            within * 100.0,
            quantile(0.5),
            quantile(0.99),
            quantile(1.0),
            measured / 1e6,
            error * 100.0,
            used / SECONDS as f64 * 100.0,
            if summary.realtime { "yes" } else { "no" },
        );
    }
    good
}

/// Sends numbered packets for the time given; when each was sent.
fn send(device: &str, peer: fairspan_live::channel::ethernet::Mac, gap: u64) -> Vec<u64> {
    let mut socket = EthernetSocket::open(EthernetConfig::new(device)).expect("opened");
    let mut packet = [0u8; PACKET];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&(PACKET as u16).to_be_bytes());
    let start = realtime();
    let mut sent = Vec::new();
    while realtime() - start < SECONDS * 1_000_000_000 {
        while sent.len() as u64 * gap <= realtime() - start {
            packet[20..28].copy_from_slice(&(sent.len() as u64).to_be_bytes());
            let frame = Outgoing { peer, codepoint: Codepoint::Raw, head: &[], packet: &packet };
            let at = realtime();
            assert_eq!(socket.send(&[frame]), Sent::Done);
            sent.push(at);
        }
        std::thread::sleep(Duration::from_micros(40));
    }
    sent
}

/// Number and arrival of every packet until told to stop.
fn receive(device: &str, stop: &AtomicBool) -> Vec<(u64, u64)> {
    let mut config = EthernetConfig::new(device);
    config.ring_slots = 16384;
    let mut socket = EthernetSocket::open(config).expect("opened");
    let mut received = Vec::new();
    while !stop.load(Relaxed) {
        socket.receive(usize::MAX, |frame| {
            let number = frame.bytes[20..28].try_into().map(u64::from_be_bytes).expect("eight bytes");
            received.push((number, frame.arrival_realtime));
        });
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(socket.stats().ring_full, 0, "the receiver kept up");
    received
}

fn realtime() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CPU seconds of the emulator's threads.
fn cpu() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("/proc");
    let ticks: u64 = tasks
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
        .filter(|stat| stat.contains("(fs-emulate)"))
        .filter_map(|stat| {
            let fields: Vec<u64> =
                stat.rsplit(')').next()?.split_whitespace().skip(11).take(2).flat_map(str::parse).collect();
            Some(fields.iter().sum::<u64>())
        })
        .sum();
    ticks as f64 / 100.0
}
