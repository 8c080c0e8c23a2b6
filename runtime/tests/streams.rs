//! Streams: order, errors, run-ahead, life and death.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use burn_mlir_runtime::{Batch, Buffer, CopyOut, Device, HostConfig, Launch, RuntimeError, Stream};
use common::*;
use smallvec::smallvec;

#[test]
fn work_runs_in_order() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let kernel = kernel_on(device, "triple", &[(TRIPLE_ADD, 7)], 0);
        let buffer = zeros(&stream, 7);
        for scalar in 0..3000 {
            launch(&stream, &kernel, &buffer, &[scalar]);
        }
        assert_eq!(words(&stream, &buffer), [tripled(3000); 7]);
    });
}

#[test]
fn a_batch_runs_its_launches_in_order_on_its_slots() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 2)], 0);
        let add = kernel_on(device, "add", &[(ADD, 1)], 0);
        let (first, second) = (zeros(&stream, 4), zeros(&stream, 2));
        let mut batch = Batch::with_capacity(2, 4, 4);
        let slots = [batch.bind(first.clone()), batch.bind(second.clone())];
        // SAFETY: offsets and tiles stay within the buffers.
        unsafe {
            batch.launch(triple.clone(), [(slots[0], 8)], [5]).unwrap();
            batch.launch(triple.clone(), [(slots[0], 8)], [1]).unwrap();
            batch.launch(add, [(slots[0], 12)], [100]).unwrap();
            batch.launch(triple, [(slots[1], 0)], [9]).unwrap();
        }
        assert_eq!((batch.len(), batch.is_empty()), (4, false));
        stream.submit(batch).unwrap();
        assert_eq!(words(&stream, &first), [0, 0, 16, 116]);
        assert_eq!(words(&stream, &second), [9, 9]);
    });
}

#[test]
fn phases_share_scratch_that_grows() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        for tiles in [1_u64, 100, 7, 20_000, 3] {
            let phases = [(SCATTER, tiles), (GATHER, 2)];
            let kernel = kernel_on(device, "two phases", &phases, tiles as usize * 4);
            let buffer = zeros(&stream, 2);
            launch(&stream, &kernel, &buffer, &[tiles]);
            assert_eq!(words(&stream, &buffer), [(tiles * (tiles + 1) / 2) as u32; 2]);
        }
    });
}

#[test]
fn a_call_may_queue_any_amount_of_work_on_its_stream() {
    on_each_device(|device| {
        let stream = Arc::new(device.stream().unwrap());
        let (buffer, add) = (zeros(&stream, 1), kernel_on(device, "add", &[(ADD, 1)], 0));
        let (inner, words_of) = (stream.clone(), buffer.clone());
        let (send, receive) = std::sync::mpsc::channel();
        stream.call(move || {
            (0..3000).for_each(|_| launch(&inner, &add, &words_of, &[1]));
            send.send(()).unwrap();
        });
        receive.recv().unwrap();
        assert_eq!(words(&stream, &buffer), [3000]);
    });
}

#[test]
fn calls_run_in_the_order_of_the_stream() {
    on_each_device(|device| {
        let stream = Arc::new(device.stream().unwrap());
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
        let (buffer, reached) = (zeros(&stream, 1), Arc::new(AtomicU32::new(0)));
        for round in 0..6 {
            launch(&stream, &slow, &buffer, &[2 * u64::from(round)]);
            let event = stream.record();
            let (inner, kernel, target) = (stream.clone(), triple.clone(), buffer.clone());
            let reached = reached.clone();
            stream.call(move || {
                event.wait();
                assert_eq!(reached.fetch_add(1, Ordering::SeqCst), round);
                if round == 5 {
                    launch(&inner, &kernel, &target, &[11]);
                }
            });
            if round < 5 {
                launch(&stream, &triple, &buffer, &[2 * u64::from(round) + 1]);
            }
        }
        stream.synchronize().unwrap();
        assert_eq!(reached.load(Ordering::SeqCst), 6);
        assert_eq!(words(&stream, &buffer), [tripled(12)]);
    });
}

