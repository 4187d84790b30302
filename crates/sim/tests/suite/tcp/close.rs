//! Closing and resetting: RFC 9293, 3.6, 3.10.4 and 3.10.7.4 by state; RFC 5961, 3.2 and 5.2.

use super::script::*;
use fairspan_sim::tcp::segment::Flags;
use fairspan_sim::tcp::{Config, Failure, State};

fn plain() -> Config {
    config("rfc", &[("delayed_ack", "0s"), ("delayed_ack_maximum", "0s")])
}

// Figure 12: the active side, through TIME-WAIT.
#[test]
fn the_active_side_goes_through_fin_wait_1_and_2_to_time_wait() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    assert_eq!(s.state(), State::FinWait1);
    s.at(200);
    s.peer(". 1 ack 2");
    assert_eq!(s.state(), State::FinWait2);
    s.at(300);
    s.peer("F. 1 ack 2");
    s.expect(". 2 ack 2");
    assert_eq!(s.state(), State::TimeWait);
    assert!(s.connection.at_end_of_stream());
    s.at(300 + 240_000 - 1);
    assert_eq!(s.state(), State::TimeWait);
    s.at(300 + 240_000);
    assert_eq!(s.state(), State::Closed);
    assert_eq!(s.connection.failure(), None);
}

// Figure 12: the passive side.
#[test]
fn the_passive_side_goes_through_close_wait_and_last_ack() {
    let mut s = Script::established(&plain());
    s.peer("F. 1 ack 1");
    s.expect(". 1 ack 2");
    assert_eq!(s.state(), State::CloseWait);
    assert!(s.connection.at_end_of_stream());
    s.close();
    s.expect("F. 1 ack 2");
    assert_eq!(s.state(), State::LastAck);
    s.at(200);
    s.peer(". 2 ack 2");
    assert_eq!(s.state(), State::Closed);
    assert_eq!(s.connection.poll_timeout(), None);
}

// Figure 13: both at once.
#[test]
fn a_simultaneous_close_goes_through_closing() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    s.at(150);
    s.peer("F. 1 ack 1");
    s.expect(". 2 ack 2");
    assert_eq!(s.state(), State::Closing);
    s.at(200);
    s.peer(". 2 ack 2");
    assert_eq!(s.state(), State::TimeWait);
    s.end();
}

// 3.10.7.4, FIN-WAIT-1: one segment acknowledges our FIN and brings the peer's.
#[test]
fn a_fin_that_acknowledges_ours_goes_to_time_wait_at_once() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    s.at(200);
    s.peer("F. 1 ack 2");
    s.expect(". 2 ack 2");
    assert_eq!(s.state(), State::TimeWait);
    s.end();
}

// 3.10.4: what was written goes first.
#[test]
fn the_fin_follows_the_last_byte() {
    let mut s = Script::established(&plain());
    s.write(1500);
    s.expect(". 1:1001 ack 1");
    s.close();
    s.expect("F. 1001:1501 ack 1");
    s.at(200);
    s.peer(". 1 ack 1502");
    assert_eq!(s.state(), State::FinWait2);
}

#[test]
fn a_fin_waits_for_the_windows() {
    let mut s = Script::established(&plain());
    s.write(15_000);
    s.close();
    for n in 0..10 {
        s.expect_data(n, 1);
    }
    // 3.10.4: the state changes at once, whatever still has to go.
    assert_eq!(s.state(), State::FinWait1);
    s.at(200);
    s.ack(10_000);
    for n in 10..14 {
        s.expect_data(n, 1);
    }
    s.expect("F. 14001:15001 ack 1");
}

// RFC 6298 holds for the FIN too.
#[test]
fn a_fin_is_sent_again() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    s.at(1100);
    s.expect("F. 1 ack 1");
    s.at(3100);
    s.expect("F. 1 ack 1");
    s.peer(". 1 ack 2");
    assert_eq!(s.state(), State::FinWait2);
}

// FIN-WAIT-2 and CLOSE-WAIT: the open direction goes on.
#[test]
fn a_half_closed_connection_carries_data_the_other_way() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    s.at(200);
    s.peer(". 1:1001 ack 2");
    s.expect(". 2 ack 1001");
    assert_eq!((s.state(), s.connection.read(s.now(), 5000)), (State::FinWait2, 1000));

    let mut s = Script::established(&plain());
    s.peer("F. 1 ack 1");
    s.expect(". 1 ack 2");
    s.write(1000);
    s.expect(". 1:1001 ack 2");
    s.at(200);
    s.peer(". 2 ack 1001");
    assert_eq!(s.state(), State::CloseWait);
}

