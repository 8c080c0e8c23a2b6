//! Packing: an operand is copied into panels `[batch · panel][sum][width]`, converted to the type
//! products are summed in and padded with zeros, so that the innermost loop reads it in order.

use super::blocking::{ceil_div, lanes};
use super::index::{Index, repeat, segments, when};
use super::memory::{self, Array, View};
use super::structure::{Factor, Group};
use crate::emit::{Emitter, Value};
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

        let target = Target { packed, slab: &slab, width: self.width };
        if ragged {
            when(e, &valid, &Index::Known(self.width), |e| {
                repeat(e, &from, &end, 1, |e, k| target.clear(e, &k));
            });
        }
        let sum = self.sum.len();
        let stop = end.min(e, &Index::Known(sum));
        if self.depth > sum {
            let start = from.max(e, &Index::Known(sum));
            repeat(e, &start, &end, 1, |e, k| target.clear(e, &k));
        }
        let base = self.batch.offset(e, &self.factor.access, &batch);
        let inner = self.group.inner(&self.factor.access);
        if inner.stride == 1 && inner.size > 1 {
            self.copy_rows(e, view, &target, [&from, &stop, &first, &last], &base, &valid);
        } else {
            self.copy_elements(e, view, &target, [&from, &stop, &first, &last], &base);
        }
    }

    /// Copies runs along the panel's width, one step of the sum at a time.
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
        repeat(e, from, stop, 1, |e, k| {
            let step = self.sum.offset(e, access, &k);
            let row = base.add(e, &step);
            segments(e, [first, last, valid], run, self.width, self.group.len(), |e, start, length| {
                let offset = self.group.offset(e, access, start);
                let offset = row.add(e, &offset);
                let column = start.sub(e, first);
                let column = if matches!(length, Index::Known(n) if *n == self.width) {
                    Index::Known(0)
                } else {
                    column
                };
                if view.element == target.packed.element {
                    let value = view.read(e, &offset, length, lanes(self.width));
                    target.packed.write(e, &[target.slab, &k, &column], &value, length, lanes(self.width));
                    return;
                }
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
        let mut value = crate::scalar::from_storage(e, types[0], &x);
        for pair in types.windows(2) {
            if pair[0] != pair[1] {
                value = crate::scalar::cast(e, pair[0], pair[1], &value);
            }
        }
        value
    }
}

/// A slab of a packed operand being written.
struct Target<'a> {
    packed: &'a Array,
    slab: &'a Index,
    width: i64,
}

impl Target<'_> {
    /// Emits zeros for one step of the sum.
    fn clear(&self, e: &mut Emitter, k: &Index) {
        let Array { memref, memref_type, .. } = self.packed;
        let (slab, k, zero) = (self.slab.value(e), k.value(e), Index::Known(0).value(e));
        let vector = format!("vector<{}x{}>", self.width, self.packed.element);
        let literal = memory::zero(self.packed.element);
        let zeros = e.op(format_args!("arith.constant dense<{literal}> : {vector}"));
        e.line(format_args!("vector.store {zeros}, {memref}[{slab}, {k}, {zero}] : {memref_type}, {vector}"));
    }

    /// Emits the store of one element.
    fn set(&self, e: &mut Emitter, k: &Index, column: &Index, value: &Value) {
        self.packed.store(e, &[self.slab, k, column], value);
    }
}
