//! The UCI optical digits: see DATA.md for their source and licence.

use burn::prelude::*;
use burn::tensor::TensorData;
use std::error::Error;

/// 8×8 pixels, 0 (paper) to 1 (ink), row by row.
pub type Pixels = [f32; 64];

/// Images with the digit each shows.
pub struct Digits {
    examples: Vec<(Pixels, u8)>,
}

/// Some examples of a set, by index.
pub struct Selection<'a> {
    digits: &'a Digits,
    indices: Vec<usize>,
}

/// A selection as tensors.
pub struct Batch {
    /// `[batch, 1, 8, 8]`.
    pub images: Tensor<4>,
    /// `[batch]`, 0 to 9.
    pub digits: Tensor<1, Int>,
}

impl Digits {
    /// Reads the file that is part of the program.
    pub fn load() -> Result<Self, Box<dyn Error>> {
        let example = |line: &str| -> Result<(Pixels, u8), Box<dyn Error>> {
            let values = line.split(',').map(str::parse::<u8>).collect::<Result<Vec<_>, _>>()?;
            let [pixels @ .., digit] = values.as_slice() else {
                return Err("an empty line".into());
            };
            let pixels: [u8; 64] = pixels.try_into()?;
            Ok((pixels.map(|ink| ink as f32 / 16.0), *digit))
        };
        let examples = include_str!("optdigits.csv").lines().map(example).collect::<Result<_, _>>()?;
        Ok(Self { examples })
    }

    /// Splits at random into a first part of `share` of the examples and the rest.
    pub fn split(mut self, share: f64, seed: u64) -> (Self, Self) {
        fastrand::Rng::with_seed(seed).shuffle(&mut self.examples);
        let rest = self.examples.split_off((share * self.examples.len() as f64) as usize);
        (self, Self { examples: rest })
    }

    /// Number of examples.
    pub fn len(&self) -> usize {
        self.examples.len()
    }

    /// Pixels and digit of one example.
    pub fn example(&self, index: usize) -> (&Pixels, u8) {
        let (pixels, digit) = &self.examples[index];
        (pixels, *digit)
    }

    /// Number of full batches.
    pub fn batches(&self, size: usize) -> usize {
        self.len() / size
    }

    /// Full batches in random order.
    pub fn shuffled(&self, size: usize, seed: u64) -> impl Iterator<Item = Selection<'_>> {
        let mut order: Vec<usize> = (0..self.len()).collect();
        fastrand::Rng::with_seed(seed).shuffle(&mut order);
        let batches: Vec<Vec<usize>> = order.chunks_exact(size).map(<[usize]>::to_vec).collect();
        batches.into_iter().map(|indices| Selection { digits: self, indices })
    }

    /// All examples in order, the last batch perhaps short.
    pub fn in_order(&self, size: usize) -> impl Iterator<Item = Selection<'_>> {
        (0..self.len()).step_by(size).map(move |start| {
            let indices = (start..self.len().min(start + size)).collect();
            Selection { digits: self, indices }
        })
    }
}

impl Selection<'_> {
    /// Which examples.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Copies the selection to a device.
    pub fn tensors(&self, device: &Device) -> Batch {
        let examples = || self.indices.iter().map(|&index| self.digits.example(index));
        let pixels: Vec<f32> = examples().flat_map(|(pixels, _)| *pixels).collect();
        let digits: Vec<i32> = examples().map(|(_, digit)| digit as i32).collect();
        let count = self.indices.len();
        Batch {
            images: Tensor::from_data(TensorData::new(pixels, [count, 1, 8, 8]), device),
            digits: Tensor::from_data(TensorData::new(digits, [count]), device),
        }
    }
}
