//! What the examples share: a scenario's text becomes a scenario, which can be changed before it runs.
//!
//! A part of one's own has no name in files. Each example reads a scenario, puts its part where the file's was, and runs both.
//! Nothing here knows more of fairspan than any other crate may.

use fairspan_sim::model::Scenario;
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use fairspan_sim::world::World;

/// Two hosts with a link of 10 Mbit/s and 20 ms between them, and 60 packets of room.
pub const PAIR: &str = r#"
duration = "30s"
warm_up = "5s"
[[node]]
name = ["a", "b"]
[[link]]
name = "wire"
from = "a"
to = "b"
rate = "10Mbit"
delay = "20ms"
queue = "60 packets"
"#;

/// Runs a scenario file with `change` made to what it became.
///
/// # Panics
/// Where the file or what became of it cannot be run: it says why.
pub fn run(text: &str, change: impl FnOnce(&mut Scenario)) -> Results {
    let mut files = |name: &str| Err(format!("{name}: there are no files here"));
    let file = File::parse("example.toml", text, &mut files).unwrap_or_else(|errors| panic!("{errors:#?}"));
    let mut run = file.run(0).expect("a run").unwrap_or_else(|errors| panic!("{errors:#?}"));
    change(&mut run.scenario);
    World::new(&run.scenario).and_then(World::finish).unwrap_or_else(|error| panic!("{error}"))
}
