//! The page and the metrics of a daemon whose host does not give it what it needs: traffic goes on.

use crate::common::*;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

const PAGE: &str = "127.0.0.1:9320";

/// What the page answers at the site.
fn get(lab: &Lab, address: &'static str, path: &str) -> String {
    let path = path.to_owned();
    lab.run("site", move || {
        let address: SocketAddr = address.parse().expect("an address");
        let Ok(mut stream) = TcpStream::connect(address) else { return String::new() };
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes()).expect("asked");
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    })
}

fn view(lab: &Lab) -> Value {
    let answer = get(lab, PAGE, "/view.json");
    serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default()
}

fn doctor(lab: &Lab) -> Vec<Value> {
    let output = lab.fairspan("site", &["doctor", &lab.path("site.toml").display().to_string(), "--json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn of_the_page(findings: &[Value]) -> Option<(&str, &str)> {
    finding_of("page", findings)
}

fn finding_of<'a>(subject: &str, findings: &'a [Value]) -> Option<(&'a str, &'a str)> {
    let finding = findings.iter().find(|finding| finding["subject"] == subject)?;
    Some((finding["verdict"].as_str()?, finding["found"].as_str()?))
}

#[test]
fn a_port_that_another_program_has_costs_the_page_alone_and_is_taken_once_it_is_free() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let other = lab.listen("site", PAGE);
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", EQUAL_SHARES));
    let site = lab.daemon("site", "site", &pair.site_config(&format!("web = \"{PAGE}\""), EQUAL_SHARES));
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5000", 1);
    let page = site.status()["web"].clone();
    assert_eq!((&page["address"], &page["served"]), (&Value::from(PAGE), &Value::from(false)), "{page}");
    assert!(page["problem"].as_str().is_some_and(|problem| problem.contains("in use")), "{page}");
    site.wait_log("the page is not served");
    let found = doctor(lab);
    assert!(
        of_the_page(&found).is_some_and(|(verdict, found)| verdict == "wrong" && found.contains("in use")),
        "{found:?}"
    );
    let shown = lab.fairspan("site", &["status", "--socket", &site.socket.display().to_string()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("NO PAGE at 127.0.0.1:9320"), "{shown:?}");
    drop(other);
    site.wait("the page", |site| site.status()["web"]["served"] == true);
    site.wait("its links", |_| view(lab)["links"].as_array().is_some_and(|links| links.len() == 2));
    let found = doctor(lab);
    assert!(of_the_page(&found).is_some_and(|(verdict, _)| verdict == "good"), "{found:?}");
    assert_eq!(site.log().matches("the page is not served").count(), 1, "told of once: {}", site.log());
    site.stop();
    hub.stop();
}

#[test]
fn an_address_that_no_interface_has_yet_is_served_once_one_has() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let settings = "web = \"192.168.7.7:9320\"\nweb_password = \"correct horse\"\n";
    let site = lab.daemon("site", "site", &pair.site_config(settings, ""));
    site.wait("why there is none", |site| site.status()["web"]["problem"].is_string());
    lab.ip("site", &["address", "add", "192.168.7.7/32", "dev", "lo"]);
    site.wait("the page", |site| site.status()["web"]["served"] == true);
    assert!(get(lab, "192.168.7.7:9320", "/").contains("type=\"password\""));
    site.stop();
}

#[test]
fn a_port_that_another_program_has_costs_the_metrics_alone_and_is_taken_by_a_confined_daemon_once_it_is_free() {
    const METRICS: &str = "127.0.0.1:931";
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let other = lab.listen("site", METRICS);
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", EQUAL_SHARES));
    let site = lab.daemon("site", "site", &pair.site_config(&format!("metrics = \"{METRICS}\""), EQUAL_SHARES));
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5000", 1);
    let metrics = site.status()["metrics"].clone();
    assert_eq!((&metrics["address"], &metrics["served"]), (&Value::from(METRICS), &Value::from(false)), "{metrics}");
    site.wait_log("the metrics are not served");
    let found = doctor(lab);
    let of_metrics = |found: &[Value], verdict: &str, words: &str| {
        finding_of("metrics", found).is_some_and(|(is, text)| is == verdict && text.contains(words))
    };
    assert!(of_metrics(&found, "wrong", "in use"), "{found:?}");
    let shown = lab.fairspan("site", &["status", "--socket", &site.socket.display().to_string()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("NO METRICS at 127.0.0.1:931"), "{shown:?}");
    drop(other);
    site.wait("the metrics", |site| site.status()["metrics"]["served"] == true);
    assert!(get(lab, METRICS, "/metrics").ends_with("# EOF\n"));
    assert!(of_metrics(&doctor(lab), "good", "/metrics"));
    assert_eq!(site.log().matches("the metrics are not served").count(), 1, "told of once: {}", site.log());
    site.stop();
    hub.stop();
}

/// A site whose disk is as `mount` says, and what its page tells of the history.
fn with_disk(mount: &str) -> Option<Value> {
    let pair = Pair::new()?;
    let lab = &pair.lab;
    let state = lab.path("site.sock.state");
    std::fs::create_dir(&state).expect("a folder");
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", EQUAL_SHARES));
    let config = pair.site_config(&format!("web = \"{PAGE}\""), EQUAL_SHARES);
    let mut site =
        lab.start_after(&format!("mount -t tmpfs {mount} none '{}'", state.display()), "site", "site", &config);
    site.wait_answer();
    site.wait_up(2);
    lab.transfer("site", "hub", "10.77.0.1:5000", 2);
    lab.transfer("hub", "site", "10.77.0.2:5000", 2);
    let known = |column: &Value| {
        column.as_array().is_some_and(|seconds| seconds.iter().filter(|at| !at.is_null()).count() >= 2)
    };
    site.wait("two seconds of history in memory", |_| {
        let answer = get(lab, PAGE, "/history.json?link=0&span=hour&points=2000");
        let document: Value =
            serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap_or_default()).unwrap_or_default();
        known(&document["sent"])
    });
    let history = view(lab)["history"].clone();
    site.wait_log("the history of links is not kept on the disk");
    site.stop();
    hub.stop();
    Some(history)
}

#[test]
fn on_a_disk_that_is_read_only_traffic_goes_on_and_the_page_says_that_the_history_is_not_kept() {
    let Some(history) = with_disk("-o ro") else { return };
    assert!(history["problem"].as_str().is_some_and(|problem| problem.contains("Read-only")), "{history}");
    assert!(history["since"].is_u64(), "{history}");
}

#[test]
fn on_a_disk_that_is_full_traffic_goes_on_and_the_page_says_that_the_history_is_not_kept() {
    let Some(history) = with_disk("-o size=64k") else { return };
    assert!(history["problem"].as_str().is_some_and(|problem| problem.contains("No space")), "{history}");
}
