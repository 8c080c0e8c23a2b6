//! Loops that add up in a cascade.
//!
//! Rounding errors of equal addends add up with the length of the chain they go through. So no chain of additions is
//! longer than [`CHAIN`], whatever the layout and whatever adds (a lane, a thread, a block): the totals of chains are
//! added to one another in chains of the same length, and so on. Where chains are cut depends on sizes alone.

use crate::LoweringError;
use crate::emit::{Emitter, Value};
use crate::host::tiles::{Carried, Range, index, index_op, open_carrying_for};

/// Additions one behind the other at most: a quarter as many units in the last place may be lost at each level of a
/// cascade, if all addends are equal.
pub(crate) const CHAIN: usize = 32;

/// Values carried on, or why there are none.
pub(crate) type Next = Result<Vec<Carried>, LoweringError>;

/// Code of an iteration: gets the induction variable and the carried values.
type Body<'f, W> = &'f mut dyn FnMut(&mut W, &Value, Vec<Carried>) -> Next;

/// What loops of a writer `W` add up.
pub(crate) trait Sums<W> {
    /// Whether a different order of additions is another result.
    fn rounds(&self) -> bool;
    /// Where the function is written.
    fn emitter<'w>(&self, writer: &'w mut W) -> &'w mut Emitter;
    /// What a chain starts from.
    fn start(&self, writer: &mut W) -> Vec<Carried>;
    /// Adds what two chains come to.
    fn merge(&self, writer: &mut W, a: &[Carried], b: &[Carried]) -> Next;
}

/// The iterations of a loop.
#[derive(Clone, Debug)]
pub(crate) struct Iterations {
    pub range: Range,
    pub step: usize,
    /// How many there are at most.
    pub most: usize,
    /// Additions to a carried value in each of them, up to [`CHAIN`].
    pub weight: usize,
    /// Whether LLVM must not unroll the loop.
    pub rolled: bool,
}

/// Emits a loop over `iterations` around `body`, which adds to the carried values it is given.
pub(crate) fn cascade<W, S: Sums<W>>(
    writer: &mut W,
    sums: &S,
    iterations: &Iterations,
    carried: Vec<Carried>,
    body: Body<'_, W>,
) -> Next {
    let Iterations { range, step, most, weight, rolled } = iterations;
    let length = strip(*most, *weight);
    if !sums.rounds() || length >= *most {
        let open = open_carrying_for(sums.emitter(writer), &range.from, &range.to, *step, &carried);
        let next = body(writer, &open.variable, open.carried.clone())?;
        let e = sums.emitter(writer);
        return Ok(if *rolled { open.close_rolled(e, &next) } else { open.close(e, &next) });
    }
    // LLVM would unroll a loop over few strips and read all of them at the same time: as many streams in memory as
    // strips took twice as long for a sum of 2²⁴ elements.
    let most = most.div_ceil(length);
    let strips = Iterations { range: range.clone(), step: step * length, most, weight: 1, rolled: true };
    cascade(writer, sums, &strips, carried, &mut |writer, from, before| {
        let start = sums.start(writer);
        let total = if length == 1 {
            body(writer, from, start)?
        } else {
            let e = sums.emitter(writer);
            let span = index(e, step * length);
            let to = index_op(e, "arith.addi", from, &span);
            let to = index_op(e, "arith.minsi", &to, &range.to);
            let open = open_carrying_for(e, from, &to, *step, &start);
            let next = body(writer, &open.variable, open.carried.clone())?;
            let e = sums.emitter(writer);
            if *rolled { open.close_rolled(e, &next) } else { open.close(e, &next) }
        };
        sums.merge(writer, &before, &total)
    })
}

/// Iterations of `weight` additions that become one chain, of `most` iterations: about as many in all strips.
fn strip(most: usize, weight: usize) -> usize {
    let longest = (CHAIN / weight.max(1)).max(1);
    most.div_ceil(most.div_ceil(longest).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_even_and_no_longer_than_a_chain() {
        assert_eq!(strip(32, 1), 32);
        assert_eq!(strip(33, 1), 17);
        assert_eq!(strip(64, 4), 8);
        assert_eq!(strip(3, 17), 1);
        assert_eq!(strip(0, 1), 0);
        for (most, weight) in [(1000, 1), (77, 3), (1 << 20, 32), (5, 31)] {
            let length = strip(most, weight);
            assert!(length >= 1 && length * weight <= CHAIN.max(weight));
        }
    }
}
