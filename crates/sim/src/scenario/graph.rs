//! Graphs of a known shape: nodes and links of a whole network from one table.
//!
//! | shape | source |
//! |---|---|
//! | fat tree of k ports | Al-Fares, Loukissas, Vahdat, SIGCOMM 2008: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 core switches |
//! | dragonfly | Kim, Dally, Scott, Abts, ISCA 2008: groups of fully meshed routers, and one link between any two groups |
//! | random | connected, without loops or double links, as many links as the degree says on average |
//! | dumbbell, star, ring of rings | |
//! | GraphML | a file, see [`graphml`] |
//!
//! Names begin with the graph's own: `G-h0` is a host, `G-s0` a switch, `G-e0`, `G-a0` and `G-c0` an edge, aggregation and core switch of a
//! fat tree, `G-l0` and `G-r0` the hosts of a dumbbell. A link is called after its ends, `G-h0:e0`. What a graph would have is counted
//! before anything is made. A random graph is drawn from a seed of its own, so that it is the same in all runs.

use super::error::Problem;
use super::form::{Defaults, Errors, Form};
use super::graphml;
use super::link::{self, Direction};
use super::names::Pattern;
use super::store::Store;
use super::topology::{MOST, Topology, register};
use crate::model::{HostCost, Node};
use fairspan_core::rng::Rng;

/// Shapes by their names in scenarios; `None`: a file has it.
const SHAPES: [(&str, Option<Shape>); 7] = [
    ("star", Some(Shape::Star)),
    ("dumbbell", Some(Shape::Dumbbell)),
    ("fat-tree", Some(Shape::FatTree)),
    ("dragonfly", Some(Shape::Dragonfly)),
    ("ring-of-rings", Some(Shape::RingOfRings)),
    ("random", Some(Shape::Random)),
    ("graphml", None),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Star,
    Dumbbell,
    FatTree,
    Dragonfly,
    RingOfRings,
    Random,
}

/// A graph while it is made: names of nodes behind the graph's own, and pairs of places in them.
#[derive(Debug, Default)]
struct Graph {
    /// Name, and whether it forwards.
    nodes: Vec<(String, bool)>,
    links: Vec<[usize; 2]>,
}

impl Graph {
    fn node(&mut self, name: String, forwards: bool) -> usize {
        self.nodes.push((name, forwards));
        self.nodes.len() - 1
    }

    fn switch(&mut self, kind: char, number: u64) -> usize {
        self.node(format!("{kind}{number}"), true)
    }

    /// A host behind a switch.
    fn host(&mut self, kind: char, number: u64, switch: usize) {
        let host = self.node(format!("{kind}{number}"), false);
        self.links.push([host, switch]);
    }

    fn link(&mut self, a: usize, b: usize) {
        self.links.push([a, b]);
    }
}

/// What a shape is made of, read and bounded.
#[derive(Clone, Copy, Debug)]
enum Plan {
    Star { hosts: u64 },
    Dumbbell { hosts: u64 },
    FatTree { k: u64 },
    Dragonfly { routers: u64, hosts: u64, global: u64 },
    RingOfRings { rings: u64, switches: u64, hosts: u64 },
    Random { switches: u64, degree: u64, hosts: u64, seed: u64 },
}

