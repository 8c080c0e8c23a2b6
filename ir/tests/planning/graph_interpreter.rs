//! Executes a graph node by node, straight from the definitions of the operations.

use crate::arithmetic::*;
use burn_mlir_ir::{AttentionOperand, AttentionSizes, Graph, Node, Op, ScatterOp, Shape};

/// A tensor in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    pub shape: Shape,
    pub values: Vec<i64>,
}

impl Tensor {
    pub fn build(shape: &Shape, f: impl FnMut(&[usize]) -> i64) -> Self {
        Self { shape: shape.clone(), values: indices(shape).iter().map(|index| &index[..]).map(f).collect() }
    }

    pub fn at(&self, index: &[usize]) -> i64 {
        let position = index.iter().zip(self.shape.iter()).fold(0, |sum, (i, extent)| sum * extent + i);
        self.values[position]
    }

    fn set(&mut self, index: &[usize], value: i64) {
        let position = index.iter().zip(self.shape.iter()).fold(0, |sum, (i, extent)| sum * extent + i);
        self.values[position] = value;
    }
}

/// All indices of a shape in row-major order.
pub fn indices(shape: &[usize]) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for &extent in shape {
        all = all
            .into_iter()
            .flat_map(|prefix| (0..extent).map(move |i| [&prefix[..], &[i]].concat()))
            .collect();
    }
    all
}

/// The values of all nodes. `inputs[slot]` are the inputs.
pub fn run(graph: &Graph, inputs: &[Tensor], scalars: &[i64]) -> Vec<Tensor> {
    let mut values: Vec<Tensor> = Vec::new();
    for node in &graph.nodes {
        let operands: Vec<&Tensor> = node.operands.iter().map(|id| &values[id.index()]).collect();
        let value = evaluate(graph, node, &operands, inputs, scalars);
        assert_eq!(value.shape, node.shape, "{:?}", node.op);
        values.push(value);
    }
    values
}

fn replaced(index: &[usize], axis: usize, value: usize) -> Vec<usize> {
    let mut index = index.to_vec();
    index[axis] = value;
    index
}