#[test]
fn submitting_runs_ahead_but_not_without_bound() {
    let stream = device(1).stream().unwrap();
    let (gate_kernel, add) = (kernel("gate", &[(gate, 1)]), kernel("add", &[(add, 1)]));
    let (gate, buffer) = (zeros(&stream, 1), zeros(&stream, 1));
    launch(&stream, &gate_kernel, &gate, &[]);
    for _ in 0..60 {
        launch(&stream, &add, &buffer, &[1]);
    }
    let event = stream.record();
    assert!(!event.is_done());
    let submitted = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..1000 {
                launch(&stream, &add, &buffer, &[1]);
                submitted.fetch_add(1, Ordering::SeqCst);
            }
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!((1..256).contains(&submitted.load(Ordering::SeqCst)));
        open(&gate);
    });
    assert_eq!(words(&stream, &buffer), [1060]);
    assert!(event.is_done());
}

#[test]
fn queued_work_keeps_its_buffers() {
    let device = device(1);
    let stream = device.stream().unwrap();
    let gate_kernel = kernel("gate", &[(gate, 1)]);
    let gate = zeros(&stream, 1);
    launch(&stream, &gate_kernel, &gate, &[]);
    let buffer = zeros(&stream, 1000);
    launch(&stream, &kernel("add", &[(add, 1000)]), &buffer, &[1]);
    let held = device.memory_usage().in_use;
    drop(buffer);
    assert_eq!(device.memory_usage().in_use, held);
    open(&gate);
    stream.synchronize().unwrap();
    assert!(device.memory_usage().in_use < held);
}

#[test]
fn copies_are_ordered_and_checked() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let (from, to) = (stream.upload(&[1, 2, 3, 4, 5, 6, 7, 8]).unwrap(), zeros(&stream, 2));
        let mut bytes = [0; 8];
        // SAFETY: only this stream uses the buffers.
        unsafe {
            stream.copy_in(&from, 6, vec![70, 80]).unwrap();
            stream.copy((&from, 1), (&to, 0), 7).unwrap();
            stream.copy((&to, 0), (&to, 2), 4).unwrap();
            stream.copy_out(&to, 0, &mut bytes).unwrap();
            assert_eq!(bytes, [2, 3, 2, 3, 4, 5, 80, 0]);
            let error = RuntimeError::OutOfBounds { offset: 7, bytes: 2, size: 8 };
            assert_eq!(stream.copy_in(&to, 7, [0; 2]), Err(error.clone()));
            assert_eq!(stream.copy((&from, 0), (&to, 7), 2), Err(error.clone()));
            assert_eq!(stream.copy_out(&to, 7, &mut [0; 2]), Err(error));
            assert!(stream.copy((&from, usize::MAX), (&to, 0), 2).is_err());
        }
    });
}

/// Through pinned memory: small ranges share a block of it, long ones are cut at the ends of blocks.
#[test]
fn many_ranges_are_copied_out_with_one_wait() {
    const SIZES: [usize; 6] = [5, 0, 9 << 20, 64, 1, 3 << 20];
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        for sizes in [&SIZES[..2], &SIZES[3..5], &SIZES[..], &[]] {
            let sources: Vec<_> = sizes.iter().map(|&bytes| pattern(bytes, bytes + 7)).collect();
            let buffers: Vec<_> = sources.iter().map(|source| stream.upload(source).unwrap()).collect();
            let mut copied: Vec<_> = sizes.iter().map(|&bytes| vec![0; bytes]).collect();
            let ranges = buffers.iter().zip(&mut copied);
            let ranges = ranges.map(|(from, to)| CopyOut { from, offset: 7, to });
            // SAFETY: only this stream uses the buffers.
            unsafe { stream.copy_out_all(ranges).unwrap() };
            for (source, copied) in sources.iter().zip(&copied) {
                assert!(source[7..] == copied[..], "{} bytes", copied.len());
            }
        }
        let buffer = stream.upload(&[1, 2]).unwrap();
        let (mut good, mut bad) = ([0], [0; 2]);
        let ranges = [
            CopyOut { from: &buffer, offset: 0, to: &mut good },
            CopyOut { from: &buffer, offset: 1, to: &mut bad },
        ];
        let error = RuntimeError::OutOfBounds { offset: 1, bytes: 2, size: 2 };
        // SAFETY: only this stream uses the buffer.
        assert_eq!(unsafe { stream.copy_out_all(ranges) }, Err(error));
    });
}

/// Bytes that differ from their neighbours at every distance that copies are made of.
fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|index| ((index + seed).wrapping_mul(0x9e37_79b1) >> 24) as u8).collect()
}

