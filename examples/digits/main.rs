//! Trains a small convolutional network on real handwritten digits and shows what came of it.
//!
//! `cargo run --release --example digits -- [--device cpu|cuda] [--epochs N] [--seed N] [--out FILE.svg]`

mod data;
mod model;
mod picture;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::prelude::*;
use burn_mlir::MlirDevice;
use data::{Batch, Digits};
use indicatif::{ProgressBar, ProgressStyle};
use model::Network;
use std::error::Error;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const BATCH: usize = 64;
const LEARNING_RATE: f64 = 2e-3;

/// Convolutional network on the UCI optical digits.
#[derive(clap::Parser)]
struct Options {
    /// Where to train.
    #[arg(long, value_enum, default_value_t = Kind::Cpu)]
    device: Kind,
    /// Passes over the training set.
    #[arg(long, default_value_t = 30)]
    epochs: usize,
    /// Seed of the initial weights and of the order of the examples.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Where the picture goes: loss curve, and the digits it got wrong.
    #[arg(long, default_value = "target/digits.svg")]
    out: PathBuf,
}

/// A kind of device.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// The host.
    Cpu,
    /// The first GPU.
    Cuda,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = <Options as clap::Parser>::parse();
    let device = Device::new(match options.device {
        Kind::Cpu => MlirDevice::Cpu,
        Kind::Cuda => MlirDevice::Cuda(0),
    });
    // Tells at once if there is no such device.
    device.sync()?;
    let training = device.clone().autodiff();
    device.seed(options.seed);

    let (train, test) = Digits::load()?.split(0.8, options.seed);
    let mut network = Network::new(&training);
    let mut optimizer = AdamConfig::new().init();
    let mut losses = Vec::new();
    let mut epochs: Vec<Duration> = Vec::new();

    let bar = ProgressBar::new((options.epochs * train.batches(BATCH)) as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} epoch {prefix}  loss {msg}  {elapsed}")?);
    for epoch in 0..options.epochs {
        let start = Instant::now();
        // Halved every ten epochs: a learning rate is a run-time argument, so nothing recompiles.
        let rate = LEARNING_RATE * 0.5f64.powi((epoch / 10) as i32);
        bar.set_prefix(format!("{}/{}", epoch + 1, options.epochs));
        for batch in train.shuffled(BATCH, options.seed + epoch as u64) {
            let Batch { images, digits } = batch.tensors(&training);
            let scores = network.forward(images);
            let loss = CrossEntropyLossConfig::new().init(&training).forward(scores, digits);
            let gradients = GradientsParams::from_grads(loss.backward(), &network);
            network = optimizer.step(rate, network, gradients);
            let loss = loss.into_scalar::<f32>();
            losses.push(loss);
            bar.set_message(format!("{loss:.4}"));
            bar.inc(1);
        }
        epochs.push(start.elapsed());
    }
    bar.finish();

    let wrong = wrong_digits(&network, &test, &device)?;
    let accuracy = 100.0 * (1.0 - wrong.len() as f64 / test.len() as f64);
    println!("test accuracy   {accuracy:.2} % ({} of {} digits)", test.len() - wrong.len(), test.len());
    report(&epochs);
    picture::draw(&options.out, &losses, &wrong)?;
    println!("picture         {}", options.out.display());
    Ok(())
}

/// The test digits that the network takes for another.
fn wrong_digits(
    network: &Network,
    test: &Digits,
    device: &Device,
) -> Result<Vec<picture::Wrong>, Box<dyn Error>> {
    let network = network.clone().valid();
    let mut wrong = Vec::new();
    for batch in test.in_order(BATCH) {
        let Batch { images, .. } = batch.tensors(device);
        let guesses: Vec<i32> = network.forward(images).argmax(1).into_data().iter::<i32>().collect();
        for (&index, guess) in batch.indices().iter().zip(guesses) {
            let (pixels, digit) = test.example(index);
            if guess != digit as i32 {
                wrong.push(picture::Wrong { pixels: *pixels, digit, guess: guess as u8 });
            }
        }
    }
    Ok(wrong)
}

/// Times and what the compiler did.
fn report(epochs: &[Duration]) {
    let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
    let mut sorted: Vec<f64> = epochs.iter().map(milliseconds).collect();
    sorted.sort_by(f64::total_cmp);
    if let (Some(first), Some(median)) = (epochs.first(), sorted.get(sorted.len().saturating_sub(1) / 2)) {
        println!("time an epoch   {median:.1} ms median, {:.1} ms the first", milliseconds(first));
    }
    let stats = burn_mlir::stats();
    println!(
        "kernels         {} compiled and {} assembled in {:.0} ms of processor time, {} from the disk cache, {} found in \
         memory",
        stats.kernels_compiled,
        stats.kernels_assembled,
        stats.compile_nanoseconds as f64 / 1e6,
        stats.kernels_from_disk,
        stats.kernels_from_memory,
    );
}
