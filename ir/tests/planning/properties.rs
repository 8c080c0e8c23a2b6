//! Random graphs: executing the plan gives what the graph says.

use crate::random::{Case, case};
use crate::{graph_interpreter, plan_interpreter};
use burn_mlir_ir::{
    Op,
    plan::{Plan, plan},
};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Executes graph and plan and compares all results.
pub fn check(case: &Case) {
    let plan = plan(&case.graph).unwrap_or_else(|error| panic!("{error}\n{}", case.graph));
    check_plan(case, &plan);
}

/// The same with a given plan.
pub fn check_plan(case: &Case, plan: &Plan) {
    let Case { graph, inputs, scalars } = case;
    let values = graph_interpreter::run(graph, inputs, scalars);
    let mut bound: Vec<_> = inputs.iter().map(|tensor| (tensor, None)).collect();
    let mut donated = vec![false; inputs.len()];
    for node in &graph.nodes {
        if let Op::Input { slot, layout, donated: given, .. } = &node.op {
            let tensor = &inputs[*slot as usize];
            bound[*slot as usize].1 = Some(plan_interpreter::bind(tensor, layout, node.dtype, 3));
            donated[*slot as usize] = *given;
        }
    }
    let bound: Vec<_> = bound.into_iter().map(|(_, bound)| bound.expect("every slot is an input")).collect();
    let (results, memory) = plan_interpreter::run(plan, graph, &bound, scalars);
    for (id, result) in graph.results.iter().zip(&results) {
        assert_eq!(result, &values[id.index()], "result %{} of\n{graph}\n{plan}", id.0);
    }
    for (slot, memory) in memory.iter().enumerate() {
        assert!(
            donated[slot] || *memory == bound[slot].bytes,
            "input {slot} was overwritten\n{graph}\n{plan}"
        );
    }
}

/// The same two thousand graphs every time, so that a change is judged by itself; or as many new ones as
/// `PROPTEST_CASES` says.
fn config() -> ProptestConfig {
    let given = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    if given {
        ProptestConfig { failure_persistence: None, ..default }
    } else {
        ProptestConfig { cases: 2000, failure_persistence: None, rng_seed: RngSeed::Fixed(2000), ..default }
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_plan_computes_its_graph(numbers in proptest::collection::vec(any::<u32>(), 20..140)) {
        check(&case(&numbers, 4));
    }

    #[test]
    fn a_plan_computes_a_large_graph_with_many_results(
        numbers in proptest::collection::vec(any::<u32>(), 200..500),
    ) {
        check(&case(&numbers, 16));
    }
}
