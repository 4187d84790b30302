//! What is missing below the highest number so far, and what was known when each gap opened.
//!
//! A flow's numbers (of packets or of bytes) arrive in some order. A jump ahead opens a gap; what comes later and lies in a
//! gap is late, what lies below the highest number and in no gap came before. RFC 4737's singleton (section 3.3) and its
//! sample metrics (section 4.2) need no more than this and one value for each gap: the first arrival above a late number
//! is the one that opened the gap it falls into.
//!
//! Cost: O(1) for a number that is not late, else a binary search and a move of the gaps behind (few: late numbers fall
//! into recent gaps). Memory: 65,536 gaps at most; more are forgotten, oldest first, and what would have filled them
//! counts as seen. Invariant: gaps are not empty, disjoint, sorted, and below `next`.

use alloc::collections::VecDeque;

/// Gaps remembered.
const MAX_GAPS: usize = 65_536;

/// The gaps below the highest number so far, each with a `T` of its opening.
#[derive(Clone, Debug, Default)]
pub struct Gaps<T> {
    next: u64,
    gaps: VecDeque<Gap<T>>,
}

#[derive(Clone, Copy, Debug)]
struct Gap<T> {
    from: u64,
    to: u64,
    opening: T,
}

/// How a range of numbers stands to what came before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<T> {
    /// How many of its numbers are new.
    pub fresh: u64,
    /// What was stored when the oldest gap was opened that the range fills a part of.
    pub late: Option<T>,
}

impl<T: Copy> Gaps<T> {
    /// Nothing came yet, and `next` is expected first.
    pub const fn new(next: u64) -> Gaps<T> {
        Gaps { next, gaps: VecDeque::new() }
    }

    /// One above the highest number so far: RFC 4737's NextExp.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// How many gaps are open.
    pub fn open(&self) -> usize {
        self.gaps.len()
    }

    /// Takes the numbers from `from` to below `to`; `opening` is kept with the gap that they open, if they do.
    pub fn take(&mut self, from: u64, to: u64, opening: T) -> Arrival<T> {
        let next = self.next;
        if from >= next {
            if from > next && to > from {
                if self.gaps.len() == MAX_GAPS {
                    self.gaps.pop_front();
                }
                self.gaps.push_back(Gap { from: next, to: from, opening });
            }
            self.next = next.max(to);
            return Arrival { fresh: to.saturating_sub(from), late: None };
        }
        let (filled, late) = self.fill(from, to.min(next));
        self.next = next.max(to);
        Arrival { fresh: filled + to.saturating_sub(next), late }
    }

    /// Takes `[from, to)` out of the gaps; how many numbers that were, and the opening of the first gap touched.
    fn fill(&mut self, from: u64, to: u64) -> (u64, Option<T>) {
        let mut filled = 0;
        let mut late = None;
        let mut index = self.gaps.partition_point(|gap| gap.to <= from);
        while let Some(&gap) = self.gaps.get(index).filter(|gap| gap.from < to) {
            let (low, high) = (gap.from.max(from), gap.to.min(to));
            filled += high - low;
            late = late.or(Some(gap.opening));
            match (gap.from < low, high < gap.to) {
                (false, false) => drop(self.gaps.remove(index)),
                (false, true) => self.gaps[index].from = high,
                (true, whole) => {
                    self.gaps[index].to = low;
                    index += 1;
                    if whole {
                        self.gaps.insert(index, Gap { from: high, ..gap });
                    }
                }
            }
            if high == to {
                break;
            }
        }
        (filled, late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_late_number_tells_of_the_arrival_that_passed_it_first() {
        let mut gaps = Gaps::new(0);
        assert_eq!(gaps.take(0, 1, 'a'), Arrival { fresh: 1, late: None });
        assert_eq!(gaps.take(4, 5, 'b'), Arrival { fresh: 1, late: None });
        assert_eq!(gaps.take(6, 7, 'c'), Arrival { fresh: 1, late: None });
        assert_eq!(gaps.take(2, 3, 'd'), Arrival { fresh: 1, late: Some('b') });
        assert_eq!(gaps.take(3, 4, 'e'), Arrival { fresh: 1, late: Some('b') });
        assert_eq!(gaps.take(5, 6, 'f'), Arrival { fresh: 1, late: Some('c') });
        assert_eq!(gaps.take(3, 4, 'g'), Arrival { fresh: 0, late: None });
        assert_eq!((gaps.next(), gaps.open()), (7, 1));
    }

    proptest! {
        #[test]
        fn gaps_are_what_a_list_of_all_numbers_says(
            ranges in proptest::collection::vec((0_u64..60, 1_u64..6), 1..80),
        ) {
            let mut gaps = Gaps::new(0);
            // For each number: whether it came, and which arrival first passed it.
            let mut came = [false; 80];
            let mut passed = [None; 80];
            let mut next = 0;
            for (index, &(from, length)) in ranges.iter().enumerate() {
                let to = from + length;
                let arrival = gaps.take(from, to, index);
                let numbers = from as usize..to as usize;
                let fresh = numbers.clone().filter(|&n| !came[n]).count() as u64;
                let late = numbers.clone().find(|&n| !came[n] && (n as u64) < next).and_then(|n| passed[n]);
                prop_assert_eq!(arrival, Arrival { fresh, late });
                for n in numbers {
                    came[n] = true;
                }
                for n in next..from {
                    passed[n as usize] = Some(index);
                }
                next = next.max(to);
                prop_assert_eq!(gaps.next(), next);
            }
        }
    }
}
