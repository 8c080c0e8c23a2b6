//! Accumulators of reductions: vectors carried through the loops, one lane each, and the fixed tree that
//! combines their lanes.

use super::lanes::{Form, Known, Lanes, convert, vector_type};
use super::tiles::Carried;
use crate::emit::{Emitter, Value};
use crate::scalar;
use crate::types::value_type;
use burn_mlir_ir::{ArgReduceOp, DType, DTypeKind, Instr, Literal, Operand, ReduceOp};

/// How elements are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Combination {
    Reduce(ReduceOp),
    Position(ArgReduceOp),
    /// The sum of products with another value.
    Products(Operand),
}

/// One reduction: what it accumulates and in which type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Accumulator {
    /// The statement.
    pub statement: usize,
    /// What it reduces.
    pub operand: Operand,
    combination: Combination,
    /// Type of the operand.
    from: DType,
    /// Type of the result.
    to: DType,
}

/// Positions are computed in this type.
const POSITION: &str = "i64";

impl Accumulator {
    /// The accumulator of a reduction, or nothing for another statement.
    pub fn of(lanes: &Lanes, statement: usize) -> Option<Self> {
        let body = &lanes.block.body;
        let (operand, combination) = match body[statement].instr {
            Instr::Reduce(op, operand) => (operand, Combination::Reduce(op)),
            Instr::ArgReduce(op, operand) => (operand, Combination::Position(op)),
            Instr::Contract(a, b) => (a, Combination::Products(b)),
            _ => return None,
        };
        let from = body[operand.0 as usize].dtype;
        Some(Self { statement, operand, combination, from, to: body[statement].dtype })
    }

    /// Whether the result is a position.
    pub fn is_position(&self) -> bool {
        matches!(self.combination, Combination::Position(_))
    }

    /// What it reduces: one value, or two to be multiplied.
    pub fn operands(&self) -> impl Iterator<Item = Operand> {
        let factor = if let Combination::Products(factor) = self.combination { Some(factor) } else { None };
        [self.operand].into_iter().chain(factor)
    }

    /// Whether it is a sum in which chains are cut. A contraction is a chain, here as elsewhere.
    pub fn rounds(&self) -> bool {
        let sums = matches!(self.combination, Combination::Reduce(ReduceOp::Sum | ReduceOp::Prod));
        sums && self.dtype().is_float()
    }

    /// In which form the operand is wanted.
    pub fn form(&self) -> Form {
        if self.is_position() && self.from == DType::Bool { Form::Storage } else { Form::Accumulator }
    }

    /// The type elements are combined in.
    fn dtype(&self) -> DType {
        match self.form() {
            Form::Storage => DType::U8,
            _ => scalar::accumulator(self.from),
        }
    }