impl Plan {
    fn read(shape: Shape, form: &mut Form<'_>, errors: &mut Errors<'_>) -> Option<Plan> {
        let before = errors.count();
        let needed = |form: &mut Form<'_>, key: &'static str, least: u64, what: &str, errors: &mut Errors<'_>| {
            if !form.has(key) {
                form.missing(key, what, errors);
            }
            form.integer(key, least..=MOST, errors).unwrap_or(least)
        };
        let plan = match shape {
            Shape::Star => {
                Plan::Star { hosts: needed(form, "hosts", 1, "how many hosts are around the switch", errors) }
            }
            Shape::Dumbbell => {
                Plan::Dumbbell { hosts: needed(form, "hosts", 1, "how many hosts are on each side", errors) }
            }
            Shape::FatTree => {
                let k = needed(form, "k", 2, "how many ports a switch has: an even number", errors);
                if k % 2 > 0 {
                    form.conflict("k", format!("a fat tree of {k} ports; the number is even"), errors);
                }
                Plan::FatTree { k }
            }
            Shape::Dragonfly => Plan::Dragonfly {
                routers: needed(form, "switches", 1, "how many switches a group has", errors),
                hosts: form.integer("hosts", 1..=MOST, errors).unwrap_or(1),
                global: needed(form, "global", 1, "how many links to other groups a switch has", errors),
            },
            Shape::RingOfRings => Plan::RingOfRings {
                rings: needed(form, "rings", 3, "how many rings the ring of rings has", errors),
                switches: needed(form, "switches", 3, "how many switches a ring has", errors),
                hosts: form.integer("hosts", 1..=MOST, errors).unwrap_or(1),
            },
            Shape::Random => {
                let switches = needed(form, "switches", 2, "how many switches there are", errors);
                let degree = needed(form, "degree", 1, "how many links a switch has on average", errors);
                let hosts = form.integer("hosts", 1..=MOST, errors).unwrap_or(1);
                let seed = form.integer("seed", 0..=u64::MAX >> 1, errors).unwrap_or(1);
                if degree >= switches || switches.saturating_mul(degree) < 2 * (switches - 1) {
                    let text = format!(
                        "a degree of {degree} with {switches} switches: a connected graph without double links has at least 2 - 2/{switches} \
                         and at most {}",
                        switches - 1
                    );
                    form.conflict("degree", text, errors);
                }
                Plan::Random { switches, degree, hosts, seed }
            }
        };
        (errors.count() == before).then_some(plan)
    }

    /// How many nodes and links it will have.
    fn size(self) -> [u128; 2] {
        let of = |value: u64| u128::from(value);
        match self {
            Plan::Star { hosts } => [of(hosts) + 1, of(hosts)],
            Plan::Dumbbell { hosts } => [2 * of(hosts) + 2, 2 * of(hosts) + 1],
            Plan::FatTree { k } => {
                let half = of(k) / 2;
                [2 * half * half * half + 5 * half * half, 6 * half * half * half]
            }
            Plan::Dragonfly { routers, hosts, global } => {
                let groups = of(routers) * of(global) + 1;
                let within = of(routers) * (of(routers) - 1) / 2;
                [
                    groups * of(routers) * (1 + of(hosts)),
                    groups * (within + of(routers) * of(hosts)) + groups * (groups - 1) / 2,
                ]
            }
            Plan::RingOfRings { rings, switches, hosts } => {
                let all = of(rings) * of(switches);
                [all * (1 + of(hosts)), all * (1 + of(hosts)) + of(rings)]
            }
            Plan::Random { switches, degree, hosts, .. } => {
                [of(switches) * (1 + of(hosts)), of(switches) * of(hosts) + of(switches) * of(degree) / 2]
            }
        }
    }

    fn make(self) -> Graph {
        let mut graph = Graph::default();
        match self {
            Plan::Star { hosts } => {
                let switch = graph.switch('s', 0);
                (0..hosts).for_each(|host| graph.host('h', host, switch));
            }
            Plan::Dumbbell { hosts } => {
                let [left, right] = [graph.switch('s', 0), graph.switch('s', 1)];
                graph.link(left, right);
                for host in 0..hosts {
                    graph.host('l', host, left);
                    graph.host('r', host, right);
                }
            }
            Plan::FatTree { k } => fat_tree(&mut graph, k / 2),
            Plan::Dragonfly { routers, hosts, global } => dragonfly(&mut graph, routers, hosts, global),
            Plan::RingOfRings { rings, switches, hosts } => {
                for ring in 0..rings {
                    let first = ring * switches;
                    let its: Vec<usize> = (first..first + switches).map(|number| graph.switch('s', number)).collect();
                    for (place, &switch) in its.iter().enumerate() {
                        graph.link(switch, its[(place + 1) % its.len()]);
                        let host = (first + place as u64) * hosts;
                        (host..host + hosts).for_each(|host| graph.host('h', host, switch));
                    }
                }
                let first = |ring: u64| (ring * switches * (1 + hosts)) as usize;
                (0..rings).for_each(|ring| graph.link(first(ring), first((ring + 1) % rings)));
            }
            Plan::Random { switches, degree, hosts, seed } => random(&mut graph, [switches, degree, hosts], seed),
        }
        graph
    }
}

/// Of 2 `half` ports.
fn fat_tree(graph: &mut Graph, half: u64) {
    let cores: Vec<usize> = (0..half * half).map(|core| graph.switch('c', core)).collect();
    for pod in 0..2 * half {
        let numbers = pod * half..(pod + 1) * half;
        let aggregations: Vec<usize> = numbers.clone().map(|number| graph.switch('a', number)).collect();
        for (place, &aggregation) in aggregations.iter().enumerate() {
            let first = place * half as usize;
            cores[first..first + half as usize].iter().for_each(|&core| graph.link(aggregation, core));
        }
        for number in numbers {
            let edge = graph.switch('e', number);
            aggregations.iter().for_each(|&aggregation| graph.link(edge, aggregation));
            (number * half..(number + 1) * half).for_each(|host| graph.host('h', host, edge));
        }
    }
}

