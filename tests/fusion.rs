//! `Fusion<Mlir>`: Burn's fusion queues operations and replays them on us.
//!
//! It replays those of all threads on one. What must not be mixed with operations of other tests runs in a process of its own.

use crate::agreement::{check, float, float_in, ints};
use crate::support::child::{self, MARK};
use crate::support::devices::{Tested, VARIABLE, current, each, name};
use crate::support::program::program;
use crate::support::steps::{close, same, train};
use burn_autodiff::Autodiff;
use burn_backend::ops::{FloatTensorOps, TransactionOps, TransactionPrimitive};
use burn_backend::quantization::QuantScheme;
use burn_backend::tensor::FloatTensor;
use burn_backend::{Backend, FloatDType, TensorData, read_sync, s};
use burn_flex::Flex;
use burn_fusion::Fusion;
use burn_mlir::{Mlir, MlirDevice};

type Fused = Fusion<Mlir>;

impl Tested for Fused {
    fn current() -> MlirDevice {
        current()
    }
}

fn read(tensor: FloatTensor<Fused>) -> Result<Vec<f32>, String> {
    let data = read_sync(Fused::float_into_data(tensor)).map_err(|error| error.to_string())?;
    Ok(data.iter::<f32>().collect())
}

/// Runs one of the tests below that are ignored here.
fn alone(test: &str) {
    each(|| drop(child::run(&format!("fusion::{test}"), &[(VARIABLE, name(current()))])));
}

#[test]
#[ignore = "run alone by the next one"]
fn operations_twice() {
    check("program", &program::<Fused>(), &program::<Mlir>(), 0.0);
    println!("{MARK} equal");
}

#[test]
fn operations_give_the_bits_they_give_without() {
    alone("operations_twice");
}

#[test]
fn training_agrees_with_another_backend() {
    let theirs = train::<Autodiff<Flex>>(2);
    // Burn's fusion takes gelu's gradient from Burn's defaults, which approximate it.
    each(|| close(&train::<Autodiff<Fused>>(2), &theirs, 3e-5));
}

#[test]
#[ignore = "run alone by the next one"]
fn training_twice() {
    same(&train::<Autodiff<Fused>>(2), &train::<Autodiff<Fused>>(2));
    println!("{MARK} equal");
}

#[test]
fn training_gives_the_same_bits_every_time() {
    alone("training_twice");
}

#[test]
#[ignore = "run alone by the next one"]
fn draws() {
    fn draw<B: Tested>() -> TensorData {
        B::seed(&B::current(), 5);
        let noise = B::float_random(
            [1000].into(),
            burn_backend::Distribution::Default,
            &B::current(),
            FloatDType::F32,
        );
        read_sync(B::float_into_data(noise)).unwrap()
    }
    assert_eq!(draw::<Fused>(), draw::<Mlir>());
    println!("{MARK} equal");
}

#[test]
fn random_numbers_follow_the_seed() {
    alone("draws");
}

