//! Prints every stage of a fused `gelu(x·W + b)`: recorded graph, plan, kernel, linalg, scheduled
//! MLIR, LLVM dialect, LLVM IR, and machine code, for this processor and for an NVIDIA GPU that need
//! not be there.
//!
//! `cargo run --example inspect -- [TARGET ...]`, such as `host`, `x86-64-v3`, `sm_90a`

use burn::prelude::*;
use burn::tensor::activation::gelu;
use burn_mlir::MlirDevice;
use burn_mlir::inspect::{self, Stage};
use burn_mlir::ir::Target;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let mut targets: Vec<String> = std::env::args().skip(1).collect();
    if targets.is_empty() {
        targets = vec!["host".into(), "sm_90a".into()];
    }
    let device = Device::new(MlirDevice::Cpu);
    let (x, w) = (Tensor::<2>::ones([64, 128], &device), Tensor::<2>::ones([128, 256], &device));
    let b = Tensor::<2>::ones([1, 256], &device);
    device.sync()?;
    let (_y, graph) = inspect::graph(MlirDevice::Cpu, || gelu(x.matmul(w) + b))?;
    heading("recorded graph", &graph.to_string());
    heading("plan", &inspect::plan_text(&graph)?);
    for name in targets {
        let target = if name == "host" { Some(inspect::host()) } else { Target::named(&name) };
        let target =
            target.ok_or_else(|| format!("there is no target `{name}`: try host, x86-64-v3, sm_80"))?;
        for kernel in inspect::kernels(&graph, &target)? {
            heading(&format!("{name}: {}", kernel.label), &kernel.kernel);
            for stage in &kernel.stages {
                heading(&format!("{name}: {}", title(stage)), &stage.text);
            }
        }
    }
    Ok(())
}

/// What a reader calls a stage.
fn title(stage: &Stage) -> &str {
    match stage.extension {
        "ll" => "LLVM IR",
        "s" => "assembly",
        "ptx" => "PTX",
        _ => &stage.name,
    }
}

fn heading(title: &str, text: &str) {
    println!("──── {title} ────\n{text}\n");
}
