//! What is done to kernels and graphs while their work is under way.

use super::common::{SLOW_TRIPLE_ADD, TRIPLE_ADD, batch, kernel_on, launch, tripled, words, zeros};
use super::on_each_device;
use burn_mlir_runtime::{Graph, Kernel};
use std::time::{Duration, Instant};

#[test]
fn submitting_is_ahead_of_the_device_but_not_without_bound() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let slow = kernel_on(device, "slow", &[(SLOW_TRIPLE_ADD, 1)], 0);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
        let Kernel::Cuda(code) = &slow else { panic!("{slow:?}") };
        device.load(code).unwrap();
        launch(&stream, &triple, &buffer, &[0]);
        stream.synchronize().unwrap();
        for scalar in 1..21 {
            launch(&stream, &slow, &buffer, &[scalar]);
        }
        let event = stream.record();
        // No bound on the time: what other tests do meanwhile may hold the driver up.
        assert!(!event.is_done());
        for scalar in 21..5000 {
            launch(&stream, &triple, &buffer, &[scalar]);
        }
        // Far behind by now.
        assert!(event.is_done());
        assert_eq!(words(&stream, &buffer), [tripled(5000)]);
    });
}

#[test]
fn kernels_may_be_dropped_with_their_work_under_way() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        for scalar in 0..20 {
            let kernel = kernel_on(device, "short-lived", &[(SLOW_TRIPLE_ADD, 1)], 0);
            launch(&stream, &kernel, &buffer, &[scalar]);
            if scalar == 10 {
                device.memory_cleanup();
            }
        }
        assert_eq!(words(&stream, &buffer), [tripled(20)]);
        device.memory_cleanup();
    });
}

#[test]
fn a_graph_outlives_its_kernels_and_is_dropped_with_replays_under_way() {
    on_each_device(|device| {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let buffer = zeros(&stream, 1);
        let list = (0..4).map(|scalar| {
            let function = if scalar == 1 { SLOW_TRIPLE_ADD } else { TRIPLE_ADD };
            batch(&kernel_on(device, "short-lived", &[(function, 1)], 0), &buffer, &[scalar])
        });
        let graph = Graph::new(&stream, list.collect()).unwrap();
        device.memory_cleanup();
        for _ in 0..5 {
            stream.replay(&graph).unwrap();
            other.wait(&stream.record());
            other.replay(&graph).unwrap();
            stream.wait(&other.record());
        }
        drop(graph);
        drop(other);
        let expected = (0..40).fold(0_u32, |word, step| word.wrapping_mul(3).wrapping_add(step % 4));
        assert_eq!(words(&stream, &buffer), [expected]);
    });
}

#[test]
fn graphs_are_made_while_other_threads_work() {
    on_each_device(|device| {
        let end = Instant::now() + Duration::from_millis(500);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    let mut round = 0_u32;
                    while Instant::now() < end {
                        let buffer = zeros(&stream, 1000 << (round % 8));
                        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 1)], 0);
                        let list = vec![batch(&triple, &buffer, &[1]), batch(&triple, &buffer, &[2])];
                        if thread % 2 == 0 {
                            let graph = Graph::new(&stream, list).unwrap();
                            stream.replay(&graph).unwrap();
                        } else {
                            list.into_iter().for_each(|batch| stream.submit(batch).unwrap());
                            device.memory_cleanup();
                        }
                        assert_eq!(words(&stream, &buffer)[0], 5);
                        round += 1;
                    }
                });
            }
        });
    });
}
