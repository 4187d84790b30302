//! `fairspan ring`: packet rings.

mod check;
mod rias;
mod simulate;
mod status;

use super::{status as daemons, up};
use crate::exit::Outcome;
use clap::Subcommand;
use fairspan_study::ring as problem;

/// Packet rings: fair rates of a ring's flows, and whether given ones are
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Rias(rias::Args),
    Check(check::Args),
    Simulate(simulate::Args),
    /// Bring up a node of a ring and keep it up until SIGINT, SIGTERM or a closed terminal (SIGHUP); the log goes to standard error
    Up(up::Args),
    /// Show running nodes of rings: neighbours, the whole ring, fair rates and limits, addresses, and what was dropped and why
    Status(daemons::Args),
}

impl Args {
    /// Whether it runs until it is told to stop, and cleans up after itself.
    pub(crate) fn is_daemon(&self) -> bool {
        matches!(self.command, Command::Up(_))
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Rias(args) => rias::run(args),
        Command::Check(args) => check::run(args),
        Command::Up(args) => up::run_ring(args),
        Command::Simulate(args) => simulate::run(args),
        Command::Status(args) => status::run(args),
    }
}
