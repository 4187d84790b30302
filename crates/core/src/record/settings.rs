//! The settings of a bond as a recording has them: what the first three versions knew by its place, what came later by its
//! name, and only where it is not the default.

use super::codec::{Reader, put, put_option};
use super::error::ReplayError;
use crate::bond::{CHANNEL_OPTIONS, ChannelConfig, Config, ConfigError, OPTIONS};
use crate::buffer::PolicyConfig;
use crate::options::{Dialect, Entry, Kind, Table, Value};
use crate::units::{Bytes, ChannelId, Rate, Span};
use alloc::string::String;
use alloc::vec::Vec;

/// What stands at a place of the settings.
enum Place {
    /// An option of the bond.
    Option(&'static str),
    /// How many channels there are, and each channel's options.
    Channels,
    /// CoDel's target and interval.
    Aqm,
}

/// The last version whose options have places.
const LAST_PLACED: u16 = 3;

/// The places, in their order. A recording of an older version ends where the next version's options begin. Never changed.
const PLACES: &[Place] = &[
    Place::Option("mode"),
    Place::Option("scheduler"),
    Place::Channels,
    Place::Option("buckets"),
    Place::Option("hold_bytes"),
    Place::Option("queue_bytes"),
    Place::Option("copies"),
    Place::Option("deadline"),
    Place::Option("equalize"),
    Place::Option("queue_time"),
    Place::Option("idle_marker"),
    Place::Option("active_for"),
    Place::Option("heartbeat"),
    Place::Option("heartbeat_idle"),
    Place::Option("dead_after"),
    Place::Option("dead_after_idle"),
    Place::Option("stall_after"),
    Place::Option("echo_interval"),
    Place::Aqm,
    Place::Option("probe_mtu"),
    Place::Option("clamp_mss"),
    Place::Option("copy_dscp"),
    Place::Option("icmp_source_v4"),
    Place::Option("icmp_source_v6"),
    Place::Option("icmp_rate"),
    Place::Option("marker_rounds"),
    Place::Option("marker_place"),
    Place::Option("credits"),
    Place::Option("stripe_buffer"),
    Place::Option("policy"),
];

/// The settings as bytes.
pub(super) fn encode(config: &Config) -> Vec<u8> {
    let mut out = Vec::new();
    for place in PLACES {
        match place {
            Place::Option(name) => {
                OPTIONS.find(name).into_iter().for_each(|entry| put_value(&mut out, &entry.get(config)))
            }
            Place::Channels => {
                put(&mut out, config.channels.len() as u64);
                config.channels.iter().for_each(|channel| put_channel(&mut out, channel));
            }
            Place::Aqm => {
                let (target, interval) = match config.buffer {
                    PolicyConfig::CoDel { target, interval } => (Some(target.as_nanos()), interval),
                    _ => (None, Span::ZERO),
                };
                put_option(&mut out, target);
                put(&mut out, interval.as_nanos());
            }
        }
    }
    // CoDel has its place.
    let mut rest = config.clone();
    if matches!(rest.buffer, PolicyConfig::CoDel { .. }) {
        rest.buffer = PolicyConfig::default();
    }
    put_named(&mut out, &OPTIONS, &rest, &Config::default());
    out
}

/// The settings that these bytes say.
pub(super) fn decode(r: &mut Reader<'_>) -> Result<Config, ReplayError> {
    let mut config = Config::default();
    let mut version = 1;
    for place in PLACES {
        match place {
            Place::Option(name) => {
                let Some(entry) = OPTIONS.find(name) else { continue };
                if entry.spec.since > version && r.at == r.bytes.len() {
                    // Recorded before there was more.
                    return Ok(config);
                }
                version = entry.spec.since;
                get_value(r, entry, &mut config)?;
            }
            Place::Channels => {
                let at = r.at;
                let channels = r.number()?;
                if channels > ChannelId::LIMIT as u64 {
                    return Err(ReplayError::Damaged { at });
                }
                for _ in 0..channels {
                    config.channels.push(get_channel(r)?);
                }
            }
            Place::Aqm => {
                let (target, interval) = (r.option()?, r.number()?);
                if let Some(target) = target {
                    let interval = Span::from_nanos(interval);
                    config.buffer = PolicyConfig::CoDel { target: Span::from_nanos(target), interval };
                }
            }
        }
    }
    get_named(r, &OPTIONS, &mut config)?;
    Ok(config)
}

/// A channel's options, in the order of their table.
pub(super) fn put_channel(out: &mut Vec<u8>, channel: &ChannelConfig) {
    for entry in CHANNEL_OPTIONS.iter() {
        put_value(out, &entry.get(channel));
    }
}

pub(super) fn get_channel(r: &mut Reader<'_>) -> Result<ChannelConfig, ReplayError> {
    let mut channel = ChannelConfig::default();
    for entry in CHANNEL_OPTIONS.iter() {
        get_value(r, entry, &mut channel)?;
    }
    Ok(channel)
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Choice(n) => out.push(*n as u8),
        Value::Flag(flag) => out.push(u8::from(*flag)),
        Value::Count(n) => put(out, n.unwrap_or(0)),
        Value::Span(span) => put(out, span.unwrap_or(Span::ZERO).as_nanos()),
        Value::Bytes(bytes) => put_option(out, bytes.map(Bytes::as_u64)),
        Value::Rate(rate) => put_option(out, rate.map(Rate::as_bits_per_sec)),
        Value::Text(text) => put_text(out, text),
        Value::Ipv4(address) => {
            out.push(u8::from(address.is_some()));
            out.extend_from_slice(&address.unwrap_or_default());
        }
        Value::Ipv6(address) => {
            out.push(u8::from(address.is_some()));
            out.extend_from_slice(&address.unwrap_or_default());
        }
        // No option that has a place is one of these.
        Value::Share(_) | Value::Link(_) | Value::Mac(_) => {}
    }
}

