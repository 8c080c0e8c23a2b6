//! Sums of floats: in fixed point, so that they are integers, which come to the same in any order.
//!
//! One unit for all elements would be too coarse for small ones, so that every element of data has its own, by
//! the largest exponent among its updates. Four kernels:
//! - `clear` sets an element's *key* and *total* in scratch memory to 0;
//! - `keys` makes the key the largest one of the updates, see [`NONE`] and the constants after it;
//! - `totals` adds the updates, as multiples of the unit that follows from the key, to the total. If one of them
//!   is infinite or NaN, the total is a set of flags instead;
//! - `write` adds the total to data, in f64, and rounds once to the type.
//!
//! A total of n updates has ⌈log2 n⌉ bits of head room besides its sign, so that it does not overflow. The unit is
//! what the rest leaves below the 24 bits of the largest update: 2^(⌈log2 n⌉ - 39) of its last place. Updates are
//! rounded to the unit, so that a total of a million is off by one such place if all are; a chain of f32 sums by
//! half a million.

use super::{Columns, Item, Update, atomic, data_count, data_shape, each_item, float_bits, updates};
use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::scatter::coordinates;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::nvptx::{ACCESS_BYTES, kernels};
use crate::scalar;
use crate::types::storage_type;
use crate::{LoweringError, Payload};
use burn_mlir_ir::DType;

/// The key of an element without updates, or with none but -0, which change nothing.
const NONE: u32 = 0;

/// The key of updates that are +0 or subnormal: their exponent is that of the smallest normal floats. Those of
/// other finite updates are their exponents as they are in an f32.
const SMALL: u32 = 1;

/// The key of updates that are infinite or NaN.
const SPECIAL: u32 = 255;

/// Flags of a total with the key [`SPECIAL`].
const PLUS_INFINITY: u64 = 1;
const MINUS_INFINITY: u64 = 2;
const NAN: u64 = 4;

/// Bits of an f32 below its exponent.
const FRACTION_BITS: u32 = 23;

/// What the exponent in an f32 is above that of its last place.
const LAST_PLACE: u32 = 127 + FRACTION_BITS;

/// The same of the exponent in an f64 and of its value.
const WIDE_BIAS: u32 = 1023;

/// Whether a scatter's updates can be added so: they are exact as f32, and totals have bits for them.
pub(super) fn can(columns: &Columns<'_>) -> bool {
    columns.accumulator().size() == 4 && spare_bits(columns.axis_size()).is_some()
}

/// Bits of a total below the last place of the largest of `updates` updates: of 63 besides the sign, those of
/// an f32 and the head room are taken. There is at least one.
fn spare_bits(updates: usize) -> Option<u32> {
    let room = usize::BITS - updates.saturating_sub(1).leading_zeros();
    (i64::BITS - 1).checked_sub(FRACTION_BITS + 1 + room).filter(|&bits| bits > 0)
}

pub(super) fn lower(columns: &Columns<'_>) -> Result<Payload, LoweringError> {
    let scatter = columns.scatter;
    let (count, update_count) = (data_count(columns), scatter.shape.iter().product());
    let Some(spare) = spare_bits(columns.axis_size()) else {
        return Err(LoweringError::Unsupported(format!(
            "fixed-point sums of {} updates",
            columns.axis_size()
        )));
    };
    let totals = (4 * count).next_multiple_of(ACCESS_BYTES);
    let bytes = (totals + 8 * count).next_multiple_of(ACCESS_BYTES);
    let sums = Sums { columns, totals, spare };
    let clear = columns.each("clear", bytes / ACCESS_BYTES, |kernel, number| {
        let base = kernel.scratch(0);
        let at = kernel.element(&base, GLOBAL, number, "vector<4xi32>");
        let e = &mut kernel.emitter;
        let zeros = e.op("arith.constant dense<0> : vector<4xi32>");
        e.line(format_args!("llvm.store {zeros}, {at} : vector<4xi32>, {GLOBAL}"));
    })?;
    let keys = each_item(columns, "keys", update_count, |kernel, items| sums.raise_keys(kernel, items))?;
    let add = each_item(columns, "totals", update_count, |kernel, items| sums.add(kernel, items))?;
    let write = each_item(columns, "write", count, |kernel, items| sums.write(kernel, items))?;
    Ok(kernels(vec![clear, keys, add, write], bytes))
}

struct Sums<'a> {
    columns: &'a Columns<'a>,
    /// Where totals are in scratch memory; keys are at its start.
    totals: usize,
    /// Bits of a total below the last place of the largest update.
    spare: u32,
}

