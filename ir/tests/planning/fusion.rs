//! How many kernels well-known computations become, and what they look like.

use crate::graph_interpreter::Tensor;
use crate::properties::check;
use crate::random::Case;
use burn_mlir_ir::plan::{Plan, plan};
use burn_mlir_ir::{Block, DType, Graph, Instr, Kernel, Op};

/// Parses, checks what the plan computes, and gives it.
pub fn planned(text: &str) -> Plan {
    let case = case_of(text);
    check(&case);
    plan(&case.graph).unwrap()
}

/// A graph in the textual form with inputs and scalars.
pub fn case_of(text: &str) -> Case {
    let graph: Graph = text.parse().unwrap_or_else(|error| panic!("{error}"));
    graph.verify().unwrap_or_else(|error| panic!("{error}"));
    let mut inputs = Vec::new();
    for node in &graph.nodes {
        if let Op::Input { slot, .. } = node.op {
            assert_eq!(slot as usize, inputs.len());
            let mut next = 3 + slot as i64;
            inputs.push(Tensor::build(&node.shape, |_| {
                next = (next * 29 + 13) % 101;
                next % 4
            }));
        }
    }
    let scalars = vec![3; graph.scalars.len()];
    Case { graph, inputs, scalars }
}

pub fn blocks(plan: &Plan) -> Vec<&Block> {
    let blocks = plan.kernels.iter().filter_map(|kernel| match kernel {
        Kernel::Block(block) => Some(block),
        _ => None,
    });
    blocks.collect()
}

/// The domain in the textual form: `p 4, r 8`.
pub fn domain(block: &Block) -> String {
    let text = Kernel::Block(block.clone()).to_string();
    text[text.find('[').unwrap() + 1..text.find(']').unwrap()].to_string()
}

pub fn count(block: &Block, wanted: impl Fn(&Instr) -> bool) -> usize {
    block.body.iter().filter(|statement| wanted(&statement.instr)).count()
}

#[test]
fn softmax_is_one_kernel() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[2, 5, 7]
          %1 = reduce max [2] %0 : f32[2, 5, 1]
          %2 = expand %1 : f32[2, 5, 7]
          %3 = sub %0, %2 : f32[2, 5, 7]
          %4 = exp %3 : f32[2, 5, 7]
          %5 = reduce sum [2] %4 : f32[2, 5, 1]
          %6 = expand %5 : f32[2, 5, 7]
          %7 = div %4, %6 : f32[2, 5, 7]
          return %7
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    insta::assert_snapshot!(plan.kernels[0], @r"
    block [p 10, r 7] () {
      @0 = in f32 align 4
      @1 = out f32 align 64
      %0 = load @0 [7, 1] : f32
      %1 = reduce max %0 : f32
      %2 = sub %0, %1 : f32
      %3 = exp %2 : f32
      %4 = reduce sum %3 : f32
      %5 = div %3, %4 : f32
      store %5 -> @1 [7, 1]
    }
    ");
}

#[test]
fn log_softmax_over_an_inner_axis_is_one_kernel() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 7, 3]
          %1 = reduce max [1] %0 : f32[4, 1, 3]
          %2 = expand %1 : f32[4, 7, 3]
          %3 = sub %0, %2 : f32[4, 7, 3]
          %4 = exp %3 : f32[4, 7, 3]
          %5 = reduce sum [1] %4 : f32[4, 1, 3]
          %6 = log %5 : f32[4, 1, 3]
          %7 = expand %6 : f32[4, 7, 3]
          %8 = sub %3, %7 : f32[4, 7, 3]
          return %8
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(domain(blocks(&plan)[0]), "p 4, p 3, r 7");
}

#[test]
fn softmax_backward_is_one_kernel() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[6, 7]
          %1 = input 1 : f32[6, 7]
          %2 = mul %0, %1 : f32[6, 7]
          %3 = reduce sum [1] %2 : f32[6, 1]
          %4 = expand %3 : f32[6, 7]
          %5 = sub %1, %4 : f32[6, 7]
          %6 = mul %0, %5 : f32[6, 7]
          return %6
        }",
    );
    assert_eq!(plan.launches.len(), 1);
}

