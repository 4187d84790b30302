//! `fairspan replay`: does a recorded bond do again what it did?

use crate::exit::{BadInput, Outcome};
use anyhow::Context;
use fairspan_core::record::{self, ReplayError};
use std::path::PathBuf;

/// Replay a recording (`interface.record`) through the core and compare every output with what was recorded.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recording
    file: PathBuf,
    /// Print one JSON document: {"same", "entries", "digests", "frames", "packets", "digest", "problem"}
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let file = args.file.display();
    let log = std::fs::read(&args.file).map_err(|e| BadInput(format!("{file}: {e}")))?;
    match record::replay(&log, |_| {}) {
        Ok(replayed) => {
            if args.json {
                let document = serde_json::json!({
                    "same": true, "entries": replayed.entries, "digests": replayed.digests, "frames": replayed.frames,
                    "packets": replayed.packets, "digest": format!("{:016x}", replayed.digest), "problem": null,
                });
                println!("{document}");
            } else {
                println!(
                    "{file}: the same: {} frames and {} packets from {} inputs and polls, {} digests agree",
                    replayed.frames, replayed.packets, replayed.entries, replayed.digests
                );
            }
            Ok(Outcome::Done)
        }
        Err(error @ ReplayError::Diverged { .. }) => {
            if args.json {
                println!("{}", serde_json::json!({ "same": false, "problem": error.to_string() }));
            } else {
                println!("{file}: {error}");
            }
            Ok(Outcome::Negative)
        }
        Err(error) => Err(error).map_err(|e| BadInput(e.to_string())).with_context(|| file.to_string()),
    }
}
