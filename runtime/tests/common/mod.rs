//! Kernels and shorthands of the tests.
#![allow(dead_code, reason = "each test file uses its part")]

use std::sync::Arc;
use std::time::Duration;

use burn_mlir_runtime::{
    Batch, Buffer, CudaConfig, CudaKernel, CudaPhase, Device, DeviceId, HostConfig, HostKernel, Kernel,
    PhaseFn, RuntimeError, Stream, cuda_device_count,
};
use parking_lot::Mutex;

/// A host device with that many threads.
pub fn device(threads: usize) -> Device {
    Device::host(HostConfig { threads: Some(threads), ..HostConfig::default() })
}

/// The CUDA devices of this machine.
pub fn cuda_devices() -> Vec<Device> {
    (0..cuda_device_count()).map(|index| Device::cuda(index, CudaConfig::default()).unwrap()).collect()
}

/// Runs a test on the host and every CUDA device.
pub fn on_each_device(test: impl Fn(&Device)) {
    for device in std::iter::once(device(2)).chain(cuda_devices()) {
        println!("on {}", device.id());
        test(&device);
    }
}

/// Runs a test on every CUDA device.
pub fn on_each_cuda_device(test: impl Fn(&Device)) {
    for device in cuda_devices() {
        println!("on {}", device.id());
        test(&device);
    }
}

/// A function for every kind of device.
#[derive(Clone, Copy)]
pub struct Function {
    host: PhaseFn,
    symbol: &'static str,
}

macro_rules! functions {
    ($($upper:ident = $lower:ident,)*) => {
        $(pub const $upper: Function = Function { host: $lower, symbol: stringify!($lower) };)*
    };
}

functions! {
    ADD = add,
    TRIPLE_ADD = triple_add,
    SLOW_TRIPLE_ADD = slow_triple_add,
    CHECK = check,
    SCATTER = scatter,
    GATHER = gather,
}

/// A kernel for a device, of functions with their numbers of tiles, which share that much scratch. On CUDA devices
/// each takes one scalar.
pub fn kernel_on(device: &Device, label: &str, phases: &[(Function, u64)], shared_bytes: usize) -> Kernel {
    match device.id() {
        DeviceId::Host => {
            let phases = phases.iter().map(|(function, tiles)| (function.host, *tiles));
            // Those that use the one scratch use the other.
            let worker_bytes = if shared_bytes > 0 { 64 } else { 0 };
            // SAFETY: the functions below follow the signature, and use at most 64 bytes of a worker's scratch.
            unsafe { HostKernel::new(label, phases, shared_bytes, worker_bytes, Arc::new(())) }.into()
        }
        _ => {
            let phases = phases.iter().map(|(function, tiles)| cuda_phase(function.symbol, *tiles as u32, 1));
            // SAFETY: the functions of the file follow the signature.
            unsafe { CudaKernel::new(label, code(device), phases, shared_bytes) }.into()
        }
    }
}

/// Machine code of `PTX` for a device, made once.
fn code(device: &Device) -> Vec<u8> {
    static KNOWN: Mutex<Vec<(DeviceId, Vec<u8>)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((_, code)) = known.iter().find(|(id, _)| *id == device.id()) {
        return code.clone();
    }
    let code = device.assemble(PTX).unwrap();
    known.push((device.id(), code.clone()));
    code
}

/// CUDA kernels: one for each function, and some that are only there.
pub const PTX: &str = include_str!("kernels.ptx");

/// That many blocks of threads of a function of a CUDA kernel.
pub fn cuda_phase(symbol: &str, blocks: u32, threads: u32) -> CudaPhase {
    let (symbol, grid, block) = (symbol.to_owned(), [blocks, 1, 1], [threads, 1, 1]);
    CudaPhase { symbol, grid, block, ..CudaPhase::default() }
}

/// A host kernel of functions that need no scratch.
pub fn kernel(label: &str, phases: &[(PhaseFn, u64)]) -> Arc<HostKernel> {
    // SAFETY: the functions below follow the signature.
    unsafe { HostKernel::new(label, phases.iter().copied(), 0, 0, Arc::new(())) }
}

/// Submits one launch on one buffer.
pub fn launch(stream: &Stream, kernel: &(impl Into<Kernel> + Clone), buffer: &Buffer, scalars: &[u64]) {
    stream.submit(batch(kernel, buffer, scalars)).unwrap();
}

/// One launch on one buffer.
pub fn batch(kernel: &(impl Into<Kernel> + Clone), buffer: &Buffer, scalars: &[u64]) -> Batch {
    let mut batch = Batch::new();
    let slot = batch.bind(buffer.clone());
    // SAFETY: tests give kernels buffers of the right size.
    unsafe { batch.launch(kernel.clone(), [(slot, 0)], scalars.iter().copied()).unwrap() };
    batch
}

/// What `count` launches of `triple_add` with scalars 0, 1, … make of zero.
pub fn tripled(count: u64) -> u32 {
    (0..count).fold(0_u32, |word, scalar| word.wrapping_mul(3).wrapping_add(scalar as u32))
}

