//! The emulator's settings as people write them: in a TOML file, or as options of the command.

use super::port::PortError;
use super::{Link, Options, grammar};
use crate::quantity::{QuantityError, parse_bytes, parse_rate, parse_span};
use crate::text_file;
use fairspan_core::link::{
    Blank, Capacity, CapacityError, DuringOutage, Limit, Loss, Outage, Profile, ProfileError, Series, Trace,
};
use fairspan_core::options::{OptionError, Words};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A file of links.
///
/// ```
/// let config = fairspan_live::emulate::EmulateConfig::parse(r#"
/// seed = 7
///
/// [[link]]
/// name = "dsl"
/// a = "site:dsl-port"
/// b = "hub:dsl-port"
/// both = { delay = "10ms", loss = "0.1%" }
/// forward = { rate = "10Mbit" }
/// backward = { rate = "50Mbit", outages = ["5s+2s/60s"] }
/// "#)?;
/// assert_eq!(config.links(std::path::Path::new("."))?.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct EmulateConfig {
    /// See [`Options::seed`].
    pub seed: Option<u64>,
    /// See [`Options::tick`].
    pub tick: Option<String>,
    /// See [`Options::thread_per_link`].
    pub thread_per_link: Option<bool>,
    /// The links.
    #[serde(default, rename = "link")]
    pub links: Vec<LinkConfig>,
}

/// One link of the file.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LinkConfig {
    /// Name; `link0`, `link1` and so on when left out.
    pub name: Option<String>,
    /// One end: `DEV` or `NETNS:DEV`.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Settings of both directions.
    #[serde(default)]
    pub both: DirectionConfig,
    /// Settings from `a` to `b`, in place of those of both.
    #[serde(default)]
    pub forward: DirectionConfig,
    /// Settings from `b` to `a`, in place of those of both.
    #[serde(default)]
    pub backward: DirectionConfig,
}

/// Settings of a direction; what is left out has the default of [`Profile`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DirectionConfig {
    /// A constant rate, such as `100Mbit`.
    pub rate: Option<String>,
    /// A Mahimahi trace file.
    pub trace: Option<PathBuf>,
    /// A CSV file of Mbit/s over time.
    pub series: Option<PathBuf>,
    /// Which column of `series`: its heading, or its place behind the time, from 1. Default: the first.
    pub column: Option<String>,
    /// What a blank in it means: `holds` (the default) or `dead`.
    pub blank: Option<String>,
    /// Delay, such as `25ms`.
    pub delay: Option<String>,
    /// Standard deviation of the delay, such as `3ms`.
    pub jitter: Option<String>,
    /// Lets jitter put frames out of order.
    pub reorder: Option<bool>,
    /// Independent loss: `1%` or `0.01`.
    pub loss: Option<String>,
    /// Gilbert-Elliott loss as netem writes it: `p r [1-h [1-k]]`, each `1%` or `0.01`; `1-h` is 1 and `1-k` is 0
    /// when left out.
    pub gilbert: Option<String>,
    /// Queue limit: a number of frames, or bytes such as `64kB`.
    pub queue: Option<String>,
    /// Which of the frames that wait goes next, such as `drr` or `drr:quantum=3000`. Default `fifo`.
    pub discipline: Option<String>,
    /// Which frames are let in, marked, dropped, such as `codel:target=5ms,interval=100ms`. Default `drop-tail` with
    /// `fifo`, else `longest-queue`.
    pub buffer: Option<String>,
    /// Outages, each `START+LENGTH` or `START+LENGTH/PERIOD`, such as `5s+2s/60s`.
    pub outages: Option<Vec<String>>,
    /// `lose` or `hold`.
    pub during_outage: Option<String>,
    /// Bytes added to each frame's length before it counts.
    pub overhead: Option<i32>,
}

/// What is wrong with the settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is not TOML, or has a setting that does not exist.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// It is written as something else is, or a setting stands where it does not belong.
    #[error("line {line}: {problem}")]
    Grammar {
        /// Where.
        line: usize,
        /// What is wrong, and what would be right.
        problem: String,
    },
    /// A setting's value makes no sense.
    #[error("{place}{setting} = `{value}`: {expected}")]
    Value {
        /// The link and direction, with a colon; or nothing.
        place: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What would be right.
        expected: String,
    },
    /// Two settings exclude each other.
    #[error("{place}rate, trace and series exclude each other: keep one")]
    TwoCapacities {
        /// The link and direction, with a colon; or nothing.
        place: String,
    },
    /// A capacity file is wrong.
    #[error("{place}{error}")]
    Capacity {
        /// The link and direction, with a colon; or nothing.
        place: String,
        /// What is wrong.
        error: TraceError,
    },
    /// Settings do not work together.
    #[error("{place}{error}")]
    Profile {
        /// The link and direction, with a colon; or nothing.
        place: String,
        /// What is wrong.
        error: ProfileError,
    },
    /// A port's name is wrong.
    #[error("{place}{error}")]
    Port {
        /// The link, with a colon; or nothing.
        place: String,
        /// What is wrong.
        error: PortError,
    },
}