#[test]
fn threads_share_tensors() {
    each(|| {
        let device = current();
        let shared = Fused::float_full([64].into(), 3.0.into(), &device, FloatDType::F32);
        let sums = std::thread::scope(|scope| {
            let run = |index: i32| {
                let mut tensor = shared.clone();
                scope.spawn(move || {
                    for _ in 0..50 {
                        tensor = Fused::float_add_scalar(tensor, index.into());
                    }
                    tensor
                })
            };
            let threads: Vec<_> = (0..6).map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let total = sums.into_iter().reduce(Fused::float_add).unwrap();
        assert_eq!(read(total).unwrap(), [(6 * 3 + 50 * 15) as f32; 64]);
        assert_eq!(read(shared).unwrap(), [3.0; 64]);
    });
}

#[test]
#[ignore = "run alone by the next one"]
fn fails_and_goes_on() {
    let (a, b) = (float::<Fused, 1>([4], 1), float::<Fused, 1>([4], 2));
    let cut = Fused::float_slice(a.clone(), &[s![0..3]]);
    let table = float::<Fused, 2>([3, 2], 3);
    let good = Fused::float_add(a, b);
    // Found while the kernel runs, on the thread of Burn's fusion.
    let outside = Fused::float_select(table, 0, ints::<Fused, 1>([1], &[7]));
    let error = read(outside).unwrap_err();
    assert!(error.contains("index out of range"), "{error}");
    assert_eq!(read(good).unwrap().len(), 4);
    assert_eq!(read(cut).unwrap().len(), 3);
    Fused::sync(&current()).unwrap();
    println!("{MARK} went on");
}

/// An index out of range is reported to the next who reads of the same thread, which is that of Burn's fusion.
#[test]
fn errors_reach_the_reader() {
    alone("fails_and_goes_on");
}

#[test]
fn what_cannot_be_computed_is_an_error_of_the_read() {
    let absent = Fused::float_zeros([2].into(), &MlirDevice::Absent("mps"), FloatDType::F32);
    let error = read(Fused::float_exp(absent)).unwrap_err();
    assert!(error.contains("mps"), "{error}");
}

/// Burn's router, and so a remote client, has no quantised tensors.
#[test]
fn quantised_tensors_pass_through() {
    fn run<B: Tested>() -> [TensorData; 2] {
        let x = float::<B, 2>([6, 32], 1);
        let quantised = B::quantize_dynamic(x, &QuantScheme::default());
        let values = B::dequantize(B::q_swap_dims(quantised.clone(), 0, 1), FloatDType::F32);
        [read_sync(B::q_into_data(quantised)).unwrap(), read_sync(B::float_into_data(values)).unwrap()]
    }
    each(|| assert_eq!(run::<Fused>(), run::<Mlir>()));
}

#[test]
fn a_transaction_reads_through_fusion() {
    each(|| {
        let (x, n) = (float::<Fused, 2>([3, 4], 1), ints::<Fused, 1>([2], &[5, 6]));
        let sum = Fused::float_add(x.clone(), x.clone());
        let transaction = TransactionPrimitive::new(vec![sum, x], vec![], vec![n], vec![]);
        let data = read_sync(Fused::tr_execute(transaction)).unwrap();
        let [sum, x] = [0, 1].map(|index| data.read_floats[index].iter::<f32>().collect::<Vec<_>>());
        assert_eq!(sum, x.iter().map(|x| 2.0 * x).collect::<Vec<_>>());
        assert_eq!(data.read_ints[0].iter::<i32>().collect::<Vec<_>>(), [5, 6]);
    });
}

#[test]
#[ignore = "run alone by the next one"]
fn drops_a_tensor() {
    let device = current();
    const BYTES: u64 = 64 << 20;
    let in_use = || {
        Fused::sync(&device).unwrap();
        Fused::memory_pool_usage(&device).unwrap().bytes_in_use
    };
    let before = in_use();
    let held = Fused::float_full([BYTES as usize / 4].into(), 1.5.into(), &device, FloatDType::F32);
    assert!(in_use() >= before + BYTES / 2);
    drop(held);
    assert!(in_use() <= before, "memory is held after its tensor was dropped");
    println!("{MARK} freed");
}

#[test]
fn dropped_tensors_free_their_memory() {
    alone("drops_a_tensor");
}

#[test]
#[ignore = "run alone by the next one"]
fn captures_a_graph() {
    let device = current();
    let mut input = Fused::float_full([16].into(), 1.0.into(), &device, FloatDType::F32);
    let weight = float_in::<Fused, 1>([16], 1, 1.0, 2.0);
    let run = |x: &FloatTensor<Fused>| Fused::float_exp(Fused::float_mul(x.clone(), weight.clone()));
    Fused::sync(&device).unwrap();
    Fused::graph_prepare(&device).unwrap();
    for _ in 0..2 {
        drop(run(&input));
        Fused::sync(&device).unwrap();
    }
    Fused::graph_start_capture(&device).unwrap();
    let output = run(&input);
    let graph = Fused::graph_stop_capture(&device).unwrap();
    let new = Fused::float_full([16].into(), 0.5.into(), &device, FloatDType::F32);
    input = Fused::float_slice_assign(input, &[s![0..16]], new);
    Fused::sync(&device).unwrap();
    // SAFETY: this thread alone works on the graph's tensors.
    unsafe { Fused::graph_replay(&device, &graph).unwrap() };
    let expected = read(run(&input)).unwrap();
    assert_eq!(read(output).unwrap(), expected);
    println!("{MARK} replayed");
}

#[test]
fn graphs_are_captured_and_replayed() {
    alone("captures_a_graph");
}
