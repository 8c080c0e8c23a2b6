//! What happens to the accumulators: the statements after the contraction, and the stores.
//!
//! A thread has, of each run of 8 columns, two neighbouring ones in a row and in another further down. What is
//! the same for all of a tile, for a row, or for a pair of columns is evaluated once for it.

mod deferred;
mod memory;
mod pair;
mod spot;
mod staging;
mod wide;

use super::consumer::Consumer;
use super::int::{int, int_by, int_op};
use super::kernel::Kernel;
use super::place::Place;
use super::plan::ROWS;
use super::results::{COLUMNS, Shape, Staged};
use crate::LoweringError;
use crate::contraction::epilogue;
use crate::emit::Value;
use burn_mlir_ir::{Block, Instr};
use pair::{Known, Pair, Pairs, converted};
use spot::{Coordinates, Spot};
use staging::Staging;
use wide::Wide;

/// Registers that may hold what is loaded of columns while the products are computed.
const EARLY_REGISTERS: usize = 40;

/// What a statement's value depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// The place in the batch at most.
    Tile,
    /// The row, too.
    Row,
    /// The column, but not the row.
    Column,
    /// Both, or the contraction.
    Element,
}

/// Writes the epilogue of a consumer.
pub(super) struct Finisher<'a> {
    consumer: Consumer,
    pairs: Pairs<'a>,
    /// The dimensions each statement depends on.
    sets: Vec<u32>,
    column_dims: u32,
    scopes: Vec<Scope>,
    /// What the stores need besides the contraction, in order.
    needed: Vec<usize>,
    staging: Option<Staging>,
    /// Where f32 results are in it, if they are.
    wide: Option<Wide>,
    /// A thread's first row and column in a tile.
    row: Value,
    column: Value,
    batch: Coordinates,
    rows: Vec<Spot>,
    /// What is known for each row, and of what does not depend on it.
    row_known: Vec<Known>,
    /// What is known for each pair of columns, if it was loaded early.
    column_known: Vec<Option<Known>>,
    /// Whether anything is to be stored, where that is not certain.
    enabled: Option<Value>,
}

/// A pair of columns in both rows, and what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Run {
    spot: Spot,
    known: [Known; 2],
}

impl<'a> Kernel<'a> {
    /// Prepares the epilogue, outside the loop over tiles.
    pub fn finisher(&mut self, consumer: &Consumer) -> Result<Finisher<'a>, LoweringError> {
        let (problem, block) = (self.problem, self.problem.block);
        let bits = |dims: &[usize]| dims.iter().fold(0u32, |set, dim| set | 1 << dim);
        let (row_dims, column_dims) = (bits(&problem.rows.dims), bits(&problem.columns.dims));
        let statement = problem.contraction.statement.0 as usize;
        let sets = block.dependences();
        let needed = epilogue(block, problem.contraction.statement);
        let after = depends_on(block, statement);
        let scopes = (0..block.body.len())
            .map(|s| match (after[s], sets[s] & row_dims != 0, sets[s] & column_dims != 0) {
                (true, ..) | (_, true, true) => Scope::Element,
                (_, true, false) => Scope::Row,
                (_, false, true) => Scope::Column,
                (_, false, false) => Scope::Tile,
            })
            .collect();
        let staging = (self.plan.store_buffers > 0).then(|| Staging::new(self, consumer));
        let shape = self.results.staged.iter().flatten().map(|staged| staged.shape).next();
        let wide = shape.filter(|&shape| shape != Shape::Halves);
        let wide = wide.map(|shape| Wide::new(self.e(), consumer, shape));
        let scalars = self.scalars.clone();
        let e = self.e();
        let first = int_by(e, "muli", &consumer.number, ROWS);
        let row = int_op(e, "addi", &consumer.row, &first);
        let column = int_by(e, "andi", &consumer.thread, 3);
        let column = int_by(e, "muli", &column, 2);
        Ok(Finisher {
            consumer: consumer.clone(),
            pairs: Pairs { block, scalars },
            sets,
            column_dims,
            scopes,
            needed,
            staging,
            wide,
            row,
            column,
            batch: vec![],
            rows: vec![],
            row_known: vec![],
            column_known: vec![],
            enabled: None,
        })
    }
}

