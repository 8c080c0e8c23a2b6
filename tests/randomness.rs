//! Random tensors: their moments, their ranges, and that a seed repeats them.

use crate::support::devices::{current, each};
use burn_backend::ops::{FloatTensorOps, IntTensorOps};
use burn_backend::{Backend, Distribution, FloatDType, IntDType, Shape, TensorData, read_sync};
use burn_mlir::Mlir;
use std::sync::Mutex;

/// Seeds are a property of the device: tests that draw take turns.
static TURN: Mutex<()> = Mutex::new(());

const COUNT: usize = 40_000;

fn draw(seed: u64, distribution: Distribution) -> Vec<f64> {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    Mlir::seed(&current(), seed);
    let shape = Shape::new([COUNT]);
    let tensor = Mlir::float_random(shape, distribution, &current(), FloatDType::F32);
    let data: TensorData = read_sync(Mlir::float_into_data(tensor)).unwrap();
    data.iter::<f64>().collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    mean(&values.iter().map(|v| (v - centre).powi(2)).collect::<Vec<_>>()).sqrt()
}

#[test]
fn a_seed_repeats_and_another_does_not() {
    each(|| {
        assert_eq!(draw(7, Distribution::Default), draw(7, Distribution::Default));
        assert_ne!(draw(7, Distribution::Default), draw(8, Distribution::Default));
    });
}

#[test]
fn uniform_fills_its_range() {
    each(|| {
        let values = draw(1, Distribution::Uniform(-3.0, 5.0));
        assert!(values.iter().all(|v| (-3.0..5.0).contains(v)));
        // Standard error of the mean: 8/√12/√40000 = 0.0115.
        assert!((mean(&values) - 1.0).abs() < 0.06);
        assert!((deviation(&values) - 8.0 / 12f64.sqrt()).abs() < 0.05);
    });
}

#[test]
fn normal_has_its_moments() {
    each(|| {
        let values = draw(2, Distribution::Normal(2.0, 3.0));
        assert!(values.iter().all(|v| v.is_finite()));
        assert!((mean(&values) - 2.0).abs() < 0.08);
        assert!((deviation(&values) - 3.0).abs() < 0.06);
        let beyond = values.iter().filter(|v| (*v - 2.0).abs() > 6.0).count() as f64;
        // P(|z| > 2) = 0.0455.
        assert!((beyond / COUNT as f64 - 0.0455).abs() < 0.006);
    });
}

#[test]
fn bernoulli_has_its_probability() {
    each(|| {
        let values = draw(3, Distribution::Bernoulli(0.3));
        assert!(values.iter().all(|v| *v == 0.0 || *v == 1.0));
        assert!((mean(&values) - 0.3).abs() < 0.012);
    });
}

#[test]
fn integers_reach_both_ends() {
    each(|| {
        let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
        Mlir::seed(&current(), 4);
        let distribution = Distribution::Uniform(-2.0, 4.0);
        let tensor = Mlir::int_random(Shape::new([COUNT]), distribution, &current(), IntDType::I32);
        let data = read_sync(Mlir::int_into_data(tensor)).unwrap();
        let mut counts = [0usize; 6];
        for value in data.iter::<i64>() {
            counts[(value + 2) as usize] += 1;
        }
        // Six equal shares: 6667 ± 5 standard deviations of 74.5.
        assert!(counts.iter().all(|&count| count.abs_diff(COUNT / 6) < 373), "{counts:?}");
    });
}
