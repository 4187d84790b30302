//! What may be asked of `fairspan trace cost`.

use crate::cmd::trace::flows::Headers;
use crate::cmd::trace::input::Files;
use crate::exit::BadInput;
use fairspan_core::buffer::PolicyConfig;
use fairspan_core::flow::Definition;
use fairspan_core::options::Family;
use fairspan_core::quantity;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::units::Rate;
use std::path::PathBuf;

/// Say what fair queueing costs on the traffic of captures, and what it can afford
///
/// Operations by the paper's formulas, and the time and memory that our own queues take for the very same packets, which are
/// played over one link so that they load it as asked. docs/trace.md tells what the columns mean.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) files: Files,
    /// Queue disciplines, one or several, with their options as in scenarios; all: each with its defaults
    #[arg(long, value_name = "NAME,…", default_value = "all")]
    pub(super) discipline: Vec<String>,
    /// Buffer policies, one or several, with their options; usual: the one that goes with the discipline; all: each with its defaults
    #[arg(long, value_name = "NAME,…", default_value = "usual")]
    pub(super) policy: Vec<String>,
    /// What a flow is, as in `trace flows`
    #[arg(long, value_name = "NAME", default_value = "five-tuple")]
    pub(super) definition: Definition,
    /// Which headers tell the flow
    #[arg(long, value_enum, default_value_t = Headers::Plain)]
    pub(super) headers: Headers,
    /// The link that the packets are to share
    #[arg(long, value_name = "RATE", default_value = "1Gbit", value_parser = quantity::parse_rate)]
    pub(super) link: Rate,
    /// How busy they keep it from the first packet to the last, such as 90%; captured: they come as they were captured
    #[arg(long, value_name = "SHARE", default_value = "90%", value_parser = load)]
    pub(super) load: Load,
    /// Most packets that wait
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(super) limit: u32,
    /// The share of one processor that queueing may take
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = share)]
    pub(super) processor: f64,
    /// Chains of the hash table in which flows are searched
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub(super) table_size: u32,
    /// Most packets that are measured, the first ones
    #[arg(long, value_name = "N", default_value_t = 1 << 20, value_parser = clap::value_parser!(u32).range(1..=1 << 26))]
    pub(super) most_packets: u32,
    /// How often each measurement is repeated
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rounds: u32,
    /// Which chain a flow belongs to follows from this number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
    /// Write summary.json, results.csv and report.html (with plots) into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) out: Option<PathBuf>,
    /// Print one JSON document, on one line, on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Print CSV on standard output
    #[arg(long, conflicts_with = "json")]
    pub(super) csv: bool,
}

/// How busy the link is kept.
#[derive(Clone, Copy, Debug)]
pub(super) enum Load {
    Share(f64),
    Captured,
}

fn share_up_to(most: f64, text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().ok().map(|number| number / unit);
    let share = share.filter(|share| *share > 0.0 && *share <= most);
    share.ok_or_else(|| format!("a share above 0 % and up to {:.0} % is needed, such as 50% or 0.5", 100.0 * most))
}

fn share(text: &str) -> Result<f64, String> {
    share_up_to(1.0, text)
}

fn load(text: &str) -> Result<Load, String> {
    match text {
        "captured" => Ok(Load::Captured),
        _ => share_up_to(10.0, text).map(Load::Share).map_err(|problem| format!("{problem}, or captured")),
    }
}

/// Each discipline with each policy.
pub(super) fn asked(args: &Args) -> Result<Vec<(DisciplineConfig, PolicyConfig)>, BadInput> {
    let disciplines = named::<DisciplineConfig>("--discipline", &args.discipline, None)?;
    let policies = named::<PolicyConfig>("--policy", &args.policy, Some("usual"))?;
    let mut asked = Vec::new();
    for discipline in disciplines.into_iter().flatten() {
        for policy in &policies {
            let pair = (discipline, policy.unwrap_or_else(|| discipline.usual_buffer()));
            if !asked.contains(&pair) {
                asked.push(pair);
            }
        }
    }
    Ok(asked)
}

/// The members of a family that `texts` name, with commas between them; `None` where the word `usual` stands.
fn named<F: Family>(setting: &str, texts: &[String], usual: Option<&str>) -> Result<Vec<Option<F>>, BadInput> {
    let mut named = Vec::new();
    for text in texts.iter().flat_map(|text| split(text)) {
        if text == "all" {
            named.extend(F::MEMBERS.iter().map(|member| Some(member.plain())));
        } else if Some(text.as_str()) == usual {
            named.push(None);
        } else {
            let member = fairspan_core::options::parse(&text).map_err(|error| {
                let names: Vec<&str> = F::MEMBERS.iter().map(|member| member.name).collect();
                let usual = usual.map(|usual| format!("{usual}, ")).unwrap_or_default();
                BadInput(format!("{setting} {text}: {error}; there are all, {usual}{}", names.join(", ")))
            })?;
            named.push(Some(member));
        }
    }
    Ok(named)
}

/// At the commas, except for those between the options of one member.
fn split(text: &str) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        let is_option = part.split_once('=').is_some_and(|(name, _)| !name.contains(':'));
        match parts.last_mut() {
            Some(last) if is_option => *last = format!("{last},{part}"),
            _ => parts.push(part.trim().to_owned()),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_members_but_not_the_options_of_one() {
        assert_eq!(split("drr,stochastic:buckets=4,quantum=1B,sfq"), ["drr", "stochastic:buckets=4,quantum=1B", "sfq"]);
        assert_eq!(split("all"), ["all"]);
    }

    #[test]
    fn all_names_every_member_and_usual_the_policy_that_goes_with_the_discipline() {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
        let all = named::<DisciplineConfig>("--discipline", &texts(&["all"]), None).expect("all");
        assert_eq!(all.len(), DisciplineConfig::MEMBERS.len());
        let policies =
            named::<PolicyConfig>("--policy", &texts(&["usual,red", "codel"]), Some("usual")).expect("three");
        assert_eq!(policies.iter().filter(|policy| policy.is_none()).count(), 1);
        assert_eq!(policies.len(), 3);
        let error = named::<DisciplineConfig>("--discipline", &texts(&["usual"]), None).expect_err("none").to_string();
        assert!(error.contains("--discipline usual") && error.contains("there are all, fifo"), "{error}");
    }
}
