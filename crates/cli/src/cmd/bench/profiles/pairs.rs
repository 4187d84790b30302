//! The file of pairs of paths.

use crate::exit::BadInput;
use anyhow::{Result, anyhow};
use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::{Loss, Profile};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// Two unlike paths between the same hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pair {
    /// What the pair is called.
    pub(super) name: String,
    /// The one path.
    pub(super) a: Line,
    /// The other.
    pub(super) b: Line,
    /// What others measured over the pair; it is not read here.
    #[serde(default, rename = "rival")]
    _rival: Option<toml::Value>,
}

/// A path, the same in both directions.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Line {
    /// One way, in milliseconds.
    #[serde(default)]
    delay_ms: f64,
    /// Standard deviation of the delay, in milliseconds.
    #[serde(default)]
    jitter_ms: f64,
    /// Share of the frames that are lost.
    #[serde(default)]
    loss: f64,
    /// Mbit/s, Ethernet headers included.
    rate_mbit: f64,
    /// Jitter puts frames out of order.
    #[serde(default)]
    reorders: bool,
}

impl Line {
    /// For the emulator: with a queue of 1000 frames, as stock emulators have it.
    pub(super) fn profile(&self) -> Profile {
        let mut profile = Profile::new(self.rate(), millis(self.delay_ms));
        profile.jitter = millis(self.jitter_ms);
        profile.reorder = self.reorders;
        if self.loss > 0.0 {
            profile.loss = Loss::Independent(self.loss);
        }
        profile
    }

    /// What it carries, Ethernet headers included.
    pub(super) fn rate(&self) -> Rate {
        Rate::from_bits_per_sec((self.rate_mbit * 1e6).round() as u64)
    }

    /// How long it takes one way, in milliseconds, when nothing waits.
    pub(super) fn delay_ms(&self) -> f64 {
        self.delay_ms
    }

    /// What arrives of what it carries, in Mbit/s.
    pub(super) fn arriving_mbit(&self) -> f64 {
        self.rate_mbit * (1.0 - self.loss)
    }

    fn check(&self) -> Result<(), String> {
        let ranges = [
            ("rate_mbit", self.rate_mbit, 0.01, 100_000.0),
            ("delay_ms", self.delay_ms, 0.0, 10_000.0),
            ("jitter_ms", self.jitter_ms, 0.0, 10_000.0),
            ("loss", self.loss, 0.0, 0.99),
        ];
        for (key, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                return Err(format!("{key} is {value}; it can be {least} to {most}"));
            }
        }
        Ok(())
    }
}

fn millis(ms: f64) -> Span {
    Span::from_nanos((ms * 1e6).round() as u64)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pairs {
    #[serde(default)]
    profile: Vec<Pair>,
}

/// Reads all pairs of a file, or those that are named.
pub(super) fn load(path: &Path, only: &[String]) -> Result<Vec<Pair>> {
    let wrong = |problem: String| anyhow!(BadInput(format!("{}: {problem}", path.display())));
    let text = fs::read_to_string(path).map_err(|error| wrong(format!("{error}; --file names a file of pairs")))?;
    parse(&text, only).map_err(wrong)
}

fn parse(text: &str, only: &[String]) -> Result<Vec<Pair>, String> {
    let Pairs { profile: pairs } = toml::from_str(text).map_err(|error| error.to_string())?;
    for pair in &pairs {
        for (name, line) in [("a", &pair.a), ("b", &pair.b)] {
            line.check().map_err(|problem| format!("profile {}, path {name}: {problem}", pair.name))?;
        }
    }
    let known = || pairs.iter().map(|pair| pair.name.as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = only.iter().find(|name| pairs.iter().all(|pair| pair.name != **name)) {
        return Err(format!("there is no profile {name}; there are {}", known()));
    }
    let chosen: Vec<Pair> = pairs.iter().filter(|pair| only.is_empty() || only.contains(&pair.name)).cloned().collect();
    if chosen.is_empty() {
        return Err("there is no [[profile]] in it".into());
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[[profile]]\nname = \"even\"\na = { rate_mbit = 50, delay_ms = 20 }\nb = { rate_mbit = 12.5 }\n\
        rival = { both = 3 }\n[[profile]]\nname = \"odd\"\na = { rate_mbit = 100, loss = 0.01 }\n\
        b = { rate_mbit = 1, jitter_ms = 5, reorders = true }\n";

    #[test]
    fn pairs_are_read_and_chosen_by_name() {
        let all = parse(TWO, &[]).unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[0].b.rate(), Rate::from_bits_per_sec(12_500_000));
        let odd = &parse(TWO, &["odd".into()]).unwrap()[0];
        assert_eq!(odd.name, "odd");
        assert_eq!(odd.a.arriving_mbit(), 99.0);
        let profile = odd.b.profile();
        assert!(profile.reorder && profile.jitter == Span::from_millis(5) && profile.loss == Loss::None);
    }

    #[test]
    fn the_documents_example_is_read() {
        let text = include_str!("../../../../../../docs/examples/profiles.toml");
        assert_eq!(parse(text, &[]).unwrap().len(), 2);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text: &str, only: &[String]| parse(text, only).unwrap_err();
        assert!(problem(TWO, &["none".into()]).contains("no profile none; there are even, odd"));
        assert!(
            problem(&TWO.replace("0.01", "1.5"), &[]).contains("profile odd, path a: loss is 1.5; it can be 0 to 0.99")
        );
        assert!(problem(&TWO.replace("delay_ms", "delay"), &[]).contains("unknown field `delay`"));
        assert!(problem("", &[]).contains("no [[profile]]"));
    }
}
