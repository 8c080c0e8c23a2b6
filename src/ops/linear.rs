//! The linear layer and its gradients, without transposing or flattening anything: the contraction
//! names the axes.

use super::invalid;
use crate::MlirTensor;
use smallvec::SmallVec;

/// Labels of leading axes.
const ROWS: &[u8] = b"abcdefghij";

/// Labels of a tensor `[rows.., last]`.
fn labels(rank: usize, last: u8) -> SmallVec<[u8; 12]> {
    ROWS[..rank - 1].iter().copied().chain([last]).collect()
}

impl MlirTensor {
    /// `x · weight + bias`: `[.., i]`, `[i, o]`, `[o]` → `[.., o]`.
    pub(crate) fn linear(&self, weight: &Self, bias: Option<&Self>) -> Self {
        let product = self.rows_times(weight, b'k', b'o');
        match bias {
            Some(bias) => product.add(bias),
            None => product,
        }
    }

    /// Gradient of [`linear`](Self::linear) in its input: `[.., o]`, `[i, o]` → `[.., i]`.
    pub(crate) fn linear_input_grad(&self, weight: &Self) -> Self {
        self.rows_times(weight, b'o', b'k')
    }

    /// Gradient of [`linear`](Self::linear) in its weight: `[.., i]`, `[.., o]` → `[i, o]`.
    pub(crate) fn linear_weight_grad(&self, grad: &Self) -> Self {
        let (rank, other) = (self.shape.len(), grad.shape.len());
        if rank != other || rank == 0 || rank > ROWS.len() {
            let operands = [self, grad];
            let reason = "the ranks do not agree";
            return invalid("linear", &operands, self.dtype, self.ir_shape(), reason);
        }
        let (x, y) = (labels(rank, b'k'), labels(rank, b'o'));
        self.contract(grad, "linear", [&x, &y, b"ko"])
    }

    /// Gradient of [`linear`](Self::linear) in its bias: `[.., o]` → `[o]`.
    pub(crate) fn linear_bias_grad(&self) -> Self {
        let Some(&last) = self.shape.last() else {
            return self.clone();
        };
        let rows: SmallVec<[usize; 8]> = (0..self.shape.len() - 1).collect();
        self.sum(&rows).reshape([last])
    }

    /// `[.., from]` times the matrix `[k, o]`: `[.., to]`.
    fn rows_times(&self, matrix: &Self, from: u8, to: u8) -> Self {
        let rank = self.shape.len();
        if rank == 0 || rank > ROWS.len() || matrix.shape.len() != 2 {
            let operands = [self, matrix];
            let reason = "wants rows and a matrix";
            return invalid("linear", &operands, self.dtype, self.ir_shape(), reason);
        }
        self.contract(matrix, "linear", [&labels(rank, from), b"ko", &labels(rank, to)])
    }
}
