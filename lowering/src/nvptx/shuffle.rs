//! Exchange of values between the threads of a warp.

use super::WARP;
use crate::emit::{Emitter, Value};

/// From which thread a value comes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shuffle {
    /// The one whose position differs in the bits of a distance.
    Butterfly(usize),
    /// The one that many positions before, within groups of a width (a power of two); the own value where
    /// there is none.
    Up(usize, usize),
    /// The last one of a group of a width.
    Last(usize),
}

/// The value of another thread; all threads of the warp must be here.
pub(super) fn shuffle(e: &mut Emitter, value: &Value, ty: &str, from: Shuffle) -> Value {
    let exchange = |e: &mut Emitter, value: &Value| {
        let segment = |width: usize| (WARP - width) << 8;
        let (kind, operand, clamp) = match from {
            Shuffle::Butterfly(distance) => ("bfly", distance, WARP - 1),
            Shuffle::Up(distance, width) => ("up", distance, segment(width)),
            Shuffle::Last(width) => ("idx", width - 1, segment(width) | (WARP - 1)),
        };
        let all = e.op("arith.constant -1 : i32");
        let operand = e.op(format_args!("arith.constant {operand} : i32"));
        let clamp = e.op(format_args!("arith.constant {clamp} : i32"));
        e.op(format_args!("nvvm.shfl.sync {kind} {all}, {value}, {operand}, {clamp} : i32 -> i32"))
    };
    match ty {
        "i32" => exchange(e, value),
        "f32" => {
            let bits = e.op(format_args!("arith.bitcast {value} : f32 to i32"));
            let other = exchange(e, &bits);
            e.op(format_args!("arith.bitcast {other} : i32 to f32"))
        }
        "i64" | "f64" => {
            let bits = if ty == "i64" {
                value.clone()
            } else {
                e.op(format_args!("arith.bitcast {value} : f64 to i64"))
            };
            let count = e.op("arith.constant 32 : i64");
            let low = e.op(format_args!("arith.trunci {bits} : i64 to i32"));
            let high = e.op(format_args!("arith.shrui {bits}, {count} : i64"));
            let high = e.op(format_args!("arith.trunci {high} : i64 to i32"));
            let (low, high) = (exchange(e, &low), exchange(e, &high));
            let low = e.op(format_args!("arith.extui {low} : i32 to i64"));
            let high = e.op(format_args!("arith.extui {high} : i32 to i64"));
            let high = e.op(format_args!("arith.shli {high}, {count} : i64"));
            let other = e.op(format_args!("arith.ori {high}, {low} : i64"));
            if ty == "i64" { other } else { e.op(format_args!("arith.bitcast {other} : i64 to f64")) }
        }
        _ => {
            let wide = e.op(format_args!("arith.extui {value} : {ty} to i32"));
            let other = exchange(e, &wide);
            e.op(format_args!("arith.trunci {other} : i32 to {ty}"))
        }
    }
}
