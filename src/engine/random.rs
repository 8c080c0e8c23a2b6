//! The state of a device's random numbers: a seed and a count.
//!
//! The numbers themselves are counter-based (Philox 4×32-10, Salmon et al., "Parallel random numbers:
//! as easy as 1, 2, 3", SC 2011), so a draw is named by a 64-bit key and is the same tensor on every
//! device and with any number of threads.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) struct Random {
    seed: AtomicU64,
    draws: AtomicU64,
}

/// The key of one random tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Draw {
    pub(crate) key: u32,
    pub(crate) stream: u32,
}

impl Random {
    /// A generator that nobody has seeded yet starts anywhere.
    pub(crate) fn new() -> Self {
        let entropy = RandomState::new().hash_one("burn-mlir");
        Self { seed: AtomicU64::new(entropy), draws: AtomicU64::new(0) }
    }

    pub(crate) fn seed(&self, seed: u64) {
        self.seed.store(seed, Ordering::Relaxed);
        self.draws.store(0, Ordering::Relaxed);
    }

    /// The key of the next tensor.
    pub(crate) fn draw(&self) -> Draw {
        let draw = self.draws.fetch_add(1, Ordering::Relaxed);
        let seed = mix(self.seed.load(Ordering::Relaxed));
        let bits = mix(seed.wrapping_add(draw.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        Draw { key: bits as u32, stream: (bits >> 32) as u32 }
    }
}

/// The finaliser of SplitMix64 (Steele et al., OOPSLA 2014): a bijection without simple patterns.
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_its_draws() {
        let random = Random::new();
        random.seed(42);
        let first: Vec<_> = (0..100).map(|_| random.draw()).collect();
        random.seed(42);
        let second: Vec<_> = (0..100).map(|_| random.draw()).collect();
        assert_eq!(first, second);
        assert!(first.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
