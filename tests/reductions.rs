//! Reductions, prefix combinations and sorting.

use crate::agreement::{I32, agree, float, float_in, floats, int_in};
use burn_backend::{BoolDType, IntDType, Shape};

agree! {
    fn over_axes<B>(results) within 1e-5 {
        let x = float::<B, 3>([5, 6, 17], 1);
        for dim in 0..3 {
            results.float::<B>(format!("sum {dim}"), B::float_sum_dim(x.clone(), dim));
            results.float::<B>(format!("mean {dim}"), B::float_mean_dim(x.clone(), dim));
            results.float::<B>(format!("prod {dim}"), B::float_prod_dim(x.clone(), dim));
            results.float::<B>(format!("max {dim}"), B::float_max_dim(x.clone(), dim));
            results.float::<B>(format!("min {dim}"), B::float_min_dim(x.clone(), dim));
            results.float::<B>(format!("max abs {dim}"), B::float_max_abs_dim(x.clone(), dim));
            results.int::<B>(format!("argmax {dim}"), B::float_argmax(x.clone(), dim, I32));
            results.int::<B>(format!("argmin {dim}"), B::float_argmin(x.clone(), dim, I32));
            let (values, indices) = B::float_max_dim_with_indices(x.clone(), dim, I32);
            results.float::<B>("max with indices", values);
            results.int::<B>("indices of max", indices);
        }
        results.float::<B>("sum over two", B::float_sum_dims(x.clone(), &[0, 2]));
    }

    fn of_everything<B>(results) within 1e-5 {
        let x = float::<B, 2>([13, 29], 2);
        results.float::<B>("sum", B::float_sum(x.clone()));
        results.float::<B>("mean", B::float_mean(x.clone()));
        results.float::<B>("max", B::float_max(x.clone()));
        results.float::<B>("min", B::float_min(x));
        let near_one = float_in::<B, 1>([30], 3, 0.8, 1.2);
        results.float::<B>("prod", B::float_prod(near_one));
        let i = int_in::<B, 2>([6, 7], 4, -9, 9);
        results.int::<B>("int sum", B::int_sum(i.clone()));
        results.int::<B>("int max", B::int_max(i.clone()));
        results.int::<B>("int sum 1", B::int_sum_dim(i, 1));
    }

    fn nan_and_ties<B>(results) within 0.0 {
        let x = floats::<B>(&[1.0, 3.0, 3.0, -2.0, -2.0]);
        results.int::<B>("first maximum", B::float_argmax(x.clone(), 0, I32));
        results.int::<B>("first minimum", B::float_argmin(x, 0, I32));
    }

    fn positions_in_narrow_integers<B>(results) within 0.0 {
        let x = || B::int_cast(B::int_arange(-290..10, &B::current(), I32), IntDType::I8);
        let largest = B::int_equal_elem(x(), 127.into(), BoolDType::Native);
        let x = B::int_mask_fill(x(), largest, 0.into());
        results.int::<B>("maximum", B::int_argmax(x.clone(), 0));
        results.int::<B>("minimum", B::int_argmin(x.clone(), 0));
        results.int::<B>("with values", B::int_max_dim_with_indices(x, 0).1);
    }

    fn truth<B>(results) within 0.0 {
        let native = BoolDType::Native;
        let x = floats::<B>(&[0.0, 2.0, 0.0]);
        results.bool::<B>("any", B::float_any(x.clone(), native));
        results.bool::<B>("all", B::float_all(x.clone(), native));
        results.bool::<B>("any along", B::float_any_dim(x, 0, native));
        let i = int_in::<B, 2>([4, 5], 1, 0, 2);
        results.bool::<B>("int any", B::int_any_dim(i.clone(), 1, native));
        results.bool::<B>("int all", B::int_all_dim(i, 1, native));
    }

    /// What is kept for a later pass may be the same along the axis that vectors run along.
    fn values_kept_between_passes<B>(results) within 1e-5 {
        let shape = Shape::new([7, 9]);
        let x = B::float_expand(float::<B, 2>([7, 1], 8), shape.clone());
        let weights = float::<B, 2>([7, 9], 9);
        let spread = |x| B::float_expand(B::float_reshape(x, Shape::new([1, 1])), shape.clone());
        let powers = B::float_exp(B::float_sub(x.clone(), spread(B::float_mean(x))));
        let shares = B::float_div(powers.clone(), spread(B::float_sum(powers)));
        results.float::<B>("sum", B::float_sum(B::float_mul(shares, weights)));
    }

    fn prefixes<B>(results) within 1e-5 {
        let x = float::<B, 2>([5, 11], 5);
        for dim in 0..2 {
            results.float::<B>(format!("cumsum {dim}"), B::float_cumsum(x.clone(), dim));
            results.float::<B>(format!("cumprod {dim}"), B::float_cumprod(x.clone(), dim));
            results.float::<B>(format!("cummax {dim}"), B::float_cummax(x.clone(), dim));
            results.float::<B>(format!("cummin {dim}"), B::float_cummin(x.clone(), dim));
        }
    }

    fn sorting<B>(results) within 0.0 {
        let x = float::<B, 2>([6, 37], 6);
        for (dim, descending) in [(0, false), (1, true)] {
            results.float::<B>("sort", B::float_sort(x.clone(), dim, descending));
            let (values, indices) = B::float_sort_with_indices(x.clone(), dim, descending, I32);
            results.float::<B>("values", values);
            results.int::<B>("indices", indices);
        }
        results.float::<B>("topk", B::float_topk(x.clone(), 1, 4));
        results.int::<B>("argtopk", B::float_argtopk(x, 1, 4, I32));
        results.int::<B>("int sort", B::int_sort(int_in::<B, 1>([40], 7, -99, 99), 0, false));
    }
}
