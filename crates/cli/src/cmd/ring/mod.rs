//! `fairspan ring`: packet rings.

mod check;
mod problem;

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
    Check(check::Args),
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    match &args.command {
        Command::Check(args) => check::run(args),
    }
}
