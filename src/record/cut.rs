//! Where to end a window that nobody flushes.
//!
//! A loop that never reads a result would fill its window for ever. Cutting every so many nodes
//! would put the cuts at other places in every round of the loop, and each window would be a new
//! structure to plan and compile. So the place is chosen by content, as in content-defined chunking
//! (Muthitacharoen et al., "A low-bandwidth network file system", SOSP 2001): a rolling hash of the
//! last nodes decides, so that a periodic program is cut periodically.

use burn_mlir_ir::{DType, Node, Op, Shape};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// No cut before this many nodes.
const LEAST: usize = 1024;
/// A cut after this many nodes in any case.
const MOST: usize = 8192;
/// One node in this many is a place to cut.
const SPACING: u64 = 256;

/// The rolling hash of the nodes of a window.
#[derive(Default)]
pub(super) struct Cut {
    nodes: usize,
    hash: u64,
}

impl Cut {
    /// The state behind nodes that a window begins with.
    pub(super) fn of(nodes: &[Node]) -> Self {
        let mut cut = Self::default();
        for node in nodes.iter().filter(|node| !matches!(node.op, Op::Input { .. })) {
            cut.after(&node.op, node.dtype, &node.shape);
        }
        cut
    }

    /// Takes in the next node.
    pub(super) fn after(&mut self, op: &Op, dtype: DType, shape: &Shape) {
        let mut hasher = FxHasher::default();
        (discriminant(op), dtype, shape).hash(&mut hasher);
        self.nodes += 1;
        // Each node's bits are shifted out after 16 more nodes.
        self.hash = (self.hash << 4).wrapping_add(hasher.finish());
    }

    /// Whether the window should end here.
    pub(super) fn is_reached(&self) -> bool {
        let chosen = (self.hash >> 32).is_multiple_of(SPACING);
        (Self::is_possible(self.nodes) && chosen) || self.nodes >= MOST
    }

    /// Whether a window of so many nodes may be ended at all.
    pub(super) fn is_possible(nodes: usize) -> bool {
        nodes >= LEAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cuts of a program that repeats `period` nodes, as positions within the period.
    fn cuts(period: usize, rounds: usize) -> Vec<usize> {
        let mut cut = Cut::default();
        let mut places = Vec::new();
        for node in 0..period * rounds {
            let step = node % period;
            // Shapes that differ within the period, as layers do.
            let shape = Shape::from([step * 7 % 31 + 1, step * 13 % 97 + 1]);
            cut.after(&Op::Reshape, DType::F32, &shape);
            if cut.is_reached() {
                places.push(step);
                cut = Cut::default();
            }
        }
        places
    }

    #[test]
    fn a_periodic_program_is_cut_at_few_places() {
        let places = cuts(3011, 200);
        assert!(places.len() >= 200, "{} cuts", places.len());
        let distinct: std::collections::BTreeSet<_> = places[10..].iter().collect();
        assert!(distinct.len() <= 12, "{distinct:?}");
    }

    #[test]
    fn an_endless_constant_program_is_cut() {
        let mut cut = Cut::default();
        let shape = Shape::from([4]);
        let nodes = (1..).find(|_| {
            cut.after(&Op::Cast, DType::F32, &shape);
            cut.is_reached()
        });
        assert!(nodes.is_some_and(|nodes| nodes <= MOST));
    }
}
