//! Whether a result is right.

use super::numbers::{Numbers, format};
use super::operation::Tolerance;
use burn_backend::{DType, TensorData};

/// The elements of data.
pub fn numbers(data: &TensorData) -> Numbers {
    match data.dtype() {
        DType::Bool(_) => Numbers::Ints(data.iter::<bool>().map(|v| v as i128).collect()),
        DType::U64 => Numbers::Ints(data.iter::<u64>().map(|v| v as i128).collect()),
        dtype if dtype.is_float() => Numbers::Floats(data.iter::<f64>().collect()),
        _ => Numbers::Ints(data.iter::<i64>().map(|v| v as i128).collect()),
    }
}

/// The distance between neighbours at a value.
pub fn ulp(value: f64, dtype: DType) -> f64 {
    let (mantissa, least, most) = format(dtype);
    let exponent =
        if value == 0.0 { least } else { (value.abs().min(most).log2().floor() as i32).max(least) };
    // `powi` takes the reciprocal of a power, which subnormals of f64 do not survive.
    ((exponent - mantissa) as f64).exp2()
}

/// How far each element may be off. `magnitude` has the results for operands without signs.
fn bound(
    tolerance: Tolerance,
    dtype: DType,
    exact: f64,
    magnitude: f64,
    largest: f64,
    elements: usize,
) -> f64 {
    let accumulated = if dtype == DType::F64 { 2f64.powi(-52) } else { 2f64.powi(-23) };
    // In f64 the reference rounds as well, and its sums are long chains. Products on the way may vanish.
    let twice = if dtype == DType::F64 { 8.0 } else { 1.0 };
    let sum = |factor: f64, unit: f64| {
        ulp(exact, dtype) + twice * factor * unit * magnitude + 4.0 * ulp(0.0, dtype)
    };
    let scaled = |factor: f64| {
        let unit = if dtype == DType::Flex32 { 2f64.powi(-10) } else { 2f64.powi(-format(dtype).0) };
        twice * factor * unit * exact.abs().max(largest).max(1.0)
    };
    match tolerance {
        Tolerance::Ulps(units) => units * ulp(exact, dtype),
        Tolerance::Sum(factor) => sum(factor, accumulated),
        Tolerance::Stored(factor) => {
            let unit = if dtype == DType::Flex32 { 2f64.powi(-10) } else { 2f64.powi(-format(dtype).0) };
            sum(8.0, accumulated) + factor * unit * magnitude
        }
        Tolerance::Products(factor) if dtype == DType::Flex32 => sum(factor, 2f64.powi(-10)),
        Tolerance::Products(factor) => sum(factor, accumulated),
        Tolerance::Scaled(factor) => scaled(factor),
        Tolerance::Cancelling(factor) => scaled(factor * (elements as f64).sqrt().max(4.0)),
    }
}

/// Whether a float is as near as it has to be; values beyond the largest of the type are infinite.
fn close(actual: f64, exact: f64, dtype: DType, bound: f64) -> bool {
    let most = format(dtype).2;
    if actual.is_nan() || exact.is_nan() {
        return actual.is_nan() && exact.is_nan();
    }
    let overflows = exact.abs() + bound > most;
    actual == exact
        || overflows && !exact.is_nan() && actual == f64::INFINITY.copysign(exact)
        || exact.is_finite() && (actual - exact).abs() <= bound
}

/// Says where a result of operands of so many `elements` is wrong.
pub fn differences(
    actual: &TensorData,
    exact: &Numbers,
    magnitude: Option<&Numbers>,
    tolerance: Tolerance,
    dtype: DType,
    elements: usize,
) -> Result<(), String> {
    let found = numbers(actual);
    match (&found, exact) {
        (Numbers::Floats(found), Numbers::Floats(exact)) => {
            if found.len() != exact.len() {
                return Err(format!("{} elements instead of {}", found.len(), exact.len()));
            }
            let largest = exact.iter().filter(|v| v.is_finite()).fold(0f64, |a, v| a.max(v.abs()));
            for (at, (&found, &exact)) in found.iter().zip(exact).enumerate() {
                let magnitude = match magnitude {
                    Some(Numbers::Floats(magnitudes)) => magnitudes[at].abs(),
                    _ => exact.abs(),
                };
                let bound = bound(tolerance, dtype, exact, magnitude, largest, elements);
                if !close(found, exact, dtype, bound) {
                    return Err(format!("element {at} is {found:e}, should be {exact:e} within {bound:e}"));
                }
            }
            Ok(())
        }
        (Numbers::Ints(found), Numbers::Ints(exact)) => {
            if found.len() != exact.len() {
                return Err(format!("{} elements instead of {}", found.len(), exact.len()));
            }
            match found.iter().zip(exact).position(|(a, b)| a != b) {
                Some(at) => Err(format!("element {at} is {}, should be {}", found[at], exact[at])),
                None => Ok(()),
            }
        }
        _ => Err(format!("a result of {:?} is of another kind than the reference", actual.dtype())),
    }
}
