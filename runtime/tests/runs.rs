//! Work that a thread runs itself, and errors of work.

mod common;

use std::sync::Arc;
use std::time::Duration;

use burn_mlir_runtime::RuntimeError;
use common::*;
/// Threads that run work at once and threads that queue theirs, on one stream: all of it is done, each
/// thread's in its order.
#[test]
fn threads_run_and_queue_work_of_one_stream() {
    const ROUNDS: u64 = 2000;
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let kernel = kernel_on(device, "triple", &[(TRIPLE_ADD, 3)], 0);
        let buffers: Vec<_> = (0..4).map(|_| zeros(&stream, 3)).collect();
        std::thread::scope(|scope| {
            for (thread, buffer) in buffers.iter().enumerate() {
                let (stream, kernel) = (&stream, &kernel);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let batch = batch(kernel, buffer, &[round]);
                        if (round + thread as u64).is_multiple_of(3) {
                            stream.submit(batch).unwrap();
                        } else {
                            stream.run(batch).unwrap();
                        }
                    }
                });
            }
        });
        for buffer in &buffers {
            assert_eq!(words(&stream, buffer), [tripled(ROUNDS); 3]);
        }
    });
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
fn an_index_error_is_reported_once_and_work_goes_on() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 100);
        let check = kernel_on(device, "gather rows", &[(CHECK, 100)], 0);
        let add = kernel_on(device, "add", &[(ADD, 100)], 0);
        launch(&stream, &check, &buffer, &[100]);
        assert_eq!(stream.synchronize(), Ok(()));
        launch(&stream, &check, &buffer, &[57]);
        launch(&stream, &add, &buffer, &[1]);
        assert_eq!(stream.synchronize(), out_of_range("gather rows"));
        assert_eq!(stream.synchronize(), Ok(()));
        launch(&stream, &add, &buffer, &[1]);
        assert_eq!(words(&stream, &buffer), [2; 100]);
        assert_eq!(stream.run(batch(&check, &buffer, &[0])), out_of_range("gather rows"));
    });
}

#[test]
fn an_index_error_has_the_name_of_its_kernel() {
    on_each_device(|device| {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let buffer = zeros(&stream, 1);
        stream.synchronize().unwrap();
        let kernels: Vec<_> =
            (0..1500).map(|index| kernel_on(device, &format!("check {index}"), &[(CHECK, 1)], 0)).collect();
        let step = if device.id() == burn_mlir_runtime::DeviceId::Host { 1 } else { 100 };
        for kernel in kernels.iter().step_by(step) {
            launch(&stream, kernel, &buffer, &[1]);
            launch(&other, kernel, &buffer, &[1]);
        }
        launch(&other, &kernels[700], &buffer, &[0]);
        assert_eq!(stream.synchronize(), Ok(()));
        assert_eq!(other.synchronize(), out_of_range("check 700"));
    });
}

#[test]
fn a_panicking_call_is_an_error_and_work_goes_on() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        stream.call(|| panic!("lost {}", 1));
        assert_eq!(stream.synchronize(), Err(RuntimeError::Panicked { message: "lost 1".into() }));
        assert_eq!(stream.synchronize(), Ok(()));
    });
}

#[test]
fn a_call_that_waits_for_its_own_stream_gets_an_error() {
    on_each_device(|device| {
        let stream = Arc::new(device.stream().unwrap());
        let (inner, (send, receive)) = (stream.clone(), std::sync::mpsc::channel());
        stream.call(move || {
            inner.record().wait();
            send.send(inner.synchronize()).unwrap();
        });
        assert_eq!(receive.recv().unwrap(), Err(RuntimeError::Reentrant));
    });
}