// 3.10.7.4, eighth: a FIN after a hole counts when the hole is filled.
#[test]
fn a_fin_out_of_order_counts_when_all_before_it_is_there() {
    let mut s = Script::established(&config("rfc", &[("sack", "false")]));
    s.peer("F. 1001:2001 ack 1");
    s.expect(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 2002");
    assert_eq!((s.state(), s.connection.readable()), (State::CloseWait, 2000));
}

// 3.10.7.4, TIME-WAIT: a FIN again is acknowledged and the wait starts over.
#[test]
fn in_time_wait_a_fin_is_acknowledged_again_and_restarts_the_wait() {
    let mut s = Script::established(&plain());
    s.close();
    s.expect("F. 1 ack 1");
    s.peer("F. 1 ack 2");
    s.expect(". 2 ack 2");
    s.at(100_000);
    s.peer("F. 1 ack 2");
    s.expect(". 2 ack 2");
    s.at(100_000 + 240_000 - 1);
    assert_eq!(s.state(), State::TimeWait);
    s.at(100_000 + 240_000);
    assert_eq!(s.state(), State::Closed);
}

// 3.10.7.4, second, and RFC 5961, 3.2: exactly the next number resets.
#[test]
fn a_reset_with_the_next_number_resets_in_every_state() {
    let prepare: [fn(&mut Script); 4] = [
        |_| {},
        |s| s.close(),
        |s| {
            s.close();
            s.more(". 1 ack 2");
        },
        |s| {
            s.write(3000);
        },
    ];
    for prepare in prepare {
        let mut s = Script::established(&plain());
        prepare(&mut s);
        s.skip();
        s.peer("R 1");
        assert_eq!((s.state(), s.connection.failure()), (State::Closed, Some(Failure::Reset)));
        assert_eq!(s.connection.poll_timeout(), None);
        assert!(s.connection.is_closed());
    }
}

// RFC 5961, 3.2: elsewhere in the window, a challenge; outside, nothing.
#[test]
fn a_reset_elsewhere_in_the_window_is_challenged_and_outside_ignored() {
    let mut s = Script::established(&plain());
    s.at(1000);
    s.peer("R 500");
    s.expect(". 1 ack 1");
    assert_eq!(s.state(), State::Established);
    s.at(5000);
    s.peer("R 3000000");
    s.expect_nothing();
    assert_eq!(s.state(), State::Established);
}

// 3.10.7.4, fifth: an ACK of what was never sent is answered and dropped, data and all.
#[test]
fn an_ack_of_what_was_never_sent_is_answered_and_dropped() {
    let mut s = Script::sending(&plain(), 2);
    s.at(1000);
    s.peer(". 1:1001 ack 9001");
    s.expect(". 2001 ack 1");
    assert_eq!(s.connection.readable(), 0);
    assert_eq!(s.connection.unacknowledged(), 2000);
    s.end();
}

// 3.10.7.4, fifth: without ACK a segment is dropped.
#[test]
fn a_segment_without_ack_is_dropped() {
    let mut s = Script::established(&plain());
    s.peer("P 1:1001");
    assert_eq!(s.connection.readable(), 0);
    s.expect_nothing();
}

// 3.10.7.4, first: outside of the window: an ACK, and dropped.
#[test]
fn a_segment_beyond_the_window_is_answered_with_an_ack() {
    let mut s = Script::established(&config(
        "rfc",
        &[("receive_buffer", "5000B"), ("receive_buffer_maximum", "5000B"), ("sack", "false")],
    ));
    s.at(1000);
    s.peer(". 6001:7001 ack 1");
    s.expect(". 1 ack 1");
    assert_eq!(s.connection.readable(), 0);
}

// 3.10.5.
#[test]
fn an_abort_resets_the_peer() {
    let mut s = Script::sending(&plain(), 2);
    s.abort();
    let reset = s.take().pop().expect("a reset").1;
    assert!(reset.flags.has(Flags::RST) && reset.sequence == ISS.wrapping_add(2001), "{reset:?}");
    assert_eq!((s.state(), s.connection.failure()), (State::Closed, Some(Failure::Aborted)));
    s.at(10_000);
    s.expect_nothing();
}

// 3.10.4, SYN-SENT and LISTEN.
#[test]
fn closing_before_a_connection_is_there_ends_it() {
    let mut s = Script::new(&plain());
    s.open();
    s.expect("S 0");
    s.close();
    assert_eq!(s.state(), State::Closed);
    s.at(10_000);
    s.expect_nothing();
    let mut s = Script::new(&plain());
    s.listen();
    s.close();
    assert_eq!(s.state(), State::Closed);
}

// 3.10.7.4, seventh: data after the peer's FIN is not taken.
#[test]
fn nothing_after_the_peers_fin_is_taken() {
    let mut s = Script::established(&plain());
    s.peer("F. 1:501 ack 1");
    s.expect(". 1 ack 502");
    s.at(1000);
    s.peer(". 502:1502 ack 1");
    s.skip();
    assert_eq!(s.connection.read(s.now(), 5000), 500);
    assert!(s.connection.at_end_of_stream());
    assert_eq!(s.state(), State::CloseWait);
}
