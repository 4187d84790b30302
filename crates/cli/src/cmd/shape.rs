//! `fairspan shape`: a shaper between two devices, from options instead of a file.

use super::status::shape::show;
use super::{family, up};
use crate::exit::{BadInput, Outcome};
use crate::log;
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::shape::OPTIONS;
use fairspan_live::config::{Config, ConfigError};
use std::path::Path;
use toml::{Table, Value};

/// Shape what passes between two network devices
///
/// Joins two Ethernet devices as by a cable, and lets no more pass than the narrowest link behind them carries: so packets wait
/// here, in a queue of choice, and not in a modem's, and a download delays nobody's call. Runs until Ctrl-C (status 130), SIGTERM
/// or a closed terminal (status 0), and leaves both devices as they were. `fairspan status` tells what it does meanwhile. The same
/// from a file, with metrics and reload: `fairspan up` with a section `[shape]`.
#[derive(clap::Args)]
#[command(
    after_help = "Example: a host between LAN (eth0) and cable modem (eth1), 100 Mbit/s down and 10 Mbit/s up\n  \
    fairspan shape --a eth0 --b eth1 --rate 9.5Mbit,95Mbit --overhead 18 --min-packet 64"
)]
pub(crate) struct Args {
    /// One device, such as the LAN's
    #[arg(long, value_name = "DEVICE")]
    a: String,
    /// The other device, such as the modem's
    #[arg(long, value_name = "DEVICE")]
    b: String,
    /// What leaves at most, from a to b and, behind a comma, from b to a: a little below what the narrowest link carries
    #[arg(long, value_name = "RATE[,RATE]")]
    rate: String,
    #[arg(long, value_name = "NAME", help = discipline_help())]
    discipline: Option<String>,
    #[arg(long, value_name = "NAME", help = buffer_help())]
    buffer: Option<String>,
    /// How long all that waits takes at the rate, at most [default: 100ms]
    #[arg(long, value_name = "TIME")]
    queue: Option<String>,
    /// Bytes that the link adds to each IP packet [default: 14, Ethernet's]
    #[arg(long, value_name = "BYTES")]
    overhead: Option<String>,
    /// Bytes that each packet counts at least, with the overhead [default: 0]
    #[arg(long, value_name = "BYTES")]
    min_packet: Option<String>,
    /// The link carries packets in ATM cells, as most ADSL does
    #[arg(long)]
    atm: bool,
    /// A setting from a to b only, by the name of its option: queue=50ms
    #[arg(long, value_name = "NAME=VALUE")]
    forward: Vec<String>,
    /// A setting from b to a only
    #[arg(long, value_name = "NAME=VALUE")]
    backward: Vec<String>,
    /// What `fairspan status` knows it by [default: the first device's name]
    #[arg(long)]
    name: Option<String>,
    /// Control socket [default: /run/fairspan/NAME.sock]
    #[arg(long, value_name = "PATH")]
    socket: Option<String>,
    /// How much to log: error, warn, info, debug, trace, or a filter
    #[arg(long, default_value = "info", env = "FAIRSPAN_LOG")]
    log: String,
    /// How lines of the log are written
    #[arg(long, value_enum, default_value_t, env = "FAIRSPAN_LOG_FORMAT")]
    log_format: log::Form,
    /// Print one JSON document at the end: that of `fairspan status --json`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    log::start(&args.log, args.log_format)?;
    up::serve(config(args)?, None, |status| {
        if args.json {
            println!("{}", serde_json::to_string(status).unwrap_or_default());
        } else if let Some(shape) = &status.shape {
            show(shape);
        }
    })
}

/// As if it stood in a file: so options and files are read and checked alike.
fn config(args: &Args) -> anyhow::Result<Config> {
    let text = toml::to_string(&file(args)?)?;
    Config::parse(Path::new("options"), &text).map_err(|error| bad_input(args, &error))
}

