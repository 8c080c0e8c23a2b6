//! Contractions: sums of products, in einsum notation.

use super::{apply, invalid};
use crate::MlirTensor;
use burn_mlir_ir::{Labels, Op, Shape};
use smallvec::SmallVec;

/// Labels of batch axes; those of matrices stand apart.
const BATCH: &[u8] = b"abcdefghijlopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The contraction of operands with these labels, to the last ones.
fn contraction(labels: [&[u8]; 3]) -> Op {
    let [lhs, rhs, out] = labels.map(|text| Labels(SmallVec::from_slice(text)));
    Op::Contract { lhs, rhs, out }
}

impl MlirTensor {
    /// `Σ self · rhs` over the labels that the result does not have; labels of this tensor, of `rhs` and
    /// of the result: `einsum("lhs,rhs->out")`.
    pub(crate) fn contract(&self, rhs: &Self, name: &'static str, labels: [&[u8]; 3]) -> Self {
        let [lhs, rhs_labels, out] = labels;
        let operands = [self, rhs];
        let extent = |label: u8| {
            let find =
                |labels: &[u8], t: &Self| labels.iter().position(|&l| l == label).map(|axis| t.shape[axis]);
            (find(lhs, self), find(rhs_labels, rhs))
        };
        let shape: Shape = out
            .iter()
            .map(|&label| {
                let (a, b) = extent(label);
                a.or(b).unwrap_or(1)
            })
            .collect();
        let agree = lhs.len() == self.shape.len()
            && rhs_labels.len() == rhs.shape.len()
            && lhs.iter().all(|&l| matches!(extent(l), (Some(a), b) if b.is_none_or(|b| a == b)));
        if self.dtype != rhs.dtype || !agree {
            let reason = "types or extents of the operands do not agree";
            return invalid(name, &operands, self.dtype, shape, reason);
        }
        apply(name, contraction(labels), &operands, self.dtype, shape)
    }

    /// Matrix product: `[.., m, k] · [.., k, n] → [.., m, n]`; batch axes broadcast. A batch axis of
    /// extent 1 is left out of its operand's labels, so that one matrix for a whole batch is one large
    /// product.
    pub(crate) fn matmul(&self, rhs: &Self) -> Self {
        let operands = [self, rhs];
        let (ranks, types) = ((self.shape.len(), rhs.shape.len()), (self.dtype, rhs.dtype));
        let rank = ranks.0.max(ranks.1);
        let batches = rank.saturating_sub(2);
        if ranks.0 < 2 || ranks.1 < 2 || batches > BATCH.len() || types.0 != types.1 {
            let reason = format!("wants two tensors of one type and of rank 2 to {}", BATCH.len() + 2);
            return invalid("matmul", &operands, self.dtype, self.ir_shape(), reason);
        }
        if ranks == (2, 2) && self.shape[1] == rhs.shape[0] {
            let shape = Shape::from([self.shape[0], rhs.shape[1]]);
            return apply("matmul", contraction([b"mk", b"kn", b"mn"]), &operands, self.dtype, shape);
        }
        let aligned = |t: &Self| t.reshape(leading_ones(&t.shape, rank));
        let (a, b) = (aligned(self), aligned(rhs));
        let batch = super::elementwise::broadcast_shape(&[&a.shape[..batches], &b.shape[..batches]]);
        let (m, k, n) = (a.shape[rank - 2], a.shape[rank - 1], b.shape[rank - 1]);
        let Some(batch) = batch.filter(|_| b.shape[rank - 2] == k) else {
            let reason = "the shapes do not fit a matrix product";
            return invalid("matmul", &operands, self.dtype, self.ir_shape(), reason);
        };
        let shape: Shape = batch.iter().copied().chain([m, n]).collect();
        let (a, a_labels) = without_unit_batches(&a, batches, b"mk");
        let (b, b_labels) = without_unit_batches(&b, batches, b"kn");
        let kept = |label: &u8| a_labels.contains(label) || b_labels.contains(label);
        let mut out: SmallVec<[u8; 12]> = BATCH[..batches].iter().copied().filter(kept).collect();
        out.extend_from_slice(b"mn");
        a.contract(&b, "matmul", [&a_labels, &b_labels, &out]).reshape(shape)
    }

    /// Vector product of vectors of 3 along `axis`, broadcasting: `a × b`.
    pub(crate) fn cross(&self, rhs: &Self, axis: usize) -> Self {
        let fits = |t: &Self| t.shape.get(axis) == Some(&3);
        if !fits(self) || !fits(rhs) {
            let reason = format!("axis {axis} does not have extent 3");
            return invalid("cross", &[self, rhs], self.dtype, self.ir_shape(), reason);
        }
        let part = |t: &Self, i: usize| t.narrow(axis, i % 3, 1);
        let component = |i: usize| {
            let product = |p: usize, q: usize| part(self, p).mul(&part(rhs, q));
            product(i + 1, i + 2).sub(&product(i + 2, i + 1))
        };
        Self::concat(&[component(0), component(1), component(2)], axis).unwrap_or_else(|| self.clone())
    }
}

/// `shape` with ones in front up to `rank`.
fn leading_ones(shape: &[usize], rank: usize) -> Shape {
    std::iter::repeat_n(1, rank - shape.len()).chain(shape.iter().copied()).collect()
}

/// The tensor without batch axes of extent 1, and the labels of what is left.
fn without_unit_batches(t: &MlirTensor, batches: usize, matrix: &[u8]) -> (MlirTensor, SmallVec<[u8; 12]>) {
    let kept = || (0..batches).filter(|&axis| t.shape[axis] != 1);
    let mut labels: SmallVec<[u8; 12]> = kept().map(|axis| BATCH[axis]).collect();
    labels.extend_from_slice(matrix);
    let extents = kept().map(|axis| t.shape[axis]).chain(t.shape[batches..].iter().copied());
    (t.reshape(extents.collect::<Shape>()), labels)
}
