//! The canonical form of a block: equal computations become equal kernels, and dimensions are few
//! and in the order that memory likes.

use super::emit::{Arg, RawBlock};
use crate::{
    Access, Block, CompareOp, DType, DimKind, Domain, DomainDim, Instr, Literal, Operand, Param, ParamMode,
    Statement, Store,
};
use std::cmp::Reverse;

/// A kernel's code with what it is launched on.
#[derive(Clone, Debug)]
pub(super) struct Canonical {
    pub block: Block,
    pub args: Vec<Arg>,
    pub scalars: Vec<u32>,
}

/// Orders and merges the dimensions of a block.
pub(super) fn canonicalise(mut raw: RawBlock) -> Canonical {
    raw.parallel.retain(|&d| raw.sizes[d] != 1);
    raw.reduction.retain(|&d| raw.sizes[d] != 1);
    if let Some(at) = raw.body.iter().position(|s| matches!(s.instr, Instr::Contract(..))) {
        order_contraction(&mut raw, at);
    } else {
        order_block(&mut raw);
    }
    let keep: Vec<usize> = raw.parallel.iter().chain(&raw.reduction).copied().collect();
    let kind = |at: usize| if at < raw.parallel.len() { DimKind::Parallel } else { DimKind::Reduction };
    let mut domain: Domain =
        keep.iter().enumerate().map(|(at, &d)| DomainDim::new(kind(at), raw.sizes[d])).collect();
    let RawBlock { args, scalars, mut body, mut stores, .. } = raw;
    for_accesses(&mut body, &mut stores, |access| {
        *access = Access::new(keep.iter().map(|&d| access.strides[d]))
    });
    merge(&mut domain, &mut body, &mut stores);
    let written = |param: usize| stores.iter().any(|store| store.param.0 as usize == param);
    let mode = |param| if written(param) { ParamMode::Out } else { ParamMode::In };
    let param = |(index, arg): (usize, &Arg)| Param { dtype: arg.dtype, mode: mode(index), alignment: 1 };
    let params = args.iter().enumerate().map(param).collect();
    let (scalars, types): (Vec<u32>, Vec<DType>) = scalars.into_iter().unzip();
    let mut block = Block { domain, params, scalars: types, body, stores };
    spread_rows(&mut block);
    Canonical { block, args, scalars }
}

/// A row value that is stored along reduction dimensions becomes a full value: a choice, by a
/// coordinate, between the value and itself, which costs nothing once compiled.
fn spread_rows(block: &mut Block) {
    let (sets, reduction) = (block.dependences(), block.reduction_dims());
    for at in 0..block.stores.len() {
        let Store { access, value, .. } = block.stores[at].clone();
        let along = (0..block.domain.len()).filter(|&d| access.uses(d) && reduction >> d & 1 == 1);
        let missing: Vec<usize> = along.filter(|&d| sets[value.0 as usize] >> d & 1 == 0).collect();
        if missing.is_empty() {
            continue;
        }
        let index = Access::new((0..block.domain.len()).map(|d| i64::from(missing.contains(&d))));
        let next = Operand(block.body.len() as u32);
        let zero = Instr::Constant { value: Literal::Int(0) };
        let dtype = block.body[value.0 as usize].dtype;
        block.body.extend([
            Statement { instr: Instr::Index { access: index, offset: 0 }, dtype: DType::I64 },
            Statement { instr: zero, dtype: DType::I64 },
            Statement { instr: Instr::Compare(CompareOp::Ge, next, Operand(next.0 + 1)), dtype: DType::Bool },
            Statement { instr: Instr::Select(Operand(next.0 + 2), value, value), dtype },
        ]);
        block.stores[at].value = Operand(next.0 + 3);
    }
}

/// Calls `visit` with every access.
fn for_accesses(body: &mut [Statement], stores: &mut [Store], mut visit: impl FnMut(&mut Access)) {
    for statement in body {
        match &mut statement.instr {
            Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
                visit(access)
            }
            Instr::Gather(gather) => visit(&mut gather.access),
            _ => {}
        }
    }
    stores.iter_mut().for_each(|store| visit(&mut store.access));
}

