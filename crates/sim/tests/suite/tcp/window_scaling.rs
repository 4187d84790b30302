//! Window scaling: RFC 7323, 2.2 to 2.4.

use super::script::*;

// 2.3: the scale covers the buffer; the window of a SYN is not scaled.
#[test]
fn the_scale_covers_the_buffer_and_syns_are_not_scaled() {
    let settings = [("receive_buffer", "1MiB"), ("receive_buffer_maximum", "1MiB")];
    let mut s = Script::new(&config("rfc", &settings));
    s.open();
    let scale = s.expect("S 0 win 65535").options.window_scale.expect("a scale");
    assert!((1 << 20) >> scale <= 65_535 && scale <= 14, "{scale}");
    s.peer("S. 0 ack 1 mss 1000 ws 0");
    let ack = s.expect(". 1 ack 1");
    let window = u64::from(ack.window) << scale;
    assert!((1 << 20) - (1 << scale) < window && window <= 1 << 20, "{window}");
}

// 2.2: both or none.
#[test]
fn without_the_peers_option_neither_direction_is_scaled() {
    let settings = [("receive_buffer", "1MiB"), ("receive_buffer_maximum", "1MiB"), ("initial_window", "100")];
    let mut s = Script::new(&config("rfc", &settings));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1 mss 1000");
    s.expect(". 1 ack 1 win 65535");
    s.peer(". 1 ack 1 win 3000");
    s.write(10_000);
    assert_eq!(s.take().len(), 3);
    s.end();
}

// 2.2: SEG.WND << Snd.Wind.Shift on all but SYNs.
#[test]
fn the_peers_window_is_scaled_after_its_syn() {
    let mut s = Script::new(&config("rfc", &[("initial_window", "100")]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1 mss 1000 ws 2 win 2000");
    s.expect(". 1 ack 1");
    s.write(20_000);
    assert_eq!(s.take().len(), 2, "the SYN's window is as it stands");
    s.peer(". 1 ack 1 win 2000");
    assert_eq!(s.take().len(), 6, "8000 in all");
    s.end();
}

// 2.3: a shift above 14 is 14.
#[test]
fn a_shift_above_14_is_taken_for_14() {
    let mut s = Script::new(&config("rfc", &[("initial_window", "100")]));
    s.open();
    s.expect("S 0");
    s.peer("S. 0 ack 1 mss 1000 ws 20");
    s.expect(". 1 ack 1");
    s.peer(". 1 ack 1 win 1");
    s.write(100_000);
    assert_eq!(s.take().len(), 16, "16,384 bytes and no small segment");
    s.end();
}

#[test]
fn without_the_setting_it_is_not_offered() {
    let mut s = Script::new(&config("rfc", &[("window_scaling", "false")]));
    s.open();
    s.expect("S 0 no-ws win 65535");
}

// 2.4: the right edge moves back by no more than the rounding, and what an earlier window allowed is taken.
#[test]
fn the_window_shrinks_by_rounding_at_most_and_what_was_offered_is_honoured() {
    let settings = [
        ("receive_buffer", "1000000B"),
        ("receive_buffer_maximum", "1000000B"),
        ("delayed_ack", "0s"),
        ("delayed_ack_maximum", "0s"),
    ];
    let mut s = Script::new(&config("rfc", &settings));
    s.listen();
    s.peer("S 0 mss 1000 ws 7");
    let scale = s.expect("S. 0 ack 1").options.window_scale.unwrap();
    s.peer(". 1 ack 1");
    let (mut edge, mut at) = (0, 1);
    let mut arrives = |s: &mut Script, size: u64| {
        s.more(&format!(". {at}:{} ack 1", at + size));
        at += size;
        for (_, segment) in s.take() {
            let right = u64::from(segment.acknowledgment.wrapping_sub(IRS)) + (u64::from(segment.window) << scale);
            assert!(right + (1 << scale) > edge, "{right} after {edge}");
            edge = edge.max(right);
        }
        (at, edge)
    };
    for n in 0..700_u64 {
        arrives(&mut s, 1 + n * 37 % 1000);
        if n % 5 == 0 {
            s.read(n * 13 % 3000);
        }
    }
    let mut last = (0, 0);
    while last.0 + 1000 <= last.1 || last.1 == 0 {
        last = arrives(&mut s, 7);
        if last.1 - last.0 > 1000 {
            last = arrives(&mut s, 993);
        }
    }
    if last.1 > last.0 {
        arrives(&mut s, last.1 - last.0);
    }
    assert_eq!(s.connection.delivered(), last.1 - 1, "all that was ever offered");
    s.end();
}
