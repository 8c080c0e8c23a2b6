//! Scans across contiguous memory: a lane for each element of a dimension beside the axis.

use super::scanner::Scanner;
use super::{ENOUGH_TILES, WORTH_CUTTING, payload};
use crate::emit::Value;
use crate::host::lanes::vector_type;
use crate::host::tiles::{
    Carried, Cut, Range, delinearize, index, index_op, open_carrying_for, part_range, scaled,
};
use crate::loops::TILE_ELEMENTS;
use crate::loops::array::{Place, Plan};
use crate::loops::vector;
use crate::types::value_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{HostTarget, Scan};

/// Iterations of a segment at least, and segments at most.
const SEGMENT: usize = 64;
const SEGMENTS: usize = 256;

/// How the dimensions of a scan are cut.
struct Strips {
    lane: usize,
    lanes: usize,
    size: usize,
    outer: usize,
    /// Lanes of a vector.
    width: usize,
    /// Lanes of a whole strip, which are carried in registers.
    strip: usize,
    /// Iterations of a segment, and how many segments.
    length: usize,
    segments: usize,
    sums: Option<Place>,
}

/// Lowers a scan beside whose axis the dimension `lane` is contiguous.
pub(super) fn lower(scan: &Scan, target: &HostTarget, lane: usize) -> Result<Payload, LoweringError> {
    let (axis, lanes) = (scan.axis, scan.shape[lane]);
    let size = scan.shape[axis];
    let outer: usize = scan.outer().filter(|&dim| dim != lane).map(|dim| scan.shape[dim]).product();
    let width = vector::lanes(scan.dtype, target);
    let strip = width * if target.vector_registers >= 32 { 8 } else { 4 };
    let tiles = outer * lanes.div_ceil(strip);
    let few = tiles < ENOUGH_TILES && outer * lanes * size >= WORTH_CUTTING && size > 2 * SEGMENT;
    let length = if few {
        (TILE_ELEMENTS / lanes.min(strip)).max(size.div_ceil(SEGMENTS)).max(SEGMENT)
    } else {
        size.max(1)
    };
    let segments = size.div_ceil(length);
    let accumulator = scalar::accumulator(vector::stored(scan.dtype));
    let mut shared = Plan::default();
    let sums = (segments > 1).then(|| shared.place(outer * segments * lanes, accumulator.size()));
    let strips = Strips { lane, lanes, size, outer, width, strip, length, segments, sums };
    let cut = strips.cut();
    let mut phases = Vec::new();
    if segments > 1 {
        phases.push((strips.phase(scan, "totals", false), "totals", cut.tiles()));
        let starts = Scanner::new(scan, "starts", sums).starts(segments, lanes);
        phases.push((starts, "starts", outer * lanes));
    }
    phases.push((strips.phase(scan, "scan", true), "scan", cut.tiles()));
    Ok(payload(phases, shared.bytes, 0))
}

impl Strips {
    fn count(&self) -> usize {
        self.lanes.div_ceil(self.strip)
    }

    /// Tiles of some strips of segments.
    fn cut(&self) -> Cut {
        let elements = self.length * self.strip.min(self.lanes);
        Cut::new(self.outer * self.segments * self.count(), 1, (TILE_ELEMENTS / elements.max(1)).max(1), 1)
    }

