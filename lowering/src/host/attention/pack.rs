//! Packing keys and values by blocks: keys so that a vector is of neighbouring keys, values with whole
//! vectors of columns, 0 beyond the last key and column.

use super::geometry::Geometry;
use super::memory::Code;
use crate::abi::Scratch;
use crate::host::tiles::{delinearize, open_for};
use burn_mlir_ir::{Attention, AttentionOperand};

/// The function's name.
pub(super) const SYMBOL: &str = "pack";

/// Writes the phase: a tile is a block.
pub(super) fn write(attention: &Attention, geometry: &Geometry) -> String {
    let sizes = &attention.sizes;
    let mut code = Code::new(attention, geometry.lanes, SYMBOL);
    let packed = code.phase.scratch(Scratch::Shared, 0);
    let (begin, end) = (code.phase.begin(), code.phase.end());
    let tile = open_for(code.e(), &begin, &end, 1);
    let blocks = geometry.blocks(sizes.keys);
    let at = delinearize(code.e(), &tile, &[sizes.batch, sizes.kv_heads, blocks]);
    let start = code.scaled(&tile, geometry.block_elements(attention));
    let packed = code.address(&packed, &start);
    let values = code.after(&packed, geometry.keys() * sizes.width);
    let first = code.scaled(&at[2], geometry.keys());

    let parts = [
        (AttentionOperand::Key, &packed, sizes.width, sizes.width),
        (AttentionOperand::Value, &values, geometry.columns, sizes.value_width),
    ];
    for (operand, target, columns, width) in parts {
        let (zero, keys) = (code.index(0), code.index(geometry.keys()));
        let key = open_for(code.e(), &zero, &keys, 1);
        let row = code.add(&first, &key);
        let exists = code.is_below(&row, sizes.keys);
        let row = code.clamped(&row, sizes.keys);
        let columns_value = code.index(columns);
        let column = open_for(code.e(), &zero, &columns_value, 1);
        let inside = code.is_below(&column, width);
        let both = code.e().op(format_args!("arith.andi {exists}, {inside} : i1"));
        let inner = code.clamped(&column, width);
        let place = [at[0].clone(), at[1].clone(), row.clone(), inner];
        let nothing = code.zero();
        let value = code.read(operand, &place).unwrap_or_default();
        let value = code.choose(&both, &value, &nothing);
        let to = match operand {
            AttentionOperand::Key => code.place(&column, geometry.keys(), &key),
            _ => code.place(&key, columns, &column),
        };
        let to = code.address(target, &to);
        code.store(&to, &value);
        code.e().close("}");
        code.e().close("}");
    }
    code.e().close("}");
    code.phase.finish()
}
