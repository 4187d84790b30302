//! Recovery paced by deliveries: RFC 6937; what was for nothing: RFC 5682 (F-RTO), RFC 3708 (DSACK).

use super::script::*;
use fairspan_sim::tcp::Config;

fn reports(s: &mut Script, upto: u64) {
    s.peer(&format!(". 1 ack 1 sack 1001:{}", upto * 1000 + 1));
}

// RFC 6937, 3: half of what is delivered while more than the threshold is under way; then as much as is delivered.
#[test]
fn rate_reduction_sends_half_of_what_is_delivered_and_then_all_of_it() {
    let mut s = Script::sending(&config("rfc", &[("rate_reduction", "true"), ("limited_transmit", "false")]), 10);
    s.write(10_000);
    s.at(200);
    // Delivered 3 of RecoverFS 10, threshold 5: ceil(3 * 5 / 10) = 1.5 segments: the lost one.
    reports(&mut s, 4);
    s.expect_data(0, 1);
    // 4 * 5 / 10 = 2, one is sent.
    reports(&mut s, 5);
    s.expect_data(10, 1);
    // 2.5, two are sent.
    reports(&mut s, 6);
    s.expect_nothing();
    // Under way: 0 again, 7, 8, 9, 10: the threshold.
    reports(&mut s, 7);
    s.expect_nothing();
    for (upto, new) in [(8, 11), (9, 12), (10, 13)] {
        reports(&mut s, upto);
        s.expect_data(new, 1);
    }
    // Out of recovery, the window is the threshold.
    s.at(300);
    s.peer(". 1 ack 10001");
    assert_eq!((s.connection.window(), s.connection.threshold()), (5000, 5000));
    s.end();
}

