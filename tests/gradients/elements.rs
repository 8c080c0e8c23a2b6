//! Functions of each element.

use super::{Operand, Row, bools, differentiate, ints, rows};
use burn_backend::Scalar;

const SHAPE: &[usize] = &[3, 5];
const ANY: Operand = (SHAPE, -2.0, 2.0);
const POSITIVE: Operand = (SHAPE, 0.3, 2.5);
const UNIT: Operand = (SHAPE, -0.9, 0.9);
/// Broadcast over the rows of the others.
const ROW: Operand = (&[1, 5], 0.5, 2.0);
const COLUMN: Operand = (&[3, 1], 0.5, 2.0);

#[rustfmt::skip]
const UNARY: &[Row] = rows! {
    neg[ANY] |x, B| B::float_neg(x[0].clone());
    recip[POSITIVE] |x, B| B::float_recip(x[0].clone());
    abs[ANY] |x, B| B::float_abs(x[0].clone());
    sign[ANY] |x, B| B::float_sign(x[0].clone());
    exp[ANY] |x, B| B::float_exp(x[0].clone());
    log[POSITIVE] |x, B| B::float_log(x[0].clone());
    log1p[POSITIVE] |x, B| B::float_log1p(x[0].clone());
    sqrt[POSITIVE] |x, B| B::float_sqrt(x[0].clone());
    sin[ANY] |x, B| B::float_sin(x[0].clone());
    cos[ANY] |x, B| B::float_cos(x[0].clone());
    tan[UNIT] |x, B| B::float_tan(x[0].clone());
    sinh[ANY] |x, B| B::float_sinh(x[0].clone());
    cosh[ANY] |x, B| B::float_cosh(x[0].clone());
    tanh[ANY] |x, B| B::float_tanh(x[0].clone());
    asin[UNIT] |x, B| B::float_asin(x[0].clone());
    acos[UNIT] |x, B| B::float_acos(x[0].clone());
    atan[ANY] |x, B| B::float_atan(x[0].clone());
    asinh[ANY] |x, B| B::float_asinh(x[0].clone());
    acosh[(SHAPE, 1.2, 3.0)] |x, B| B::float_acosh(x[0].clone());
    atanh[UNIT] |x, B| B::float_atanh(x[0].clone());
    erf[ANY] |x, B| B::float_erf(x[0].clone());
    floor[ANY] |x, B| B::float_floor(x[0].clone());
    ceil[ANY] |x, B| B::float_ceil(x[0].clone());
    round[ANY] |x, B| B::float_round(x[0].clone());
    trunc[ANY] |x, B| B::float_trunc(x[0].clone());
    relu[ANY] |x, B| B::relu(x[0].clone());
    gelu[ANY] |x, B| B::gelu(x[0].clone());
    sigmoid[ANY] |x, B| B::sigmoid(x[0].clone());
    log_sigmoid[ANY] |x, B| B::log_sigmoid(x[0].clone());
    leaky_relu[ANY] |x, B| B::leaky_relu(x[0].clone(), Scalar::Float(0.1));
    hard_sigmoid[(SHAPE, -4.0, 4.0)] |x, B| B::hard_sigmoid(x[0].clone(), Scalar::Float(0.2), Scalar::Float(0.5));
    clamp[ANY] |x, B| B::float_clamp(x[0].clone(), Scalar::Float(-0.7), Scalar::Float(1.1));
    clamp_min[ANY] |x, B| B::float_clamp_min(x[0].clone(), Scalar::Float(-0.7));
    clamp_max[ANY] |x, B| B::float_clamp_max(x[0].clone(), Scalar::Float(0.7));
    add_scalar[ANY] |x, B| B::float_add_scalar(x[0].clone(), Scalar::Float(1.5));
    sub_scalar[ANY] |x, B| B::float_sub_scalar(x[0].clone(), Scalar::Float(1.5));
    mul_scalar[ANY] |x, B| B::float_mul_scalar(x[0].clone(), Scalar::Float(-1.5));
    div_scalar[ANY] |x, B| B::float_div_scalar(x[0].clone(), Scalar::Float(-1.5));
    remainder_scalar[ANY] |x, B| B::float_remainder_scalar(x[0].clone(), Scalar::Float(0.7));
    powf_scalar[POSITIVE] |x, B| B::float_powf_scalar(x[0].clone(), Scalar::Float(1.7));
    square[ANY] |x, B| B::float_powf_scalar(x[0].clone(), Scalar::Float(2.0));
    cube[ANY] |x, B| B::float_powi_scalar(x[0].clone(), Scalar::Int(3));
    inverse_square[POSITIVE] |x, B| B::float_powi_scalar(x[0].clone(), Scalar::Int(-2));
    mask_fill[ANY] |x, B| {
        B::float_mask_fill(x[0].clone(), bools::<B>(&[true, false, false, true, false], &[1, 5]), Scalar::Float(3.0))
    };
};

#[rustfmt::skip]
const BINARY: &[Row] = rows! {
    add[ANY, ROW] |x, B| B::float_add(x[0].clone(), x[1].clone());
    sub[COLUMN, ANY] |x, B| B::float_sub(x[0].clone(), x[1].clone());
    mul[ANY, ROW] |x, B| B::float_mul(x[0].clone(), x[1].clone());
    mul_itself[ANY] |x, B| B::float_mul(x[0].clone(), x[0].clone());
    div[ANY, COLUMN] |x, B| B::float_div(x[0].clone(), x[1].clone());
    div_columns[ROW, COLUMN] |x, B| B::float_div(x[0].clone(), x[1].clone());
    remainder[ANY, ROW] |x, B| B::float_remainder(x[0].clone(), x[1].clone());
    powf[POSITIVE, ANY] |x, B| B::float_powf(x[0].clone(), x[1].clone());
    powf_broadcast[POSITIVE, ROW] |x, B| B::float_powf(x[0].clone(), x[1].clone());
    powi[ANY] |x, B| B::float_powi(x[0].clone(), ints::<B>(&[2, 3, 0, 1, 4], &[1, 5]));
    atan2[ANY, POSITIVE] |x, B| B::float_atan2(x[0].clone(), x[1].clone());
    hypot[ANY, ROW] |x, B| B::float_hypot(x[0].clone(), x[1].clone());
    prelu[ANY, (&[1, 5], 0.1, 0.4)] |x, B| B::prelu(x[0].clone(), x[1].clone());
    mask_where[ANY, (SHAPE, 3.0, 4.0)] |x, B| {
        let mask: Vec<bool> = (0..15).map(|at| at % 3 == 1).collect();
        B::float_mask_where(x[0].clone(), bools::<B>(&mask, &[3, 5]), x[1].clone())
    };
    mask_where_broadcast[ANY, (SHAPE, 3.0, 4.0)] |x, B| {
        B::float_mask_where(x[0].clone(), bools::<B>(&[true, false, true], &[3, 1]), x[1].clone())
    };
    cross[(&[4, 3], -1.0, 1.0), (&[4, 3], -1.0, 1.0)] |x, B| B::float_cross(x[0].clone(), x[1].clone(), 1);
    cross_columns[(&[3, 4], -1.0, 1.0), (&[3, 4], -1.0, 1.0)] |x, B| B::float_cross(x[0].clone(), x[1].clone(), 0);
};

#[test]
fn functions_of_one_tensor() {
    differentiate(UNARY);
}

#[test]
fn functions_of_two_tensors() {
    differentiate(BINARY);
}
