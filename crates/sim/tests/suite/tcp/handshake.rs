//! The handshake: RFC 9293, 3.5 and 3.10.7; options on SYNs: RFC 9293, 3.7.1, RFC 7323, RFC 2018.

use super::script::*;
use fairspan_sim::tcp::{Failure, State};

// RFC 9293, figure 6.
#[test]
fn an_active_open_sends_a_syn_and_acknowledges_the_peers() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0 mss 1000 sackok no-ts");
    assert_eq!(s.state(), State::SynSent);
    s.at(100);
    s.peer("S. 0 ack 1 mss 1000");
    s.expect(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
    assert_eq!(s.connection.smoothed_rtt(), span(100));
}

#[test]
fn a_passive_open_answers_a_syn_with_syn_and_ack() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    assert_eq!(s.state(), State::Listen);
    s.peer("S 0 mss 1000 sackok");
    s.expect("S. 0 ack 1 mss 1000 sackok");
    assert_eq!(s.state(), State::SynReceived);
    s.at(100);
    s.peer(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
    assert_eq!(s.connection.smoothed_rtt(), span(100));
}

// The third segment of the handshake may carry data.
#[test]
fn data_on_the_acknowledgment_of_the_handshake_is_taken() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
    s.peer(". 1:501 ack 1");
    assert_eq!((s.state(), s.connection.readable()), (State::Established, 500));
    s.end();
}

// RFC 9293, figure 7: both SYNs cross.
#[test]
fn a_simultaneous_open_establishes_both() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.at(50);
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
    assert_eq!(s.state(), State::SynReceived);
    s.at(100);
    s.peer("S. 0 ack 1 mss 1000");
    // The peer's SYN is old by now; some acknowledge it.
    s.skip();
    s.peer(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
}

// RFC 9293, 3.10.7.3, first: an unacceptable ACK in SYN-SENT gets a reset.
#[test]
fn an_ack_of_what_was_never_sent_is_reset_in_syn_sent() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 5 mss 1000");
    let reset = s.expect("R 5");
    assert_eq!(reset.sequence, ISS.wrapping_add(5));
    s.peer(". 0 ack 0");
    s.expect("R 0");
    assert_eq!(s.state(), State::SynSent);
}

// RFC 9293, 3.10.7.3, second.
#[test]
fn in_syn_sent_a_reset_counts_only_with_an_acceptable_ack() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.peer("R 0");
    assert_eq!(s.state(), State::SynSent);
    s.peer("R. 0 ack 3");
    assert_eq!(s.state(), State::SynSent);
    s.peer("R. 0 ack 1");
    assert_eq!((s.state(), s.connection.failure()), (State::Closed, Some(Failure::Reset)));
}

// RFC 9293, 3.10.7.2.
#[test]
fn a_listener_resets_acks_and_ignores_resets() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    s.peer("R 0");
    s.expect_nothing();
    s.peer(". 7 ack 9");
    s.expect("R 9");
    assert_eq!(s.state(), State::Listen);
}

// RFC 9293, 3.10.7.4, second: back to LISTEN.
#[test]
fn a_reset_in_syn_received_returns_a_listener_to_listen() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
    s.peer("R 1");
    assert_eq!(s.state(), State::Listen);
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
}

// RFC 9293, 3.10.7.4, fifth: an ACK of something else in SYN-RECEIVED.
#[test]
fn a_wrong_ack_in_syn_received_is_reset() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
    s.peer(". 1 ack 77");
    s.expect("R 77");
    assert_eq!(s.state(), State::SynReceived);
}

// RFC 6298, 2.1, 5.5: 1 s, then doubled.
#[test]
fn a_syn_is_sent_again_after_1_3_and_7_seconds() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    for at in [1000, 3000, 7000] {
        s.at(at);
        s.expect("S 0");
    }
}

#[test]
fn a_syn_ack_is_sent_again_and_a_second_syn_does_no_harm() {
    let mut s = Script::new(&config("rfc", &[]));
    s.listen();
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1");
    s.at(1000);
    s.expect("S. 0 ack 1");
    s.at(1500);
    s.peer("S 0 mss 1000");
    s.skip();
    s.at(1600);
    s.peer(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
}

// RFC 5681, 3.1: a lost SYN means one segment; RFC 6298, 5.7: and a timeout of 3 s.
#[test]
fn after_a_lost_syn_one_segment_goes_first_and_the_timer_is_3_seconds() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.at(1000);
    s.expect("S 0");
    s.at(1100);
    s.peer("S. 0 ack 1 mss 1000");
    s.expect(". 1 ack 1");
    s.write(5000);
    s.expect_data(0, 1);
    s.at(4100);
    s.expect_data(0, 1);
}