fn frto(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("frto", "true"), ("sack", "false"), ("loss", "newreno"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

// RFC 5682, 2.1, steps 1, 2b and 3b: two ACKs that advance after the timeout: the originals were only late.
#[test]
fn a_timeout_followed_by_two_acks_that_advance_was_for_nothing() {
    let mut s = Script::sending(&frto(&[]), 10);
    s.write(20_000);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(2000);
    s.expect_data(10, 1);
    s.expect_data(11, 1);
    s.at(1210);
    s.ack(3000);
    s.skip();
    assert_eq!((s.connection.stats().spurious, s.connection.stats().retransmitted), (1, 1));
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

// Step 3a: the second ACK is a duplicate: the timeout was right, and what was under way goes again.
#[test]
fn a_timeout_followed_by_a_duplicate_was_right() {
    let mut s = Script::sending(&frto(&[]), 10);
    s.write(20_000);
    s.at(1100);
    s.expect_data(0, 1);
    s.at(1200);
    s.ack(1000);
    s.expect_data(10, 1);
    s.expect_data(11, 1);
    s.at(1210);
    s.ack(1000);
    s.expect_data(1, 1);
    s.skip();
    assert_eq!(s.connection.stats().spurious, 0);
    assert!(s.connection.window() <= 3000, "{}", s.connection.window());
    s.end();
}

// RFC 3708, 2: a DSACK for each retransmission of the recovery: none was needed.
#[test]
fn a_recovery_whose_retransmissions_all_were_duplicates_is_undone() {
    let mut s = Script::sending(&config("rfc", &[("undo", "true"), ("limited_transmit", "false")]), 10);
    s.at(200);
    reports(&mut s, 4);
    s.expect_data(0, 1);
    assert_eq!(s.connection.window(), 5000);
    s.at(210);
    s.peer(". 1 ack 4001");
    s.at(300);
    s.peer(". 1 ack 5001 sack 1:1001");
    assert_eq!(s.connection.stats().spurious, 1);
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

#[test]
fn without_the_setting_nothing_is_undone() {
    let mut s = Script::sending(&config("rfc", &[("limited_transmit", "false")]), 10);
    s.at(200);
    reports(&mut s, 4);
    s.expect_data(0, 1);
    s.at(210);
    s.peer(". 1 ack 4001");
    s.at(300);
    s.peer(". 1 ack 5001 sack 1:1001");
    assert_eq!((s.connection.stats().spurious, s.connection.window()), (0, 5000));
    s.end();
}

/// Linux's rules with timestamps, and Reno's window of ten segments, which are sent at 100 ms; as many wait behind them.
fn stamped() -> Script {
    stamped_of(20_000, "false")
}

/// The same with so many bytes, with tail loss probes or without.
fn stamped_of(bytes: u64, probes: &str) -> Script {
    let changes = [
        ("timestamps", "true"),
        ("mss_counts_options", "false"),
        ("congestion", "reno"),
        ("slow_start", "standard"),
        ("tail_loss_probe", probes),
        ("frto", "false"),
    ];
    let mut s = Script::new(&config("linux", &changes));
    s.open();
    s.expect("S 0");
    s.at(100);
    s.peer("S. 0 ack 1 mss 1000 sackok ts 1000:0");
    s.expect(". 1 ack 1");
    s.write(bytes);
    for n in 0..10 {
        s.expect_data(n, 1);
    }
    s
}

/// What was sent: the numbers of its segments.
fn sent(s: &mut Script) -> Vec<u64> {
    s.take().iter().map(|(_, segment)| u64::from(segment.sequence.wrapping_sub(ISS).wrapping_sub(1)) / MSS).collect()
}

// RFC 3522, 3.2: the ACK that ends the recovery echoes the original.
#[test]
fn a_recovery_that_the_late_original_ends_is_undone_and_one_that_its_retransmission_ends_is_not() {
    for (echo, spurious) in [(100, 1), (200, 0)] {
        let mut s = stamped();
        s.at(200);
        s.peer(". 1 ack 1 sack 1001:4001 ts 1001:0");
        s.expect_data(0, 1);
        s.skip();
        s.at(250);
        s.peer(&format!(". 1 ack 10001 ts 1002:{echo}"));
        assert_eq!(s.connection.stats().spurious, spurious, "{echo}");
        assert_eq!(s.connection.window() >= 10_000, spurious == 1, "{}", s.connection.window());
        s.end();
    }
}

// Two that were late: the first ACK says so while the other's retransmission is out. It sends nothing again, and new data goes; the
// next one ends the recovery.
#[test]
fn a_recovery_whose_retransmissions_are_out_is_held_by_a_late_original_and_undone_once_none_is_out() {
    let mut s = stamped();
    s.at(200);
    s.peer(". 1 ack 1 sack 4001:7001 ts 1001:0");
    assert_eq!(sent(&mut s), [0, 1], "and 2 and 3 are lost as well");
    s.at(210);
    s.peer(". 1 ack 1001 sack 4001:7001 ts 1002:100");
    let now = sent(&mut s);
    assert!(!now.is_empty() && now.iter().all(|number| *number >= 10), "{now:?}");
    assert_eq!(s.connection.stats().spurious, 0);
    s.at(220);
    s.peer(". 1 ack 7001 ts 1003:100");
    assert_eq!((s.connection.stats().spurious, s.connection.stats().retransmitted), (1, 2));
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

// Linux lowers the threshold once for a window: the timeout begins no episode of its own, and what the recovery sent again is no sign
// that the timeout was for nothing.
#[test]
fn a_timeout_in_a_recovery_is_not_undone_by_the_recoverys_retransmission_but_by_the_original() {
    for (echo, spurious) in [(100, 1), (200, 0)] {
        let mut s = stamped();
        s.at(200);
        s.peer(". 1 ack 1 sack 1001:10001 ts 1001:0");
        s.expect_data(0, 1);
        s.skip();
        s.run_on(500);
        let timeouts = s.connection.stats().timeouts;
        assert_eq!(timeouts, 1);
        s.skip();
        s.at(550);
        s.peer(&format!(". 1 ack 10001 ts 1002:{echo}"));
        assert_eq!(s.connection.stats().spurious, spurious, "{echo}");
        assert_eq!(s.connection.window() >= 10_000, spurious == 1, "{}", s.connection.window());
        s.end();
    }
}

/// A timeout at 400 ms is taken back at 460, while what went again at 450 is still out; at 470 a recovery begins.
fn a_recovery_behind_a_timeout() -> Script {
    let mut s = stamped();
    s.at(400);
    s.expect_data(0, 1);
    s.at(450);
    s.peer(". 1 ack 1001 ts 1001:400");
    s.expect_data(1, 1);
    s.expect_data(2, 1);
    s.at(460);
    s.peer(". 1 ack 2001 ts 1002:100");
    assert_eq!(s.connection.stats().spurious, 1);
    s.skip();
    s.at(470);
    s.peer(". 1 ack 2001 sack 5001:9001 ts 1002:100");
    assert_eq!(s.connection.stats().recoveries, 1);
    assert!(sent(&mut s).contains(&3));
    s
}

// The older stamp stays: the answer to what went at 450 is older than all that the recovery sent again, and says nothing of it.
#[test]
fn a_recovery_is_not_undone_by_the_answer_to_what_an_earlier_episode_sent_again() {
    let mut s = a_recovery_behind_a_timeout();
    let window = s.connection.window();
    s.at(500);
    s.peer(". 1 ack 3001 sack 5001:9001 ts 1003:450");
    s.skip();
    s.at(520);
    s.peer(". 1 ack 10001 ts 1004:450");
    assert_eq!(s.connection.stats().spurious, 1, "the timeout's");
    assert!(s.connection.window() <= window, "{} of {window}", s.connection.window());
    s.end();
}

#[test]
fn a_recovery_behind_an_earlier_episode_is_undone_when_the_originals_arrive() {
    let mut s = a_recovery_behind_a_timeout();
    s.at(500);
    s.peer(". 1 ack 3001 sack 5001:9001 ts 1003:100");
    s.skip();
    s.at(520);
    s.peer(". 1 ack 10001 ts 1004:100");
    assert_eq!(s.connection.stats().spurious, 2);
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

// A recovery is over long ago when two segments are late, and their probe is out when the timer goes off. A probe keeps no stamp.
#[test]
fn a_timeout_behind_a_probe_is_undone_by_the_original_and_not_by_its_own_retransmission() {
    for (late, spurious) in [(true, 1), (false, 0)] {
        let mut s = stamped_of(10_000, "true");
        s.at(200);
        s.peer(". 1 ack 1 sack 1001:4001 ts 1001:0");
        s.expect_data(0, 1);
        s.at(250);
        s.peer(". 1 ack 10001 ts 1002:200");
        s.at(300);
        s.write(2000);
        assert_eq!(sent(&mut s), [10, 11]);
        s.run_on(1000);
        let again = s.take();
        let stats = s.connection.stats();
        assert_eq!((stats.recoveries, stats.probes, stats.spurious), (1, 1, 0));
        assert!(stats.timeouts > 0);
        let echo = if late { 300 } else { again[1].0.as_nanos() / 1_000_000 };
        s.peer(&format!(". 1 ack 12001 ts 1003:{echo}"));
        assert_eq!(s.connection.stats().spurious, spurious, "{echo}");
        s.end();
    }
}

/// A recovery of the first segment of ten, which ends at 210 ms with the threshold of 5 segments.
fn recovered(changes: &[(&str, &str)]) -> Script {
    let mut all = vec![("undo", "true"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    let mut s = Script::sending(&config("rfc", &all), 10);
    s.at(200);
    reports(&mut s, 4);
    s.expect_data(0, 1);
    s.at(210);
    s.ack(10_000);
    assert_eq!(s.connection.window(), 5000);
    s
}

// RFC 3708, 2: duplicates may be told of after the recovery ended.
#[test]
fn a_recovery_is_undone_by_a_duplicate_that_is_told_after_its_end() {
    let mut s = recovered(&[]);
    s.at(300);
    s.peer(". 1 ack 10001 sack 1:1001");
    assert_eq!(s.connection.stats().spurious, 1);
    assert!(s.connection.window() >= 10_000, "{}", s.connection.window());
    s.end();
}

#[test]
fn a_recovery_is_not_undone_by_a_duplicate_of_what_an_earlier_one_sent_again() {
    let mut s = recovered(&[]);
    s.write(4000);
    s.skip();
    s.at(310);
    s.peer(". 1 ack 10001 sack 11001:14001");
    assert_eq!(s.connection.stats().recoveries, 2);
    s.skip();
    s.at(320);
    s.peer(". 1 ack 10001 sack 1:1001");
    assert_eq!(s.connection.stats().spurious, 0);
    s.at(330);
    s.peer(". 1 ack 14001 sack 10001:11001");
    assert_eq!(s.connection.stats().spurious, 1, "its own");
    s.end();
}
