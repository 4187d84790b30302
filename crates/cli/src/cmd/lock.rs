//! `fairspan lock` and `fairspan unlock`: the kill switch without a daemon.

use crate::exit::{BadInput, NoPrivilege, Outcome};
use anyhow::bail;
use fairspan_live::config::{Config, default_control_socket};
use fairspan_live::control::{self, Request};
use fairspan_live::lock::{Lock, LockError, remove};
use fairspan_live::status::Status;
use std::path::PathBuf;

/// Lock the host as `lock = true` in a configuration says, before its daemon runs or without it: nothing leaves but through
/// its interface, until `fairspan unlock`. Meant for a unit that runs at boot, before the network is up.
#[derive(clap::Args)]
pub(crate) struct LockArgs {
    /// The configuration
    config: PathBuf,
}

/// Take the lock away that `fairspan lock`, or `fairspan up` with `lock = true`, left behind: packets may leave in the
/// clear again.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(crate) struct UnlockArgs {
    /// The configuration whose interface is locked
    config: Option<PathBuf>,
    /// The interface itself, where the configuration is gone or cannot be read
    #[arg(long)]
    interface: Option<String>,
}

pub(crate) fn lock(args: &LockArgs) -> anyhow::Result<Outcome> {
    let config = load(&args.config)?;
    config.notices.iter().for_each(|notice| eprintln!("warning: {notice}"));
    let lock = Lock::of(&config);
    if !lock.is_wanted() {
        let problem = format!("{}: there is no `lock = true` in [interface]", args.config.display());
        return Err(BadInput(problem).into());
    }
    lock.set().map_err(failed)?;
    println!("locked: {lock}; `fairspan unlock --interface {}` ends it", config.interface.name);
    Ok(Outcome::Done)
}

pub(crate) fn unlock(args: &UnlockArgs) -> anyhow::Result<Outcome> {
    let (name, socket) = match (&args.config, &args.interface) {
        (Some(file), _) => {
            let interface = load(file)?.interface;
            (interface.name, interface.control_socket)
        }
        (None, name) => {
            let name = name.clone().unwrap_or_default();
            let socket = default_control_socket(&name);
            (name, socket)
        }
    };
    let running = control::ask(&socket, &Request::Status).ok();
    let status = running.and_then(|answer| serde_json::from_str::<Status>(&answer).ok());
    if status.and_then(|status| status.lock).is_some_and(|lock| lock.wanted) {
        bail!("the daemon of {name} is running, and would lock again: stop it first");
    }
    match remove(&name).map_err(failed)? {
        true => println!("unlocked: what does not go through {name} may leave in the clear again"),
        false => println!("{name} was not locked"),
    }
    Ok(Outcome::Done)
}

fn load(file: &std::path::Path) -> anyhow::Result<Config> {
    Ok(Config::load_to_lock(file).map_err(|error| BadInput(error.to_string()))?)
}

/// With the exit status of what is missing.
pub(super) fn failed(error: LockError) -> anyhow::Error {
    match error.is_permission() {
        true => NoPrivilege(error.to_string()).into(),
        false => error.into(),
    }
}
