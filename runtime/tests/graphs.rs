//! Graphs: replays in order, on what the buffers hold then, with errors as usual.

mod common;

use burn_mlir_runtime::{Batch, Graph};
use common::*;

#[test]
fn a_replay_runs_all_launches_on_what_is_there() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 5)], 0);
        let (first, second) = (zeros(&stream, 5), zeros(&stream, 5));
        let mut both = batch(&triple, &first, &[1]);
        let slot = both.bind(second.clone());
        // SAFETY: five tiles on five words.
        unsafe { both.launch(triple.clone(), [(slot, 0)], [7]).unwrap() };
        let graph = Graph::new(&stream, vec![both, batch(&triple, &first, &[2])]).unwrap();
        assert_eq!((graph.len(), graph.is_empty(), graph.device()), (3, false, stream.device()));
        assert_eq!(words(&stream, &first), [0; 5]);

        stream.replay(&graph).unwrap();
        // (0·3 + 1)·3 + 2 and 0·3 + 7
        assert_eq!(words(&stream, &first), [5; 5]);
        assert_eq!(words(&stream, &second), [7; 5]);

        // A refreshed input is seen, in the order of the stream.
        // SAFETY: only this stream uses the buffer.
        unsafe { stream.copy_in(&first, 0, 100_u32.to_le_bytes().repeat(5)).unwrap() };
        stream.replay(&graph).unwrap();
        launch(&stream, &triple, &first, &[0]);
        assert_eq!(words(&stream, &first), [((100 * 3 + 1) * 3 + 2) * 3; 5]);
        assert_eq!(words(&stream, &second), [28; 5]);
    });
}

#[test]
fn a_graph_keeps_its_buffers() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1000);
        let add = kernel_on(device, "add", &[(ADD, 1000)], 0);
        let graph = Graph::new(&stream, vec![batch(&add, &buffer, &[1])]).unwrap();
        stream.synchronize().unwrap();
        let held = device.memory_usage().in_use;
        drop(buffer);
        assert_eq!(device.memory_usage().in_use, held);
        let clone = graph.clone();
        drop(graph);
        (0..100).for_each(|_| stream.replay(&clone).unwrap());
        drop(clone);
        stream.synchronize().unwrap();
        assert!(device.memory_usage().in_use < held);
    });
}

#[test]
fn a_graph_has_scratch_of_its_own() {
    on_each_device(|device| {
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let sum = |tiles: u64| kernel_on(device, "sum", &[(SCATTER, tiles), (GATHER, 3)], tiles as usize * 4);
        let (small, large) = (sum(10), sum(5000));
        let (buffer, direct) = (zeros(&stream, 3), zeros(&other, 3));
        let list = vec![batch(&small, &buffer, &[10]), batch(&large, &buffer, &[5000])];
        let graph = Graph::new(&stream, list).unwrap();
        for _ in 0..20 {
            stream.replay(&graph).unwrap();
            launch(&other, &large, &direct, &[5000]);
            launch(&other, &small, &direct, &[10]);
        }
        assert_eq!(words(&stream, &buffer), [5000 * 5001 / 2; 3]);
        assert_eq!(words(&other, &direct), [55; 3]);
    });
}

#[test]
fn an_index_error_of_a_replay_is_reported_and_the_next_replay_runs() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 10);
        let check = kernel_on(device, "gather rows", &[(CHECK, 10)], 0);
        let add = kernel_on(device, "add", &[(ADD, 10)], 0);
        let list = vec![batch(&check, &buffer, &[3]), batch(&add, &buffer, &[1])];
        let graph = Graph::new(&stream, list).unwrap();
        assert_eq!(stream.synchronize(), Ok(()));
        for _ in 0..2 {
            stream.replay(&graph).unwrap();
            stream.replay(&graph).unwrap();
            assert_eq!(stream.synchronize(), out_of_range("gather rows"));
            assert_eq!(stream.synchronize(), Ok(()));
        }
        assert_eq!(words(&stream, &buffer), [4; 10]);
    });
}

#[test]
fn replays_of_several_threads_and_streams_do_not_mix() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 333);
        stream.synchronize().unwrap();
        // Another replay between the two launches would give another number.
        let add = kernel_on(device, "add", &[(ADD, 333)], 0);
        let triple = kernel_on(device, "triple", &[(TRIPLE_ADD, 333)], 0);
        let list = vec![batch(&add, &buffer, &[1]), batch(&triple, &buffer, &[1])];
        let graph = Graph::new(&stream, list).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let stream = device.stream().unwrap();
                    (0..5).for_each(|_| stream.replay(&graph).unwrap());
                    stream.synchronize().unwrap();
                });
            }
        });
        let expected = (0..20).fold(0_u32, |word, _| word.wrapping_add(1).wrapping_mul(3).wrapping_add(1));
        assert_eq!(words(&stream, &buffer), [expected; 333]);
    });
}

#[test]
fn an_empty_graph_is_fine() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let none = kernel_on(device, "none", &[(ADD, 0)], 0);
        let nothing = batch(&none, &zeros(&stream, 1), &[1]);
        for list in [Vec::new(), vec![Batch::new(), Batch::new()], vec![nothing]] {
            let launches = list.iter().map(Batch::len).sum::<usize>();
            let graph = Graph::new(&stream, list).unwrap();
            assert_eq!((graph.is_empty(), graph.len()), (launches == 0, launches));
            stream.replay(&graph).unwrap();
            stream.synchronize().unwrap();
        }
    });
}
