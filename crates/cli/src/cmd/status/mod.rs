//! `fairspan status`: what the running daemons tell of themselves.

mod domains;
mod gateway;
mod ring;
pub(super) mod shape;
mod sharing;
mod table;

pub(super) use sharing::ways;

use crate::exit::Outcome;
use anyhow::{Context, bail};
use fairspan_core::bond::Mode;
use fairspan_core::options::Words;
use fairspan_live::config::{CONTROL_FOLDER, default_control_socket};
use fairspan_live::control::{self, Request};
use fairspan_live::day::utc;
use fairspan_live::lock;
use fairspan_live::status::{BondStatus, ChannelStatus, ClassStatus, Status};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use table::{show_counters, table};

/// Show running daemons: peers, channels, and what was dropped and why.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interface's name; default: every daemon on this machine
    name: Option<String>,
    /// Ask at this control socket instead
    #[arg(long, conflicts_with = "name")]
    socket: Option<PathBuf>,
    /// Print one JSON document: the daemon's status, or a list of them without a name
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    run_for(args, "fairspan up", |_| true)
}

/// As [`run`], of the daemons that are `meant`, which `command` starts.
pub(crate) fn run_for(args: &Args, command: &str, meant: fn(&Status) -> bool) -> anyhow::Result<Outcome> {
    let one = args.socket.clone().or_else(|| args.name.as_deref().map(default_control_socket));
    if let Some(path) = one {
        let answer = control::ask(&path, &Request::Status).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                anyhow::anyhow!("no daemon answers at {}: is `{command}` running?", path.display())
            }
            _ => anyhow::Error::from(e).context(path.display().to_string()),
        })?;
        let status: Status = serde_json::from_str(&answer).context("the daemon's answer is of another version")?;
        if !meant(&status) {
            bail!("{} is none of what `{command}` starts; ask `fairspan status`", status.interface);
        }
        if args.json {
            println!("{}", serde_json::to_string(&status)?);
        } else {
            show(&status);
        }
        return Ok(Outcome::Done);
    }
    let mut all = Vec::new();
    for path in sockets(Path::new(CONTROL_FOLDER))? {
        // What a killed daemon left does not answer.
        if let Ok(answer) = control::ask(&path, &Request::Status) {
            all.push(serde_json::from_str::<Status>(&answer).context("the daemon's answer is of another version")?);
        }
    }
    all.retain(meant);
    if args.json {
        println!("{}", serde_json::to_string(&all)?);
    } else if all.is_empty() {
        // Who may not ask is told what there is to tell.
        let locked = lock::locked().unwrap_or_default();
        let locked: String = locked
            .iter()
            .map(|name| format!("; {name} is locked, and `fairspan unlock --interface {name}` ends it"))
            .collect();
        bail!("no daemon is running; `{command} FILE` starts one{locked}");
    }
    if !args.json {
        all.iter().for_each(show);
    }
    Ok(Outcome::Done)
}

pub(super) fn sockets(directory: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(anyhow::Error::from(e).context(directory.display().to_string())),
    };
    let mut paths: Vec<PathBuf> =
        entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "sock")).collect();
    paths.sort();
    Ok(paths)
}

fn show(status: &Status) {
    let port = status.listen_port.map_or_else(String::new, |port| format!(", port {port}"));
    let tcp = status.listen_tcp_port.map_or_else(String::new, |port| format!(", TCP port {port}"));
    // A gateway has no interface of its own.
    let mtu = if status.mtu > 0 { format!(", MTU {}", status.mtu) } else { String::new() };
    println!("{}: up {}{mtu}{port}{tcp}", status.interface, show_uptime(status.uptime_s));
    if let Some(port) = &status.port {
        println!("\n  port {}: {}", port.device, port.state);
    }
    for peer in &status.peers {
        let state = if peer.up { "up" } else { "down" };
        let mode =
            peer.policy.as_ref().map_or_else(|| peer.mode.to_string(), |policy| format!("{}, {policy}", peer.mode));
        println!("\n  peer {} ({mode}): {state}, MTU {}", peer.name, peer.mtu);
        if let Some(invitation) = peer.invitation.as_ref().filter(|invitation| invitation.state != "joined") {
            println!(
                "  invited, and has not joined: the invitation is {} (until {})",
                invitation.state,
                utc(invitation.expires)
            );
        }
        if let (Some(mode), Some(scheduler)) = (&peer.peer_mode, &peer.peer_scheduler) {
            let works = peer.mode != Mode::Stripe && *mode != Mode::Stripe;
            let note = if works { "" } else { ": that cannot work, set `mode` alike on both ends" };
            let ours = peer.policy.as_deref().unwrap_or(peer.scheduler.word());
            println!("  the peer uses {mode}, {scheduler}; this end {}, {ours}{note}", peer.mode);
        }
        let mut table = table([
            "channel",
            "state",
            "remote",
            "rate Mbit/s",
            "rtt ms",
            "sent packets",
            "sent MB",
            "queued kB",
            "received MB",
        ]);
        for channel in &peer.channels {
            table.add_row(row(channel));
        }
        println!("{table}");
        for channel in &peer.channels {
            if let Some(reason) = &channel.reason {
                println!("  {}: {reason}", channel.name);
            }
        }
        show_paths(&peer.channels);
        peer.queue.iter().for_each(sharing::show_queue);
        show_classes(&peer.classes);
        show_counters("  drops and events", &peer.counters);
        peer.split.iter().for_each(|gateway| gateway::show(&format!("gateway to {}", peer.name), gateway));
    }
    domains::show(&status.domains);
    if let Some(bond) = &status.bond {
        show_bond(bond);
    }
    if let Some(ring) = &status.ring {
        ring::show(ring);
    }
    if let Some(shape) = &status.shape {
        shape::show(shape);
    }
    if let Some(gateway) = &status.gateway {
        gateway::show("gateway", gateway);
    }
    if let Some(confinement) = &status.confinement {
        println!("\n  confined");
        for (name, held) in confinement.each() {
            println!("    {name:<13} {:<8} {}", held.holds, held.detail);
        }
    }
    if let Some(page) = &status.web {
        match &page.problem {
            None => println!("\n  page: http://{}/", page.address),
            Some(problem) => println!("\n  NO PAGE at {}: {problem}; it is tried again", page.address),
        }
    }
    if let Some(metrics) = &status.metrics {
        match &metrics.problem {
            None => println!("\n  metrics: http://{}/metrics", metrics.address),
            Some(problem) => println!("\n  NO METRICS at {}: {problem}; it is tried again", metrics.address),
        }
    }
    if let Some(webhook) = &status.webhook {
        let (address, delivered, waiting) = (&webhook.address, webhook.delivered, webhook.waiting);
        match &webhook.problem {
            None => println!("\n  webhook: http://{address}, {delivered} alarms taken, {waiting} wait"),
            Some(problem) => println!("\n  ALARMS DO NOT REACH http://{address}: {problem}; {waiting} wait"),
        }
        if webhook.lost + webhook.refused > 0 {
            println!("  of its alarms {} were refused, and {} had no room", webhook.refused, webhook.lost);
        }
    }
    if let Some(lock) = &status.lock {
        println!("\n  {}: {}", if lock.set { "locked" } else { "NOT LOCKED" }, lock.detail);
    }
    show_counters("\n  daemon", &status.counters);
}

