//! The scenario of a simulation, as a file that `fairspan sim` runs too.

use super::setup::Setup;
use fairspan_core::ring::algorithm::Algorithm;
use fairspan_core::ring::{Class, NodeId};
use std::fmt::Write as _;

/// Points of a series at most: the interval grows with the duration.
const MOST_POINTS: u64 = 5000;

/// IPv4 and TCP without options.
const TCP_HEADERS: u64 = 40;

/// The whole file. With `series`: rates and limiters over time.
pub(super) fn text(setup: &Setup, algorithm: &Algorithm, seed: u64, series: bool) -> String {
    let problem = &setup.problem;
    let nodes = problem.nodes();
    let mut text = format!(
        "title = \"{algorithm} on a ring of {nodes} nodes\"\n\
         duration = \"{}ns\"\nwarm_up = \"{}ns\"\nseed = {seed}\n\
         # What flows offer is what they are said to demand; no drift at all would leave them in lockstep.\ndrift = \"1ppm\"\n\n\
         [[node]]\nname = \"n#\"\ncount = {nodes}\nfirst = 1\n\n\
         # Nodes know the ring from the beginning, so that all control messages are those of the algorithm.\n\
         [[ring]]\nname = \"ring\"\nnodes = \"n#\"\ncount = {nodes}\ntopology = \"{}\"\nalgorithm = \"{algorithm}\"\n\
         rate = \"{}bit\"\ndelay = \"{}ns\"\ninterval = \"{}ns\"\nbuffer = \"{}B\"\nstation_buffer = \"{}B\"\n\
         discovery = false\n",
        setup.duration_ns,
        setup.phases().measured.as_nanos(),
        if problem.links() < nodes { "line" } else { "ring" },
        setup.usual(),
        setup.delay_ns,
        setup.interval_ns,
        setup.buffer,
        setup.buffer,
    );
    weights(&mut text, setup);
    links(&mut text, setup);
    for index in 0..setup.flows.len() {
        flow(&mut text, setup, index);
    }
    if series {
        let finest = setup.duration_ns.div_ceil(MOST_POINTS);
        let _ = write!(text, "\n[metrics]\nseries = \"{}ns\"\n", finest.max(setup.interval_ns));
    }
    text
}

fn weights(text: &mut String, setup: &Setup) {
    let weight = |node: usize| setup.problem.weight(NodeId::at(node));
    let unlike = (0..setup.problem.nodes()).filter(|&node| weight(node) != 1.0);
    let list: Vec<String> = unlike.map(|node| format!("n{} = {}", node + 1, weight(node))).collect();
    if !list.is_empty() {
        let _ = writeln!(text, "weights = {{ {} }}", list.join(", "));
    }
}

/// The links that carry something else than most.
fn links(text: &mut String, setup: &Setup) {
    for link in 0..setup.problem.links() {
        let [rate, back] = setup.ways(link);
        if [rate, back] != [setup.usual(); 2] {
            let _ = write!(
                text,
                "\n[[ring.links]]\nlink = {}\nrate = \"{rate}bit\"\nrate_back = \"{back}bit\"\n",
                link + 1
            );
        }
    }
}

fn flow(text: &mut String, setup: &Setup, index: usize) {
    let (flow, offered) = (&setup.problem.flows()[index], &setup.flows[index]);
    // A source that sends nothing is none.
    if offered.rate == 0 {
        return;
    }
    let _ = write!(text, "\n[[flow]]\nname = \"{}\"\nfrom = \"n{}\"\nto = \"n{}\"\n", offered.name, flow.from, flow.to);
    let packet = offered.packet;
    let _ = if offered.tcp {
        // Reno as papers of its time simulated it, its window bounded by nothing but losses.
        let mss = packet - TCP_HEADERS;
        writeln!(
            text,
            "kind = \"ftp\"\ntcp = {{ preset = \"ns2-1999\", mss = {mss}, window_limit = 0, initial_threshold = \"unlimited\" }}"
        )
    } else {
        writeln!(text, "kind = \"constant\"\nrate = \"{}bit\"\nsize = \"{packet}B\"", offered.rate)
    };
    // Always said: a connection without it begins at some time of the first second.
    let _ = writeln!(text, "start = \"{}ns\"", offered.start_ns);
    if let Some(stop) = offered.stop_ns {
        let _ = writeln!(text, "stop = \"{stop}ns\"");
    }
    match offered.class {
        Class::A => text.push_str("class = \"A\"\n"),
        Class::B => text.push_str("class = \"B\"\n"),
        Class::C => {}
    }
    if let Some(ringlet) = offered.ringlet {
        let _ = writeln!(text, "ringlet = {}", ringlet.index());
    }
}
