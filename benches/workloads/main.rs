//! Times named workloads and prints one JSON line each.
//!
//! `cargo bench --bench workloads -- [--device cpu|cuda] [--only NAME ...] [--threads N]`
//!
//! With `--profile peers --features peers`, `--peer flex` runs the same work on burn-flex.
//!
//! - `ms`: median of the calls of one process, from the host's start to the result, or to the end of a wait for it;
//! - `queued_ms`: time of one of many calls that are started one behind the other and waited for together: the
//!   device's own time where it is the slower; left out for calls that wait by themselves;
//! - `first_ms`: the first call of a fresh process with an empty kernel cache;
//! - `first_ms_warm`: the same with the disk cache filled.
//!
//! Each workload therefore runs in two child processes. What it computes is checked against f64
//! arithmetic on the host after the first call. Inputs are the same at every call.

mod check;
mod gpt2;
mod kernels;
mod lists;
mod order;
mod replay;
mod training;

use burn::prelude::*;
use burn_mlir::MlirDevice;
use clap::Parser;
use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

#[derive(Parser)]
struct Options {
    /// Where to run.
    #[arg(long, value_enum, default_value_t = Kind::Cpu)]
    device: Kind,
    /// On which backend.
    #[arg(long, value_enum, default_value_t = Peer::Mlir)]
    peer: Peer,
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
    /// At most so many calls, in at most 1.5 s: more of them for a profiler.
    #[arg(long, hide = true, default_value_t = 1000)]
    calls: usize,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

/// A kind of device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    /// The host.
    Cpu,
    /// The first GPU.
    Cuda,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }

    fn workloads(self) -> &'static [(&'static str, Setup)] {
        match self {
            Self::Cpu => lists::CPU,
            Self::Cuda => lists::CUDA,
        }
    }
}

/// A backend to run the workloads on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Peer {
    /// This one.
    Mlir,
    /// burn-flex, on the host.
    #[cfg(feature = "peers")]
    Flex,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Mlir => "burn-mlir",
            #[cfg(feature = "peers")]
            Self::Flex => "burn-flex",
        }
    }

    /// What selects it on the command line.
    fn option(self) -> &'static str {
        match self {
            Self::Mlir => "mlir",
            #[cfg(feature = "peers")]
            Self::Flex => "flex",
        }
    }

    fn device(self, kind: Kind) -> Device {
        match (self, kind) {
            (Self::Mlir, Kind::Cpu) => Device::new(MlirDevice::Cpu),
            (Self::Mlir, Kind::Cuda) => Device::new(MlirDevice::Cuda(0)),
            #[cfg(feature = "peers")]
            (Self::Flex, _) => Device::new(burn_flex::FlexDevice),
        }
    }
}

/// Makes the inputs.
type Setup = fn(&Device) -> Work;

/// A workload with its inputs.
struct Work {
    /// Starts one call.
    start: Box<dyn FnMut()>,
    /// Where to wait for the calls that were started; nowhere if they wait by themselves.
    wait: Option<Device>,
    /// Compares what a call computes with f64 arithmetic on the host.
    check: Box<dyn FnOnce()>,
}

impl Work {
    /// Calls of `compute`, whose result must be there until its computation has started.
    fn new<R>(
        device: &Device,
        mut compute: impl FnMut() -> R + 'static,
        check: impl FnOnce() + 'static,
    ) -> Self {
        let wait = Some(device.clone());
        let device = device.clone();
        let start = move || {
            let result = compute();
            if let Err(error) = device.flush() {
                panic!("{error}");
            }
            drop(result);
        };
        Self { start: Box::new(start), wait, check: Box::new(check) }
    }

    /// Calls that wait for their results.
    fn waiting(start: impl FnMut() + 'static, check: impl FnOnce() + 'static) -> Self {
        Self { start: Box::new(start), wait: None, check: Box::new(check) }
    }

    fn wait(&self) {
        self.wait.as_ref().into_iter().for_each(kernels::done);
    }

