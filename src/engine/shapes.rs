//! When kernels are opened: where shapes vary.
//!
//! The first shapes of a structure get kernels of their own, which are faster: a program has a few of them at most, or
//! its shapes vary. From then on all that are new share kernels whose extents and strides are
//! arguments (see [`burn_mlir_ir::opened`]). Which plan gets which kernels depends on those made before
//! it, not on time.

use burn_mlir_ir::{Block, Instr, Kernel, KernelId, Plan, opened};
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// Names the number of shapes of a structure that get kernels of their own; `never` for all.
const VARIABLE: &str = "BURN_MLIR_SHAPES";

/// That number, if the user says nothing.
const OWN_KERNELS: usize = 2;

/// Points of an iteration space from which a kernel is always made for its shape: blocking of contractions, parts of
/// long rows and transposed squares need known extents, and matter once a launch takes about as long as a tenth of a
/// compilation.
const LARGE: usize = 1 << 22;

/// The same for contractions, with which few bytes come with many points.
const LARGE_CONTRACTION: usize = 1 << 27;

/// Structures remembered before all are forgotten.
const MOST_STRUCTURES: usize = 8192;

/// What shapes the structures planned so far had.
pub(super) struct Shapes {
    own: Option<usize>,
    /// By the hash of a structure the hashes of the plans with kernels of their own.
    seen: Mutex<FxHashMap<u64, Vec<u64>>>,
}

impl Shapes {
    pub(super) fn from_env() -> Self {
        let own = match std::env::var(VARIABLE).as_deref() {
            Ok("never") => None,
            Ok(text) => Some(text.trim().parse().unwrap_or_else(|_| {
                tracing::warn!("{VARIABLE} is `{text}`, which is neither a number nor `never`: ignored");
                OWN_KERNELS
            })),
            Err(_) => Some(OWN_KERNELS),
        };
        Self { own, seen: Mutex::default() }
    }

    /// Opens the kernels of a plan if its structure came with other shapes before.
    pub(super) fn open(&self, plan: &mut Plan) {
        let Some(own) = self.own else { return };
        if own > 0 && self.is_own(plan, own) {
            return;
        }
        for (index, kernel) in plan.kernels.iter_mut().enumerate() {
            let Kernel::Block(block) = kernel else { continue };
            let points = block.domain.iter().fold(1usize, |points, dim| points.saturating_mul(dim.size));
            let large = if block.contraction().is_some() { LARGE_CONTRACTION } else { LARGE };
            if points >= large {
                continue;
            }
            if let Some(open) = opened(block) {
                plan.numbers.insert(KernelId(index as u32), open.numbers);
                *kernel = Kernel::Block(open.block);
            }
        }
    }

    /// Whether a plan is one of the first of its structure.
    fn is_own(&self, plan: &Plan, own: usize) -> bool {
        let mut seen = self.seen.lock();
        if seen.len() >= MOST_STRUCTURES {
            seen.clear();
        }
        let plans = seen.entry(structure(plan)).or_default();
        let this = hash(&plan.kernels);
        if !plans.contains(&this) && plans.len() < own {
            plans.push(this);
        }
        plans.contains(&this)
    }
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The hash of what a plan does, whatever the extents.
fn structure(plan: &Plan) -> u64 {
    let mut hasher = FxHasher::default();
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel.0 as usize];
        discriminant(kernel).hash(&mut hasher);
        if let Kernel::Block(block) = kernel {
            block_structure(block, &mut hasher);
        }
    }
    hasher.finish()
}

fn block_structure(block: &Block, hasher: &mut FxHasher) {
    block.domain.iter().for_each(|dim| dim.kind.hash(hasher));
    block.params.iter().for_each(|param| param.dtype.hash(hasher));
    for statement in &block.body {
        statement.dtype.hash(hasher);
        discriminant(&statement.instr).hash(hasher);
        statement.instr.operands().hash(hasher);
        match &statement.instr {
            Instr::Unary(op, _) => op.hash(hasher),
            Instr::Binary(op, ..) => op.hash(hasher),
            Instr::Compare(op, ..) => op.hash(hasher),
            Instr::Reduce(op, _) => op.hash(hasher),
            Instr::ArgReduce(op, _) => op.hash(hasher),
            _ => {}
        }
    }
    block.stores.iter().for_each(|store| store.value.hash(hasher));
}
