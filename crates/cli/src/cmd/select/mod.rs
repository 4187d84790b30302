//! `fairspan select`: what policies of link selection would do with captured traffic.

mod answer;
mod document;
mod input;
mod policies;
mod text;

use crate::exit::{BadInput, Outcome};
use crate::testbed::Interrupt;
use answer::{About, Answered, Asked};
use anyhow::Result;
use fairspan_core::quantity;
use fairspan_core::units::Span;
use fairspan_trace::select::{Bond, LinkList, Traffic};
use input::{Content, Source};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Try policies of link selection on captured traffic: load of each link, flows split, bursts, packets out of order
///
/// Every packet of the captures is sent over an imagined bond of the given links, at its captured time. Several files are
/// one sequence by their times.
#[derive(clap::Args)]
#[command(after_help = "--policies lists the policies and their options; docs/select.md tells more.", after_long_help = policies::help())]
pub(crate) struct Args {
    /// Captures (pcap, pcapng), or with --hex lines of hexadecimal frames; - is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["policies", "policy"])]
    files: Vec<PathBuf>,
    /// The links: how many (1 Gbit/s, no delay), or NAME:RATE or NAME:RATE:DELAY,… in Mbit/s or with units, such as dsl:50:20ms,lte:10:45ms
    #[arg(long, value_name = "SPEC", required_unless_present = "policies")]
    links: Option<LinkList>,
    /// A policy with its options, such as balance-xor:layer2+3, balance-rr:2 or brr:12ms,expiry=30s; several may follow
    #[arg(long, value_name = "P", num_args = 1.., conflicts_with = "all")]
    policy: Vec<String>,
    /// All policies with their defaults, balance-xor with each hash, and brr:adaptive; so it is where none is given
    #[arg(long)]
    all: bool,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    json: bool,
    /// The link of each packet as well
    #[arg(long)]
    trace: bool,
    /// The files are lines of hexadecimal Ethernet frames, one a line
    #[arg(long)]
    hex: bool,
    /// Time between two frames of --hex; default: 1us
    #[arg(long, value_name = "SPAN", requires = "hex", value_parser = quantity::parse_span)]
    interval: Option<Span>,
    /// For what is random in a policy, such as balance-rr:0
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// List the policies and their options, and do nothing else
    #[arg(long, exclusive = true)]
    policies: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome> {
    if args.policies {
        print!("{}", policies::table());
        return Ok(Outcome::Done);
    }
    Interrupt::ends_at_once()?;
    let (files, asked) = sorted_out(args)?;
    let links = args.links.as_ref().ok_or_else(|| BadInput("--links is missing".into()))?;
    let contents = files.iter().map(|file| Content::read(file, args.hex)).collect::<Result<Vec<_>, _>>()?;
    let Source { traffic, problems } = input::gather(&contents, args.interval)?;
    let mut answered = answers(&asked, links, &traffic, args);
    for Answered { asked, outcome } in &answered {
        match outcome {
            Err(reason) if args.policy.is_empty() => eprintln!("fairspan: {} left out: {reason}", asked.text),
            Err(reason) => return Err(BadInput(format!("--policy {}: {reason}", asked.text)).into()),
            Ok(_) => {}
        }
    }
    for (reason, packets) in traffic.left_out() {
        eprintln!("fairspan: left out: {}: {reason}", packets_of(*packets));
    }
    if traffic.backwards() > 0 {
        let packets = packets_of(traffic.backwards());
        eprintln!("fairspan: the clock steps back before {packets}; taken are the times before them");
    }
    let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let about = About { files: &files, links, traffic: &traffic, problems: &problems };
    if args.json {
        document::print(&about, &answered)?;
    } else {
        text::print(&about, &mut answered)?;
    }
    if problems.is_empty() { Ok(Outcome::Done) } else { Err(BadInput(problems.join("; ")).into()) }
}

fn packets_of(count: u64) -> String {
    if count == 1 { "1 packet".to_owned() } else { format!("{count} packets") }
}

/// The files and the policies. A value of `--policy` that is no policy but a file is one of the files, so that files may
/// also stand at the end.
fn sorted_out(args: &Args) -> Result<(Vec<PathBuf>, Vec<Asked>), BadInput> {
    let mut files = args.files.clone();
    let mut asked = Vec::new();
    for text in &args.policy {
        match text.trim().parse() {
            Ok(settings) => asked.push(Asked { text: text.clone(), settings }),
            Err(_) if text == "-" || Path::new(text).exists() => files.push(text.into()),
            Err(error) => return Err(BadInput(format!("--policy {text}: {error}"))),
        }
    }
    if files.is_empty() {
        return Err(BadInput("no FILE is given; write the captures first, or - for standard input".into()));
    }
    if files.iter().filter(|file| file.as_os_str() == "-").count() > 1 {
        return Err(BadInput("- is standard input, and can be read only once".into()));
    }
    if args.policy.is_empty() {
        asked = policies::all();
    }
    if asked.is_empty() {
        return Err(BadInput("--policy names files only; name a policy, or leave it out for all".into()));
    }
    Ok((files, asked))
}

/// Tries all policies, on as many threads as there are cores.
fn answers<'a>(asked: &'a [Asked], links: &LinkList, traffic: &Traffic<'_>, args: &Args) -> Vec<Answered<'a>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = asked.get(place) else { return };
            let bond = Bond::new(&one.settings, links, args.seed);
            let outcome = bond.map(|bond| bond.run(traffic, args.trace)).map_err(|error| error.to_string());
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            done.push((place, Answered { asked: one, outcome }));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(asked.len());
    std::thread::scope(|scope| {
        (1..threads).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, answered)| answered).collect()
}
