//! The arithmetic of both interpreters: wrapping integers whatever the element type.

use burn_mlir_ir::{
    ArgReduceOp, AttentionOperand, AttentionSizes, BinaryOp, CompareOp, DType, Literal, ReduceOp, UnaryOp,
};

/// The value as the type holds it.
pub fn wrap(dtype: DType, value: i64) -> i64 {
    match (dtype, dtype.size()) {
        (DType::Bool, _) => i64::from(value != 0),
        (_, 1) => value as i8 as i64,
        (_, 2) => value as i16 as i64,
        (_, 4) => value as i32 as i64,
        _ => value,
    }
}

pub fn literal(dtype: DType, value: Literal) -> i64 {
    wrap(dtype, value.as_f64() as i64)
}

/// Some function that tells its operands apart; what it is does not matter to planning.
pub fn unary(op: UnaryOp, dtype: DType, x: i64) -> i64 {
    let result = match op {
        UnaryOp::Neg => x.wrapping_neg(),
        UnaryOp::Abs => x.wrapping_abs(),
        UnaryOp::Not => !x,
        op => x.wrapping_mul(x).wrapping_mul(7).wrapping_add(x).wrapping_add(op as i64),
    };
    wrap(dtype, result)
}

pub fn binary(op: BinaryOp, dtype: DType, a: i64, b: i64) -> i64 {
    let result = match op {
        BinaryOp::Add => a.wrapping_add(b),
        BinaryOp::Sub => a.wrapping_sub(b),
        BinaryOp::Mul => a.wrapping_mul(b),
        BinaryOp::Max => a.max(b),
        BinaryOp::Min => a.min(b),
        op => a.wrapping_mul(5).wrapping_add(b).wrapping_add(op as i64),
    };
    wrap(dtype, result)
}

pub fn compare(op: CompareOp, a: i64, b: i64) -> i64 {
    i64::from(match op {
        CompareOp::Eq => a == b,
        CompareOp::Ne => a != b,
        CompareOp::Lt => a < b,
        CompareOp::Le => a <= b,
        CompareOp::Gt => a > b,
        CompareOp::Ge => a >= b,
    })
}

pub fn random(key: i64, stream: i64, index: i64) -> i64 {
    wrap(DType::U32, (key ^ stream).wrapping_mul(0x9E37_79B9).wrapping_add(index.wrapping_mul(0x85EB_CA6B)))
}

pub fn combine(op: ReduceOp, dtype: DType, a: i64, b: i64) -> i64 {
    let result = match op {
        ReduceOp::Sum => a.wrapping_add(b),
        ReduceOp::Prod => a.wrapping_mul(b),
        ReduceOp::Max => a.max(b),
        ReduceOp::Min => a.min(b),
    };
    wrap(dtype, result)
}

pub fn reduce(op: ReduceOp, dtype: DType, values: impl Iterator<Item = i64>) -> i64 {
    let identity = match op {
        ReduceOp::Sum => 0,
        ReduceOp::Prod => 1,
        ReduceOp::Max if dtype == DType::Bool => 0,
        ReduceOp::Max => i64::MIN >> (64 - 8 * dtype.size()),
        ReduceOp::Min => i64::MAX >> (64 - 8 * dtype.size()),
    };
    values.fold(wrap(dtype, identity), |a, b| combine(op, dtype, a, b))
}

pub fn arg_reduce(op: ArgReduceOp, values: impl Iterator<Item = i64>) -> i64 {
    let mut best: Option<(usize, i64)> = None;
    for (index, value) in values.enumerate() {
        let better = best.is_none_or(|(_, most)| match op {
            ArgReduceOp::ArgMax => value > most,
            ArgReduceOp::ArgMin => value < most,
        });
        if better {
            best = Some((index, value));
        }
    }
    best.map_or(0, |(index, _)| index as i64)
}

/// One element of sums over paths, from the results of the step before: integers that depend on all that it reads.
pub fn path(
    index: &[usize],
    score: i64,
    before: impl Fn(&[usize]) -> i64,
    skips: impl Fn(&[usize]) -> i64,
) -> i64 {
    let &[step, sequence, state] = index else { panic!("three axes") };
    let Some(last) = step.checked_sub(1) else {
        return if state < 2 { score } else { 7 };
    };
    let skip = usize::from(state >= 2 && skips(&[0, sequence, state]) != 0);
    let entered = (0..=state.min(1 + skip)).map(|back| before(&[last, sequence, state - back]));
    entered.fold(score, |sum, value| sum.wrapping_mul(3).wrapping_add(value))
}

/// Element `[batch, head, query, column]` of something that depends on all that an attention does: a sum of
/// values weighted by what their keys are to the query. `at` gives an operand's element.
pub fn attention(
    sizes: &AttentionSizes,
    causal: bool,
    scalars: &[i64],
    index: &[usize],
    at: impl Fn(AttentionOperand, &[usize]) -> Option<i64>,
) -> i64 {
    let &[batch, head, query, column] = index else { panic!("four axes") };
    let shared = head / (sizes.heads / sizes.kv_heads);
    let weigh = |key: usize| {
        let product = (0..sizes.width).fold(0i64, |sum, d| {
            let q = at(AttentionOperand::Query, &[batch, head, query, d]).unwrap();
            let k = at(AttentionOperand::Key, &[batch, shared, key, d]).unwrap();
            sum.wrapping_add(q.wrapping_mul(k))
        });
        let mut score =
            scalars.iter().fold(product, |score, scalar| score.wrapping_mul(*scalar).wrapping_add(1));
        if at(AttentionOperand::Mask, &[batch, head, query, key]).is_some_and(|masked| masked != 0) {
            score = 3;
        }
        if causal && key + sizes.queries > query + sizes.keys {
            score = 5;
        }
        score.wrapping_add(at(AttentionOperand::Bias, &[batch, head, query, key]).unwrap_or(0))
    };
    (0..sizes.keys).fold(0i64, |sum, key| {
        let value = at(AttentionOperand::Value, &[batch, shared, key, column]).unwrap();
        sum.wrapping_add(weigh(key).wrapping_mul(value))
    })
}
