//! `fairspan up`: run a daemon in the foreground.

use crate::exit::{BadInput, NoPrivilege, Outcome};
use anyhow::Context;
use fairspan_live::config::Config;
use fairspan_live::daemon::{Daemon, DaemonError};
use fairspan_live::lan::LanDaemon;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::IsTerminal;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bring an interface up and keep it up until SIGINT, SIGTERM or a closed terminal (SIGHUP); the log goes to standard error.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration; `fairspan check` checks it
    config: PathBuf,
    /// How much to log: error, warn, info, debug, trace, or a filter such as `info,fairspan_live::secure=debug`
    #[arg(long, default_value = "info", env = "FAIRSPAN_LOG")]
    log: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let filter = tracing_subscriber::EnvFilter::try_new(&args.log)
        .map_err(|e| BadInput(format!("--log `{}`: {e}; write for example `debug`", args.log)))?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();

    let config = Config::load(&args.config).map_err(|e| BadInput(e.to_string()))?;
    config.notices.iter().for_each(|notice| tracing::warn!("{notice}"));
    // From here on a signal is a wish to end cleanly.
    let (stop, stopper) = UnixStream::pair().context("signals")?;
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, interrupted.clone()).context("signals")?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, stopper.try_clone()?).context("signals")?;
    }

    let failed = |error: DaemonError| match error.is_permission() {
        true => NoPrivilege(error.to_string()).into(),
        false => anyhow::Error::from(error),
    };
    if config.bond.is_some() {
        let mut daemon = LanDaemon::start(config).map_err(failed)?;
        tracing::info!(interface = daemon.interface(), mtu = daemon.mtu(), "ready");
        daemon.run(stop.as_fd())?;
        tracing::info!(interface = daemon.interface(), "stopping");
    } else {
        let mut daemon = Daemon::start(config).map_err(failed)?;
        tracing::info!(interface = daemon.interface(), mtu = daemon.mtu(), "ready");
        daemon.run(stop.as_fd())?;
        tracing::info!(interface = daemon.interface(), "stopping");
    }
    Ok(if interrupted.load(Ordering::SeqCst) { Outcome::Interrupted } else { Outcome::Done })
}
