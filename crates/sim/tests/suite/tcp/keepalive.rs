//! Whether the peer of an idle connection is there: RFC 9293, 3.8.4.

use super::script::*;
use fairspan_sim::tcp::{Failure, State};

const KEPT: [(&str, &str); 3] = [("keepalive", "10s"), ("keepalive_interval", "2s"), ("keepalive_probes", "3")];

// MUST-24: only on request.
#[test]
fn nobody_is_asked_unless_the_application_wants_it() {
    let mut s = Script::established(&config("rfc", &[]));
    s.run_on(100_000_000);
    s.expect_nothing();
    assert_eq!(s.connection.stats().keepalives, 0);
    s.end();
}

// 3.8.4: SEG.SEQ = SND.NXT - 1, without payload; an answer begins the time anew.
#[test]
fn an_idle_peer_is_asked_with_the_number_before_its_next_and_once_more_after_each_answer() {
    let mut s = Script::established(&config("rfc", &KEPT));
    let begun = s.now().as_nanos() / 1_000_000;
    for n in 1..=4 {
        s.at(begun + n * 10_000);
        s.expect(". 0 ack 1");
        s.peer(". 1 ack 1");
        s.expect_nothing();
    }
    assert_eq!((s.connection.stats().keepalives, s.state()), (4, State::Established));
    s.end();
}

#[test]
fn data_of_either_side_is_a_sign_of_life_and_what_is_unacknowledged_asks_by_itself() {
    let mut s = Script::established(&config("rfc", &KEPT));
    let begun = s.now().as_nanos() / 1_000_000;
    s.at(begun + 9_000);
    s.peer(". 1:101 ack 1");
    s.at(begun + 9_200);
    s.expect(". 1 ack 101");
    s.at(begun + 18_900);
    s.write(100);
    s.expect(". 1:101 ack 101");
    // The retransmission timer has it now, and the keepalive waits.
    s.at(begun + 19_899);
    s.expect_nothing();
    s.run_on(begun + 28_000);
    assert_eq!(s.connection.stats().keepalives, 0);
    assert!(s.connection.stats().timeouts > 0);
    s.skip();
    s.end();
}

#[test]
fn a_peer_that_answers_no_question_is_given_up_with_a_reset() {
    let mut s = Script::established(&config("rfc", &KEPT));
    let begun = s.now().as_nanos() / 1_000_000;
    for at in [10_000, 12_000, 14_000] {
        s.at(begun + at);
        s.expect(". 0 ack 1");
    }
    assert_eq!(s.state(), State::Established);
    s.at(begun + 16_000);
    s.expect("R. 1 ack 1");
    assert_eq!((s.connection.failure(), s.state()), (Some(Failure::TimedOut), State::Closed));
    s.run_on(100_000);
    s.expect_nothing();
    s.end();
}

#[test]
fn a_question_is_answered_whatever_the_answerer_s_settings_are_and_brings_nothing_to_read() {
    let mut s = Script::established(&config("rfc", &[]));
    s.peer(". 0 ack 1");
    s.expect(". 1 ack 1");
    assert_eq!(s.connection.readable(), 0);
    s.end();
}

#[test]
fn a_connection_that_is_over_asks_nothing() {
    let mut s = Script::established(&config("rfc", &[&KEPT[..], &[("time_wait", "60s")]].concat()));
    s.close();
    s.expect("F. 1 ack 1");
    s.peer("F. 1 ack 2");
    s.expect(". 2 ack 2");
    assert_eq!(s.state(), State::TimeWait);
    s.run_on(100_000);
    s.expect_nothing();
    assert_eq!(s.state(), State::Closed);
    s.end();
}
