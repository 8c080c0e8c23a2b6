//! Scans along contiguous memory: lines, each combined in order.

use super::scanner::Scanner;
use super::{ENOUGH_TILES, WORTH_CUTTING, payload};
use crate::abi::Scratch;
use crate::emit::Value;
use crate::host::lanes::vector_type;
use crate::host::tiles::{
    Carried, Range, delinearize, index, index_op, open_carrying_for, open_for, part_range, scaled,
};
use crate::host::transposed;
use crate::loops::TILE_ELEMENTS;
use crate::loops::array::{Array, Place, Plan};
use crate::loops::vector;
use crate::types::value_type;
use crate::{LoweringError, Payload, scalar};
use burn_mlir_ir::{HostTarget, Scan};

/// Elements of a segment at least.
const SEGMENT: usize = 2000;

/// Segments of a line at most.
const SEGMENTS: usize = 4096;

/// Vectors that are combined beside each other to what a segment combines to.
const BESIDE: usize = 4;

/// How the lines of a scan are cut.
struct Lines {
    rows: usize,
    size: usize,
    /// Elements of a segment.
    length: usize,
    /// Segments of a row, and those of full length.
    segments: usize,
    full: usize,
    /// Lines that are transposed together; 1 if none are.
    width: usize,
    sums: Option<Place>,
    /// One accumulator a lane, in the worker's scratch.
    lanes: Place,
}

/// Lowers a scan.
pub(super) fn lower(scan: &Scan, target: &HostTarget) -> Result<Payload, LoweringError> {
    let axis = scan.axis;
    let size = scan.shape[axis];
    let rows = scan.rows();
    let unit = scan.accesses.iter().all(|access| access.strides[axis] == 1);
    // Integers are combined in a cycle: a chain of them waits for nothing that transposing would not cost, too.
    let width = if unit && scan.dtype.is_float() { vector::lanes(scan.dtype, target) } else { 1 };
    let few = rows / width < ENOUGH_TILES && rows * size >= WORTH_CUTTING && size > 2 * SEGMENT;
    // An odd number of vectors, so that lines do not compete for the same places in the cache.
    let length = if few { ((size.div_ceil(SEGMENTS).max(SEGMENT) / 16) | 1) * 16 } else { size.max(1) };
    let (mut shared, mut worker) = (Plan::default(), Plan::default());
    let segments = size.div_ceil(length);
    let accumulator = scalar::accumulator(vector::stored(scan.dtype));
    let sums = (segments > 1).then(|| shared.place(rows * segments, accumulator.size()));
    let lanes = worker.place(width, accumulator.size());
    let lines = Lines { rows, size, length, segments, full: size / length, width, sums, lanes };
    let mut phases = Vec::new();
    if segments > 1 {
        phases.push((lines.totals(scan), "totals", rows * segments));
        phases.push((Scanner::new(scan, "starts", sums).starts(segments, 1), "starts", rows));
    }
    phases.push((lines.scan(scan), "scan", lines.group_tiles() + lines.single_tiles()));
    Ok(payload(phases, shared.bytes, worker.bytes))
}

impl Lines {
    /// Groups of lines that are transposed.
    fn groups(&self) -> usize {
        if self.width > 1 { self.rows * self.full / self.width } else { 0 }
    }

    /// Lines of full length in no group.
    fn left_over(&self) -> usize {
        self.rows * self.full - self.groups() * self.width
    }

    /// Lines in no group: those left over, and the last segments of rows if they are shorter.
    fn singles(&self) -> usize {
        self.left_over() + if self.segments > self.full { self.rows } else { 0 }
    }

    fn groups_per_tile(&self) -> usize {
        (TILE_ELEMENTS / (self.length * self.width)).max(1)
    }

    fn group_tiles(&self) -> usize {
        self.groups().div_ceil(self.groups_per_tile())
    }

    fn singles_per_tile(&self) -> usize {
        (TILE_ELEMENTS / self.length).max(1)
    }

    fn single_tiles(&self) -> usize {
        self.singles().div_ceil(self.singles_per_tile())
    }

    /// The coordinates of a segment's first element.
    fn locate(&self, scanner: &mut Scanner, row: &Value, segment: &Value) -> Vec<Value> {
        let axis = scanner.axis;
        let mut coordinates = scanner.locate(row, &[axis]);
        coordinates[axis] = scaled(scanner.e(), segment, self.length as i64);
        coordinates
    }

    /// Row and segment of a line of full length.
    fn line(&self, scanner: &mut Scanner, line: &Value) -> [Value; 2] {
        if self.full == 1 {
            return [line.clone(), index(scanner.e(), 0)];
        }
        let at = delinearize(scanner.e(), line, &[self.rows, self.full]);
        [at[0].clone(), at[1].clone()]
    }

