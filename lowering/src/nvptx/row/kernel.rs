//! One kernel over rows: where its threads are, and the steps they take.

use super::accumulator::Adding;
use super::geometry::Geometry;
use super::partial::Scratch;
use crate::cascade::{Iterations, Next, cascade};
use crate::emit::Value;
use crate::host::tiles::{Carried, Range, index, index_op, scaled};
use crate::nvptx::chunk::{Chunk, Environment, Evaluator};
use crate::nvptx::map::coordinates;
use burn_mlir_ir::{Block, DimKind};

/// One kernel being written.
pub(super) struct Kernel<'a> {
    pub symbol: String,
    pub geometry: &'a Geometry,
    pub scratch: &'a Scratch,
    pub evaluator: Evaluator<'a>,
    /// Position in the block of threads.
    pub thread: Value,
    /// Which of the threads that share a row this is.
    pub share: Value,
    /// The row, one of the domain in any case.
    pub row: Value,
    /// Whether the row is this thread's, where that is not certain.
    pub row_valid: Option<Value>,
    /// Coordinates of the row; of the reduction dimensions 0.
    pub origin: Vec<Value>,
    /// Row values.
    pub known: Environment,
    /// The steps that stay in registers, with what is known of them.
    pub steps: Vec<(Chunk, Environment)>,
    /// The elements of the row that are in no step, one a thread, with what is known of them.
    pub edge: Option<(Chunk, Environment)>,
    /// Where the first step of the row begins and how many there are, if that is not certain.
    body: Option<(Value, Value)>,
    /// Strides of positions within the reduction dimensions.
    pub positions: Vec<i64>,
}

impl<'a> Kernel<'a> {
    pub fn new(block: &'a Block, geometry: &'a Geometry, scratch: &'a Scratch, symbol: String) -> Self {
        let mut evaluator = Evaluator::new(block, geometry.lane, &symbol);
        let thread = evaluator.kernel.thread();
        let at = evaluator.kernel.block('x');
        let zero = evaluator.zero();
        let e = evaluator.e();
        let inner = index(e, if geometry.along { geometry.threads } else { geometry.block_rows });
        let low = index_op(e, "arith.remui", &thread, &inner);
        let high = index_op(e, "arith.divui", &thread, &inner);
        let (share, in_block) = if geometry.along { (low, high) } else { (high, low) };
        let block_rows = index(e, geometry.block_rows);
        let first = index_op(e, "arith.muli", &at, &block_rows);
        let mut row = index_op(e, "arith.addi", &first, &in_block);
        let mut row_valid = None;
        if !geometry.rows.is_multiple_of(geometry.block_rows) {
            let last = index(e, geometry.rows - 1);
            row_valid = Some(e.op(format_args!("arith.cmpi ule, {row}, {last} : index")));
            row = index_op(e, "arith.minui", &row, &last);
        }
        let size = |dim: usize| block.domain[dim].size;
        let mut sizes: Vec<usize> = geometry.parallel.iter().map(|&dim| size(dim)).collect();
        if !geometry.along {
            sizes.push(size(geometry.lane) / geometry.width);
        }
        let mut origin = vec![zero; block.domain.len()];
        let mut at = if sizes.is_empty() { Vec::new() } else { coordinates(e, &row, &sizes) };
        if !geometry.along
            && let Some(chunk) = at.pop()
        {
            let width = index(e, geometry.width);
            origin[geometry.lane] = index_op(e, "arith.muli", &chunk, &width);
        }
        for (&dim, coordinate) in geometry.parallel.iter().zip(at) {
            origin[dim] = coordinate;
        }
        let mut positions = vec![0; block.domain.len()];
        let mut step = 1;
        for dim in (0..block.domain.len()).rev().filter(|&dim| block.domain[dim].kind == DimKind::Reduction) {
            positions[dim] = step;
            step *= size(dim) as i64;
        }
        let known = evaluator.environment();
        Self {
            symbol,
            geometry,
            scratch,
            evaluator,
            thread,
            share,
            row,
            row_valid,
            origin,
            known,
            steps: Vec::new(),
            edge: None,
            body: None,
            positions,
        }
        .with_edges()
    }

