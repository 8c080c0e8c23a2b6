//! Inclusive prefix combination along an axis.

use super::view::View;
use super::{TILE_ELEMENTS, payload};
use crate::abi::PhaseWriter;
use crate::host::tiles::{Carried, Cut, delinearize, index, open_carrying_for};
use crate::types::value_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::Scan;

/// Lowers a scan: a tile is some rows along the axis; f16 and bf16 accumulate in f32.
pub(crate) fn scan(scan: &Scan) -> Result<Payload, LoweringError> {
    let size = scan.shape[scan.axis];
    let outer: Vec<usize> = (0..scan.shape.len()).filter(|&dim| dim != scan.axis).collect();
    let sizes: Vec<usize> = outer.iter().map(|&dim| scan.shape[dim]).collect();
    let cut = Cut::new(sizes.iter().product(), 1, (TILE_ELEMENTS / size.max(1)).max(1), 1);
    let accumulator = scalar::accumulator(scan.dtype);

    let mut phase = PhaseWriter::new("scan");
    let input = View::new(&mut phase, 0, scan.dtype, &scan.accesses[0], &scan.shape);
    let output = View::new(&mut phase, 1, scan.dtype, &scan.accesses[1], &scan.shape);
    let (begin, end) = (phase.begin(), phase.end());
    let e = &mut phase.emitter;
    let zero = index(e, 0);
    let (row, _) = cut.open(e, &begin, &end);
    let mut coordinates = vec![zero.clone(); scan.shape.len()];
    for (&dim, coordinate) in outer.iter().zip(delinearize(e, &row, &sizes)) {
        coordinates[dim] = coordinate;
    }
    let identity = scalar::constant(e, accumulator, scalar::identity(scan.op, accumulator));
    let limit = index(e, size);
    let initial = Carried { value: identity, ty: value_type(accumulator).into() };
    let open = open_carrying_for(e, &zero, &limit, 1, &[initial]);
    coordinates[scan.axis] = open.variable.clone();
    let mut x = input.load(e, &coordinates);
    if scan.dtype != accumulator {
        x = scalar::cast(e, scan.dtype, accumulator, &x);
    }
    let sum = scalar::combine(e, scan.op, accumulator, &open.carried[0].value, &x);
    let mut y = sum.clone();
    if scan.dtype != accumulator {
        y = scalar::cast(e, accumulator, scan.dtype, &y);
    }
    output.store(e, &coordinates, &y);
    open.close(e, &[Carried { value: sum, ty: value_type(accumulator).into() }]);
    cut.close(e);
    Ok(payload("scan", phase, cut.tiles(), 0))
}
