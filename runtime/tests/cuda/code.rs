//! What a device is, code that it takes, and launches.

use super::common::{PTX, batch, cuda_phase, device, launch, on_each_cuda_device, words, zeros};
use super::{cuda_kernel, in_a_child, on_each_device};
use burn_mlir_runtime::{
    Batch, Buffer, CudaConfig, CudaKernel, CudaMapElement, CudaMapSwizzle, CudaPhase, CudaTensorMap, Device,
    DeviceId, Graph, RuntimeError, cuda_device_count, cuda_driver_version,
};
use smallvec::smallvec;

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let count = cuda_device_count();
    assert!(count == 0 || cuda_driver_version().is_some_and(|version| version >= 12000));
    for index in [count, count + 1, 1 << 20, usize::MAX] {
        let error = Device::cuda(index, CudaConfig::default()).unwrap_err();
        let RuntimeError::NoDevice { device, reason } = &error else { panic!("{error:?}") };
        assert_eq!(*device, DeviceId::Cuda(u32::try_from(index).unwrap_or(u32::MAX)));
        assert!(!reason.is_empty());
    }
}

#[test]
fn a_device_has_properties() {
    on_each_device(|device| {
        let properties = device.cuda_properties().unwrap();
        println!("{properties:?}");
        assert!(!properties.name.is_empty() && properties.compute_capability >= (7, 0));
        assert!(properties.multiprocessors > 0 && properties.memory_bytes > 1 << 28);
        assert!(properties.workgroup_bytes >= 64 << 10);
        assert_eq!(Some(properties.driver_version), cuda_driver_version());
    });
    assert_eq!(device(1).cuda_properties(), None);
}

#[test]
fn ptx_becomes_machine_code_that_runs() {
    assert!(matches!(device(1).assemble(PTX), Err(RuntimeError::Unsupported { .. })));
    on_each_device(|device| {
        let cubin = device.assemble(PTX).unwrap();
        // SAFETY: `add` follows the signature.
        let kernel = unsafe { CudaKernel::new("add", cubin, [cuda_phase("add", 3, 1)], 0) };
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 3);
        launch(&stream, &kernel, &buffer, &[5]);
        assert_eq!(words(&stream, &buffer), [5; 3]);

        let broken = PTX.replace("st.global.u32", "st.nowhere.u32");
        let error = device.assemble(&broken).unwrap_err();
        println!("{error}");
        assert!(matches!(error, RuntimeError::Assemble { log, .. } if log.contains("nowhere")));
        assert!(matches!(device.assemble("\0"), Err(RuntimeError::Assemble { .. })));
    });
}

#[test]
fn code_that_does_not_load_is_an_error_and_the_next_kernel_runs() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let absent = cuda_kernel("absent", cuda_phase("no_such_function", 1, 1));
        let wide = cuda_kernel("wide", cuda_phase("add", 1, 1 << 20));
        let phase = cuda_phase("backwards", 1, 256);
        let hungry = cuda_kernel("hungry", CudaPhase { workgroup_bytes: 1 << 20, ..phase });
        // SAFETY: nothing of it runs.
        let nonsense = unsafe { CudaKernel::new("nonsense", "no PTX", [cuda_phase("add", 1, 1)], 0) };
        for kernel in [absent, wide, hungry, nonsense.into()] {
            let error = stream.submit(batch(&kernel, &buffer, &[1])).unwrap_err();
            println!("{error}");
            assert!(matches!(error, RuntimeError::Driver { device: told, .. } if told == device.id()));
            assert!(Graph::new(&stream, vec![batch(&kernel, &buffer, &[1])]).is_err());
            stream.synchronize().unwrap();
        }
        launch(&stream, &cuda_kernel("add", cuda_phase("add", 1, 1)), &buffer, &[1]);
        assert_eq!(words(&stream, &buffer), [1]);
    });
}

#[test]
fn a_launch_that_fails_does_not_keep_others_from_running() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 1);
        let (wide, add) = (cuda_phase("add", 1, 1 << 20), cuda_phase("add", 1, 1));
        let mut batch = Batch::new();
        let slot = batch.bind(buffer.clone());
        for phase in [add.clone(), wide, add] {
            // SAFETY: one tile on one word.
            unsafe { batch.launch(cuda_kernel("add", phase), [(slot, 0)], [1]).unwrap() };
        }
        assert!(matches!(stream.submit(batch), Err(RuntimeError::Driver { .. })));
        assert_eq!(words(&stream, &buffer), [2]);
    });
}

