//! Element types of results.

use super::Rule;
use crate::{DType, DTypeSet, Op};

/// The element type of `op`'s result. `operands` has as many types as the operation takes.
pub(crate) fn infer_dtype(op: &Op, operands: &[DType], declared: Option<DType>) -> Result<DType, Rule> {
    let given = || declared.ok_or(Rule::NoDType);
    let position = || given().and_then(|d| if d.is_int() { Ok(d) } else { Err(Rule::PositionType(d)) });
    match (op, operands) {
        (Op::Unary(op), &[a]) => {
            within(op.domain(), a)?;
            Ok(if op.is_predicate() { DType::Bool } else { a })
        }
        (Op::Binary(op), &[a, b]) => same(within(op.domain(), a)?, b),
        (Op::Compare(op), &[a, b]) => same(within(op.domain(), a)?, b).map(|_| DType::Bool),
        (Op::Select, &[condition, a, b]) => {
            if condition == DType::Bool {
                same(a, b)
            } else {
                Err(Rule::Condition(condition))
            }
        }
        (Op::Bitcast, &[from]) => {
            let to = given()?;
            let bits = from != DType::Bool && to != DType::Bool && from.size() == to.size();
            if bits { Ok(to) } else { Err(Rule::Bitcast { from, to }) }
        }
        (Op::Reduce { op, .. } | Op::Scan { op, .. }, &[a]) => within(op.domain(), a),
        (Op::ArgReduce { op, .. }, &[a]) => within(op.domain(), a).and_then(|_| position()),
        (Op::Contract { .. }, &[a, b]) => same(within(DTypeSet::Numbers, a)?, b),
        (Op::Gather { .. }, &[data, indices]) => index(indices).map(|()| data),
        (Op::Scatter { op, .. }, &[data, indices, updates]) => {
            index(indices)?;
            same(within(op.domain(), data)?, updates)
        }
        (Op::Paths, &[_, skips]) if skips != DType::Bool => Err(Rule::Condition(skips)),
        (Op::Paths, &[scores, _]) => within(DTypeSet::Floats, scores),
        (Op::Sort { .. }, &[a]) => within(DTypeSet::Numbers, a),
        (Op::ArgSort { .. }, &[a]) => within(DTypeSet::Numbers, a).and_then(|_| position()),
        (Op::Attention(op), &[queries, keys, values, ref rest @ ..]) => {
            let (mask, bias) = rest.split_at(usize::from(op.masked));
            if let Some(&mask) = mask.iter().find(|&&mask| mask != DType::Bool) {
                return Err(Rule::Condition(mask));
            }
            let float = within(DTypeSet::Floats, queries)?;
            [keys, values].iter().chain(bias).try_fold(float, |a, &b| same(a, b))
        }
        (Op::Iota { .. }, _) => position(),
        (Op::Random { .. }, _) => match declared {
            None | Some(DType::U32) => Ok(DType::U32),
            Some(other) => Err(Rule::RandomType(other)),
        },
        (Op::Input { .. } | Op::Fill { .. } | Op::Constant { .. } | Op::Cast, _) => given(),
        // Views, concatenation and updates of a box keep the type of their operands.
        (_, &[first, ref rest @ ..]) => rest.iter().try_fold(first, |a, &b| same(a, b)),
        (_, []) => Err(Rule::NoOperand),
    }
}

fn within(domain: DTypeSet, dtype: DType) -> Result<DType, Rule> {
    if domain.contains(dtype) { Ok(dtype) } else { Err(Rule::Domain { expected: domain, got: dtype }) }
}

fn same(a: DType, b: DType) -> Result<DType, Rule> {
    if a == b { Ok(a) } else { Err(Rule::DTypes) }
}

fn index(dtype: DType) -> Result<(), Rule> {
    if dtype.is_int() { Ok(()) } else { Err(Rule::IndexType(dtype)) }
}
