//! What kernels compute, tried on the [machine](crate::machine) against loops in Rust.

mod functions;
mod order_free;
mod rows;
mod scatters;
mod sequences;

use crate::machine::Buffer;

/// A few numbers that look random.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    /// Multiples of 1/4 in -8..8: their sums are exact in any order.
    fn float(&mut self) -> f32 {
        (self.next() % 64) as f32 / 4.0 - 8.0
    }

    fn floats(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.float()).collect()
    }
}

fn f32s(values: &[f32]) -> Buffer {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn i32s(values: &[i32]) -> Buffer {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

fn to_f32s(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn to_i32s(bytes: &[u8]) -> Vec<i32> {
    bytes.chunks(4).map(|bytes| i32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
