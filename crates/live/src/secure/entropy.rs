//! Where secret randomness comes from: one source, handed in when the sessions are made.

use crate::system::system;
use fairspan_core::rng::Rng;

/// A source of secret random bytes.
pub trait Entropy: Send {
    /// Fills `out`. A source that cannot must panic: there is no safe way on without randomness.
    fn fill(&mut self, out: &mut [u8]);
}

/// The operating system's generator.
#[derive(Debug, Default)]
pub struct OsEntropy(());

impl OsEntropy {
    /// The source.
    pub fn new() -> OsEntropy {
        OsEntropy::default()
    }
}

impl Entropy for OsEntropy {
    fn fill(&mut self, out: &mut [u8]) {
        system().fill(out);
    }
}

/// A seeded source for tests and replayed recordings. **Not secret: never for keys that protect anything.**
#[derive(Clone, Debug)]
pub struct SeededEntropy(Rng);

impl SeededEntropy {
    /// The source that `seed` determines.
    pub fn new(seed: u64) -> SeededEntropy {
        SeededEntropy(Rng::new(seed))
    }
}

impl Entropy for SeededEntropy {
    fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            chunk.copy_from_slice(&self.0.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// A seed from the operating system, for generators whose numbers need not repeat from run to run.
pub fn random_seed() -> u64 {
    let mut seed = [0; 8];
    OsEntropy::new().fill(&mut seed);
    u64::from_ne_bytes(seed)
}
