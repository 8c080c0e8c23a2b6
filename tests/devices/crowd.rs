//! Many threads that work on each other's tensors. Every tensor is a line, `scale · i + offset`, except for
//! its first element, in whole numbers that f32 holds exactly.
//!
//! `BURN_MLIR_TEST_SECONDS` says for how long.

use burn_backend::ops::FloatTensorOps;
use burn_backend::{Slice, TensorData, TensorMetadata, read_sync};
use burn_mlir::{Mlir, MlirDevice, MlirTensor};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const THREADS: usize = 8;
/// Elements of a tensor; no multiple of a vector or a block.
const SIZE: usize = 2001;
/// Tensors that all threads take from and give to.
const SHARED: usize = 24;
/// No scale grows larger, so that sums stay exact.
const LARGEST: f64 = 3.0;

/// A tensor and what it should hold.
#[derive(Clone)]
struct Line {
    tensor: MlirTensor,
    first: f64,
    scale: f64,
    offset: f64,
}

impl Line {
    fn new(device: &MlirDevice, scale: f64, offset: f64) -> Self {
        let values: Vec<f32> = (0..SIZE).map(|i| (scale * i as f64 + offset) as f32).collect();
        let tensor = Mlir::float_from_data(TensorData::new(values, [SIZE]), device);
        Self { tensor, first: offset, scale, offset }
    }

    fn map(self, tensor: MlirTensor, f: impl Fn(f64) -> f64) -> Self {
        let scale = f(self.scale + self.offset) - f(self.offset);
        Self { tensor, first: f(self.first), scale, offset: f(self.offset) }
    }

    fn add(self, value: f64) -> Self {
        let tensor = Mlir::float_add_scalar(self.tensor.clone(), value.into());
        self.map(tensor, |x| x + value)
    }

    fn negate(self) -> Self {
        let tensor = Mlir::float_neg(self.tensor.clone());
        self.map(tensor, |x| -x)
    }

    /// Their sum, on the first's device.
    fn plus(self, other: Self) -> Self {
        let there = Mlir::float_to_device(other.tensor, &self.tensor.device());
        Self {
            tensor: Mlir::float_add(self.tensor, there),
            first: self.first + other.first,
            scale: self.scale + other.scale,
            offset: self.offset + other.offset,
        }
    }

    /// The first element replaced: in place where nobody else holds the tensor.
    fn with_first(self, value: f64) -> Self {
        let device = self.tensor.device();
        let value_tensor = Mlir::float_from_data(TensorData::from([value as f32]), &device);
        let first = [Slice::new(0, Some(1), 1)];
        Self { tensor: Mlir::float_slice_assign(self.tensor, &first, value_tensor), first: value, ..self }
    }

    fn is_small(&self) -> bool {
        [self.scale, self.offset / 500.0, self.first / 500.0].iter().all(|v| v.abs() <= LARGEST)
    }

    fn check(&self) {
        let data = read_sync(Mlir::float_into_data(self.tensor.clone())).expect("it computes");
        for (i, actual) in data.iter::<f64>().enumerate() {
            let expected = if i == 0 { self.first } else { self.scale * i as f64 + self.offset };
            assert_eq!(actual, expected, "element {i}");
        }
    }

    /// Checks the sum alone, a reduction of a value that may not be materialised.
    fn check_sum(&self) {
        let sum = Mlir::float_sum(self.tensor.clone());
        let data = read_sync(Mlir::float_into_data(sum)).expect("it computes");
        let n = SIZE as f64;
        let expected = self.first + self.scale * n * (n - 1.0) / 2.0 + self.offset * (n - 1.0);
        assert_eq!(data.iter::<f64>().next(), Some(expected), "the sum");
    }
}

/// Deterministic numbers without structure.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}

/// Lets the threads work on tensors of `devices`, and checks every value they read.
pub fn run(devices: &[MlirDevice]) {
    let seconds = std::env::var("BURN_MLIR_TEST_SECONDS").ok().and_then(|text| text.parse().ok());
    let end = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(1.5));
    let shared: Vec<_> =
        (0..SHARED).map(|i| Mutex::new(Line::new(&devices[i % devices.len()], 1.0, i as f64))).collect();
    let (steps, checks) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (shared, steps, checks) = (&shared, &steps, &checks);
            scope.spawn(move || {
                let mut numbers = Numbers(0x2545_F491_4F6C_DD1D ^ (thread as u64 + 1) << 40);
                let mut own = 0;
                // On a busy machine the time may pass in the first step, while kernels are compiled.
                while own == 0 || Instant::now() < end {
                    let checked = step(devices, shared, &mut numbers) as usize;
                    own += checked;
                    checks.fetch_add(checked, Ordering::Relaxed);
                    steps.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    shared.iter().for_each(|line| lock(line).check());
    println!("{steps:?} steps, {checks:?} tensors checked on {devices:?}");
    assert!(checks.into_inner() > 0);
}

fn lock(line: &Mutex<Line>) -> std::sync::MutexGuard<'_, Line> {
    line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Takes a tensor, makes another of it, and gives that to all; whether something was checked.
fn step(devices: &[MlirDevice], shared: &[Mutex<Line>], numbers: &mut Numbers) -> bool {
    let from = &shared[numbers.below(SHARED)];
    let value = numbers.below(9) as f64 - 4.0;
    // Shared with whoever else takes it, or moved: the second may be overwritten in place.
    let line = if numbers.below(3) == 0 {
        std::mem::replace(&mut *lock(from), Line::new(&devices[numbers.below(devices.len())], 1.0, value))
    } else {
        lock(from).clone()
    };
    let line = match numbers.below(6) {
        0 => line.negate(),
        1 => line.with_first(value),
        2 => {
            let other = lock(&shared[numbers.below(SHARED)]).clone();
            line.plus(other)
        }
        3 => line.add(value).negate().add(-value).negate(),
        4 => {
            let device = devices[numbers.below(devices.len())];
            Line { tensor: Mlir::float_to_device(line.tensor.clone(), &device), ..line }
        }
        _ => line.add(value),
    };
    let line = if line.is_small() { line } else { Line::new(&line.tensor.device(), -1.0, value) };
    let checked = match numbers.below(8) {
        0 => {
            line.check();
            true
        }
        1 => {
            line.check_sum();
            true
        }
        2 => {
            <Mlir as burn_backend::Backend>::flush(&line.tensor.device()).expect("it starts");
            false
        }
        _ => false,
    };
    // Most are given on while they are only recorded, in this thread's window.
    *lock(&shared[numbers.below(SHARED)]) = line;
    checked
}
