//! A program with operations of each family, for backends around ours.

use crate::agreement::{Results, bools, float, float_in, int_in};
use crate::support::devices::Tested;
use burn_backend::tensor::IndexingUpdateOp;
use burn_backend::{BoolDType, FloatDType, Scalar, s};

/// Operations of each family, with results that are used again and results that are not.
pub fn program<B: Tested>() -> Results {
    let mut results = Results::default();
    let x = float::<B, 2>([6, 10], 1);
    let y = float_in::<B, 2>([10, 6], 2, 0.5, 2.0);
    let product = B::float_matmul(x.clone(), y.clone());
    results.float::<B>("product", product.clone());
    let chain = B::float_tanh(B::float_add_scalar(B::float_mul(x.clone(), x.clone()), Scalar::Float(0.5)));
    results.float::<B>("chain", chain.clone());
    results.float::<B>("sum", B::float_sum_dim(chain.clone(), 0));
    results.float::<B>("half", B::float_cast(B::float_cast(chain.clone(), FloatDType::F16), FloatDType::F32));
    results
        .float::<B>("view", B::float_slice(B::float_swap_dims(chain.clone(), 0, 1), &[s![1..;2], s![..3]]));
    results.float::<B>("joined", B::float_cat(vec![x.clone(), chain.clone()], 1));
    results.float::<B>("sorted", B::float_sort(chain.clone(), 1, true));
    results.float::<B>("prefixes", B::float_cumsum(chain.clone(), 1));
    let places = int_in::<B, 1>([4], 3, 0, 6);
    results.float::<B>("picked", B::float_select(chain.clone(), 0, places.clone()));
    let values = float::<B, 2>([4, 10], 4);
    results.float::<B>(
        "added",
        B::float_select_assign(chain.clone(), 0, places.clone(), values, IndexingUpdateOp::Add),
    );
    results.int::<B>("places", B::int_add(places.clone(), places));
    let positive = B::float_greater_elem(x.clone(), 0.into(), BoolDType::Native);
    results.bool::<B>("positive", B::bool_not(positive.clone()));
    results.float::<B>("masked", B::float_mask_fill(x, positive, (-1).into()));
    results.bool::<B>("any", B::bool_any(bools::<B, 2>([2, 2], &[false, true, false, false])));
    results
}
