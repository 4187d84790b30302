//! The `fairspan` program: parses arguments, prints, and maps outcomes to exit statuses.
//!
//! Status 0: done; 1: it ran and the answer is negative; 2: bad usage or input; 3: privileges missing; 130: interrupted.

#[macro_use]
mod say;

mod claims;
mod cmd;
mod exit;
mod log;
mod measure;
mod simulation;
mod testbed;

pub(crate) use fairspan_study::{report, scenarios};

use clap::{CommandFactory as _, Parser, Subcommand};
use fairspan_live::config::veiled;
use std::process::ExitCode;

/// `trace cost` measures how much of the heap a queue takes.
#[global_allocator]
static HEAP: fairspan_live::Heap = fairspan_live::Heap;

/// Make several links act as one.
#[derive(Parser)]
#[command(name = "fairspan", version, propagate_version = true, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(cmd::demo::Args),
    Up(cmd::up::Args),
    Reload(cmd::reload::Args),
    Status(cmd::status::Args),
    Top(cmd::top::Args),
    Explain(cmd::explain::Args),
    Check(cmd::check::Args),
    Doctor(cmd::doctor::Args),
    Lock(cmd::lock::LockArgs),
    Unlock(cmd::lock::UnlockArgs),
    Invite(cmd::invite::Args),
    Join(cmd::join::Args),
    Keygen(cmd::keygen::KeygenArgs),
    Pubkey(cmd::keygen::PubkeyArgs),
    Emulate(Box<cmd::emulate::Args>),
    Shape(Box<cmd::shape::Args>),
    Bench(cmd::bench::Args),
    Replay(cmd::replay::Args),
    Select(cmd::select::Args),
    Trace(cmd::trace::Args),
    Sim(cmd::sim::Args),
    Figure(cmd::figure::Args),
    Claims(cmd::claims::Args),
    Ring(cmd::ring::Args),
    Gateway(cmd::gateway::Args),
    Completions(cmd::pages::CompletionsArgs),
    Man(cmd::pages::ManArgs),
    #[command(hide = true)]
    Helper(cmd::reload::HelperArgs),
}

fn main() -> ExitCode {
    let args = Args::try_parse().unwrap_or_else(|error| {
        let text = error.render().to_string();
        match veiled("", &text) {
            // A key among the arguments.
            shown if shown != text => {
                eprint!("{shown}");
                std::process::exit(error.exit_code())
            }
            _ => error.exit(),
        }
    });
    // What runs long and serves others, or cleans up after itself, is not to be ended by a reader that goes away.
    let runs_long = match &args.command {
        Command::Ring(args) => args.is_daemon(),
        Command::Doctor(args) => args.changes(),
        command => matches!(
            command,
            Command::Up(_)
                | Command::Top(_)
                | Command::Demo(_)
                | Command::Emulate(_)
                | Command::Shape(_)
                | Command::Bench(_)
        ),
    };
    if !runs_long {
        fairspan_live::default_sigpipe();
    }
    fairspan_live::unblock_signals();
    let outcome = match args.command {
        Command::Demo(args) => cmd::demo::run(&args),
        Command::Up(args) => cmd::up::run(&args),
        Command::Reload(args) => cmd::reload::run(&args),
        Command::Explain(args) => cmd::explain::run(&args),
        Command::Status(args) => cmd::status::run(&args),
        Command::Top(args) => cmd::top::run(&args),
        Command::Doctor(args) => cmd::doctor::run(&args),
        Command::Check(args) => cmd::check::run(&args),
        Command::Lock(args) => cmd::lock::lock(&args),
        Command::Unlock(args) => cmd::lock::unlock(&args),
        Command::Invite(args) => cmd::invite::run(&args),
        Command::Join(args) => cmd::join::run(&args),
        Command::Keygen(args) => cmd::keygen::keygen(&args),
        Command::Pubkey(args) => cmd::keygen::pubkey(&args),
        Command::Emulate(args) => cmd::emulate::run(&args),
        Command::Shape(args) => cmd::shape::run(&args),
        Command::Bench(args) => cmd::bench::run(&args),
        Command::Replay(args) => cmd::replay::run(&args),
        Command::Select(args) => cmd::select::run(&args),
        Command::Trace(args) => cmd::trace::run(&args),
        Command::Sim(args) => cmd::sim::run(&args),
        Command::Figure(args) => cmd::figure::run(&args),
        Command::Claims(args) => cmd::claims::run(&args),
        Command::Ring(args) => cmd::ring::run(&args),
        Command::Gateway(args) => cmd::gateway::run(&args),
        Command::Completions(args) => cmd::pages::completions(&args, Args::command()),
        Command::Man(args) => cmd::pages::man(&args, Args::command()),
        Command::Helper(args) => cmd::reload::help_daemon(&args),
    };
    exit::code(outcome)
}