/// Layer normalisation whose mean and reciprocal deviation are kept for the backward pass, after a
/// residual sum that is kept, too.
#[test]
fn layer_norm_is_one_kernel() {
    let plan = planned(
        "graph (f32, f32) {
          %0 = input 0 : f32[4, 3, 8]
          %1 = input 1 : f32[4, 3, 8]
          %2 = add %0, %1 : f32[4, 3, 8]
          %3 = reduce sum [2] %2 : f32[4, 3, 1]
          %4 = fill $0 : f32[4, 3, 1]
          %5 = mul %3, %4 : f32[4, 3, 1]
          %6 = expand %5 : f32[4, 3, 8]
          %7 = sub %2, %6 : f32[4, 3, 8]
          %8 = mul %7, %7 : f32[4, 3, 8]
          %9 = reduce sum [2] %8 : f32[4, 3, 1]
          %10 = mul %9, %4 : f32[4, 3, 1]
          %11 = fill $1 : f32[4, 3, 1]
          %12 = add %10, %11 : f32[4, 3, 1]
          %13 = rsqrt %12 : f32[4, 3, 1]
          %14 = expand %13 : f32[4, 3, 8]
          %15 = mul %7, %14 : f32[4, 3, 8]
          %16 = input 2 : f32[8]
          %17 = reshape %16 : f32[1, 1, 8]
          %18 = expand %17 : f32[4, 3, 8]
          %19 = mul %15, %18 : f32[4, 3, 8]
          %20 = input 3 : f32[8]
          %21 = reshape %20 : f32[1, 1, 8]
          %22 = expand %21 : f32[4, 3, 8]
          %23 = add %19, %22 : f32[4, 3, 8]
          return %23, %2, %5, %13
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    let block = blocks(&plan)[0];
    assert_eq!(domain(block), "p 12, r 8");
    assert_eq!(block.stores.len(), 4);
    assert_eq!(count(block, |instr| matches!(instr, Instr::Reduce(..))), 2);
}

#[test]
fn batch_norm_statistics_are_one_kernel() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[4, 3, 5, 2]
          %1 = reduce sum [0, 2, 3] %0 : f32[1, 3, 1, 1]
          %2 = fill $0 : f32[1, 3, 1, 1]
          %3 = mul %1, %2 : f32[1, 3, 1, 1]
          %4 = expand %3 : f32[4, 3, 5, 2]
          %5 = sub %0, %4 : f32[4, 3, 5, 2]
          %6 = mul %5, %5 : f32[4, 3, 5, 2]
          %7 = reduce sum [0, 2, 3] %6 : f32[1, 3, 1, 1]
          %8 = mul %7, %2 : f32[1, 3, 1, 1]
          return %3, %8
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(domain(blocks(&plan)[0]), "p 3, r 4, r 10");
}

/// One parameter: both moments and the parameter itself, all updated in place.
#[test]
fn adam_is_one_kernel_in_place() {
    let plan = planned(
        "graph (f32, f32, f32, f32) {
          %0 = input 0 donated : f32[4, 8]
          %1 = input 1 : f32[4, 8]
          %2 = input 2 donated : f32[4, 8]
          %3 = input 3 donated : f32[4, 8]
          %4 = fill $0 : f32[4, 8]
          %5 = fill $1 : f32[4, 8]
          %6 = fill $2 : f32[4, 8]
          %7 = fill $3 : f32[4, 8]
          %8 = mul %2, %4 : f32[4, 8]
          %9 = mul %1, %5 : f32[4, 8]
          %10 = add %8, %9 : f32[4, 8]
          %11 = mul %1, %1 : f32[4, 8]
          %12 = mul %11, %6 : f32[4, 8]
          %13 = mul %3, %4 : f32[4, 8]
          %14 = add %12, %13 : f32[4, 8]
          %15 = sqrt %14 : f32[4, 8]
          %16 = add %15, %7 : f32[4, 8]
          %17 = div %10, %16 : f32[4, 8]
          %18 = mul %17, %6 : f32[4, 8]
          %19 = sub %0, %18 : f32[4, 8]
          return %19, %10, %14
        }",
    );
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(plan.buffers.len(), 4, "{plan}");
    assert_eq!(domain(blocks(&plan)[0]), "p 32");
    assert_eq!(blocks(&plan)[0].params.len(), 4);
}

