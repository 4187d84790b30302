//! What runners share: the seed, how much they may do, and the figures that have been run already.

use fairspan_core::rng::Rng;

/// Runs what claims need.
pub(crate) struct Bench {
    seed: u64,
    effort: f64,
}

impl Bench {
    /// All that is random comes from `seed`.
    pub(crate) fn new(seed: u64) -> Bench {
        Bench { seed, effort: 1.0 }
    }

    /// Does `effort` times as many random cases as usual.
    #[cfg(test)]
    pub(crate) fn with_effort(mut self, effort: f64) -> Bench {
        self.effort = effort;
        self
    }

    /// Tries `usual` random cases, numbered from 0, each with a generator of its own, until one fails. Gives how many
    /// were tried, and what the failing one said.
    pub(crate) fn cases(
        &self,
        usual: u32,
        mut case: impl FnMut(u32, &mut Rng) -> Result<(), String>,
    ) -> Result<u32, String> {
        let cases = ((f64::from(usual) * self.effort) as u32).max(10);
        for number in 0..cases {
            let mut rng = Rng::new(self.seed.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(number)));
            case(number, &mut rng).map_err(|problem| format!("case {number} of seed {}: {problem}", self.seed))?;
        }
        Ok(cases)
    }
}