#[test]
fn copies_of_odd_sizes_keep_every_byte() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let sizes =
            [1, 3, 63, 65_535, 65_536, 65_537, 262_145, (4 << 20) - 1, (4 << 20) + 1, (17 << 20) + 13];
        for (seed, bytes) in sizes.into_iter().enumerate() {
            let data = pattern(seed, bytes);
            let buffer = stream.upload(&data).unwrap();
            let target = stream.upload(&vec![0xee; bytes + 9]).unwrap();
            let mut result = vec![0; bytes + 9];
            // SAFETY: only this stream uses the buffers.
            unsafe {
                stream.copy((&buffer, 0), (&target, 5), bytes).unwrap();
                stream.copy_in(&target, bytes + 5, [1, 2, 3, 4]).unwrap();
                stream.copy_out(&target, 0, &mut result).unwrap();
            }
            assert_eq!(result[..5], [0xee; 5]);
            assert!(result[5..bytes + 5] == data);
            assert_eq!(result[bytes + 5..], [1, 2, 3, 4]);
            let mut part = vec![0; bytes - bytes / 3];
            // SAFETY: as above.
            unsafe { stream.copy_out(&buffer, bytes / 3, &mut part).unwrap() };
            assert!(part == data[bytes / 3..]);
        }
    });
}

#[test]
fn many_small_uploads_do_not_overtake_one_another() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 100)], 0);
        // More than what small copies share.
        let buffers: Vec<_> = (0..2000_u32)
            .map(|number| {
                let buffer = stream.upload(&number.to_le_bytes().repeat(100 + number as usize)).unwrap();
                launch(&stream, &triple, &buffer, &[1]);
                buffer
            })
            .collect();
        for (number, buffer) in buffers.iter().enumerate() {
            let words = words(&stream, buffer);
            assert_eq!(words[..100], [number as u32 * 3 + 1; 100]);
            assert!(words[100..].iter().all(|word| *word == number as u32));
        }
    });
}

#[test]
fn an_uploaded_buffer_is_usable_on_every_stream_at_once() {
    on_each_device(|device| {
        let (transfer, stream) = (device.stream().unwrap(), device.stream().unwrap());
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
        for round in 0..100_u32 {
            // Large, so that the copy takes its time, with what is looked at in the end.
            let mut data = vec![0; 9 << 20];
            let end = data.len() - 4;
            data[end..].copy_from_slice(&round.to_le_bytes());
            let buffer = transfer.upload(&data).unwrap();
            let mut batch = Batch::new();
            let slot = batch.bind(buffer.clone());
            // SAFETY: one word at the end.
            unsafe { batch.launch(triple.clone(), [(slot, end)], [1]).unwrap() };
            stream.submit(batch).unwrap();
            let mut word = [0; 4];
            // SAFETY: only that stream uses the buffer.
            unsafe { stream.copy_out(&buffer, end, &mut word).unwrap() };
            assert_eq!(u32::from_le_bytes(word), round * 3 + 1);
            if round == 10 && device.id() == burn_mlir_runtime::DeviceId::Host {
                break;
            }
        }
    });
}

#[test]
fn an_offset_outside_its_buffer_is_an_error() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let (kernel, buffer) = (kernel_on(device, "add", &[(ADD, 1)], 0), zeros(&stream, 2));
        let launch = |offset| Launch {
            kernel: kernel.clone(),
            buffers: smallvec![(buffer.clone(), offset)],
            scalars: smallvec![1],
        };
        // SAFETY: offset 4 leaves a word.
        unsafe {
            stream.launch(launch(4)).unwrap();
            assert!(matches!(stream.launch(launch(9)), Err(RuntimeError::OutOfBounds { offset: 9, .. })));
        }
        assert_eq!(words(&stream, &buffer), [0, 1]);
    });
}

#[test]
fn empty_work_and_empty_buffers_are_fine() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = stream.upload(&[]).unwrap();
        launch(&stream, &kernel_on(device, "none", &[(ADD, 0)], 0), &buffer, &[1]);
        launch(&stream, &kernel_on(device, "no phases", &[], 0), &buffer, &[]);
        stream.run(Batch::new()).unwrap();
        // SAFETY: there is nothing to copy.
        unsafe {
            stream.copy((&buffer, 0), (&buffer, 0), 0).unwrap();
            stream.copy_in(&buffer, 0, []).unwrap();
        }
        assert_eq!(words(&stream, &buffer), [0_u32; 0]);
    });
}

