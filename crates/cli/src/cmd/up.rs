//! `fairspan up`: run a daemon in the foreground.

use crate::exit::{BadInput, NoPrivilege, Outcome};
use crate::log;
use anyhow::Context;
use fairspan_live::config::Config;
use fairspan_live::confinement;
use fairspan_live::helper::Helper;
use fairspan_live::lock::Lock;
use fairspan_live::notify::Manager;
use fairspan_live::roles::{Daemon, Role};
use fairspan_live::shell::DaemonError;
use fairspan_live::status::Status;
use rustix::process::{DumpableBehavior, geteuid, set_dumpable_behavior};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal as _;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bring an interface up and keep it up until SIGINT, SIGTERM or a closed terminal; the log goes to standard error. Without a
/// terminal SIGHUP has the configuration read again, as `fairspan reload` does.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration; `fairspan check` checks it
    config: PathBuf,
    /// How much to log: error, warn, info, debug, trace, or a filter such as `info,fairspan_live::secure=debug`
    #[arg(long, default_value = "info", env = "FAIRSPAN_LOG")]
    log: String,
    /// How lines of the log are written
    #[arg(long, value_enum, default_value_t, env = "FAIRSPAN_LOG_FORMAT")]
    log_format: log::Form,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    log::start(&args.log, args.log_format)?;
    let helper = begin_helper(&args.config)?;
    let config = load(&args.config)?;
    serve(config, Some(helper), |_| ())
}

/// As [`run`], for a node of a ring and nothing else.
pub(crate) fn run_ring(args: &Args) -> anyhow::Result<Outcome> {
    log::start(&args.log, args.log_format)?;
    let helper = begin_helper(&args.config)?;
    let config = load(&args.config)?;
    if Role::of(&config) != Role::Ring {
        let problem = format!("{}: there is no [ring]: `fairspan up` is for peers and bonds", args.config.display());
        return Err(BadInput(problem).into());
    }
    serve(config, Some(helper), |_| ())
}

/// Nobody looks into the memory any more: no core dump, no debugger of the same user.
pub(super) fn hide_memory() -> anyhow::Result<()> {
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("memory that is not dumped")
}

/// The process that reads the configuration again when the daemon may not any more: begun while there is no secret in memory.
fn begin_helper(config: &Path) -> anyhow::Result<Helper> {
    let program = std::env::current_exe().context("this program's file")?;
    Helper::start(&program, &["helper"], config).context("the process that reads the configuration")
}

/// The configuration.
fn load(file: &Path) -> anyhow::Result<Config> {
    hide_memory()?;
    Ok(Config::load(file).map_err(|e| BadInput(e.to_string()))?)
}

/// From here on SIGINT, SIGTERM and a closed terminal are wishes to end, which wait to be taken.
pub(super) fn end_signals() -> anyhow::Result<Signals> {
    Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signals")
}

/// What was refused to who started the daemon, with what mostly helps where that is not root.
fn advised(refused: String, is_root: bool) -> String {
    if is_root || refused.contains("run as root") {
        return refused;
    }
    format!("{refused}; a daemon is mostly begun by root: run as root (`sudo`)")
}

/// Runs a daemon to its end; `helper` reads its file again, where it has one, and `ended` is told what it did.
pub(super) fn serve(config: Config, helper: Option<Helper>, ended: impl FnOnce(&Status)) -> anyhow::Result<Outcome> {
    config.notices.iter().for_each(|notice| tracing::warn!("{notice}"));
    // From here on a signal is a wish to end cleanly.
    let (stop, stopper) = UnixStream::pair().context("signals")?;
    let interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, interrupted.clone()).context("signals")?;
    let (asked, asker) = UnixStream::pair().context("signals")?;
    asked.set_nonblocking(true).context("signals")?;
    // Where there is a terminal, SIGHUP says that it was closed.
    let has_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    let on_hangup = if has_terminal || helper.is_none() { &stopper } else { &asker };
    for (signal, to) in [(SIGINT, &stopper), (SIGTERM, &stopper), (SIGHUP, on_hangup)] {
        signal_hook::low_level::pipe::register(signal, to.try_clone()?).context("signals")?;
    }
    let is_root = geteuid().is_root();
    let failed = |error: DaemonError| match error.is_permission() {
        true => NoPrivilege(advised(error.to_string(), is_root)).into(),
        false => anyhow::Error::from(error),
    };
    let interface = config.interface.name.clone();
    let manager = Manager::from_environment().unwrap_or_else(|error| {
        tracing::warn!(%error, "the service manager of NOTIFY_SOCKET cannot be told anything");
        Manager::default()
    });
    let confinement = confinement::enter(&config).map_err(|error| match error.is_permission() {
        true => anyhow::Error::from(NoPrivilege(advised(error.to_string(), is_root))),
        false => anyhow::Error::from(error),
    })?;
    for (name, held) in confinement.each() {
        tracing::debug!(name, holds = %held.holds, detail = held.detail, "confined");
    }
    let lock = Lock::of(&config);
    lock.set().map_err(super::lock::failed)?;
    let locked = lock.is_wanted();
    if locked {
        tracing::info!("{lock}; this stays when the daemon ends, until `fairspan unlock --interface {interface}`");
    } else if lock.is_set() == Ok(true) {
        tracing::warn!(
            "{interface} is still locked by an earlier run or `fairspan lock`, though the configuration has no `lock`: \
             nothing leaves by other ways until `fairspan unlock --interface {interface}`"
        );
    }
    let run = Daemon::start(config, Some(confinement), Some(lock)).map_err(failed).and_then(|mut daemon| {
        if let Some(helper) = helper {
            daemon.follow(helper, asked)?;
        }
        tracing::info!(interface = daemon.interface(), mtu = daemon.mtu(), "ready");
        daemon.obey(manager);
        daemon.run(stop.as_fd())?;
        Ok(daemon.status())
    });
    confinement::tell_refused();
    let status = run?;
    tracing::info!(interface, locked, "stopping");
    ended(&status);
    Ok(if interrupted.load(Ordering::SeqCst) { Outcome::Interrupted } else { Outcome::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_not_root_hears_once_that_it_may_have_to_be() {
        let refused = "control socket /run/fairspan/fs0.sock: Permission denied (os error 13)".to_owned();
        assert_eq!(advised(refused.clone(), true), refused);
        let told = advised(refused.clone(), false);
        assert!(told.starts_with(&refused) && told.ends_with("run as root (`sudo`)"), "{told}");
        assert_eq!(advised(told.clone(), false), told);
    }
}
