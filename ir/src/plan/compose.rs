//! Attention as contractions and a softmax between them, for targets without a kernel for it.

use super::legalise::Rewriter;
use crate::{
    Attention, AttentionOp, BinaryOp, CompareOp, DType, Labels, Literal, Node, Op, ReduceOp, Shape, UnaryOp,
    ValueId,
};

impl Rewriter {
    /// The operations that an attention stands for. Scores are kept in the type of its scale.
    pub(super) fn compose_attention(&mut self, op: AttentionOp, node: &Node) -> ValueId {
        let [query, key, value] = [0, 1, 2].map(|index| node.operands[index]);
        let (mask, bias) = node.operands[3..].split_at(usize::from(op.masked));
        let wide = Attention::scale_dtype(node.dtype);
        let [batch, heads, queries, value_width] = [0, 1, 2, 3].map(|axis| node.shape[axis]);
        let (kv_heads, keys) = (self.shape(key)[1], self.shape(key)[2]);
        let shared = heads.checked_div(kv_heads).unwrap_or(1);
        let grouped = |rows, columns| Shape::from([batch, kv_heads, shared, rows, columns]);
        let shape = Shape::from([batch, heads, queries, keys]);

        let (query, key) = (self.cast(query, wide), self.cast(key, wide));
        let query = self.reshape(query, grouped(queries, self.shape(query)[3]));
        let scores = self.contract(["bhgqd", "bhkd", "bhgqk"], [query, key], grouped(queries, keys));
        let mut scores = self.reshape(scores, shape.clone());
        let scale = self.push(Op::Fill { slot: op.scale }, &[], wide, shape.clone());
        scores = self.binary(BinaryOp::Mul, scores, scale);
        if let Some(slot) = op.softcap {
            let cap = self.push(Op::Fill { slot }, &[], wide, shape.clone());
            let ratio = self.binary(BinaryOp::Div, scores, cap);
            let bent = self.unary(UnaryOp::Tanh, ratio);
            scores = self.binary(BinaryOp::Mul, bent, cap);
        }
        let unseen = self.constant(wide, f64::NEG_INFINITY, shape.clone());
        for &mask in mask {
            scores = self.push(Op::Select, &[mask, unseen, scores], wide, shape.clone());
        }
        if op.causal {
            let future = self.future(&shape);
            scores = self.push(Op::Select, &[future, unseen, scores], wide, shape);
        }
        for &bias in bias {
            let bias = self.cast(bias, wide);
            scores = self.binary(BinaryOp::Add, scores, bias);
        }
        let weights = self.masked_softmax(scores);
        let weights = self.cast(weights, node.dtype);
        let weights = self.reshape(weights, grouped(queries, keys));
        let sum = self.contract(["bhgqk", "bhkv", "bhgqv"], [weights, value], grouped(queries, value_width));
        self.reshape(sum, node.shape.clone())
    }

    /// Where a score is of a key after its query, both sequences aligned at their ends.
    fn future(&mut self, shape: &Shape) -> ValueId {
        let ends = shape[3] as f64 - shape[2] as f64;
        let row = self.push(Op::Iota { axis: 2 }, &[], DType::I64, shape.clone());
        let column = self.push(Op::Iota { axis: 3 }, &[], DType::I64, shape.clone());
        let ends = self.constant(DType::I64, ends, shape.clone());
        let last = self.binary(BinaryOp::Add, row, ends);
        self.push(Op::Compare(CompareOp::Gt), &[column, last], DType::Bool, shape.clone())
    }

    /// Softmax along the last axis in which a row of only -∞ gives 0 instead of NaN.
    fn masked_softmax(&mut self, scores: ValueId) -> ValueId {
        let dtype = self.dtype(scores);
        let (least, smallest) = match dtype {
            DType::F64 => (f64::MIN, f64::MIN_POSITIVE),
            _ => (f64::from(f32::MIN), f64::from(f32::MIN_POSITIVE)),
        };
        let max = self.along_rows(ReduceOp::Max, scores, least);
        let max = self.spread(max, scores);
        let below = self.binary(BinaryOp::Sub, scores, max);
        let powers = self.unary(UnaryOp::Exp, below);
        let sum = self.along_rows(ReduceOp::Sum, powers, smallest);
        let share = self.unary(UnaryOp::Recip, sum);
        let share = self.spread(share, scores);
        self.binary(BinaryOp::Mul, powers, share)
    }

    /// A reduction along the last axis, at least `floor`.
    fn along_rows(&mut self, op: ReduceOp, id: ValueId, floor: f64) -> ValueId {
        let (dtype, mut shape) = (self.dtype(id), self.shape(id).clone());
        let last = shape.rank() - 1;
        shape.0[last] = 1;
        let axes = smallvec::SmallVec::from_slice(&[last]);
        let operands = smallvec::SmallVec::from_slice(&[id]);
        let reduced = self.add(Node { op: Op::Reduce { op, axes }, operands, dtype, shape: shape.clone() });
        let floor = self.constant(dtype, floor, shape);
        self.binary(BinaryOp::Max, reduced, floor)
    }

    fn spread(&mut self, id: ValueId, like: ValueId) -> ValueId {
        self.push(Op::Expand, &[id], self.dtype(id), self.shape(like).clone())
    }

    fn contract(&mut self, [lhs, rhs, out]: [&str; 3], operands: [ValueId; 2], shape: Shape) -> ValueId {
        let [lhs, rhs, out] = [lhs, rhs, out].map(Labels::new);
        let dtype = self.dtype(operands[0]);
        let operands = smallvec::SmallVec::from_slice(&operands);
        self.add(Node { op: Op::Contract { lhs, rhs, out }, operands, dtype, shape })
    }

    fn unary(&mut self, op: UnaryOp, id: ValueId) -> ValueId {
        self.push(Op::Unary(op), &[id], self.dtype(id), self.shape(id).clone())
    }

    fn binary(&mut self, op: BinaryOp, a: ValueId, b: ValueId) -> ValueId {
        self.push(Op::Binary(op), &[a, b], self.dtype(a), self.shape(a).clone())
    }

    fn cast(&mut self, id: ValueId, dtype: DType) -> ValueId {
        if self.dtype(id) == dtype { id } else { self.push(Op::Cast, &[id], dtype, self.shape(id).clone()) }
    }

    fn reshape(&mut self, id: ValueId, shape: Shape) -> ValueId {
        if *self.shape(id) == shape { id } else { self.push(Op::Reshape, &[id], self.dtype(id), shape) }
    }

    fn constant(&mut self, dtype: DType, value: f64, shape: Shape) -> ValueId {
        self.push(Op::Constant { value: Literal::of(dtype, value) }, &[], dtype, shape)
    }
}