impl Sums<'_> {
    fn key_place(&self, kernel: &mut KernelWriter, number: &Value) -> Value {
        let keys = kernel.scratch(0);
        kernel.element(&keys, GLOBAL, number, "i32")
    }

    fn total_place(&self, kernel: &mut KernelWriter, number: &Value) -> Value {
        let totals = kernel.scratch(self.totals);
        kernel.element(&totals, GLOBAL, number, "i64")
    }

    /// The bits of an update as an f32.
    fn bits(&self, e: &mut Emitter, update: &Update) -> Value {
        let (dtype, to) = (self.columns.scatter.dtype, self.columns.accumulator());
        let value = scalar::from_storage(e, dtype, &update.element);
        let value = scalar::cast(e, dtype, to, &value);
        float_bits(e, to, &value, "i32")
    }

    /// Makes the keys of updates' elements at least the updates'.
    fn raise_keys(&self, kernel: &mut KernelWriter, items: Vec<Item>) {
        for update in updates(self.columns, kernel, items) {
            let e = &mut kernel.emitter;
            let bits = self.bits(e, &update);
            let minus_zero = e.int("i32", i32::MIN);
            let counts = e.compare("ne", "i32", &bits, &minus_zero);
            let counts = e.both(&counts, &update.inside);
            e.open(format_args!("scf.if {counts} {{"));
            let key = update_key(e, &bits);
            let place = self.key_place(kernel, &update.number);
            atomic(&mut kernel.emitter, "umax", &place, &key, "i32");
            kernel.emitter.close("}");
        }
    }

    /// Adds updates to the totals of their elements.
    fn add(&self, kernel: &mut KernelWriter, items: Vec<Item>) {
        let with_keys = updates(self.columns, kernel, items).into_iter().map(|update| {
            let place = self.key_place(kernel, &update.number);
            let key = kernel.emitter.op(format_args!("llvm.load {place} : {GLOBAL} -> i32"));
            (update, key)
        });
        for (update, key) in with_keys.collect::<Vec<_>>() {
            let total = self.total_place(kernel, &update.number);
            let e = &mut kernel.emitter;
            let bits = self.bits(e, &update);
            let (exponent, special) = (update_key(e, &bits), e.int("i32", SPECIAL));
            let value = self.fixed_point(e, &bits, &exponent, &key);
            let flags = e.compare("eq", "i32", &key, &special);
            let finite = e.not(&flags);
            let adds = e.both(&finite, &update.inside);
            e.open(format_args!("scf.if {adds} {{"));
            atomic(e, "add", &total, &value, "i64");
            e.close("} else {");
            e.open("// not finite, or not inside");
            let counts = e.compare("eq", "i32", &exponent, &special);
            let counts = e.both(&counts, &update.inside);
            e.open(format_args!("scf.if {counts} {{"));
            let flag = flag(e, &bits);
            atomic(e, "_or", &total, &flag, "i64");
            e.close("}");
            e.close("}");
        }
    }

    /// A finite update as a multiple of the unit that follows from a key, rounded to nearest.
    fn fixed_point(&self, e: &mut Emitter, bits: &Value, exponent: &Value, key: &Value) -> Value {
        let fraction = fraction(e, bits);
        // The highest bit, which a subnormal float does not have.
        let (highest, zero) = (e.int("i32", 1 << FRACTION_BITS), e.int("i32", 0));
        let size = e.int("i32", i32::MAX);
        let size = e.arith("andi", "i32", bits, &size);
        let normal = e.compare("uge", "i32", &size, &highest);
        let highest = e.choose(&normal, "i32", &highest, &zero);
        let significand = e.arith("ori", "i32", &fraction, &highest);
        let significand = e.resize(&significand, "i32", "i64");
        // One bit more, by which to round.
        let up = e.int("i64", self.spare + 1);
        let raised = e.arith("shli", "i64", &significand, &up);
        // Of a -0, which is nothing however it is shifted, the key can be above the element's.
        let down = e.arith("subi", "i32", key, exponent);
        let most = e.int("i32", i64::BITS - 1);
        let down = e.arith("minui", "i32", &down, &most);
        let down = e.resize(&down, "i32", "i64");
        let shifted = e.arith("shrui", "i64", &raised, &down);
        let one = e.int("i64", 1);
        let rounded = e.arith("addi", "i64", &shifted, &one);
        let rounded = e.arith("shrui", "i64", &rounded, &one);
        let none = e.int("i64", 0);
        let negated = e.arith("subi", "i64", &none, &rounded);
        let negative = e.compare("slt", "i32", bits, &zero);
        e.choose(&negative, "i64", &negated, &rounded)
    }

    /// Adds the totals of elements of data to them. What has no update is written as it was: a branch for it
    /// would be in the way of reading all before the first is needed.
    fn write(&self, kernel: &mut KernelWriter, items: Vec<Item>) {
        let (scatter, accumulator) = (self.columns.scatter, self.columns.accumulator());
        let (dtype, access) = (scatter.dtype, &scatter.accesses[0]);
        let ty = storage_type(dtype);
        let read = items.into_iter().map(|Item { number, valid }| {
            let at = coordinates(&mut kernel.emitter, &number, &data_shape(self.columns));
            let (key, total) = (self.key_place(kernel, &number), self.total_place(kernel, &number));
            let e = &mut kernel.emitter;
            let key = e.op(format_args!("llvm.load {key} : {GLOBAL} -> i32"));
            let total = e.op(format_args!("llvm.load {total} : {GLOBAL} -> i64"));
            (key, total, kernel.load(0, ty, access, &at), at, valid)
        });
        for (key, total, element, at, valid) in read.collect::<Vec<_>>() {
            let e = &mut kernel.emitter;
            let old = scalar::from_storage(e, dtype, &element);
            let old = scalar::cast(e, dtype, accumulator, &old);
            let old = scalar::cast(e, accumulator, DType::F64, &old);
            let sum = self.sum(e, &key, &total);
            let sum = e.arith("addf", "f64", &old, &sum);
            let sum = scalar::cast(e, DType::F64, dtype, &sum);
            let sum = scalar::to_storage(e, dtype, &sum);
            let none = e.int("i32", NONE);
            let changes = e.compare("ne", "i32", &key, &none);
            let value = e.choose(&changes, ty, &sum, &element);
            if let Some(valid) = &valid {
                e.open(format_args!("scf.if {valid} {{"));
            }
            kernel.store(0, ty, access, &at, &value);
            if valid.is_some() {
                kernel.emitter.close("}");
            }
        }
    }

    /// What a total stands for, as an f64.
    fn sum(&self, e: &mut Emitter, key: &Value, total: &Value) -> Value {
        let bias = e.int("i32", WIDE_BIAS - LAST_PLACE - self.spare);
        let exponent = e.arith("addi", "i32", key, &bias);
        let exponent = e.resize(&exponent, "i32", "i64");
        let fraction = e.int("i64", f64::MANTISSA_DIGITS - 1);
        let unit = e.arith("shli", "i64", &exponent, &fraction);
        let unit = e.op(format_args!("arith.bitcast {unit} : i64 to f64"));
        let count = e.op(format_args!("arith.sitofp {total} : i64 to f64"));
        let finite = e.arith("mulf", "f64", &count, &unit);
        let flagged = [(PLUS_INFINITY, f64::INFINITY), (MINUS_INFINITY, f64::NEG_INFINITY)];
        let nan = float(e, f64::NAN);
        let special = flagged.into_iter().fold(nan, |other, (flag, value)| {
            let (flag, value) = (e.int("i64", flag), float(e, value));
            let is_it = e.compare("eq", "i64", total, &flag);
            e.choose(&is_it, "f64", &value, &other)
        });
        let limit = e.int("i32", SPECIAL);
        let is_special = e.compare("eq", "i32", key, &limit);
        e.choose(&is_special, "f64", &special, &finite)
    }
}

