//! `fairspan bench`: measurements beside rivals.

mod failure;
mod gateway;
mod printed;
mod profiles;
mod reliable;
mod replay;
mod report;
mod rivals;
mod scenario;
mod share;
mod sim;
mod tunnel;
mod watched;

use crate::exit::Outcome;
use anyhow::Result;
use clap::Subcommand;

/// Measure Fairspan beside its rivals
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Failure(failure::Args),
    Gateway(gateway::Args),
    Profiles(profiles::Args),
    Reliable(reliable::Args),
    Replay(replay::Args),
    Sim(sim::Args),
    Tunnel(tunnel::Args),
    Watched(watched::Args),
}

/// Runs the chosen benchmark.
pub(crate) fn run(args: &Args) -> Result<Outcome> {
    match &args.what {
        What::Failure(args) => failure::run(args),
        What::Gateway(args) => gateway::run(args),
        What::Profiles(args) => profiles::run(args),
        What::Reliable(args) => reliable::run(args),
        What::Replay(args) => replay::run(args),
        What::Sim(args) => sim::run(args),
        What::Tunnel(args) => tunnel::run(args),
        What::Watched(args) => watched::run(args),
    }
}
