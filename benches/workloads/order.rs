//! Sorts, prefix sums and updates at indices.

use crate::Work;
use crate::check::{Tolerance, Values, agrees};
use crate::kernels::{normal, work};
use burn::prelude::*;
use burn::tensor::{IndexingUpdateOp, TensorData};

pub const MILLION: usize = 1 << 20;

/// The elements of a row, the smallest first, each with its position; equal ones as they came.
fn sorted(values: &Values, start: usize, count: usize) -> Vec<(usize, f64)> {
    let mut pairs: Vec<_> = values.range(start, count).enumerate().collect();
    pairs.sort_by(|a, b| a.1.total_cmp(&b.1));
    pairs
}

pub fn sort(device: &Device, count: usize) -> Work {
    let x: Tensor<1> = normal([count], device);
    let expected = sorted(&Values::of(&x), 0, count);
    work(device, move || x.clone().sort(0), 0.0, move |i| expected[i].1)
}

pub fn argsort(device: &Device) -> Work {
    let x: Tensor<1> = normal([MILLION], device);
    let expected = sorted(&Values::of(&x), 0, MILLION);
    let compute = move || x.clone().argsort(0);
    let checked = compute.clone();
    let check = move || agrees(&Values::of_ints(&checked()), 0.0, |i| expected[i].0 as f64);
    Work::new(device, compute, check)
}

pub fn topk(device: &Device) -> Work {
    let (rows, n, k) = (4096, 1024, 16);
    let x: Tensor<2> = normal([rows, n], device);
    let xs = Values::of(&x);
    let compute = move || x.clone().topk(k, 1);
    work(device, compute, 0.0, move |i| sorted(&xs, i / k * n, n)[n - 1 - i % k].1)
}

pub fn cumsum(device: &Device, [rows, n]: [usize; 2]) -> Work {
    let x: Tensor<2> = normal([rows, n], device);
    let xs = Values::of(&x);
    let compute = move || x.clone().cumsum(1);
    // Sums are as large as the square root of the number of elements.
    let tolerance = Tolerance { relative: 1e-5, unit: (n as f64).sqrt() };
    work(device, compute, tolerance, move |i| xs.range(i / n * n, i % n + 1).sum())
}

/// Numbers below `limit` that look random.
fn random_indices(count: usize, limit: usize) -> Vec<i32> {
    let mut random = fastrand::Rng::with_seed(1);
    (0..count).map(|_| random.usize(..limit) as i32).collect()
}

/// What updates make of an element, in f64.
fn updated(op: IndexingUpdateOp, old: f64, update: f64) -> f64 {
    match op {
        IndexingUpdateOp::Assign => update,
        IndexingUpdateOp::Add => old + update,
        IndexingUpdateOp::Mul => old * update,
        IndexingUpdateOp::Min => old.min(update),
        IndexingUpdateOp::Max => old.max(update),
    }
}

/// A million updates at random places of a million.
pub fn scatter(device: &Device, op: IndexingUpdateOp) -> Work {
    scatter_into(device, op, MILLION)
}

/// A million updates at random places of the first few of a million.
pub fn scatter_into(device: &Device, op: IndexingUpdateOp, few: usize) -> Work {
    let (x, updates): (Tensor<1>, Tensor<1>) = (normal([MILLION], device), normal([MILLION], device));
    let places = random_indices(MILLION, few);
    let mut sums: Vec<f64> = Values::of(&x).range(0, MILLION).collect();
    for (&place, update) in places.iter().zip(Values::of(&updates).range(0, MILLION)) {
        let old = &mut sums[place as usize];
        *old = updated(op, *old, update);
    }
    let indices: Tensor<1, Int> = Tensor::from_data(TensorData::new(places, [MILLION]), device);
    let compute = move || x.clone().scatter(0, indices.clone(), updates.clone(), op);
    // Sums of many are as large as the square root of their number.
    let tolerance = Tolerance { relative: 1e-5, unit: ((MILLION / few) as f64).sqrt() };
    work(device, compute, tolerance, move |i| sums[i])
}

/// What the gradient of an embedding is: rows added to a table, at the ids of the lookup.
pub fn select_add(device: &Device) -> Work {
    let (rows, d, count) = (50257, 768, 8 * 512);
    let updates: Tensor<2> = normal([count, d], device);
    let ids = random_indices(count, rows);
    let us = Values::of(&updates);
    let indices: Tensor<1, Int> = Tensor::from_data(TensorData::new(ids.clone(), [count]), device);
    let zeros = Tensor::<2>::zeros([rows, d], device);
    let compute =
        move || zeros.clone().select_assign(0, indices.clone(), updates.clone(), IndexingUpdateOp::Add);
    let expected = move |i: usize| {
        let hits = ids.iter().enumerate().filter(|(_, id)| **id as usize == i / d);
        hits.map(|(n, _)| us.at(n * d + i % d)).sum()
    };
    work(device, compute, 1e-5, expected)
}