    /// The MLIR type elements are combined in.
    pub fn element(&self) -> &'static str {
        value_type(self.dtype())
    }

    /// The MLIR element types of the values carried.
    pub fn elements(&self) -> Vec<&'static str> {
        if self.is_position() { vec![self.element(), POSITION] } else { vec![self.element()] }
    }

    /// What a combination of nothing gives.
    fn identity(&self) -> Literal {
        let dtype = self.dtype();
        let op = match self.combination {
            Combination::Reduce(op) => op,
            Combination::Products(_) => ReduceOp::Sum,
            Combination::Position(ArgReduceOp::ArgMax) => ReduceOp::Max,
            Combination::Position(ArgReduceOp::ArgMin) => ReduceOp::Min,
        };
        scalar::identity(op, dtype)
    }

    /// A vector of identities.
    pub fn identities(&self, lanes: &mut Lanes, width: usize) -> Value {
        let vector = vector_type(width, self.element());
        let identity = scalar::constant(lanes.e(), self.dtype(), self.identity());
        lanes.e().op(format_args!("vector.broadcast {identity} : {} to {vector}", self.element()))
    }

    /// The values carried at first.
    pub fn initial(&self, lanes: &mut Lanes, width: usize) -> Vec<Carried> {
        let ty = vector_type(width, self.element());
        let mut carried = vec![Carried { value: self.identities(lanes, width), ty }];
        if self.is_position() {
            let ty = vector_type(width, POSITION);
            let value = lanes.e().op(format_args!("arith.constant dense<0> : {ty}"));
            carried.push(Carried { value, ty });
        }
        carried
    }

    /// Number of values carried.
    pub fn carries(&self) -> usize {
        if self.is_position() { 2 } else { 1 }
    }

    /// Combines vectors of elements, at positions `positions` if they matter, into the carried values.
    pub fn step(
        &self,
        lanes: &mut Lanes,
        carried: &[Carried],
        elements: &[Value],
        positions: Option<&Value>,
    ) -> Vec<Carried> {
        let ty = carried[0].ty.clone();
        let (x, e) = (&elements[0], lanes.e());
        match (self.combination, elements.get(1)) {
            (Combination::Products(_), Some(y)) if self.dtype().is_float() => {
                let value = e.op(format_args!("math.fma {x}, {y}, {} : {ty}", carried[0].value));
                vec![Carried { value, ty }]
            }
            (Combination::Products(_), Some(y)) => {
                let product = e.op(format_args!("arith.muli {x}, {y} : {ty}"));
                self.add(e, &carried[0], &product)
            }
            (Combination::Reduce(_) | Combination::Products(_), _) => self.add(e, &carried[0], x),
            (Combination::Position(op), _) => {
                let best = &carried[0].value;
                let better = better(lanes, op, self.dtype(), x, best, &ty);
                let e = lanes.e();
                let mask = mask_type(&ty);
                let value = e.op(format_args!("arith.select {better}, {x}, {best} : {mask}, {ty}"));
                let position_ty = carried[1].ty.clone();
                let positions = positions.cloned().unwrap_or_else(|| carried[1].value.clone());
                let position = e.op(format_args!(
                    "arith.select {better}, {positions}, {} : {mask}, {position_ty}",
                    carried[1].value
                ));
                vec![Carried { value, ty }, Carried { value: position, ty: position_ty }]
            }
        }
    }

    /// Combines two vectors of elements.
    fn add(&self, e: &mut Emitter, carried: &Carried, x: &Value) -> Vec<Carried> {
        let op = match self.combination {
            Combination::Reduce(op) => op,
            _ => ReduceOp::Sum,
        };
        let (op, ty) = (combining_op(op, self.dtype()), carried.ty.clone());
        vec![Carried { value: e.op(format_args!("{op} {}, {x} : {ty}", carried.value)), ty }]
    }

    /// Combines the lanes in a fixed tree; `width` is a power of two. Gives vectors of one lane.
    pub fn tree(&self, lanes: &mut Lanes, carried: &[Carried], width: usize) -> Vec<Carried> {
        let mut carried = carried.to_vec();
        let mut width = width;
        while width > 1 {
            let half = width / 2;
            let split = |lanes: &mut Lanes, c: &Carried, offset: usize| {
                let ty = vector_type(half, element_of(&c.ty));
                let value = lanes.e().op(format_args!(
                    "vector.extract_strided_slice {} {{offsets = [{offset}], sizes = [{half}], strides = [1]}} : {} to {ty}",
                    c.value, c.ty
                ));
                Carried { value, ty }
            };
            let low: Vec<_> = carried.iter().map(|c| split(lanes, c, 0)).collect();
            let high: Vec<_> = carried.iter().map(|c| split(lanes, c, half)).collect();
            carried = self.merge(lanes, &low, &high);
            width = half;
        }
        carried
    }

    /// Combines two sets of carried values.
    pub fn merge(&self, lanes: &mut Lanes, a: &[Carried], b: &[Carried]) -> Vec<Carried> {
        let Combination::Position(op) = self.combination else {
            return self.add(lanes.e(), &a[0], &b[0].value);
        };
        let (ty, position_ty) = (a[0].ty.clone(), a[1].ty.clone());
        let mask = mask_type(&ty);
        let wins = better(lanes, op, self.dtype(), &b[0].value, &a[0].value, &ty);
        let loses = better(lanes, op, self.dtype(), &a[0].value, &b[0].value, &ty);
        let e = lanes.e();
        let earlier = e.op(format_args!("arith.cmpi slt, {}, {} : {position_ty}", b[1].value, a[1].value));
        // Neither is better: equal, so the earlier one.
        let decided = e.op(format_args!("arith.ori {wins}, {loses} : {mask}"));
        let take = e.op(format_args!("arith.select {decided}, {wins}, {earlier} : {mask}, {mask}"));
        let value = e.op(format_args!("arith.select {take}, {}, {} : {mask}, {ty}", b[0].value, a[0].value));
        let position =
            e.op(format_args!("arith.select {take}, {}, {} : {mask}, {position_ty}", b[1].value, a[1].value));
        vec![Carried { value, ty }, Carried { value: position, ty: position_ty }]
    }

    /// The result from vectors of one lane.
    pub fn scalar(&self, lanes: &mut Lanes, carried: &[Carried]) -> Known {
        let last = &carried[carried.len() - 1];
        let e = lanes.e();
        let value =
            e.op(format_args!("vector.extract {}[0] : {} from {}", last.value, self.result_type(), last.ty));
        let value = if self.is_position() {
            convert(e, DType::I64, self.to, &value)
        } else {
            convert(e, self.dtype(), self.to, &value)
        };
        Known::Scalar(value)
    }

    /// The results from vectors with one result a lane.
    pub fn lanes(&self, lanes: &mut Lanes, carried: &[Carried], width: usize) -> Known {
        let last = &carried[carried.len() - 1];
        if !self.is_position() {
            return Known::Lanes(lanes.tensor_of(&last.value, width, self.element()), Form::Accumulator);
        }
        let element = value_type(self.to);
        let (from, to) = (last.ty.clone(), vector_type(width, element));
        let value = match self.to.size() {
            8 => last.value.clone(),
            _ => lanes.e().op(format_args!("arith.trunci {} : {from} to {to}", last.value)),
        };
        Known::Lanes(lanes.tensor_of(&value, width, element), Form::Value)
    }

    fn result_type(&self) -> &'static str {
        if self.is_position() { POSITION } else { self.element() }
    }
}

