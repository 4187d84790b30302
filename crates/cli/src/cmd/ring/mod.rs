//! `fairspan ring`: packet rings.

mod check;
mod problem;
mod rias;

use crate::exit::Outcome;
use clap::Subcommand;

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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Rias(args) => rias::run(args),
        Command::Check(args) => check::run(args),
    }
}
