//! What the system refuses of another configuration.

use crate::common::*;
use crate::reload::{reload, reload_with};
use serde_json::Value;

#[test]
fn what_the_system_refuses_of_a_reload_is_named_and_done_by_the_next_one_of_the_same_file() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let (site, hub) = pair.start();
    let route = |change: &str| lab.ip("site", &["route", change, "10.99.0.0/16", "dev", "eth0"]);
    let text = pair.site_config("", "");
    let text = text.replace("\"10.77.0.1/32\"", "\"10.77.0.1/32\", \"10.99.0.0/16\", \"10.98.0.0/16\"");
    // Somebody has routed it elsewhere.
    route("add");
    for _ in 0..2 {
        lab.config("site", &text);
        let output = reload_with(lab, "site", &site, &["--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!((output.status.code(), &answer["ok"]), (Some(1), &Value::Bool(false)), "{answer}");
        let failed = answer["failed"].as_array().expect("what was refused");
        assert!(failed.len() == 1 && failed[0].as_str().is_some_and(|text| text.contains("10.99.0.0/16")), "{answer}");
        let routes = lab.ip("site", &["route"]);
        assert!(routes.contains("10.98.0.0/16 dev fs0") && !routes.contains("10.99.0.0/16 dev fs0"), "{routes}");
    }
    route("del");
    assert_eq!(reload(lab, "site", &site, &text), ["interface: what the system had refused before"]);
    assert!(lab.ip("site", &["route"]).contains("10.99.0.0/16 dev fs0"));
    assert!(reload(lab, "site", &site, &text).is_empty());
    lab.transfer("site", "hub", "10.77.0.1:5001", 2);
    site.stop();
    hub.stop();
}
