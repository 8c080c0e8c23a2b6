//! What a reduction carries along, and how threads combine it.
//!
//! Every combination is a tree fixed by the shape of the kernel: lanes of a thread, threads of a warp
//! (a butterfly of shuffles), warps (through workgroup memory, then a butterfly again). What one thread adds up
//! is a [cascade](crate::cascade).

use super::kernel::Kernel;
use crate::cascade::{Next, Sums};
use crate::emit::{Emitter, Value};
use crate::error::LoweringError;
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, index, index_op};
use crate::nvptx::WARP;
use crate::nvptx::chunk::{Chunk, Evaluator, bytes_of};
use crate::nvptx::shuffle::{Shuffle, shuffle};
use crate::nvptx::writer::WORKGROUP;
use crate::scalar;
use crate::types::value_type;
use burn_mlir_ir::{ArgReduceOp, Block, CompareOp, DType, Instr, Literal, Operand, ReduceOp};

/// How two values become one.
#[derive(Clone, Copy, Debug)]
enum Combination {
    Reduce(ReduceOp),
    ArgReduce(ArgReduceOp),
}

/// One reduction of a block.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    /// The statement that reduces.
    pub statement: usize,
    /// What it reduces.
    pub operand: Operand,
    combination: Combination,
    dtype: DType,
}

/// The components of an accumulator, scalars or vectors: a value, for positions of extremes also the
/// position (an `i64`).
pub(super) type Parts = Vec<Value>;

impl Accumulator {
    /// The reduction that `statement` is, if it is one.
    pub fn of(block: &Block, statement: usize) -> Option<Self> {
        let (combination, operand) = match block.body[statement].instr {
            Instr::Reduce(op, operand) => (Combination::Reduce(op), operand),
            Instr::ArgReduce(op, operand) => (Combination::ArgReduce(op), operand),
            _ => return None,
        };
        let dtype = scalar::accumulator(block.body[operand.0 as usize].dtype);
        Some(Self { statement, operand, combination, dtype })
    }

    /// Whether the result is a position.
    pub fn is_position(&self) -> bool {
        matches!(self.combination, Combination::ArgReduce(_))
    }

    /// Whether the order of elements matters to the result.
    fn rounds(&self) -> bool {
        let sums = matches!(self.combination, Combination::Reduce(ReduceOp::Sum | ReduceOp::Prod));
        sums && self.dtype.is_float()
    }

