//! The board and the alarms in `docs/grafana` ask for metrics that exist.

use super::page;
use crate::status::{
    BondStatus, Counters, GatewayStatus, QueueStatus, RingStatus, ShapeDirectionStatus, ShapeStatus, SharingStatus,
    State, Status, WaitStatus,
};
use std::collections::BTreeSet;

const BOARD: &str = include_str!("../../../../docs/grafana/fairspan.json");
pub(super) const ALARMS: &str = include_str!("../../../../docs/grafana/alarms.yml");

fn sharing() -> SharingStatus {
    let wait = WaitStatus { packets: 1, median_ms: Some(1.0), p99_ms: Some(1.0) };
    SharingStatus {
        delay: wait,
        sparse_delay: wait,
        active_flows: 1,
        jain: Some(1.0),
        backlogged_flows: 0,
        backlogged_jain: Some(1.0),
        flows: Vec::new(),
    }
}

/// A daemon that is everything at once, as none is.
fn everything() -> Status {
    let mut status = Status::new("fs0", 1.0, 1400);
    status.bond = Some(BondStatus {
        policy: "brr".into(),
        mac: String::new(),
        lacp: None,
        up: true,
        counters: Counters::new(),
        links: Vec::new(),
    });
    status.ring = Some(RingStatus {
        node: 1,
        nodes: 2,
        nominal_mbit: 1.0,
        algorithm: "dvsr".into(),
        interval_ms: 1.0,
        protection: "steer".into(),
        weight: 1.0,
        whole: true,
        counters: Counters::new(),
        links: Vec::new(),
        stations: Vec::new(),
        ringlets: Vec::new(),
    });
    let direction = ShapeDirectionStatus {
        name: "forward".into(),
        from: "a".into(),
        state: State::Up,
        to: "b".into(),
        rate_mbit: 1.0,
        discipline: "drr".into(),
        buffer: "codel".into(),
        waiting_packets: 0,
        waiting_bytes: 0,
        sharing: sharing(),
        counters: Counters::new(),
    };
    status.shape = Some(ShapeStatus { up: true, directions: vec![direction] });
    let text = r#"{"up":true,"long":"sat0","state":"up","open":0,"most_open":1,"opened":0,"refused":0,"bypassed":{},"half_open":0,"most_half_open":1,"memory_bytes":0,"most_memory_bytes":1,"rate_mbit":null,"counters":{},"connections":[]}"#;
    let mut gateway: GatewayStatus = serde_json::from_str(text).expect("a gateway");
    gateway.queue = Some(QueueStatus {
        discipline: "drr".into(),
        buffer: "codel".into(),
        waiting_packets: 0,
        waiting_bytes: 0,
        sharing: Some(sharing()),
    });
    status.gateway = Some(gateway);
    status
}

/// The metrics that there are, as one asks for them.
pub(super) fn metrics() -> BTreeSet<String> {
    let page = page(everything());
    let types = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| if kind == "counter" { format!("{name}_total") } else { name.to_owned() }).collect()
}

/// The metrics for which a text asks.
pub(super) fn asked(text: &str) -> BTreeSet<&str> {
    let part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = text.match_indices("fairspan_").map(|(at, _)| &text[at..]);
    begins.map(|rest| &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())]).collect()
}

#[test]
fn the_board_and_the_alarms_ask_for_metrics_that_exist() {
    let metrics = metrics();
    assert!(metrics.len() > 50, "{metrics:?}");
    for (name, text) in [("fairspan.json", BOARD), ("alarms.yml", ALARMS)] {
        let asked = asked(text);
        assert!(asked.len() > 5, "{asked:?}");
        let missing: Vec<_> = asked.iter().filter(|asked| !metrics.contains(**asked)).collect();
        assert!(missing.is_empty(), "docs/grafana/{name} asks for what no daemon tells: {missing:?}");
    }
}

#[test]
fn the_board_is_json_whose_panels_each_have_a_number_of_their_own_and_a_source() {
    let board: serde_json::Value = serde_json::from_str(BOARD).expect("JSON");
    let panels: Vec<_> =
        board["panels"].as_array().expect("panels").iter().filter(|panel| panel["type"] != "row").collect();
    assert!(panels.len() > 8);
    let numbers: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().expect("a number")).collect();
    assert_eq!(numbers.len(), panels.len());
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], "${source}", "{panel}");
        let targets = panel["targets"].as_array().expect("targets");
        assert!(targets.iter().all(|target| target["expr"].as_str().is_some_and(|expr| expr.contains("$interface"))));
    }
}