#[test]
fn pooling_reduces_windows_of_what_it_reads() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[2, 6, 6]
          %1 = neg %0 : f32[2, 6, 6]
          %2 = unfold axis 1 size 2 step 2 dilation 1 %1 : f32[2, 3, 6, 2]
          %3 = unfold axis 2 size 2 step 2 dilation 1 %2 : f32[2, 3, 3, 2, 2]
          %4 = reduce max [3, 4] %3 : f32[2, 3, 3, 1, 1]
          %5 = reshape %4 : f32[2, 3, 3]
          return %5
        }",
    );
    assert_eq!(plan.launches.len(), 1);
}

/// Log-softmax, then the mean of what the targets pick.
#[test]
fn cross_entropy_is_two_kernels() {
    let plan = planned(
        "graph (f32) {
          %0 = input 0 : f32[6, 5]
          %1 = reduce max [1] %0 : f32[6, 1]
          %2 = expand %1 : f32[6, 5]
          %3 = sub %0, %2 : f32[6, 5]
          %4 = exp %3 : f32[6, 5]
          %5 = reduce sum [1] %4 : f32[6, 1]
          %6 = log %5 : f32[6, 1]
          %7 = expand %6 : f32[6, 5]
          %8 = sub %3, %7 : f32[6, 5]
          %9 = input 1 : i64[6]
          %10 = reshape %9 : i64[6, 1]
          %11 = gather axis 1 %8, %10 : f32[6, 1]
          %12 = reduce sum [0] %11 : f32[1, 1]
          %13 = reshape %12 : f32[]
          %14 = fill $0 : f32[]
          %15 = mul %13, %14 : f32[]
          %16 = neg %15 : f32[]
          return %16
        }",
    );
    assert_eq!(plan.launches.len(), 2);
}

#[test]
fn a_hundred_additions_are_one_kernel() {
    let mut text = String::from("graph () {\n%0 = input 0 : f32[4, 5]\n%1 = input 1 : f32[4, 5]\n");
    for id in 2..102 {
        text += &format!("%{id} = add %{}, %1 : f32[4, 5]\n", if id == 2 { 0 } else { id - 1 });
    }
    let plan = planned(&(text + "return %101 }"));
    assert_eq!(plan.launches.len(), 1);
    assert_eq!(blocks(&plan)[0].body.len(), 102);
}

/// Two operands, both computed, one of them by a contraction: everything in three kernels.
#[test]
fn concatenation_writes_each_part_where_it_goes() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 8]
          %1 = input 1 : f32[8, 2]
          %2 = contract \"mk,kn->mn\" %0, %1 : f32[4, 2]
          %3 = neg %2 : f32[4, 2]
          %4 = exp %0 : f32[4, 8]
          %5 = concat axis 1 %3, %4 : f32[4, 10]
          return %5
        }",
    );
    assert_eq!(plan.launches.len(), 2);
    assert_eq!(plan.arena_bytes, 0);
}

#[test]
fn a_value_with_readers_in_two_kernels_is_computed_in_the_first() {
    let plan = planned(
        "graph () {
          %0 = input 0 : f32[4, 6]
          %1 = exp %0 : f32[4, 6]
          %2 = reduce sum [0] %1 : f32[1, 6]
          %3 = reduce sum [1] %1 : f32[4, 1]
          return %2, %3
        }",
    );
    assert_eq!(plan.launches.len(), 2);
    let exponentials = blocks(&plan).into_iter().map(|b| count(b, |instr| matches!(instr, Instr::Unary(..))));
    assert_eq!(exponentials.sum::<usize>(), 1);
}

