//! Events between streams and threads, and streams that share the workers under load.

mod common;

use std::time::{Duration, Instant};

use burn_mlir_runtime::{Buffer, Device, Event, Graph, Kernel, RuntimeError};
use common::*;

#[test]
fn an_event_orders_two_streams() {
    on_each_device(|device| {
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let fast = kernel_on(device, "fast", &[(TRIPLE_ADD, 1)], 0);
        let buffer = zeros(&first, 1);
        let mut expected = 0_u32;
        for round in 0..10 {
            launch(&first, &slow, &buffer, &[round]);
            second.wait(&first.record());
            launch(&second, &fast, &buffer, &[round + 100]);
            first.wait(&second.record());
            expected = expected.wrapping_mul(3).wrapping_add(round as u32);
            expected = expected.wrapping_mul(3).wrapping_add(round as u32 + 100);
        }
        first.wait(&second.record());
        assert_eq!(words(&first, &buffer), [expected]);
    });
}

#[test]
fn an_event_covers_what_its_stream_waits_for() {
    on_each_device(|device| {
        let [first, second, third] = [(); 3].map(|()| device.stream().unwrap());
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let fast = kernel_on(device, "fast", &[(TRIPLE_ADD, 1)], 0);
        let buffer = zeros(&first, 1);
        second.wait(&first.record());
        second.record();
        for round in 0..10 {
            launch(&first, &slow, &buffer, &[2 * round]);
            second.wait(&first.record());
            // Nothing was queued here since the last event but the wait.
            third.wait(&second.record());
            launch(&third, &fast, &buffer, &[2 * round + 1]);
            first.wait(&third.record());
        }
        assert_eq!(words(&third, &buffer), [tripled(20)]);
    });
}

#[test]
fn a_thread_waits_for_an_event_of_another() {
    on_each_device(|device| {
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let stream = device.stream().unwrap();
                let buffer = zeros(&stream, 1);
                for scalar in 0..5 {
                    launch(&stream, &slow, &buffer, &[scalar]);
                }
                send.send((buffer, stream.record())).unwrap();
            });
            let (buffer, event) = receive.recv().unwrap();
            event.wait();
            assert!(event.is_done());
            // 0·3+0, ·3+1, ·3+2, ·3+3, ·3+4
            assert_eq!(words(&device.stream().unwrap(), &buffer), [58]);
        });
    });
}

#[test]
fn a_chain_of_streams_passes_work_on() {
    on_each_device(|device| {
        let streams: Vec<_> = (0..6).map(|_| device.stream().unwrap()).collect();
        let kernel = kernel_on(device, "triple", &[(TRIPLE_ADD, 3)], 0);
        let buffer = zeros(&streams[0], 3);
        let mut expected = 0_u32;
        for round in 0..300_usize {
            let (from, to) = (&streams[round % 6], &streams[(round + 1) % 6]);
            launch(from, &kernel, &buffer, &[round as u64]);
            to.wait(&from.record());
            expected = expected.wrapping_mul(3).wrapping_add(round as u32);
        }
        assert_eq!(words(&streams[0], &buffer), [expected; 3]);
    });
}

#[test]
fn an_event_outlives_its_stream() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        launch(&stream, &slow, &zeros(&stream, 1), &[1]);
        let event = stream.record();
        drop(stream);
        assert!(event.is_done());
        device.stream().unwrap().wait(&event);
    });
}

#[test]
fn events_order_streams_of_different_devices() {
    let host = device(1);
    let (buffer, slow) =
        (zeros(&host.stream().unwrap(), 1), kernel_on(&host, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0));
    on_each_cuda_device(|device| {
        let (here, there) = (host.stream().unwrap(), device.stream().unwrap());
        let other_slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let other = zeros(&there, 1);
        launch(&here, &slow, &buffer, &[1]);
        let event = here.record();
        there.wait(&event);
        launch(&there, &other_slow, &other, &[1]);
        let event = there.record();
        there.synchronize().unwrap();
        // The work waited for that of the other device.
        assert!(event.is_done() && here.record().is_done());
        launch(&there, &other_slow, &other, &[1]);
        let event = there.record();
        here.wait(&event);
        here.synchronize().unwrap();
        assert!(event.is_done());
    });
}

