//! Prague on a connection: what it says of itself, and what counts of marks do to its window.
//!
//! Sources: RFC 9331, section 4; RFC 9768, section 3; draft-briscoe-iccrg-prague-congestion-control, section 2.4.

use super::script::*;
use fairspan_sim::tcp::Config;
use fairspan_sim::tcp::segment::Mark;

fn prague(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("congestion", "prague"), ("ecn", "l4s"), ("limited_transmit", "false"), ("delayed_ack", "0ms")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// Ten segments under way since 100 ms, to a peer that answered our SYN with these flags.
fn begun(changes: &[(&str, &str)], answer: &str, first: &str) -> Script {
    let mut script = Script::new(&prague(changes));
    script.open();
    script.expect("SAEW 0");
    script.at(100);
    script.peer(&format!("{answer} 0 ack 1 mss 1000 sackok"));
    script.expect(&format!("{first} 1 ack 1"));
    script.write(1 << 30);
    script
}

/// What the segments that went out since said in the field of the IP header.
fn fields(script: &mut Script) -> Vec<Mark> {
    script.take().iter().map(|(_, segment)| segment.mark).collect()
}

// RFC 9768, 3.1.1 and 3.2.2.1: AE, CWR and ECE ask, CWR agrees, counts begin at 5, which is AE and ECE; RFC 9331, 4.1: ECT(1).
#[test]
fn with_a_peer_that_counts_marks_data_says_ect_1() {
    let mut script = begun(&[], "S.W", ".AE");
    assert_eq!(fields(&mut script), [Mark::Scalable; 10]);
}

// RFC 9331, 4.2: without the feedback that it needs, a sender is Classic, and says ECT(0) or nothing.
#[test]
fn with_a_peer_that_has_only_rfc_3168_it_says_ect_0_and_a_mark_halves_and_with_one_that_has_nothing_it_says_nothing() {
    let mut script = begun(&[], "S.E", ".");
    assert_eq!(fields(&mut script), [Mark::Capable; 10]);
    script.at(200);
    script.more(".E 1 ack 2001");
    // Half of the window, and no growth: the echo may mean all that the ACK acknowledges.
    assert_eq!(script.connection.window(), 5000);
    let mut script = begun(&[], "S.", ".");
    assert_eq!(fields(&mut script), [Mark::Incapable; 10]);
}

// The draft, 2.4.2: alpha begins at 1, so the first mark halves and ends slow start; 2.4.3: the segment without a mark adds its part.
#[test]
fn the_first_mark_ends_slow_start_with_half_of_the_window_and_what_has_none_adds_to_it_at_once() {
    let mut script = begun(&[], "S.W", ".AE");
    script.skip();
    script.at(200);
    // 6 is AE and CWR: one of two.
    script.more(".AW 1 ack 2001");
    assert_eq!(script.connection.window(), 5000 + 1000 * 1000 / 5000);
    // No second reduction in this window, and nothing for what is marked: 7.
    script.more(".AWE 1 ack 3001");
    assert_eq!(script.connection.window(), 5200);
    // Without a mark a segment adds 1000/5200 of one.
    script.more(".AWE 1 ack 4001");
    assert_eq!(script.connection.window(), 5392);
}

// RFC 9331, 4.3: a loss as Reno.
#[test]
fn a_loss_halves_what_is_under_way() {
    let mut script = begun(&[("loss", "sack"), ("initial_threshold", "5000B")], "S.W", ".AE");
    script.skip();
    script.at(200);
    script.more(".AE 1 ack 1 sack 1001:4001");
    script.skip();
    script.at(300);
    script.more(".AE 1 ack 10001");
    assert!((5000..=6000).contains(&script.connection.window()), "{}", script.connection.window());
    script.skip();
}
