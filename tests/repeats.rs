//! Windows that repeat what was recorded before, and windows that begin as if they did.

use crate::support::devices::{current, each};
use burn_backend::ops::FloatTensorOps;
use burn_backend::{Scalar, TensorData, read_sync};
use burn_mlir::{Mlir, MlirTensor};

fn vector(values: &[f32]) -> MlirTensor {
    Mlir::float_from_data(TensorData::new(values.to_vec(), [values.len()]), &current())
}

fn read(tensor: MlirTensor) -> Result<Vec<f32>, String> {
    let data = read_sync(Mlir::float_into_data(tensor)).map_err(|error| error.to_string())?;
    Ok(data.iter::<f32>().collect())
}

/// One operation of a program: its kind and a scalar.
type Step = (u64, f32);

fn on_tensor(x: MlirTensor, (kind, scalar): Step) -> MlirTensor {
    let value = Scalar::from(scalar);
    match kind {
        0 => Mlir::float_add_scalar(x, value),
        1 => Mlir::float_sub_scalar(x, value),
        2 => Mlir::float_mul_scalar(x, value),
        3 => Mlir::float_clamp_min(x, value),
        4 => Mlir::float_abs(x),
        _ => Mlir::float_add(x.clone(), Mlir::float_neg(x)),
    }
}

fn on_number(x: f32, (kind, scalar): Step) -> f32 {
    match kind {
        0 => x + scalar,
        1 => x - scalar,
        2 => x * scalar,
        3 => x.max(scalar),
        4 => x.abs(),
        _ => x + -x,
    }
}

#[test]
fn programs_that_differ_anywhere_give_their_own_values() {
    each(|| {
        let mut random = fastrand::Rng::with_seed(7);
        let start = [1.5f32, -2.0, 0.25];
        let mut programs: Vec<Vec<Step>> =
            vec![(0..12).map(|_| (random.u64(0..6), random.u8(1..9) as f32 / 4.0)).collect()];
        let shared = vector(&start);
        for round in 0..150 {
            // Mostly what was run already, with other scalars, or a copy with one step more, less, or other.
            let mut program = programs[random.usize(0..programs.len())].clone();
            let at = random.usize(0..program.len());
            match random.u8(0..8) {
                0 => program[at].0 = random.u64(0..6),
                1 => program.truncate(at + 1),
                2 => program.push((random.u64(0..6), 0.5)),
                _ => program[at].1 = random.u8(1..9) as f32 / 8.0,
            }
            // The input may be overwritten, or not.
            let input = if random.bool() { shared.clone() } else { vector(&start) };
            let (mut tensor, mut numbers, mut held) = (input, start, Vec::new());
            for (index, step) in program.iter().enumerate() {
                tensor = on_tensor(tensor, *step);
                numbers = numbers.map(|x| on_number(x, *step));
                if random.u8(0..16) == 0 {
                    held.push((index, tensor.clone(), numbers));
                }
                if random.u8(0..64) == 0 {
                    assert_eq!(
                        read(tensor.clone()).unwrap(),
                        numbers,
                        "round {round}, {program:?} up to {index}"
                    );
                }
            }
            held.push((program.len(), tensor, numbers));
            for (index, tensor, numbers) in held {
                assert_eq!(read(tensor).unwrap(), numbers, "round {round}, {program:?} up to {index}");
            }
            if programs.len() < 6 {
                programs.push(program);
            }
        }
        assert_eq!(read(shared).unwrap(), start);
    });
}

#[test]
fn an_operation_that_does_not_fit_where_another_did_is_an_error() {
    each(|| {
        let x = vector(&[1.0, 2.0]);
        let add = |y: &[f32]| Mlir::float_add(Mlir::float_mul_scalar(x.clone(), 2.0.into()), vector(y));
        for round in 0..3 {
            for _ in 0..3 {
                assert_eq!(read(add(&[3.0, 4.0])).unwrap(), [5.0, 8.0]);
            }
            let error = read(add(&[1.0, 2.0, 3.0])).unwrap_err();
            assert!(error.contains("f32[2]") && error.contains("f32[3]"), "round {round}: {error}");
        }
    });
}

#[test]
fn a_long_loop_is_right_however_it_is_cut() {
    each(|| {
        for _ in 0..2 {
            let mut x = vector(&[0.0, 0.5]);
            for _ in 0..5000 {
                x = Mlir::float_add_scalar(x, 1.0.into());
            }
            assert_eq!(read(x).unwrap(), [5000.0, 5000.5]);
        }
    });
}

#[test]
fn values_outlive_the_thread_that_recorded_them() {
    each(|| {
        let device = current();
        let make = move |value: f32| {
            let data = TensorData::new(vec![value, -value], [2]);
            Mlir::float_add_scalar(Mlir::float_from_data(data, &device), 1.0.into())
        };
        for round in 0..3 {
            let value = round as f32;
            let [read_alone, operand, _never_read] =
                [0.0, 10.0, 20.0].map(|more| std::thread::spawn(move || make(value + more)).join().unwrap());
            assert_eq!(read(read_alone).unwrap(), [value + 1.0, 1.0 - value]);
            let sum = Mlir::float_add(make(value), operand);
            assert_eq!(read(sum).unwrap(), [2.0 * value + 12.0, -2.0 * value - 8.0]);
        }
    });
}

#[test]
fn only_handles_of_tensors_count_as_uses() {
    each(|| {
        let can_mut = |tensor: &MlirTensor| burn_backend::TensorMetadata::can_mut(tensor);
        let x = Mlir::float_exp(vector(&[1.0]));
        assert!(can_mut(&x), "recorded");
        let other = x.clone();
        assert!(!can_mut(&x), "two handles");
        drop(read(other));
        assert!(can_mut(&x), "computed");
    });
}
