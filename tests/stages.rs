//! What a program becomes, stage by stage: the same API that users snapshot their own models with.

use burn::prelude::*;
use burn::tensor::activation::{gelu, softmax};
use burn_mlir::inspect::{self, Inspected};
use burn_mlir::ir::{Graph, Target};
use burn_mlir::{MlirDevice, inspect::graph};

fn ones<const D: usize>(shape: [usize; D]) -> Tensor<D> {
    Tensor::ones(shape, &Device::new(MlirDevice::Cpu))
}

fn recorded<const D: usize>(compute: impl FnOnce() -> Tensor<D>) -> Graph {
    let (_result, graph) = graph(MlirDevice::Cpu, compute).expect("it records");
    graph
}

fn kernels(graph: &Graph, target: &str) -> Vec<Inspected> {
    inspect::kernels(graph, &Target::named(target).expect("a known target")).expect("it compiles")
}

fn text<'a>(kernel: &'a Inspected, stage: &str, extension: &str) -> &'a str {
    let found = kernel.stages.iter().find(|s| s.name == stage && s.extension == extension);
    &found.expect("the stage is there").text
}

/// Compares with a file in `snapshots/`.
fn snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn a_chain_is_one_kernel() {
    let x = ones([1000]);
    x.device().sync().expect("it computes");
    let graph = recorded(|| (x.clone() * 1.5 + 0.5) * x);
    snapshot("graph_of_a_chain", &graph.to_string());
    snapshot("plan_of_a_chain", &inspect::plan_text(&graph).expect("it plans"));
    let kernels = kernels(&graph, "x86-64-v4");
    assert_eq!(kernels.len(), 1);
    snapshot("linalg_of_a_chain", text(&kernels[0], "linalg", "mlir"));
    let assembly = text(&kernels[0], "", "s");
    assert!(assembly.contains("zmm") && !assembly.contains("\tcall"), "{assembly}");
}

#[test]
fn softmax_is_one_kernel_on_host_and_gpu() {
    let x = ones([64, 300]);
    x.device().sync().expect("it computes");
    let graph = recorded(|| softmax(x, 1));
    snapshot("plan_of_softmax", &inspect::plan_text(&graph).expect("it plans"));
    for target in ["x86-64-v3", "sm_90a"] {
        assert_eq!(kernels(&graph, target).len(), 1, "on {target}");
    }
}

#[test]
fn a_linear_layer_with_gelu_is_one_kernel_whose_inner_loop_is_fused_multiply_adds() {
    let (x, w, b) = (ones([256, 512]), ones([512, 1024]), ones([1, 1024]));
    x.device().sync().expect("it computes");
    let graph = recorded(|| gelu(x.matmul(w) + b));
    let kernels = kernels(&graph, "x86-64-v4");
    assert_eq!(kernels.len(), 1);
    let assembly = text(&kernels[0], "", "s");
    assert!(!assembly.contains("\tcall"), "a call in {assembly}");
    let inner = inner_loop(assembly);
    let products = inner.iter().filter(|line| line.contains("vfmadd")).count();
    // At least 8 rows by two vectors of 16 columns, each element once or more per turn.
    assert!(products >= 16, "{products} in {inner:#?}");
    let spilled = |line: &&&str| line.contains("(%rsp") && line.contains("zmm");
    assert_eq!(inner.iter().filter(spilled).count(), 0, "{inner:#?}");
}

/// The loop body with the most fused multiply-adds: the lines between a label and a jump back to it.
fn inner_loop(assembly: &str) -> Vec<&str> {
    let lines: Vec<&str> = assembly.lines().collect();
    let label = |line: &str| Some(line.strip_prefix(".L")?.split_once(':')?.0.to_string());
    let mut best: Vec<&str> = Vec::new();
    let count = |body: &[&str]| body.iter().filter(|line| line.contains("vfmadd")).count();
    for (start, line) in lines.iter().enumerate() {
        let Some(name) = label(line) else { continue };
        let after = &lines[start + 1..];
        // Up to the next label: a loop without inner control flow.
        let length = after.iter().position(|line| label(line).is_some()).unwrap_or(after.len());
        let body = &after[..length];
        let jumps = |line: &&str| line.trim_start().starts_with('j') && line.ends_with(&format!(".L{name}"));
        if let Some(end) = body.iter().position(jumps)
            && count(&body[..end]) > count(&best)
        {
            best = body[..end].to_vec();
        }
    }
    best
}

#[test]
fn every_target_named_in_the_readme_compiles_a_linear_layer() {
    let (x, w, b) = (ones([8, 16]), ones([16, 32]), ones([1, 32]));
    x.device().sync().expect("it computes");
    let graph = recorded(|| gelu(x.matmul(w) + b));
    for (target, extension) in [("x86-64-v3", "s"), ("x86-64-v4", "s"), ("sm_80", "ptx"), ("sm_90a", "ptx")] {
        let kernels = kernels(&graph, target);
        assert_eq!(kernels.len(), 1, "on {target}");
        let code = text(&kernels[0], "", extension);
        assert!(!code.contains(".extern"), "{code}");
    }
}
