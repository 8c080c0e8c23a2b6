//! Scaled dot-product attention.

use super::invalid;
use crate::MlirTensor;
use burn_backend::Scalar;
use burn_backend::ops::AttentionModuleOptions;
use burn_mlir_ir::{BinaryOp, CompareOp, DType, Shape};

impl MlirTensor {
    /// `softmax(Q Kᵗ · scale + masks) · V`: `[b, h, q, d]`, `[b, h, k, d]`, `[b, h, k, v]` →
    /// `[b, h, q, v]`. `mask` is true where attention is forbidden; a query that may attend to nothing
    /// gives 0. Scores of f16 and bf16 are kept in f32.
    pub(crate) fn attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        bias: Option<&Self>,
        options: &AttentionModuleOptions,
    ) -> Self {
        let fits = [self, key, value].iter().all(|t| t.shape.len() == 4 && t.dtype == self.dtype);
        if !fits || options.softcap.is_some_and(|cap| cap <= 0.0) {
            let operands = [self, key, value];
            let reason = "wants three tensors of rank 4 and one type, and a positive soft cap";
            return invalid("attention", &operands, self.dtype, self.ir_shape(), reason);
        }
        let scale = options.scale.unwrap_or_else(|| 1.0 / (self.shape[3] as f64).sqrt());
        let product = self.matmul(&key.swap_axes(2, 3)).widened();
        let mut scores = product.binary_scalar(BinaryOp::Mul, Scalar::Float(scale));
        if let Some(cap) = options.softcap {
            let ratio = scores.binary_scalar(BinaryOp::Div, Scalar::Float(cap));
            scores = ratio.tanh().binary_scalar(BinaryOp::Mul, Scalar::Float(cap));
        }
        if let Some(mask) = mask {
            scores = mask.select(&scores.constant_like(f64::NEG_INFINITY), &scores);
        }
        if options.is_causal {
            scores = scores.future().select(&scores.constant_like(f64::NEG_INFINITY), &scores);
        }
        if let Some(bias) = bias {
            scores = scores.add(&bias.widened());
        }
        scores.masked_softmax(3).cast(self.dtype).matmul(value)
    }

    /// Where a score `[b, h, q, k]` is of a key after its query: `[q, k]`, both aligned at their ends.
    fn future(&self) -> Self {
        let (queries, keys) = (self.shape[2], self.shape[3]);
        let shape = Shape::from([queries, keys]);
        let row = Self::iota(self.device, DType::I32, shape.clone(), 0);
        let column = Self::iota(self.device, DType::I32, shape, 1);
        let last = row.plus(keys as f64 - queries as f64);
        column.compare(CompareOp::Gt, &last)
    }
}
