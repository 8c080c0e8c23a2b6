//! Transposition of square blocks in registers.

use crate::emit::{Emitter, Value};

/// Emits the transposition of `rows`, as many vectors of `element` as each has lanes, a power of two:
/// blocks off the diagonal are exchanged, halves of the matrix first, single elements last.
pub(crate) fn transpose(e: &mut Emitter, mut rows: Vec<Value>, element: &str) -> Vec<Value> {
    let lanes = rows.len();
    let vector = format!("vector<{lanes}x{element}>");
    let mut size = lanes / 2;
    while size > 0 {
        for upper in (0..lanes).filter(|row| row & size == 0) {
            let lower = upper | size;
            let first: Vec<usize> =
                (0..lanes).map(|lane| if lane & size == 0 { lane } else { lanes + lane - size }).collect();
            let second: Vec<usize> =
                (0..lanes).map(|lane| if lane & size == 0 { lane + size } else { lanes + lane }).collect();
            let exchange = |e: &mut Emitter, mask: Vec<usize>| {
                e.op(format_args!(
                    "vector.shuffle {}, {} {mask:?} : {vector}, {vector}",
                    rows[upper], rows[lower]
                ))
            };
            let exchanged = (exchange(e, first), exchange(e, second));
            (rows[upper], rows[lower]) = exchanged;
        }
        size /= 2;
    }
    rows
}
