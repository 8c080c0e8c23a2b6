//! Packing: an operand is copied into panels `[batch · panel][sum][width]`, converted to the type
//! products are summed in and padded with zeros, so that the innermost loop reads it in order.

use super::blocking::{ceil_div, lanes};
use super::index::{Index, repeat, segments};
use super::memory::{self, Array, View};
use super::stream::extends;
use super::transpose::transpose;
use crate::contraction::{Factor, Group};
use crate::emit::{Emitter, Value};
use crate::scalar;
use burn_mlir_ir::DType;

/// A packed operand and how it is made.
pub(crate) struct Packing<'a> {
    /// The operand.
    pub factor: &'a Factor,
    /// Dimensions shared with the other operand and the result.
    pub batch: &'a Group,
    /// The rows or columns that panels divide.
    pub group: &'a Group,
    /// Summed dimensions.
    pub sum: &'a Group,
    /// Width of a panel.
    pub width: i64,
    /// Panels of one batch element.
    pub panels: i64,
    /// Padded length of the sum.
    pub depth: i64,
    /// Steps of the sum one tile packs.
    pub chunk: i64,
    /// Lanes of a native vector of its elements.
    pub lanes: i64,
    /// Name of the attribute its copies carry.
    pub mark: &'static str,
}

impl Packing<'_> {
    /// Type of its elements.
    pub fn element(&self) -> DType {
        *self.factor.types.last().expect("a factor has a type")
    }

    /// Shape of the packed operand.
    pub fn shape(&self) -> [i64; 3] {
        [self.batch.len() * self.panels, self.depth, self.width]
    }

    /// Bytes of the packed operand, in whole cache lines.
    pub fn bytes(&self) -> i64 {
        let elements: i64 = self.shape().iter().product();
        ceil_div(elements * self.element().size() as i64, 64) * 64
    }

    fn chunks(&self) -> i64 {
        ceil_div(self.depth, self.chunk)
    }

    /// Number of tiles.
    pub fn tiles(&self) -> i64 {
        self.batch.len() * self.panels * self.chunks()
    }

    /// Emits the packing of tile `tile` into `packed`.
    pub fn emit(&self, e: &mut Emitter, view: &View, packed: &Array, tile: &Index) {
        let chunk = tile.rem(e, self.chunks());
        let slab = tile.div(e, self.chunks());
        let (panel, batch) = (slab.rem(e, self.panels), slab.div(e, self.panels));
        let from = chunk.mul(e, self.chunk);
        let end = from.add(e, &Index::Known(self.chunk)).min(e, &Index::Known(self.depth));
        let end = if self.chunks() == 1 { Index::Known(self.depth) } else { end };
        self.fill(e, view, (packed, &slab), [&batch, &panel], [&from, &end], &Index::Known(0));
    }

    /// Emits the packing of steps `from..end` of the sum of one panel into a slab of `packed`, which starts at
    /// step `origin`.
    pub fn fill(
        &self,
        e: &mut Emitter,
        view: &View,
        (packed, slab): (&Array, &Index),
        [batch, panel]: [&Index; 2],
        [from, end]: [&Index; 2],
        origin: &Index,
    ) {
        let first = panel.mul(e, self.width);
        let ragged = self.group.len() % self.width != 0;
        let last = if !ragged {
            first.add(e, &Index::Known(self.width))
        } else if self.panels == 1 {
            Index::Known(self.group.len())
        } else {
            first.add(e, &Index::Known(self.width)).min(e, &Index::Known(self.group.len()))
        };
        let full = !ragged || matches!(last, Index::Known(_));
        let valid = if full { Index::Known(self.width.min(self.group.len())) } else { last.sub(e, &first) };

        let target = Target { packed, slab, origin, width: self.width };
        let sum = self.sum.len();
        let stop = end.min(e, &Index::Known(sum));
        if self.depth > sum {
            let start = from.max(e, &Index::Known(sum));
            repeat(e, &start, end, 1, |e, k| target.clear(e, &k));
        }
        let base = self.batch.offset(e, &self.factor.access, batch);
        let range = [from, &stop, &first, &last];
        match self.order() {
            Order::Width => self.copy_rows(e, view, &target, range, &base, &valid),
            Order::Sum => self.copy_transposed(e, view, &target, range, &base),
            Order::None => self.copy_elements(e, view, &target, range, &base),
        }
    }

    /// The direction in which elements are copied as vectors.
    fn order(&self) -> Order {
        let access = &self.factor.access;
        let (width, sum) = (self.group.inner(access), self.sum.inner(access));
        let along_width = width.stride == 1 && width.size > 1;
        if along_width && width.size >= self.width.min(self.lanes) {
            Order::Width
        } else if sum.stride == 1 && sum.size >= self.lanes && extends(self.factor) {
            Order::Sum
        } else if along_width {
            Order::Width
        } else {
            Order::None
        }
    }

    /// Copies vectors along the sum, transposed in registers; what is left of a run one by one.
    fn copy_transposed(
        &self,
        e: &mut Emitter,
        view: &View,
        target: &Target,
        range: [&Index; 4],
        base: &Index,
    ) {
        let [from, stop, first, last] = range;
        let access = &self.factor.access;
        let run = self.sum.inner(access).size;
        let length = stop.sub(e, from);
        segments(e, [from, stop, &length], run, self.chunk, self.sum.len(), |e, start, length| {
            let blocks = length.div(e, self.lanes).mul(e, self.lanes);
            let middle = start.add(e, &blocks);
            let end = start.add(e, length);
            let whole = self.width / self.lanes * self.lanes;
            let block = |e: &mut Emitter, column: &Index, count: i64| {
                let lines = self.lines(e, first, last, column, count, base);
                repeat(e, start, &middle, self.lanes, |e, k| {
                    self.transpose_block(e, view, target, &lines, &k, column);
                });
            };
            repeat(e, &Index::Known(0), &Index::Known(whole), self.lanes, |e, column| {
                block(e, &column, self.lanes)
            });
            if whole < self.width {
                block(e, &Index::Known(whole), self.width - whole);
            }
            self.copy_elements(e, view, target, [&middle, &end, first, last], base);
        });
    }

    /// Emits the offsets of `count` lines of the operand from `column` of a panel on; behind the last line of a
    /// ragged panel it is that line again.
    fn lines(
        &self,
        e: &mut Emitter,
        first: &Index,
        last: &Index,
        column: &Index,
        count: i64,
        base: &Index,
    ) -> Vec<Index> {
        let start = first.add(e, column);
        let limit = match last {
            Index::Known(n) => Some(*n - 1),
            _ if self.group.len() % self.width == 0 => None,
            _ => Some(self.group.len() - 1),
        };
        let line = |i| {
            let line = start.add(e, &Index::Known(i));
            let line = limit.map_or(line.clone(), |limit| line.min(e, &Index::Known(limit)));
            let offset = self.group.offset(e, &self.factor.access, &line);
            base.add(e, &offset)
        };
        (0..count).map(line).collect()
    }

    /// Emits the copy of one square block, from step `k` of the sum and `column` of the panel on.
    fn transpose_block(
        &self,
        e: &mut Emitter,
        view: &View,
        target: &Target,
        lines: &[Index],
        k: &Index,
        column: &Index,
    ) {
        let (element, lanes) = (target.packed.element, self.lanes);
        let step = self.sum.offset(e, &self.factor.access, k);
        let mut rows: Vec<Value> = Vec::new();
        for line in lines {
            let offset = line.add(e, &step);
            let row = view.read(e, &offset, &Index::Known(lanes), lanes);
            rows.push(memory::extended(e, self.factor.types[0], element, Some(lanes), row));
        }
        while (rows.len() as i64) < lanes {
            rows.push(e.op(format_args!("ub.poison : vector<{lanes}x{element}>")));
        }
        for (i, value) in transpose(e, rows, element).iter().enumerate() {
            let k = k.sub(e, target.origin).add(e, &Index::Known(i as i64));
            target.packed.write_first(e, &[target.slab, &k, column], value, lines.len() as i64, lanes);
        }
    }

    /// Copies runs along the panel's width.
    fn copy_rows(
        &self,
        e: &mut Emitter,
        view: &View,
        target: &Target,
        range: [&Index; 4],
        base: &Index,
        valid: &Index,
    ) {
        let [from, stop, first, last] = range;
        let access = &self.factor.access;
        let run = self.group.inner(access).size;
        segments(e, [first, last, valid], run, self.width, self.group.len(), |e, start, length| {
            let offset = self.group.offset(e, access, start);
            let line = base.add(e, &offset);
            let whole = run % self.width == 0 || run >= self.group.len();
            let column = if whole { Index::Known(0) } else { start.sub(e, first) };
            repeat(e, from, stop, 1, |e, k| {
                let step = self.sum.offset(e, access, &k);
                let offset = line.add(e, &step);
                let k = k.sub(e, target.origin);
                if extends(self.factor) {
                    let (lanes, from) = (lanes(self.width), self.factor.types[0]);
                    let value = view.read(e, &offset, length, lanes);
                    let value = memory::extended(e, from, target.packed.element, Some(lanes), value);
                    target.packed.write(e, &[target.slab, &k, &column], &value, length, lanes);
                    return;
                }
                let length = &if lanes(self.width) == self.width
                    && matches!(length, Index::Known(n) if *n == self.width)
                {
                    length.clone()
                } else {
                    length.opaque(e)
                };
                let (source, source_type) = view.tensor(e, &offset, length);
                let one = Index::Known(1);
                let (slice, slice_type) =
                    target.packed.slice(e, &[target.slab, &k, &column], &[&one, &one, length], &[1]);
                let (empty, tensor) = memory::empty(e, length, target.packed.element);
                let result = e.fresh();
                e.open(format_args!(
                    "{result} = linalg.generic {{indexing_maps = [affine_map<(j) -> (j)>, affine_map<(j) -> (j)>], iterator_types = [\"parallel\"]}} ins({source} : {source_type}) outs({empty} : {tensor}) attrs = {{{}}} {{",
                    self.mark
                ));
                let (x, unused) = (e.fresh(), e.fresh());
                e.line(format_args!("^bb0({x}: {}, {unused}: {}):", view.element, target.packed.element));
                let converted = self.convert(e, x);
                e.line(format_args!("linalg.yield {converted} : {}", target.packed.element));
                e.close(format_args!("}} -> {tensor}"));
                memory::write(e, (&result, &tensor), (&slice, &slice_type));
            });
        });
    }

    /// Copies element by element, along the sum innermost.
    fn copy_elements(&self, e: &mut Emitter, view: &View, target: &Target, range: [&Index; 4], base: &Index) {
        let [from, stop, first, last] = range;
        let access = &self.factor.access;
        repeat(e, first, last, 1, |e, i| {
            let offset = self.group.offset(e, access, &i);
            let line = base.add(e, &offset);
            let column = i.sub(e, first);
            repeat(e, from, stop, 1, |e, k| {
                let step = self.sum.offset(e, access, &k);
                let offset = line.add(e, &step);
                let x = view.load(e, &offset);
                let converted = self.convert(e, x);
                target.set(e, &k, &column, &converted);
            });
        });
    }

    fn convert(&self, e: &mut Emitter, x: Value) -> Value {
        let types = &self.factor.types;
        let mut value = scalar::from_storage(e, types[0], &x);
        for pair in types.windows(2) {
            if pair[0] != pair[1] {
                value = scalar::cast(e, pair[0], pair[1], &value);
            }
        }
        value
    }
}

/// Directions of vectors.
enum Order {
    Width,
    Sum,
    None,
}

/// A slab of a packed operand being written.
struct Target<'a> {
    packed: &'a Array,
    slab: &'a Index,
    /// The step of the sum where the slab starts.
    origin: &'a Index,
    width: i64,
}

impl Target<'_> {
    /// Emits zeros for one step of the sum.
    fn clear(&self, e: &mut Emitter, k: &Index) {
        let Array { memref, memref_type, .. } = self.packed;
        let k = k.sub(e, self.origin);
        let (slab, k, zero) = (self.slab.value(e), k.value(e), Index::Known(0).value(e));
        let vector = format!("vector<{}x{}>", self.width, self.packed.element);
        let literal = memory::zero(self.packed.element);
        let zeros = e.op(format_args!("arith.constant dense<{literal}> : {vector}"));
        e.line(format_args!("vector.store {zeros}, {memref}[{slab}, {k}, {zero}] : {memref_type}, {vector}"));
    }

    /// Emits the store of one element.
    fn set(&self, e: &mut Emitter, k: &Index, column: &Index, value: &Value) {
        let k = k.sub(e, self.origin);
        self.packed.store(e, &[self.slab, &k, column], value);
    }
}