    /// Combines every segment, and stores what there is at each element, or what the segment combines to.
    fn phase(&self, scan: &Scan, symbol: &str, elements: bool) -> String {
        let mut scanner = Scanner::new(scan, symbol, self.sums);
        let cut = self.cut();
        let (begin, end) = (scanner.phase.begin(), scanner.phase.end());
        let (tile, _) = cut.open(scanner.e(), &begin, &end);
        let at = delinearize(scanner.e(), &tile, &[self.outer, self.segments, self.count()]);
        let axis = scanner.axis;
        let mut coordinates = scanner.locate(&at[0], &[axis, self.lane]);
        let range = part_range(scanner.e(), &at[1], self.length, self.size);
        let group = scaled(scanner.e(), &at[0], self.segments as i64);
        let segment = index_op(scanner.e(), "arith.addi", &group, &at[1]);
        let sums = scaled(scanner.e(), &segment, self.lanes as i64);
        let first = scaled(scanner.e(), &at[2], self.strip as i64);
        let place = index_op(scanner.e(), "arith.addi", &sums, &first);
        coordinates[self.lane] = first;
        let whole = self.lanes / self.strip;
        let rest = self.lanes % self.strip;
        let last = index(scanner.e(), whole);
        let is_whole = scanner.e().op(format_args!("arith.cmpi ult, {}, {last} : index", at[2]));
        scanner.e().open(format_args!("scf.if {is_whole} {{"));
        if whole > 0 {
            let widths = vec![self.width; self.strip / self.width];
            self.strip(&mut scanner, &mut coordinates.clone(), &range, &place, &widths, elements);
        }
        scanner.e().close("} else {");
        scanner.e().open("// the last lanes");
        if rest > 0 {
            let mut widths = vec![self.width; rest / self.width];
            widths.extend((!rest.is_multiple_of(self.width)).then_some(rest % self.width));
            self.strip(&mut scanner, &mut coordinates.clone(), &range, &place, &widths, elements);
        }
        scanner.e().close("}");
        cut.close(scanner.e());
        scanner.phase.finish()
    }

    /// Combines a range of the axis in vectors of `widths` lanes beside each other.
    fn strip(
        &self,
        scanner: &mut Scanner,
        coordinates: &mut [Value],
        range: &Range,
        place: &Value,
        widths: &[usize],
        elements: bool,
    ) {
        let (dtype, accumulator, op) = (scanner.dtype, scanner.accumulator, scanner.op);
        let identity = scanner.identity();
        let sums = scanner.sums.clone();
        let e = &mut scanner.phase.emitter;
        let mut offset = 0;
        let mut vectors = Vec::new();
        for &width in widths {
            let lane = index(e, offset);
            let start = match &sums {
                Some(sums) if elements => {
                    let at = index_op(e, "arith.addi", place, &lane);
                    sums.load_vector(e, &at, width)
                }
                _ => vector::spread(e, accumulator, &identity, width),
            };
            vectors.push((width, lane, start));
            offset += width;
        }
        let carried = |width: usize, value: &Value| Carried {
            value: value.clone(),
            ty: vector_type(width, value_type(accumulator)),
        };
        let initial: Vec<_> = vectors.iter().map(|(width, _, start)| carried(*width, start)).collect();
        let open = open_carrying_for(e, &range.from, &range.to, 1, &initial);
        coordinates[scanner.axis] = open.variable.clone();
        let from = scanner.input.address(e, coordinates);
        let to = scanner.output.address(e, coordinates);
        let mut next = Vec::new();
        for ((width, lane, _), before) in vectors.iter().zip(&open.carried) {
            let at = index_op(e, "arith.addi", &from, lane);
            let run = scanner.input.load_vector(e, &at, *width);
            let run = vector::convert(e, dtype, accumulator, &run, *width);
            let sum = vector::combine(e, op, accumulator, &before.value, &run, *width);
            next.push(carried(*width, &sum));
        }
        if elements {
            for ((width, lane, _), sum) in vectors.iter().zip(&next) {
                let run = vector::convert(e, accumulator, dtype, &sum.value, *width);
                let at = index_op(e, "arith.addi", &to, lane);
                scanner.output.store_vector(e, &at, &run, *width);
            }
        }
        let results = open.close(e, &next);
        if let (false, Some(sums)) = (elements, &sums) {
            for ((width, lane, _), result) in vectors.iter().zip(&results) {
                let at = index_op(e, "arith.addi", place, lane);
                sums.store_vector(e, &at, &result.value, *width);
            }
        }
    }
}