/// Merges neighbours of one kind that every access walks as one dimension.
fn merge(domain: &mut Domain, body: &mut [Statement], stores: &mut [Store]) {
    for outer in (0..domain.len().saturating_sub(1)).rev() {
        let inner = outer + 1;
        let size = domain[inner].size as i64;
        let mut fits = domain[outer].kind == domain[inner].kind;
        for_accesses(body, stores, |access| fits &= access.strides[outer] == access.strides[inner] * size);
        if fits {
            domain[outer].size *= domain[inner].size;
            domain.remove(inner);
            for_accesses(body, stores, |access| {
                access.strides.remove(outer);
            });
        }
    }
}

/// Outermost the dimension with the largest stride of an access.
fn sort_by_stride(dims: &mut [usize], access: &Access) {
    dims.sort_by_key(|&d| Reverse(access.strides[d].unsigned_abs()));
}

/// The number of elements that an access reaches along some dimensions.
fn reached(raw: &RawBlock, access: &Access, dims: &[usize]) -> usize {
    dims.iter().filter(|&&d| access.uses(d)).map(|&d| raw.sizes[d]).fold(1, usize::saturating_mul)
}

/// The first of the accesses that reach most elements.
fn dominant<'a>(
    raw: &RawBlock,
    accesses: impl Iterator<Item = &'a Access>,
    dims: &[usize],
) -> Option<Access> {
    let mut best: Option<(usize, &Access)> = None;
    for access in accesses {
        let elements = reached(raw, access, dims);
        if best.is_none_or(|(most, _)| elements > most) {
            best = Some((elements, access));
        }
    }
    best.map(|(_, access)| access.clone())
}

/// Maps follow their largest store, reductions their largest load.
fn order_block(raw: &mut RawBlock) {
    let all: Vec<usize> = raw.parallel.iter().chain(&raw.reduction).copied().collect();
    let loads = raw.body.iter().filter_map(|s| match &s.instr {
        Instr::Load { access, .. } => Some(access),
        Instr::Gather(gather) => Some(&gather.access),
        _ => None,
    });
    let stores = raw.stores.iter().map(|store| &store.access);
    let leader =
        if raw.reduction.is_empty() { dominant(raw, stores, &all) } else { dominant(raw, loads, &all) };
    let Some(leader) = leader else { return };
    sort_by_stride(&mut raw.parallel, &leader);
    // The position that an argmax gives counts in the order of the reduced axes.
    if !raw.body.iter().any(|s| matches!(s.instr, Instr::ArgReduce(..))) {
        sort_by_stride(&mut raw.reduction, &leader);
    }
}

/// Batch dimensions first, then those of the left operand, then those of the right one, which is
/// the one that moves along the result's innermost dimension.
fn order_contraction(raw: &mut RawBlock, at: usize) {
    let Instr::Contract(lhs, rhs) = raw.body[at].instr else { return };
    let (Some(mut left), Some(mut right)) = (factor(raw, lhs), factor(raw, rhs)) else { return };
    let stores = raw.stores.iter().map(|store| &store.access);
    let Some(store) = dominant(raw, stores, &raw.parallel) else { return };
    sort_by_stride(&mut raw.parallel, &store);
    let innermost = raw.parallel.iter().rev().find(|&&d| left.uses(d) != right.uses(d));
    if innermost.is_some_and(|&d| left.uses(d)) {
        raw.body[at].instr = Instr::Contract(rhs, lhs);
        std::mem::swap(&mut left, &mut right);
    }
    raw.parallel.sort_by_key(|&d| match (left.uses(d), right.uses(d)) {
        (true, false) => 1,
        (false, true) => 2,
        _ => 0,
    });
    sort_by_stride(&mut raw.reduction, &left);
}

/// The access of a contraction's operand.
fn factor(raw: &RawBlock, operand: Operand) -> Option<Access> {
    match &raw.body[operand.0 as usize].instr {
        Instr::Load { access, .. } => Some(access.clone()),
        Instr::Cast(source) => factor(raw, *source),
        _ => None,
    }
}