    /// What a segment starts from.
    fn start(&self, scanner: &mut Scanner, row: &Value, segment: &Value) -> Value {
        let Some(sums) = scanner.sums.clone() else { return scanner.identity() };
        let at = self.place(scanner, row, segment);
        sums.load(scanner.e(), &at)
    }

    fn place(&self, scanner: &mut Scanner, row: &Value, segment: &Value) -> Value {
        let first = scaled(scanner.e(), row, self.segments as i64);
        index_op(scanner.e(), "arith.addi", &first, segment)
    }

    fn scan(&self, scan: &Scan) -> String {
        let mut scanner = Scanner::new(scan, "scan", self.sums);
        let element = scanner.element();
        let lanes = Array::new(&mut scanner.phase, Scratch::Worker, self.lanes, element);
        let (begin, end) = (scanner.phase.begin(), scanner.phase.end());
        let tile = open_for(scanner.e(), &begin, &end, 1);
        let group_tiles = index(scanner.e(), self.group_tiles());
        let in_groups = scanner.e().op(format_args!("arith.cmpi ult, {tile}, {group_tiles} : index"));
        scanner.e().open(format_args!("scf.if {in_groups} {{"));
        if self.groups() > 0 {
            let range = part_range(scanner.e(), &tile, self.groups_per_tile(), self.groups());
            let group = open_for(scanner.e(), &range.from, &range.to, 1);
            self.group(&mut scanner, &lanes, &group);
            scanner.e().close("}");
        }
        scanner.e().close("} else {");
        scanner.e().open("// lines in no group");
        if self.singles() > 0 {
            let tile = index_op(scanner.e(), "arith.subi", &tile, &group_tiles);
            let range = part_range(scanner.e(), &tile, self.singles_per_tile(), self.singles());
            let single = open_for(scanner.e(), &range.from, &range.to, 1);
            self.single(&mut scanner, &single);
            scanner.e().close("}");
        }
        scanner.e().close("}");
        scanner.e().close("}");
        scanner.phase.finish()
    }

    /// Scans a line in no group.
    fn single(&self, scanner: &mut Scanner, single: &Value) {
        let (grouped, rest) = (self.groups() * self.width, self.left_over());
        let e = scanner.e();
        let (grouped, rest, full) = (index(e, grouped), index(e, rest), index(e, self.full));
        let line = index_op(e, "arith.addi", &grouped, single);
        let [row, segment] = self.line(scanner, &line);
        let e = scanner.e();
        let last_of = index_op(e, "arith.subi", single, &rest);
        let is_full = e.op(format_args!("arith.cmpi ult, {single}, {rest} : index"));
        let row = e.op(format_args!("arith.select {is_full}, {row}, {last_of} : index"));
        let segment = e.op(format_args!("arith.select {is_full}, {segment}, {full} : index"));
        let range = part_range(e, &segment, self.length, self.size);
        let mut coordinates = self.locate(scanner, &row, &segment);
        let start = self.start(scanner, &row, &segment);
        scanner.chain(&mut coordinates, &range, start, true);
    }

    /// Scans a group of lines, a lane for each.
    fn group(&self, scanner: &mut Scanner, lanes: &Array, group: &Value) {
        let (width, op) = (self.width, scanner.op);
        let (dtype, accumulator) = (scanner.dtype, scanner.accumulator);
        let vector = vector_type(width, scanner.element());
        let zero = index(scanner.e(), 0);
        let first = scaled(scanner.e(), group, width as i64);
        let mut places = Vec::new();
        for nth in 0..width {
            let nth = index(scanner.e(), nth);
            let line = index_op(scanner.e(), "arith.addi", &first, &nth);
            let [row, segment] = self.line(scanner, &line);
            let coordinates = self.locate(scanner, &row, &segment);
            let e = &mut scanner.phase.emitter;
            places.push((scanner.input.address(e, &coordinates), scanner.output.address(e, &coordinates)));
            if scanner.sums.is_some() {
                let start = self.start(scanner, &row, &segment);
                lanes.store(scanner.e(), &nth, &start);
            }
        }
        let start = if scanner.sums.is_some() {
            lanes.load_vector(scanner.e(), &zero, width)
        } else {
            let identity = scanner.identity();
            vector::spread(scanner.e(), accumulator, &identity, width)
        };
        let whole = self.length / width * width;
        let limit = index(scanner.e(), whole);
        let e = &mut scanner.phase.emitter;
        let carried = |value: Value| Carried { value, ty: vector.clone() };
        let open = open_carrying_for(e, &zero, &limit, width, &[carried(start)]);
        let mut block = Vec::new();
        for (from, _) in &places {
            let at = index_op(e, "arith.addi", from, &open.variable);
            let run = scanner.input.load_vector(e, &at, width);
            block.push(vector::convert(e, dtype, accumulator, &run, width));
        }
        let mut block = transposed(e, block, &vector);
        let mut sum = open.carried[0].value.clone();
        for column in &mut block {
            sum = vector::combine(e, op, accumulator, &sum, column, width);
            *column = sum.clone();
        }
        let block = transposed(e, block, &vector);
        for ((_, to), run) in places.iter().zip(block) {
            let run = vector::convert(e, accumulator, dtype, &run, width);
            let at = index_op(e, "arith.addi", to, &open.variable);
            scanner.output.store_vector(e, &at, &run, width);
        }
        let sum = open.close(e, &[carried(sum)]).remove(0).value;
        if self.length == whole {
            return;
        }
        lanes.store_vector(e, &zero, &sum, width);
        let all = index(e, width);
        let nth = open_for(e, &zero, &all, 1);
        let line = index_op(e, "arith.addi", &first, &nth);
        let start = lanes.load(e, &nth);
        let [row, segment] = self.line(scanner, &line);
        let mut coordinates = self.locate(scanner, &row, &segment);
        let begin = coordinates[scanner.axis].clone();
        let (whole, length) = (index(scanner.e(), whole), index(scanner.e(), self.length));
        let from = index_op(scanner.e(), "arith.addi", &begin, &whole);
        let to = index_op(scanner.e(), "arith.addi", &begin, &length);
        scanner.chain(&mut coordinates, &Range { from, to }, start, true);
        scanner.e().close("}");
    }

