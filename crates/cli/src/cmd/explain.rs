//! `fairspan explain`: which channels carry what, why, and what would change that.

use super::daemon::Daemon;
use crate::exit::Outcome;
use anyhow::bail;
use fairspan_live::control::Request;
use fairspan_live::status::{DomainStatus, ExplainedStatus, Status};
use serde::Serialize;

/// Say of each class of traffic which channels carry it, in which mode, why, and what would have to be otherwise for others to carry it:
/// by what the daemon measures now.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    daemon: Daemon,
    /// Print one JSON document: {"classes": [{"peer", "name", "mode", "channels", "because", "would_change_if"}]}, and where names
    /// are configured also "domains": [{"name", "way", "peer", "addresses": [{"address", "asked", "expires_s"}]}]
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Document<'a> {
    classes: Vec<Class<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    domains: &'a [DomainStatus],
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
        println!("{}", serde_json::to_string(&Document { classes, domains: &status.domains })?);
        return Ok(Outcome::Done);
    }
    for peer in &status.peers {
        println!("peer {}", peer.name);
        peer.explained.iter().for_each(show);
    }
    status.domains.iter().for_each(show_domain);
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

/// By which side of the bond a name's addresses are reached, and which these are.
fn show_domain(domain: &DomainStatus) {
    let by = domain.peer.as_ref().map_or_else(String::new, |peer| format!(", by peer {peer}"));
    println!("\nname {}, and those below it: {} the bond{by}", domain.name, domain.way);
    if domain.addresses.is_empty() {
        println!(
            "  no address is known: nobody has asked for it lately by DNS in the clear, or its addresses are never routed"
        );
    }
    for known in &domain.addresses {
        println!("  {} because it was given for {}, for {:.0} s more", known.address, known.asked, known.expires_s);
    }
}
