//! Workloads of whole applications, over the whole world.

use fairspan_sim::results::{FlowResult, Results};
use fairspan_sim::scenario::{File, Metric};
use fairspan_sim::world::World;

/// Two hosts, a link of 10 Mbit/s and 10 ms each way.
const HOSTS: &str = "processing = \"off\"\ndrift = \"off\"\n[[node]]\nname = [\"a\", \"b\"]\n[[link]]\nname = \"wire\"\nfrom = \"a\"\n\
                     to = \"b\"\nrate = \"10Mbit\"\ndelay = \"10ms\"\n";

fn file(text: &str) -> File {
    let mut files = |name: &str| match name {
        "sizes.cdf" => Ok(b"1000 0.5\n1000 0.5\n50000 1\n".to_vec()),
        _ => Err("no such file".to_owned()),
    };
    File::parse("x", text, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// Runs a file of one run: a duration, hosts and what is sent.
fn run(duration: &str, rest: &str) -> Results {
    let file = file(&format!("duration = \"{duration}\"\n{HOSTS}{rest}"));
    let run = file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    let mut world = World::new(&run.scenario).unwrap_or_else(|error| panic!("{error}"));
    world.advance(world.end());
    world.finish().unwrap_or_else(|error| panic!("{error}"))
}

fn flow(kind: &str, rest: &str) -> String {
    format!("[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"{kind}\"\n{rest}")
}

fn of(results: &Results) -> &FlowResult {
    &results.flows[0]
}

fn value(results: &Results, metric: &str) -> f64 {
    Metric::parse(metric).and_then(|metric| metric.value(results)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_transfer_alone_takes_its_handshake_and_what_an_empty_path_takes() {
    // One segment: a round trip of 20 ms, two segments of 40 bytes on the way to it, and then 1040 bytes and 10 ms.
    let text =
        flow("transfers", "bytes = \"1000B\"\nevery = \"1s\"\narrivals = \"constant\"\ntransfers = 3\ntcp = \"rfc\"\n");
    let results = run("10s", &(text + "[metrics]\ntransfers = true\n"));
    let transfers = of(&results).transfers.as_ref().expect("transfers");
    assert_eq!((transfers.completed, transfers.failed, transfers.unfinished, transfers.bytes), (3, 0, 0, 3000));
    let wire = |bytes: f64| bytes * 8.0 / 10e6;
    let ideal = 0.01 + wire(1040.0);
    let starts: Vec<f64> = transfers.records.iter().map(|record| record.start_s).collect();
    assert_eq!(starts, [1.0, 2.0, 3.0]);
    for record in &transfers.records {
        let slowdown = record.slowdown.expect("a constant rate");
        assert_eq!(record.bytes, 1000);
        assert!((slowdown - record.duration_s / ideal).abs() < 1e-6, "{record:?}, ideal {ideal}");
        // The options of the SYN and of the data are 40 bytes at most.
        let least = 0.02 + 2.0 * wire(40.0) + ideal;
        assert!((least..least + wire(3.0 * 40.0)).contains(&record.duration_s), "{record:?}, at least {least}");
    }
}

#[test]
fn transfers_begin_as_often_as_is_offered_whatever_becomes_of_those_before() {
    // 8 Mbit/s of payload in transfers of 25.75 kB on average: one in 25.75 ms.
    let text = flow("transfers", "bytes = { cdf = \"sizes.cdf\" }\noffered = \"8Mbit\"\ntcp = \"linux\"\n");
    let results = run("100s", &text);
    let transfers = of(&results).transfers.as_ref().expect("transfers");
    let begun = (transfers.completed + transfers.failed + transfers.unfinished) as f64;
    // 100 s / 13.2 ms; five deviations of a Poisson count.
    let expected = 100.0 / ((0.5 * 1000.0 + 0.5 * 25_500.5) * 8.0 / 8e6);
    assert!((begun - expected).abs() < 5.0 * expected.sqrt(), "{begun} instead of {expected}");
    // Twice as much as the link carries: those under way grow, and what is refused counts.
    let text = flow("transfers", "bytes = \"100kB\"\noffered = \"20Mbit\"\nparallel = 50\ntcp = \"linux\"\n");
    let results = run("30s", &text);
    let transfers = of(&results).transfers.as_ref().expect("transfers");
    assert!(transfers.unfinished > 30 && transfers.unfinished <= 50, "{}", transfers.unfinished);
    // Their whole sizes, whatever of them is there already.
    assert_eq!(transfers.unfinished_bytes, 100_000 * transfers.unfinished);
    assert_eq!(value(&results, "flow.f.transfers.unfinished_bytes"), transfers.unfinished_bytes as f64);
    assert!(transfers.failed > 100, "{}", transfers.failed);
    assert!((8.5e6..9.7e6).contains(&of(&results).goodput), "{}", of(&results).goodput);
}

#[test]
fn classes_have_the_transfers_of_their_sizes_and_percentiles_are_pooled() {
    let own =
        "bytes = [\"1kB\", \"10kB\", \"50kB\"]\nevery = \"200ms\"\nclasses = [\"1kB\", \"10kB\"]\ntcp = \"linux\"\n";
    let other = own.replace("200ms", "300ms");
    let other = flow("transfers", &other).replace("\"f\"", "\"g\"");
    let results = run("60s", &(flow("transfers", own) + &other));
    let transfers = of(&results).transfers.as_ref().expect("transfers");
    let counts: Vec<u64> = transfers.classes.iter().map(|class| class.duration.count).collect();
    assert_eq!(counts.iter().sum::<u64>(), transfers.completed);
    assert!(counts.iter().all(|count| count.abs_diff(transfers.completed / 3) <= 2), "{counts:?}");
    let bounds: Vec<Option<u64>> = transfers.classes.iter().map(|class| class.up_to).collect();
    assert_eq!(bounds, [Some(1000), Some(10_000), None]);
    let means = [0, 1, 2].map(|class| value(&results, &format!("flow.f.transfers.class{class}.duration.mean")));
    assert!(means[0] < means[1] && means[1] < means[2], "{means:?}");
    // Of both flows together, a percentile lies between those of each.
    let pooled = value(&results, "p90(flow.*.transfers.slowdown)");
    let each = ["f", "g"].map(|name| value(&results, &format!("flow.{name}.transfers.slowdown.p90")));
    let (least, most) = (each[0].min(each[1]), each[0].max(each[1]));
    assert!((least * 0.99..=most * 1.01).contains(&pooled), "{pooled} of {each:?}");
}

#[test]
fn a_page_takes_its_objects_one_behind_the_other_where_they_wait_and_side_by_side_where_not() {
    let page = |objects: &str| {
        let text = flow("web", &format!("fetches = 1\nobjects = [{objects}]\ntcp = \"rfc\"\n"));
        let results = run("20s", &text);
        let transfers = of(&results).transfers.clone().expect("a page");
        assert_eq!((transfers.completed, transfers.failed, transfers.unfinished), (1, 0, 0));
        (transfers.duration.max, transfers.bytes)
    };
    let (single, bytes) = page("{ bytes = \"1kB\" }");
    assert_eq!(bytes, 1000);
    // Handshake and request are two round trips of 20 ms and some serialisation.
    assert!((0.04..0.043).contains(&single), "{single}");
    let (chain, _) = page(
        "{ name = \"x\", bytes = \"1kB\" }, { name = \"y\", bytes = \"1kB\", after = \"x\", wait = \"5ms\" }, { bytes = \"1kB\", after = \"y\" }",
    );
    // Each that waits costs a round trip more, on the connection that is there.
    assert!((chain - single - 0.045).abs() < 0.003, "{chain} and {single}");
    let (beside, bytes) = page("{ bytes = \"1kB\", count = 6 }");
    assert_eq!(bytes, 6000);
    assert!((beside - single).abs() < 0.006, "{beside} and {single}");
    let (turns, _) = page("{ bytes = \"1kB\", count = 12 }");
    // Six connections: twice in turn, another round trip.
    assert!((turns - beside - 0.02).abs() < 0.008, "{turns} and {beside}");
}

#[test]
fn pages_follow_one_another_after_a_pause_and_a_page_whose_connection_fails_has_failed() {
    let text =
        flow("web", "fetches = 5\nobjects = [{ bytes = \"5kB\", count = 3 }]\nthink = \"100ms\"\ntcp = \"linux\"\n");
    let results = run("20s", &text);
    let transfers = of(&results).transfers.as_ref().expect("pages");
    assert_eq!((transfers.completed, transfers.failed, transfers.bytes), (5, 0, 75_000));
    // Nothing comes through, and the connection gives up.
    let text = flow("web", "fetches = 1\nobjects = [{ bytes = \"5kB\" }]\ntcp = { syn_retries = 1 }\n");
    let text = format!("{text}[[link]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\n")
        .replace("[[flow]]", "[[flow]]\nvia = [\"x\"]");
    let results = run("200s", &text.replace("name = \"x\"\n", "name = \"x\"\nloss = 1\n"));
    let transfers = of(&results).transfers.as_ref().expect("pages");
    assert_eq!((transfers.completed, transfers.failed, transfers.unfinished), (0, 1, 0));
}

#[test]
fn a_film_on_a_link_of_ample_rate_climbs_to_the_best_quality_and_never_stalls() {
    let levels = "levels = [\"500kbit\", \"1Mbit\", \"2Mbit\", \"4Mbit\"]\nbuffer = \"40s\"\ntcp = \"linux\"\n";
    let results = run("300s", &flow("video", levels));
    let film = of(&results).video.as_ref().expect("a film");
    assert_eq!((film.stalls, film.stalled_s), (0, 0.0));
    let start = film.start_s.expect("it played");
    assert!((0.25..0.6).contains(&start), "2 Mbit take 0.2 s, handshake and request 40 ms: {start}");
    assert!((film.played_s + start - 300.0).abs() < 1e-6, "{film:?}");
    // 40 s in store are ten chunks ahead of what was played.
    assert!((film.chunks as f64 - (300.0 / 4.0 + 10.0)).abs() <= 1.0, "{}", film.chunks);
    assert_eq!(film.switches, 3, "up, and never down");
    assert!(film.bitrate > 3.4e6 && film.bitrate < 4e6, "{}", film.bitrate);
}

#[test]
fn a_film_stalls_as_much_as_the_link_is_too_slow_for_its_only_quality() {
    let results = run("400s", &flow("video", "levels = [\"20Mbit\"]\nbuffer = \"40s\"\ntcp = \"linux\"\n"));
    let film = of(&results).video.as_ref().expect("a film");
    // It plays as much of the time as the link's goodput is of its rate: 9.6 of 20.
    let share = film.played_s / 400.0;
    assert!((0.45..0.485).contains(&share), "{share}");
    assert!(film.stalls > 20, "{}", film.stalls);
    let sum = film.played_s + film.stalled_s + film.start_s.expect("it began");
    assert!((sum - 400.0).abs() < 1e-6, "{sum}");
}

#[test]
fn a_film_that_is_over_is_no_stall_and_its_length_is_played() {
    let text = flow("video", "levels = [\"1Mbit\"]\nlength = \"30s\"\nbuffer = \"20s\"\ntcp = \"linux\"\n");
    let results = run("100s", &text);
    let film = of(&results).video.as_ref().expect("a film");
    assert_eq!((film.chunks, film.stalls), (8, 0));
    assert!((film.played_s - 30.0).abs() < 1e-9, "{}", film.played_s);
}

#[test]
fn a_call_alone_is_as_good_as_its_codec_and_loss_and_delay_make_it_worse() {
    let mos = |link: &str, keys: &str| {
        let text = format!("[[link]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\n{link}");
        let results = run("60s", &(flow("call", keys).replace("[[flow]]", "[[flow]]\nvia = [\"x\"]") + &text));
        let call = of(&results).call.clone().expect("a call");
        (call.mos.expect("frames were played"), call)
    };
    let (best, call) = mos("delay = \"5ms\"\n", "");
    assert!((best - 4.41).abs() < 0.01, "{best}");
    // 60 s of frames, but for those that are played after the end.
    assert!((2994..=3000).contains(&call.frames) && call.lost + call.late == 0, "{call:?}");
    // Frame 20 ms, way 5 ms and 200 bytes at 1 Mbit/s, playout 60 ms.
    assert!((call.delay_s.expect("frames came") - 0.0866).abs() < 1e-6, "{call:?}");
    let (lossy, call) = mos("delay = \"5ms\"\nloss = \"5%\"\n", "");
    let missing = call.lost as f64 / call.frames as f64;
    // Five deviations of a share of 3000.
    assert!((missing - 0.05).abs() < 0.02, "{missing}");
    // 95 * 5 / (5 + 25.1) = 15.8: R 77.4, MOS 3.9.
    assert!((lossy - 3.93).abs() < 0.25, "{lossy}");
    assert!((call.burst_ratio - 1.0).abs() < 0.15, "{}", call.burst_ratio);
    let (far, _) = mos("delay = \"300ms\"\n", "");
    // Idd at 386.6 ms is 22.6: R 70.6, MOS 3.6.
    assert!((far - 3.62).abs() < 0.1, "{far}");
    let (plain, _) = mos("delay = \"5ms\"\nloss = \"5%\"\n", "codec = \"g711-plain\"\n");
    assert!(plain < lossy - 1.0, "{plain} and {lossy}");
    // Jitter that the buffer does not hold.
    let jitter = "delay = \"100ms\"\njitter = \"30ms\"\nreorder = true\n";
    let (short, call) = mos(jitter, "playout = \"10ms\"\n");
    let (long, _) = mos(jitter, "playout = \"150ms\"\n");
    assert!(call.late > 100 && long > short + 0.5, "{short} and {long}, {call:?}");
}

#[test]
fn failover_is_told_where_an_outage_begins_in_the_measured_time_and_only_there() {
    let text = |outage: &str| {
        let link =
            format!("[[link]]\nname = \"x\"\nfrom = \"a\"\nto = \"b\"\nrate = \"1Mbit\"\ndelay = \"5ms\"\n{outage}");
        flow("constant", "rate = \"400kbit\"\nsize = \"500B\"\nvia = [\"x\"]\n") + &link
    };
    let failover = |outage: &str| of(&run("10s", &text(outage))).failover;
    assert_eq!(failover(""), None);
    let found = failover("outages = [\"3s+2s\"]\n").expect("an outage");
    // A packet every 10 ms; what was under way takes 9 ms.
    assert!((found - 2.0).abs() < 0.025, "{found}");
    let every = failover("outages = [\"1s+500ms/4s\"]\n").expect("outages");
    assert!((every - 0.5).abs() < 0.025, "each is as long: {every}");
}
