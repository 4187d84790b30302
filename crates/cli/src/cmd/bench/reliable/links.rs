//! The links between the two ports, as `--link` says.

use crate::cmd::emulate;
use crate::exit::BadInput;
use anyhow::Result;
use fairspan_core::quantity::parse_rate;
use fairspan_core::units::Rate;
use fairspan_live::emulate::Profile;
use std::path::Path;

/// Without `--link`: two unlike links, the slower of which loses some frames.
pub(super) const DEFAULT: [&str; 2] = ["rate=100Mbit,delay=500us", "rate=50Mbit,delay=1ms,loss=1%"];
/// Most links: each has a letter.
const MOST: usize = 8;

/// A link, the same in both directions.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// As it was written.
    pub(super) text: String,
    /// Its device at both ends.
    pub(super) device: String,
    /// For the emulator.
    pub(super) profile: Profile,
    /// The rate of the bond's channel over it.
    pub(super) rate: Option<Rate>,
}

/// Reads all of them.
///
/// # Errors
/// The text that is wrong, and what would be right.
pub(super) fn read(texts: &[String]) -> Result<Vec<Line>> {
    if texts.len() > MOST {
        return Err(BadInput(format!("--link: {} links are too many; give 1 to {MOST}", texts.len())).into());
    }
    texts.iter().zip('a'..).map(|(text, letter)| line(text, format!("link-{letter}"))).collect()
}

fn line(text: &str, device: String) -> Result<Line> {
    let settings = emulate::direction(text.split(','), "--link")?;
    let wrong = |problem: String| BadInput(format!("--link {text}: {problem}"));
    let profile = settings.profile("", Path::new("")).map_err(|error| wrong(error.to_string()))?;
    let rate = settings.rate.as_deref().map(parse_rate).transpose().map_err(|error| wrong(error.to_string()))?;
    Ok(Line { text: text.to_owned(), device, profile, rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Span;
    use fairspan_live::emulate::Loss;

    #[test]
    fn links_have_the_settings_of_the_emulator() {
        let lines = read(&DEFAULT.map(str::to_owned)).unwrap();
        assert_eq!((lines[0].device.as_str(), lines[1].device.as_str()), ("link-a", "link-b"));
        assert_eq!((lines[0].rate, lines[0].profile.delay), (Some(Rate::from_mbit(100)), Span::from_micros(500)));
        assert_eq!(lines[1].profile.loss, Loss::Independent(0.01));
        assert_eq!(read(&["delay=1ms".to_owned()]).unwrap()[0].rate, None);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |text: &str| read(&[text.to_owned()]).unwrap_err().to_string();
        assert!(problem("rate").contains("--link rate: write NAME=VALUE"));
        assert!(problem("colour=red").contains("--link: unknown field `colour`"));
        assert!(problem("rate=fast").contains("--link rate=fast: rate = `fast`"));
        assert!(read(&vec!["delay=1ms".to_owned(); 9]).unwrap_err().to_string().contains("1 to 8"));
    }
}