/// The key of an update that is not -0.
fn update_key(e: &mut Emitter, bits: &Value) -> Value {
    let (fraction, mask, small) = (e.int("i32", FRACTION_BITS), e.int("i32", SPECIAL), e.int("i32", SMALL));
    let exponent = e.arith("shrui", "i32", bits, &fraction);
    let exponent = e.arith("andi", "i32", &exponent, &mask);
    e.arith("maxui", "i32", &exponent, &small)
}

fn fraction(e: &mut Emitter, bits: &Value) -> Value {
    let mask = e.int("i32", (1 << FRACTION_BITS) - 1);
    e.arith("andi", "i32", bits, &mask)
}

/// The flag of an update that is infinite or NaN.
fn flag(e: &mut Emitter, bits: &Value) -> Value {
    let (fraction, zero) = (fraction(e, bits), e.int("i32", 0));
    let negative = e.compare("slt", "i32", bits, &zero);
    let [plus, minus, nan] = [PLUS_INFINITY, MINUS_INFINITY, NAN].map(|flag| e.int("i64", flag));
    let infinity = e.choose(&negative, "i64", &minus, &plus);
    let is_infinity = e.compare("eq", "i32", &fraction, &zero);
    e.choose(&is_infinity, "i64", &infinity, &nan)
}

fn float(e: &mut Emitter, value: f64) -> Value {
    e.op(format_args!("arith.constant {:#x} : f64", value.to_bits()))
}