    /// Finds out where the row is aligned.
    fn with_edges(mut self) -> Self {
        let geometry = self.geometry;
        let Some(leader) = geometry.leader.clone() else { return self };
        let lane = geometry.lane;
        let size = self.evaluator.block.domain[lane].size;
        let e = self.evaluator.e();
        let mut offset = index(e, 0);
        for (dim, &stride) in leader.iter().enumerate().filter(|(dim, stride)| *dim != lane && **stride != 0)
        {
            let step = scaled(e, &self.origin[dim], stride);
            offset = index_op(e, "arith.addi", &offset, &step);
        }
        let (zero, width, inside) = (index(e, 0), index(e, geometry.width), index(e, geometry.width - 1));
        let head = index_op(e, "arith.subi", &zero, &offset);
        let head = index_op(e, "arith.andi", &head, &inside);
        let (size, last) = (index(e, size), index(e, size - 1));
        let rest = index_op(e, "arith.subi", &size, &head);
        let steps = index_op(e, "arith.divui", &rest, &width);
        // Threads have the elements before the first step, then those behind the last one.
        let walked = index_op(e, "arith.muli", &steps, &width);
        let edges = index_op(e, "arith.subi", &size, &walked);
        let mut valid = e.op(format_args!("arith.cmpi ult, {}, {edges} : index", self.share));
        let before = e.op(format_args!("arith.cmpi ult, {}, {head} : index", self.share));
        let behind = index_op(e, "arith.addi", &walked, &self.share);
        let place = e.op(format_args!("arith.select {before}, {}, {behind} : index", self.share));
        let place = index_op(e, "arith.minui", &place, &last);
        if geometry.splits > 1 {
            let split = self.evaluator.kernel.block('y');
            let e = self.evaluator.e();
            let first = e.op(format_args!("arith.cmpi eq, {split}, {zero} : index"));
            valid = e.op(format_args!("arith.andi {valid}, {first} : i1"));
        }
        let valid = self.is_valid(Some(valid));
        let mut coordinates = self.origin.clone();
        coordinates[lane] = place;
        self.edge = Some((Chunk { coordinates, width: 1, valid }, self.known.clone()));
        self.body = Some((head, steps));
        self.evaluator.leader = Some(leader);
        self
    }

    pub fn is_valid(&mut self, step_valid: Option<Value>) -> Option<Value> {
        match (step_valid, self.row_valid.clone()) {
            (Some(a), Some(b)) => Some(self.evaluator.e().op(format_args!("arith.andi {a}, {b} : i1"))),
            (a, b) => a.or(b),
        }
    }

    /// Step `number` of the row; `limit` is the first step beyond, if the number may reach it.
    pub fn step(&mut self, number: &Value, limit: Option<&Value>) -> Chunk {
        let geometry = self.geometry;
        let block = self.evaluator.block;
        let (mut number, mut valid) = (number.clone(), None);
        if let Some(limit) = limit {
            let e = self.evaluator.e();
            valid = Some(e.op(format_args!("arith.cmpi ult, {number}, {limit} : index")));
            let one = index(e, 1);
            let last = index_op(e, "arith.subi", limit, &one);
            number = index_op(e, "arith.minui", &number, &last);
        }
        let valid = self.is_valid(valid);
        let mut sizes: Vec<usize> = geometry.reduction.iter().map(|&dim| block.domain[dim].size).collect();
        if geometry.along {
            sizes.push(block.domain[geometry.lane].size / geometry.width);
        }
        let e = self.evaluator.e();
        let mut at = if sizes.is_empty() { Vec::new() } else { coordinates(e, &number, &sizes) };
        let mut place = self.origin.clone();
        if geometry.along
            && let Some(chunk) = at.pop()
        {
            let width = index(e, geometry.width);
            place[geometry.lane] = index_op(e, "arith.muli", &chunk, &width);
            if let Some((head, _)) = &self.body {
                place[geometry.lane] = index_op(e, "arith.addi", head, &place[geometry.lane]);
            }
        }
        for (&dim, coordinate) in geometry.reduction.iter().zip(at) {
            place[dim] = coordinate;
        }
        Chunk { coordinates: place, width: geometry.width, valid }
    }