fn evaluate(graph: &Graph, node: &Node, operands: &[&Tensor], inputs: &[Tensor], scalars: &[i64]) -> Tensor {
    let (shape, dtype) = (&node.shape, node.dtype);
    let build = |f: &mut dyn FnMut(&[usize]) -> i64| Tensor::build(shape, f);
    let along = |index: &[usize], axes: &[usize]| -> Vec<i64> {
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        let extents: Vec<usize> = axes.iter().map(|&axis| operands[0].shape[axis]).collect();
        let value = |inner: &Vec<usize>| {
            let mut index = index.to_vec();
            axes.iter().zip(inner).for_each(|(&axis, &i)| index[axis] = i);
            operands[0].at(&index)
        };
        indices(&extents).iter().map(value).collect()
    };
    match &node.op {
        Op::Input { slot, .. } => inputs[*slot as usize].clone(),
        Op::Fill { slot } => {
            let value = wrap(dtype, wrap(graph.scalars[*slot as usize], scalars[*slot as usize]));
            build(&mut |_| value)
        }
        Op::Constant { value } => build(&mut |_| literal(dtype, *value)),
        Op::Iota { axis } => build(&mut |index| wrap(dtype, index[*axis] as i64)),
        Op::Random { key, stream } => {
            let mut next = -1;
            build(&mut |_| {
                next += 1;
                random(scalars[*key as usize], scalars[*stream as usize], next)
            })
        }
        Op::Unary(op) => build(&mut |index| unary(*op, dtype, operands[0].at(index))),
        Op::Binary(op) => {
            build(&mut |index| binary(*op, dtype, operands[0].at(index), operands[1].at(index)))
        }
        Op::Compare(op) => build(&mut |index| compare(*op, operands[0].at(index), operands[1].at(index))),
        Op::Select => build(&mut |i| operands[if operands[0].at(i) != 0 { 1 } else { 2 }].at(i)),
        Op::Cast | Op::Bitcast => build(&mut |index| wrap(dtype, operands[0].at(index))),
        Op::Reshape => Tensor { shape: shape.clone(), values: operands[0].values.clone() },
        Op::Permute { axes } => build(&mut |index| {
            let mut from = vec![0; index.len()];
            axes.iter().enumerate().for_each(|(i, &axis)| from[axis] = index[i]);
            operands[0].at(&from)
        }),
        Op::Expand => build(&mut |index| {
            let clip = |(&i, &extent): (&usize, &usize)| if extent == 1 { 0 } else { i };
            operands[0].at(&index.iter().zip(operands[0].shape.iter()).map(clip).collect::<Vec<_>>())
        }),
        Op::Slice { dims } => build(&mut |index| {
            let from =
                index.iter().zip(dims).map(|(&i, dim)| (dim.start as i64 + i as i64 * dim.step) as usize);
            operands[0].at(&from.collect::<Vec<_>>())
        }),
        Op::Unfold { axis, step, dilation, .. } => build(&mut |index| {
            let (window, outer) = index.split_last().unwrap();
            operands[0].at(&replaced(outer, *axis, outer[*axis] * step + window * dilation))
        }),
        Op::Reduce { op, axes } => build(&mut |index| reduce(*op, dtype, along(index, axes).into_iter())),
        Op::ArgReduce { op, axes } => build(&mut |index| arg_reduce(*op, along(index, axes).into_iter())),
        Op::Scan { op, axis } => build(&mut |index| {
            let before = (0..=index[*axis]).map(|i| operands[0].at(&replaced(index, *axis, i)));
            reduce(*op, dtype, before)
        }),
        Op::Paths => {
            let mut result = Tensor::build(shape, |_| 0);
            for index in indices(shape) {
                let score = operands[0].at(&index);
                let value = path(&index, score, |at| result.at(at), |at| operands[1].at(at));
                result.set(&index, wrap(dtype, value));
            }
            result
        }
        Op::Contract { lhs, rhs, out } => {
            let mut labels: Vec<u8> = Vec::new();
            let mut extents = Vec::new();
            for (label, extent) in
                lhs.0.iter().zip(&operands[0].shape.0).chain(rhs.0.iter().zip(&operands[1].shape.0))
            {
                if !out.0.contains(label) && !labels.contains(label) {
                    labels.push(*label);
                    extents.push(*extent);
                }
            }
            build(&mut |index| {
                let terms = indices(&extents).into_iter().map(|inner| {
                    let of = |label: &u8| match out.0.iter().position(|l| l == label) {
                        Some(axis) => index[axis],
                        None => inner[labels.iter().position(|l| l == label).unwrap()],
                    };
                    let a = operands[0].at(&lhs.0.iter().map(of).collect::<Vec<_>>());
                    a.wrapping_mul(operands[1].at(&rhs.0.iter().map(of).collect::<Vec<_>>()))
                });
                wrap(dtype, terms.fold(0, i64::wrapping_add))
            })
        }
        Op::Gather { axis } => {
            build(&mut |index| operands[0].at(&replaced(index, *axis, operands[1].at(index) as usize)))
        }
        Op::Scatter { op, axis } => {
            let mut result = operands[0].clone();
            for index in indices(&operands[2].shape) {
                let target = replaced(&index, *axis, operands[1].at(&index) as usize);
                let update = operands[2].at(&index);
                let old = result.at(&target);
                result.set(&target, scatter(*op, dtype, old, update));
            }
            result
        }
        Op::Sort { axis, descending } | Op::ArgSort { axis, descending } => build(&mut |index| {
            let line: Vec<i64> =
                (0..shape[*axis]).map(|i| operands[0].at(&replaced(index, *axis, i))).collect();
            sorted(&line, *descending, matches!(node.op, Op::ArgSort { .. }))[index[*axis]]
        }),
        Op::Concat { axis } => build(&mut |index| {
            let mut position = index[*axis];
            for operand in operands {
                if position < operand.shape[*axis] {
                    return operand.at(&replaced(index, *axis, position));
                }
                position -= operand.shape[*axis];
            }
            unreachable!()
        }),
        Op::Attention(op) => {
            let [queries, keys, values] = [0, 1, 2].map(|index| &operands[index].shape);
            let sizes = AttentionSizes {
                batch: queries[0],
                heads: queries[1],
                kv_heads: keys[1],
                queries: queries[2],
                keys: keys[2],
                width: queries[3],
                value_width: values[3],
            };
            let slots = [Some(op.scale), op.softcap].into_iter().flatten();
            let given: Vec<i64> = slots.map(|slot| scalars[slot as usize]).collect();
            let at = |operand, index: &[usize]| {
                let position = match operand {
                    AttentionOperand::Query => 0,
                    AttentionOperand::Key => 1,
                    AttentionOperand::Value => 2,
                    AttentionOperand::Mask => op.masked.then_some(3)?,
                    _ => op.biased.then_some(3 + usize::from(op.masked))?,
                };
                Some(operands[position].at(index))
            };
            build(&mut |index| wrap(dtype, attention(&sizes, op.causal, &given, index, at)))
        }
        Op::SliceUpdate { dims } => {
            let mut result = operands[0].clone();
            for index in indices(&operands[1].shape) {
                let to =
                    index.iter().zip(dims).map(|(&i, dim)| (dim.start as i64 + i as i64 * dim.step) as usize);
                result.set(&to.collect::<Vec<_>>(), operands[1].at(&index));
            }
            result
        }
    }
}

pub fn scatter(op: ScatterOp, dtype: burn_mlir_ir::DType, old: i64, update: i64) -> i64 {
    wrap(
        dtype,
        match op {
            ScatterOp::Assign => update,
            ScatterOp::Add => old.wrapping_add(update),
            ScatterOp::Mul => old.wrapping_mul(update),
            ScatterOp::Max => old.max(update),
            ScatterOp::Min => old.min(update),
        },
    )
}

/// The sorted values of a line, or their positions.
pub fn sorted(line: &[i64], descending: bool, positions: bool) -> Vec<i64> {
    let mut order: Vec<usize> = (0..line.len()).collect();
    order.sort_by(|&a, &b| if descending { line[b].cmp(&line[a]) } else { line[a].cmp(&line[b]) });
    order.into_iter().map(|i| if positions { i as i64 } else { line[i] }).collect()
}