impl EmulateConfig {
    /// Reads TOML text.
    ///
    /// # Errors
    /// [`ConfigError::Grammar`] or [`ConfigError::Toml`], with the line.
    pub fn parse(text: &str) -> Result<EmulateConfig, ConfigError> {
        let words = |error: toml::de::Error| match grammar::in_words(text, &error, is_of_direction) {
            Some((line, problem)) => ConfigError::Grammar { line, problem },
            None => error.into(),
        };
        toml::from_str(text).map_err(words)
    }

    /// Reads a TOML file; paths in it are relative to its folder. Gives the links and the options it sets.
    ///
    /// # Errors
    /// [`ConfigError`] naming link, direction and setting.
    pub fn load(path: &Path) -> Result<(Vec<Link>, Options), ConfigError> {
        let text = text_file::read(path, text_file::SETTINGS)
            .map_err(|error| ConfigError::Read { path: path.into(), error })?;
        let config = EmulateConfig::parse(&text)?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Ok((config.links(folder)?, config.options()?))
    }

    /// The options that the file sets, the others at their defaults.
    ///
    /// # Errors
    /// [`ConfigError::Value`].
    pub fn options(&self) -> Result<Options, ConfigError> {
        let mut options = Options::default();
        options.seed = self.seed.unwrap_or(options.seed);
        options.thread_per_link = self.thread_per_link.unwrap_or(options.thread_per_link);
        if let Some(tick) = quantity(&self.tick, "", "tick", parse_span)? {
            options.tick = tick;
        }
        Ok(options)
    }

    /// The links, with files read relative to `folder`.
    ///
    /// # Errors
    /// [`ConfigError`] naming link, direction and setting.
    pub fn links(&self, folder: &Path) -> Result<Vec<Link>, ConfigError> {
        self.links.iter().enumerate().map(|(number, link)| link.link(number, folder)).collect()
    }
}

impl LinkConfig {
    fn link(&self, number: usize, folder: &Path) -> Result<Link, ConfigError> {
        let name = self.name.clone().unwrap_or_else(|| format!("link{number}"));
        let port =
            |text: &str| text.parse().map_err(|error| ConfigError::Port { place: format!("link {name}: "), error });
        let profile = |direction: &DirectionConfig, which: &str| {
            direction.or(&self.both).profile(&format!("link {name}, {which}: "), folder)
        };
        Ok(Link {
            a: port(&self.a)?,
            b: port(&self.b)?,
            forward: profile(&self.forward, "forward")?,
            backward: profile(&self.backward, "backward")?,
            name,
        })
    }
}

/// Whether a direction has a setting of this name, whatever its value.
fn is_of_direction(name: &str) -> bool {
    let read = toml::from_str::<DirectionConfig>(&format!("{name} = 0"));
    !read.is_err_and(|error| error.message().starts_with("unknown field"))
}

impl DirectionConfig {
    /// These settings, and where there is none, those of `other`. A capacity in one replaces any in the other, and
    /// so does a loss model.
    pub fn or(&self, other: &DirectionConfig) -> DirectionConfig {
        let (mine, other) = (self.clone(), other.clone());
        let capacity =
            if mine.rate.is_some() || mine.trace.is_some() || mine.series.is_some() { &mine } else { &other }.clone();
        let loss = if mine.loss.is_some() || mine.gilbert.is_some() { &mine } else { &other }.clone();
        DirectionConfig {
            rate: capacity.rate,
            trace: capacity.trace,
            series: capacity.series,
            column: mine.column.or(capacity.column),
            blank: mine.blank.or(capacity.blank),
            delay: mine.delay.or(other.delay),
            jitter: mine.jitter.or(other.jitter),
            reorder: mine.reorder.or(other.reorder),
            loss: loss.loss,
            gilbert: loss.gilbert,
            queue: mine.queue.or(other.queue),
            discipline: mine.discipline.or(other.discipline),
            buffer: mine.buffer.or(other.buffer),
            outages: mine.outages.or(other.outages),
            during_outage: mine.during_outage.or(other.during_outage),
            overhead: mine.overhead.or(other.overhead),
        }
    }

