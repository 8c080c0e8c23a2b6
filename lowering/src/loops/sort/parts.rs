//! A radix sort whose passes are phases: workers count and move parts of a row.

use super::radix::{Memory, Radix, State};
use crate::abi::Scratch;
use crate::emit::Value;
use crate::host::tiles::{Range, delinearize, index, index_op, open_for, part_range};
use crate::{LoweringError, Payload};
use burn_mlir_ir::{Phase, Program, Sort};

/// Elements of a part at least.
const PART: usize = 16 << 10;

/// Parts of a row at most.
const PARTS: usize = 128;

/// Lowers a sort of few rows.
pub(super) fn lower(sort: &Sort, rows: usize) -> Result<Payload, LoweringError> {
    let size = sort.shape[sort.axis];
    let length = size.div_ceil(PARTS).next_multiple_of(64).max(PART);
    let parts = size.div_ceil(length);
    let memory = Memory::new(sort, rows, parts, Scratch::Shared);
    let sizes = Sizes { size, rows, parts, length };

    let texts = [sizes.read(sort, &memory), sizes.count(sort, &memory), sizes.offsets(sort, &memory)];
    let more = [sizes.distribute(sort, &memory), sizes.write(sort, &memory)];
    let phase =
        |symbol: &str, tiles| Phase { symbol: symbol.into(), tiles: tiles as u64, ..Phase::default() };
    let mut phases = vec![phase("read", rows * parts)];
    for _ in 0..sort.dtype.size() {
        phases.push(phase("count", rows * parts));
        phases.push(phase("offsets", rows));
        phases.push(phase("distribute", rows * parts));
    }
    phases.push(phase("write", rows * parts));
    Ok(Payload {
        text: texts.into_iter().chain(more).collect(),
        program: Program { phases, shared_bytes: memory.shared_bytes, worker_bytes: memory.worker_bytes },
        schedule: String::new(),
        lower_sequence: false,
    })
}

struct Sizes {
    size: usize,
    rows: usize,
    parts: usize,
    length: usize,
}

/// Where a tile is.
struct Tile {
    /// Counted through all rows.
    part: Value,
    row: Value,
    /// Within the row.
    nth: Value,
    range: Range,
}

impl Sizes {
    /// Opens a loop over parts.
    fn open(&self, radix: &mut Radix) -> Tile {
        let (begin, end) = (radix.phase.begin(), radix.phase.end());
        let e = radix.e();
        let part = open_for(e, &begin, &end, 1);
        let at = delinearize(e, &part, &[self.rows, self.parts]);
        let range = part_range(e, &at[1], self.length, self.size);
        Tile { part, row: at[0].clone(), nth: at[1].clone(), range }
    }

    fn read(&self, sort: &Sort, memory: &Memory) -> String {
        let mut radix = Radix::new(sort, memory, "read");
        let input = radix.input();
        let tile = self.open(&mut radix);
        let mut coordinates = radix.locate(&tile.row);
        let zero = index(radix.e(), 0);
        let base = radix.half(&tile.row, &zero);
        radix.read(&input, &mut coordinates, &base, &tile.range);
        let first = radix.e().op(format_args!("arith.cmpi eq, {}, {zero} : index", tile.nth));
        radix.e().open(format_args!("scf.if {first} {{"));
        radix.set_state(&tile.row, State::Shift, &zero);
        radix.set_state(&tile.row, State::In, &zero);
        radix.e().close("}");
        radix.e().close("}");
        radix.phase.finish()
    }

    fn count(&self, sort: &Sort, memory: &Memory) -> String {
        let mut radix = Radix::new(sort, memory, "count");
        let tile = self.open(&mut radix);
        let half = radix.state(&tile.row, State::In);
        let shift = radix.state(&tile.row, State::Shift);
        let (source, bytes) = (radix.half(&tile.row, &half), radix.bytes(&tile.row));
        let table = radix.table(&tile.part);
        radix.count(&source, &bytes, &tile.range, &shift, &table);
        radix.e().close("}");
        radix.phase.finish()
    }

    fn offsets(&self, sort: &Sort, memory: &Memory) -> String {
        let mut radix = Radix::new(sort, memory, "offsets");
        let (begin, end) = (radix.phase.begin(), radix.phase.end());
        let row = open_for(radix.e(), &begin, &end, 1);
        let parts = index(radix.e(), self.parts);
        let part = index_op(radix.e(), "arith.muli", &row, &parts);
        let table = radix.table(&part);
        let same = radix.offsets(&table);
        let half = radix.state(&row, State::In);
        let one = index(radix.e(), 1);
        let other = index_op(radix.e(), "arith.subi", &one, &half);
        let next = radix.e().op(format_args!("arith.select {same}, {half}, {other} : index"));
        radix.set_state(&row, State::From, &half);
        radix.set_state(&row, State::In, &next);
        let (shift, byte) = (radix.state(&row, State::Shift), index(radix.e(), 8));
        let shift = index_op(radix.e(), "arith.addi", &shift, &byte);
        radix.set_state(&row, State::Shift, &shift);
        radix.e().close("}");
        radix.phase.finish()
    }

    fn distribute(&self, sort: &Sort, memory: &Memory) -> String {
        let mut radix = Radix::new(sort, memory, "distribute");
        let tile = self.open(&mut radix);
        let (from, to) = (radix.state(&tile.row, State::From), radix.state(&tile.row, State::In));
        let moves = radix.e().op(format_args!("arith.cmpi ne, {from}, {to} : index"));
        radix.e().open(format_args!("scf.if {moves} {{"));
        let (source, target) = (radix.half(&tile.row, &from), radix.half(&tile.row, &to));
        let (bytes, table) = (radix.bytes(&tile.row), radix.table(&tile.part));
        radix.distribute([&source, &target], &bytes, &tile.range, &table);
        radix.e().close("}");
        radix.e().close("}");
        radix.phase.finish()
    }

    fn write(&self, sort: &Sort, memory: &Memory) -> String {
        let mut radix = Radix::new(sort, memory, "write");
        let output = radix.output();
        let tile = self.open(&mut radix);
        let mut coordinates = radix.locate(&tile.row);
        let half = radix.state(&tile.row, State::In);
        let base = radix.half(&tile.row, &half);
        radix.write(&output, &mut coordinates, &base, &tile.range);
        radix.e().close("}");
        radix.phase.finish()
    }
}
