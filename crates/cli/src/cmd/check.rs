//! `fairspan check`: is this configuration right?

use crate::exit::{BadInput, Outcome};
use fairspan_live::config::{Config, ConfigError, veiled};
use fairspan_live::memory;
use fairspan_live::quantity::show_rate;
use std::path::{Path, PathBuf};

/// Check a configuration without touching anything: names file, line, setting, and what would be right;
/// warns of what works and is hardly meant.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration
    config: PathBuf,
    /// Print one JSON document: {"ok", "file", "notices"}, or {"ok", "file", "line", "setting", "problem"}
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let checked = Config::load(&args.config);
    let file = veiled("", &args.config.display().to_string());
    if args.json {
        let document = match &checked {
            Ok(config) => {
                let notice =
                    |n: &ConfigError| serde_json::json!({"line": n.line, "setting": n.setting, "problem": n.problem});
                let notices: Vec<_> = config.notices.iter().chain(&unkept(config, &args.config)).map(notice).collect();
                serde_json::json!({"ok": true, "file": file, "notices": notices})
            }
            Err(e) => serde_json::json!({
                "ok": false, "file": file, "line": e.line, "setting": e.setting, "problem": e.problem
            }),
        };
        println!("{document}");
    }
    match checked {
        Ok(config) => {
            config
                .notices
                .iter()
                .chain(&unkept(&config, &args.config))
                .for_each(|notice| eprintln!("warning: {notice}"));
            if let (false, Some(ring)) = (args.json, &config.ring) {
                println!(
                    "{}: good: interface {}, node {} of a ring of {}, {}",
                    file, config.interface.name, ring.node, ring.nodes, ring.algorithm,
                );
            } else if let (false, Some(bond)) = (args.json, &config.bond) {
                println!(
                    "{}: good: interface {}, a bond of {} Ethernet link{}, {}",
                    file,
                    config.interface.name,
                    bond.links.len(),
                    if bond.links.len() == 1 { "" } else { "s" },
                    bond.settings,
                );
            } else if let (false, Some(shape)) = (args.json, &config.shape) {
                println!(
                    "{}: good: a shaper between {} and {}, {} and {}",
                    file,
                    shape.a,
                    shape.b,
                    show_rate(shape.forward.rate),
                    show_rate(shape.backward.rate),
                );
            } else if !args.json {
                let side = match &config.interface.port {
                    Some(device) => format!("port {device}"),
                    None => format!("interface {}", config.interface.name),
                };
                let channels: usize = config.peers.iter().map(|p| p.channels.len()).sum();
                println!(
                    "{}: good: {side}, {} peer{}, {} channel{}",
                    file,
                    config.peers.len(),
                    if config.peers.len() == 1 { "" } else { "s" },
                    channels,
                    if channels == 1 { "" } else { "s" },
                );
            }
            Ok(Outcome::Done)
        }
        Err(e) => Err(BadInput(e.to_string()).into()),
    }
}

/// Why the daemon could keep nothing between its runs, where that is so.
fn unkept(config: &Config, file: &Path) -> Option<ConfigError> {
    config.interface.private_key.as_ref()?;
    let problem = memory::problem(&config.interface.state_dir)?;
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let stands = |what: &str| text.lines().position(|line| line.trim_start().starts_with(what));
    let line = stands("state_dir").or_else(|| stands("[interface]")).map_or(0, |before| before + 1);
    Some(ConfigError { file: file.into(), line, setting: "interface.state_dir".into(), problem })
}
