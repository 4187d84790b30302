//! Which running daemon a command is for, and what that answers.

use super::status::sockets;
use crate::exit::BadInput;
use anyhow::{Context, bail};
use fairspan_live::config::{CONTROL_FOLDER, default_control_socket};
use fairspan_live::control::{self, Request};
use serde::de::DeserializeOwned;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// One running daemon.
#[derive(clap::Args)]
pub(crate) struct Daemon {
    /// The interface's name; default: the one daemon on this machine
    name: Option<String>,
    /// Ask at this control socket instead
    #[arg(long, conflicts_with = "name")]
    socket: Option<PathBuf>,
}

impl Daemon {
    /// What it answers to `request`: the text, and what it says.
    pub(crate) fn ask<T: DeserializeOwned>(&self, request: &Request) -> anyhow::Result<(String, T)> {
        let named = self.socket.clone().or_else(|| self.name.as_deref().map(default_control_socket));
        let socket = match named {
            Some(socket) => socket,
            None => only_daemon()?,
        };
        let answer = control::ask(&socket, request).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                anyhow::anyhow!("no daemon answers at {}: is `fairspan up` running?", socket.display())
            }
            _ => anyhow::Error::from(e).context(socket.display().to_string()),
        })?;
        let told = serde_json::from_str(&answer).context("the daemon's answer is of another version")?;
        Ok((answer, told))
    }
}

/// The control socket of the daemon that answers, if there is one alone.
fn only_daemon() -> anyhow::Result<PathBuf> {
    let answers = |path: &PathBuf| control::ask(path, &Request::Status).is_ok();
    let found: Vec<PathBuf> = sockets(Path::new(CONTROL_FOLDER))?.into_iter().filter(answers).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!("no daemon is running; `fairspan up FILE` starts one"),
        several => {
            let names: Vec<_> = several.iter().filter_map(|path| path.file_stem()?.to_str()).collect();
            Err(BadInput(format!("several daemons are running: name one of {}", names.join(", "))).into())
        }
    }
}
