//! The links of an imagined bond, as they are written: `4`, or `dsl:50:20ms,lte:10Mbit:45ms`.

use fairspan_core::quantity::{self, QuantityError};
use fairspan_core::select::{LinkState, Links};
use fairspan_core::units::{ChannelId, Rate, Span};
use std::str::FromStr;

/// One link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// What it is called.
    pub name: String,
    /// What it carries; at least [`LinkSpec::LEAST_RATE`], at most [`LinkSpec::MOST_RATE`].
    pub rate: Rate,
    /// From leaving to arriving; at most [`LinkSpec::MOST_DELAY`].
    pub delay: Span,
}

impl LinkSpec {
    /// 100 bit/s: slower than any modem.
    pub const LEAST_RATE: Rate = Rate::from_bits_per_sec(100);
    /// 100 Tbit/s.
    pub const MOST_RATE: Rate = Rate::from_mbit(100_000_000);
    /// An hour.
    pub const MOST_DELAY: Span = Span::from_secs(3600);
}

/// The links of a bond, numbered from 0 in order; from 1 to [`ChannelId::LIMIT`].
///
/// Written as a count, which means links of 1 Gbit/s and no delay, named by their numbers; or as `NAME:RATE[:DELAY]`,
/// separated by commas, with rates in Mbit/s or with a unit and delays with a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkList(Vec<LinkSpec>);

/// Why a text is no list of links, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinksError {
    /// Too few or too many.
    #[error("{count} links; write from 1 to {most}", most = ChannelId::LIMIT)]
    Count {
        /// How many were given.
        count: String,
    },
    /// Neither a count nor a link.
    #[error("`{entry}` is no link; write NAME:RATE or NAME:RATE:DELAY, such as dsl:50:20ms, or for all links a count")]
    Entry {
        /// What was given.
        entry: String,
    },
    /// Two links of one name.
    #[error("two links are called `{name}`; give each a name of its own")]
    Twice {
        /// The name.
        name: String,
    },
    /// No rate.
    #[error("the rate of link {name}: {error}; without a unit it is Mbit/s")]
    Rate {
        /// The link.
        name: String,
        /// What is wrong.
        error: QuantityError,
    },
    /// A rate that no link has.
    #[error("the rate of link {name} is {rate}; write from {least} to {most}",
        least = quantity::show_rate(LinkSpec::LEAST_RATE), most = quantity::show_rate(LinkSpec::MOST_RATE))]
    NoSuchRate {
        /// The link.
        name: String,
        /// What was given.
        rate: String,
    },
    /// No delay.
    #[error("the delay of link {name}: {error}")]
    Delay {
        /// The link.
        name: String,
        /// What is wrong.
        error: QuantityError,
    },
    /// A delay that no link has.
    #[error("the delay of link {name} is {delay}; write at most 1h")]
    NoSuchDelay {
        /// The link.
        name: String,
        /// What was given.
        delay: String,
    },
}

impl LinkList {
    /// `count` links of 1 Gbit/s without delay.
    ///
    /// # Errors
    /// There are none, or too many.
    pub fn equal(count: usize) -> Result<LinkList, LinksError> {
        if !(1..=ChannelId::LIMIT).contains(&count) {
            return Err(LinksError::Count { count: count.to_string() });
        }
        let link = |n: usize| LinkSpec { name: n.to_string(), rate: Rate::from_mbit(1000), delay: Span::ZERO };
        Ok(LinkList((0..count).map(link).collect()))
    }

    /// In the order of their numbers.
    pub fn as_slice(&self) -> &[LinkSpec] {
        &self.0
    }

    /// The names, in the order of the numbers.
    pub fn names(&self) -> Vec<&str> {
        self.0.iter().map(|link| link.name.as_str()).collect()
    }

    /// As a selector sees them before anything was sent.
    pub fn states(&self) -> Links {
        Links::new(self.0.iter().map(|link| LinkState {
            rate: Some(link.rate),
            delay: Some(link.delay),
            ..LinkState::default()
        }))
    }
}

impl FromStr for LinkList {
    type Err = LinksError;

    fn from_str(text: &str) -> Result<LinkList, LinksError> {
        let text = text.trim();
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            let wrong = |_| LinksError::Count { count: text.to_owned() };
            return LinkList::equal(text.parse().map_err(wrong)?);
        }
        let mut links: Vec<LinkSpec> = Vec::new();
        for entry in text.split(',').map(str::trim) {
            let link = link(entry)?;
            if links.iter().any(|before| before.name == link.name) {
                return Err(LinksError::Twice { name: link.name });
            }
            links.push(link);
        }
        if links.len() > ChannelId::LIMIT {
            return Err(LinksError::Count { count: links.len().to_string() });
        }
        Ok(LinkList(links))
    }
}

