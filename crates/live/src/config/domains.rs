//! `[[domains]]`: names whose addresses are reached through the bond, or past it.

use super::name::is_name;
use super::{ConfigError, Interface, Peer, Reader};
use crate::quantity::{parse_span, show_span};
use fairspan_core::units::Span;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;
use toml::Spanned;

/// Most names of all sections together.
const NAMES_MAX: usize = 1000;
/// How long an address is kept after the last answer that gave it, if its time to live is shorter.
const KEEP: Span = Span::from_secs(3600);
const KEEP_LEAST: Span = Span::from_secs(1);
const KEEP_MOST: Span = Span::from_secs(30 * 24 * 3600);

/// `[[domains]]`: some names.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Domains {
    /// `names`: these and all below them, in small letters.
    pub names: Vec<String>,
    /// `way` and `peer`: by which side of the bond their addresses are reached.
    pub side: Side,
    /// `keep`: how long an address is kept after the last answer that gave it, if its time to live is shorter; default 1 h.
    pub keep: Span,
}

/// By which side of the bond addresses are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Through it, by the peer with this number in the file.
    Through(usize),
    /// Past it, as if there were none.
    Past,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDomains {
    names: Spanned<Vec<Spanned<String>>>,
    way: Option<Spanned<String>>,
    peer: Option<Spanned<String>>,
    keep: Option<Spanned<String>>,
}

impl Reader<'_> {
    /// All sections, for an interface with these peers.
    pub(super) fn domains(
        &self,
        interface: &Interface,
        sections: &[Spanned<RawDomains>],
        peers: &[Peer],
    ) -> Result<Vec<Domains>, ConfigError> {
        let mut known = BTreeSet::new();
        let mut all = Vec::new();
        for section in sections {
            let (span, raw) = (section.span(), section.get_ref());
            let names = self.domain_names(&raw.names, &mut known)?;
            let side = self.domain_side(span, raw, interface, peers)?;
            let keep = match &raw.keep {
                Some(text) => {
                    let keep = self.quantity(Some(text), "domains.keep", parse_span)?.unwrap_or(KEEP);
                    if !(KEEP_LEAST..=KEEP_MOST).contains(&keep) {
                        let problem = format!("is not from {} to {}", show_span(KEEP_LEAST), show_span(KEEP_MOST));
                        return Err(self.error(text.span(), "domains.keep", problem));
                    }
                    keep
                }
                None => KEEP,
            };
            if side != Side::Past {
                self.families(interface, raw.names.span());
            }
            all.push(Domains { names, side, keep });
        }
        Ok(all)
    }

    fn domain_names(
        &self,
        texts: &Spanned<Vec<Spanned<String>>>,
        known: &mut BTreeSet<String>,
    ) -> Result<Vec<String>, ConfigError> {
        const SETTING: &str = "domains.names";
        let mut names = Vec::new();
        for text in texts.get_ref() {
            let written = text.get_ref();
            let name = written.strip_suffix('.').unwrap_or(written).to_ascii_lowercase();
            let problem = if let Some(below) = name.strip_prefix("*.").or(name.strip_prefix('.')) {
                format!("`{written}`: a name stands for all below it too: write `{below}`")
            } else if !name.is_ascii() {
                format!(
                    "`{written}` has letters that DNS does not know: write it as it is asked for, `xn--` and what follows"
                )
            } else if !is_name(&name) {
                format!("`{written}` is no name: write for example \"example.com\"")
            } else if known.len() >= NAMES_MAX {
                format!("are more than {NAMES_MAX} in all: write the names above them")
            } else if !known.insert(name.clone()) {
                format!("`{name}` is there twice: leave one out")
            } else {
                names.push(name);
                continue;
            };
            return Err(self.error(text.span(), SETTING, problem));
        }
        if names.is_empty() {
            let problem = "names nothing: write names, such as [\"example.com\"], or leave the section out";
            return Err(self.error(texts.span(), SETTING, problem));
        }
        Ok(names)
    }

    fn domain_side(
        &self,
        span: Range<usize>,
        raw: &RawDomains,
        interface: &Interface,
        peers: &[Peer],
    ) -> Result<Side, ConfigError> {
        let (way, at) = match &raw.way {
            Some(way) => (way.get_ref().as_str(), way.span()),
            None => ("through", span.clone()),
        };
        let wrong = |at: Range<usize>, setting: &str, problem: String| Err(self.error(at, setting, problem));
        match (way, &raw.peer) {
            ("past", Some(peer)) => {
                wrong(peer.span(), "domains.peer", "is for `way = \"through\"`: leave it out".to_owned())
            }
            ("past", None) if interface.lock => {
                let problem = "\"past\" does not go together with `lock`, which lets nothing leave but through the interface: leave one \
                               of them out";
                wrong(at, "domains.way", problem.to_owned())
            }
            ("past", None) if !peers.iter().any(|peer| peer.allowed_ips.iter().any(|net| net.prefix_len() == 0)) => {
                let problem = "\"past\" spares names from a default route through the bond, and there is none: add \"0.0.0.0/0\" or \
                               \"::/0\" to the `allowed_ips` of a [[peer]], or leave the section out";
                wrong(at, "domains.way", problem.to_owned())
            }
            ("past", None) => Ok(Side::Past),
            ("through", Some(peer)) => match peers.iter().position(|known| known.name == *peer.get_ref()) {
                Some(number) => Ok(Side::Through(number)),
                None => wrong(peer.span(), "domains.peer", format!("`{}` is no [[peer]]'s `name`", peer.get_ref())),
            },
            ("through", None) if peers.len() > 1 => {
                wrong(span, "domains.peer", "there are several peers: name the one that it is through".to_owned())
            }
            ("through", None) => Ok(Side::Through(0)),
            (other, _) => wrong(at, "domains.way", format!("`{other}` is none of through, past")),
        }
    }

    /// An address without one of its version on the interface cannot be reached through it.
    fn families(&self, interface: &Interface, span: Range<usize>) {
        let lacks = |is_v6: bool| !interface.addresses.iter().any(|net| net.addr().is_ipv6() == is_v6);
        for (is_v6, version) in [(false, "IPv4"), (true, "IPv6")] {
            if lacks(is_v6) {
                let problem = format!(
                    "go past the bond where they have an address of {version}, as the interface has none: give it one in `address`"
                );
                self.notice(span.clone(), "domains.names", problem);
            }
        }
    }
}