/// Groups of so many routers, each with so many hosts and links to other groups; as many groups as have a link to every other.
fn dragonfly(graph: &mut Graph, routers: u64, hosts: u64, global: u64) {
    let ports = routers * global;
    let groups = ports + 1;
    let switches: Vec<usize> = (0..groups * routers)
        .map(|number| {
            let switch = graph.switch('s', number);
            (number * hosts..(number + 1) * hosts).for_each(|host| graph.host('h', host, switch));
            switch
        })
        .collect();
    let router = |group: u64, router: u64| switches[(group * routers + router) as usize];
    for group in 0..groups {
        for a in 0..routers {
            (a + 1..routers).for_each(|b| graph.link(router(group, a), router(group, b)));
        }
        // Port p of a group leads p + 1 groups on, and comes from there by the port that leads back.
        for port in 0..ports {
            let other = (group + port + 1) % groups;
            if group < other {
                graph.link(router(group, port / global), router(other, (ports - 1 - port) / global));
            }
        }
    }
}

/// A random tree over all, and random links until there are as many as the degree says.
fn random(graph: &mut Graph, [switches, degree, hosts]: [u64; 3], seed: u64) {
    let mut rng = Rng::new(seed);
    let all: Vec<usize> = (0..switches)
        .map(|number| {
            let switch = graph.switch('s', number);
            (number * hosts..(number + 1) * hosts).for_each(|host| graph.host('h', host, switch));
            switch
        })
        .collect();
    let mut order: Vec<u64> = (0..switches).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, rng.below(place as u64 + 1) as usize);
    }
    let mut joined = std::collections::BTreeSet::new();
    for (place, &switch) in order.iter().enumerate().skip(1) {
        let other = order[rng.below(place as u64) as usize];
        joined.insert([switch.min(other), switch.max(other)]);
    }
    // Of all pairs at most, so drawing ends; a full graph is drawn from what is left.
    let wanted = (switches * degree / 2).max(switches - 1) as usize;
    let pairs = (switches * (switches - 1) / 2) as usize;
    if wanted * 2 > pairs {
        let mut left: Vec<[u64; 2]> = (0..switches).flat_map(|a| (a + 1..switches).map(move |b| [a, b])).collect();
        left.retain(|pair| !joined.contains(pair));
        while joined.len() < wanted && !left.is_empty() {
            joined.insert(left.swap_remove(rng.below(left.len() as u64) as usize));
        }
    }
    while joined.len() < wanted.min(pairs) {
        let (a, b) = (rng.below(switches), rng.below(switches));
        if a != b {
            joined.insert([a.min(b), a.max(b)]);
        }
    }
    joined.into_iter().for_each(|[a, b]| graph.link(all[a as usize], all[b as usize]));
}

/// Reads a `[[graph]]` into the topology.
pub(super) fn read<'a>(
    topology: &mut Topology,
    form: &mut Form<'a>,
    defaults: &mut Defaults<'a>,
    store: &Store,
    errors: &mut Errors<'_>,
) {
    const NAME: &str = "a name of letters, digits and `-`, `_`, `/`, `:`";
    if !form.has("name") {
        form.missing("name", NAME, errors);
    }
    let name = form.text("name", errors);
    if name.is_some_and(|name| Pattern::parse(name).is_none_or(|pattern| pattern.varies())) {
        form.conflict("name", format!("expected {NAME}"), errors);
        return;
    }
    if !form.has("shape") {
        let shapes: Vec<String> = SHAPES.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        form.missing("shape", &format!("one of {}", shapes.join(", ")), errors);
    }
    let Some(shape) = form.choice("shape", &SHAPES, errors) else {
        form.forgive();
        return;
    };
    let Some(shape) = shape else {
        graphml::read(topology, name, form, store, errors);
        return;
    };
    let plan = Plan::read(shape, form, errors);
    let core = form.raw_table("core", errors);
    let edge = link::direction(form, store, errors);
    let core = match core {
        Some(table) => {
            let mut inner = Form::over(table, "core", form);
            let direction = link::direction(&mut inner, store, errors);
            inner.finish(Some(defaults), errors);
            direction
        }
        None => edge.clone(),
    };
    let (Some(name), Some(plan), Some(edge), Some(core)) = (name, plan, edge, core) else { return };
    let [nodes, links] = plan.size();
    let so_far = [topology.nodes.len(), topology.links.len()].map(|count| count as u128);
    for (what, count) in [("nodes", so_far[0] + nodes), ("links (both directions count)", so_far[1] + 2 * links)] {
        if count > u128::from(MOST) {
            let problem = Problem::TooMany { what: what.into(), count: count.to_string(), most: MOST };
            errors.add(form.place("shape"), form.key("shape"), problem);
            return;
        }
    }
    build(topology, &plan.make(), name, [&edge, &core], form, errors);
}

