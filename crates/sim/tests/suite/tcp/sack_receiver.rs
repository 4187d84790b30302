//! What the receiver reports: RFC 2018, 3 and 4; duplicates: RFC 2883.

use super::script::*;
use fairspan_sim::tcp::Config;

fn plain() -> Config {
    config("rfc", &[])
}

#[test]
fn without_permission_nothing_is_reported() {
    let mut s = Script::accepted(&plain(), "");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1");
    let mut s = Script::accepted(&config("rfc", &[("sack", "false")]), "sackok");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1");
}

#[test]
fn what_arrives_in_order_is_not_reported() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001");
}

// RFC 2018, 4: the first block has the segment that set off this ACK; the others were reported last.
#[test]
fn the_first_block_holds_the_newest_segment_and_the_others_follow_by_age() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1 sack 1001:2001");
    s.peer(". 3001:4001 ack 1");
    s.expect(". 1 ack 1 sack 3001:4001,1001:2001");
    s.peer(". 5001:6001 ack 1");
    s.expect(". 1 ack 1 sack 5001:6001,3001:4001,1001:2001");
    // A block that grows comes first again.
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1 sack 1001:4001,5001:6001");
    s.peer(". 6001:7001 ack 1");
    s.expect(". 1 ack 1 sack 5001:7001,1001:4001");
}

// RFC 2018, 3: 40 bytes of options hold four blocks, three beside timestamps.
#[test]
fn at_most_four_blocks_and_three_beside_timestamps_are_reported() {
    let mut s = Script::accepted(&plain(), "sackok");
    for n in [1, 3, 5, 7, 9] {
        s.more(&format!(". {}001:{}001 ack 1", n, n + 1));
    }
    let last = s.take().pop().unwrap().1;
    assert_eq!(last.options.sack_count, 4);
    assert_eq!(last.options.sack.map(|(left, _)| left.wrapping_sub(IRS)), [9001, 7001, 5001, 3001]);
    assert!(last.header_length() <= 60);

    let mut s = Script::new(&config("rfc", &[("timestamps", "true")]));
    s.listen();
    s.peer("S 0 mss 1000 sackok ts 1:0");
    s.skip();
    s.peer(". 1 ack 1 ts 2:0");
    for n in [1, 3, 5, 7, 9] {
        s.more(&format!(". {}001:{}001 ack 1 ts 3:0", n, n + 1));
    }
    let last = s.take().pop().unwrap().1;
    assert_eq!(last.options.sack_count, 3);
    assert!(last.header_length() <= 60);
}

// RFC 2018, 4: what the cumulative acknowledgment covers is not reported any more.
#[test]
fn a_filled_gap_takes_its_block_away() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1 sack 1001:2001");
    s.peer(". 3001:4001 ack 1");
    s.expect(". 1 ack 1 sack 3001:4001,1001:2001");
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 2001 sack 3001:4001");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 4001");
}

// RFC 2018, 4: data that was reported stays; every ACK meanwhile reports it.
#[test]
fn acks_of_other_causes_report_too() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1 sack 2001:3001");
    s.write(1000);
    s.expect(". 1:1001 ack 1 sack any");
    s.peer(". 1:1001 ack 1");
    s.expect(". 1001 ack 1001 sack 2001:3001");
    s.end();
}

// RFC 2883, 4.1.1 and 4.1.2: a duplicate below the acknowledgment.
#[test]
fn a_duplicate_of_what_is_acknowledged_is_reported_first() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001");
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 2001 sack 1:1001");
    // Once only.
    s.peer(". 3001:4001 ack 1");
    s.expect(". 1 ack 2001 sack 3001:4001");
}

// RFC 2883, 4.1.3: a duplicate of what waits out of order, followed by the block it lies in.
#[test]
fn a_duplicate_out_of_order_is_reported_before_the_block_that_holds_it() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1 sack 1001:2001");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1 sack 1001:3001");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1 sack 1001:2001,1001:3001");
}

// RFC 2883, 4.2: only the part that is a duplicate.
#[test]
fn of_a_segment_that_is_in_part_a_duplicate_that_part_is_reported() {
    let mut s = Script::accepted(&plain(), "sackok");
    s.peer(". 1:1001 ack 1");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 2001");
    s.peer(". 1501:2501 ack 1");
    let answers = s.take();
    if let Some((_, answer)) = answers.first() {
        assert_eq!(answer.acknowledgment.wrapping_sub(IRS), 2501);
        let block = answer.options.sack[0];
        assert_eq!((block.0.wrapping_sub(IRS), block.1.wrapping_sub(IRS)), (1501, 2001));
    }
    assert_eq!(s.connection.readable(), 2500);
    s.end();
}

// RFC 9293, 3.10.7.4: only what lies in the window is kept.
#[test]
fn what_goes_beyond_the_window_is_cut() {
    let mut s =
        Script::accepted(&config("rfc", &[("receive_buffer", "2500B"), ("receive_buffer_maximum", "2500B")]), "sackok");
    s.peer(". 1001:2001 ack 1");
    s.expect(". 1 ack 1 win 2500 sack 1001:2001");
    s.peer(". 2001:3001 ack 1");
    s.expect(". 1 ack 1 win 2500 sack 1001:2501");
    s.peer(". 1:1001 ack 1");
    s.expect(". 1 ack 2501 win 0");
    s.peer(". 2501:3501 ack 1");
    s.expect(". 1 ack 2501 win 0");
    assert_eq!(s.connection.readable(), 2500);
    s.end();
}
