//! Spreading tiles over threads: each exactly once, phases apart, scratch apart.

mod common;

use std::sync::Arc;

use burn_mlir_runtime::HostKernel;
use common::*;

#[test]
fn every_tile_runs_exactly_once() {
    for threads in [1, 2, 3, 5, 8] {
        let device = device(threads);
        assert_eq!(device.threads(), threads);
        let stream = device.stream().unwrap();
        for tiles in (0..20).chain([31, 32, 33, 100, 1000, 4097, 100_000]) {
            let buffer = zeros(&stream, tiles + 1);
            let kernel = kernel("add", &[(add, tiles as u64)]);
            // Often enough for the measured cost to change the way tiles are spread.
            for _ in 0..5 {
                launch(&stream, &kernel, &buffer, &[1]);
            }
            let mut expected = vec![5; tiles];
            expected.push(0);
            assert_eq!(words(&stream, &buffer), expected, "{tiles} tiles on {threads} threads");
        }
    }
}

#[test]
fn long_tiles_run_exactly_once() {
    for threads in [2, 4] {
        let stream = device(threads).stream().unwrap();
        for tiles in [2, 3, 7, 16, 61] {
            let buffer = zeros(&stream, tiles);
            let kernel = kernel("busy", &[(busy_add, tiles as u64)]);
            for _ in 0..10 {
                launch(&stream, &kernel, &buffer, &[]);
            }
            assert_eq!(words(&stream, &buffer), vec![10; tiles]);
        }
    }
}

#[test]
fn a_phase_sees_all_of_the_one_before_and_scratch_is_private() {
    for threads in [1, 2, 4] {
        let stream = device(threads).stream().unwrap();
        for tiles in [1_u64, 2, 5, 64, 500] {
            // SAFETY: `scatter` uses a word of shared scratch per tile and 64 bytes of the worker's.
            let kernel = unsafe {
                HostKernel::new(
                    "two phases",
                    [(scatter as _, tiles), (gather as _, 3)],
                    tiles as usize * 4,
                    64,
                    Arc::new(()),
                )
            };
            for _ in 0..20 {
                let buffer = zeros(&stream, 3);
                launch(&stream, &kernel, &buffer, &[tiles]);
                let sum = (tiles * (tiles + 1) / 2) as u32;
                assert_eq!(words(&stream, &buffer), [sum; 3]);
            }
        }
    }
}

#[test]
fn work_is_shared_between_threads() {
    let (stream, tiles) = (device(4).stream().unwrap(), 400);
    let buffer = zeros(&stream, tiles);
    let kernel = kernel("who", &[(who, tiles as u64)]);
    // Helpers may come late on a loaded machine: some launch shows them. They sleep before each.
    let helped = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        launch(&stream, &kernel, &buffer, &[]);
        let mut threads = words(&stream, &buffer);
        threads.sort_unstable();
        threads.dedup();
        threads.len() > 1
    });
    assert!(helped);
}

/// Writes a number of the thread to each tile's word, slowly.
unsafe extern "C" fn who(
    buffers: *const *mut u8,
    _: *const u64,
    _: *mut u8,
    _: *mut u8,
    _: *mut u32,
    begin: i64,
    end: i64,
) {
    thread_local!(static SELF: u8 = const { 0 });
    for tile in begin..end {
        let thread = SELF.with(|own| std::ptr::from_ref(own).addr() >> 6) as u32;
        // SAFETY: one word per tile.
        unsafe { (*buffers).cast::<u32>().add(tile as usize).write(thread) };
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}
