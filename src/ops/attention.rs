//! Scaled dot-product attention.

use super::{apply_with, invalid};
use crate::MlirTensor;
use burn_backend::Scalar;
use burn_backend::ops::AttentionModuleOptions;
use burn_mlir_ir::{Attention, AttentionOp, BinaryOp, DType, Op, Shape};

impl MlirTensor {
    /// `softmax(Q Kᵗ · scale + masks) · V`: `[b, h, q, d]`, `[b, g, k, d]`, `[b, g, k, v]` →
    /// `[b, h, q, v]`, where heads of queries may share heads of keys. `mask` is true where attention is
    /// forbidden; a query that may attend to nothing gives 0. Mask and bias may have extents of 1.
    pub(crate) fn attention(
        &self,
        key: &Self,
        value: &Self,
        mask: Option<&Self>,
        bias: Option<&Self>,
        options: &AttentionModuleOptions,
    ) -> Self {
        let mut operands = vec![self, key, value];
        operands.extend(mask.into_iter().chain(bias));
        if operands.iter().any(|t| t.shape.len() != 4) || options.softcap.is_some_and(|cap| cap <= 0.0) {
            let reason = "wants tensors of rank 4 and a positive soft cap";
            return invalid("attention", &operands, self.dtype, self.ir_shape(), reason);
        }
        let [batch, heads, queries, width] = [0, 1, 2, 3].map(|axis| self.shape[axis]);
        let whole = Shape::from([batch, heads, queries, key.shape[2]]);
        let (mask, bias) = (mask.map(|t| t.expand(&whole)), bias.map(|t| t.expand(&whole)));
        let scale = options.scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt());
        let (query, scale) = self.with_positive_scale(scale);

        let dtype = Attention::scale_dtype(self.dtype);
        let mut scalars = vec![(dtype, Scalar::Float(scale))];
        scalars.extend(options.softcap.map(|cap| (dtype, Scalar::Float(cap))));
        let op = AttentionOp {
            scale: 0,
            softcap: options.softcap.map(|_| 1),
            causal: options.is_causal,
            masked: mask.is_some(),
            biased: bias.is_some(),
        };
        let mut operands = vec![&query, key, value];
        operands.extend(mask.iter().chain(&bias));
        let shape = Shape::from([batch, heads, queries, value.shape[3]]);
        apply_with("attention", Op::Attention(op), &operands, &scalars, self.dtype, shape)
    }

    /// Queries and a scale that is a positive number, with the same scores. A scale that is not goes into the
    /// queries.
    fn with_positive_scale(&self, scale: f64) -> (Self, f64) {
        let rounded = if self.dtype == DType::F64 { scale } else { f64::from(scale as f32) };
        if rounded.is_finite() && rounded > 0.0 {
            (self.clone(), scale)
        } else if rounded.is_finite() && rounded < 0.0 {
            (self.neg(), -scale)
        } else {
            (self.binary_scalar(BinaryOp::Mul, Scalar::Float(scale)), 1.0)
        }
    }
}
