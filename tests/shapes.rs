//! Shapes that vary: later ones of a structure share kernels whose extents and strides are arguments.

use crate::agreement::{Results, check, float, float_in, int_in};
use crate::support::child::{self, MARK};
use crate::support::devices::{self, Tested};
use burn_backend::ops::{ActivationOps, FloatTensorOps};
use burn_backend::{FloatDType, IntDType, Scalar, Shape, s};
use burn_mlir::{Mlir, stats};

const VARIABLE: &str = "BURN_MLIR_SHAPES";

/// Lengths about the vectors of each type, the steps in which extents are known, and the sizes of tiles.
const LENGTHS: &[usize] = &[9, 17, 31, 64, 65, 129, 512, 513];

/// Maps, reductions, contractions and their views at a length.
fn program<B: Tested>(length: usize) -> Results {
    let mut results = Results::default();
    let mut add = |name: &str, tensor| results.float::<B>(format!("{name} at {length}"), tensor);
    let x = float::<B, 2>([length, 24], 1);
    let wide = float::<B, 2>([24, length], 2);
    let weight = float::<B, 2>([24, 40], 3);
    let bias = float::<B, 2>([1, 40], 4);
    let scale = float_in::<B, 2>([length, 1], 5, 0.5, 2.0);
    let square = float::<B, 3>([3, length, length], 6);

    add("map", B::float_tanh(B::float_mul(x.clone(), scale.clone())));
    add("columns", B::float_add(B::float_swap_dims(wide.clone(), 0, 1), x.clone()));
    add("flipped", B::float_add(B::float_flip(x.clone(), &[0]), x.clone()));
    add("part", B::float_exp(B::float_slice(x.clone(), &[s![1..;3], s![2..20]])));
    add("joined", B::float_cat(vec![x.clone(), B::float_neg(x.clone())], 0));
    add("rows", B::float_sum_dim(B::float_mul(x.clone(), scale.clone()), 1));
    add("sums of columns", B::float_sum_dim(B::float_exp(x.clone()), 0));
    add("largest", B::float_max_dim(wide.clone(), 1));
    add("product", B::float_prod_dim(B::float_mul_scalar(scale.clone(), Scalar::Float(0.9)), 0));
    add("softmax", B::softmax(B::float_mul_scalar(square.clone(), Scalar::Float(3.0)), 2));
    add("softmax of columns", B::softmax(square.clone(), 1));
    add("mean", B::float_mean(square.clone()));

    let hidden = B::float_add(B::float_matmul(x.clone(), weight.clone()), bias);
    add("linear", B::gelu(hidden.clone()));
    add("scores", B::float_matmul(x.clone(), wide.clone()));
    add("scores of views", B::float_matmul(hidden.clone(), B::float_swap_dims(hidden.clone(), 0, 1)));
    add("over the length", B::float_matmul(wide.clone(), x.clone()));
    add("batched", B::float_matmul(square.clone(), B::float_swap_dims(square.clone(), 1, 2)));
    let tall = B::float_reshape(x.clone(), Shape::new([1, length, 24]));
    add("shared factor", B::float_matmul(square, B::float_repeat_dim(tall, 0, 3)));
    let one = B::float_slice(x.clone(), &[s![..1], s![..]]);
    add("one row", B::float_matmul(one, wide.clone()));

    let places = int_in::<B, 1>([length], 7, 0, 24);
    results.float::<B>(format!("picked at {length}"), B::float_select(weight.clone(), 0, places.clone()));
    let row = B::int_reshape(places.clone(), Shape::new([length, 1]));
    let column = B::int_reshape(B::int_cast(places.clone(), IntDType::I32), Shape::new([1, length]));
    results.int::<B>(format!("integers at {length}"), B::int_matmul(row, column));
    results.int::<B>(format!("sum of integers at {length}"), B::int_sum(places));
    results.int::<B>(format!("positions at {length}"), B::float_argmax(wide.clone(), 1, IntDType::I32));
    let doubles = B::float_cast(x, FloatDType::F64);
    results.float::<B>(
        format!("doubles at {length}"),
        B::float_matmul(doubles, B::float_cast(wide, FloatDType::F64)),
    );
    results
}

#[test]
#[ignore = "run alone by the test that sets for how many shapes kernels are made"]
fn values_at_all_lengths() {
    for &length in LENGTHS {
        check("lengths", &program::<Mlir>(length), &program::<burn_flex::Flex>(length), 2e-4);
    }
    println!("{MARK} done");
}

#[test]
fn opened_kernels_give_the_right_values() {
    child::run("shapes::values_at_all_lengths", &[(VARIABLE, "0"), (devices::VARIABLE, "cpu")]);
}

/// One layer and its softmax, read.
fn layer(length: usize) {
    let rows = Mlir::float_matmul(float::<Mlir, 2>([length, 24], 1), float::<Mlir, 2>([24, 40], 3));
    Results::default().float::<Mlir>("rows", Mlir::softmax(rows, 1));
}

#[test]
#[ignore = "run alone by the next one, as kernels are counted"]
fn counts_kernels_over_lengths() {
    for length in 65..125 {
        let before = stats().kernels_compiled;
        layer(length);
        println!("{MARK} {}", stats().kernels_compiled - before);
    }
}

#[test]
fn lengths_share_their_kernels() {
    let compiled = |own| -> Vec<u64> {
        let variables = [("BURN_MLIR_CACHE", "off"), (VARIABLE, own), (devices::VARIABLE, "cpu")];
        let lines = child::run("shapes::counts_kernels_over_lengths", &variables);
        lines.iter().map(|line| line.parse().unwrap()).collect()
    };
    let opened = compiled("2");
    assert!(opened[0] > 0 && opened[1] > 0, "the first two lengths have kernels of their own: {opened:?}");
    assert_eq!(opened[3..].iter().sum::<u64>(), 0, "kernels compiled by each length: {opened:?}");
    let own = compiled("never");
    assert!(own.iter().all(|&count| count > 0), "kernels compiled by each length: {own:?}");
}
