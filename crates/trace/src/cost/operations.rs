//! What a discipline costs for each packet, by the paper's cost functions.
//!
//! Source: hybrid-gateways paper, Table 2.1 and 2.6.4 (Figures 2.5 and 2.6). Every overhead of the table has the same weight,
//! whatever its constant: searching the flow, computing the tag, scheduling the packet for service, and holding the flows' state, which
//! counts as N. What dropping costs is left out, as there: it goes with the packets that are dropped.
//!
//! | discipline | flow search | tag | state | service |
//! |---|---|---|---|---|
//! | WFQ | F | N | N | log2(2 N) |
//! | SFQ | F | 1 | N | log2(2 N) |
//! | DRR | F | | N | |
//! | stochastic FQ | 1 | | N | |
//!
//! N: active flows. F: entries of the flow's chain in the hash table that are searched, one after the other, on average over the
//! whole run.
//!
//! Departures: SCFQ, VirtualClock and Delay-EDD, of which the paper says in 2.2 that they cost the like, count as SFQ; other round robins and queues
//! for new flows as DRR; FIFO as nothing, because what DRR costs more than FIFO is its flow search and its state. QFQ, disciplines
//! of two levels and others have no such function: the paper does not know them.

use fairspan_core::queue::DisciplineConfig;

/// Which overheads a discipline has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operations {
    /// Whether the flow is searched in a chain; otherwise that takes one operation, or none where flows are not told apart.
    searches: bool,
    flows: bool,
    tag: Tag,
}

/// What computing and sorting by a tag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tag {
    None,
    /// One operation.
    Constant,
    /// As many as there are active flows.
    Linear,
}

impl Operations {
    /// Those of `discipline`; `None`: the paper does not tell.
    pub fn of(discipline: &DisciplineConfig) -> Option<Operations> {
        let fair = |tag| Some(Operations { searches: true, flows: true, tag });
        match discipline {
            DisciplineConfig::Fifo => Some(Operations { searches: false, flows: false, tag: Tag::None }),
            DisciplineConfig::Stochastic { .. } => Some(Operations { searches: false, flows: true, tag: Tag::None }),
            DisciplineConfig::RoundRobin
            | DisciplineConfig::Drr { .. }
            | DisciplineConfig::Wrr { .. }
            | DisciplineConfig::FlowQueue { .. }
            | DisciplineConfig::Srr { .. } => fair(Tag::None),
            DisciplineConfig::Sfq
            | DisciplineConfig::Scfq
            | DisciplineConfig::VirtualClock { .. }
            | DisciplineConfig::DelayEdd { .. } => fair(Tag::Constant),
            DisciplineConfig::Wfq { .. } => fair(Tag::Linear),
            _ => None,
        }
    }

    /// How many for a packet that finds `active` flows, itself among them, where `entries` are searched.
    pub fn count(self, active: u32, entries: f64) -> f64 {
        if !self.flows {
            return 0.0;
        }
        let n = f64::from(active.max(1));
        let search = if self.searches { entries } else { 1.0 };
        let service = (2.0 * n).log2();
        search
            + n
            + match self.tag {
                Tag::None => 0.0,
                Tag::Constant => 1.0 + service,
                Tag::Linear => n + service,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(name: &str, active: u32, entries: f64) -> f64 {
        Operations::of(&name.parse().expect("a discipline")).expect("known").count(active, entries)
    }

    #[test]
    fn operations_are_those_of_table_2_1() {
        // 8 active flows, 2.5 entries searched: log2(16) is 4.
        assert_eq!(count("wfq", 8, 2.5), 2.5 + 8.0 + 8.0 + 4.0);
        assert_eq!(count("sfq", 8, 2.5), 2.5 + 1.0 + 8.0 + 4.0);
        assert_eq!(count("scfq", 8, 2.5), count("sfq", 8, 2.5));
        assert_eq!(count("drr", 8, 2.5), 2.5 + 8.0);
        assert_eq!(count("stochastic", 8, 2.5), 1.0 + 8.0);
        assert_eq!(count("fifo", 8, 2.5), 0.0);
    }

    #[test]
    fn wfq_costs_most_by_far_sfq_a_little_more_than_drr_and_stochastic_a_little_less() {
        // Figures 2.5 and 2.6: the backbone trace has up to 795 active flows.
        let [wfq, sfq, drr, stochastic] = ["wfq", "sfq", "drr", "stochastic"].map(|name| count(name, 795, 1.3));
        assert!(wfq > 1.9 * sfq && sfq > drr && sfq < 1.02 * drr, "{wfq} {sfq} {drr}");
        assert!(stochastic < drr && stochastic > 0.99 * drr, "{stochastic} {drr}");
    }
}