fn show_bond(bond: &BondStatus) {
    let state = if bond.up { "up" } else { "down" };
    println!("\n  bond {} ({}): {state}", bond.mac, bond.policy);
    let mut table = table(["link", "state", "rate Mbit/s", "sent frames", "sent MB", "received frames", "received MB"]);
    for link in &bond.links {
        let count = |name| link.counters.get(name).copied().unwrap_or(0);
        let megabytes = |name| format!("{:.3}", count(name) as f64 / 1e6);
        let mut rate = link.rate_mbit.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"));
        if !link.full_duplex {
            rate += " half duplex";
        }
        table.add_row([
            link.name.clone(),
            format!("{}{}", link.state, if link.current { ", current" } else { "" }),
            rate,
            count("sent_packets").to_string(),
            megabytes("sent_bytes"),
            count("received_packets").to_string(),
            megabytes("received_bytes"),
        ]);
    }
    println!("{table}");
    if let Some(lacp) = &bond.lacp {
        lacp.lines().for_each(|line| println!("  {line}"));
    }
    show_counters("  drops and events", &bond.counters);
}

/// What the peer's feedback tells of the channels' paths, where frames are counted.
fn show_paths(channels: &[ChannelStatus]) {
    let counted = || channels.iter().filter_map(|channel| Some((channel, channel.path.as_ref()?)));
    if counted().next().is_none() {
        return;
    }
    let mut table = table([
        "channel",
        "path",
        "delivers Mbit/s",
        "measured Mbit/s",
        "loses %",
        "extra delay ms",
        "queue ms",
        "in flight kB",
    ]);
    for (channel, path) in counted() {
        table.add_row([
            channel.name.clone(),
            path.state.word().to_owned(),
            number(path.delivery_mbit),
            number(path.measured_mbit),
            format!("{:.2}", f64::from(path.loss_ppm) / 1e4),
            number(path.extra_delay_ms),
            number(path.queue_ms),
            number(Some(path.in_flight_bytes as f64 / 1e3)),
        ]);
    }
    println!("{table}");
}

/// The traffic classes, where there are some.
fn show_classes(classes: &[ClassStatus]) {
    if classes.is_empty() {
        return;
    }
    let mut table = table(["class", "mode", "carried by", "packets", "MB", "copies", "dropped", "frames by channel"]);
    for class in classes {
        let count = |name| class.counters.get(name).copied().unwrap_or(0);
        let frames: Vec<String> = class.frames.iter().map(|(channel, frames)| format!("{channel} {frames}")).collect();
        let listed = |words: &[String]| if words.is_empty() { "-".to_owned() } else { words.join(", ") };
        table.add_row([
            class.name.clone(),
            class.mode.word().to_owned(),
            listed(&class.carried_by),
            count("packets").to_string(),
            format!("{:.3}", count("bytes") as f64 / 1e6),
            count("copies").to_string(),
            count("dropped").to_string(),
            listed(&frames),
        ]);
    }
    println!("{table}");
}

/// With one decimal place, or a dash.
fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"))
}

fn row(channel: &ChannelStatus) -> Vec<String> {
    let megabytes = |name| format!("{:.3}", channel.counters.get(name).copied().unwrap_or(0) as f64 / 1e6);
    vec![
        channel.name.clone(),
        channel.state.to_string(),
        channel.remote.clone().unwrap_or_else(|| "-".into()),
        number(channel.rate_mbit),
        number(channel.rtt_ms),
        channel.counters.get("sent_packets").copied().unwrap_or(0).to_string(),
        megabytes("sent_bytes"),
        number(channel.queued_bytes.map(|bytes| bytes as f64 / 1e3)),
        megabytes("received_bytes"),
    ]
}

fn show_uptime(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        3600..86_400 => format!("{} h {} min", s / 3600, s % 3600 / 60),
        _ => format!("{} d {} h", s / 86_400, s % 86_400 / 3600),
    }
}
