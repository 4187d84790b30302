//! A workload of one's own: a game that sends states at a fixed rate, larger ones while there is a fight, which it is now and then.

use fairspan_core::rng::Rng;
use fairspan_core::units::Span;
use fairspan_example_own::{PAIR, run};
use fairspan_sim::model::Scenario;
use fairspan_sim::traffic::{Config, Workload, WorkloadMaker};

/// Sixty states a second.
const TICK: Span = Span::from_nanos(16_666_667);

/// States that are left of a fight.
#[derive(Clone, Debug, Default)]
struct Game {
    fight: u32,
}

impl Workload for Game {
    fn next(&mut self, rng: &mut Rng) -> Option<(Span, u32)> {
        // A fight lasts two seconds, and one begins every ten seconds on average.
        if self.fight == 0 && rng.below(600) == 0 {
            self.fight = 120;
        }
        self.fight = self.fight.saturating_sub(1);
        let size = if self.fight > 0 { 400 + rng.below(400) } else { 90 + rng.below(40) };
        Some((TICK, size as u32))
    }
}

fn main() {
    let text = format!(
        "{PAIR}[[flow]]\nname = \"game\"\nfrom = \"a\"\nto = \"b\"\nkind = \"constant\"\nrate = \"64kbit\"\nsize = \"100B\"\n"
    );
    let play = |scenario: &mut Scenario| {
        scenario.flows[0].traffic = Config::Own(WorkloadMaker(|| Box::new(Game::default())));
    };
    for seed in 1..=3 {
        let results = run(&format!("seed = {seed}\n{text}"), play);
        let flow = &results.flows[0];
        println!("seed {seed}: {} states, {:.1} kbit/s", flow.received, flow.throughput / 1e3);
    }
}