/// The file that says the same as the options.
fn file(args: &Args) -> anyhow::Result<Table> {
    let text = |value: &Option<String>| value.clone().map(Value::String);
    let (rate, other) = match args.rate.split_once(',') {
        Some((rate, other)) => (rate, Some(other)),
        None => (args.rate.as_str(), None),
    };
    let mut both = Table::new();
    for (name, value) in [
        ("a", Some(Value::String(args.a.clone()))),
        ("b", Some(Value::String(args.b.clone()))),
        ("rate", Some(Value::String(rate.trim().to_owned()))),
        ("discipline", text(&args.discipline)),
        ("buffer", text(&args.buffer)),
        ("queue", text(&args.queue)),
        ("overhead", args.overhead.as_deref().map(|bytes| value("overhead", bytes))),
        ("min_packet", args.min_packet.as_deref().map(|bytes| value("min_packet", bytes))),
        ("atm", args.atm.then_some(Value::Boolean(true))),
    ] {
        both.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mut backward: Vec<String> = other.map(|rate| format!("rate={}", rate.trim())).into_iter().collect();
    backward.extend(args.backward.iter().cloned());
    for (name, pairs) in [("forward", &args.forward), ("backward", &backward)] {
        both.insert(name.to_owned(), direction(name, pairs)?.into());
    }
    let mut interface = Table::new();
    interface.insert("name".to_owned(), args.name.clone().unwrap_or_else(|| args.a.clone()).into());
    interface.extend(text(&args.socket).map(|socket| ("control_socket".to_owned(), socket)));
    let sections = [("interface", interface), ("shape", both)];
    Ok(sections.into_iter().map(|(name, section)| (name.to_owned(), section.into())).collect())
}

/// `NAME=VALUE` pairs as the settings of a direction.
fn direction(option: &str, pairs: &[String]) -> Result<Table, BadInput> {
    let mut table = Table::new();
    for pair in pairs {
        let wrong = |expected: &str| BadInput(format!("--{option} {pair}: {expected}"));
        let (name, text) = pair.split_once('=').ok_or_else(|| wrong("write NAME=VALUE, for example rate=10Mbit"))?;
        let name = name.replace('-', "_");
        let names: Vec<&str> = OPTIONS.iter().map(|entry| entry.spec.name).collect();
        if !names.contains(&name.as_str()) {
            return Err(wrong(&format!("there is no such setting; known are {}", names.join(", "))));
        }
        let value = value(&name, text);
        if table.insert(name, value).is_some() {
            return Err(wrong("it is given twice: keep one"));
        }
    }
    Ok(table)
}

/// A value as it stands in a file: numbers of bytes and flags are no text there.
fn value(name: &str, text: &str) -> Value {
    let bytes = || text.strip_suffix('B').unwrap_or(text).trim().parse().ok().map(Value::Integer);
    let read = match name {
        "overhead" | "min_packet" => bytes(),
        "atm" => match text {
            "on" | "true" => Some(Value::Boolean(true)),
            "off" | "false" => Some(Value::Boolean(false)),
            _ => None,
        },
        _ => None,
    };
    read.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// What is wrong, by the option that says it.
fn bad_input(args: &Args, error: &ConfigError) -> anyhow::Error {
    if error.setting == "interface.name" && args.name.is_none() {
        // The name is the first device's.
        let right = "name the one that leads to the LAN, such as `eth0`";
        return BadInput(format!("--a: `{}` is no device that can be shaped: {right}", args.a)).into();
    }
    let option = error.setting.trim_start_matches("shape.").trim_start_matches("interface.").replace('_', "-");
    let option = match option.split_once('.') {
        Some((direction, name)) => format!("--{direction} {name}"),
        None => format!("--{}", option.replace("control-socket", "socket")),
    };
    BadInput(format!("{option}: {}", error.problem)).into()
}

/// What `--discipline` takes.
fn discipline_help() -> String {
    let names = family::names::<DisciplineConfig>();
    format!("Which packet that waits goes next: {names}, with options as drr:quantum=3000B [default: drr]")
}

/// What `--buffer` takes.
fn buffer_help() -> String {
    let names = family::names::<PolicyConfig>();
    format!(
        "Which packets are let in, marked, dropped: {names}, with options as codel:target=5ms [default: pfd-adaptive]"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn what_is_wrong_is_told_by_the_option_that_says_it() {
        let rows: [(&[&str], &str); 5] = [
            (&["--a", "lo", "--b", "eth1"], "--a: `lo` is no device"),
            (&["--a", "a-name-that-is-too-long", "--b", "eth1"], "--a: `a-name-that-is-too-long` is no device"),
            (&["--a", "eth0", "--b", "eth1", "--name", "lo"], "--name: `lo` is a name"),
            (&["--a", "eth0", "--b", "lo"], "--b: `lo` leads to this host alone"),
            (&["--a", "eth0", "--b", "eth0"], "--b: `eth0` is `shape.a` as well"),
        ];
        for (options, said) in rows {
            let line = Line::try_parse_from([&["shape", "--rate", "1Mbit"], options].concat()).expect("options");
            let error = config(&line.args).expect_err("wrong").to_string();
            assert!(error.starts_with(said), "{options:?}: {error}");
        }
    }
}