/// The statements that depend on statement `at`.
fn depends_on(block: &Block, at: usize) -> Vec<bool> {
    let mut after = vec![false; block.body.len()];
    after[at] = true;
    for (position, statement) in block.body.iter().enumerate() {
        after[position] |= statement.instr.operands().iter().any(|o| after[o.0 as usize]);
    }
    after
}

impl Finisher<'_> {
    /// Evaluates what is the same for a tile or a row. Nothing is stored where `enabled` does not hold.
    pub fn locate(
        &mut self,
        kernel: &mut Kernel<'_>,
        place: &Place,
        enabled: Option<Value>,
    ) -> Result<(), LoweringError> {
        let (problem, plan) = (kernel.problem, kernel.plan);
        self.enabled = enabled;
        let e = kernel.e();
        self.batch = spot::batch(e, problem, place);
        let first = int_op(e, "addi", &place.row, &self.row);
        self.rows = [0, self.consumer.down]
            .map(|down| {
                let at = int_by(e, "addi", &first, down);
                spot::row(e, problem, plan, &at)
            })
            .to_vec();
        let mut tile: Known = vec![None; problem.block.body.len()];
        let anywhere = self.coordinates(kernel, [&vec![], &vec![]]);
        self.evaluate(kernel, &mut tile, Scope::Tile, &anywhere)?;
        self.row_known.clear();
        for row in self.rows.clone() {
            let mut known = tile.clone();
            let at = self.coordinates(kernel, [&row.coordinates[0], &row.coordinates[1]]);
            self.evaluate(kernel, &mut known, Scope::Row, &at)?;
            self.row_known.push(known);
        }
        Ok(())
    }

    /// Loads what is the same for columns, if there are registers for it: while the last products are under way.
    pub fn load_early(&mut self, kernel: &mut Kernel<'_>, place: &Place) {
        let (problem, plan) = (kernel.problem, kernel.plan);
        let loads = self.needed.iter().filter(|&&s| {
            self.scopes[s] == Scope::Column && matches!(problem.block.body[s].instr, Instr::Load { .. })
        });
        let registers = |s: &usize| (2 * problem.block.body[*s].dtype.size()).div_ceil(4);
        let early = loads.map(registers).sum::<usize>() * plan.columns / 8 <= EARLY_REGISTERS;
        self.column_known = vec![None; plan.columns / 8];
        if early {
            for run in 0..plan.columns / 8 {
                let spot = self.columns(kernel, place, run);
                let mut known: Known = vec![None; problem.block.body.len()];
                let at = self.coordinates(kernel, [&spot.coordinates[0], &spot.coordinates[1]]);
                self.load_all(kernel, &mut known, Scope::Column, &at);
                self.column_known[run] = Some(known);
            }
        }
    }

    /// Evaluates and stores a thread's results.
    pub fn write(
        &mut self,
        kernel: &mut Kernel<'_>,
        place: &Place,
        sums: &[Value],
    ) -> Result<(), LoweringError> {
        let runs = COLUMNS / 8;
        for (group, sums) in sums.chunks(COLUMNS / 2).enumerate() {
            self.write_group(kernel, place, group * runs, sums)?;
        }
        Ok(())
    }

    /// Evaluates and stores 64 columns, from run `first` of 8 on; fewer at the end of a tile of other sizes.
    fn write_group(
        &mut self,
        kernel: &mut Kernel<'_>,
        place: &Place,
        first: usize,
        sums: &[Value],
    ) -> Result<(), LoweringError> {
        // Loads first, so that many are under way.
        let runs: Vec<Run> = (first..first + sums.len() / 4)
            .map(|run| {
                let spot = self.columns(kernel, place, run);
                let early = self.column_known[run].take();
                self.begin(kernel, spot, early)
            })
            .collect();
        let results = kernel.results;
        let boxes = results.demand.staged;
        let slots = boxes * kernel.plan.columns / COLUMNS;
        let group = first * 8 / COLUMNS;
        let buffers = kernel.plan.store_buffers;
        let buffer = |staged: &Staged, number: usize| (group * boxes + staged.first + number) % buffers;
        if let Some(staging) = &self.staging {
            staging.acquire(kernel.e(), &self.consumer, [group * boxes, boxes], slots, buffers);
        }
        let dtype = kernel.problem.result_type();
        let mut packed: Vec<Vec<Value>> = vec![vec![]; results.maps.len()];
        for (position, (run, sums)) in runs.into_iter().zip(sums.chunks(4)).enumerate() {
            let sums: [Pair; 2] = std::array::from_fn(|row| {
                let pair = [sums[2 * row].clone(), sums[2 * row + 1].clone()];
                converted(kernel.e(), dtype, &pair)
            });
            let values = self.finish(kernel, run, sums)?;
            let Some(staging) = &self.staging else { continue };
            let e = kernel.e();
            for (staged, rows) in results.staged.iter().flatten().zip(values) {
                let (dtype, buffer) = (staged.view.dtype, buffer(staged, 0));
                if let Some(wide) = &self.wide {
                    let values = rows.map(|pair| pair.lanes(e, dtype));
                    staging.write_wide(e, wide, buffer, position, &values);
                    continue;
                }
                let packed = &mut packed[staged.map];
                packed.extend(rows.map(|pair| pair.bits(e, dtype)));
                if packed.len() == 4 {
                    let values: [Value; 4] = std::array::from_fn(|at| packed[at].clone());
                    staging.write(e, buffer, position / 2, &values);
                    packed.clear();
                }
            }
        }
        let Some(staging) = self.staging.as_ref().filter(|_| boxes > 0) else { return Ok(()) };
        let e = kernel.e();
        staging.publish(e, &self.consumer);
        for staged in results.staged.iter().flatten() {
            let [down, across] = staged.shape.apart();
            for number in 0..staged.shape.boxes() {
                let buffer = int(e, buffer(staged, number));
                let shifts = [number * down, group * COLUMNS + number * across].map(|shift| int(e, shift));
                staging.send(e, &self.consumer, staged, place, &buffer, shifts.each_ref());
            }
        }
        Ok(())
    }

    /// Loads what a pair of columns needs.
    fn begin(&self, kernel: &mut Kernel<'_>, spot: Spot, early: Option<Known>) -> Run {
        let mut of_columns = early.unwrap_or_else(|| vec![None; self.pairs.block.body.len()]);
        let at = self.coordinates(kernel, [&spot.coordinates[0], &spot.coordinates[1]]);
        self.load_all(kernel, &mut of_columns, Scope::Column, &at);
        let known = [0, 1].map(|row| {
            let mut known = self.row_known[row].clone();
            merge(&mut known, &of_columns);
            let at = self.element(kernel, row, &spot);
            self.load_all(kernel, &mut known, Scope::Element, &at);
            known
        });
        Run { spot, known }
    }

    /// Evaluates all statements for a pair of columns, of which `sums` are the contraction's results in both rows,
    /// and stores what each thread stores itself. Gives the pairs in both rows of each result that is staged.
    fn finish(
        &self,
        kernel: &mut Kernel<'_>,
        run: Run,
        sums: [Pair; 2],
    ) -> Result<Vec<[Pair; 2]>, LoweringError> {
        let Run { spot, known: [mut first, mut second] } = run;
        let contraction = kernel.problem.contraction.statement.0 as usize;
        let at = self.coordinates(kernel, [&spot.coordinates[0], &spot.coordinates[1]]);
        self.evaluate(kernel, &mut first, Scope::Column, &at)?;
        merge(&mut second, &self.of_scope(&first, Scope::Column));
        let known = [first, second];
        let mut rows = Vec::new();
        for (row, (mut known, sums)) in known.into_iter().zip(sums).enumerate() {
            known[contraction] = Some(sums);
            let at = self.element(kernel, row, &spot);
            self.evaluate(kernel, &mut known, Scope::Element, &at)?;
            rows.push((known, at));
        }
        let block = kernel.problem.block;
        let mut values = Vec::new();
        for (number, store) in block.stores.iter().enumerate() {
            let mut of_rows = Vec::new();
            for (row, (known, at)) in rows.iter().enumerate() {
                let Some(pair) = &known[store.value.0 as usize] else {
                    return Err(LoweringError::Unsupported("a store of what is not evaluated".into()));
                };
                if kernel.results.staged[number].is_some() {
                    of_rows.push(pair.clone());
                } else {
                    let e = kernel.e();
                    let row =
                        self.rows[row].valid.each_ref().map(|valid| spot::both(e, valid, &self.enabled));
                    self.store(kernel, store, pair, at, [&row, &spot.valid]);
                }
            }
            if let Ok(both) = <[Pair; 2]>::try_from(of_rows) {
                values.push(both);
            }
        }
        Ok(values)
    }

    /// What is known of statements of a scope.
    fn of_scope(&self, known: &Known, scope: Scope) -> Known {
        let keep = |(s, pair): (usize, &Option<Pair>)| (self.scopes[s] == scope).then(|| pair.clone());
        known.iter().enumerate().map(|entry| keep(entry).flatten()).collect()
    }

    /// Evaluates the statements of a scope that are needed and not known yet.
    fn evaluate(
        &self,
        kernel: &mut Kernel<'_>,
        known: &mut Known,
        scope: Scope,
        at: &[Vec<Value>; 2],
    ) -> Result<(), LoweringError> {
        self.load_all(kernel, known, scope, at);
        for &statement in self.needed.iter().filter(|&&s| self.scopes[s] == scope) {
            if known[statement].is_none() {
                known[statement] = Some(self.pairs.evaluate(kernel.e(), known, statement, at)?);
            }
        }
        Ok(())
    }

    /// Loads what statements of a scope load, if it is not known yet.
    fn load_all(&self, kernel: &mut Kernel<'_>, known: &mut Known, scope: Scope, at: &[Vec<Value>; 2]) {
        for &statement in self.needed.iter().filter(|&&s| self.scopes[s] == scope) {
            if known[statement].is_none() {
                known[statement] = self.load(kernel, statement, at);
            }
        }
    }

    /// The columns of a thread in the `run`-th 8 of a tile.
    fn columns(&self, kernel: &mut Kernel<'_>, place: &Place, run: usize) -> Spot {
        let (problem, plan) = (kernel.problem, kernel.plan);
        let e = kernel.e();
        let at = int_op(e, "addi", &place.column, &self.column);
        spot::columns(e, problem, plan, &at, 8 * run)
    }

    fn element(&self, kernel: &mut Kernel<'_>, row: usize, spot: &Spot) -> [Vec<Value>; 2] {
        let of = |lane: usize| {
            let row = self.rows[row].coordinates[lane].iter();
            row.chain(&spot.coordinates[lane]).cloned().collect::<Coordinates>()
        };
        let (first, second) = (of(0), of(1));
        self.coordinates(kernel, [&first, &second])
    }

    /// Coordinates in the whole domain, from those of the batch and those given; 0 along others.
    fn coordinates(&self, kernel: &mut Kernel<'_>, given: [&Coordinates; 2]) -> [Vec<Value>; 2] {
        let dims = kernel.problem.block.domain.len();
        let zero = kernel.zero.clone();
        given.map(|given| {
            let mut all = vec![zero.clone(); dims];
            for (dim, at) in self.batch.iter().chain(given) {
                all[*dim] = at.clone();
            }
            all
        })
    }

    /// Ends the function.
    pub fn end(&self, kernel: &mut Kernel<'_>) {
        if let Some(staging) = &self.staging {
            staging.drain(kernel.e(), &self.consumer);
        }
    }
}

/// Adds what is known elsewhere.
fn merge(known: &mut Known, other: &Known) {
    for (mine, other) in known.iter_mut().zip(other) {
        if mine.is_none() {
            mine.clone_from(other);
        }
    }
}
