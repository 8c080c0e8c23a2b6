//! Streams: order, errors, run-ahead, life and death.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use burn_mlir_runtime::{Batch, Buffer, Device, HostConfig, Launch, RuntimeError, Stream};
use common::*;
use smallvec::smallvec;

/// What `count` launches of `triple_add` with scalars 0, 1, … make of zero.
fn tripled(count: u64) -> u32 {
    (0..count).fold(0_u32, |word, scalar| word.wrapping_mul(3).wrapping_add(scalar as u32))
}

/// Lets a `gate` kernel on this buffer go.
fn open(gate: &Buffer) {
    // SAFETY: a living buffer's first word, accessed atomically everywhere.
    unsafe { AtomicU32::from_ptr(gate.address().cast()) }.store(1, Ordering::SeqCst);
}

fn out_of_range(label: &str) -> Result<(), RuntimeError> {
    Err(RuntimeError::IndexOutOfRange { kernel: label.into() })
}

#[test]
fn work_runs_in_order() {
    let stream = device(2).stream().unwrap();
    let kernel = kernel("triple", &[(triple_add, 7)]);
    let buffer = zeros(&stream, 7);
    for scalar in 0..1000 {
        launch(&stream, &kernel, &buffer, &[scalar]);
    }
    assert_eq!(words(&stream, &buffer), [tripled(1000); 7]);
}

#[test]
fn a_batch_runs_its_launches_in_order_on_its_slots() {
    let stream = device(1).stream().unwrap();
    let (triple, add) = (kernel("triple", &[(triple_add, 2)]), kernel("add", &[(add, 1)]));
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
    stream.run(batch).unwrap();
    assert_eq!(words(&stream, &first), [0, 0, 16, 116]);
    assert_eq!(words(&stream, &second), [9, 9]);
}

#[test]
fn a_thread_that_runs_its_work_leaves_that_of_others_to_somebody() {
    let stream = device(1).stream().unwrap();
    let (gate_kernel, add) = (kernel("gate", &[(gate, 1)]), kernel("add", &[(add, 1)]));
    let (gate, buffer) = (zeros(&stream, 1), zeros(&stream, 1));
    std::thread::scope(|scope| {
        scope.spawn(|| stream.run(batch(&gate_kernel, &gate, &[])).unwrap());
        // Until the first thread is in the middle of its work.
        std::thread::sleep(Duration::from_millis(20));
        scope.spawn(|| stream.run(batch(&add, &buffer, &[1])).unwrap());
        std::thread::sleep(Duration::from_millis(20));
        open(&gate);
    });
    assert_eq!(words(&stream, &buffer), [1]);
}

#[test]
fn a_call_may_queue_any_amount_of_work_on_its_stream() {
    let stream = Arc::new(device(1).stream().unwrap());
    let (buffer, add) = (zeros(&stream, 1), kernel("add", &[(add, 1)]));
    let (inner, words_of) = (stream.clone(), buffer.clone());
    let (send, receive) = std::sync::mpsc::channel();
    stream.call(move || {
        (0..1000).for_each(|_| launch(&inner, &add, &words_of, &[1]));
        send.send(()).unwrap();
    });
    receive.recv().unwrap();
    assert_eq!(words(&stream, &buffer), [1000]);
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
fn an_index_error_is_reported_once_and_work_goes_on() {
    let stream = device(2).stream().unwrap();
    let buffer = zeros(&stream, 100);
    let (check, add) = (kernel("gather rows", &[(check, 100)]), kernel("add", &[(add, 100)]));
    launch(&stream, &check, &buffer, &[100]);
    assert_eq!(stream.synchronize(), Ok(()));
    launch(&stream, &check, &buffer, &[57]);
    launch(&stream, &add, &buffer, &[1]);
    assert_eq!(stream.synchronize(), out_of_range("gather rows"));
    assert_eq!(stream.synchronize(), Ok(()));
    launch(&stream, &add, &buffer, &[1]);
    assert_eq!(words(&stream, &buffer), [2; 100]);
    assert_eq!(stream.run(batch(&check, &buffer, &[0])), out_of_range("gather rows"));
}

#[test]
fn a_panicking_call_is_an_error_and_work_goes_on() {
    let stream = device(1).stream().unwrap();
    stream.call(|| panic!("lost {}", 1));
    assert_eq!(stream.synchronize(), Err(RuntimeError::Panicked { message: "lost 1".into() }));
    assert_eq!(stream.synchronize(), Ok(()));
}

#[test]
fn a_call_that_waits_for_its_own_stream_gets_an_error() {
    let stream = Arc::new(device(1).stream().unwrap());
    let (inner, (send, receive)) = (stream.clone(), std::sync::mpsc::channel());
    stream.call(move || {
        inner.record().wait();
        send.send(inner.synchronize()).unwrap();
    });
    assert_eq!(receive.recv().unwrap(), Err(RuntimeError::Reentrant));
}

#[test]
fn copies_are_ordered_and_checked() {
    let stream = device(1).stream().unwrap();
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
}

#[test]
fn an_offset_outside_its_buffer_is_an_error() {
    let stream = device(1).stream().unwrap();
    let (kernel, buffer) = (kernel("add", &[(add, 1)]), zeros(&stream, 2));
    let launch = |offset| Launch {
        kernel: kernel.clone().into(),
        buffers: smallvec![(buffer.clone(), offset)],
        scalars: smallvec![1],
    };
    // SAFETY: offset 4 leaves a word.
    unsafe {
        stream.launch(launch(4)).unwrap();
        assert!(matches!(stream.launch(launch(9)), Err(RuntimeError::OutOfBounds { offset: 9, .. })));
    }
    assert_eq!(words(&stream, &buffer), [0, 1]);
}

#[test]
fn empty_work_and_empty_buffers_are_fine() {
    let stream = device(2).stream().unwrap();
    let buffer = stream.upload(&[]).unwrap();
    launch(&stream, &kernel("none", &[(add, 0)]), &buffer, &[1]);
    launch(&stream, &kernel("no phases", &[]), &buffer, &[]);
    stream.run(Batch::new()).unwrap();
    assert_eq!(words(&stream, &buffer), [0_u32; 0]);
}

#[test]
fn a_dropped_stream_finishes_its_work() {
    let device = device(2);
    let buffer = zeros(&device.stream().unwrap(), 1);
    let stream = device.stream().unwrap();
    let kernel = kernel("slow", &[(slow_triple_add, 1)]);
    for scalar in 0..10 {
        launch(&stream, &kernel, &buffer, &[scalar]);
    }
    drop(stream);
    assert_eq!(words(&device.stream().unwrap(), &buffer), [tripled(10)]);
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
    let stream = device(1).stream().unwrap();
    let small = stream.arena(100).unwrap();
    assert!(small.is_same(&stream.arena(50).unwrap()));
    let large = stream.arena(1000).unwrap();
    assert!(large.bytes() >= 1000 && !large.is_same(&small));
    assert!(large.is_same(&stream.arena(100).unwrap()));
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
