//! `fairspan check`: is this configuration right?

use crate::exit::{BadInput, Outcome};
use fairspan_live::config::{Config, ConfigError, veiled};
use fairspan_live::quantity::show_rate;
use std::path::PathBuf;

/// Check a configuration without changing anything: names file, line, setting, and what would be right; warns of what works and is
/// hardly meant, and of what on this host would now keep a daemon from starting.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The configuration
    config: PathBuf,
    /// Print one JSON document: {"ok", "file", "notices"}, or {"ok", "file", "line", "setting", "problem"}
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<Outcome> {
    let checked = Config::load_for_this_host(&args.config);
    let file = veiled("", &args.config.display().to_string());
    if args.json {
        let document = match &checked {
            Ok(config) => {
                let notice =
                    |n: &ConfigError| serde_json::json!({"line": n.line, "setting": n.setting, "problem": n.problem});
                let notices: Vec<_> = config.notices.iter().map(notice).collect();
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
            config.notices.iter().for_each(|notice| eprintln!("warning: {notice}"));
            if !args.json {
                println!("{file}: good: {}", summary(&config));
            }
            Ok(Outcome::Done)
        }
        Err(e) => Err(BadInput(e.to_string()).into()),
    }
}

/// What the configuration makes of a daemon, in a few words.
fn summary(config: &Config) -> String {
    let plural = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let name = &config.interface.name;
    if let Some(ring) = &config.ring {
        return format!("interface {name}, node {} of a ring of {}, {}", ring.node, ring.nodes, ring.algorithm);
    }
    if let Some(bond) = &config.bond {
        let links = plural(bond.links.len(), "Ethernet link");
        return format!("interface {name}, a bond of {links}, {}", bond.settings);
    }
    if let Some(shape) = &config.shape {
        let rates = [shape.forward.rate, shape.backward.rate].map(show_rate).join(" and ");
        return format!("a shaper between {} and {}, {rates}", shape.a, shape.b);
    }
    if let Some(gateway) = &config.gateway {
        let inside = if gateway.inside.is_empty() { "all other devices".to_owned() } else { gateway.inside.join(", ") };
        let proxy = gateway.proxy.map(|proxy| format!("a proxy at {proxy}"));
        let ways: Vec<String> =
            gateway.transparent.then(|| "transparent".to_owned()).into_iter().chain(proxy).collect();
        let rate = gateway.rate.map_or_else(String::new, |rate| format!(", {}", show_rate(rate)));
        return format!(
            "a gateway between {inside} and the long link {}{rate}: {}, {} MB of memory",
            gateway.long,
            ways.join(" and "),
            gateway.memory.as_u64() as f64 / 1e6,
        );
    }
    let side = match &config.interface.port {
        Some(device) => format!("port {device}"),
        None => format!("interface {name}"),
    };
    let channels: usize = config.peers.iter().map(|p| p.channels.len()).sum();
    let split: Vec<&str> = config.peers.iter().filter(|p| p.split.is_some()).map(|p| p.name.as_str()).collect();
    let split = if split.is_empty() { String::new() } else { format!(", TCP to {} is split", split.join(", ")) };
    format!("{side}, {}, {}{split}", plural(config.peers.len(), "peer"), plural(channels, "channel"))
}