    /// What each segment combines to. Nothing starts from a row's last one.
    fn totals(&self, scan: &Scan) -> String {
        let mut scanner = Scanner::new(scan, "totals", self.sums);
        let element = scanner.element();
        let lanes = Array::new(&mut scanner.phase, Scratch::Worker, self.lanes, element);
        let (begin, end) = (scanner.phase.begin(), scanner.phase.end());
        let line = open_for(scanner.e(), &begin, &end, 1);
        let at = delinearize(scanner.e(), &line, &[self.rows, self.segments]);
        let last = index(scanner.e(), self.segments - 1);
        let wanted = scanner.e().op(format_args!("arith.cmpi ult, {}, {last} : index", at[1]));
        scanner.e().open(format_args!("scf.if {wanted} {{"));
        let mut coordinates = self.locate(&mut scanner, &at[0], &at[1]);
        let begin = coordinates[scanner.axis].clone();
        let length = index(scanner.e(), self.length);
        let to = index_op(scanner.e(), "arith.addi", &begin, &length);
        let start = scanner.identity();
        let (start, from) = match self.length / (self.width * BESIDE) * self.width * BESIDE {
            whole if whole > 0 && self.width > 1 => {
                let start = self.total_of_vectors(&mut scanner, &lanes, &coordinates, whole);
                let whole = index(scanner.e(), whole);
                (start, index_op(scanner.e(), "arith.addi", &begin, &whole))
            }
            _ => (start, begin),
        };
        let total = scanner.chain(&mut coordinates, &Range { from, to }, start, false);
        if let Some(sums) = scanner.sums.clone() {
            let place = self.place(&mut scanner, &at[0], &at[1]);
            sums.store(scanner.e(), &place, &total);
        }
        scanner.e().close("}");
        scanner.e().close("}");
        scanner.phase.finish()
    }

    /// What the first `whole` elements from a place combine to.
    fn total_of_vectors(&self, scanner: &mut Scanner, lanes: &Array, from: &[Value], whole: usize) -> Value {
        let (width, op) = (self.width, scanner.op);
        let (dtype, accumulator) = (scanner.dtype, scanner.accumulator);
        let ty = vector_type(width, value_type(accumulator));
        let identity = scanner.identity();
        let e = &mut scanner.phase.emitter;
        let start = vector::spread(e, accumulator, &identity, width);
        let first = scanner.input.address(e, from);
        let (zero, limit) = (index(e, 0), index(e, whole));
        let initial = vec![Carried { value: start, ty: ty.clone() }; BESIDE];
        let open = open_carrying_for(e, &zero, &limit, width * BESIDE, &initial);
        let mut next = Vec::new();
        for (nth, carried) in open.carried.iter().enumerate() {
            let offset = index(e, nth * width);
            let at = index_op(e, "arith.addi", &first, &open.variable);
            let at = index_op(e, "arith.addi", &at, &offset);
            let run = scanner.input.load_vector(e, &at, width);
            let run = vector::convert(e, dtype, accumulator, &run, width);
            let value = vector::combine(e, op, accumulator, &carried.value, &run, width);
            next.push(Carried { value, ty: ty.clone() });
        }
        let results = open.close(e, &next);
        let mut sum = results[0].value.clone();
        for result in &results[1..] {
            sum = vector::combine(e, op, accumulator, &sum, &result.value, width);
        }
        lanes.store_vector(e, &zero, &sum, width);
        let mut total = identity;
        for lane in 0..width {
            let lane = index(e, lane);
            let value = lanes.load(e, &lane);
            total = scalar::combine(e, op, accumulator, &total, &value);
        }
        total
    }
}
