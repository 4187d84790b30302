//! A link policy of one's own: of a bond's links, each packet takes the one that what waits leaves first.

use fairspan_core::select::own::{Config, SelectMaker};
use fairspan_core::select::{Frame, Links, Policy, Select, Settings};
use fairspan_core::set::LinkSet;
use fairspan_core::units::Time;
use fairspan_example_own::run;

/// Looks at nothing but when links are free.
#[derive(Clone, Debug)]
struct FirstFree;

impl Select for FirstFree {
    fn select(&mut self, _: Time, _: &Frame<'_>, links: &Links) -> LinkSet {
        let free = links.each_usable().min_by_key(|(_, state)| (state.free, state.backlog));
        free.map(|(link, _)| link).into_iter().collect()
    }
}

const BOND: &str = r#"
duration = "10s"
[[node]]
name = ["a", "b"]
[[link]]
name = "slow"
from = "a"
to = "b"
rate = "4Mbit"
[[link]]
name = "fast"
from = "a"
to = "b"
rate = "12Mbit"
[[bond]]
name = "both"
ends = ["a", "b"]
links = ["slow", "fast"]
mode = "flow"
policy = "balance-rr"
[[flow]]
name = "f"
from = "a"
to = "b"
kind = "constant"
rate = "14Mbit"
size = "1000B"
"#;

fn main() {
    let turns = run(BOND, |_| {});
    let own = run(BOND, |scenario| {
        let make = SelectMaker(|_| Box::new(FirstFree));
        scenario.bonds[0].config.policy = Settings::from(Policy::Own(Config { make }));
    });
    for (name, results) in [("balance-rr", turns), ("own", own)] {
        println!("{name}: {:.2} Mbit/s", results.flows[0].throughput / 1e6);
    }
}
