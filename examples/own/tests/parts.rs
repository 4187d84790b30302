//! Each part of one's own is short, runs, and does something else than what it takes the place of.

use std::path::Path;
use std::process::Command;

/// The most lines of an example.
const MOST_LINES: usize = 60;

/// What an example prints, and its lines of code.
fn printed(program: &str, name: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/bin").join(format!("{name}.rs"));
    let lines = std::fs::read_to_string(path).expect("the example").lines().count();
    assert!(lines < MOST_LINES, "{name} has {lines} lines");
    let output = Command::new(program).output().expect("it can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

/// The n-th number of a line.
fn number(line: &str, n: usize) -> f64 {
    let words = line.split_once(": ").expect("a name and what came out").1;
    let mut numbers = words.split(' ').filter_map(|word| word.parse::<f64>().ok());
    numbers.nth(n).unwrap_or_else(|| panic!("{line}"))
}

#[test]
fn a_law_of_one_s_own_fills_the_link_with_a_shorter_queue_than_reno() {
    let lines = printed(env!("CARGO_BIN_EXE_law"), "law");
    let [reno, own] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(number(own, 0) > 9.4 && number(reno, 0) > 9.0, "{lines:?}");
    assert!(number(own, 1) < number(reno, 1) / 3.0, "{lines:?}");
}

#[test]
fn an_order_of_one_s_own_lets_short_packets_pass_a_full_queue() {
    let lines = printed(env!("CARGO_BIN_EXE_discipline"), "discipline");
    let [fifo, own] = lines.as_slice() else { panic!("{lines:?}") };
    // 20 ms of delay, and at most the packet that is under way; or a queue of 60 packets.
    assert!(number(own, 0) < 22.0 && number(fifo, 0) > 60.0, "{lines:?}");
}

#[test]
fn a_buffer_policy_of_one_s_own_keeps_the_queue_shorter_than_drop_tail() {
    let lines = printed(env!("CARGO_BIN_EXE_buffer"), "buffer");
    let [tail, own] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(number(own, 1) < number(tail, 1) / 2.0 && number(own, 0) > 8.0, "{lines:?}");
}

#[test]
fn a_link_policy_of_one_s_own_uses_unlike_links_for_what_they_carry() {
    let lines = printed(env!("CARGO_BIN_EXE_links"), "links");
    let [turns, own] = lines.as_slice() else { panic!("{lines:?}") };
    // In turns each has 7 Mbit/s, of which the slow one carries 4.
    assert!((10.5..11.5).contains(&number(turns, 0)) && number(own, 0) > 13.5, "{lines:?}");
}

#[test]
fn a_workload_of_one_s_own_draws_from_its_flow_s_randomness() {
    let lines = printed(env!("CARGO_BIN_EXE_workload"), "workload");
    assert_eq!(lines.len(), 3);
    for line in &lines {
        // Sixty a second for 25 s, give or take the clock's drift.
        assert!((1495.0..=1505.0).contains(&number(line, 0)), "{lines:?}");
    }
    assert!(number(&lines[0], 1) != number(&lines[1], 1), "{lines:?}");
    assert_eq!(lines, printed(env!("CARGO_BIN_EXE_workload"), "workload"), "the same seeds give the same");
}
