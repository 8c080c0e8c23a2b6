//! Index arithmetic in the emitted code, folded here where operands are known.

use crate::contraction::Group;
use crate::emit::{Emitter, Value};
use burn_mlir_ir::Access;

/// An `index` value: known now, or an SSA name of type `index`.
#[derive(Clone, Debug)]
pub(crate) enum Index {
    /// Known when the kernel is compiled.
    Known(i64),
    /// Computed by the kernel.
    Computed(Value),
}

impl Index {
    /// The SSA name, made by a constant where the value is known.
    pub fn value(&self, e: &mut Emitter) -> Value {
        match self {
            Index::Known(n) => e.op(format_args!("arith.constant {n} : index")),
            Index::Computed(value) => value.clone(),
        }
    }

    /// As it is written among the offsets and sizes of a slice: a number or an SSA name.
    pub fn operand(&self) -> String {
        match self {
            Index::Known(n) => n.to_string(),
            Index::Computed(value) => value.to_string(),
        }
    }

    /// As it is written in a shaped type: a number or `?`.
    pub fn extent(&self) -> String {
        match self {
            Index::Known(n) => n.to_string(),
            Index::Computed(_) => "?".into(),
        }
    }

    fn binary(&self, e: &mut Emitter, op: &str, other: &Index) -> Index {
        let (a, b) = (self.value(e), other.value(e));
        Index::Computed(e.op(format_args!("arith.{op} {a}, {b} : index")))
    }

    /// `self + other`.
    pub fn add(&self, e: &mut Emitter, other: &Index) -> Index {
        match (self, other) {
            (Index::Known(a), Index::Known(b)) => Index::Known(a + b),
            (Index::Known(0), x) | (x, Index::Known(0)) => x.clone(),
            _ => self.binary(e, "addi", other),
        }
    }

    /// `self - other`.
    pub fn sub(&self, e: &mut Emitter, other: &Index) -> Index {
        match (self, other) {
            (Index::Known(a), Index::Known(b)) => Index::Known(a - b),
            (x, Index::Known(0)) => x.clone(),
            _ => self.binary(e, "subi", other),
        }
    }

    /// `self · factor`.
    pub fn mul(&self, e: &mut Emitter, factor: i64) -> Index {
        match (self, factor) {
            (Index::Known(a), _) => Index::Known(a * factor),
            (_, 0) => Index::Known(0),
            (x, 1) => x.clone(),
            _ => self.binary(e, "muli", &Index::Known(factor)),
        }
    }

    /// `self / divisor` for non-negative `self`.
    pub fn div(&self, e: &mut Emitter, divisor: i64) -> Index {
        match (self, divisor) {
            (Index::Known(a), _) => Index::Known(a / divisor),
            (x, 1) => x.clone(),
            _ => self.binary(e, "divui", &Index::Known(divisor)),
        }
    }

    /// `self mod divisor` for non-negative `self`.
    pub fn rem(&self, e: &mut Emitter, divisor: i64) -> Index {
        match (self, divisor) {
            (Index::Known(a), _) => Index::Known(a % divisor),
            (_, 1) => Index::Known(0),
            _ => self.binary(e, "remui", &Index::Known(divisor)),
        }
    }

    /// The same value, unknown to LLVM. LLVM 22 writes a whole wide element for a masked store of truncated
    /// ones whose mask is known to have a single lane: beyond what it may write. Lengths of parts of vectors go
    /// through this.
    pub fn opaque(&self, e: &mut Emitter) -> Index {
        let value = self.value(e);
        let plain = e.op(format_args!("arith.index_cast {value} : index to i64"));
        let hidden =
            e.op(format_args!("llvm.inline_asm asm_dialect = att \"\", \"=r,0\" {plain} : (i64) -> i64"));
        Index::Computed(e.op(format_args!("arith.index_cast {hidden} : i64 to index")))
    }

    /// The smaller.
    pub fn min(&self, e: &mut Emitter, other: &Index) -> Index {
        match (self, other) {
            (Index::Known(a), Index::Known(b)) => Index::Known(*a.min(b)),
            _ => self.binary(e, "minsi", other),
        }
    }

    /// The larger.
    pub fn max(&self, e: &mut Emitter, other: &Index) -> Index {
        match (self, other) {
            (Index::Known(a), Index::Known(b)) => Index::Known(*a.max(b)),
            _ => self.binary(e, "maxsi", other),
        }
    }
}

impl Group {
    /// Emits the offset of `access` at the `linear`-th point of the group.
    pub fn offset(&self, e: &mut Emitter, access: &Access, linear: &Index) -> Index {
        let walks = self.walks(access);
        let mut rest = linear.clone();
        let mut offset = Index::Known(0);
        for (position, walk) in walks.iter().enumerate().rev() {
            let coordinate = if position == 0 { rest.clone() } else { rest.rem(e, walk.size) };
            if walk.stride != 0 {
                let step = coordinate.mul(e, walk.stride);
                offset = offset.add(e, &step);
            }
            if position > 0 {
                if walks[..position].iter().all(|w| w.stride == 0) {
                    break;
                }
                rest = rest.div(e, walk.size);
            }
        }
        offset
    }
}

/// Emits `scf.for` over `from..to` in steps of `step`; nothing for a loop known to be empty, no
/// loop for one known to run once.
pub(crate) fn repeat(
    e: &mut Emitter,
    from: &Index,
    to: &Index,
    step: i64,
    body: impl FnOnce(&mut Emitter, Index),
) {
    if let (Index::Known(a), Index::Known(b)) = (from, to) {
        if a >= b {
            return;
        }
        if a + step >= *b {
            return body(e, from.clone());
        }
    }
    let (lower, upper, step) = (from.value(e), to.value(e), Index::Known(step).value(e));
    let variable = e.fresh();
    e.open(format_args!("scf.for {variable} = {lower} to {upper} step {step} {{"));
    body(e, Index::Computed(variable));
    e.close("}");
}

/// Emits `body(start, length)` for every piece of `range = [first, end, length]` that lies in one run of `run`
/// points, where `range` is part of the `width` points from a multiple of `width`, of `total`.
pub(crate) fn segments(
    e: &mut Emitter,
    range: [&Index; 3],
    run: i64,
    width: i64,
    total: i64,
    body: impl FnOnce(&mut Emitter, &Index, &Index),
) {
    let [first, end, length] = range;
    if run % width == 0 || run >= total {
        return body(e, first, length);
    }
    let (lower, upper) = (first.value(e), end.value(e));
    let (before, inside) = (e.fresh(), e.fresh());
    e.open(format_args!("scf.while ({before} = {lower}) : (index) -> index {{"));
    let more = e.op(format_args!("arith.cmpi slt, {before}, {upper} : index"));
    e.line(format_args!("scf.condition({more}) {before} : index"));
    e.close("} do {");
    e.open(format_args!("^bb0({inside}: index):"));
    let start = Index::Computed(inside);
    let position = start.rem(e, run);
    let left = Index::Known(run).sub(e, &position);
    let rest = Index::Computed(upper).sub(e, &start);
    let length = left.min(e, &rest);
    body(e, &start, &length);
    let after = start.add(e, &length).value(e);
    e.line(format_args!("scf.yield {after} : index"));
    e.close("}");
}