    /// Milliseconds of `calls` calls that are started one behind the other.
    fn time(&mut self, calls: usize) -> f64 {
        let start = Instant::now();
        (0..calls).for_each(|_| (self.start)());
        self.wait();
        start.elapsed().as_secs_f64() * 1e3
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    let workloads = options.device.workloads();
    if let Some(name) = &options.child {
        return child(name, &options);
    }
    let cold_starts = COLD_STARTS.iter().filter(|start| workloads.iter().any(|(name, _)| *name == start.1));
    let names: Vec<&str> =
        workloads.iter().map(|(name, _)| *name).chain(cold_starts.map(|start| start.0)).collect();
    if options.list {
        names.iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    if let Some(unknown) = options.only.iter().find(|only| !names.contains(&only.as_str())) {
        return Err(format!("there is no workload `{unknown}`; --list names them").into());
    }
    for name in names {
        if options.only.is_empty() || options.only.iter().any(|only| only == name) {
            println!("{}", measure(name, &options)?);
        }
    }
    Ok(())
}

/// The start of a process to the end of its first step of training: `ms` with the cache filled.
const COLD_STARTS: [(&str, &str); 2] =
    [("cold_start_mlp", "mlp_train_f32"), ("cold_start_gpt2", "gpt2_small_train_bf16")];

/// Runs a workload in two fresh processes that share a kernel cache, empty at first.
fn measure(name: &str, options: &Options) -> Result<serde_json::Value, Box<dyn Error>> {
    let cache = tempfile::tempdir()?;
    let run = || match COLD_STARTS.iter().find(|start| start.0 == name) {
        Some((_, workload)) => {
            let start = Instant::now();
            run_child(workload, options, cache.path(), &["--once"])?;
            Ok(Times { first: start.elapsed().as_secs_f64() * 1e3, later: None })
        }
        None => Times::parse(&run_child(name, options, cache.path(), &[])?),
    };
    let (cold, warm) = (run()?, run()?);
    let mut line = serde_json::json!({
        "workload": name,
        "peer": options.peer.name(),
        "device": options.device.name(),
        "ms": round(warm.later.map_or(warm.first, |later| later.0)),
        "first_ms": round(cold.first),
        "first_ms_warm": round(warm.first),
    });
    if let Some((_, Some(queued))) = warm.later {
        line["queued_ms"] = round(queued).into();
    }
    Ok(line)
}

/// What a child process measured, in milliseconds.
struct Times {
    first: f64,
    /// The median of later calls, and the time of one of many calls if they do not wait.
    later: Option<(f64, Option<f64>)>,
}

impl Times {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        match numbers[..] {
            [first, median] => Ok(Self { first, later: Some((median, None)) }),
            [first, median, queued] => Ok(Self { first, later: Some((median, Some(queued))) }),
            _ => Err(format!("the child printed `{text}`").into()),
        }
    }
}

/// The output of a fresh process that runs a workload.
fn run_child(name: &str, options: &Options, cache: &Path, more: &[&str]) -> Result<String, Box<dyn Error>> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env("BURN_MLIR_CACHE", cache);
    command.args(["--device", options.device.name(), "--peer", options.peer.option(), "--child", name]);
    command.args(more);
    if let Some(threads) = options.threads {
        command.env("BURN_MLIR_THREADS", threads.to_string());
        command.env("RAYON_NUM_THREADS", threads.to_string());
    }
    let output = command.output()?;
    if !output.status.success() {
        return Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn round(milliseconds: f64) -> f64 {
    (milliseconds * 1e5).round() / 1e5
}

/// Prints the first call's time and the median of the later ones.
fn child(name: &str, options: &Options) -> Result<(), Box<dyn Error>> {
    let kind = options.device;
    let (_, setup) = kind.workloads().iter().find(|(known, _)| *known == name).ok_or("no such workload")?;
    let device = options.peer.device(kind);
    device.seed(1);
    let mut work = setup(&device);
    let first = work.time(1);
    if options.once {
        return Ok(());
    }
    std::mem::replace(&mut work.check, Box::new(|| {}))();
    let begin = Instant::now();
    work.time(3);
    let mut times = Vec::new();
    // As many calls as the other frameworks are given: a GPU that works for seconds slows down to keep its power.
    while times.len() < 11
        || kind == Kind::Cpu && begin.elapsed().as_secs_f64() < 1.5 && times.len() < options.calls
    {
        times.push(work.time(1));
    }
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    print!("{first} {median}");
    if work.wait.is_some() {
        // About a fifth of a second.
        let calls = (200.0 / median).clamp(3.0, 1000.0) as usize;
        print!(" {}", work.time(calls) / calls as f64);
    }
    println!();
    Ok(())
}