/// Reads what [`put_value`] wrote for this option.
fn get_value<C>(r: &mut Reader<'_>, entry: &Entry<C>, config: &mut C) -> Result<(), ReplayError> {
    let at = r.at;
    let value = match entry.get(config) {
        Value::Choice(_) => Value::Choice(r.byte()?.into()),
        Value::Flag(_) => Value::Flag(r.byte()? != 0),
        Value::Count(_) => Value::Count(Some(r.number()?)),
        Value::Span(_) => {
            let span = Some(Span::from_nanos(r.number()?));
            // Zero stands for the word.
            let has_word = matches!(entry.spec.kind, Kind::Span(.., Some(_)));
            Value::Span(span.filter(|span| !has_word || *span > Span::ZERO))
        }
        Value::Bytes(_) => Value::Bytes(r.option()?.map(Bytes::new)),
        Value::Rate(_) => Value::Rate(r.option()?.map(Rate::from_bits_per_sec)),
        Value::Text(_) => Value::Text(get_text(r)?),
        Value::Ipv4(_) => {
            let (some, address) = (r.byte()?, r.array()?);
            Value::Ipv4((some != 0).then_some(address))
        }
        Value::Ipv6(_) => {
            let (some, address) = (r.byte()?, r.array()?);
            Value::Ipv6((some != 0).then_some(address))
        }
        Value::Share(_) | Value::Link(_) | Value::Mac(_) => return Ok(()),
    };
    match (entry.spec.kind, &value) {
        (Kind::Choice(words), Value::Choice(n)) if *n >= words.len() => return Err(ReplayError::Damaged { at }),
        (Kind::Text(check), Value::Text(text)) => {
            check(text).map_err(|error| ReplayError::Config(ConfigError::Policy(error)))?;
        }
        _ => {}
    }
    entry.set(config, value);
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn get_text(r: &mut Reader<'_>) -> Result<String, ReplayError> {
    let at = r.at;
    let length = r.number()? as usize;
    let text = core::str::from_utf8(r.take(length)?).map_err(|_| ReplayError::Damaged { at })?;
    Ok(text.into())
}

/// Name and value of each option that has no place and is not the default.
fn put_named<C>(out: &mut Vec<u8>, table: &Table<C>, config: &C, default: &C) {
    for entry in table.iter().filter(|entry| entry.spec.since > LAST_PLACED) {
        let value = entry.get(config);
        if value != entry.get(default) {
            put_text(out, entry.spec.name);
            put_text(out, &entry.spec.show(&value));
        }
    }
}

fn get_named<C>(r: &mut Reader<'_>, table: &Table<C>, config: &mut C) -> Result<(), ReplayError> {
    while r.at < r.bytes.len() {
        let name = get_text(r)?;
        let Some(entry) = table.find(&name).filter(|entry| entry.spec.since > LAST_PLACED) else {
            return Err(ReplayError::Unknown { name });
        };
        let value = entry.spec.parse(&get_text(r)?, Dialect::Plain).map_err(ReplayError::Option)?;
        entry.set(config, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bond::{MarkerPlace, Mode, Scheduler};
    use crate::options::option;
    use alloc::string::ToString;
    use alloc::vec;

    #[test]
    fn every_setting_survives_the_recording() {
        let channel = |n: u64| ChannelConfig {
            name: String::from("dsl"),
            rate: Some(Rate::from_mbit(7 + n)),
            weight: 2,
            priority: 3,
            mtu: 1400,
            overhead: 60,
            framing: 18,
            burst: Some(Bytes::new(9000)),
            raw: true,
        };
        let channels = (0..3).map(channel).collect();
        let mut c = Config { mode: Mode::Backup, scheduler: Scheduler::Grr, channels, ..Config::default() };
        (c.buckets, c.hold_bytes, c.queue_bytes, c.copies) = (7, 1 << 20, 1 << 21, 2);
        for (n, entry) in OPTIONS.iter().enumerate() {
            if let Value::Span(_) = entry.get(&c) {
                entry.set(&mut c, Value::Span(Some(Span::from_millis(100 + n as u64))));
            }
        }
        c.buffer = PolicyConfig::CoDel { target: Span::from_millis(4), interval: Span::from_millis(90) };
        (c.probe_mtu, c.clamp_mss, c.copy_dscp, c.icmp_rate) = (false, false, false, 3);
        (c.icmp_source_v4, c.icmp_source_v6) = (Some([1, 2, 3, 4]), Some([5; 16]));
        (c.marker_rounds, c.marker_place, c.credits) = (3, MarkerPlace::Middle, true);
        c.stripe_buffer = Some(Bytes::new(20_000));
        c.classes = "name=calls\tport=5060-5080,443\tchannels=dsl\nname=rest\tmode=backup".parse().unwrap();
        c.policy = "balance-xor:layer3+4,updelay=2s,flush=on,flush_wait=7ms".parse().unwrap();
        let bytes = encode(&c);
        assert_eq!(decode(&mut Reader { bytes: &bytes, at: 0 }), Ok(c));
    }

    #[test]
    fn settings_recorded_before_the_newest_existed_are_read_with_their_defaults() {
        let bytes = encode(&Config::default());
        // The policy and its length; before them one byte each of rounds, place, credits and buffer.
        let policy = 1 + Config::default().policy.to_string().len();
        for newer in [policy, policy + 4] {
            let before = &bytes[..bytes.len() - newer];
            assert_eq!(decode(&mut Reader { bytes: before, at: 0 }), Ok(Config::default()));
        }
    }

    #[test]
    fn every_option_has_a_place_or_came_later() {
        let placed: Vec<&str> = PLACES
            .iter()
            .filter_map(|place| if let Place::Option(name) = place { Some(*name) } else { None })
            .collect();
        for entry in OPTIONS.iter() {
            assert_eq!(placed.contains(&entry.spec.name), entry.spec.since <= LAST_PLACED, "{entry:?}");
        }
        assert!(placed.iter().all(|name| OPTIONS.find(name).is_some()));
        // A channel's recording has no names: an option more needs another entry for channels that join.
        let channel: Vec<&str> = CHANNEL_OPTIONS.iter().map(|entry| entry.spec.name).collect();
        assert_eq!(channel, ["name", "rate", "weight", "priority", "mtu", "overhead", "framing", "burst", "raw"]);
    }

    #[derive(Debug, Default, PartialEq)]
    struct Later {
        old: bool,
        span: Span,
        rate: Option<Rate>,
    }

    const LATER: Table<Later> = Table(&[
        option!(old: Kind::Flag, "has a place"),
        option!(span: Kind::Span(Span::ZERO, Span::from_secs(9), None), "came later", since 4),
        option!(rate: Kind::Rate(Rate::from_mbit(1), Rate::from_mbit(9), Some("auto")), "came later yet", since 5),
    ]);

    #[test]
    fn what_came_later_is_recorded_by_its_name_and_only_if_it_is_not_the_default() {
        let mut out = vec![];
        put_named(&mut out, &LATER, &Later { old: true, ..Later::default() }, &Later::default());
        assert_eq!(out, b"");
        let later = Later { old: false, span: Span::from_millis(25), rate: Some(Rate::from_mbit(2)) };
        put_named(&mut out, &LATER, &later, &Later::default());
        assert_eq!(out, b"\x04span\x0425ms\x04rate\x052Mbit");
        let read = |bytes: &[u8]| {
            let mut read = Later::default();
            get_named(&mut Reader { bytes, at: 0 }, &LATER, &mut read).map(|()| read)
        };
        assert_eq!(read(&out), Ok(later));
        assert_eq!(read(b"\x03new\x01x"), Err(ReplayError::Unknown { name: "new".into() }));
        assert_eq!(read(b"\x03old\x02on"), Err(ReplayError::Unknown { name: "old".into() }));
        assert!(matches!(read(b"\x04span\x0399s"), Err(ReplayError::Option(_))));
        assert!(matches!(read(&out[..7]), Err(ReplayError::Truncated { .. })));
    }
}