/// Adds all nodes and links; those between switches are as the second direction says.
fn build(
    topology: &mut Topology,
    graph: &Graph,
    own: &str,
    directions: [&Direction; 2],
    form: &Form<'_>,
    errors: &mut Errors<'_>,
) {
    let first = topology.nodes.len();
    for (name, forwards) in &graph.nodes {
        let name = format!("{own}-{name}");
        if !register(&mut topology.node_names, "node", &name, topology.nodes.len() as u32, form, errors) {
            return;
        }
        topology.nodes.push(Node { name, cost: HostCost::default() });
        topology.forwards.push(*forwards);
    }
    for &[a, b] in &graph.links {
        let between = graph.nodes[a].1 && graph.nodes[b].1;
        let direction = directions[usize::from(between)];
        let name = format!("{own}-{}:{}", graph.nodes[a].0, graph.nodes[b].0);
        let (ends, number) = ([first + a, first + b].map(|node| node as u32), topology.links.len() as u32);
        let back = format!("{name}/back");
        for (name, number) in [(&name, number), (&back, number + 1)] {
            if !register(&mut topology.link_names, "link", name, number, form, errors) {
                return;
            }
        }
        topology.push(name, ends[0], ends[1], direction, number + 1);
        topology.push(back, ends[1], ends[0], direction, number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The switches that are found from the first one, and all links by their nodes' degrees.
    fn reached(graph: &Graph) -> (usize, Vec<usize>) {
        let mut degrees = vec![0; graph.nodes.len()];
        graph.links.iter().flatten().for_each(|&node| degrees[node] += 1);
        let (mut found, mut seen) = (vec![0], vec![false; graph.nodes.len()]);
        seen[0] = true;
        let mut next = 0;
        while let Some(&node) = found.get(next) {
            next += 1;
            for link in graph.links.iter().filter(|link| link.contains(&node)) {
                let other = link[usize::from(link[0] == node)];
                if !std::mem::replace(&mut seen[other], true) {
                    found.push(other);
                }
            }
        }
        (found.len(), degrees)
    }

    fn plans() -> Vec<Plan> {
        let mut plans = vec![Plan::Star { hosts: 5 }, Plan::Dumbbell { hosts: 3 }];
        plans.extend([2, 4, 8].map(|k| Plan::FatTree { k }));
        plans.extend([(1, 1, 1), (4, 2, 2), (3, 1, 2)].map(|(routers, hosts, global)| Plan::Dragonfly {
            routers,
            hosts,
            global,
        }));
        plans.push(Plan::RingOfRings { rings: 4, switches: 5, hosts: 2 });
        plans.extend((0..20).map(|seed| Plan::Random { switches: 12, degree: 2 + seed % 10, hosts: 1, seed }));
        plans
    }

    #[test]
    fn every_graph_is_connected_has_no_double_link_and_is_as_large_as_was_said() {
        for plan in plans() {
            let graph = plan.make();
            let size = [graph.nodes.len() as u128, graph.links.len() as u128];
            assert_eq!(size, plan.size(), "{plan:?}");
            assert_eq!(reached(&graph).0, graph.nodes.len(), "{plan:?}");
            let mut links: Vec<[usize; 2]> = graph.links.iter().map(|&[a, b]| [a.min(b), a.max(b)]).collect();
            links.sort_unstable();
            links.dedup();
            assert_eq!(links.len(), graph.links.len(), "{plan:?}");
            let mut names: Vec<&String> = graph.nodes.iter().map(|node| &node.0).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), graph.nodes.len(), "{plan:?}");
        }
    }

    #[test]
    fn every_switch_of_a_fat_tree_has_k_ports_in_use_and_every_router_of_a_dragonfly_as_many_as_any_other() {
        let ports = |plan: Plan| {
            let graph = plan.make();
            let degrees = reached(&graph).1;
            let of = graph.nodes.iter().zip(degrees).filter(|(node, _)| node.1).map(|(_, degree)| degree);
            of.collect::<Vec<usize>>()
        };
        for k in [2, 4, 8] {
            assert!(ports(Plan::FatTree { k }).iter().all(|&ports| ports == k as usize), "{k}");
        }
        // 3 routers of its group, 2 hosts, 2 other groups.
        assert!(ports(Plan::Dragonfly { routers: 4, hosts: 2, global: 2 }).iter().all(|&ports| ports == 7));
    }
}
