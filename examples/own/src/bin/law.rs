//! A law of congestion control of one's own: a window that never changes, which is right where everything of the path is known.

use fairspan_core::congestion::{Acked, Config, Congested, Law, LawMaker, Sent};
use fairspan_core::units::{Bytes, Rate, Span};
use fairspan_example_own::{PAIR, run};
use fairspan_sim::model::Transport;

/// So many bytes under way, whatever happens.
#[derive(Clone, Debug)]
struct Fixed(Bytes);

impl Law for Fixed {
    fn on_sent(&mut self, _: &Sent) {}
    fn on_acked(&mut self, _: &Acked) {}
    fn on_lost(&mut self, _: &Congested) {}
    fn on_ecn(&mut self, _: &Congested) {}
    fn on_timeout(&mut self, _: &Congested) {}
    fn on_idle(&mut self, _: Span) {}
    fn on_recovery(&mut self, _: Bytes) {}
    fn on_undo(&mut self) {}

    fn window(&self) -> Bytes {
        self.0
    }

    fn threshold(&self) -> Bytes {
        self.0
    }

    fn wants_delivery_rate(&self) -> bool {
        false
    }

    fn pacing_rate(&self) -> Option<Rate> {
        None
    }
}

/// 36 segments are what 10 Mbit/s carry in 41 ms, the round trip of an empty link, and a few packets more.
fn fixed(config: &Config) -> Box<dyn fairspan_core::congestion::OwnLaw> {
    Box::new(Fixed(Bytes::new(36 * u64::from(config.window.segment))))
}

fn main() {
    let text = format!("{PAIR}[[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\nkind = \"ftp\"\n");
    let reno = run(&text, |_| {});
    let own = run(&text, |scenario| {
        if let Transport::Tcp(tcp) = &mut scenario.flows[0].transport {
            tcp.own_law = Some(LawMaker(fixed));
        }
    });
    for (name, results) in [("reno", reno), ("own", own)] {
        let (flow, link) = (&results.flows[0], &results.links[0]);
        println!("{name}: {:.2} Mbit/s, {} bytes wait on average", flow.goodput / 1e6, link.queue_mean.round());
    }
}
