//! Costs of the runtime itself, with a kernel that does next to nothing.

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use burn_mlir_runtime::{
    Batch, Buffer, CudaConfig, CudaKernel, CudaPhase, Device, Graph, HostConfig, HostKernel, Kernel,
    cuda_device_count,
};

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
    println!("the host");
    host();
    for index in 0..cuda_device_count() {
        let device = Device::cuda(index, CudaConfig::default()).unwrap();
        println!("CUDA device {index}: {:?}", device.cuda_properties());
        cuda(&device);
    }
}

fn host() {
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
        println!("{what:32} {:>9} ns (median)", times[100]);
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

/// Does nothing, with four buffers and two scalars.
const NOTHING: &str = "
.version 8.0
.target sm_70
.address_size 64
.visible .entry nothing(
    .param .u64 b0, .param .u64 b1, .param .u64 b2, .param .u64 b3, .param .u64 s0, .param .u64 s1,
    .param .u64 scratch, .param .u64 status, .param .u64 counters)
{
    ret;
}
";

fn cuda(device: &Device) {
    const LAUNCHES: usize = 1000;
    let stream = device.stream().unwrap();
    let buffer = stream.allocate(64).unwrap();
    let phase =
        CudaPhase { symbol: "nothing".to_owned(), grid: [1; 3], block: [32, 1, 1], ..CudaPhase::default() };
    // SAFETY: `nothing` has this signature and touches nothing.
    let kernel: Kernel = unsafe { CudaKernel::new("nothing", NOTHING, [phase], 0) }.into();
    let submit = || stream.submit(batch(&kernel, &buffer, 1)).unwrap();
    submit();
    stream.synchronize().unwrap();

    report("allocate and free 4 KiB", 100_000, || drop(black_box(stream.allocate(4096).unwrap())));
    report("allocate and free 8 MiB", 100_000, || drop(black_box(stream.allocate(8 << 20).unwrap())));
    let mut kept: Vec<_> =
        (0..8000_usize).map(|i| stream.allocate(1 + (i * 7919) % 100_000).unwrap()).collect();
    let mut odd = false;
    kept.retain(|_| {
        odd = !odd;
        odd
    });
    report("allocate and free among 4000", 100_000, || {
        drop(black_box(stream.allocate(50_000).unwrap()));
    });
    drop(kept);
    report("submit, up to 100 ahead", 10_000, || {
        (0..100).for_each(|_| submit());
        stream.synchronize().unwrap();
    });
    report("run one launch", 10_000, || stream.run(batch(&kernel, &buffer, 1)).unwrap());
    report("run 1000 launches", 500, || stream.run(batch(&kernel, &buffer, LAUNCHES)).unwrap());
    report("record and wait", 10_000, || stream.record().wait());
    let other = device.stream().unwrap();
    report("submit, record, wait elsewhere", 10_000, || {
        submit();
        other.wait(&stream.record());
    });
    stream.synchronize().unwrap();
    let graph = Graph::new(&stream, vec![batch(&kernel, &buffer, LAUNCHES)]).unwrap();
    report("replay a graph of 1000 launches", 500, || {
        stream.replay(&graph).unwrap();
        stream.synchronize().unwrap();
    });
    let graph = Graph::new(&stream, vec![batch(&kernel, &buffer, 10)]).unwrap();
    report("replay a graph of 10 launches", 5_000, || stream.replay(&graph).unwrap());
    stream.synchronize().unwrap();
    for bytes in [4, 4 << 10, 1 << 20, 256 << 20] {
        let times = if bytes > 1 << 20 { 20 } else { 2_000 };
        let mut data = vec![1; bytes];
        report(&format!("upload {bytes} bytes and wait"), times, || {
            drop(stream.upload(&data).unwrap());
            stream.synchronize().unwrap();
        });
        let buffer = stream.upload(&data).unwrap();
        // SAFETY: only this stream uses the buffer.
        report(&format!("copy {bytes} bytes out"), times, || unsafe {
            stream.copy_out(&buffer, 0, &mut data).unwrap();
        });
    }
}

fn batch(kernel: &(impl Into<Kernel> + Clone), buffer: &Buffer, launches: usize) -> Batch {
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
    println!("{what:32} {least:>9} ns");
}
