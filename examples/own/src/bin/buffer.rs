//! A buffer policy of one's own: what arrives is dropped with the square of the share of the buffer that is taken.

use fairspan_core::buffer::{Backlog, Policy, PolicyConfig, PolicyMaker, Reason, Room, Verdict};
use fairspan_core::rng::Rng;
use fairspan_core::units::{FlowNumber, Time};
use fairspan_example_own::{PAIR, run};

/// What it draws from.
#[derive(Clone, Debug)]
struct Square(Rng);

impl Policy<()> for Square {
    fn admit(&mut self, _: Time, _: FlowNumber, (): &(), backlog: &Backlog) -> Verdict {
        match backlog.room() {
            Room::Enough if self.0.unit() < backlog.fill_before().powi(2) => Verdict::Mark(Reason::Early),
            Room::Enough => Verdict::Pass,
            Room::TooLittle => Verdict::Drop(Reason::Full),
            Room::Never => Verdict::Drop(Reason::TooLarge),
        }
    }
}

fn main() {
    let text = format!("{PAIR}[[flow]]\nname = \"f#\"\ncount = 4\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\n");
    let tail = run(&text, |_| {});
    let own = run(&text, |scenario| {
        let make = PolicyMaker(|seed| Box::new(Square(Rng::new(seed))));
        scenario.links[0].profile.buffer = PolicyConfig::Own { make, victim: None };
    });
    for (name, results) in [("drop-tail", tail), ("own", own)] {
        let link = &results.links[0];
        println!("{name}: {:.2} Mbit/s, {} bytes wait on average", results.goodput / 1e6, link.queue_mean.round());
    }
}