#[test]
fn a_block_of_threads_has_much_memory() {
    on_each_device(|device| {
        let stream = device.stream().unwrap();
        let buffer = zeros(&stream, 256);
        let phase = CudaPhase { workgroup_bytes: 96 << 10, ..cuda_phase("backwards", 1, 256) };
        launch(&stream, &cuda_kernel("backwards", phase), &buffer, &[0]);
        assert_eq!(words(&stream, &buffer), (0..256).rev().collect::<Vec<u32>>());
    });
}

#[test]
fn tickets_start_at_zero_in_every_stream_and_graph() {
    on_each_device(|device| {
        let ticket = cuda_kernel("ticket", cuda_phase("ticket", 300, 1));
        for _ in 0..3 {
            let stream = device.stream().unwrap();
            let buffer = zeros(&stream, 1);
            let graph = Graph::new(&stream, vec![batch(&ticket, &buffer, &[300])]).unwrap();
            for _ in 0..10 {
                launch(&stream, &ticket, &buffer, &[300]);
                stream.replay(&graph).unwrap();
            }
            assert_eq!(words(&stream, &buffer), [6000]);
        }
    });
}

#[test]
fn the_copy_engine_walks_a_tensor_map() {
    in_a_child("code::the_copy_engine_walks_a_tensor_map", walk_a_tensor_map);
}

fn walk_a_tensor_map() {
    const LOAD: &str = include_str!("../common/tensor_map.ptx");
    on_each_cuda_device(|device| {
        if device.cuda_properties().is_none_or(|properties| properties.compute_capability < (9, 0)) {
            println!("{} has no copy engine for tensors", device.id());
            return;
        }
        // 5 rows of 6 words, 12 words apart.
        let map = CudaTensorMap {
            param: 1,
            offset: 0,
            element: CudaMapElement::F32,
            sizes: smallvec![6, 5],
            strides: smallvec![48],
            box_sizes: smallvec![8, 4],
            swizzle: CudaMapSwizzle::None,
        };
        let phase = CudaPhase { tensor_maps: vec![map.clone()], ..cuda_phase("load_box", 1, 32) };
        // SAFETY: the function has this signature and stores 32 words to buffer 0.
        let kernel = unsafe { CudaKernel::new("load_box", LOAD, [phase], 0) };
        let stream = device.stream().unwrap();
        let (target, direct) = (zeros(&stream, 32), zeros(&stream, 32));
        // Several sources, so that maps are encoded anew.
        for source in 0..3_u32 {
            let numbers: Vec<u8> =
                (0..60).flat_map(|word: u32| (1000 * source + word).to_le_bytes()).collect();
            let source_buffer = stream.upload(&numbers).unwrap();
            let launch = |target: &Buffer| {
                let mut batch = Batch::new();
                let slots = [batch.bind(target.clone()), batch.bind(source_buffer.clone())];
                let arguments = [(slots[0], 0), (slots[1], 0)];
                // SAFETY: as above; the box starts at column 4 of row 2.
                unsafe { batch.launch(kernel.clone(), arguments, [4, 2]).unwrap() };
                batch
            };
            stream.submit(launch(&direct)).unwrap();
            let graph = Graph::new(&stream, vec![launch(&target)]).unwrap();
            stream.replay(&graph).unwrap();
            let expected: Vec<u32> = (2..6)
                .flat_map(|row| (4..12).map(move |column| (row, column)))
                .map(
                    |(row, column)| if row < 5 && column < 6 { 1000 * source + 12 * row + column } else { 0 },
                )
                .collect();
            assert_eq!(words(&stream, &direct), expected);
            assert_eq!(words(&stream, &target), expected);
        }
        // An address that is no multiple of 16, and extents that do not fit one another.
        let source = zeros(&stream, 64);
        for (map, offset) in [(map.clone(), 4), (CudaTensorMap { strides: smallvec![], ..map }, 0)] {
            let phase = CudaPhase { tensor_maps: vec![map], ..cuda_phase("load_box", 1, 32) };
            // SAFETY: nothing of it runs.
            let kernel = unsafe { CudaKernel::new("load_box", LOAD, [phase], 0) };
            let mut batch = Batch::new();
            let slots = [batch.bind(target.clone()), batch.bind(source.clone())];
            // SAFETY: as above.
            unsafe { batch.launch(kernel, [(slots[0], 0), (slots[1], offset)], [0, 0]).unwrap() };
            assert!(matches!(stream.submit(batch), Err(RuntimeError::Driver { .. })));
        }
        stream.synchronize().unwrap();
    });
}
