//! The softmax of a block of scores, as it goes along.

use super::code::Ty;
use super::consumer::{Place, Rows};
use super::kernel::{Kernel, Tile};
use crate::emit::Value;

/// log₂ e.
pub(super) const LOG2_E: &str = "0x3FB8AA3B";

impl Kernel<'_> {
    /// Exponentials of scores less the largest of their row so far, the rows' new state, and, with a state
    /// `before`, what sums so far are to be multiplied with. Scores are changed first as `block` needs it.
    pub fn softmax(
        &mut self,
        place: &Place,
        mut scores: Vec<Value>,
        block: Option<(&Tile, Value)>,
        before: Option<&Rows>,
    ) -> (Vec<Value>, Rows, Option<[Value; 2]>) {
        if let Some((tile, number)) = block {
            scores = self.edit(place, scores, tile, &number);
        }
        let max = [0, 1].map(|row| {
            let largest = self.combine(&of_row(&scores, row), Self::larger);
            match before {
                Some(before) => self.larger(&largest, &before.max[row]),
                None => largest,
            }
        });
        let max = max.map(|max| self.across(max, Self::larger));
        // A row that sees no key yet subtracts 0, so that its exponentials are 0, not NaN.
        let shift = [0, 1].map(|row| {
            let shift = self.c.fmul(&max[row], &place.negative);
            let (unseen, zero) = (self.c.f32("0xFF800000"), self.c.f32("0.0"));
            let none = self.c.op(format_args!("arith.cmpf oeq, {}, {unseen} : f32", max[row]));
            self.c.select(&none, &zero, &shift, "f32")
        });
        let factors = before.map(|before| {
            [0, 1].map(|row| {
                let below = self.c.fma(&before.max[row], &place.factor, &shift[row]);
                self.c.approximate("ex2", &below)
            })
        });
        let weights: Vec<Value> = (scores.iter().enumerate())
            .map(|(index, score)| {
                let below = self.c.fma(score, &place.factor, &shift[index / 2 % 2]);
                self.c.approximate("ex2", &below)
            })
            .collect();
        let sum = [0, 1].map(|row| {
            let sum = self.combine(&of_row(&weights, row), Self::sum);
            match (before, &factors) {
                (Some(before), Some(factors)) => self.c.fma(&before.sum[row], &factors[row], &sum),
                _ => sum,
            }
        });
        (weights, Rows { max, sum }, factors)
    }

    fn larger(&mut self, a: &Value, b: &Value) -> Value {
        self.c.fmax(a, b)
    }

    fn sum(&mut self, a: &Value, b: &Value) -> Value {
        self.c.fadd(a, b)
    }

    /// A reduction in some independent chains.
    fn combine(&mut self, values: &[Value], f: fn(&mut Self, &Value, &Value) -> Value) -> Value {
        let count = self.tiling.chains.min(values.len());
        let mut chains: Vec<Value> = values[..count].to_vec();
        for (index, value) in values.iter().enumerate().skip(count) {
            chains[index % count] = f(self, &chains[index % count], value);
        }
        while chains.len() > 1 {
            let pair = |pair: &[Value]| match pair {
                [a, b] => f(self, a, b),
                rest => rest[0].clone(),
            };
            chains = chains.chunks(2).map(pair).collect();
        }
        chains.swap_remove(0)
    }

    /// A reduction over the four threads that share a row.
    pub fn across(&mut self, mut value: Value, f: fn(&mut Self, &Value, &Value) -> Value) -> Value {
        for lane in [1, 2] {
            let other = self.c.shuffle("bfly", &value, lane, Ty::F32);
            value = f(self, &value, &other);
        }
        value
    }

    /// The sums of exponentials of whole rows.
    pub fn row_sums(&mut self, rows: &Rows) -> [Value; 2] {
        rows.sum.clone().map(|sum| self.across(sum, Self::sum))
    }

    /// Weights in pairs of 16 bits: the registers of a block's scores in this order are those of the left
    /// operand of the next product.
    pub fn packed(&mut self, weights: &[Value]) -> Vec<Value> {
        weights.chunks_exact(2).map(|pair| self.pair(&pair[0], &pair[1])).collect()
    }

    /// Two values in 16 bits each.
    pub fn pair(&mut self, low: &Value, high: &Value) -> Value {
        let text = format!("cvt.rn.{}x2.f32 $0, $1, $2;", self.element());
        self.c.asm_pure(&text, Ty::I32, &[(high.clone(), Ty::F32), (low.clone(), Ty::F32)])
    }
}

/// A thread's values of one of its two rows.
fn of_row(values: &[Value], row: usize) -> Vec<Value> {
    values
        .iter()
        .enumerate()
        .filter(|(index, _)| index / 2 % 2 == row)
        .map(|(_, value)| value.clone())
        .collect()
}
