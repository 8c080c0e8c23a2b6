//! Events between streams and threads, and streams that share the workers under load.

mod common;

use std::time::{Duration, Instant};

use common::*;

#[test]
fn an_event_orders_two_streams() {
    let device = device(2);
    let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
    let (slow, fast) = (kernel("slow", &[(slow_triple_add, 1)]), kernel("fast", &[(triple_add, 1)]));
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
}

#[test]
fn a_thread_waits_for_an_event_of_another() {
    let device = device(2);
    let slow = kernel("slow", &[(slow_triple_add, 1)]);
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
}

#[test]
fn a_chain_of_streams_passes_work_on() {
    let device = device(2);
    let streams: Vec<_> = (0..6).map(|_| device.stream().unwrap()).collect();
    let kernel = kernel("triple", &[(triple_add, 3)]);
    let buffer = zeros(&streams[0], 3);
    let mut expected = 0_u32;
    for round in 0..300_usize {
        let (from, to) = (&streams[round % 6], &streams[(round + 1) % 6]);
        launch(from, &kernel, &buffer, &[round as u64]);
        to.wait(&from.record());
        expected = expected.wrapping_mul(3).wrapping_add(round as u32);
    }
    assert_eq!(words(&streams[0], &buffer), [expected; 3]);
}

#[test]
fn an_event_outlives_its_stream() {
    let device = device(1);
    let stream = device.stream().unwrap();
    launch(&stream, &kernel("slow", &[(slow_triple_add, 1)]), &zeros(&stream, 1), &[1]);
    let event = stream.record();
    drop(stream);
    assert!(event.is_done());
    device.stream().unwrap().wait(&event);
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