/// The norm of a large tensor: one pass to reduce, one to divide, not one thread for both.
#[test]
fn a_large_reduction_of_few_rows_is_not_fused_with_its_reader() {
    let graph: Graph = "graph () {
          %0 = input 0 : f32[1, 1000000]
          %1 = reduce sum [1] %0 : f32[1, 1]
          %2 = sqrt %1 : f32[1, 1]
          %3 = expand %2 : f32[1, 1000000]
          %4 = div %0, %3 : f32[1, 1000000]
          return %4
        }"
    .parse()
    .unwrap();
    let plan = plan(&graph).unwrap();
    assert_eq!(plan.launches.len(), 2);
}

#[test]
fn malformed_graphs_are_refused() {
    let mut graph: Graph =
        "graph () { %0 = input 0 : f32[4] %1 = neg %0 : f32[4] return %1 }".parse().unwrap();
    graph.nodes[1].operands[0] = burn_mlir_ir::ValueId(1);
    assert!(matches!(plan(&graph), Err(burn_mlir_ir::plan::PlanError::Malformed(_))));
}

/// Each slice is a buffer argument of its own: too many are not fused into one kernel.
#[test]
fn kernels_have_a_limited_number_of_arguments() {
    let mut text =
        String::from("graph () {\n%0 = input 0 : f32[60, 4]\n%1 = slice [0:+1:1, 0:+4:1] %0 : f32[1, 4]\n");
    for row in 1..50 {
        let id = 2 * row;
        text += &format!("%{id} = slice [{row}:+1:1, 0:+4:1] %0 : f32[1, 4]\n");
        text += &format!("%{} = add %{}, %{id} : f32[1, 4]\n", id + 1, id - 1);
    }
    let plan = planned(&(text + "return %99 }"));
    assert!((2..5).contains(&plan.launches.len()));
    assert!(blocks(&plan).iter().all(|block| block.params.len() <= 25));
}

/// Two kernels read the difference and the mask: both compute them of what is narrower.
#[test]
fn what_is_wider_than_its_source_is_not_stored() {
    let plan = planned(
        "graph () {
          %0 = input 0 : bf16[6, 40]
          %1 = cast %0 : f32[6, 40]
          %2 = reduce max [1] %1 : f32[6, 1]
          %3 = expand %2 : f32[6, 40]
          %4 = sub %1, %3 : f32[6, 40]
          %5 = exp %4 : f32[6, 40]
          %6 = reduce sum [1] %5 : f32[6, 1]
          %7 = input 1 : i32[6, 1]
          %8 = expand %7 : i32[6, 40]
          %9 = iota axis 1 : i32[6, 40]
          %10 = ne %9, %8 : bool[6, 40]
          %11 = constant 0.0 : f32[6, 40]
          %12 = select %10, %11, %4 : f32[6, 40]
          %13 = reduce sum [1] %12 : f32[6, 1]
          %14 = reduce sum [0] %13 : f32[1, 1]
          %15 = expand %6 : f32[6, 40]
          %16 = div %5, %15 : f32[6, 40]
          %17 = select %10, %16, %11 : f32[6, 40]
          %18 = cast %17 : bf16[6, 40]
          return %14, %18
        }",
    );
    for block in blocks(&plan) {
        for store in &block.stores {
            let elements = block.domain.iter().zip(&store.access.strides);
            let stored: usize =
                elements.filter(|(_, stride)| **stride != 0).map(|(dim, _)| dim.size).product();
            let narrow = block.params[store.param.0 as usize].dtype == DType::BF16;
            assert!(stored <= 6 || narrow, "{plan}");
        }
    }
}
