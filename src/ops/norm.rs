//! Normalisations. f16 and bf16 are computed in f32 and rounded once.

use crate::MlirTensor;
use burn_backend::Scalar;
use burn_mlir_ir::{BinaryOp, Shape};
use smallvec::SmallVec;

impl MlirTensor {
    /// `(x - mean) / √(variance + ε) · gamma + beta` over the last axis: `[.., n]`, `[n]`, `[n]`.
    pub(crate) fn layer_norm(&self, gamma: &Self, beta: Option<&Self>, epsilon: f64) -> Self {
        let Some(last) = self.shape.len().checked_sub(1) else {
            return self.clone();
        };
        self.in_wide(|x| {
            let centred = x.sub(&x.mean(&[last]));
            let variance = centred.mul(&centred).mean(&[last]);
            let scaled = centred.div(&variance.standard_deviation(epsilon)).mul(&gamma.widened());
            match beta {
                Some(beta) => scaled.add(&beta.widened()),
                None => scaled,
            }
        })
    }

    /// `(x - mean) / √(variance + ε) · gamma + beta` for given statistics: `[n, c, ..]` and four `[c]`.
    pub(crate) fn batch_norm(
        &self,
        gamma: &Self,
        beta: &Self,
        mean: &Self,
        variance: &Self,
        epsilon: f64,
    ) -> Self {
        self.in_wide(|x| {
            let over_channels = |t: &Self| t.widened().on_channels(x.shape.len());
            let deviation = over_channels(variance).standard_deviation(epsilon);
            let normalised = x.sub(&over_channels(mean)).div(&deviation);
            normalised.mul(&over_channels(gamma)).add(&over_channels(beta))
        })
    }

    /// Mean and biased variance of each channel: `[n, c, ..]` → two `[c]`.
    pub(crate) fn channel_statistics(&self) -> (Self, Self) {
        let axes = self.axes_but_channels();
        let x = self.widened();
        let mean = x.mean(&axes);
        let centred = x.sub(&mean);
        let variance = centred.mul(&centred).mean(&axes);
        let narrow = |t: Self| t.reshape([self.shape[1]]).cast(self.dtype);
        (narrow(mean), narrow(variance))
    }

    /// Gradients of batch normalisation with the batch's statistics, in the input `[n, c, ..]`, in
    /// gamma and in beta `[c]`.
    pub(crate) fn batch_norm_grads(
        &self,
        gamma: &Self,
        mean: &Self,
        variance: &Self,
        epsilon: f64,
        grad: &Self,
    ) -> [Self; 3] {
        let axes = self.axes_but_channels();
        let over_channels = |t: &Self| t.widened().on_channels(self.shape.len());
        let grad = grad.widened();
        let inverse = over_channels(variance).standard_deviation(epsilon).recip();
        let normalised = self.widened().sub(&over_channels(mean)).mul(&inverse);
        let weighted = grad.mul(&normalised);
        let centred = grad.sub(&grad.mean(&axes));
        let projected = normalised.mul(&weighted.mean(&axes));
        let scale = over_channels(gamma).mul(&inverse);
        let input = scale.mul(&centred.sub(&projected)).cast(self.dtype);
        let channel = |t: Self| t.sum(&axes).reshape([self.shape[1]]).cast(gamma.dtype);
        [input, channel(weighted), channel(grad)]
    }

    /// `√(self + ε)`.
    fn standard_deviation(&self, epsilon: f64) -> Self {
        self.binary_scalar(BinaryOp::Add, Scalar::Float(epsilon)).sqrt()
    }

    /// `[c]` as `[1, c, 1, ..]` of a rank.
    fn on_channels(&self, rank: usize) -> Self {
        let extent = |axis: usize| if axis == 1 { self.shape[0] } else { 1 };
        self.reshape((0..rank).map(extent).collect::<Shape>())
    }

    /// Every axis but the second.
    fn axes_but_channels(&self) -> SmallVec<[usize; 8]> {
        (0..self.shape.len()).filter(|&axis| axis != 1).collect()
    }
}
