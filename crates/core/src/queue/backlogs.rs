//! Who has the most waiting where groups share first: of all groups one, and of its flows one.
//!
//! What it is: a group has what its flows have together, over its weight, so that a host with many short flows does not hold more of a
//! buffer than one with a single long one. Groups are found by [`Lengths`]. The flows of each group lie in a pairing heap by
//! *upper bounds* of their lengths, as there: a flow that outgrows its bound moves up, and who asks brings the first bound down to
//! the length that it stands for. All heaps are links in one table, since a flow is of one group at a time.
//!
//! By guess (quasi-pushout), each group remembers the flow of which the greatest length was seen, and the group is guessed alike.
//!
//! Source: Fredman, Sedgewick, Sleator and Tarjan, "The pairing heap: a new form of self-adjusting heap", Algorithmica 1, 1986. Cost:
//! amortised O(log n) by bounds; O(1) by guess. Memory: 32 bytes a queue, 24 a group and what [`Lengths`] takes for it. Equal lengths go
//! by number, the least first. Invariant: no flow that has packets is longer than its bound.

use super::discipline::{Index, Unit};
use super::lengths::Lengths;
use super::store::NIL;
use alloc::vec::Vec;

/// What groups and their flows have waiting.
#[derive(Clone, Debug)]
pub(super) struct Backlogs {
    unit: Unit,
    by_guess: bool,
    lengths: Lengths,
    groups: Vec<Group>,
    flows: Vec<Flow>,
    /// Of all groups together, and the weights of those that have packets.
    backlog: u64,
    weights: u64,
}

/// A group.
#[derive(Clone, Copy, Debug)]
struct Group {
    backlog: u64,
    weight: u32,
    /// The flow with the greatest bound, or the one that is guessed, and how long that was when it was seen.
    first: u32,
    seen: u64,
}

/// A flow in the heap of its group.
#[derive(Clone, Copy, Debug)]
struct Flow {
    length: u64,
    /// At least `length`.
    bound: u64,
    child: u32,
    /// The next child of the same parent, and the one before or, of the first, the parent.
    next: u32,
    prev: u32,
}

const NO_GROUP: Group = Group { backlog: 0, weight: 1, first: NIL, seen: 0 };
const NO_FLOW: Flow = Flow { length: 0, bound: 0, child: NIL, next: NIL, prev: NIL };

impl Backlogs {
    /// Those of a discipline that finds its victims by `index`, and the index that is left for its store.
    pub(super) fn of(index: Index) -> (Option<Backlogs>, Index) {
        let (unit, lengths, by_guess) = match index {
            Index::Longest(unit) => (unit, Lengths::exact(unit), false),
            Index::Finish => (Unit::Bytes, Lengths::exact(Unit::Bytes), false),
            Index::Suspect(unit) => (unit, Lengths::guessed(unit), true),
            Index::None | Index::Age => return (None, index),
        };
        let (groups, flows) = (Vec::new(), Vec::new());
        (Some(Backlogs { unit, by_guess, lengths, groups, flows, backlog: 0, weights: 0 }), Index::None)
    }

    /// What lengths are in.
    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    /// `queue` of `group`, which has this weight, is so long now.
    pub(super) fn on_changed(&mut self, group: u32, weight: u32, queue: u32, length: u64) {
        if self.flows.len() <= queue as usize {
            self.flows.resize(queue as usize + 1, NO_FLOW);
        }
        if self.groups.len() <= group as usize {
            self.groups.resize(group as usize + 1, NO_GROUP);
        }
        let before = core::mem::replace(&mut self.flows[queue as usize].length, length);
        self.note_flow(group, queue, before, length);
        let of = &mut self.groups[group as usize];
        let was = of.backlog;
        of.backlog = was - before + length;
        of.weight = weight;
        let (backlog, length_of) = (of.backlog, of.length());
        self.backlog = self.backlog - before + length;
        if was == 0 {
            self.weights += u64::from(weight);
        } else if backlog == 0 {
            self.weights -= u64::from(weight);
        }
        if backlog > was {
            self.lengths.on_grown(group, length_of);
        } else {
            self.lengths.on_shrunk(group, length_of);
        }
    }

