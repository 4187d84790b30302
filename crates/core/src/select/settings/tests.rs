use super::super::{LinkState, Links, Selector};
use super::*;
use crate::options::{LinkRef, named};
use crate::rng::Rng;
use crate::units::{Bytes, Span};
use alloc::format;
use alloc::string::String;
use alloc::vec;

fn parse(text: &str) -> Result<Settings, OptionError> {
    text.parse()
}

fn shown(text: &str) -> String {
    parse(text).unwrap_or_else(|e| panic!("{text}: {e}")).to_string()
}

#[test]
fn what_is_not_the_default_is_shown_in_the_form_that_is_read() {
    for (text, expected) in [
        ("brr", "brr"),
        (" BRR : 12ms ", "brr"),
        ("7:24ms", "brr:24ms"),
        ("brr:threshold=24ms, expiry=90s", "brr:24ms,expiry=90s"),
        ("brr:adaptive,expiry=90000", "brr:adaptive,expiry=90s"),
        ("balance-xor:layer2", "balance-xor"),
        ("2:1", "balance-xor:layer3+4"),
        ("balance-rr:2", "balance-rr:2"),
        ("0", "balance-rr"),
        ("n_to_one:auto", "n_to_one"),
        ("n_to_one_primary:1000,primary=3,n=7", "n_to_one_primary:1000,primary=3,n=7"),
        ("active-backup:eth1", "active-backup:eth1"),
        ("least_queue:updelay=200", "least_queue:updelay=200ms"),
        ("brr:flush_wait=10ms,flush=on", "brr:flush=on,flush_wait=10ms"),
        ("traffic_meter:1.5ms", "traffic_meter:1500us"),
    ] {
        assert_eq!(shown(text), expected, "{text}");
    }
}

