//! The phases of a packed contraction.

use super::blocking::{Blocking, ceil_div, lanes};
use super::epilogue::{self, Epilogue};
use super::index::{Index, repeat};
use super::memory::{self, Array, View};
use super::pack::Packing;
use crate::abi::{PhaseWriter, Scratch};
use crate::contraction::Contraction;
use crate::emit::Emitter;
use crate::types::value_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Block, HostTarget, Phase, Program};

const PACK: &str = "pack";
const COMPUTE: &str = "contract";

/// Lowers `block` with both operands packed.
pub(crate) fn packed(block: &Block, c: &Contraction, target: &HostTarget) -> Result<Payload, LoweringError> {
    let blocking = Blocking::of(c, target);
    let packing = |factor, group, width, panels, chunk, mark| Packing {
        factor,
        batch: &c.batch,
        group,
        sum: &c.sum,
        width,
        panels,
        depth: blocking.depth,
        chunk,
        lanes: (target.vector_bytes / c.accumulator.size()).max(1) as i64,
        mark,
    };
    let left = packing(&c.left, &c.rows, blocking.mr, blocking.row_panels, blocking.pack_depth, "pack_left");
    let chunk = if blocking.local { blocking.depth_block } else { blocking.pack_depth };
    let right = packing(&c.right, &c.columns, blocking.nr, blocking.column_panels, chunk, "pack_right");
    let kernel = Kernel { block, contraction: c, blocking: &blocking, left, right };

    let mut program = Program { phases: Vec::new(), shared_bytes: 0, worker_bytes: kernel.worker_bytes() };
    let phase = |symbol: &str, tiles: i64| Phase {
        symbol: symbol.into(),
        tiles: tiles.unsigned_abs(),
        ..Phase::default()
    };
    let mut text = String::new();
    if blocking.depth > 0 {
        text.push_str(&kernel.pack());
        let right = if blocking.local { (0, 0) } else { (kernel.right.tiles(), kernel.right.bytes()) };
        program.phases.push(phase(PACK, kernel.left.tiles() + right.0));
        program.shared_bytes = (kernel.left.bytes() + right.1).unsigned_abs();
    }
    text.push_str(&kernel.compute()?);
    program.phases.push(phase(COMPUTE, kernel.tiles()));
    Ok(Payload {
        text,
        program,
        schedule: schedule(blocking.mr, blocking.nr, blocking.unroll),
        lower_sequence: true,
    })
}

/// The transform script for panels `left` and `right` elements wide and `steps` of the sum per iteration.
pub(crate) fn schedule(left: i64, right: i64, steps: i64) -> String {
    include_str!("schedule.mlir")
        .replace("LEFT_LANES", &lanes(left).to_string())
        .replace("RIGHT_LANES", &lanes(right).to_string())
        .replace("SUM_STEP", &steps.to_string())
}

/// Emits code for one register tile at a batch element, row panel and column panel, with its entry of the sums.
type Body<'a> = dyn FnMut(&mut Emitter, [&Index; 3], Index) + 'a;

struct Kernel<'a> {
    block: &'a Block,
    contraction: &'a Contraction,
    blocking: &'a Blocking,
    left: Packing<'a>,
    right: Packing<'a>,
}

