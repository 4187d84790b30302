//! `fairspan reload`: a running daemon takes over what differs in its configuration file.

use super::status::sockets;
use crate::exit::{BadInput, Outcome};
use anyhow::{Context, bail};
use fairspan_live::config::{CONTROL_FOLDER, ConfigError, default_control_socket};
use fairspan_live::control::{self, Request};
use fairspan_live::helper;
use fairspan_live::reloaded::Reloaded;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Have a running daemon read its configuration file again and take over what differs, without dropping a flow: peers,
/// channels, addresses, MTU. All of the file or nothing: a file that `fairspan check` refuses, or that differs in what needs a
/// restart, changes nothing. Bonds of Ethernet links and nodes of rings cannot do it.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The interface's name; default: the one daemon on this machine
    name: Option<String>,
    /// Ask at this control socket instead
    #[arg(long, conflicts_with = "name")]
    socket: Option<PathBuf>,
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
    let named = args.socket.clone().or_else(|| args.name.as_deref().map(default_control_socket));
    let socket = match named {
        Some(socket) => socket,
        None => only_daemon()?,
    };
    let answer = control::ask(&socket, &Request::Reload).map_err(|e| match e.kind() {
        ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
            anyhow::anyhow!("no daemon answers at {}: is `fairspan up` running?", socket.display())
        }
        _ => anyhow::Error::from(e).context(socket.display().to_string()),
    })?;
    let reloaded: Reloaded = serde_json::from_str(&answer).context("the daemon's answer is of another version")?;
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

/// The control socket of the daemon that answers, if there is one alone.
fn only_daemon() -> anyhow::Result<PathBuf> {
    let answers = |path: &PathBuf| control::ask(path, &Request::Status).is_ok();
    let found: Vec<PathBuf> = sockets(Path::new(CONTROL_FOLDER))?.into_iter().filter(answers).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!("no daemon is running; `fairspan up FILE` starts one"),
        several => {
            let names: Vec<_> = several.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
            Err(BadInput(format!("several daemons are running: name one of {}", names.join(", "))).into())
        }
    }
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
