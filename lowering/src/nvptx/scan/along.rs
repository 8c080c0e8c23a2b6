//! Rows whose elements lie side by side: a team takes tiles of consecutive elements.

use super::Rows;
use super::team::Team;
use crate::emit::{Emitter, Value};
use crate::host::lanes::vector_type;
use crate::host::tiles::{Carried, open_carrying_for};
use crate::nvptx::code::Code;
use crate::nvptx::writer::{GLOBAL, KernelWriter};
use crate::nvptx::{ACCESS_BYTES, ENOUGH_BLOCKS};
use crate::types::storage_type;
use crate::{LoweringError, Payload};

/// Threads of a block, at least.
const THREADS: usize = 128;

/// Threads that share a row, at most.
const TEAM: usize = 256;

/// Elements of a thread, at most.
const ITEMS: usize = 8;

/// Tiles of a split, at least.
const SPLIT_TILES: usize = 4;

/// Parts of a row at most that every thread combines for itself.
const FEW_SPLITS: usize = 8;

/// How rows are cut.
struct Cut {
    /// Elements of a thread.
    items: usize,
    /// Threads of a team.
    team: usize,
    /// Rows of a block.
    block_rows: usize,
    /// Blocks that share a row.
    splits: usize,
    /// Elements of such a part.
    split: usize,
}

impl Cut {
    fn of(rows: &Rows<'_>) -> Self {
        let items = (ACCESS_BYTES / rows.scan.dtype.size()).clamp(2, ITEMS);
        let team = rows.size.div_ceil(items).next_power_of_two().min(TEAM);
        let block_rows = (THREADS / team).max(1);
        let tile = items * team;
        let tiles = rows.size.div_ceil(tile);
        let blocks = rows.count.div_ceil(block_rows).max(1);
        let splits = (4 * ENOUGH_BLOCKS / blocks).min(tiles / SPLIT_TILES).max(1);
        let split = tiles.div_ceil(splits) * tile;
        Self { items, team, block_rows, splits: rows.size.div_ceil(split.max(1)).max(1), split }
    }
}

pub(super) fn lower(rows: &Rows<'_>) -> Result<Payload, LoweringError> {
    let cut = Cut::of(rows);
    let blocks = rows.count.div_ceil(cut.block_rows);
    let threads = cut.team * cut.block_rows;
    rows.payload(blocks, cut.splits, threads, |symbol, writes| kernel(rows, &cut, symbol, writes))
}

/// A kernel that writes prefixes, or leaves what the parts of rows come to.
fn kernel(rows: &Rows<'_>, cut: &Cut, symbol: &str, writes: bool) -> String {
    let ty = "index";
    let mut kernel = KernelWriter::new(symbol, 2, 0);
    let team = Team::new(rows, &mut kernel, cut.team, cut.team * cut.block_rows);
    let (block, thread, split) = (kernel.block('x'), kernel.thread(), kernel.block('y'));
    let e = &mut kernel.emitter;
    let (threads, block_rows) = (e.int(ty, cut.team), e.int(ty, cut.block_rows));
    let in_block = e.arith("divui", ty, &thread, &threads);
    let share = e.arith("remui", ty, &thread, &threads);
    let first = e.arith("muli", ty, &block, &block_rows);
    let row = e.arith("addi", ty, &first, &in_block);
    // Rows that are none go through the motions of the last one: all threads meet at barriers.
    let (count, last) = (e.int(ty, rows.count), e.int(ty, rows.count.max(1) - 1));
    let valid = e.compare("ult", ty, &row, &count);
    let row = e.arith("minui", ty, &row, &last);
    let place = rows.place(e, &row);
    let (length, size, tile) = (e.int(ty, cut.split), e.int(ty, rows.size), e.int(ty, cut.items));
    let from = e.arith("muli", ty, &split, &length);
    let end = e.arith("addi", ty, &from, &length);
    let end = e.arith("minui", ty, &end, &size);
    let mine = e.arith("muli", ty, &share, &tile);
    let row_walk = Walk { rows, cut, place, valid: valid.clone(), wide: None };
    let row_walk = Walk { wide: row_walk.wide(&mut kernel), ..row_walk };
    let start = match cut.splits {
        2..=FEW_SPLITS if writes => rows.before(&mut kernel, &split, &row),
        splits if writes && splits > 1 => before(rows, cut, &mut kernel, &team, [&split, &row, &share]),
        _ => rows.identity(&mut kernel.emitter),
    };
    let carried = |value: &Value| Carried { value: value.clone(), ty: rows.ty().into() };
    let e = &mut kernel.emitter;
    let open = open_carrying_for(e, &from, &end, cut.items * cut.team, &[carried(&start)]);
    let before = open.carried[0].value.clone();
    let at = e.arith("addi", ty, &open.variable, &mine);
    let elements = row_walk.read(&mut kernel, &at, &end);
    let e = &mut kernel.emitter;
    let mut sums: Vec<Value> = Vec::new();
    for element in elements {
        let sum = match sums.last() {
            Some(sum) => rows.combine(e, sum, &element),
            None => element,
        };
        sums.push(sum);
    }
    let (prefix, all) = team.prefix(&mut kernel, &sums[sums.len() - 1]);
    let e = &mut kernel.emitter;
    if writes {
        let prefix = rows.combine(e, &before, &prefix);
        let results: Vec<_> = sums.iter().map(|sum| rows.combine(e, &prefix, sum)).collect();
        row_walk.write(&mut kernel, &at, &end, &results);
    }
    let e = &mut kernel.emitter;
    let after = rows.combine(e, &before, &all);
    let total = open.close(e, &[carried(&after)]).remove(0).value;
    if !writes {
        let zero = e.int(ty, 0);
        let leads = e.compare("eq", ty, &share, &zero);
        let leads = e.both(&leads, &valid);
        e.open(format_args!("scf.if {leads} {{"));
        rows.leave(&mut kernel, &split, &row, &total);
        kernel.emitter.close("}");
    }
    kernel.finish()
}

