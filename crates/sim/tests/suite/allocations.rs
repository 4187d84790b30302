//! In the steady state no packet costs an allocation, whatever its way: pools, rings and heaps have grown to what they
//! need. Connections that open and close, series and captures do allocate, and are no part of this; some of a bond's own messages
//! do, some fifty a second.

use fairspan_core::units::Time;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;
use std::sync::Arc;

/// A saturated link from `a` to `b` with these settings, and four flows over it with those.
fn line(link: &str, flow: &str) -> String {
    let link = format!(
        "[[link]]\nname = \"l\"\nfrom = \"a\"\nto = \"b\"\nrate = \"100Mbit\"\ndelay = \"2ms\"\nqueue = \"50kB\"\n{link}"
    );
    format!(
        "[[node]]\nname = [\"a\", \"b\"]\n{link}\n[[flow]]\nname = \"f#\"\nfrom = \"a\"\nto = \"b\"\ncount = 4\n{flow}\n"
    )
}

const CONSTANT: &str = "kind = \"constant\"\nrate = \"30Mbit\"\nsize = \"300B\"";

/// Allocations in the last two thirds of `duration` of the scenario, and packets sent in them.
fn steady(text: &str) -> (u64, u64) {
    let text = format!("title = \"x\"\nduration = \"6s\"\n{text}");
    let mut none = |name: &str| Err(format!("{name}: no files here"));
    let file = File::parse_with("x.toml", &text, &[], &mut none).unwrap_or_else(|errors| panic!("{errors:?}"));
    let run = file.run(0).expect("one run").unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut world = World::shared(Arc::new(run.scenario)).unwrap_or_else(|error| panic!("{error}"));
    world.advance(Time::from_millis(2000));
    let sent = |world: &World| world.check_conservation().unwrap_or_else(|error| panic!("{error}")).sent;
    let before = sent(&world);
    let end = world.end();
    let allocations = allocation_counter::measure(|| world.advance(end)).count_total;
    (allocations, sent(&world) - before)
}

/// What has not grown to its largest size in the first third may still grow, by doubling; a packet must not allocate.
fn check(what: &str, text: &str) {
    let (allocations, packets) = steady(text);
    assert!(packets > 10_000, "{what}: only {packets} packets");
    assert!(allocations < packets / 1000, "{what}: {allocations} allocations for {packets} packets");
}

#[test]
fn datagrams_over_a_saturated_link_allocate_nothing() {
    assert_eq!(steady(&line("", CONSTANT)).0, 0);
    check("Poisson", &line("", "kind = \"poisson\"\nrate = \"30Mbit\"\nsize = \"300B\""));
    check("on-off", &line("", "kind = \"pareto\"\nrate = \"60Mbit\"\nsize = \"300B\"\non = \"10ms\"\noff = \"10ms\""));
    check("jitter", &line("jitter = \"0.5ms\"\nreorder = true\nloss = \"1%\"", CONSTANT));
    check("metrics", &format!("{}[metrics]\ndelay = true\nreordering = true\n", line("", CONSTANT)));
}

#[test]
fn no_discipline_and_no_policy_allocates() {
    for discipline in ["fifo", "drr", "srr", "sfq", "wfq", "flow-queue", "stochastic"] {
        for policy in ["drop-tail", "drop-front", "longest-queue", "random-longest", "pfd", "red", "codel"] {
            let keys = format!("discipline = \"{discipline}\"\nbuffer = \"{policy}\"");
            check(&format!("{discipline} with {policy}"), &line(&keys, CONSTANT));
        }
    }
}

#[test]
fn segments_allocate_nothing() {
    for preset in ["ns2-1999", "rfc", "linux"] {
        check(preset, &line("", &format!("kind = \"ftp\"\ntcp = {{ preset = \"{preset}\" }}")));
    }
}

#[test]
fn the_frames_of_a_bond_allocate_nothing() {
    let links: String = ["x", "y"]
        .map(|name| {
            format!("[[link]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nrate = \"50Mbit\"\ndelay = \"5ms\"\n")
        })
        .concat();
    let bond = "[[bond]]\nname = \"both\"\nends = [\"a\", \"b\"]\nlinks = [\"x\", \"y\"]\n";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nvia = \"both\"\nkind = \"constant\"\nrate = \"60Mbit\"\nsize = \"120B\"\n";
    check("bond", &format!("[[node]]\nname = [\"a\", \"b\"]\n{links}{bond}{flow}"));
}

#[test]
fn a_thousand_flows_allocate_nothing() {
    let nodes = "[[node]]\nname = \"s#\"\ncount = 1000\n[[node]]\nname = [\"hub\", \"sink\"]\nkind = \"router\"\n";
    let links = "[[link]]\nname = \"a#\"\nfrom = \"s#\"\nto = \"hub\"\ncount = 1000\nrate = \"1Gbit\"\ndelay = \"0.1ms\"\n\
                 [[link]]\nname = \"shared\"\nfrom = \"hub\"\nto = \"sink\"\nrate = \"1Gbit\"\ndelay = \"0.1ms\"\n";
    let flows = "[[flow]]\nname = \"f#\"\nfrom = \"s#\"\nto = \"sink\"\ncount = 1000\nkind = \"constant\"\n\
                 rate = \"100kbit\"\nsize = \"1000B\"\nspread = \"100ms\"\n";
    check("a thousand flows", &format!("{nodes}{links}{flows}"));
}

#[test]
fn the_packets_of_a_ring_allocate_nothing() {
    let nodes = "[[node]]\nname = \"n#\"\nfirst = 1\ncount = 6\n";
    for algorithm in ["fifo", "dvsr", "rpr-am"] {
        let ring = format!(
            "[[ring]]\nname = \"r\"\nnodes = \"n#\"\ncount = 6\nrate = \"20Mbit\"\ndelay = \"0.5ms\"\nbuffer = \"20kB\"\n\
             station_buffer = \"20kB\"\nalgorithm = \"{algorithm}\"\n"
        );
        let flow = "[[flow]]\nname = \"f#\"\nfirst = 1\ncount = 3\nfrom = \"n#\"\nto = \"n4\"\nkind = \"constant\"\nrate = \
                    \"12Mbit\"\nsize = \"500B\"\n";
        check(algorithm, &format!("{nodes}{ring}{flow}"));
    }
}
