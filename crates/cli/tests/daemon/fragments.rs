//! Mode `stripe` with `fragment_delay`, by daemons.

use crate::common::*;
use fairspan_live::channel::ethernet::{EthernetConfig, EthernetSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// DSCP EF.
const EF: u32 = 46 << 2;

fn config(address: &str, far: &str, keys: [&str; 2], mode: &str, more: &str) -> String {
    interface("fs0", &format!("[\"{address}/24\"]"), keys[0], "")
        + &peer("peer", keys[1], &format!("[\"{far}/32\"]"), mode)
        + &ethernet("one", "eth0", &format!("rate = \"400kbit\"\n{more}"))
        + &ethernet("two", "eth1", &format!("rate = \"200kbit\"\n{more}"))
}

fn lan() -> Option<Lab> {
    let lab = Lab::new(&["left", "right"])?;
    lab.cable(("left", "eth0", ""), ("right", "eth0", ""));
    lab.cable(("left", "eth1", ""), ("right", "eth1", ""));
    Some(lab)
}

const MODE: &str = "mode = \"stripe\"\nfragment_delay = \"10ms\"\nqueue_limit = \"10s\"";

/// What a frame in the clear is, by the bytes of its envelope: `(`, `-` and `)` are the fragments of a packet, `!` is a packet that goes whole.
fn sign(envelope: &[u8]) -> Option<char> {
    match (envelope.first()? & 15, envelope.get(2)?) {
        (15, 0x83) => Some('('),
        (15, 0x03) => Some('-'),
        (15, 0x43) => Some(')'),
        (3, _) => Some('!'),
        _ => None,
    }
}

/// Whether an urgent packet stands between the first and the last fragment of a long one.
fn overtook(signs: &str) -> bool {
    signs.split(')').any(|before| before.rsplit_once('(').is_some_and(|(_, since)| since.contains('!')))
}

/// Counted on the wire: the frames of one channel, in the order in which they left.
#[test]
fn an_urgent_packet_goes_between_the_fragments_of_a_long_one() {
    let Some(lab) = lan() else { return };
    let a = lab.daemon("left", "left", &config("10.77.0.1", "10.77.0.2", ["", ""], MODE, ""));
    let b = lab.daemon("right", "right", &config("10.77.0.2", "10.77.0.1", ["", ""], MODE, ""));
    a.wait_up(2);
    b.wait_up(2);
    let over = Arc::new(AtomicBool::new(false));
    let mut watcher = lab.run("right", || EthernetSocket::open(EthernetConfig::new("eth0")).expect("opened"));
    let ended = Arc::clone(&over);
    let watching = std::thread::spawn(move || {
        let mut signs = String::new();
        while !ended.load(Ordering::Relaxed) {
            watcher.receive(64, |frame| signs.extend(sign(frame.bytes)));
            std::thread::sleep(Duration::from_millis(1));
        }
        signs
    });
    let receiver = lab.udp("right", "10.77.0.2:7000");
    let sender = lab.udp("left", "10.77.0.1:7000");
    let caller = lab.udp("left", "10.77.0.1:7001");
    rustix::net::sockopt::set_ip_tos(&caller, EF as u8).expect("set");
    let mut buffer = [0; 2000];
    // The first ones go whole, until this end knows that the other one puts fragments together.
    b.wait("a packet comes in fragments", |b| {
        sender.send_to(&[7; 10], "10.77.0.2:7000").expect("sent");
        b.peer_counter("fragments_joined") > 0
    });
    while receiver.recv_from(&mut buffer).is_ok() {}
    let before = b.peer_counter("fragments_joined");
    let (mut bulk, mut calls) = (0u32, 0u32);
    let (mut came, mut called) = (vec![], 0u32);
    let began = Instant::now();
    // Enough for each call to find some long packet that has begun, however the processes are scheduled, and all of it comes.
    while came.len() < 90 || called < 30 {
        assert!(began.elapsed() < PATIENCE, "{} and {called} came: {}", came.len(), a.log());
        while bulk < 90 && bulk < came.len() as u32 + 6 {
            let mut packet = vec![bulk as u8; 1300];
            packet[..4].copy_from_slice(&bulk.to_be_bytes());
            sender.send_to(&packet, "10.77.0.2:7000").expect("sent");
            bulk += 1;
        }
        if calls < 30 && calls * 3 <= came.len() as u32 {
            caller.send_to(&[0xca; 100], "10.77.0.2:7000").expect("sent");
            calls += 1;
        }
        if let Ok((len, from)) = receiver.recv_from(&mut buffer) {
            if from.port() == 7001 {
                assert_eq!(&buffer[..len], [0xca; 100]);
                called += 1;
            } else {
                let number = u32::from_be_bytes(*buffer.first_chunk().expect("four bytes"));
                assert!(len == 1300 && buffer[4..len].iter().all(|byte| *byte == number as u8), "whole");
                came.push(number);
            }
        }
    }
    over.store(true, Ordering::Relaxed);
    let signs = watching.join().expect("it ended");
    assert_eq!(came, (0..90).collect::<Vec<u32>>(), "in order, and each once");
    assert!(overtook(&signs), "{signs}");
    assert!(a.peer_counter("fragments_sent") >= 4 * 90, "{}", a.status());
    assert_eq!((b.peer_counter("fragments_joined") - before, b.peer_counter("fragments_lost")), (90, 0));
    a.stop();
    b.stop();
}

#[test]
fn tcp_passes_sealed_channels_in_fragments_and_a_peer_without_the_setting_is_named_in_the_log() {
    let Some(lab) = lan() else { return };
    let (left, right) = (keys(), keys());
    let text = |mode: &str| {
        let fast = |text: String| text.replace("00kbit", "0Mbit");
        let sealed = "secure = true";
        [
            fast(config("10.77.0.1", "10.77.0.2", [&left.0, &right.1], mode, sealed)),
            fast(config("10.77.0.2", "10.77.0.1", [&right.0, &left.1], mode, sealed)),
        ]
    };
    let mode = MODE.replace("10ms", "1ms");
    let [here, there] = text(&mode);
    let a = lab.daemon("left", "left", &here);
    let b = lab.daemon("right", "right", &there);
    a.wait_up(2);
    b.wait_up(2);
    lab.transfer("left", "right", "10.77.0.2:5001", 3);
    lab.transfer("right", "left", "10.77.0.1:5002", 3);
    // Quanta of 2.5 kB hold a packet, so a part of them only is cut; all are numbered.
    assert!(a.peer_counter("fragments_sent") > 2000, "{}", a.status());
    assert!(b.peer_counter("fragments_joined") > 2000, "{}", b.status());
    b.stop();
    let [_, other] = text("mode = \"stripe\"");
    let b = lab.daemon("right", "right", &other);
    a.wait_log("fragment_delay");
    b.wait_log("fragment_delay");
    a.stop();
    b.stop();
}

/// There is no hello on them: heartbeats tell.
#[test]
fn a_peer_without_the_setting_is_named_in_the_log_where_channels_are_in_the_clear_too() {
    let Some(lab) = lan() else { return };
    let left = config("10.77.0.1", "10.77.0.2", ["", ""], MODE, "");
    let right = |mode| config("10.77.0.2", "10.77.0.1", ["", ""], mode, "");
    // Both lines are ten seconds apart.
    let told = "only where both ends set `fragment_delay`";
    let a = lab.daemon("left", "left", &left);
    let b = lab.daemon("right", "right", &right("mode = \"stripe\""));
    a.wait_up(2);
    b.wait_up(2);
    a.wait_log(told);
    b.wait_log(told);
    b.stop();
    let b = lab.daemon("right", "right", &right(MODE));
    b.wait_up(2);
    a.wait_log("`fragment_delay` is the same on both ends again");
    assert_eq!(a.log().matches(told).count(), 1, "{}", a.log());
    // Of the process before.
    assert_eq!(b.log().matches("fragment_delay").count(), 1, "{}", b.log());
    a.stop();
    b.stop();
}

#[test]
fn a_long_packet_that_was_overtaken_is_told_from_one_that_was_not() {
    assert!(overtook("(--!-)") && overtook("()(!)") && overtook("(-)!(-!-)") && overtook("(-!"));
    assert!(!overtook("(--)!(--)") && !overtook("!()") && !overtook("(--"));
}