#[test]
fn events_order_streams_of_two_cuda_devices() {
    let devices = cuda_devices();
    for (here, there) in devices.iter().flat_map(|here| devices.iter().map(move |there| (here, there))) {
        let (first, second) = (here.stream().unwrap(), there.stream().unwrap());
        let slow = kernel_on(here, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let fast = kernel_on(there, "fast", &[(TRIPLE_ADD, 1)], 0);
        let (buffer, other) = (zeros(&first, 1), zeros(&second, 1));
        for round in 0..5 {
            launch(&first, &slow, &buffer, &[round]);
            let event = first.record();
            second.wait(&event);
            launch(&second, &fast, &other, &[round]);
            second.synchronize().unwrap();
            assert!(event.is_done());
        }
        assert_eq!((words(&first, &buffer), words(&second, &other)), (vec![tripled(5)], vec![tripled(5)]));
    }
}

#[test]
fn devices_take_neither_each_others_buffers_nor_kernels() {
    let host = device(1);
    let (here, kernel) = (host.stream().unwrap(), kernel_on(&host, "host's", &[(ADD, 1)], 0));
    let buffer = zeros(&here, 1);
    on_each_cuda_device(|device| {
        let there = device.stream().unwrap();
        let (other, other_kernel) = (zeros(&there, 1), kernel_on(device, "device's", &[(ADD, 1)], 0));
        let (expected, found) = (device.id(), host.id());
        let wrong = RuntimeError::WrongDevice { expected, found };
        assert_eq!(there.submit(batch(&other_kernel, &buffer, &[1])), Err(wrong.clone()));
        // SAFETY: nothing is copied.
        assert_eq!(unsafe { there.copy((&other, 0), (&buffer, 0), 4) }, Err(wrong));
        let wrong = RuntimeError::WrongKernel { kernel: "host's".into(), device: device.id() };
        assert_eq!(there.submit(batch(&kernel, &other, &[1])), Err(wrong));
        let wrong = RuntimeError::WrongKernel { kernel: "device's".into(), device: host.id() };
        assert_eq!(here.submit(batch(&other_kernel, &buffer, &[1])), Err(wrong));
        let graph = Graph::new(&there, vec![batch(&other_kernel, &other, &[1])]).unwrap();
        assert!(matches!(here.replay(&graph), Err(RuntimeError::WrongDevice { .. })));
        assert_eq!(words(&there, &other), [0]);
    });
}

#[test]
fn eight_threads_share_a_device_and_pass_buffers_on() {
    on_each_device(|device| {
        let end = Instant::now() + Duration::from_millis(1000);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 64)], 0);
        let places: Vec<_> = (0..8).map(|_| parking_lot::Mutex::new(None)).collect();
        std::thread::scope(|scope| {
            for thread in 0..8_usize {
                let (places, triple) = (&places, &triple);
                scope.spawn(move || pass_on(device, triple, places, thread, end));
            }
        });
        drop(places);
        assert_eq!(device.memory_usage().in_use, 0);
    });
}

/// What one thread hands to the next: a buffer, the place from which on it is valid, and its words.
type Passed = Option<(Buffer, Event, u32)>;

/// Takes buffers from the place before, works on them and puts them on; and works with short-lived ones meanwhile.
fn pass_on(
    device: &Device,
    triple: &Kernel,
    places: &[parking_lot::Mutex<Passed>],
    thread: usize,
    end: Instant,
) {
    let stream = device.stream().unwrap();
    let mut round = 0_u32;
    while round == 0 || Instant::now() < end {
        let taken = places[thread].lock().take();
        let (buffer, mut word) = match taken {
            Some((buffer, event, word)) => {
                stream.wait(&event);
                (buffer, word)
            }
            None => (zeros(&stream, 64), 0),
        };
        // Memory that comes and goes at sizes other threads use, too.
        for words_of in [64, 100, 5000, 64] {
            let short = stream.upload(&round.to_le_bytes().repeat(words_of)).unwrap();
            launch(&stream, triple, &short, &[u64::from(round)]);
            launch(&stream, triple, &buffer, &[u64::from(round)]);
            word = word.wrapping_mul(3).wrapping_add(round);
            if round.is_multiple_of(7) {
                assert_eq!(words(&stream, &short)[..64], [round.wrapping_mul(4); 64]);
            }
        }
        if round.is_multiple_of(5) {
            assert_eq!(words(&stream, &buffer), [word; 64]);
        }
        let event = stream.record();
        *places[(thread + 1) % places.len()].lock() = Some((buffer, event, word));
        round += 1;
    }
    stream.synchronize().unwrap();
}

#[test]
fn threads_and_streams_under_load() {
    for threads in [1, 3] {
        let device = device(threads);
        let end = Instant::now() + Duration::from_millis(600);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| load(&device, end));
            }
        });
        assert_eq!(device.memory_usage().in_use, 0);
    }
}

/// Works on two streams until `end`, checking every result.
fn load(device: &burn_mlir_runtime::Device, end: Instant) {
    const TILES: usize = 777;
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let triple = kernel("triple", &[(triple_add, TILES as u64)]);
    let busy = kernel("busy", &[(busy_add, 4)]);
    let mut round = 0_usize;
    while Instant::now() < end {
        let buffer = zeros(&first, TILES);
        let other = zeros(&second, TILES);
        for scalar in 0..10 {
            launch(&first, &triple, &buffer, &[scalar]);
            launch(&second, &busy, &other, &[]);
        }
        second.wait(&first.record());
        launch(&second, &triple, &buffer, &[round as u64]);
        // 0, 1, 2, … by "times three plus": (3^10 - 1) / 4 - 10 / 2 = 14757.
        assert_eq!(words(&second, &buffer), [14757 * 3 + round as u32; TILES]);
        assert_eq!(words(&second, &other)[..5], [10, 10, 10, 10, 0]);
        round += 1;
    }
    assert!(round > 0);
}
