//! Costs of the runtime itself, with a kernel that does next to nothing.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn_mlir_runtime::{Batch, Buffer, Device, HostConfig, HostKernel};

/// Does nothing.
unsafe extern "C" fn nothing(
    buffers: *const *mut u8,
    _: *const u64,
    _: *mut u8,
    _: *mut u8,
    _: *mut u32,
    _: i64,
    _: i64,
) {
    black_box(buffers);
}

fn main() {
    let device = Device::host(HostConfig::default());
    let stream = device.stream().unwrap();
    let buffer = device.allocate(64).unwrap();
    // SAFETY: `nothing` touches nothing.
    let tiles = |count| unsafe { HostKernel::new("nothing", [(nothing as _, count)], 0, 0, Arc::new(())) };
    let (one, eight) = (tiles(1), tiles(8));

    report("allocate and free 4 KiB", 100_000, || drop(black_box(device.allocate(4096).unwrap())));
    report("allocate and free 8 MiB", 100_000, || drop(black_box(device.allocate(8 << 20).unwrap())));
    report("run one launch", 50_000, || stream.run(batch(&one, &buffer, 1)).unwrap());
    report("run one launch of 8 tiles", 50_000, || stream.run(batch(&eight, &buffer, 1)).unwrap());
    report("submit and synchronize", 50_000, || {
        stream.submit(batch(&one, &buffer, 1)).unwrap();
        stream.synchronize().unwrap();
    });
    report("submit", 1_000_000, || stream.submit(batch(&one, &buffer, 1)).unwrap());
    stream.synchronize().unwrap();
    // Long enough for the stream's worker to fall asleep.
    let pause = || std::thread::sleep(Duration::from_micros(300));
    let rested = |what: &str, call: &dyn Fn()| {
        let mut times = [(); 200].map(|()| {
            pause();
            let start = Instant::now();
            call();
            start.elapsed().as_nanos()
        });
        times.sort_unstable();
        println!("{what:32} {:>8} ns (median)", times[100]);
    };
    rested("submit, rested", &|| stream.submit(batch(&one, &buffer, 1)).unwrap());
    rested("submit and synchronize, rested", &|| {
        stream.submit(batch(&one, &buffer, 1)).unwrap();
        stream.synchronize().unwrap();
    });
    rested("run, rested", &|| stream.run(batch(&one, &buffer, 1)).unwrap());
    report("run 1000 launches", 500, || stream.run(batch(&one, &buffer, 1000)).unwrap());
    report("run 1000 launches of 8 tiles", 500, || stream.run(batch(&eight, &buffer, 1000)).unwrap());
}

fn batch(kernel: &Arc<HostKernel>, buffer: &Buffer, launches: usize) -> Batch {
    let mut batch = Batch::with_capacity(1, launches, 4 * launches);
    let slot = batch.bind(buffer.clone());
    for _ in 0..launches {
        // SAFETY: the kernel touches nothing.
        unsafe { batch.launch(kernel.clone(), [(slot, 0); 4], [1, 2]).unwrap() };
    }
    batch
}

/// Prints the least mean of ten series: the machine may be busy.
fn report(what: &str, times: u32, mut call: impl FnMut()) {
    let series = |_| {
        let start = Instant::now();
        (0..times / 10).for_each(|_| call());
        start.elapsed().as_nanos() / u128::from(times / 10)
    };
    let least = (0..10).map(series).min().unwrap_or_default();
    println!("{what:32} {least:>8} ns");
}