    /// The length of `queue` of `group` was `before`.
    fn note_flow(&mut self, group: u32, queue: u32, before: u64, length: u64) {
        let Group { first, seen, .. } = &mut self.groups[group as usize];
        if self.by_guess {
            if *first == queue || length > *seen {
                (*first, *seen) = (queue, length);
            }
            return;
        }
        let (first, flow) = (*first, &mut self.flows[queue as usize]);
        let first = if before == 0 {
            *flow = Flow { length, bound: length, ..NO_FLOW };
            self.meld(first, queue)
        } else if length == 0 {
            self.without(first, queue)
        } else if length > flow.bound {
            flow.bound = length;
            if queue == first {
                first
            } else {
                self.cut(queue);
                self.meld(first, queue)
            }
        } else {
            return;
        };
        self.groups[group as usize].first = first;
    }

    /// The group that has the most, or is guessed to have.
    pub(super) fn group(&mut self) -> Option<u32> {
        let groups = &self.groups;
        self.lengths.longest(|group| groups[group as usize].length())
    }

    /// A group that has more than its share, which `draw` draws.
    pub(super) fn group_above(&mut self, draw: u64) -> Option<u32> {
        let (groups, backlog, weights) = (&self.groups, u128::from(self.backlog), u128::from(self.weights.max(1)));
        let is_above = |group: u32| {
            let of = &groups[group as usize];
            u128::from(of.backlog) * weights > backlog * u128::from(of.weight)
        };
        self.lengths.above(draw, (backlog / weights) as u64, is_above)
    }

    /// The flow of `group` that has the most, or is guessed to have.
    pub(super) fn flow(&mut self, group: u32) -> Option<u32> {
        loop {
            let first = self.groups.get(group as usize)?.first;
            let flow = self.flows.get_mut(first as usize)?;
            if self.by_guess {
                // Of one that has nothing any more the store may have given the number away.
                return (flow.length > 0).then_some(first);
            }
            if flow.bound == flow.length {
                return Some(first);
            }
            flow.bound = flow.length;
            let rest = self.without(first, first);
            self.groups[group as usize].first = self.meld(rest, first);
        }
    }

    /// The heap that begins with `first`, without `queue`: what it begins with.
    fn without(&mut self, first: u32, queue: u32) -> u32 {
        let children = self.gathered(queue);
        if queue == first {
            return children;
        }
        self.cut(queue);
        self.meld(first, children)
    }

    /// Takes `queue`, which is not the first of its heap, away from its parent, with all below it.
    fn cut(&mut self, queue: u32) {
        let flow = &mut self.flows[queue as usize];
        let (next, prev) = (core::mem::replace(&mut flow.next, NIL), core::mem::replace(&mut flow.prev, NIL));
        if let Some(before) = self.flows.get_mut(prev as usize) {
            if before.child == queue {
                before.child = next;
            } else {
                before.next = next;
            }
        }
        if let Some(after) = self.flows.get_mut(next as usize) {
            after.prev = prev;
        }
    }

    /// The children of `queue`, which keeps none, as one heap.
    fn gathered(&mut self, queue: u32) -> u32 {
        let mut at = core::mem::replace(&mut self.flows[queue as usize].child, NIL);
        // By twos from the first on, and then all together from the last on.
        let mut pairs = NIL;
        while at != NIL {
            let (one, other) = (at, self.detach(at));
            at = if other == NIL { NIL } else { self.detach(other) };
            let pair = self.meld(one, other);
            self.flows[pair as usize].next = pairs;
            pairs = pair;
        }
        let mut all = NIL;
        while pairs != NIL {
            let pair = pairs;
            pairs = self.detach(pair);
            all = self.meld(all, pair);
        }
        all
    }

    /// Leaves `queue` without siblings: which came next.
    fn detach(&mut self, queue: u32) -> u32 {
        let flow = &mut self.flows[queue as usize];
        flow.prev = NIL;
        core::mem::replace(&mut flow.next, NIL)
    }