    /// The MLIR types of the components.
    pub fn types(&self) -> Vec<&'static str> {
        let value = value_type(self.dtype);
        if self.is_position() { vec![value, "i64"] } else { vec![value] }
    }

    /// The components that leave any others as they are.
    fn identity(&self, e: &mut Emitter) -> Parts {
        let op = match self.combination {
            Combination::Reduce(op) => op,
            Combination::ArgReduce(ArgReduceOp::ArgMax) => ReduceOp::Max,
            Combination::ArgReduce(ArgReduceOp::ArgMin) => ReduceOp::Min,
        };
        let mut parts = vec![scalar::constant(e, self.dtype, scalar::identity(op, self.dtype))];
        if self.is_position() {
            parts.push(scalar::constant(e, DType::I64, Literal::Int(i64::MAX)));
        }
        parts
    }

    /// Identities as vectors of `width` lanes.
    pub fn start(&self, e: &mut Emitter, width: usize) -> Parts {
        let scalars = self.identity(e);
        let broadcast = |(value, ty): (Value, &str)| {
            e.op(format_args!("vector.broadcast {value} : {ty} to {}", vector_type(width, ty)))
        };
        scalars.into_iter().zip(self.types()).map(broadcast).collect()
    }

    /// Scalar components of two into one; of equal extremes the first position wins.
    pub fn combine(&self, e: &mut Emitter, a: &[Value], b: &[Value]) -> Parts {
        let op = match self.combination {
            Combination::Reduce(op) => return vec![scalar::combine(e, op, self.dtype, &a[0], &b[0])],
            Combination::ArgReduce(op) => op,
        };
        let order = if op == ArgReduceOp::ArgMax { CompareOp::Gt } else { CompareOp::Lt };
        let mut better = scalar::compare(e, order, self.dtype, &b[0], &a[0]);
        let mut equal = scalar::compare(e, CompareOp::Eq, self.dtype, &b[0], &a[0]);
        if self.dtype.is_float() {
            let a_is_nan = scalar::compare(e, CompareOp::Ne, self.dtype, &a[0], &a[0]);
            let b_is_nan = scalar::compare(e, CompareOp::Ne, self.dtype, &b[0], &b[0]);
            let both = e.op(format_args!("arith.andi {a_is_nan}, {b_is_nan} : i1"));
            equal = e.op(format_args!("arith.ori {equal}, {both} : i1"));
            let differ = e.op(format_args!("arith.xori {a_is_nan}, {b_is_nan} : i1"));
            better = e.op(format_args!("arith.select {differ}, {b_is_nan}, {better} : i1"));
        }
        let before = e.op(format_args!("arith.cmpi slt, {}, {} : i64", b[1], a[1]));
        let first = e.op(format_args!("arith.andi {equal}, {before} : i1"));
        let take = e.op(format_args!("arith.ori {better}, {first} : i1"));
        let pick = |(position, ty): (usize, &str)| {
            e.op(format_args!("arith.select {take}, {}, {} : {ty}", b[position], a[position]))
        };
        self.types().into_iter().enumerate().map(pick).collect()
    }

    /// Vectors of two into one.
    fn combine_lanes(
        &self,
        evaluator: &mut Evaluator<'_>,
        width: usize,
        a: &[Value],
        b: &[Value],
    ) -> Result<Parts, LoweringError> {
        let types = self.types();
        let inputs: Vec<_> = a.iter().chain(b).cloned().zip(types.iter().chain(&types).copied()).collect();
        evaluator.lanewise(width, &inputs, &types, |e, parts| {
            let (a, b) = parts.split_at(types.len());
            Ok(self.combine(e, a, b))
        })
    }

    /// Takes a chunk's values in; `strides` make a position of coordinates.
    pub fn take(
        &self,
        evaluator: &mut Evaluator<'_>,
        chunk: &Chunk,
        parts: &[Value],
        value: &Value,
        strides: &[i64],
    ) -> Result<Parts, LoweringError> {
        let types = self.types();
        let mut inputs: Vec<_> = parts.iter().cloned().zip(types.iter().copied()).collect();
        let varies = evaluator.varies(self.operand.0 as usize);
        if varies {
            inputs.push((value.clone(), types[0]));
        }
        let lane = evaluator.lane;
        evaluator.lanewise(chunk.width, &inputs, &types, |e, arguments| {
            let value = if varies { &arguments[types.len()] } else { value };
            let mut new = vec![value.clone()];
            if self.is_position() {
                new.push(position(e, chunk, strides, lane));
            }
            if let Some(valid) = &chunk.valid {
                let identity = self.identity(e);
                for ((part, identity), ty) in new.iter_mut().zip(identity).zip(&types) {
                    *part = e.op(format_args!("arith.select {valid}, {part}, {identity} : {ty}"));
                }
            }
            Ok(self.combine(e, &arguments[..types.len()], &new))
        })
    }

    /// The combination of values in a list, as a balanced tree.
    fn tree<T: Clone>(
        mut list: Vec<T>,
        mut combine: impl FnMut(&T, &T) -> Result<T, LoweringError>,
    ) -> Result<Option<T>, LoweringError> {
        while list.len() > 1 {
            list = list
                .chunks(2)
                .map(|pair| if let [a, b] = pair { combine(a, b) } else { Ok(pair[0].clone()) })
                .collect::<Result<_, _>>()?;
        }
        Ok(list.pop())
    }

    /// Vectors of `width` lanes into scalars.
    pub fn across_lanes(
        &self,
        e: &mut Emitter,
        width: usize,
        parts: &[Value],
    ) -> Result<Parts, LoweringError> {
        let types = self.types();
        let lanes = (0..width)
            .map(|lane| {
                let extract = |(part, ty): (&Value, &&str)| {
                    e.op(format_args!("vector.extract {part}[{lane}] : {ty} from {}", vector_type(width, ty)))
                };
                parts.iter().zip(&types).map(extract).collect::<Parts>()
            })
            .collect();
        Ok(Self::tree(lanes, |a, b| Ok(self.combine(e, a, b)))?.unwrap_or_default())
    }

    /// Scalars of the `threads` neighbouring threads (a power of two) that share a row into one, in
    /// each of them. `thread` is the position in the block, which has `block` threads.
    pub fn across_neighbours(
        &self,
        evaluator: &mut Evaluator<'_>,
        mut parts: Parts,
        threads: usize,
        thread: &Value,
        block: usize,
    ) -> Result<Parts, LoweringError> {
        let types = self.types();
        parts = self.butterfly(evaluator.e(), parts, threads.min(WARP));
        if threads <= WARP {
            return Ok(parts);
        }
        let memories: Vec<_> =
            types.iter().map(|ty| evaluator.kernel.workgroup(block / WARP * bytes_of(ty))).collect();
        let e = evaluator.e();
        let (size, zero) = (index(e, WARP), index(e, 0));
        let warp = index_op(e, "arith.divui", thread, &size);
        let in_warp = index_op(e, "arith.remui", thread, &size);
        let first = e.op(format_args!("arith.cmpi eq, {in_warp}, {zero} : index"));
        e.open(format_args!("scf.if {first} {{"));
        for ((part, ty), memory) in parts.iter().zip(&types).zip(&memories) {
            let (part, ty) = to_memory(evaluator.e(), part, ty, 0);
            let at = evaluator.kernel.element(memory, WORKGROUP, &warp, &ty);
            evaluator.e().line(format_args!("llvm.store {part}, {at} : {ty}, {WORKGROUP}"));
        }
        evaluator.e().close("}");
        evaluator.kernel.barrier();
        let e = evaluator.e();
        let warps = threads / WARP;
        let per_row = index(e, warps);
        let row = index_op(e, "arith.divui", &warp, &per_row);
        let from = index_op(e, "arith.muli", &row, &per_row);
        let mine = index_op(e, "arith.remui", &in_warp, &per_row);
        let mine = index_op(e, "arith.addi", &from, &mine);
        let mut parts = Vec::new();
        for (ty, memory) in types.iter().zip(&memories) {
            let at = evaluator.kernel.element(memory, WORKGROUP, &mine, memory_type(ty));
            parts.push(read(evaluator.e(), &at, ty, 0));
        }
        Ok(self.butterfly(evaluator.e(), parts, warps))
    }

    /// Scalars of `threads` neighbours in a warp into one, in each of them.
    fn butterfly(&self, e: &mut Emitter, mut parts: Parts, threads: usize) -> Parts {
        let types = self.types();
        let mut distance = threads / 2;
        while distance > 0 {
            let shuffle = |(part, ty): (&Value, &&str)| shuffle(e, part, ty, Shuffle::Butterfly(distance));
            let other: Parts = parts.iter().zip(&types).map(shuffle).collect();
            parts = self.combine(e, &parts, &other);
            distance /= 2;
        }
        parts
    }

    /// Vectors of `threads` threads that share rows, `apart` threads from each other, into one, in each
    /// of them.
    pub fn across_strangers(
        &self,
        evaluator: &mut Evaluator<'_>,
        parts: Parts,
        width: usize,
        threads: usize,
        apart: usize,
        thread: &Value,
    ) -> Result<Parts, LoweringError> {
        if threads == 1 {
            return Ok(parts);
        }
        let types = self.types();
        let elements = threads * apart * width;
        let memories: Vec<_> =
            types.iter().map(|ty| evaluator.kernel.workgroup(elements * bytes_of(ty))).collect();
        let e = evaluator.e();
        let lanes = index(e, width);
        let mine = index_op(e, "arith.muli", thread, &lanes);
        let columns = index(e, apart);
        let column = index_op(e, "arith.remui", thread, &columns);
        let column = index_op(e, "arith.muli", &column, &lanes);
        for ((part, ty), memory) in parts.iter().zip(&types).zip(&memories) {
            let at = evaluator.kernel.element(memory, WORKGROUP, &mine, memory_type(ty));
            let (part, ty) = to_memory(evaluator.e(), part, ty, width);
            evaluator.e().line(format_args!("llvm.store {part}, {at} : {ty}, {WORKGROUP}"));
        }
        evaluator.kernel.barrier();
        let mut list = Vec::new();
        for number in 0..threads {
            let mut parts = Vec::new();
            for (ty, memory) in types.iter().zip(&memories) {
                let shift = index(evaluator.e(), number * apart * width);
                let at = index_op(evaluator.e(), "arith.addi", &column, &shift);
                let at = evaluator.kernel.element(memory, WORKGROUP, &at, memory_type(ty));
                parts.push(read(evaluator.e(), &at, ty, width));
            }
            list.push(parts);
        }
        let tree = Self::tree(list, |a, b| self.combine_lanes(evaluator, width, a, b))?;
        Ok(tree.unwrap_or(parts))
    }
}