#[test]
fn a_dropped_stream_finishes_its_work() {
    on_each_device(|device| {
        let buffer = zeros(&device.stream().unwrap(), 1);
        let stream = device.stream().unwrap();
        let kernel = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        for scalar in 0..10 {
            launch(&stream, &kernel, &buffer, &[scalar]);
        }
        drop(stream);
        assert_eq!(words(&device.stream().unwrap(), &buffer), [tripled(10)]);
    });
}

#[test]
fn a_stream_may_die_in_its_own_call() {
    on_each_device(|device| {
        let stream = Arc::new(device.stream().unwrap());
        let buffer = zeros(&stream, 1);
        launch(&stream, &kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0), &buffer, &[3]);
        let (event, inner) = (stream.record(), stream.clone());
        let (send, receive) = std::sync::mpsc::channel();
        stream.call(move || {
            receive.recv().unwrap();
            drop(inner);
        });
        drop(stream);
        send.send(()).unwrap();
        event.wait();
        assert_eq!(words(&device.stream().unwrap(), &buffer), [3]);
    });
}

#[test]
fn a_stream_may_outlive_its_device_and_die_in_its_own_call() {
    let stream = Arc::new(device(2).stream().unwrap());
    let buffer = zeros(&stream, 1);
    let (gate_kernel, gate_buffer) = (kernel("gate", &[(gate, 1)]), zeros(&stream, 1));
    launch(&stream, &gate_kernel, &gate_buffer, &[]);
    let inner = stream.clone();
    stream.call(move || drop(inner));
    launch(&stream, &kernel("add", &[(add, 1)]), &buffer, &[3]);
    let event = stream.record();
    drop(stream);
    open(&gate_buffer);
    event.wait();
    assert_eq!(words(&device(1).stream().unwrap(), &buffer), [3]);
}

#[test]
fn the_arena_is_shared_and_grows() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let small = stream.arena(100).unwrap();
        assert!(small.is_same(&stream.arena(50).unwrap()));
        let large = stream.arena(1000).unwrap();
        assert!(large.bytes() >= 1000 && !large.is_same(&small));
        assert!(large.is_same(&stream.arena(100).unwrap()));
    });
}

#[test]
fn scratch_that_does_not_fit_is_an_error_of_the_stream() {
    let stream = device(2).stream().unwrap();
    let buffer = zeros(&stream, 4);
    // SAFETY: `add` uses no scratch.
    let hungry =
        unsafe { burn_mlir_runtime::HostKernel::new("hungry", [(add as _, 4)], 1 << 46, 0, Arc::new(())) };
    launch(&stream, &hungry, &buffer, &[1]);
    launch(&stream, &kernel("add", &[(add, 4)]), &buffer, &[2]);
    assert!(matches!(stream.synchronize(), Err(RuntimeError::OutOfMemory { .. })));
    assert_eq!(words(&stream, &buffer), [2; 4]);
}

#[test]
fn allocation_waits_for_memory_under_way() {
    let config = HostConfig { threads: Some(1), memory_limit: Some(1 << 20), memory_cached: None };
    let device = Device::host(config);
    let stream = device.stream().unwrap();
    let buffer = stream.allocate(1 << 20).unwrap();
    launch(&stream, &kernel("slow", &[(slow_triple_add, 1), (check, 1)]), &buffer, &[0]);
    drop(buffer);
    stream.allocate(1 << 20).unwrap();
    // The error of the work it waited for is still there.
    assert_eq!(stream.synchronize(), out_of_range("slow"));
    let kept = stream.allocate(1 << 19).unwrap();
    assert!(matches!(stream.allocate(1 << 20), Err(RuntimeError::OutOfMemory { .. })));
    drop(kept);
}

fn assert_shareable<T: Send + Sync + 'static>() {}

#[test]
fn handles_are_shareable() {
    assert_shareable::<Stream>();
    assert_shareable::<Buffer>();
    assert_shareable::<Batch>();
    assert_shareable::<burn_mlir_runtime::Graph>();
    assert_shareable::<burn_mlir_runtime::Event>();
    assert_shareable::<burn_mlir_runtime::Device>();
}