/// What the parts of a row before `split` come to, found by the whole team: each thread (a `share` of it) takes some
/// that follow each other.
fn before(
    rows: &Rows<'_>,
    cut: &Cut,
    kernel: &mut KernelWriter,
    team: &Team<'_>,
    [split, row, share]: [&Value; 3],
) -> Value {
    let (ty, each) = ("index", cut.splits.div_ceil(cut.team));
    let e = &mut kernel.emitter;
    let (length, last, identity) = (e.int(ty, each), e.int(ty, cut.splits - 1), rows.identity(e));
    let first = e.arith("muli", ty, share, &length);
    let mut sum = identity.clone();
    for number in 0..each {
        let e = &mut kernel.emitter;
        let shift = e.int(ty, number);
        let at = e.arith("addi", ty, &first, &shift);
        let exists = e.compare("ult", ty, &at, split);
        let at = e.arith("minui", ty, &at, &last);
        let part = rows.left(kernel, &at, row);
        let e = &mut kernel.emitter;
        let part = e.choose(&exists, rows.ty(), &part, &identity);
        sum = rows.combine(e, &sum, &part);
    }
    team.prefix(kernel, &sum).1
}

/// Reads and writes a thread's elements of a row.
struct Walk<'a> {
    rows: &'a Rows<'a>,
    cut: &'a Cut,
    place: Vec<Value>,
    /// Whether the row is one.
    valid: Value,
    /// Whether input and output can be accessed by vectors, where strides allow it.
    wide: Option<Value>,
}

