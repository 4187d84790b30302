//! How many rows go with a block: as many as leave one block in so many that loses more.
//!
//! Source: that is a quantile of the losses of a block, and no model of them (alone, in bursts, on one path of many) is needed to follow
//! it (Robbins and Monro 1951): a block that its rows did not mend raises the number to what it would have taken, and each block
//! lowers it by 1 / `residual`. So a row stays with that many blocks after it was missed, and where less is lost there is none.
//!
//! Cost: O(1) a block. Invariant: a missed row goes with the next `residual` blocks.

/// How many rows are wanted. It begins with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    residual: u32,
    /// Rows, in parts of `residual`.
    demand: u32,
}

impl Demand {
    /// One block in `residual` may lose more than its rows mend.
    pub fn new(residual: u32) -> Demand {
        let residual = residual.max(1);
        Demand { residual, demand: residual }
    }

    /// Rows that the next block gets.
    #[inline]
    pub fn rows(&self) -> u32 {
        self.demand.div_ceil(self.residual)
    }

    /// A block has ended.
    #[inline]
    pub fn on_block(&mut self) {
        self.demand = self.demand.saturating_sub(1);
    }

    /// A block was not mended, and would have been by so many rows.
    pub fn on_missed(&mut self, needed: u32) {
        self.demand = self.demand.max(needed.saturating_mul(self.residual));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_row_goes_with_as_many_blocks_as_one_of_which_may_fail() {
        let mut demand = Demand::new(8);
        let next = |demand: &mut Demand| {
            let rows = demand.rows();
            demand.on_block();
            rows
        };
        assert_eq!((0..10).map(|_| next(&mut demand)).sum::<u32>(), 8, "one at first");
        demand.on_missed(2);
        let rows: [u32; 18] = core::array::from_fn(|_| next(&mut demand));
        assert_eq!(rows, [2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0]);
        demand.on_missed(3);
        demand.on_missed(1);
        assert_eq!((demand.rows(), Demand::new(0).rows()), (3, 1), "what needs less lowers nothing");
    }
}