/// What a walk adds up: the reductions of a level, in vectors of `width` lanes.
pub(super) struct Adding<'s> {
    pub level: &'s [Accumulator],
    pub width: usize,
}

impl Adding<'_> {
    /// The components of each reduction.
    pub fn parts(&self, carried: &[Carried]) -> Vec<Parts> {
        let mut values = carried.iter().map(|carried| carried.value.clone());
        self.level.iter().map(|a| values.by_ref().take(a.types().len()).collect()).collect()
    }

    /// The components of all reductions, to be carried by a loop.
    pub fn carried(&self, all: Vec<Parts>) -> Vec<Carried> {
        let types = self.level.iter().flat_map(Accumulator::types);
        let typed = |(value, ty)| Carried { value, ty: vector_type(self.width, ty) };
        all.into_iter().flatten().zip(types).map(typed).collect()
    }
}

impl Sums<Kernel<'_>> for Adding<'_> {
    fn rounds(&self) -> bool {
        self.level.iter().any(Accumulator::rounds)
    }

    fn emitter<'w>(&self, kernel: &'w mut Kernel<'_>) -> &'w mut Emitter {
        kernel.evaluator.e()
    }

    fn start(&self, kernel: &mut Kernel<'_>) -> Vec<Carried> {
        let e = kernel.evaluator.e();
        self.carried(self.level.iter().map(|accumulator| accumulator.start(e, self.width)).collect())
    }

