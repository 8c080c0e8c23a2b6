//! What the backend records: values a user chose are arguments, and nothing is copied that a view can
//! say.

use crate::agreement::float;
use crate::support::devices::current;
use burn_backend::ops::{ActivationOps, ConvOptions, FloatTensorOps, ModuleOps, PadMode};
use burn_backend::{Distribution, FloatDType, Shape};
use burn_mlir::ir::{Graph, Op};
use burn_mlir::{Mlir, MlirTensor, inspect};

fn graph(compute: impl FnOnce() -> MlirTensor) -> Graph {
    let (_result, graph) = inspect::graph(current(), compute).unwrap();
    graph.verify().unwrap();
    graph
}

fn count(graph: &Graph, is: impl Fn(&Op) -> bool) -> usize {
    graph.nodes.iter().filter(|node| is(&node.op)).count()
}

#[test]
fn scalars_of_a_user_are_not_part_of_the_structure() {
    let x = || float::<Mlir, 2>([3, 4], 1);
    type Use = fn(MlirTensor, f64) -> MlirTensor;
    let uses: [(&str, Use); 7] = [
        ("mul", |x, v| Mlir::float_mul_scalar(x, v.into())),
        ("clamp", |x, v| Mlir::float_clamp(x, (-v).into(), v.into())),
        ("fill", |x, v| {
            let mask = Mlir::float_greater_elem(x.clone(), v.into(), burn_backend::BoolDType::Native);
            Mlir::float_mask_fill(x, mask, v.into())
        }),
        ("pad", |x, v| Mlir::float_pad(x, &[(1, 1), (0, 2)], PadMode::Constant(v as f32))),
        ("power", |x, v| Mlir::float_powf_scalar(x, (v + 0.25).into())),
        ("leaky relu", |x, v| Mlir::leaky_relu(x, v.into())),
        ("uniform", |_, v| {
            let range = Distribution::Uniform(-v, v);
            Mlir::float_random(Shape::new([5]), range, &current(), FloatDType::F32)
        }),
    ];
    for (name, function) in uses {
        let with = |value: f64| {
            let x = x();
            graph(move || function(x, value))
        };
        assert_eq!(with(1.5), with(4.0), "{name}");
    }
}

#[test]
fn a_convolution_without_padding_is_one_contraction_of_views() {
    let (x, w) = (float::<Mlir, 4>([2, 3, 8, 8], 1), float::<Mlir, 4>([4, 3, 3, 3], 2));
    let options = ConvOptions::new([1, 1], [0, 0], [1, 1], 1);
    let graph = graph(|| Mlir::conv2d(x, w, None, options));
    assert_eq!(count(&graph, |op| matches!(op, Op::Contract { .. })), 1);
    let others = |op: &Op| !(op.is_view() || matches!(op, Op::Input { .. } | Op::Contract { .. }));
    assert_eq!(count(&graph, others), 0, "{graph}");
}

#[test]
fn one_matrix_for_a_batch_has_no_batch_label() {
    let (x, w) = (float::<Mlir, 3>([5, 2, 3], 1), float::<Mlir, 3>([1, 3, 4], 2));
    let graph = graph(|| Mlir::float_matmul(x, w));
    let labels = graph.nodes.iter().find_map(|node| match &node.op {
        Op::Contract { lhs, rhs, out } => Some(format!("{lhs},{rhs}->{out}")),
        _ => None,
    });
    assert_eq!(labels.unwrap(), "amk,kn->amn");
}

#[test]
fn softmax_is_two_reductions_and_no_copy() {
    let x = float::<Mlir, 2>([6, 7], 1);
    let graph = graph(|| Mlir::softmax(x, 1));
    assert_eq!(count(&graph, |op| matches!(op, Op::Reduce { .. })), 2);
    assert_eq!(count(&graph, |op| matches!(op, Op::SliceUpdate { .. } | Op::Concat { .. })), 0);
}
