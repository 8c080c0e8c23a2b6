//! The pool: no overlap, alignment, reuse, bounds, errors.

mod common;

use burn_mlir_runtime::{ALIGNMENT, Buffer, Device, HostConfig, RuntimeError};
use proptest::prelude::*;

fn limited(limit: usize, cached: usize) -> Device {
    Device::host(HostConfig { threads: Some(1), memory_limit: Some(limit), memory_cached: Some(cached) })
}

/// Writes a pattern of its own into every buffer.
fn fill(buffer: &Buffer, pattern: u8) {
    // SAFETY: the buffer is this test's.
    unsafe { buffer.address().write_bytes(pattern, buffer.bytes()) };
}

fn holds(buffer: &Buffer, pattern: u8) -> bool {
    // SAFETY: as above, and `fill` wrote it.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.address(), buffer.bytes()) };
    bytes.iter().all(|byte| *byte == pattern)
}

/// A size of any magnitude up to 5 MiB, so beyond a huge page.
fn size() -> impl Strategy<Value = usize> {
    (0_u32..23, 0.0_f64..1.25).prop_map(|(log2, factor)| ((1_usize << log2) as f64 * factor) as usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn living_buffers_never_overlap(steps in prop::collection::vec((size(), any::<prop::sample::Index>(), any::<bool>()), 1..60)) {
        let device = limited(1 << 30, 8 << 20);
        let mut living: Vec<(Buffer, u8)> = Vec::new();
        for (number, (bytes, index, free)) in steps.into_iter().enumerate() {
            if free && !living.is_empty() {
                let (buffer, pattern) = living.swap_remove(index.index(living.len()));
                prop_assert!(holds(&buffer, pattern));
            } else {
                let buffer = device.allocate(bytes).unwrap();
                prop_assert_eq!(buffer.bytes(), bytes);
                prop_assert!(buffer.address().addr().is_multiple_of(ALIGNMENT));
                fill(&buffer, number as u8);
                living.push((buffer, number as u8));
            }
            let usage = device.memory_usage();
            let wanted: usize = living.iter().map(|(buffer, _)| buffer.bytes()).sum();
            prop_assert!(wanted <= usage.in_use && usage.in_use <= usage.reserved && usage.in_use <= usage.peak);
        }
        for (buffer, pattern) in &living {
            prop_assert!(holds(buffer, *pattern));
        }
        living.clear();
        prop_assert_eq!(device.memory_usage().in_use, 0);
        device.memory_cleanup();
        prop_assert_eq!(device.memory_usage().reserved, 0);
    }
}

#[test]
fn a_freed_block_is_used_again() {
    let device = limited(1 << 30, 1 << 30);
    for bytes in [1, 100, 5000, 3 << 20] {
        let address = device.allocate(bytes).unwrap().address();
        assert_eq!(device.allocate(bytes).unwrap().address(), address);
    }
}

#[test]
fn clones_share_the_memory_and_the_last_one_frees_it() {
    let device = limited(1 << 30, 1 << 30);
    let buffer = device.allocate(1000).unwrap();
    let clone = buffer.clone();
    assert!(buffer.is_same(&clone) && buffer.address() == clone.address());
    drop(buffer);
    assert_eq!(device.memory_usage().in_use, 1024);
    drop(clone);
    assert_eq!(device.memory_usage().in_use, 0);
}

#[test]
fn large_free_blocks_beyond_the_bound_go_back_to_the_system() {
    let device = limited(1 << 30, 4 << 20);
    let buffers: Vec<_> = (0..4).map(|_| device.allocate(4 << 20).unwrap()).collect();
    assert_eq!(device.memory_usage().reserved, 16 << 20);
    drop(buffers);
    let usage = device.memory_usage();
    assert_eq!((usage.in_use, usage.reserved, usage.peak), (0, 4 << 20, 16 << 20));
}

#[test]
fn absurd_sizes_and_the_limit_are_errors() {
    let device = limited(1 << 20, 1 << 20);
    for requested in [usize::MAX, isize::MAX as usize, 1 << 50, 1 << 40, (1 << 20) + 1] {
        let error = device.allocate(requested).unwrap_err();
        assert!(
            matches!(error, RuntimeError::OutOfMemory { requested: told, limit: 0x10_0000, .. } if told == requested)
        );
    }
    let unlimited = limited(usize::MAX, 0);
    for requested in [usize::MAX, 1 << 47] {
        assert!(matches!(unlimited.allocate(requested), Err(RuntimeError::OutOfMemory { .. })));
    }
    device.allocate(1 << 20).unwrap();
}

#[test]
fn cached_blocks_make_room_for_other_sizes() {
    let device = limited(1 << 20, 1 << 20);
    drop((0..8).map(|_| device.allocate(128 << 10).unwrap()).collect::<Vec<_>>());
    assert_eq!(device.memory_usage().reserved, 1 << 20);
    let large = device.allocate(1 << 20).unwrap();
    assert!(device.allocate(64).is_err());
    drop(large);
    device.allocate(64).unwrap();
}

#[test]
fn a_buffer_outlives_its_device() {
    let buffer = limited(1 << 20, 0).allocate(100_000).unwrap();
    fill(&buffer, 7);
    assert!(holds(&buffer, 7));
}

#[test]
fn many_threads_share_a_pool() {
    let device = limited(1 << 30, 1 << 20);
    std::thread::scope(|scope| {
        for thread in 0..8_u8 {
            let device = &device;
            scope.spawn(move || {
                let mut kept = Vec::new();
                for step in 0..2000_usize {
                    let buffer = device.allocate((step * 7919) % 10_000).unwrap();
                    fill(&buffer, thread);
                    kept.push(buffer);
                    if kept.len() > 20 {
                        assert!(holds(&kept.swap_remove(step % 20), thread));
                    }
                }
            });
        }
    });
    assert_eq!(device.memory_usage().in_use, 0);
}