/// Whether elements of `x` are better than those of `best`, the first NaN being the best of all.
fn better(lanes: &mut Lanes, op: ArgReduceOp, dtype: DType, x: &Value, best: &Value, ty: &str) -> Value {
    let e = lanes.e();
    let max = op == ArgReduceOp::ArgMax;
    match dtype.kind() {
        DTypeKind::Float => {
            let order = if max { "ogt" } else { "olt" };
            let beyond = e.op(format_args!("arith.cmpf {order}, {x}, {best} : {ty}"));
            let nan = e.op(format_args!("arith.cmpf uno, {x}, {x} : {ty}"));
            let number = e.op(format_args!("arith.cmpf ord, {best}, {best} : {ty}"));
            let mask = mask_type(ty);
            let first = e.op(format_args!("arith.andi {nan}, {number} : {mask}"));
            e.op(format_args!("arith.ori {beyond}, {first} : {mask}"))
        }
        kind => {
            let sign = if kind == DTypeKind::Signed { "s" } else { "u" };
            let order = if max { "gt" } else { "lt" };
            e.op(format_args!("arith.cmpi {sign}{order}, {x}, {best} : {ty}"))
        }
    }
}

/// `vector<8xf32>` → `vector<8xi1>`.
fn mask_type(ty: &str) -> String {
    let width = ty.split_once('x').map_or(ty, |(width, _)| width);
    format!("{width}xi1>")
}

/// `vector<8xf32>` → `f32`.
fn element_of(ty: &str) -> &str {
    ty.split_once('x').map_or(ty, |(_, element)| element).trim_end_matches('>')
}

/// The instruction that combines two values.
pub(crate) fn combining_op(op: ReduceOp, dtype: DType) -> &'static str {
    use DTypeKind::*;
    match (op, dtype.kind()) {
        (ReduceOp::Sum, Float) => "arith.addf",
        (ReduceOp::Prod, Float) => "arith.mulf",
        (ReduceOp::Max, Float) => "arith.maximumf",
        (ReduceOp::Min, Float) => "arith.minimumf",
        (ReduceOp::Sum | ReduceOp::Max, Bool) => "arith.ori",
        (ReduceOp::Prod | ReduceOp::Min, Bool) => "arith.andi",
        (ReduceOp::Sum, _) => "arith.addi",
        (ReduceOp::Prod, _) => "arith.muli",
        (ReduceOp::Max, Signed) => "arith.maxsi",
        (ReduceOp::Min, Signed) => "arith.minsi",
        (ReduceOp::Max, Unsigned) => "arith.maxui",
        (ReduceOp::Min, Unsigned) => "arith.minui",
    }
}