    fn merge(&self, kernel: &mut Kernel<'_>, a: &[Carried], b: &[Carried]) -> Next {
        let mut all = Vec::new();
        for ((accumulator, a), b) in self.level.iter().zip(self.parts(a)).zip(self.parts(b)) {
            all.push(accumulator.combine_lanes(&mut kernel.evaluator, self.width, &a, &b)?);
        }
        Ok(self.carried(all))
    }
}

/// The position of a lane within the reduction dimensions, an `i64`.
fn position(e: &mut Emitter, chunk: &Chunk, strides: &[i64], lane: usize) -> Value {
    let mut sum = e.op("arith.constant 0 : i64");
    for (dim, &stride) in strides.iter().enumerate().filter(|(_, stride)| **stride != 0) {
        let mut coordinate = chunk.coordinates[dim].clone();
        if dim == lane {
            let offset = e.op("linalg.index 0 : index");
            coordinate = index_op(e, "arith.addi", &coordinate, &offset);
        }
        let coordinate = e.op(format_args!("arith.index_cast {coordinate} : index to i64"));
        let stride = e.op(format_args!("arith.constant {stride} : i64"));
        let step = e.op(format_args!("arith.muli {coordinate}, {stride} : i64"));
        sum = e.op(format_args!("arith.addi {sum}, {step} : i64"));
    }
    sum
}

/// The type of a component in memory.
pub(super) fn memory_type(ty: &'static str) -> &'static str {
    if ty == "i1" { "i8" } else { ty }
}

/// A component as it is kept in memory, and its type; `width` 0 is a scalar.
pub(super) fn to_memory(e: &mut Emitter, part: &Value, ty: &'static str, width: usize) -> (Value, String) {
    let shaped = |ty: &str| if width == 0 { ty.to_string() } else { vector_type(width, ty) };
    let memory = shaped(memory_type(ty));
    if ty == "i1" {
        return (e.op(format_args!("arith.extui {part} : {} to {memory}", shaped(ty))), memory);
    }
    (part.clone(), memory)
}

/// A component from workgroup memory; `width` 0 is a scalar.
fn read(e: &mut Emitter, at: &Value, ty: &'static str, width: usize) -> Value {
    read_from(e, at, WORKGROUP, ty, width)
}

/// A component from memory; `width` 0 is a scalar.
pub(super) fn read_from(e: &mut Emitter, at: &Value, space: &str, ty: &'static str, width: usize) -> Value {
    let shaped = |ty: &str| if width == 0 { ty.to_string() } else { vector_type(width, ty) };
    let memory = shaped(memory_type(ty));
    let value = e.op(format_args!("llvm.load {at} : {space} -> {memory}"));
    if ty != "i1" {
        return value;
    }
    e.op(format_args!("arith.trunci {value} : {memory} to {}", shaped(ty)))
}
