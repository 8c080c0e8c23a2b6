//! Philox 4×32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3").

use super::builder::{Builder, Int, Width};
use crate::emit::{Emitter, Value};

const ROUNDS: usize = 10;
const MULTIPLIERS: [i64; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [i64; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// A 32-bit unsigned number as the signed constant of the same bits.
fn bits(value: i64) -> i64 {
    i64::from(value as u32 as i32)
}

/// The first word of the block with counter (`index`, 0, 0) and key (`key`, `stream`): 32 random
/// bits that depend on nothing else.
pub(crate) fn philox(e: &mut Emitter, key: &Value, stream: &Value, index: &Value) -> Value {
    let low = e.op(format_args!("arith.trunci {index} : i64 to i32"));
    let count = e.op("arith.constant 32 : i64");
    let high = e.op(format_args!("arith.shrui {index}, {count} : i64"));
    let high = e.op(format_args!("arith.trunci {high} : i64 to i32"));
    Builder::with(e, |b| {
        let word = |name| b.int(Width::Single, name);
        let zero = word(&low).constant(0);
        let mut counter = [word(&low), word(&high), zero, zero];
        let mut key: [Int; 2] = [word(key), word(stream)];
        for round in 0..ROUNDS {
            if round > 0 {
                key = [key[0] + bits(WEYL[0]), key[1] + bits(WEYL[1])];
            }
            let (low0, high0) = counter[0].mul_extended(counter[0].constant(bits(MULTIPLIERS[0])));
            let (low1, high1) = counter[2].mul_extended(counter[2].constant(bits(MULTIPLIERS[1])));
            counter = [high1 ^ counter[1] ^ key[0], low1, high0 ^ counter[3] ^ key[1], low0];
        }
        counter[0].name()
    })
}