    /// Two heaps as one: what it begins with.
    fn meld(&mut self, one: u32, other: u32) -> u32 {
        if one == NIL || other == NIL {
            return if one == NIL { other } else { one };
        }
        let key = |queue: u32| (self.flows[queue as usize].bound, !queue);
        let (above, below) = if key(one) > key(other) { (one, other) } else { (other, one) };
        let second = core::mem::replace(&mut self.flows[above as usize].child, below);
        if let Some(second) = self.flows.get_mut(second as usize) {
            second.prev = below;
        }
        let flow = &mut self.flows[below as usize];
        (flow.next, flow.prev) = (second, above);
        above
    }
}

impl Group {
    /// What it has over its weight; 0 if it has nothing.
    #[inline]
    fn length(&self) -> u64 {
        if self.weight == 1 || self.backlog == 0 {
            return self.backlog;
        }
        (self.backlog / u64::from(self.weight)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_of_no_flow_that_has_nothing_any_more() {
        let (backlogs, _) = Backlogs::of(Index::Suspect(Unit::Bytes));
        let mut backlogs = backlogs.expect("a guess is by groups");
        for (queue, length) in [(5, 9000), (6, 1500)] {
            backlogs.on_changed(0, 1, queue, length);
        }
        assert_eq!((backlogs.group(), backlogs.flow(0)), (Some(0), Some(5)));
        backlogs.on_changed(0, 1, 5, 0);
        assert_eq!((backlogs.group(), backlogs.flow(0)), (Some(0), None), "the store may have given the number away");
        backlogs.on_changed(0, 1, 6, 3000);
        assert_eq!(backlogs.flow(0), Some(6));
    }

    fn exact() -> Backlogs {
        Backlogs::of(Index::Longest(Unit::Bytes)).0.expect("the longest is found by groups")
    }

    #[test]
    fn of_two_equal_lengths_the_first_that_was_seen_stays_the_guess() {
        let mut backlogs = Backlogs::of(Index::Suspect(Unit::Bytes)).0.expect("a guess is by groups");
        for queue in [5, 6] {
            backlogs.on_changed(0, 1, queue, 1500);
        }
        assert_eq!(backlogs.flow(0), Some(5));
    }

    #[test]
    fn equal_lengths_go_by_number() {
        for order in [[3, 2, 4], [2, 3, 4], [4, 3, 2]] {
            let mut backlogs = exact();
            for queue in order {
                backlogs.on_changed(0, 1, queue, 1500);
            }
            assert_eq!(backlogs.flow(0), Some(2), "{order:?}");
        }
    }

    #[test]
    fn a_group_with_a_weight_that_falls_empty_is_none_any_more() {
        let mut backlogs = exact();
        backlogs.on_changed(0, 2, 7, 1500);
        backlogs.on_changed(1, 1, 8, 100);
        assert_eq!(backlogs.group(), Some(0));
        backlogs.on_changed(0, 2, 7, 0);
        assert_eq!(backlogs.group(), Some(1));
        backlogs.on_changed(1, 1, 8, 0);
        assert_eq!(backlogs.group(), None);
    }

    #[test]
    fn who_has_its_share_and_no_more_is_not_above_it() {
        // Weight and backlog of each group, and the one that is above.
        for (groups, above) in [(&[(1, 1000), (1, 500), (1, 1500)][..], 2), (&[(4, 4000), (1, 2000)], 1)] {
            let mut backlogs = exact();
            for (group, (weight, backlog)) in (0..).zip(groups) {
                backlogs.on_changed(group, *weight, group, *backlog);
            }
            for draw in 0..100 {
                assert_eq!(backlogs.group_above(draw), Some(above), "{groups:?}, {draw}");
            }
        }
    }

    #[test]
    fn of_few_that_are_above_among_many_each_is_drawn_as_often() {
        let mut backlogs = exact();
        for group in 0..100 {
            let backlog = if group == 70 {
                20
            } else if group == 71 {
                10
            } else {
                1
            };
            backlogs.on_changed(group, 1, group, backlog);
        }
        let of = |group: u32, backlogs: &mut Backlogs| {
            (0..1000).filter(|draw| backlogs.group_above(*draw) == Some(group)).count()
        };
        let (one, other) = (of(70, &mut backlogs), of(71, &mut backlogs));
        assert_eq!(one + other, 1000);
        assert!((400..=600).contains(&one), "{one} {other}");
    }
}
