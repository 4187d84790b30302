//! `fairspan gateway`: gateways that split TCP connections.

use super::doctor::show;
use crate::exit::{BadInput, Outcome};
use clap::Subcommand;
use fairspan_live::config::Config;
use fairspan_live::control::{self, Request};
use fairspan_live::roles::doctor::{Daemon, Together, Verdict, examine};
use fairspan_live::status::Status;
use std::path::PathBuf;

/// Gateways that split TCP connections: why traffic is not seen or not split
///
/// `fairspan up` with a section `[gateway]` or `[peer.split]` is the gateway itself, `fairspan status` shows it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Doctor(DoctorArgs),
}

/// Look at devices with their MTU and offloads, routes, rules, kernel and limits of this host, and at what a running gateway
/// has seen: what is wrong, and what helps. Status 1 where something is wrong. To be run as root, in the gateway's network
/// namespace
#[derive(clap::Args)]
struct DoctorArgs {
    /// The gateway's configuration
    config: PathBuf,
    /// Print one JSON document: a list of what was looked at, each with `subject`, `verdict` (good, doubtful, wrong), `found`,
    /// `remedy`, and the `peer` whose gateway it is, where it is one's
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let Command::Doctor(args) = &args.command;
    let config = Config::load(&args.config).map_err(|error| BadInput(error.to_string()))?;
    let gateways = config.gateways();
    if gateways.is_empty() {
        return Err(BadInput(format!("{}: there is no [gateway] and no [peer.split]", args.config.display())).into());
    }
    let answer = control::ask(&config.interface.control_socket, &Request::Status).ok();
    let status = answer.and_then(|answer| serde_json::from_str::<Status>(&answer).ok());
    let (together, mut findings) = (Together::of(&config), Vec::new());
    for (number, gateway) in &gateways {
        let peer = number.and_then(|number| config.peers.get(number)).map(|peer| peer.name.as_str());
        let mut found = examine(gateway, daemon(status.as_ref(), peer), together);
        found.iter_mut().for_each(|finding| finding.peer = peer.map(str::to_owned));
        if let (Some(peer), false) = (peer, args.json) {
            println!("peer {peer}");
        }
        if !args.json {
            found.iter().for_each(show);
        }
        findings.append(&mut found);
    }
    if args.json {
        println!("{}", serde_json::to_string(&findings)?);
    }
    let wrong = findings.iter().filter(|finding| finding.verdict == Verdict::Wrong).count();
    if !args.json {
        match wrong {
            0 => println!("nothing is wrong"),
            1 => println!("one thing is wrong"),
            _ => println!("{wrong} things are wrong"),
        }
    }
    Ok(if wrong == 0 { Outcome::Done } else { Outcome::Negative })
}

/// What a daemon tells of its own gateway, or of that for a peer.
fn daemon<'a>(status: Option<&'a Status>, peer: Option<&str>) -> Daemon<'a> {
    let Some(status) = status else { return Daemon::Absent };
    let gateway = match peer {
        None => status.gateway.as_ref(),
        Some(name) => status.peers.iter().find(|peer| peer.name == name).and_then(|peer| peer.split.as_deref()),
    };
    gateway.map_or(Daemon::Without, Daemon::Tells)
}