#[test]
fn each_error_names_what_was_wrong_and_what_would_be_right() {
    for (text, option, advice) in [
        ("round-robin", None, "balance-rr, active-backup"),
        ("", None, "known are balance-rr"),
        ("8", None, "known are"),
        ("brr:12parsecs", Some("threshold"), "write a time from 1us to 24h"),
        ("brr:0ms", Some("threshold"), "or adaptive"),
        ("brr:12ms,12ms", None, "write OPTION=VALUE"),
        ("brr:,expiry=9s", Some("threshold"), "write a time"),
        ("least_queue:5", None, "write OPTION=VALUE, with one of miimon"),
        ("broadcast:threshold=5ms", Some("threshold"), "updelay"),
        ("brr:expiry=1s,expiry=1s", Some("expiry"), "twice"),
        ("brr:12ms,threshold=12ms", Some("threshold"), "twice"),
        ("brr:2s,expiry=1s", Some("expiry"), "expire it later"),
        ("brr:weighted=perhaps", Some("weighted"), "on or off"),
        ("brr:flush_wait=5ms", Some("flush_wait"), "write flush=on as well"),
        ("brr:flush=off,flush_wait=5ms", Some("flush_wait"), "write flush=on as well"),
        ("broadcast:flush=on", Some("flush"), "leave flush out"),
        ("traffic_meter:flush=on", Some("flush"), "leave flush out"),
        ("brr:flows=67108865", Some("flows"), "67108864"),
        ("balance-xor:layer5", Some("xmit_hash_policy"), "vlan+srcmac"),
        ("balance-rr:65536", Some("packets_per_slave"), "from 0 to 65535"),
        ("balance-rr:-1", Some("packets_per_slave"), "from 0 to 65535"),
        ("cut_off_least_queue:99999999999999999999", Some("size"), "from 1 to 65535"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(error.option(), option, "{text}: {error}");
        assert!(error.to_string().contains(advice), "{text}: {error}");
    }
}

#[test]
fn a_link_is_named_by_its_name_or_number_and_must_exist() {
    let names = ["eth0", "eth1", "7"];
    let resolved = |text: &str| {
        let mut settings = parse(text).unwrap();
        settings.resolve(&names).map(|()| settings.to_string()).map_err(|e| e.to_string())
    };
    assert_eq!(resolved("active-backup:eth1").as_deref(), Ok("active-backup:1"));
    assert_eq!(resolved("active-backup:2").as_deref(), Ok("active-backup:2"));
    for text in ["active-backup:eth2", "active-backup:7", "active-backup:64"] {
        assert!(resolved(text).unwrap_err().contains("the links are eth0, eth1, 7"), "{text}");
    }
    let links = Links::new([LinkState::default(); 2]);
    let make = |text: &str| Selector::new(&parse(text).unwrap(), &links, 1);
    assert_eq!(make("n_to_one_primary:primary=64").unwrap_err().option(), Some("primary"));
    assert!(make("n_to_one_primary:primary=63").is_ok() && make("n_to_one_primary:primary=later").is_ok());
}

#[test]
fn names_and_modes_of_policies_and_names_of_options_are_not_used_twice() {
    for (n, spec) in POLICIES.iter().enumerate() {
        assert_eq!(named::<Settings>(spec.name).unwrap().name(), spec.name);
        let same = |other: &PolicySpec| other.name == spec.name || (spec.mode.is_some() && other.mode == spec.mode);
        assert!(!POLICIES[..n].iter().any(same), "{}", spec.name);
        if let Some(main) = spec.main {
            assert!(spec.options().any(|(option, _)| option.name == main), "{}: {main}", spec.name);
        }
        let options: Vec<_> = spec.options().map(|(option, _)| option.name).collect();
        for (n, option) in options.iter().enumerate() {
            assert!(!options[..n].contains(option), "{}: {option}", spec.name);
        }
    }
}

#[test]
fn an_option_is_the_same_in_every_policy_that_has_it() {
    let all: Vec<_> = POLICIES.iter().flat_map(PolicySpec::options).collect();
    for (option, default) in &all {
        for (other, other_default) in all.iter().filter(|(other, _)| other.name == option.name) {
            assert_eq!((other.help, other.expected(), other_default), (option.help, option.expected(), default));
        }
    }
}

#[test]
fn every_option_of_every_policy_has_a_default_that_is_accepted_and_changes_nothing() {
    for spec in POLICIES {
        for (option, default) in spec.options() {
            let flush = if option.name == "flush_wait" { "flush=on," } else { "" };
            let text = format!("{}:{flush}{}={default}", spec.name, option.name);
            let without = format!("{}:{flush}", spec.name);
            if parse(&without).is_ok() {
                assert_eq!(parse(&text), parse(&without), "{text}");
            }
        }
    }
}

/// A value that the option takes, near its bounds more often than chance would have it.
fn value(option: &OptionSpec, rng: &mut Rng) -> Value {
    let between = |rng: &mut Rng, least: u64, most: u64| match rng.below(6) {
        0 => least,
        1 => most,
        2 => least + rng.below(most - least + 1),
        // Of all orders of magnitude.
        _ => {
            let magnitude = rng.below(50);
            (least + rng.below(1 << magnitude)).min(most)
        }
    };
    match option.kind {
        Kind::Span(.., Some(_)) if rng.below(4) == 0 => Value::Span(None),
        Kind::Span(least, most, _) => {
            Value::Span(Some(Span::from_nanos(between(rng, least.as_nanos(), most.as_nanos()))))
        }
        Kind::Count(.., Some(_)) if rng.below(4) == 0 => Value::Count(None),
        Kind::Count(least, most, _) => Value::Count(Some(between(rng, least, most))),
        Kind::Bytes(least, most, _) => Value::Bytes(Some(Bytes::new(between(rng, least, most)))),
        Kind::Flag => Value::Flag(rng.below(2) == 0),
        Kind::Choice(words) => Value::Choice(rng.below(words.len() as u64) as usize),
        Kind::Mac => {
            Value::Mac((rng.below(4) > 0).then(|| format!("02:00:5e:10:00:{:02x}", rng.below(256)).parse().unwrap()))
        }
        Kind::Link => Value::Link(match rng.below(3) {
            0 => None,
            1 => Some(LinkRef::Number(ChannelId(rng.below(64) as u8))),
            _ => Some(LinkRef::Name(format!("wan-{}.{}", rng.below(3), rng.below(100)))),
        }),
        other => panic!("no policy has an option of this kind: {other:?}"),
    }
}

#[test]
fn all_settings_survive_being_shown_and_read() {
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let spec = &POLICIES[rng.below(POLICIES.len() as u64) as usize];
        let mut settings = spec.plain();
        for (option, _) in spec.options() {
            if settings.get(option.name).is_some() && rng.below(3) == 0 {
                let value = value(option, &mut rng);
                // As text and as a value.
                let read = option.parse(&option.show(&value), Dialect::Linux);
                assert_eq!(read.as_ref(), Ok(&value), "seed {seed}: {option:?}");
                settings.field_mut(option.name).unwrap().take(value.clone());
                assert_eq!(settings.get(option.name), Some(value), "seed {seed}: {option:?}");
            }
        }
        let text = settings.to_string();
        match parse(&text) {
            Ok(read) => assert_eq!(read, settings, "seed {seed}: {text}"),
            Err(e) => assert_eq!(Err(e), settings.check(), "seed {seed}: {text}"),
        }
    }
}

#[test]
fn any_text_is_settings_or_an_error() {
    let words =
        ["brr", "802.3ad", "n_to_one", ":", ":", ",", "=", "flush", "primary", "on", "9", "auto", " ", "é", "\0", "-"];
    for seed in 0..20_000 {
        let mut rng = Rng::new(seed);
        let pick = |_| words[rng.below(words.len() as u64) as usize];
        let text: String = vec![(); 9].into_iter().map(pick).collect();
        if let Ok(settings) = parse(&text) {
            assert_eq!(parse(&settings.to_string()), Ok(settings), "{text}");
        }
    }
}

#[test]
fn what_is_just_allowed_is_read() {
    for text in ["brr:flows=67108864", "brr:2s,expiry=2s", "brr:flows=16"] {
        assert!(parse(text).is_ok(), "{text}");
    }
    let mut settings = parse("brr").unwrap();
    settings.take(Value::Text("least_queue".into()));
    assert_eq!(settings.to_string(), "least_queue");
}
