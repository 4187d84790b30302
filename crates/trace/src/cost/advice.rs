//! What traffic can afford: which of the queues that were measured keep up with a link on the processor that they may have.
//!
//! Source: hybrid-gateways paper, 2.6.4 and 2.7. What it recommends is a preference among what can be afforded: SFQ rather than WFQ,
//! which serves about as fairly and costs much less; DRR rather than stochastic FQ, which costs nearly the same and serves better;
//! any of them rather than FIFO. WFQ is taken only where nothing else that is fair was measured.
//!
//! Departures: the order among disciplines that the paper does not compare follows from their bounds. A queue is afforded if 99 of 100 packets
//! take no longer than a packet may (what is left waits, briefly); it is afforded on average if their mean does not.

use super::meter::Spread;
use fairspan_core::queue::DisciplineConfig;
use fairspan_core::units::Rate;

/// What a packet may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// The link that is to be kept busy.
    pub link: Rate,
    /// The share of one processor that there is for it.
    pub processor: f64,
    /// Bytes of a packet, on average.
    pub mean_length: f64,
}

impl Budget {
    /// Packets a second that keep the link busy.
    pub fn packets_s(&self) -> f64 {
        self.link.as_bits_per_sec() as f64 / (8.0 * self.mean_length)
    }

    /// Nanoseconds for each of them.
    pub fn ns(&self) -> f64 {
        1e9 * self.processor / self.packets_s()
    }

    /// The fastest link, in bit/s, that is kept busy where a packet takes so many nanoseconds on average.
    pub fn carries(&self, mean_ns: f64) -> f64 {
        8.0 * self.mean_length * 1e9 * self.processor / mean_ns.max(1e-3)
    }

    /// Whether this is afforded.
    pub fn affords(&self, ns: &Spread) -> Affords {
        if ns.p99.max(ns.mean) <= self.ns() {
            Affords::Yes
        } else if ns.mean <= self.ns() {
            Affords::OnAverage
        } else {
            Affords::No
        }
    }
}

/// Whether something is afforded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Affords {
    /// Not even the mean.
    No,
    /// The mean is, and more than one packet in a hundred takes longer.
    OnAverage,
    /// At least 99 of 100 packets.
    Yes,
}

impl Affords {
    /// In tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Affords::No => "no",
            Affords::OnAverage => "on average",
            Affords::Yes => "yes",
        }
    }
}

/// How good a discipline is, the larger the better, and why; `None`: it is for other ends than fair shares of flows.
pub fn preference(discipline: &DisciplineConfig) -> Option<(u8, &'static str)> {
    Some(match discipline {
        DisciplineConfig::Sfq => {
            (11, "shares by bytes that are fair at any moment, and short delays for flows that send little")
        }
        DisciplineConfig::Qfq { .. } => {
            (10, "shares by bytes that are nearly those of WFQ; what it costs does not grow with the flows")
        }
        DisciplineConfig::Scfq => {
            (9, "shares by bytes that are fair at any moment; delays grow with the number of flows")
        }
        DisciplineConfig::Wfq { .. } => (8, "the tightest bounds of delay, at the highest cost"),
        DisciplineConfig::FlowQueue { .. } => (7, "shares by bytes, and flows that begin go first"),
        DisciplineConfig::Drr { .. } => (6, "shares by bytes, fair over whole rounds"),
        DisciplineConfig::Srr { .. } => (5, "shares by bytes, fair over whole rounds"),
        DisciplineConfig::Wrr { .. } => (4, "shares by estimated bytes"),
        DisciplineConfig::Rfq => (2, "shares by estimated bytes, and by chance: equal in the long run only"),
        DisciplineConfig::Stochastic { .. } => (3, "shares by bytes, but flows of one bucket share one"),
        DisciplineConfig::RoundRobin => (1, "shares by packets: who sends large ones has more"),
        DisciplineConfig::Fifo => (0, "no flow is told from another: who sends most has most"),
        _ => return None,
    })
}

/// The number of the one to take: of those that are afforded best, the best discipline; of equals the first. `None`: none of them is
/// for fair shares, or none is afforded.
pub fn recommended(of: &[(DisciplineConfig, Affords)]) -> Option<usize> {
    let ranked = of.iter().enumerate().filter_map(|(place, (discipline, affords))| {
        let (rank, _) = preference(discipline)?;
        // FIFO is what there is without fairness: even on average the others are better.
        let fair = rank > 0;
        (*affords != Affords::No).then_some(((fair, *affords, rank), std::cmp::Reverse(place)))
    });
    ranked.max().map(|(_, place)| place.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget() -> Budget {
        // 1 Gbit/s and 500 bytes: 250,000 packets/s. A quarter of a processor: 1000 ns for each.
        Budget { link: Rate::from_mbit(1000), processor: 0.25, mean_length: 500.0 }
    }

    fn spread(mean: f64, p99: f64) -> Spread {
        Spread { mean, p99, ..Spread::default() }
    }

    #[test]
    fn a_packet_may_take_its_share_of_the_processor() {
        assert_eq!((budget().packets_s(), budget().ns()), (250_000.0, 1000.0));
        assert_eq!(budget().carries(500.0), 2e9);
        let affords =
            [(900.0, 1000.0), (900.0, 1001.0), (1001.0, 900.0)].map(|(mean, p99)| budget().affords(&spread(mean, p99)));
        assert_eq!(affords, [Affords::Yes, Affords::OnAverage, Affords::No]);
    }

    #[test]
    fn the_fairest_that_is_afforded_is_recommended_and_sfq_before_wfq() {
        let list = |list: &[(&str, Affords)]| -> Vec<(DisciplineConfig, Affords)> {
            list.iter().map(|(name, affords)| (name.parse().expect("a discipline"), *affords)).collect()
        };
        let best = |of: &[(&'static str, Affords)]| recommended(&list(of)).map(|place| of[place].0);
        use Affords::{No, OnAverage, Yes};
        assert_eq!(best(&[("fifo", Yes), ("wfq", Yes), ("drr", Yes), ("sfq", Yes)]), Some("sfq"));
        assert_eq!(best(&[("wfq", No), ("stochastic", Yes), ("drr", Yes), ("sfq", OnAverage)]), Some("drr"));
        assert_eq!(best(&[("fifo", Yes), ("drr", OnAverage)]), Some("drr"));
        assert_eq!(best(&[("fifo", Yes), ("drr", No)]), Some("fifo"));
        assert_eq!(best(&[("fifo", No), ("drr", No)]), None);
    }
}