fn link(entry: &str) -> Result<LinkSpec, LinksError> {
    let parts: Vec<&str> = entry.split(':').map(str::trim).collect();
    let (name, rate, delay) = match parts[..] {
        [name, rate] if !name.is_empty() => (name, rate, None),
        [name, rate, delay] if !name.is_empty() => (name, rate, Some(delay)),
        _ => return Err(LinksError::Entry { entry: entry.to_owned() }),
    };
    let name = name.to_owned();
    let bare = rate.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let with_unit = if bare { format!("{rate}Mbit") } else { rate.to_owned() };
    let rate = match quantity::parse_rate(&with_unit) {
        Ok(value) if (LinkSpec::LEAST_RATE..=LinkSpec::MOST_RATE).contains(&value) => value,
        Ok(_) | Err(QuantityError::TooLarge { .. }) => {
            return Err(LinksError::NoSuchRate { name, rate: rate.to_owned() });
        }
        Err(error) => return Err(LinksError::Rate { name, error }),
    };
    let delay = match delay.map(|delay| (delay, quantity::parse_span(delay))) {
        None => Span::ZERO,
        Some((_, Ok(value))) if value <= LinkSpec::MOST_DELAY => value,
        Some((delay, Ok(_) | Err(QuantityError::TooLarge { .. }))) => {
            return Err(LinksError::NoSuchDelay { name, delay: delay.to_owned() });
        }
        Some((_, Err(error))) => return Err(LinksError::Delay { name, error }),
    };
    Ok(LinkSpec { name, rate, delay })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(String, u64, u64)>, LinksError> {
        let list: LinkList = text.parse()?;
        let plain = |l: &LinkSpec| (l.name.clone(), l.rate.as_bits_per_sec(), l.delay.as_nanos());
        Ok(list.as_slice().iter().map(plain).collect())
    }

    #[test]
    fn a_count_is_that_many_gigabit_links_without_delay() {
        let links = parse("3").unwrap();
        assert_eq!(links, ["0", "1", "2"].map(|name| (name.to_owned(), 1_000_000_000, 0)));
        assert_eq!(parse("64").unwrap().len(), 64);
    }

    #[test]
    fn a_list_gives_names_rates_and_delays_in_order() {
        let links = parse("dsl:50:20ms, lte:10.5Mbit/s:45.5ms,sat:512kbit:0.3s,lan:1Gbit,near:100:0").unwrap();
        let want = [
            ("dsl", 50_000_000, 20_000_000),
            ("lte", 10_500_000, 45_500_000),
            ("sat", 512_000, 300_000_000),
            ("lan", 1_000_000_000, 0),
            ("near", 100_000_000, 0),
        ];
        assert_eq!(links, want.map(|(name, rate, delay)| (name.to_owned(), rate, delay)));
    }

    #[test]
    fn what_is_no_list_of_links_is_refused_with_what_would_be_right() {
        for text in ["0", "65", "99999999999999999999999"] {
            let error = parse(text).unwrap_err();
            assert_eq!(error, LinksError::Count { count: text.to_owned() });
            assert!(error.to_string().contains("from 1 to 64"), "{error}");
        }
        let many: Vec<String> = (0..65).map(|n| format!("l{n}:1")).collect();
        assert_eq!(parse(&many.join(",")), Err(LinksError::Count { count: "65".into() }));
        for text in ["", "dsl", "a:1,", ",", ":5", "a:1:2ms:3", "4x", "-1"] {
            assert!(matches!(parse(text), Err(LinksError::Entry { .. })), "{text}: {:?}", parse(text));
        }
        for text in ["a:", "a:fast", "a:-5", "a:1.2.3", "a:10Mb", "a:inf", "a:NaN", "a:."] {
            assert!(matches!(parse(text), Err(LinksError::Rate { .. })), "{text}: {:?}", parse(text));
        }
        for text in ["a:0", "a:0.00001", "a:99bit", "a:100001Gbit", "a:99999999999999999999"] {
            assert!(matches!(parse(text), Err(LinksError::NoSuchRate { .. })), "{text}: {:?}", parse(text));
        }
        for text in ["a:5:5", "a:5:", "a:5:soon", "a:5:-1ms"] {
            assert!(matches!(parse(text), Err(LinksError::Delay { .. })), "{text}: {:?}", parse(text));
        }
        for text in ["a:5:61min", "a:5:99999999999999999999s"] {
            assert!(matches!(parse(text), Err(LinksError::NoSuchDelay { .. })), "{text}: {:?}", parse(text));
        }
        assert_eq!(parse("a:1,b:2,a:3"), Err(LinksError::Twice { name: "a".into() }));
    }
}
