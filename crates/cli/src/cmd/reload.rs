//! `fairspan reload`: a running daemon takes over what differs in its configuration file.

use super::daemon::Daemon;
use crate::exit::{BadInput, Outcome};
use anyhow::Context;
use fairspan_live::config::ConfigError;
use fairspan_live::control::Request;
use fairspan_live::helper;
use fairspan_live::reloaded::Reloaded;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Have a running daemon read its configuration file again and take over what differs, without dropping a flow: peers,
/// channels, addresses, MTU. All of the file or nothing: a file that `fairspan check` refuses, or that differs in what needs a
/// restart, changes nothing. Bonds of Ethernet links and nodes of rings cannot do it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    daemon: Daemon,
    /// Print one JSON document: {"ok", "file", "changed"}, or what was wrong
    #[arg(long)]
    json: bool,
}

/// Read a daemon's configuration for it, as long as it runs: `fairspan up` begins this itself
#[derive(clap::Args)]
pub(crate) struct HelperArgs {
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (answer, reloaded) = args.daemon.ask::<Reloaded>(&Request::Reload)?;
    if args.json {
        println!("{answer}");
    }
    reloaded.notices.iter().for_each(|notice| eprintln!("warning: {}", ConfigError::from(notice)));
    let lines = reloaded.lines();
    match reloaded.ok {
        true if !args.json => lines.iter().for_each(|line| println!("{line}")),
        true => {}
        // As `fairspan check` has it.
        false if reloaded.setting.is_some() => return Err(BadInput(lines.join("\n")).into()),
        false => {
            lines.iter().for_each(|line| eprintln!("{line}"));
            return Ok(Outcome::Negative);
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn help_daemon(args: &HelperArgs) -> anyhow::Result<Outcome> {
    // It ends when the daemon does, and not by what is meant for that.
    for signal in [SIGINT, SIGHUP, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).context("signals")?;
    }
    super::up::hide_memory()?;
    helper::serve(&args.config)?;
    Ok(Outcome::Done)
}
