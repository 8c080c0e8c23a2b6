//! Matrix products, linear layers, attention.

use crate::agreement::{agree, bools, float, int_in, ints};
use burn_backend::ops::AttentionModuleOptions;
use burn_backend::tensor::IndexingUpdateOp;

agree! {
    fn products<B>(results) within 1e-5 {
        let product = |a, b| B::float_matmul(a, b);
        results.float::<B>("matrices", product(float::<B, 2>([37, 19], 1), float::<B, 2>([19, 23], 2)));
        results.float::<B>(
            "a batch",
            product(float::<B, 3>([3, 5, 7], 3), float::<B, 3>([3, 7, 4], 4)),
        );
        results.float::<B>(
            "one matrix for a batch",
            product(float::<B, 3>([3, 5, 7], 5), float::<B, 3>([1, 7, 4], 6)),
        );
        results.float::<B>(
            "batches against batches",
            product(float::<B, 4>([2, 1, 5, 7], 7), float::<B, 4>([1, 3, 7, 4], 8)),
        );
        let transposed = B::float_swap_dims(float::<B, 2>([19, 37], 9), 0, 1);
        results.float::<B>("a transposed view", product(transposed, float::<B, 2>([19, 8], 10)));
        results.float::<B>("one row", product(float::<B, 2>([1, 64], 11), float::<B, 2>([64, 64], 12)));
        results.int::<B>(
            "integers",
            B::int_matmul(int_in::<B, 2>([5, 6], 1, -9, 9), int_in::<B, 2>([6, 3], 2, -9, 9)),
        );
    }

    /// Rows of a table are added to a product, before and behind it.
    fn a_product_and_an_embedding<B>(results) within 1e-5 {
        let table = || B::embedding(float::<B, 2>([9, 33], 1), ints::<B, 2>([1, 7], &[8, 0, 3, 3, 1, 8, 2]));
        let product = || B::float_matmul(float::<B, 3>([1, 7, 20], 2), float::<B, 3>([1, 20, 33], 3));
        let rows = table();
        results.float::<B>("gathered first", B::float_add(rows, product()));
        let product = product();
        results.float::<B>("multiplied first", B::float_add(product, table()));
    }

    /// The product goes to two buffers: one is updated in place.
    fn a_product_and_its_update<B>(results) within 1e-5 {
        for columns in [17, 33] {
            let product = B::float_matmul(float::<B, 2>([7, 33], 1), float::<B, 2>([33, columns], 2));
            let indices = ints::<B, 1>([2], &[0, 3]);
            let values = float::<B, 2>([2, columns], 3);
            let updated = B::float_select_assign(product.clone(), 0, indices, values, IndexingUpdateOp::Add);
            results.float::<B>(format!("product {columns}"), product);
            results.float::<B>(format!("update {columns}"), updated);
        }
    }

    fn nothing_to_sum<B>(results) within 0.0 {
        let product = B::float_matmul(float::<B, 2>([3, 0], 1), float::<B, 2>([0, 2], 2));
        results.float::<B>("k = 0", product);
        let product = B::float_matmul(float::<B, 2>([0, 3], 1), float::<B, 2>([3, 2], 2));
        results.float::<B>("m = 0", product);
    }

    fn linear_layers<B>(results) within 1e-5 {
        let (x, w, b) = (float::<B, 3>([4, 6, 9], 1), float::<B, 2>([9, 5], 2), float::<B, 1>([5], 3));
        let grad = float::<B, 3>([4, 6, 5], 4);
        results.float::<B>("forward", B::linear(x.clone(), w.clone(), Some(b)));
        results.float::<B>("input", B::linear_x_backward(w, grad.clone()));
        results.float::<B>("weight", B::linear_weight_backward(x, grad.clone()));
        results.float::<B>("bias", B::linear_bias_backward(grad));
    }

    fn cross_products<B>(results) within 1e-6 {
        results.float::<B>(
            "along 1",
            B::float_cross(float::<B, 2>([5, 3], 1), float::<B, 2>([5, 3], 2), 1),
        );
    }

    fn attention<B>(results) within 1e-5 {
        let q = || float::<B, 4>([2, 3, 5, 8], 1);
        let k = || float::<B, 4>([2, 3, 7, 8], 2);
        let v = || float::<B, 4>([2, 3, 7, 6], 3);
        let options = |scale, softcap, is_causal| AttentionModuleOptions { scale, softcap, is_causal };
        results.float::<B>("plain", B::attention(q(), k(), v(), None, None, options(None, None, false)));
        results.float::<B>("causal", B::attention(q(), k(), v(), None, None, options(None, None, true)));
        let bias = float::<B, 4>([2, 3, 5, 7], 4);
        let capped = options(Some(0.2), Some(3.0), false);
        results.float::<B>("bias and cap", B::attention(q(), k(), v(), None, Some(bias), capped));
        let mask: Vec<bool> = (0..2 * 3 * 5 * 7).map(|i| i % 5 == 0 || (35..42).contains(&i)).collect();
        let mask = bools::<B, 4>([2, 3, 5, 7], &mask);
        let masked = B::attention(q(), k(), v(), Some(mask), None, options(None, None, false));
        results.float::<B>("masked, one row wholly", masked);
    }
}
