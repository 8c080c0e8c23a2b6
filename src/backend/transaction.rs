//! Reading many tensors at once.

use super::Mlir;
use crate::record::Read;
use burn_backend::ExecutionError;
use burn_backend::ops::{TransactionOps, TransactionPrimitive, TransactionPrimitiveData};

impl TransactionOps<Mlir> for Mlir {
    fn tr_execute(
        transaction: TransactionPrimitive<Mlir>,
    ) -> impl Future<Output = Result<TransactionPrimitiveData, ExecutionError>> + Send {
        let TransactionPrimitive { read_floats, read_qfloats, read_ints, read_bools, .. } = transaction;
        let [floats, ints, bools] = [read_floats.len(), read_ints.len(), read_bools.len()];
        let mut tensors: Vec<_> = read_floats.into_iter().chain(read_ints).chain(read_bools).collect();
        let mut outlines = Vec::new();
        for quantized in read_qfloats {
            let (parts, outline) = quantized.into_parts();
            outlines.push((outline, parts.len()));
            tensors.extend(parts);
        }
        Read::begin(tensors.into()).later(move |read| {
            let mut data = read.finish()?.into_iter();
            let mut next = |count| data.by_ref().take(count).collect();
            let (read_floats, read_ints, read_bools) = (next(floats), next(ints), next(bools));
            let filled =
                outlines.into_iter().map(|(outline, parts)| outline.filled(data.by_ref().take(parts)));
            let read_qfloats = filled.collect();
            Ok(TransactionPrimitiveData { read_floats, read_qfloats, read_ints, read_bools })
        })
    }
}
