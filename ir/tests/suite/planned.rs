//! What planning makes of well-formed graphs.

use crate::valid;
use burn_mlir_ir::plan::{BufferSource, plan};
use burn_mlir_ir::{DType, Graph, Kernel, Op};
use proptest::prelude::*;

proptest! {
    #[test]
    fn drawn_graphs_are_well_formed(graph in valid::graph()) {
        prop_assert_eq!(graph.verify(), Ok(()));
    }

    /// Every kernel is well formed, every launch fits its kernel.
    #[test]
    fn plans_are_well_formed(graph in valid::graph()) {
        check(&graph)?;
    }

    /// The same graph has the same plan: texts are keys.
    #[test]
    fn planning_is_deterministic(graph in valid::graph()) {
        prop_assert_eq!(plan(&graph), plan(&graph.clone()));
    }
}

fn is_input(graph: &Graph, wanted: u32) -> bool {
    graph.nodes.iter().any(|node| matches!(node.op, Op::Input { slot, .. } if slot == wanted))
}

/// Element types of a kernel's buffer and scalar arguments.
fn signature(kernel: &Kernel) -> (Vec<DType>, Vec<DType>) {
    let buffers = match kernel {
        Kernel::Block(block) => {
            return (block.params.iter().map(|param| param.dtype).collect(), block.scalars.clone());
        }
        Kernel::Scatter(scatter) => vec![scatter.dtype, scatter.index_dtype, scatter.dtype],
        Kernel::Sort(sort) => vec![sort.dtype, sort.index_dtype.unwrap_or(sort.dtype)],
        Kernel::Scan(scan) => vec![scan.dtype; 2],
        Kernel::Paths(paths) => vec![paths.dtype, DType::Bool, paths.dtype],
        Kernel::Attention(attention) => {
            let dtypes =
                attention.operands().iter().map(|&operand| attention.operand_dtype(operand)).collect();
            return (dtypes, attention.scalars().to_vec());
        }
    };
    (buffers, vec![])
}

fn check(graph: &Graph) -> Result<(), TestCaseError> {
    let context = |what: String| TestCaseError::fail(format!("{what}\n{graph}"));
    let plan = plan(graph).map_err(|error| context(error.to_string()))?;
    for kernel in &plan.kernels {
        kernel.verify().map_err(|error| context(format!("{error}\n{kernel}")))?;
    }
    for launch in &plan.launches {
        let kernel = plan.kernels.get(launch.kernel.0 as usize);
        let kernel = kernel.ok_or_else(|| context(format!("no kernel for {launch}")))?;
        prop_assert!(launch.arguments.iter().all(|argument| (argument.buffer as usize) < plan.buffers.len()));
        let given: Vec<_> = launch.arguments.iter().map(|argument| argument.dtype).collect();
        let scalars = launch.scalars.iter().map(|&slot| graph.scalars.get(slot as usize).copied());
        let (needed, needed_scalars) = signature(kernel);
        prop_assert_eq!(given, needed);
        prop_assert!(scalars.eq(needed_scalars.into_iter().map(Some)), "{}\n{}", launch, kernel);
    }
    prop_assert_eq!(plan.results.len(), graph.results.len());
    for (place, result) in plan.results.iter().zip(&graph.results) {
        prop_assert_eq!(&place.layout.shape, &graph.node(*result).shape);
        prop_assert!((place.buffer as usize) < plan.buffers.len());
    }
    for buffer in &plan.buffers {
        if let BufferSource::Input(slot) = buffer.source {
            prop_assert!(is_input(graph, slot));
        }
    }
    Ok(())
}

/// A value that is the same for all that is reduced, stored nevertheless for every element.
#[test]
fn a_row_value_may_be_stored_in_full() {
    let graph = "graph (f32) {
        %0 = fill $0 : f32[3]
        %1 = sin %0 : f32[3]
        %2 = argmax [0] %1 : i64[1]
        return %2, %1
    }";
    check(&Graph::parse(graph).unwrap()).unwrap();
}
