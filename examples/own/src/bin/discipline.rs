//! An order of packets of one's own: the shortest packet goes first.

use fairspan_core::queue::{DisciplineConfig, Order, OrderMaker, Ticket};
use fairspan_example_own::{PAIR, run};
use std::collections::BTreeSet;

/// Sizes and numbers of the packets that wait. Of equally long ones the one with the lowest number goes first.
#[derive(Clone, Debug, Default)]
struct Shortest {
    waiting: BTreeSet<(u32, u32)>,
    /// Sizes by number.
    sizes: Vec<u32>,
}

impl Order for Shortest {
    fn enqueue(&mut self, packet: Ticket) {
        let place = packet.number as usize;
        self.sizes.resize(self.sizes.len().max(place + 1), 0);
        self.sizes[place] = packet.size;
        self.waiting.insert((packet.size, packet.number));
    }

    fn first(&self) -> Option<u32> {
        self.waiting.first().map(|packet| packet.1)
    }

    fn remove(&mut self, number: u32) {
        self.waiting.remove(&(self.sizes[number as usize], number));
    }
}

fn main() {
    let mut text = PAIR.to_owned();
    for (name, rate, size) in [("call", "100kbit", "200B"), ("bulk", "12Mbit", "1500B")] {
        text += &format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\nkind = \"poisson\"\n");
        text += &format!("rate = \"{rate}\"\nsize = \"{size}\"\n");
    }
    let fifo = run(&text, |_| {});
    let own = run(&text, |scenario| {
        scenario.links[0].profile.discipline = DisciplineConfig::Own(OrderMaker(|| Box::new(Shortest::default())));
    });
    for (name, results) in [("fifo", fifo), ("own", own)] {
        println!("{name}: the call's packets take {:.1} ms", results.flows[0].delay.mean * 1e3);
    }
}