    /// The profile that the settings mean. `place` begins every message; files are read relative to `folder`.
    ///
    /// # Errors
    /// [`ConfigError`] naming the setting and what would be right.
    pub fn profile(&self, place: &str, folder: &Path) -> Result<Profile, ConfigError> {
        let mut profile = Profile::default();
        let capacity = |error| ConfigError::Capacity { place: place.into(), error };
        match (&self.rate, &self.trace, &self.series) {
            (None, None, None) => {}
            (Some(_), None, None) => {
                if let Some(rate) = quantity(&self.rate, place, "rate", parse_rate)? {
                    profile.capacity = Capacity::Constant(rate);
                }
            }
            (None, Some(trace), None) => {
                profile.capacity = Capacity::Trace(read(&folder.join(trace), Trace::parse).map_err(capacity)?);
            }
            (None, None, Some(series)) => {
                let column = self.column.as_deref().unwrap_or("1");
                let blank = match &self.blank {
                    None => Blank::default(),
                    Some(text) => Blank::from_word(text).ok_or_else(|| ConfigError::Value {
                        place: place.into(),
                        setting: "blank",
                        value: text.clone(),
                        expected: "write `holds` or `dead`".into(),
                    })?,
                };
                let series = read(&folder.join(series), |file, text| Series::parse_csv(file, text, column, blank))
                    .map_err(capacity)?;
                profile.capacity = Capacity::Series(series);
            }
            _ => return Err(ConfigError::TwoCapacities { place: place.into() }),
        }
        if let Some(delay) = quantity(&self.delay, place, "delay", parse_span)? {
            profile.delay = delay;
        }
        if let Some(jitter) = quantity(&self.jitter, place, "jitter", parse_span)? {
            profile.jitter = jitter;
        }
        profile.reorder = self.reorder.unwrap_or(false);
        let value = |setting, value: &str, expected: &str| ConfigError::Value {
            place: place.into(),
            setting,
            value: value.into(),
            expected: expected.into(),
        };
        if let Some(text) = &self.loss {
            let p = probability(text).ok_or_else(|| value("loss", text, "write for example `1%` or `0.01`"))?;
            profile.loss = Loss::Independent(p);
        }
        if let Some(text) = &self.gilbert {
            const FORM: &str = "write `p r [1-h [1-k]]`, for example `1% 25%`";
            if self.loss.is_some() {
                return Err(value("gilbert", text, "loss and gilbert exclude each other: keep one"));
            }
            let numbers: Option<Vec<f64>> = text.split_whitespace().map(probability).collect();
            let [p, r, bad, good] = match *numbers.unwrap_or_default() {
                [p, r] => [p, r, 1.0, 0.0],
                [p, r, bad] => [p, r, bad, 0.0],
                [p, r, bad, good] => [p, r, bad, good],
                _ => return Err(value("gilbert", text, FORM)),
            };
            profile.loss = Loss::Gilbert { p, r, bad, good };
        }
        if let Some(text) = &self.queue {
            profile.queue = match text.trim().parse::<u64>() {
                Ok(frames) => Limit::Packets(u32::try_from(frames).unwrap_or(u32::MAX)),
                Err(_) => Limit::Bytes(
                    parse_bytes(text)
                        .map_err(|_| value("queue", text, "write frames as `1000`, or bytes as `64kB`"))?
                        .as_u64(),
                ),
            };
        }
        if let Some(text) = &self.discipline {
            let wrong = |error: OptionError| value("discipline", text, &error.to_string());
            profile.discipline = text.parse().map_err(wrong)?;
            profile.buffer = profile.discipline.usual_buffer();
        }
        if let Some(text) = &self.buffer {
            profile.buffer = text.parse().map_err(|error: OptionError| value("buffer", text, &error.to_string()))?;
        }
        for text in self.outages.iter().flatten() {
            let outage = outage(text).ok_or_else(|| {
                value("outages", text, "write `START+LENGTH` or `START+LENGTH/PERIOD`, for example `5s+2s/60s`")
            })?;
            profile.outages.push(outage);
        }
        match self.during_outage.as_deref() {
            None | Some("lose") => {}
            Some("hold") => profile.during_outage = DuringOutage::Hold,
            Some(text) => return Err(value("during-outage", text, "write `lose` or `hold`")),
        }
        profile.overhead = self.overhead;
        profile.check().map_err(|error| ConfigError::Profile { place: place.into(), error })?;
        Ok(profile)
    }
}

fn quantity<T>(
    text: &Option<String>,
    place: &str,
    setting: &'static str,
    parse: fn(&str) -> Result<T, QuantityError>,
) -> Result<Option<T>, ConfigError> {
    let Some(text) = text else { return Ok(None) };
    parse(text).map(Some).map_err(|error| ConfigError::Value {
        place: place.into(),
        setting,
        value: text.clone(),
        expected: error.to_string(),
    })
}

fn probability(text: &str) -> Option<f64> {
    let p = match text.trim().strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.trim().parse().ok()?,
    };
    (0.0..=1.0).contains(&p).then_some(p)
}

fn outage(text: &str) -> Option<Outage> {
    let (start, rest) = text.split_once('+')?;
    let (length, every) = match rest.split_once('/') {
        Some((length, every)) => (length, Some(parse_span(every).ok()?)),
        None => (rest, None),
    };
    Some(Outage { start: parse_span(start).ok()?, length: parse_span(length).ok()?, every })
}

