//! What surrounds the threads: floating-point modes of the caller, the end of the process.

mod common;

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use burn_mlir_runtime::{Graph, Stream};
use common::*;

/// Set in a child process that shall end with work under way.
const CHILD: &str = "BURN_MLIR_TEST_CHILD";

/// Set in a child process that shall tell its number of threads.
const COUNT: &str = "BURN_MLIR_TEST_COUNT";

#[test]
fn the_process_may_end_with_work_under_way() {
    static STREAM: OnceLock<Stream> = OnceLock::new();
    if std::env::var_os(CHILD).is_some() {
        let stream = STREAM.get_or_init(|| device(3).stream().unwrap());
        let slow = kernel("slow", &[(slow_triple_add, 1), (busy_add, 1000)]);
        let buffer = zeros(stream, 1000);
        for _ in 0..100 {
            launch(stream, &slow, &buffer, &[1]);
        }
        std::process::exit(17);
    }
    for _ in 0..5 {
        let mut child = child("the_process_may_end_with_work_under_way", &[(CHILD, "1")]);
        let end = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < end, "the process hangs");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(17));
    }
}

#[test]
fn the_process_may_end_with_cuda_work_under_way() {
    static STREAM: OnceLock<(Stream, Graph)> = OnceLock::new();
    if std::env::var_os(CHILD).is_some() {
        let device = &cuda_devices()[0];
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1000);
        let graph = Graph::new(&stream, vec![batch(&slow, &buffer, &[1])]).unwrap();
        let (stream, graph) = STREAM.get_or_init(|| (stream, graph));
        for _ in 0..100 {
            launch(stream, &slow, &buffer, &[1]);
            stream.replay(graph).unwrap();
        }
        // A thread that is in the middle of a copy, and one whose stream dies with it.
        std::thread::spawn(move || words(stream, &buffer));
        let device = device.clone();
        std::thread::spawn(move || {
            let stream = device.stream().unwrap();
            let buffer = zeros(&stream, 1);
            launch(&stream, &slow, &buffer, &[1]);
        });
        std::process::exit(17);
    }
    if !cuda_devices().is_empty() {
        for _ in 0..3 {
            let status =
                child("the_process_may_end_with_cuda_work_under_way", &[(CHILD, "1")]).wait().unwrap();
            assert_eq!(status.code(), Some(17));
        }
    }
}

#[test]
fn the_variable_sets_the_number_of_threads() {
    if let Some(expected) = std::env::var_os(COUNT) {
        assert_eq!(device(2).threads().to_string(), expected.to_str().unwrap());
        return;
    }
    for (variable, expected) in [("5", "5"), (" 1 ", "1"), ("many", "2"), ("0", "2")] {
        let variables = [("BURN_MLIR_THREADS", variable), (COUNT, expected)];
        assert!(child("the_variable_sets_the_number_of_threads", &variables).wait().unwrap().success());
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn kernels_keep_subnormals_whatever_the_caller_does() {
    use std::arch::asm;

    /// Flush to zero, denormals are zero, rounding up, exceptions masked.
    const ODD: u32 = 0x8000 | 0x0040 | 0x4000 | 0x1f80;
    /// Everything but the sticky exception flags.
    const MODES: u32 = 0xffc0;

    fn modes() -> u32 {
        let mut value = 0_u32;
        // SAFETY: stores the register.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value) };
        value & MODES
    }

    fn set(value: u32) {
        // SAFETY: legal bits of the register.
        unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value) };
    }

    let before = modes();
    set(ODD);
    for threads in [1, 3] {
        // The workers of the device are started with odd modes, too.
        let device = device(threads);
        let stream = device.stream().unwrap();
        for tiles in [1_usize, 1000, 50_000] {
            let kernel = kernel("halve", &[(halve, tiles as u64)]);
            // 2^-128 is subnormal: as bits 2^21. Halved thrice it is 2^-131, as bits 2^18.
            let buffer = stream.upload(&(1_u32 << 21).to_le_bytes().repeat(tiles)).unwrap();
            stream.run(batch(&kernel, &buffer, &[])).unwrap();
            launch(&stream, &kernel, &buffer, &[]);
            launch(&stream, &kernel, &buffer, &[]);
            assert_eq!(words(&stream, &buffer), vec![1 << 18; tiles]);
            assert_eq!(modes(), ODD & MODES);
        }
    }
    set(before);
}
