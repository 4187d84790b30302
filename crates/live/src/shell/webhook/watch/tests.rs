use super::*;
use serde_json::{Value, json};

/// A channel of `mbit`, which has used so many percents of its quota.
fn channel(name: &str, up: bool, mbit: f64, percent: u64) -> Value {
    json!({ "number": 0, "name": name, "kind": "udp", "state": if up { "up" } else { "down" }, "reason": "no answer", "remote": null,
        "rate_mbit": mbit, "rtt_ms": null, "queued_packets": null, "queued_bytes": null, "counters": {},
        "quota": { "quota_bytes": 1000, "used_bytes": 10 * percent, "since": "2026-11-01" } })
}

fn status(channels: &[Value]) -> Status {
    let up = channels.iter().any(|channel| channel["state"] == "up");
    let peer = json!({ "name": "hub", "mode": "reliable", "policy": null, "scheduler": "srr", "peer_mode": null, "peer_scheduler": null,
        "up": up, "mtu": 1400, "counters": {}, "channels": channels });
    Status { peers: vec![serde_json::from_value(peer).expect("a peer")], ..Status::new("fs0", 1.0, 1400) }
}

/// Two links of 60 and 40 Mbit/s.
fn two(dsl: bool, lte: bool) -> Status {
    status(&[channel("dsl", dsl, 60.0, 0), channel("lte", lte, 40.0, 0)])
}

fn events(alarms: &[Alarm]) -> Vec<(&str, &str)> {
    alarms.iter().map(|alarm| (alarm.event, alarm.link.as_deref().unwrap_or(""))).collect()
}

#[test]
fn links_are_told_of_when_they_change_and_all_together_when_the_last_one_goes_and_the_first_comes_back() {
    let mut watch = Watch::default();
    assert_eq!(watch.look(0.0, &two(false, false)), [], "all begins so");
    assert_eq!(watch.look(1.0, &two(true, true)), [], "and that is how it should be");
    let alarms = watch.look(2.0, &two(true, false));
    assert_eq!(events(&alarms), [("link_down", "lte")]);
    assert_eq!(alarms[0].text, "fs0: link lte of hub is down: no answer");
    assert_eq!(watch.look(3.0, &two(true, false)), [], "once");
    let alarms = watch.look(4.0, &two(false, false));
    assert_eq!(events(&alarms), [("link_down", "dsl"), ("all_links_down", "")]);
    assert_eq!(alarms[1].of.as_deref(), Some("hub"));
    assert_eq!(events(&watch.look(5.0, &two(false, true))), [("link_up", "lte"), ("links_back", "")]);
    assert_eq!(events(&watch.look(6.0, &two(true, true))), [("link_up", "dsl")]);
}

#[test]
fn what_never_came_up_is_told_of_after_a_while_and_what_was_taken_out_or_is_gone_is_not() {
    let mut watch = Watch::default();
    let told = |watch: &mut Watch, now| watch.look(now, &two(true, false));
    assert_eq!(told(&mut watch, 100.0), []);
    assert_eq!(told(&mut watch, 100.0 + GRACE - 1.0), []);
    assert_eq!(events(&told(&mut watch, 100.0 + GRACE)), [("link_down", "lte")]);
    assert_eq!(told(&mut watch, 200.0), []);
    assert_eq!(events(&watch.look(201.0, &two(true, true))), [("link_up", "lte")]);
    let mut out = channel("lte", false, 40.0, 0);
    out["taken_out"] = true.into();
    assert_eq!(watch.look(202.0, &status(&[channel("dsl", true, 60.0, 0), out])), []);
    // Of another configuration.
    assert_eq!(watch.look(203.0, &status(&[channel("dsl", true, 60.0, 0)])), []);
    assert_eq!((watch.links.len(), watch.quotas.len()), (1, 1), "nothing is kept of it");
}

#[test]
fn a_peer_whose_channels_come_and_go_is_told_of_by_whether_its_bond_works() {
    let mut watch = Watch::default();
    assert_eq!(watch.look(0.0, &two(true, true)), []);
    assert_eq!(events(&watch.look(1.0, &status(&[]))), [("all_links_down", "")]);
    assert_eq!(events(&watch.look(2.0, &two(true, true))), [("links_back", "")]);
}

#[test]
fn a_bond_that_carries_less_than_half_for_a_while_is_told_of_and_so_is_its_end() {
    let at = |mbit| status(&[channel("dsl", true, mbit, 0)]);
    let mut watch = Watch::default();
    assert_eq!(watch.look(0.0, &at(100.0)), []);
    // For a moment, and then by less than half.
    assert_eq!(watch.look(1.0, &at(10.0)), []);
    assert_eq!(watch.look(2.0, &at(100.0)), []);
    for now in 3..60 {
        assert_eq!(watch.look(f64::from(now), &at(51.0)), []);
    }
    assert_eq!(watch.look(60.0, &at(49.0)), []);
    assert_eq!(watch.look(60.0 + LASTS - 1.0, &at(49.0)), []);
    let alarms = watch.look(60.0 + LASTS, &at(49.0));
    assert_eq!(events(&alarms), [("bond_slower", "")]);
    assert!(alarms[0].text.contains("49.0 Mbit/s, usually 9"), "{}", alarms[0].text);
    // For a day: what it was used to is not forgotten meanwhile.
    for now in (100..86_400).step_by(100) {
        assert_eq!(watch.look(f64::from(now), &at(60.0)), []);
    }
    assert_eq!(watch.look(90_000.0, &at(80.0)), []);
    assert_eq!(events(&watch.look(90_000.0 + LASTS, &at(80.0))), [("bond_recovered", "")]);
    // Little by little it gets used to less.
    let mut watch = Watch::default();
    for hour in 0..48 {
        let mbit = 100.0 * 0.9_f64.powi(hour);
        assert_eq!(watch.look(3600.0 * f64::from(hour), &at(mbit)), [], "hour {hour}");
    }
}

#[test]
fn a_quota_is_told_of_at_eighty_and_a_hundred_percent_once_and_anew_in_another_month() {
    let at = |percent| status(&[channel("lte", true, 40.0, percent)]);
    let mut watch = Watch::default();
    assert_eq!(watch.look(0.0, &at(85)), [], "it was told before this daemon began");
    assert_eq!(watch.look(1.0, &at(99)), []);
    let alarms = watch.look(2.0, &at(100));
    assert_eq!((events(&alarms), watch.look(3.0, &at(120))), (vec![("quota", "lte")], vec![]));
    assert!(alarms[0].text.contains("100 % of its quota"), "{}", alarms[0].text);
    assert_eq!(watch.look(4.0, &at(0)), []);
    assert_eq!(events(&watch.look(5.0, &at(80))), [("quota", "lte")]);
}