/// Why a file with a capacity cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// What it says cannot be used.
    #[error(transparent)]
    Content(#[from] CapacityError),
}

/// The capacity that `parse` makes of a file's name and text.
fn read<C>(path: &Path, parse: impl Fn(&str, &str) -> Result<C, CapacityError>) -> Result<C, TraceError> {
    let text = text_file::read(path, text_file::DATA).map_err(|error| TraceError::Read { path: path.into(), error })?;
    Ok(parse(&path.display().to_string(), &text)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::queue::DisciplineConfig;
    use fairspan_core::units::{Bytes, Rate, Span};

    fn profile(settings: &str) -> Result<Profile, ConfigError> {
        let config: DirectionConfig = toml::from_str(settings)?;
        config.profile("link x: ", Path::new("."))
    }

    #[test]
    fn every_setting_reaches_the_profile() {
        let all = profile(
            r#"rate = "10Mbit"
               delay = "20ms"
               jitter = "5ms"
               reorder = true
               gilbert = "1% 25% 0.5 0.001"
               queue = "64kB"
               discipline = "drr:quantum=3000"
               buffer = "codel"
               outages = ["1s+2s", "5s+1s/30s"]
               during-outage = "hold"
               overhead = 24"#,
        )
        .expect("valid");
        let secs = Span::from_secs;
        let expected = Profile {
            jitter: Span::from_millis(5),
            reorder: true,
            loss: Loss::Gilbert { p: 0.01, r: 0.25, bad: 0.5, good: 0.001 },
            queue: Limit::Bytes(64_000),
            discipline: DisciplineConfig::Drr { quantum: Bytes::new(3000) },
            buffer: "codel:target=5ms,interval=100ms".parse().expect("a policy"),
            outages: vec![
                Outage { start: secs(1), length: secs(2), every: None },
                Outage { start: secs(5), length: secs(1), every: Some(secs(30)) },
            ],
            during_outage: DuringOutage::Hold,
            overhead: Some(24),
            ..Profile::new(Rate::from_mbit(10), Span::from_millis(20))
        };
        assert_eq!(all, expected);
        assert_eq!(profile("").expect("valid"), Profile::default());
        let fair = profile("discipline = \"sfq\"").expect("valid");
        assert_eq!(fair.buffer.to_string(), "longest-queue", "as on a link of the simulator");
        assert_eq!(profile("queue = \"50\"").expect("valid").queue, Limit::Packets(50));
    }

    #[test]
    fn a_wrong_setting_is_named_with_what_would_be_right() {
        for (settings, setting) in [
            ("rate = \"100\"", "rate"),
            ("rate = \"0bit\"", "rate"),
            ("delay = \"x\"", "delay"),
            ("loss = \"101%\"", "loss"),
            ("loss = \"nan\"", "loss"),
            ("gilbert = \"1%\"", "gilbert"),
            ("gilbert = \"1% 2%\"\nloss = \"1%\"", "gilbert"),
            ("queue = \"many\"", "queue"),
            ("discipline = \"dr\"", "discipline"),
            ("buffer = \"codel:target=1s\"", "buffer"),
            ("outages = [\"5s\"]", "outages"),
            ("outages = [\"5s+2s/1s\"]", "outage"),
            ("during-outage = \"wait\"", "during-outage"),
            ("rate = \"1Mbit\"\ntrace = \"x\"", "rate, trace and series"),
            ("trace = \"/nonexistent\"", "/nonexistent"),
            ("colour = \"red\"", "colour"),
        ] {
            let message = profile(settings).expect_err(settings).to_string();
            assert!(message.contains(setting), "{settings}: {message}");
        }
    }

    #[test]
    fn a_direction_replaces_capacity_and_loss_of_both_as_wholes() {
        let config = EmulateConfig::parse(
            r#"
            [[link]]
            a = "x"
            b = "ns:y"
            both = { rate = "10Mbit", delay = "5ms", loss = "1%" }
            backward = { gilbert = "1% 50%", delay = "6ms" }
            "#,
        )
        .expect("valid");
        let links = config.links(Path::new(".")).expect("valid");
        assert_eq!(links[0].name, "link0");
        assert_eq!(links[0].forward.loss, Loss::Independent(0.01));
        assert_eq!(links[0].backward.loss, Loss::Gilbert { p: 0.01, r: 0.5, bad: 1.0, good: 0.0 });
        assert_eq!(links[0].backward.delay, Span::from_millis(6));
        assert_eq!(links[0].backward.capacity, Capacity::Constant(Rate::from_mbit(10)));
        assert!(matches!(EmulateConfig::parse("[[link]]\na = 1"), Err(ConfigError::Toml(_))));
    }
}
