//! What the phases of a scan have in common.

use crate::abi::{PhaseWriter, Scratch};
use crate::emit::{Emitter, Value};
use crate::host::tiles::{
    Carried, Range, delinearize, index, index_op, locate_line, open_carrying_for, open_for, scaled,
};
use crate::loops::array::{Array, Place};
use crate::loops::vector;
use crate::loops::view::View;
use crate::scalar;
use crate::types::value_type;
use burn_mlir_ir::{DType, ReduceOp, Scan};

/// Writes one phase.
pub(super) struct Scanner<'a> {
    pub phase: PhaseWriter,
    pub op: ReduceOp,
    pub axis: usize,
    /// The type of elements.
    pub dtype: DType,
    /// The type they are combined in.
    pub accumulator: DType,
    pub input: View,
    pub output: View,
    /// What segments combine to, then what they start from.
    pub sums: Option<Array>,
    shape: &'a [usize],
}

impl<'a> Scanner<'a> {
    /// Opens the function `symbol`; `sums` is where segments' combinations are in shared scratch.
    pub fn new(scan: &'a Scan, symbol: &str, sums: Option<Place>) -> Self {
        let mut phase = PhaseWriter::new(symbol);
        let dtype = vector::stored(scan.dtype);
        let accumulator = scalar::accumulator(dtype);
        let element = value_type(accumulator);
        let [input, output] =
            [0, 1].map(|nth| View::new(&mut phase, nth, dtype, &scan.accesses[nth], &scan.shape));
        let sums = sums.map(|place| Array::new(&mut phase, Scratch::Shared, place, element));
        Self {
            phase,
            op: scan.op,
            axis: scan.axis,
            dtype,
            accumulator,
            input,
            output,
            sums,
            shape: &scan.shape,
        }
    }

    pub fn e(&mut self) -> &mut Emitter {
        &mut self.phase.emitter
    }

    /// The MLIR type elements are combined in.
    pub fn element(&self) -> &'static str {
        value_type(self.accumulator)
    }

    /// The coordinates of line `line` of those over all dimensions but `without`, which are 0.
    pub fn locate(&mut self, line: &Value, without: &[usize]) -> Vec<Value> {
        let e = &mut self.phase.emitter;
        let zero = index(e, 0);
        locate_line(e, line, self.shape, without, &zero)
    }

    /// What a combination of nothing gives.
    pub fn identity(&mut self) -> Value {
        let (op, accumulator) = (self.op, self.accumulator);
        scalar::constant(self.e(), accumulator, scalar::identity(op, accumulator))
    }

    /// A value carried through a loop.
    pub fn carried(&self, value: Value) -> Carried {
        Carried { value, ty: self.element().into() }
    }

    /// Combines the elements of a range along the axis with `start`, one after the other; stores what there is
    /// at each if `store`. Gives the last one.
    pub fn chain(&mut self, coordinates: &mut [Value], range: &Range, start: Value, store: bool) -> Value {
        let (dtype, accumulator, op) = (self.dtype, self.accumulator, self.op);
        let start = self.carried(start);
        let e = &mut self.phase.emitter;
        let open = open_carrying_for(e, &range.from, &range.to, 1, &[start]);
        coordinates[self.axis] = open.variable.clone();
        let mut x = self.input.load(e, coordinates);
        if dtype != accumulator {
            x = scalar::cast(e, dtype, accumulator, &x);
        }
        let sum = scalar::combine(e, op, accumulator, &open.carried[0].value, &x);
        if store {
            let mut y = sum.clone();
            if dtype != accumulator {
                y = scalar::cast(e, accumulator, dtype, &y);
            }
            self.output.store(e, coordinates, &y);
        }
        let next = self.carried(sum);
        open.close(self.e(), &[next]).remove(0).value
    }

    /// The phase `starts`: replaces what each segment of a line combines to by what it starts from. A tile is a
    /// line; `lanes` lines lie beside each other: `sums[line / lanes][segment][line % lanes]`.
    pub fn starts(mut self, segments: usize, lanes: usize) -> String {
        let (begin, end) = (self.phase.begin(), self.phase.end());
        let identity = self.identity();
        let Some(sums) = self.sums.clone() else { return self.phase.finish() };
        let (op, accumulator) = (self.op, self.accumulator);
        let first = self.carried(identity);
        let e = &mut self.phase.emitter;
        let (zero, all) = (index(e, 0), index(e, segments));
        let line = open_for(e, &begin, &end, 1);
        let at = delinearize(e, &line, &[0, lanes]);
        let group = scaled(e, &at[0], (segments * lanes) as i64);
        let base = index_op(e, "arith.addi", &group, &at[1]);
        let open = open_carrying_for(e, &zero, &all, 1, &[first]);
        let step = scaled(e, &open.variable, lanes as i64);
        let place = index_op(e, "arith.addi", &base, &step);
        let sum = sums.load(e, &place);
        sums.store(e, &place, &open.carried[0].value);
        let next = scalar::combine(e, op, accumulator, &open.carried[0].value, &sum);
        let next = self.carried(next);
        open.close(self.e(), &[next]);
        self.e().close("}");
        self.phase.finish()
    }
}
