//! Alarms of a daemon to a webhook: who is gone gets them later, and traffic does not notice.

use crate::common::*;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::sync::mpsc::{Receiver, channel};

const RECEIVER: &str = "127.0.0.1:9999";

/// Takes alarms at the site from now on, with their requests.
fn receiver(lab: &Lab) -> Receiver<(String, Value)> {
    let listener = lab.listen("site", RECEIVER);
    let (taken, alarms) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = Vec::new();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() {
                request.push(byte[0]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let Ok(alarm) = serde_json::from_str(body) else { continue };
                let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n");
                if taken.send((head.to_owned(), alarm)).is_err() {
                    return;
                }
                break;
            }
        }
    });
    alarms
}

/// The next alarm: what happened to which link.
fn next(alarms: &Receiver<(String, Value)>) -> (String, String) {
    let (_, alarm) = alarms.recv_timeout(PATIENCE).expect("an alarm");
    let of = |key: &str| alarm[key].as_str().unwrap_or_default().to_owned();
    assert_eq!(of("interface"), "fs0", "{alarm}");
    (of("event"), of("link"))
}

fn is(event: &str, link: &str) -> (String, String) {
    (event.to_owned(), link.to_owned())
}

#[test]
fn alarms_wait_for_a_receiver_that_is_gone_come_in_order_and_tell_of_each_link_and_of_all() {
    let Some(pair) = Pair::new() else { return };
    let lab = &pair.lab;
    let hub = lab.daemon("hub", "hub", &pair.hub_config("", EQUAL_SHARES));
    std::fs::write(lab.path("hook"), "correct-horse\n").expect("written");
    let settings = format!("webhook = \"http://{RECEIVER}/secret-path\"\nwebhook_password_file = \"hook\"\n");
    let site = lab.daemon("site", "site", &pair.site_config(&settings, EQUAL_SHARES));
    site.wait_up(2);
    let hook = |site: &Daemon| site.status()["webhook"].clone();
    site.wait("nobody is there", |site| hook(site)["problem"].as_str().is_some_and(|why| why.contains("refused")));
    lab.transfer("site", "hub", "10.77.0.1:5000", 1);
    lab.ip("site", &["link", "set", "eth1", "down"]);
    site.wait("the alarm waits", |site| hook(site)["waiting"] == 2);
    let findings = |lab: &Lab| {
        let output = lab.fairspan("site", &["doctor", &lab.path("site.toml").display().to_string(), "--json"]);
        let all: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        all.into_iter().find(|finding| finding["subject"] == "webhook").expect("a finding")
    };
    assert_eq!(findings(lab)["verdict"], "wrong");
    let shown = || {
        let output = lab.fairspan("site", &["status", "--socket", &site.socket.display().to_string()]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(shown().contains(&format!("ALARMS DO NOT REACH http://{RECEIVER}")), "{}", shown());
    let alarms = receiver(lab);
    let (head, alarm) = alarms.recv_timeout(PATIENCE).expect("an alarm");
    assert!(head.starts_with("POST /secret-path HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\nAuthorization: Bearer correct-horse"), "{head}");
    assert_eq!((&alarm["event"], &alarm["number"]), (&"started".into(), &1.into()), "{alarm}");
    assert_eq!(next(&alarms), is("link_down", "two"));
    lab.ip("site", &["link", "set", "eth0", "down"]);
    assert_eq!(next(&alarms), is("link_down", "one"));
    assert_eq!(next(&alarms), is("all_links_down", ""));
    lab.ip("site", &["link", "set", "eth0", "up"]);
    assert_eq!(next(&alarms), is("link_up", "one"));
    assert_eq!(next(&alarms), is("links_back", ""));
    site.wait("all is delivered", |site| hook(site)["delivered"] == 6 && hook(site)["problem"].is_null());
    assert_eq!(findings(lab)["verdict"], "good");
    site.wait_log("the webhook takes alarms again");
    assert_eq!(site.log().matches("does not reach the webhook").count(), 1, "told of once: {}", site.log());
    // What may be a secret is shown nowhere, and nothing was refused to a daemon that gave up its rights.
    let all = format!("{}{}{}", site.status(), shown(), site.log());
    assert!(!all.contains("secret-path") && !all.contains("horse"), "{all}");
    assert!(!site.status()["confinement"].to_string().contains("refused"), "{}", site.status()["confinement"]);
    lab.transfer("site", "hub", "10.77.0.1:5001", 1);
    site.stop();
    hub.stop();
}