impl Kernel<'_> {
    fn row_blocks(&self) -> i64 {
        ceil_div(self.blocking.row_panels, self.blocking.row_block)
    }

    fn column_blocks(&self) -> i64 {
        ceil_div(self.blocking.column_panels, self.blocking.column_block)
    }

    fn tiles(&self) -> i64 {
        self.contraction.batch.len() * self.row_blocks() * self.column_blocks()
    }

    /// Parts of the sum that are computed one after the other.
    fn depth_blocks(&self) -> i64 {
        if self.blocking.depth == 0 { 0 } else { self.blocking.depth / self.blocking.depth_block }
    }

    /// Register tiles of scratch: the current one, and all of a tile if the sum is made of parts.
    fn kept(&self) -> i64 {
        if self.depth_blocks() > 1 { 1 + self.blocking.row_block * self.blocking.column_block } else { 1 }
    }

    fn element(&self) -> &'static str {
        value_type(self.contraction.accumulator)
    }

    fn sums_bytes(&self) -> i64 {
        let tile = self.blocking.mr * self.blocking.nr * self.contraction.accumulator.size() as i64;
        ceil_div(self.kept() * tile, 64) * 64
    }

    fn worker_bytes(&self) -> u64 {
        let panel = if self.blocking.local { self.panel_shape().iter().product() } else { 0 };
        (self.panel_offset() + panel * self.contraction.accumulator.size() as i64).unsigned_abs()
    }

    /// Where a tile's own right panel starts in the worker's scratch, and its shape.
    fn panel_offset(&self) -> i64 {
        let epilogue = epilogue::scratch_bytes(self.block, self.blocking.nr);
        ceil_div(self.sums_bytes() + epilogue, 64) * 64
    }

    fn panel_shape(&self) -> [i64; 3] {
        [1, self.blocking.depth_block, self.blocking.nr]
    }

    fn packed(&self, phase: &mut PhaseWriter) -> (Array, Array) {
        let left = Array::of(phase, Scratch::Shared, 0, &self.left.shape(), self.element());
        let right = if self.blocking.local {
            Array::of(phase, Scratch::Worker, self.panel_offset(), &self.panel_shape(), self.element())
        } else {
            Array::of(phase, Scratch::Shared, self.left.bytes(), &self.right.shape(), self.element())
        };
        (left, right)
    }

    /// The phase that packs: first tiles of the left operand, then of the right one.
    fn pack(&self) -> String {
        let mut phase = PhaseWriter::new(PACK);
        let views = [&self.left, &self.right]
            .map(|p| View::of(&mut phase, self.block, p.factor.param, &p.factor.access));
        let (left, right) = self.packed(&mut phase);
        let (begin, end) = (Index::Computed(phase.begin()), Index::Computed(phase.end()));
        let e = &mut phase.emitter;
        if self.blocking.local {
            repeat(e, &begin, &end, 1, |e, tile| self.left.emit(e, &views[0], &left, &tile));
            return phase.finish();
        }
        let split = Index::Known(self.left.tiles());
        let stop = end.min(e, &split);
        repeat(e, &begin, &stop, 1, |e, tile| self.left.emit(e, &views[0], &left, &tile));
        let start = begin.max(e, &split);
        repeat(e, &start, &end, 1, |e, tile| {
            let tile = tile.sub(e, &split);
            self.right.emit(e, &views[1], &right, &tile);
        });
        phase.finish()
    }

    /// The phase that computes: a tile is a block of rows and columns of one batch element.
    fn compute(&self) -> Result<String, LoweringError> {
        let mut phase = PhaseWriter::new(COMPUTE);
        let (c, b) = (self.contraction, self.blocking);
        let epilogue = Epilogue::prepare(&mut phase, self.block, c, b.nr, self.sums_bytes());
        let operands = (b.depth > 0).then(|| self.packed(&mut phase));
        let right = &c.right;
        let source = b.local.then(|| View::of(&mut phase, self.block, right.param, &right.access));
        let sums = Array::of(&mut phase, Scratch::Worker, 0, &[self.kept(), b.mr, b.nr], self.element());
        let (begin, end) = (Index::Computed(phase.begin()), Index::Computed(phase.end()));
        let mut outcome = Ok(());
        let blocks = self.depth_blocks();
        let e = &mut phase.emitter;
        repeat(e, &begin, &end, 1, |e, tile| {
            let column_block = tile.rem(e, self.column_blocks());
            let rest = tile.div(e, self.column_blocks());
            let (row_block, batch) = (rest.rem(e, self.row_blocks()), rest.div(e, self.row_blocks()));
            let span = |e: &mut Emitter, block: &Index, panels: i64, size: i64| {
                let first = block.mul(e, size);
                let last = first.add(e, &Index::Known(size));
                let last = if panels % size == 0 { last } else { last.min(e, &Index::Known(panels)) };
                (first, last)
            };
            let rows = span(e, &row_block, b.row_panels, b.row_block);
            let columns = span(e, &column_block, b.column_panels, b.column_block);
            // `from` is the part of the sum about to be computed, if any is.
            let each_tile = |e: &mut Emitter, from: Option<&Index>, body: &mut Body| {
                repeat(e, &columns.0, &columns.1, 1, |e, column_panel| {
                    if let (Some(from), Some(source), Some((_, panel))) = (from, &source, &operands) {
                        let end = from.add(e, &Index::Known(b.depth_block));
                        let slab = Index::Known(0);
                        self.right.fill(
                            e,
                            source,
                            (panel, &slab),
                            [&batch, &column_panel],
                            [from, &end],
                            from,
                        );
                    }
                    repeat(e, &rows.0, &rows.1, 1, |e, row_panel| {
                        let slot = if blocks > 1 {
                            let (i, j) = (row_panel.sub(e, &rows.0), column_panel.sub(e, &columns.0));
                            j.mul(e, b.row_block).add(e, &i).add(e, &Index::Known(1))
                        } else {
                            Index::Known(0)
                        };
                        body(e, [&batch, &row_panel, &column_panel], slot);
                    });
                });
            };
            if blocks > 1 {
                each_tile(e, None, &mut |e, _, slot| {
                    self.each_row(e, |e, row| self.clear(e, &sums, &slot, &row))
                });
                repeat(e, &Index::Known(0), &Index::Known(b.depth), b.depth_block, |e, from| {
                    each_tile(e, Some(&from), &mut |e, position, slot| {
                        self.sum(e, operands.as_ref(), &sums, position, &from);
                        self.each_row(e, |e, row| self.accumulate(e, &sums, &slot, &row));
                    });
                });
            }
            let from = (blocks == 1).then_some(Index::Known(0));
            each_tile(e, from.as_ref(), &mut |e, position, slot| {
                if blocks <= 1 {
                    self.sum(e, operands.as_ref(), &sums, position, &Index::Known(0));
                }
                let finished = self.finish(e, &epilogue, (&sums, &slot), position);
                outcome = std::mem::replace(&mut outcome, Ok(())).and(finished);
            });
        });
        outcome?;
        Ok(phase.finish())
    }

    fn each_row(&self, e: &mut Emitter, body: impl FnOnce(&mut Emitter, Index)) {
        repeat(e, &Index::Known(0), &Index::Known(self.blocking.mr), 1, body);
    }

    /// Emits zeros into a row of entry `slot` of `sums`.
    fn clear(&self, e: &mut Emitter, sums: &Array, slot: &Index, row: &Index) {
        let (width, element) = (self.blocking.nr, self.element());
        let zeros =
            e.op(format_args!("arith.constant dense<{}> : vector<{width}x{element}>", memory::zero(element)));
        sums.write(e, &[slot, row, &Index::Known(0)], &zeros, &Index::Known(width), width);
    }

    /// Emits the addition of a row of entry 0 of `sums` to entry `slot`.
    fn accumulate(&self, e: &mut Emitter, sums: &Array, slot: &Index, row: &Index) {
        let (width, element) = (self.blocking.nr, self.element());
        let zero = Index::Known(0);
        let (part, sum) =
            (sums.read(e, &[&zero, row, &zero], width), sums.read(e, &[slot, row, &zero], width));
        let kind = if self.contraction.accumulator.is_float() { "f" } else { "i" };
        let sum = e.op(format_args!("arith.add{kind} {sum}, {part} : vector<{width}x{element}>"));
        sums.write(e, &[slot, row, &zero], &sum, &Index::Known(width), width);
    }

    /// Emits the sum over one part of the packed panels into entry 0 of `sums`.
    fn sum(
        &self,
        e: &mut Emitter,
        operands: Option<&(Array, Array)>,
        sums: &Array,
        [batch, row_panel, column_panel]: [&Index; 3],
        from: &Index,
    ) {
        let b = self.blocking;
        let (one, zero, depth) = (Index::Known(1), Index::Known(0), Index::Known(b.depth_block));
        let (mr, nr) = (Index::Known(b.mr), Index::Known(b.nr));
        let (target, target_type) = sums.slice(e, &[&zero, &zero, &zero], &[&one, &mr, &nr], &[b.nr, 1]);
        let element = self.element();
        let tile = format!("tensor<{}x{}x{element}>", b.mr, b.nr);
        let empty = e.op(format_args!("tensor.empty() : {tile}"));
        let value = e.op(format_args!("arith.constant {} : {element}", memory::zero(element)));
        let start = e.op(format_args!(
            "linalg.fill {{start}} ins({value} : {element}) outs({empty} : {tile}) -> {tile}"
        ));
        let Some((left, right)) = operands else {
            memory::write(e, (&start, &tile), (&target, &target_type));
            return;
        };
        let slab = |e: &mut Emitter, panels: i64, panel: &Index| batch.mul(e, panels).add(e, panel);
        let part = |e: &mut Emitter, packed: &Array, slab: &Index, from: &Index, width: i64| {
            let size = Index::Known(width);
            let (slice, slice_type) =
                packed.slice(e, &[slab, from, &zero], &[&one, &depth, &size], &[width, 1]);
            memory::to_tensor(e, &slice, &slice_type, &[&depth, &size], element)
        };
        let left_slab = slab(e, b.row_panels, row_panel);
        let (x, x_type) = part(e, left, &left_slab, from, b.mr);
        let (y, y_type) = if b.local {
            part(e, right, &zero, &zero, b.nr)
        } else {
            let right_slab = slab(e, b.column_panels, column_panel);
            part(e, right, &right_slab, from, b.nr)
        };
        let result = e.fresh();
        e.open(format_args!(
            "{result} = linalg.generic {{indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = [\"parallel\", \"parallel\", \"reduction\"]}} ins({x}, {y} : {x_type}, {y_type}) outs({start} : {tile}) attrs = {{contraction}} {{"
        ));
        let (p, q, sum) = (e.fresh(), e.fresh(), e.fresh());
        e.line(format_args!("^bb0({p}: {element}, {q}: {element}, {sum}: {element}):"));
        let kind = if self.contraction.accumulator.is_float() { "f" } else { "i" };
        let product = e.op(format_args!("arith.mul{kind} {p}, {q} : {element}"));
        let next = e.op(format_args!("arith.add{kind} {sum}, {product} : {element}"));
        e.line(format_args!("linalg.yield {next} : {element}"));
        e.close(format_args!("}} -> {tile}"));
        memory::write(e, (&result, &tile), (&target, &target_type));
    }

    /// Emits the epilogue of one register tile.
    fn finish(
        &self,
        e: &mut Emitter,
        epilogue: &Epilogue,
        sums: (&Array, &Index),
        [batch, row_panel, column_panel]: [&Index; 3],
    ) -> Result<(), LoweringError> {
        let (c, b) = (self.contraction, self.blocking);
        let valid = |e: &mut Emitter, first: &Index, width: i64, total: i64| {
            if total % width == 0 {
                return Index::Known(width);
            }
            if let Index::Known(0) = first {
                return Index::Known(width.min(total));
            }
            let left = Index::Known(total).sub(e, first);
            left.min(e, &Index::Known(width))
        };
        let first_row = row_panel.mul(e, b.mr);
        let rows = valid(e, &first_row, b.mr, c.rows.len());
        let first = column_panel.mul(e, b.nr);
        let columns = valid(e, &first, b.nr, c.columns.len());
        let last = first.add(e, &columns);
        epilogue::tile(e, epilogue, sums, b.nr, batch, [&first_row, &rows], [&first, &last, &columns])
    }
}