// tcp_init_transfer and tcp_try_undo_spurious_syn of Linux: one segment after a second timeout, unless the answer is to the first SYN.
#[test]
fn linux_begins_with_one_segment_after_two_lost_syns_and_not_after_a_late_answer() {
    // How many segments go first, after so many SYNs, if the answer has the timestamp of the `answered` one; 1 ms after the last one.
    let first = |preset: &str, syns: usize, answered: usize, passive: bool| {
        let mut s = Script::new(&config(preset, &[("timestamps", "true")]));
        let (syn, answer) = if passive { ("S. 0 ack 1", ".") } else { ("S 0", "S.") };
        if passive {
            s.listen();
            s.peer("S 0 mss 1000 sackok ts 1000:0");
        } else {
            s.open();
        }
        let mut stamps = Vec::new();
        for at in [0, 1000, 3000, 7000].into_iter().take(syns) {
            if at > 0 {
                s.at(at);
            }
            stamps.push(s.expect(syn).options.timestamps.expect("a timestamp").0);
        }
        s.at([0, 1000, 3000, 7000][syns - 1] + 1);
        let number = u32::from(passive);
        let echo = stamps[answered];
        s.peer(&format!("{answer} {number} ack 1 mss 1000 sackok ts 1001:{echo}"));
        s.write(50_000);
        s.take().iter().filter(|(_, segment)| segment.length > 0).count()
    };
    for passive in [false, true] {
        let linux = [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 0), (4, 3)]
            .map(|(syns, answered)| first("linux", syns, answered, passive));
        assert_eq!(linux, [10, 10, 10, 10, 1, 1, 10, 1], "passive: {passive}");
        assert_eq!([(2, 0), (2, 1)].map(|(syns, answered)| first("rfc", syns, answered, passive)), [1, 1]);
    }
}

// RFC 9293, 3.7.1: without the option, 536.
#[test]
fn without_a_segment_size_from_the_peer_segments_have_536_bytes() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1");
    s.expect(". 1 ack 1");
    s.write(1072);
    s.expect(". 1:537 ack 1");
    s.expect(". 537:1073 ack 1");
}

#[test]
fn the_peers_smaller_segment_size_is_kept_to() {
    let mut s = Script::new(&config("rfc", &[]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1 mss 700");
    s.expect(". 1 ack 1");
    s.write(1400);
    s.expect(". 1:701 ack 1");
    s.expect(". 701:1401 ack 1");
}

// RFC 2018, 2; RFC 7323, 2.2 and 3.2: an answer offers only what was offered.
#[test]
fn a_syn_ack_has_only_the_options_that_the_syn_had() {
    let all = config("rfc", &[("timestamps", "true")]);
    let mut s = Script::new(&all);
    s.listen();
    s.peer("S 0 mss 1000");
    s.expect("S. 0 ack 1 mss 1000 no-ws no-sackok no-ts");
    let mut s = Script::new(&all);
    s.listen();
    s.peer("S 0 mss 1000 ws 3 sackok ts 5:0");
    let answer = s.expect("S. 0 ack 1 mss 1000 sackok");
    assert!(answer.options.window_scale.is_some());
    assert_eq!(answer.options.timestamps.unwrap().1, 5);
}

// RFC 9293, 3.10.7.4, fourth; RFC 5961, 4.
#[test]
fn a_syn_on_an_open_connection_gets_an_ack_and_nothing_else() {
    let mut s = Script::established(&config("rfc", &[]));
    s.at(2000);
    s.peer("S 40 mss 1000");
    s.expect(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
    s.peer(". 1:1001 ack 1");
    assert_eq!(s.connection.readable(), 1000);
    s.end();
}

// RFC 9293, 3.10.7.1: what arrives without a connection is reset.
#[test]
fn a_closed_connection_resets_what_arrives() {
    let mut s = Script::new(&config("rfc", &[]));
    s.peer(". 1 ack 9");
    s.expect("R 9");
    s.peer("S 0 mss 1000");
    let reset = s.take().pop().expect("a reset").1;
    assert_eq!((reset.sequence, reset.acknowledgment), (0, IRS.wrapping_add(1)));
    s.peer("R 0");
}