    /// The row as a chunk, for row values.
    pub fn row_chunk(&self) -> Chunk {
        let width = self.geometry.width;
        Chunk { coordinates: self.origin.clone(), width, valid: self.row_valid.clone() }
    }

    /// Sets up the steps that stay in registers.
    pub fn start_steps(&mut self) {
        let geometry = self.geometry;
        if !geometry.registers {
            return;
        }
        let certain_steps = self.certain_steps();
        for part in 0..geometry.steps.div_ceil(geometry.threads) {
            let e = self.evaluator.e();
            let shift = index(e, part * geometry.threads);
            let number = index_op(e, "arith.addi", &self.share, &shift);
            let certain = (part + 1) * geometry.threads <= certain_steps;
            let limit = if certain { None } else { Some(self.limit()) };
            let chunk = self.step(&number, limit.as_ref());
            self.steps.push((chunk, self.known.clone()));
        }
    }

    fn certain_steps(&self) -> usize {
        self.geometry.certain_steps(self.evaluator.block.domain[self.geometry.lane].size)
    }

    /// The number of steps of the row.
    fn limit(&mut self) -> Value {
        match &self.body {
            Some((_, steps)) => steps.clone(),
            None => index(self.evaluator.e(), self.geometry.steps),
        }
    }

    /// The range of steps of this block: `(first, limit)`.
    pub fn range(&mut self) -> (Value, Value) {
        let geometry = self.geometry;
        let steps = self.limit();
        if geometry.splits == 1 {
            return (self.evaluator.zero(), steps);
        }
        let split = self.evaluator.kernel.block('y');
        let e = self.evaluator.e();
        let length = index(e, geometry.split_steps);
        let first = index_op(e, "arith.muli", &split, &length);
        let limit = index_op(e, "arith.addi", &first, &length);
        (first, index_op(e, "arith.minui", &limit, &steps))
    }

    /// Walks over a thread's steps: emits `body` for the steps of one iteration. It adds them to what is carried, as
    /// `adding` says.
    pub fn walk_steps(
        &mut self,
        adding: &Adding<'_>,
        carried: Vec<Carried>,
        mut body: impl FnMut(&mut Self, &[Chunk], Vec<Carried>) -> Next,
    ) -> Next {
        let geometry = self.geometry;
        let (first, limit) = self.range();
        let together = geometry.threads * geometry.unroll;
        let exact = geometry.leader.is_none() && geometry.steps.is_multiple_of(together);
        let from = index_op(self.evaluator.e(), "arith.addi", &first, &self.share);
        let iterations = Iterations {
            range: Range { from, to: limit.clone() },
            step: together,
            most: geometry.split_steps.div_ceil(together),
            weight: geometry.unroll,
            rolled: false,
        };
        cascade(self, adding, &iterations, carried, &mut |kernel, at, carried| {
            let chunks: Vec<_> = (0..geometry.unroll)
                .map(|part| {
                    let e = kernel.evaluator.e();
                    let shift = index(e, part * geometry.threads);
                    let number = index_op(e, "arith.addi", at, &shift);
                    // The first one is below the limit: the loop says so.
                    let certain = exact || part == 0;
                    kernel.step(&number, if certain { None } else { Some(&limit) })
                })
                .collect();
            body(kernel, &chunks, carried)
        })
    }

    /// Whether this thread is the first of those that share a row that is its own.
    pub fn first_share(&mut self) -> Value {
        let zero = self.evaluator.zero();
        let first = self.evaluator.e().op(format_args!("arith.cmpi eq, {}, {zero} : index", self.share));
        self.is_valid(Some(first.clone())).unwrap_or(first)
    }
}
