//! The error function.

use super::builder::Float;
use super::exp::{Reduced, expm1_rest, power_of_two, reduce};

/// `erf(x)/x - 1` over `x²` for `x` up to 1, minimax for the error relative to the function: 2^-29.
const SMALL_SINGLE: [f64; 7] = [
    1.283791661e-01,
    -3.761262596e-01,
    1.128358543e-01,
    -2.685381286e-02,
    5.188327748e-03,
    -8.010195452e-04,
    7.853863644e-05,
];
/// The same with error 2^-62.
const SMALL_DOUBLE: [f64; 13] = [
    0.1283791670955126,
    -0.3761263890318375,
    0.11283791670954857,
    -0.026866170645072903,
    0.005223977624780955,
    -0.0008548326978747117,
    0.00012055331037074749,
    -1.4925593511009935e-05,
    1.6460972881713024e-06,
    -1.6350025893456055e-07,
    1.465788425179212e-08,
    -1.136568260684932e-09,
    5.945289229226662e-11,
];
/// `log(1 - erf t)` over `t - 1` for `t` from 1 to 4, minimax for the error relative to `erf t`: 2^-29.
const LARGE_SINGLE: [f64; 7] = [
    -1.849605560e+00,
    -2.638966799e+00,
    -8.431175947e-01,
    -4.150349647e-02,
    9.895451367e-03,
    -1.829371322e-03,
    1.863748475e-04,
];
/// The same for `t` from 1 to 6 with error 2^-57.
const LARGE_DOUBLE: [f64; 18] = [
    -1.8496055099332482,
    -2.6389675142347775,
    -0.8431072563593295,
    -0.041561098026692785,
    0.010033825195191946,
    -0.0019779013107262544,
    0.00023731679628581057,
    2.62953903922996e-05,
    -2.7197263378490997e-05,
    9.669128710247101e-06,
    -2.1297806403020545e-06,
    2.032907833087891e-07,
    5.879461737682984e-08,
    -3.368158136531231e-08,
    8.594079558619593e-09,
    -1.3320434268934573e-09,
    1.2064660995709294e-10,
    -4.925519989180423e-12,
];

/// A polynomial up to 1, beyond it `1 - e^g` with a polynomial `g`.
pub(super) fn erf(x: Float<'_>) -> Float<'_> {
    let width = x.width();
    let small = x.fma((x * x).polynomial(width.pick(&SMALL_SINGLE, &SMALL_DOUBLE)), x);
    // From here on the result is 1.
    let size = x.abs().at_most(width.pick(4.0, 6.0));
    let g = (size - 1.0).polynomial(width.pick(&LARGE_SINGLE, &LARGE_DOUBLE));
    let Reduced { rest, exponent } = reduce(g);
    let power = power_of_two(exponent, width, 0);
    let large = (-power).fma(expm1_rest(rest), x.constant(1.0) - power);
    size.gt(x.constant(1.0)).select(large, small).copysign(x)
}