/// The result of a stream one of whose kernels found an index out of range.
pub fn out_of_range(label: &str) -> Result<(), RuntimeError> {
    Err(RuntimeError::IndexOutOfRange { kernel: label.into() })
}

/// Runs one test of the calling file in a process of its own, with variables set.
pub fn child(test: &str, variables: &[(&str, &str)]) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .envs(variables.iter().copied())
        .spawn()
        .unwrap()
}

/// A buffer of zeros.
pub fn zeros(stream: &Stream, words: usize) -> Buffer {
    stream.upload(&vec![0; words * 4]).unwrap()
}

/// Lets a `gate` kernel on this buffer go.
pub fn open(gate: &Buffer) {
    // SAFETY: a living buffer's first word, accessed atomically everywhere.
    unsafe { std::sync::atomic::AtomicU32::from_ptr(gate.address().cast()) }
        .store(1, std::sync::atomic::Ordering::SeqCst);
}

/// Contents as 32-bit words, after all work of the stream.
pub fn words(stream: &Stream, buffer: &Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.bytes()];
    // SAFETY: tests order other streams by events.
    unsafe { stream.copy_out(buffer, 0, &mut bytes).unwrap() };
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

macro_rules! kernels {
    ($($(#[$doc:meta])* fn $name:ident($buffers:ident, $scalars:ident, $shared:ident, $worker:ident, $status:ident, $tiles:ident) $body:block)*) => {
        $($(#[$doc])*
        pub unsafe extern "C" fn $name(
            $buffers: *const *mut u8,
            $scalars: *const u64,
            $shared: *mut u8,
            $worker: *mut u8,
            $status: *mut u32,
            begin: i64,
            end: i64,
        ) {
            let _ = ($buffers, $scalars, $shared, $worker, $status);
            let $tiles = begin as usize..end as usize;
            // SAFETY: tests pass buffers, scalars and scratch as each kernel says.
            unsafe { $body }
        })*
    };
}

kernels! {
    /// Adds scalar 0 to one word per tile.
    fn add(buffers, scalars, shared, worker, status, tiles) {
        for tile in tiles {
            *(*buffers).cast::<u32>().add(tile) += *scalars as u32;
        }
    }

    /// Replaces each word by three times itself plus scalar 0, so that the order of launches shows.
    fn triple_add(buffers, scalars, shared, worker, status, tiles) {
        for tile in tiles {
            let word = (*buffers).cast::<u32>().add(tile);
            *word = (*word).wrapping_mul(3).wrapping_add(*scalars as u32);
        }
    }

    /// Like `triple_add`, after a while.
    fn slow_triple_add(buffers, scalars, shared, worker, status, tiles) {
        std::thread::sleep(Duration::from_millis(5));
        triple_add(buffers, scalars, shared, worker, status, tiles.start as i64, tiles.end as i64);
    }

    /// Adds 1 to one word per tile, and works about 20 microseconds for it.
    fn busy_add(buffers, scalars, shared, worker, status, tiles) {
        for tile in tiles {
            let start = std::time::Instant::now();
            while start.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            *(*buffers).cast::<u32>().add(tile) += 1;
        }
    }

    /// Finds an index out of range in tile scalar 0.
    fn check(buffers, scalars, shared, worker, status, tiles) {
        if tiles.contains(&(*scalars as usize)) {
            *status = 1;
        }
    }

    /// Phase 1: writes tile + 1 to the shared scratch, by way of the worker's.
    fn scatter(buffers, scalars, shared, worker, status, tiles) {
        assert!(shared.addr().is_multiple_of(64) && worker.addr().is_multiple_of(64));
        let worker = worker.cast::<u32>();
        for tile in tiles {
            worker.add(15).write(tile as u32 + 1);
            std::thread::yield_now();
            shared.cast::<u32>().add(tile).write(worker.add(15).read());
        }
    }

    /// Phase 2: sums what all tiles of phase 1 (scalar 0 of them) wrote, one word per tile.
    fn gather(buffers, scalars, shared, worker, status, tiles) {
        let all = std::slice::from_raw_parts(shared.cast::<u32>(), *scalars as usize);
        for tile in tiles {
            (*buffers).cast::<u32>().add(tile).write(all.iter().sum());
        }
    }

    /// Halves one f32 per tile.
    fn halve(buffers, scalars, shared, worker, status, tiles) {
        for tile in tiles {
            let value = (*buffers).cast::<f32>().add(tile);
            value.write_volatile(std::hint::black_box(value.read_volatile()) * std::hint::black_box(0.5));
        }
    }

    /// Waits until word 0, an atomic, is not zero.
    fn gate(buffers, scalars, shared, worker, status, tiles) {
        let word = std::sync::atomic::AtomicU32::from_ptr((*buffers).cast());
        while !tiles.is_empty() && word.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            std::thread::yield_now();
        }
    }
}
