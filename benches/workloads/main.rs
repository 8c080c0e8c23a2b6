//! Times named workloads and prints one JSON line each.
//!
//! `cargo bench --bench workloads -- [--only NAME ...] [--threads N]`
//!
//! - `ms`: median of the calls of one process, host work included;
//! - `first_ms`: the first call of a fresh process with an empty kernel cache;
//! - `first_ms_warm`: the same with the disk cache filled.
//!
//! Each workload therefore runs in two child processes. What it computes is checked against f64
//! arithmetic on the host after the first call.

mod check;
mod kernels;
mod training;

use burn::prelude::*;
use burn_mlir::MlirDevice;
use clap::Parser;
use std::error::Error;
use std::process::Command;
use std::time::Instant;

#[derive(Parser)]
struct Options {
    /// Only these workloads.
    #[arg(long, num_args = 1..)]
    only: Vec<String>,
    /// Host threads; the default is all.
    #[arg(long)]
    threads: Option<usize>,
    /// Only name the workloads.
    #[arg(long)]
    list: bool,
    /// One workload in this process: prints its two times.
    #[arg(long, hide = true)]
    child: Option<String>,
    /// Only its first call.
    #[arg(long, hide = true)]
    once: bool,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// One call of a workload, waiting until it is done.
type Run = Box<dyn FnMut()>;
/// Compares what the call computes with f64 arithmetic on the host.
type Check = Box<dyn FnOnce()>;
/// Makes the inputs.
type Setup = fn(&Device) -> (Run, Check);

fn workloads() -> Vec<(&'static str, Setup)> {
    [kernels::WORKLOADS, training::WORKLOADS].concat()
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    if options.list {
        workloads().iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    if let Some(name) = &options.child {
        return child(name, options.once);
    }
    for name in workloads().iter().map(|(name, _)| *name).chain([COLD_START]) {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            println!("{}", measure(name, options.threads)?);
        }
    }
    Ok(())
}

/// The start of a process to the end of its first training step: `ms` with the cache filled.
const COLD_START: &str = "cold_start_mlp";

/// Runs a workload in two fresh processes that share a kernel cache, empty at first.
fn measure(name: &str, threads: Option<usize>) -> Result<serde_json::Value, Box<dyn Error>> {
    let cache = tempfile::tempdir()?;
    let run = || -> Result<Vec<f64>, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env("BURN_MLIR_CACHE", cache.path());
        match name {
            COLD_START => command.args(["--child", "mlp_train_f32", "--once"]),
            _ => command.args(["--child", name]),
        };
        if let Some(threads) = threads {
            command.env("BURN_MLIR_THREADS", threads.to_string());
        }
        let start = Instant::now();
        let output = command.output()?;
        let whole = start.elapsed().as_secs_f64() * 1e3;
        if !output.status.success() {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
        }
        if name == COLD_START {
            return Ok(vec![whole; 2]);
        }
        let text = String::from_utf8(output.stdout)?;
        Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    };
    let (cold, warm) = (run()?, run()?);
    Ok(serde_json::json!({
        "workload": name,
        "peer": "burn-mlir",
        "device": "cpu",
        "ms": round(warm[1]),
        "first_ms": round(cold[0]),
        "first_ms_warm": round(warm[0]),
    }))
}

fn round(milliseconds: f64) -> f64 {
    (milliseconds * 1e4).round() / 1e4
}

/// Prints the first call's time and the median of the later ones.
fn child(name: &str, once: bool) -> Result<(), Box<dyn Error>> {
    let workloads = workloads();
    let (_, setup) = workloads.iter().find(|(known, _)| *known == name).ok_or("no such workload")?;
    let device = Device::new(MlirDevice::Cpu);
    device.seed(1);
    let (mut run, check) = setup(&device);
    let mut time = || {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e3
    };
    let first = time();
    if once {
        return Ok(());
    }
    check();
    let begin = Instant::now();
    (0..3).for_each(|_| {
        time();
    });
    let mut times = Vec::new();
    while times.len() < 11 || (begin.elapsed().as_secs_f64() < 1.5 && times.len() < 1000) {
        times.push(time());
    }
    times.sort_by(f64::total_cmp);
    println!("{first} {}", times[times.len() / 2]);
    Ok(())
}
