//! `fairspan trace`: what is in captures of traffic.

mod cost;
mod flows;
mod info;
mod input;
mod progress;

use crate::exit::Outcome;
use anyhow::Result;
use clap::Subcommand;
pub(crate) use input::WITHOUT_PACKETS;

/// Analyse captures: what is in them, how many flows a gateway would have to tell apart, and what serving those fairly costs
///
/// Read are pcap, pcapng, ERF, TSH and ITA text, each also packed with gzip, xz or zstd.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Info(info::Args),
    Flows(Box<flows::Args>),
    Cost(Box<cost::Args>),
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    match &args.command {
        Command::Info(args) => info::run(args),
        Command::Flows(args) => flows::run(args),
        Command::Cost(args) => cost::run(args),
    }
}
