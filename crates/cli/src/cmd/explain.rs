//! `fairspan explain`: which channels carry what, why, and what would change that.

use super::daemon::Daemon;
use crate::exit::Outcome;
use anyhow::bail;
use fairspan_live::control::Request;
use fairspan_live::status::{ExplainedStatus, Status};
use serde::Serialize;

/// Say of each class of traffic which channels carry it, in which mode, why, and what would have to be otherwise for others to carry it:
/// by what the daemon measures now.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    daemon: Daemon,
    /// Print one JSON document: {"classes": [{"peer", "name", "mode", "channels", "because", "would_change_if"}]}
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    classes: Vec<Class<'a>>,
}

#[derive(Serialize)]
struct Class<'a> {
    peer: &'a str,
    #[serde(flatten)]
    explained: &'a ExplainedStatus,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let (_, status) = args.daemon.ask::<Status>(&Request::Status)?;
    if status.peers.is_empty() {
        let instead = if status.ring.is_some() {
            "`fairspan ring status` shows its links"
        } else {
            "`fairspan status` shows them"
        };
        bail!("{} has no peers, so it chooses no channels by what it measures; {instead}", status.interface);
    }
    if args.json {
        let all = status.peers.iter().flat_map(|peer| peer.explained.iter().map(|told| (peer.name.as_str(), told)));
        let classes = all.map(|(peer, explained)| Class { peer, explained }).collect();
        println!("{}", serde_json::to_string(&Document { classes })?);
        return Ok(Outcome::Done);
    }
    for peer in &status.peers {
        println!("peer {}", peer.name);
        peer.explained.iter().for_each(show);
    }
    Ok(Outcome::Done)
}

fn show(class: &ExplainedStatus) {
    let by = if class.channels.is_empty() { "no channel".to_owned() } else { class.channels.join(", ") };
    println!("\n  {} ({}): by {by}", class.name, class.mode);
    for (title, sentences) in [("because", &class.because), ("would change if", &class.would_change_if)] {
        if !sentences.is_empty() {
            println!("    {title}");
        }
        sentences.iter().for_each(|sentence| println!("      {sentence}"));
    }
}
