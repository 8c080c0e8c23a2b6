//! Blocks whose extents and strides are arguments of a launch.
//!
//! A kernel is made for one shape: what is known when it is compiled makes it fast. Where shapes vary from
//! launch to launch, each would be a kernel of its own. An *opened* block has its longer extents and larger strides
//! as arguments instead: the *numbers* of a launch, which follow its scalars. In the textual form number 3 is `?3`.
//! Of an extent the block knows the most it can be, in steps of a factor of eight, so equal computations over
//! shapes that differ are one kernel, or few.

use crate::{Access, Block, Instr, OPEN_STRIDE, StrideArgument};

/// Extents up to which they are known: loops of few iterations are unrolled, and windows are small.
const SHORT: usize = 8;

/// Strides up to which they are known: neighbours are loaded together.
const NEAR: i64 = 8;

/// An opened block and the numbers that make it the one it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The block with arguments.
    pub block: Block,
    /// The arguments.
    pub numbers: Vec<u64>,
}

/// Opens a block; nothing if there is nothing to open, or it needs what cannot be an argument.
pub fn opened(block: &Block) -> Option<Opened> {
    let positions = block.body.iter().any(|statement| matches!(statement.instr, Instr::ArgReduce(..)));
    let backwards = block.accesses().any(|access| access.strides.iter().any(|&stride| stride < -NEAR));
    if block.is_opened() || positions || backwards {
        return None;
    }
    let mut block = block.clone();
    let mut numbers = Vec::new();
    for dim in &mut block.domain {
        if dim.size > SHORT {
            dim.argument = Some(numbers.len() as u32);
            numbers.push(dim.size as u64);
            dim.size = most(dim.size);
        }
    }
    let mut open = |access: &mut Access| {
        for dim in 0..access.strides.len() {
            let stride = access.strides[dim];
            if stride > NEAR {
                access.arguments.push(StrideArgument { dim: dim as u32, argument: numbers.len() as u32 });
                numbers.push(stride.unsigned_abs());
                access.strides[dim] = OPEN_STRIDE;
            }
        }
    };
    for statement in &mut block.body {
        match &mut statement.instr {
            Instr::Load { access, .. } => open(access),
            Instr::Gather(gather) => open(&mut gather.access),
            _ => {}
        }
    }
    block.stores.iter_mut().for_each(|store| open(&mut store.access));
    (!numbers.is_empty()).then_some(Opened { block, numbers })
}

/// The next power of eight.
fn most(size: usize) -> usize {
    let bits = size.next_power_of_two().trailing_zeros();
    1 << bits.next_multiple_of(3)
}

impl Block {
    /// How many numbers a launch has.
    pub fn numbers(&self) -> usize {
        let extents = self.domain.iter().filter_map(|dim| dim.argument);
        let strides = self.accesses().flat_map(|access| access.arguments.iter().map(|open| open.argument));
        extents.chain(strides).max().map_or(0, |last| last as usize + 1)
    }

    /// Whether extents or strides are arguments of the launch.
    pub fn is_opened(&self) -> bool {
        self.numbers() > 0
    }
}
