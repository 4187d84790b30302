//! L4S: Prague beside CUBIC over a dual queue, and over one that marks all alike.

use crate::common::file;
use fairspan_sim::results::Results;
use fairspan_sim::world::World;

const PRAGUE: &str = r#"{ preset = "linux", congestion = "prague", ecn = "l4s", pacing = true }"#;
const CUBIC: &str = "\"linux\"";

/// Downloads over one link of 40 Mbit/s and 20 ms there and back, whose queue is told.
fn downloads(queue: &str, flows: &[&str]) -> Results {
    over("40Mbit", "10ms", queue, flows)
}

fn over(rate: &str, delay: &str, queue: &str, flows: &[&str]) -> Results {
    let mut text =
        "duration = \"40s\"\nwarm_up = \"15s\"\n[metrics]\ndelay = true\n[[node]]\nname = [\"a\", \"b\"]\n".to_owned();
    text += "[[link]]\nname = \"wire\"\nfrom = \"a\"\nto = \"b\"\nqueue = \"250ms\"\n";
    text += &format!("rate = \"{rate}\"\ndelay = \"{delay}\"\n");
    text += queue;
    for (number, tcp) in flows.iter().enumerate() {
        text += &format!("\n[[flow]]\nname = \"f{number}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\ntcp = {tcp}\n");
    }
    let run = file(&text).run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}

/// How long packets of a flow waited, in the middle and at the 99th percentile, in milliseconds.
fn waited(results: &Results, flow: usize) -> [f64; 2] {
    let delay = &results.flows[flow].delay;
    let percentiles = delay.percentiles.expect("they were measured");
    [percentiles.p50, percentiles.p99].map(|at| (at - delay.min) * 1e3)
}

#[test]
fn over_a_dual_queue_prague_and_cubic_share_and_only_cubic_waits() {
    for scheduler in ["dual", "dual:scheduler=shifted"] {
        let both = downloads(&format!("discipline = \"{scheduler}\""), &[PRAGUE, CUBIC]);
        let ratio = both.flows[0].goodput / both.flows[1].goodput;
        assert!((0.5..2.0).contains(&ratio), "{scheduler}: {ratio}");
        assert!(both.goodput > 0.9 * 38e6, "{scheduler}: {}", both.goodput);
        assert_eq!(both.flows[0].dropped, 0, "{scheduler}: what is L4S is marked, not dropped");
        let [[_, low], [classic, _]] = [waited(&both, 0), waited(&both, 1)];
        assert!(low < 2.5, "{scheduler}: {low} ms");
        assert!((8.0..25.0).contains(&classic), "{scheduler}: {classic} ms, the target is 15");
    }
}

// RFC 9331, 5: what a dual queue is for, shown by one that marks ECT(1) as everything else.
#[test]
fn over_one_queue_that_marks_all_alike_prague_takes_most_and_over_drop_tail_it_does_not() {
    let cubic = r#"{ preset = "linux", ecn = "on" }"#;
    let marked = downloads("buffer = \"codel\"", &[PRAGUE, cubic]);
    assert!(marked.flows[1].goodput < 0.25 * marked.goodput, "{}", marked.flows[1].goodput / marked.goodput);
    let dropped = downloads("buffer = \"drop-tail\"", &[PRAGUE, CUBIC]);
    assert!(dropped.flows[1].goodput > 0.35 * dropped.goodput, "{}", dropped.flows[1].goodput / dropped.goodput);
}
