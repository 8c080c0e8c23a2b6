//! Activation functions and their gradients. f16 and bf16 are computed in f32 and rounded once.

use crate::MlirTensor;
use burn_backend::Scalar;
use burn_mlir_ir::{BinaryOp, CompareOp, ReduceOp};
use std::f64::consts::{FRAC_1_SQRT_2, PI};

impl MlirTensor {
    /// `max(x, 0)`; NaN stays NaN.
    pub(crate) fn relu(&self) -> Self {
        self.at_least(0.0)
    }

    /// Gradient of relu, `self` being its result: `grad` where that is not 0.
    pub(crate) fn relu_grad(&self, grad: &Self) -> Self {
        let zero = self.compare_constant(CompareOp::Le, 0.0);
        zero.select(&grad.constant_like(0.0), grad)
    }

    /// `x` if not negative, else `slope · x`.
    pub(crate) fn leaky_relu(&self, slope: Scalar) -> Self {
        self.prelu(&self.fill_like(slope))
    }

    /// `x` if not negative, else `slope · x`; slopes broadcast.
    pub(crate) fn prelu(&self, slope: &Self) -> Self {
        let negative = self.compare_constant(CompareOp::Lt, 0.0);
        negative.select(&self.mul(slope), self)
    }

    /// `x/2 · (1 + erf(x/√2))`.
    pub(crate) fn gelu(&self) -> Self {
        self.in_wide(|x| x.times(0.5).mul(&x.times(FRAC_1_SQRT_2).erf().plus(1.0)))
    }

    /// Gradient of gelu at `self`: `(Φ(x) + x φ(x)) · grad` for the normal distribution Φ and its
    /// density φ.
    pub(crate) fn gelu_grad(&self, grad: &Self) -> Self {
        self.in_wide(|x| {
            let cumulative = x.times(FRAC_1_SQRT_2).erf().plus(1.0).times(0.5);
            let density = x.mul(x).times(-0.5).exp().times(1.0 / (2.0 * PI).sqrt());
            cumulative.add(&x.mul(&density)).mul(&grad.widened())
        })
    }

    /// Gradient of sigmoid, `self` being its result: `y (1 - y) · grad`.
    pub(crate) fn sigmoid_grad(&self, grad: &Self) -> Self {
        self.in_wide(|y| y.neg().plus(1.0).mul(y).mul(&grad.widened()))
    }

    /// `clamp(alpha · x + beta, 0, 1)`.
    pub(crate) fn hard_sigmoid(&self, alpha: Scalar, beta: Scalar) -> Self {
        self.in_wide(|x| {
            let line = x.binary_scalar(BinaryOp::Mul, alpha).binary_scalar(BinaryOp::Add, beta);
            line.at_least(0.0).at_most(1.0)
        })
    }

    /// `log(1 / (1 + e^-x)) = min(x, 0) - log1p(e^-|x|)`.
    pub(crate) fn log_sigmoid(&self) -> Self {
        self.in_wide(|x| x.at_most(0.0).sub(&x.abs().neg().exp().log1p()))
    }

    /// Gradient of log-sigmoid at `self`: `grad / (1 + e^x)`.
    pub(crate) fn log_sigmoid_grad(&self, grad: &Self) -> Self {
        self.in_wide(|x| x.neg().sigmoid().mul(&grad.widened()))
    }

    /// `e^(x - max) / Σ e^(x - max)` along `axis`.
    pub(crate) fn softmax(&self, axis: usize) -> Self {
        self.in_wide(|x| {
            let powers = x.sub(&x.reduce(ReduceOp::Max, &[axis])).exp();
            // One division a row: a division an element took a quarter of the time of the whole.
            powers.mul(&powers.sum(&[axis]).recip())
        })
    }

    /// `x - max - log Σ e^(x - max)` along `axis`.
    pub(crate) fn log_softmax(&self, axis: usize) -> Self {
        self.in_wide(|x| {
            let shifted = x.sub(&x.reduce(ReduceOp::Max, &[axis]));
            shifted.sub(&shifted.exp().sum(&[axis]).log())
        })
    }
}