impl Interface {
    /// Whether it has an address of the version of this one, so that this one can be reached from it.
    pub(crate) fn speaks(&self, to: IpAddr) -> bool {
        self.addresses.iter().any(|net| net.addr().is_ipv6() == to.is_ipv6())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::path::Path;

    fn read(interface: &str, allowed: &str, sections: &str) -> Result<Config, ConfigError> {
        let text = format!(
            "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.2/24\", \"fd77::2/64\"]\n{interface}\n[[peer]]\nname = \"hub\"\nallowed_ips = \
             [{allowed}]\n[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth1\"\n{sections}"
        );
        Config::parse(Path::new("fs0.toml"), &text)
    }

    fn with_default(sections: &str) -> Result<Config, ConfigError> {
        read("", "\"0.0.0.0/0\"", sections)
    }

    #[test]
    fn names_are_in_small_letters_through_the_one_peer_and_kept_for_an_hour() {
        let config = with_default(
            "[[domains]]\nnames = [\"Example.COM.\", \"a.example.net\"]\n[[domains]]\nnames = [\"bank.example\"]\nway = \"past\"\nkeep = \"24h\"\n",
        )
        .expect("accepted");
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            config.domains,
            [
                Domains { names: names(&["example.com", "a.example.net"]), side: Side::Through(0), keep: KEEP },
                Domains { names: names(&["bank.example"]), side: Side::Past, keep: Span::from_secs(86_400) },
            ]
        );
    }

    #[test]
    fn what_could_not_work_is_refused_with_what_would_be_right() {
        let many: String = (0..=NAMES_MAX).map(|n| format!("\"n{n}.example\",")).collect();
        let long = format!("\"{}.example\"", "a".repeat(64));
        for (names, more, setting, words) in [
            ("\"*.example.com\"", "", "domains.names", "write `example.com`"),
            ("\".example.com\"", "", "domains.names", "write `example.com`"),
            ("\"192.0.2.1\"", "", "domains.names", "no name"),
            ("\"exa mple.com\"", "", "domains.names", "no name"),
            ("\"münchen.example\"", "", "domains.names", "xn--"),
            (&long, "", "domains.names", "no name"),
            ("", "", "domains.names", "names nothing"),
            ("\"a.example\", \"A.example.\"", "", "domains.names", "twice"),
            (&many, "", "domains.names", "more than 1000"),
            ("\"a.example\"", "way = \"beside\"", "domains.way", "through, past"),
            ("\"a.example\"", "peer = \"other\"", "domains.peer", "`other` is no [[peer]]'s"),
            ("\"a.example\"", "way = \"past\"\npeer = \"hub\"", "domains.peer", "leave it out"),
            ("\"a.example\"", "keep = \"10ms\"", "domains.keep", "is not from 1s"),
            ("\"a.example\"", "keep = \"721h\"", "domains.keep", "is not from 1s"),
        ] {
            let error = with_default(&format!("[[domains]]\nnames = [{names}]\n{more}\n")).expect_err(words);
            assert_eq!((error.setting.as_str(), error.problem.contains(words)), (setting, true), "{error}");
        }
        let past = "[[domains]]\nnames = [\"a.example\"]\nway = \"past\"\n";
        for (interface, allowed, words) in [
            ("lock = true", "\"0.0.0.0/0\"", "lock"),
            ("", "\"10.0.0.0/8\"", "there is none"),
            ("table = \"off\"", "\"0.0.0.0/0\"", "table = \"auto\""),
            ("fwmark = 254", "\"10.0.0.0/8\"", "another `fwmark`"),
            ("fwmark = 0", "\"10.0.0.0/8\"", "another `fwmark`"),
        ] {
            let error = read(interface, allowed, past).expect_err(words);
            assert!(error.setting.starts_with("domains") && error.problem.contains(words), "{error}");
        }
        let error = with_default("[domains]\nnames = [\"a.example\"]\n").expect_err("one bracket");
        assert!(error.problem.contains("[[domains]]"), "{error}");
    }

    #[test]
    fn who_has_no_address_of_a_version_is_told_what_becomes_of_it() {
        let text = "[interface]\nname = \"fs0\"\naddress = [\"10.77.0.2/24\"]\n[[peer]]\nallowed_ips = [\"10.0.0.1/32\"]\n[[peer.channel]]\nkind = \
                    \"ethernet\"\ndevice = \"eth1\"\n[[domains]]\nnames = [\"a.example\"]\n";
        let config = Config::parse(Path::new("fs0.toml"), text).expect("accepted");
        let said: Vec<&str> = config.notices.iter().map(|notice| notice.problem.as_str()).collect();
        assert!(
            said.iter().any(|said| said.contains("IPv6")) && !said.iter().any(|said| said.contains("IPv4")),
            "{said:?}"
        );
    }
}