impl Walk<'_> {
    /// Whether the buffers are aligned to vectors of a thread's elements, if rows and elements within them are.
    fn wide(&self, kernel: &mut KernelWriter) -> Option<Value> {
        let scan = self.rows.scan;
        let (items, bytes) = (self.cut.items, self.cut.items * scan.dtype.size());
        let fits = scan.accesses.iter().all(|access| {
            let others = |dim: usize| dim == scan.axis || access.strides[dim] % items as i64 == 0;
            access.strides[scan.axis] == 1 && (0..scan.shape.len()).all(others)
        });
        if !fits || !self.rows.size.is_multiple_of(items) || bytes > ACCESS_BYTES {
            return None;
        }
        let e = &mut kernel.emitter;
        let [a, b] =
            [0, 1].map(|buffer: usize| e.op(format_args!("llvm.ptrtoint %buffer{buffer} : {GLOBAL} to i64")));
        let either = e.arith("ori", "i64", &a, &b);
        let mask = e.int("i64", bytes - 1);
        let rest = e.arith("andi", "i64", &either, &mask);
        let zero = e.int("i64", 0);
        Some(e.compare("eq", "i64", &rest, &zero))
    }

    fn at(&self, at: &Value) -> Vec<Value> {
        let mut place = self.place.clone();
        place[self.rows.scan.axis] = at.clone();
        place
    }

    /// Elements from `at` on, identities from `end` on.
    fn read(&self, kernel: &mut KernelWriter, at: &Value, end: &Value) -> Vec<Value> {
        let element = storage_type(self.rows.scan.dtype);
        let types = vec![element; self.cut.items];
        let e = &mut kernel.emitter;
        let Some(wide) = self.wide.clone() else {
            return self.read_each(kernel, at, end);
        };
        let one = e.int("index", 1);
        let last = e.arith("subi", "index", end, &one);
        let inside = e.compare("ult", "index", at, end);
        // Thread's elements are all in the row or none is.
        let items = e.int("index", self.cut.items);
        let start = e.arith("subi", "index", end, &items);
        let from = e.arith("minui", "index", at, &start);
        let access = self.rows.scan.accesses[0].clone();
        let list = types.join(", ");
        let results = e.fresh();
        e.open(format_args!("{results}:{} = scf.if {wide} -> ({list}) {{", types.len()));
        let place = self.at(&from);
        let address = kernel.address(0, element, &access, &place);
        let e = &mut kernel.emitter;
        let vector = vector_type(self.cut.items, element);
        let bytes = self.cut.items * self.rows.scan.dtype.size();
        let loaded =
            e.op(format_args!("llvm.load {address} {{alignment = {bytes} : i64}} : {GLOBAL} -> {vector}"));
        let parts: Vec<_> = (0..self.cut.items)
            .map(|item| e.op(format_args!("vector.extract {loaded}[{item}] : {element} from {vector}")))
            .collect();
        e.line(format_args!("scf.yield {} : {list}", parts.join(", ")));
        e.close("} else {");
        e.open("// one by one");
        let parts: Vec<_> = (0..self.cut.items)
            .map(|item| {
                let e = &mut kernel.emitter;
                let shift = e.int("index", item);
                let at = e.arith("addi", "index", &from, &shift);
                let at = e.arith("minui", "index", &at, &last);
                let place = self.at(&at);
                kernel.load(0, element, &access, &place)
            })
            .collect();
        let e = &mut kernel.emitter;
        e.line(format_args!("scf.yield {} : {list}", parts.join(", ")));
        e.close("}");
        let identity = self.rows.identity(e);
        (0..self.cut.items)
            .map(|item| {
                let value = self.rows.widen(e, &format!("{results}#{item}"));
                e.choose(&inside, self.rows.ty(), &value, &identity)
            })
            .collect()
    }

    fn read_each(&self, kernel: &mut KernelWriter, at: &Value, end: &Value) -> Vec<Value> {
        let e = &mut kernel.emitter;
        let one = e.int("index", 1);
        let last = e.arith("subi", "index", end, &one);
        let identity = self.rows.identity(e);
        (0..self.cut.items)
            .map(|item| {
                let e = &mut kernel.emitter;
                let shift = e.int("index", item);
                let at = e.arith("addi", "index", at, &shift);
                let inside = e.compare("ult", "index", &at, end);
                let at = e.arith("minui", "index", &at, &last);
                let place = self.at(&at);
                let value = self.rows.read(kernel, &place);
                kernel.emitter.choose(&inside, self.rows.ty(), &value, &identity)
            })
            .collect()
    }

    /// Writes elements from `at` on, those before `end`.
    fn write(&self, kernel: &mut KernelWriter, at: &Value, end: &Value, values: &[Value]) {
        let element = storage_type(self.rows.scan.dtype);
        let e = &mut kernel.emitter;
        if let Some(wide) = self.wide.clone() {
            let inside = e.compare("ult", "index", at, end);
            let inside = e.both(&inside, &self.valid);
            e.open(format_args!("scf.if {inside} {{"));
            e.open(format_args!("scf.if {wide} {{"));
            let parts: Vec<_> = values.iter().map(|value| self.rows.narrow(e, value)).collect();
            let vector = vector_type(self.cut.items, element);
            let whole = e.op(format_args!("vector.from_elements {} : {vector}", parts.join(", ")));
            let place = self.at(at);
            let address = kernel.address(1, element, &self.rows.scan.accesses[1].clone(), &place);
            let bytes = self.cut.items * self.rows.scan.dtype.size();
            let e = &mut kernel.emitter;
            e.line(format_args!(
                "llvm.store {whole}, {address} {{alignment = {bytes} : i64}} : {vector}, {GLOBAL}"
            ));
            e.close("} else {");
            e.open("// one by one");
            for (item, value) in values.iter().enumerate() {
                let place = self.shifted(&mut kernel.emitter, at, item);
                self.rows.write(kernel, &place, value);
            }
            kernel.emitter.close("}");
            kernel.emitter.close("}");
            return;
        }
        for (item, value) in values.iter().enumerate() {
            let e = &mut kernel.emitter;
            let shift = e.int("index", item);
            let to = e.arith("addi", "index", at, &shift);
            let inside = e.compare("ult", "index", &to, end);
            let inside = e.both(&inside, &self.valid);
            e.open(format_args!("scf.if {inside} {{"));
            let place = self.at(&to);
            self.rows.write(kernel, &place, value);
            kernel.emitter.close("}");
        }
    }

    fn shifted(&self, e: &mut Emitter, at: &Value, item: usize) -> Vec<Value> {
        let shift = e.int("index", item);
        let at = e.arith("addi", "index", at, &shift);
        self.at(&at)
    }
}
