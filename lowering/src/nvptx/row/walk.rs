//! Walks over the steps of a row: reducing, and storing.

use super::accumulator::{Accumulator, Adding, Parts};
use super::kernel::Kernel;
use crate::LoweringError;
use crate::cascade::Sums;
use crate::emit::Value;
use crate::host::lanes::{Form, vector_type};
use crate::nvptx::chunk::{Chunk, Environment, Evaluator, Known};
use crate::scalar;
use burn_mlir_ir::{DType, Operand, Store};

impl Kernel<'_> {
    /// Reduces a level whose rows are not split; stores what is `early` on the way, if steps do not stay in
    /// registers.
    pub fn reduce_level(&mut self, level: &[Accumulator], early: &[&Store]) -> Result<(), LoweringError> {
        let walked = if self.geometry.registers {
            self.walk_registers(level)?
        } else {
            self.walk_split(level, early)?
        };
        let edges = self.walk_edge(level, early)?;
        for ((accumulator, parts), edge) in level.iter().zip(walked).zip(edges) {
            let parts = self.across_threads(accumulator, parts, edge)?;
            self.learn(accumulator, &parts)?;
        }
        Ok(())
    }

    /// What the edge elements of this thread come to, scalars.
    pub fn walk_edge(
        &mut self,
        level: &[Accumulator],
        early: &[&Store],
    ) -> Result<Vec<Option<Parts>>, LoweringError> {
        let Some((chunk, mut known)) = self.edge.take() else { return Ok(vec![None; level.len()]) };
        let evaluator = &mut self.evaluator;
        let mut all: Vec<Parts> = level.iter().map(|a| a.start(evaluator.e(), 1)).collect();
        take(evaluator, &chunk, &mut known, level, &mut all, &self.positions)?;
        if !early.is_empty() {
            store_chunk(evaluator, &chunk, &mut known, early)?;
        }
        self.edge = Some((chunk, known));
        let scalars = level.iter().zip(all).map(|(a, parts)| a.across_lanes(evaluator.e(), 1, &parts));
        scalars.map(|parts| parts.map(Some)).collect()
    }

    fn walk_registers(&mut self, level: &[Accumulator]) -> Result<Vec<Parts>, LoweringError> {
        let evaluator = &mut self.evaluator;
        let wanted: Vec<Operand> = level.iter().map(|accumulator| accumulator.operand).collect();
        for (chunk, known) in &mut self.steps {
            evaluator.load(known, chunk, &wanted);
        }
        let mut all: Vec<Parts> = level.iter().map(|a| a.start(evaluator.e(), self.geometry.width)).collect();
        for (chunk, known) in &mut self.steps {
            take(evaluator, chunk, known, level, &mut all, &self.positions)?;
        }
        Ok(all)
    }

    /// Walks over the steps of this block's part of the row; stores what is `early` on the way.
    pub fn walk_split(
        &mut self,
        level: &[Accumulator],
        early: &[&Store],
    ) -> Result<Vec<Parts>, LoweringError> {
        let adding = Adding { level, width: self.geometry.width };
        let reduced = level.iter().map(|accumulator| accumulator.operand);
        let wanted: Vec<Operand> = reduced.chain(early.iter().map(|store| store.value)).collect();
        let carried = adding.start(self);
        let results = self.walk_steps(&adding, carried, |kernel, chunks, carried| {
            let mut all = adding.parts(&carried);
            let mut environments: Vec<_> = chunks.iter().map(|_| kernel.known.clone()).collect();
            let evaluator = &mut kernel.evaluator;
            for (chunk, known) in chunks.iter().zip(&mut environments) {
                evaluator.load(known, chunk, &wanted);
            }
            for (chunk, known) in chunks.iter().zip(&mut environments) {
                take(evaluator, chunk, known, level, &mut all, &kernel.positions)?;
                if !early.is_empty() {
                    store_chunk(evaluator, chunk, known, early)?;
                }
            }
            Ok(adding.carried(all))
        })?;
        Ok(adding.parts(&results))
    }

    /// Combines what the threads that share a row have, besides steps of an edge: scalars if lanes run along the
    /// row.
    pub fn across_threads(
        &mut self,
        accumulator: &Accumulator,
        parts: Parts,
        edge: Option<Parts>,
    ) -> Result<Parts, LoweringError> {
        let geometry = self.geometry;
        let evaluator = &mut self.evaluator;
        if geometry.along {
            let mut parts = accumulator.across_lanes(evaluator.e(), geometry.width, &parts)?;
            if let Some(edge) = edge {
                parts = accumulator.combine(evaluator.e(), &parts, &edge);
            }
            let block = geometry.block_threads();
            accumulator.across_neighbours(evaluator, parts, geometry.threads, &self.thread, block)
        } else {
            let (width, threads, rows) = (geometry.width, geometry.threads, geometry.block_rows);
            accumulator.across_strangers(evaluator, parts, width, threads, rows, &self.thread)
        }
    }

    /// Makes a reduction's result known as the value of its statement.
    pub fn learn(&mut self, accumulator: &Accumulator, parts: &[Value]) -> Result<(), LoweringError> {
        let statement = accumulator.statement;
        let evaluator = &mut self.evaluator;
        let dtype = evaluator.block.body[statement].dtype;
        let types = accumulator.types();
        let width = self.geometry.width;
        let mut value = parts[parts.len() - 1].clone();
        let ty = types[types.len() - 1];
        let varies = evaluator.varies(statement);
        if !self.geometry.along && !varies {
            value = evaluator
                .e()
                .op(format_args!("vector.extract {value}[0] : {ty} from {}", vector_type(width, ty)));
        }
        let known = if !varies {
            Known::Scalar(if accumulator.is_position() {
                scalar::cast(evaluator.e(), DType::I64, dtype, &value)
            } else {
                Form::Accumulator.to_value(evaluator.e(), dtype, &value)
            })
        } else if accumulator.is_position() {
            let result = Form::Value.element(dtype);
            let cast = evaluator.lanewise(width, &[(value, "i64")], &[result], |e, position| {
                Ok(vec![scalar::cast(e, DType::I64, dtype, &position[0])])
            })?;
            Known::Lanes(cast[0].clone(), Form::Value)
        } else {
            Known::Lanes(value, Form::Accumulator)
        };
        for (_, environment) in self.steps.iter_mut().chain(&mut self.edge) {
            environment[statement] = Some(known.clone());
        }
        self.known[statement] = Some(known);
        Ok(())
    }

    /// Stores row values.
    pub fn store_narrow(&mut self, stores: &[&Store]) -> Result<(), LoweringError> {
        if stores.is_empty() {
            return Ok(());
        }
        let first = self.first_share();
        self.evaluator.e().open(format_args!("scf.if {first} {{"));
        let chunk = Chunk { valid: None, ..self.row_chunk() };
        let mut known = self.known.clone();
        store_chunk(&mut self.evaluator, &chunk, &mut known, stores)?;
        self.evaluator.e().close("}");
        Ok(())
    }

    /// Stores values at every step of the row.
    pub fn store_wide(&mut self, stores: &[&Store]) -> Result<(), LoweringError> {
        if stores.is_empty() {
            return Ok(());
        }
        let wanted: Vec<Operand> = stores.iter().map(|store| store.value).collect();
        let mut edge = self.edge.take();
        let store = |evaluator: &mut Evaluator<'_>, steps: &mut [(Chunk, Environment)]| {
            for (chunk, known) in steps.iter_mut() {
                evaluator.load(known, chunk, &wanted);
            }
            steps.iter_mut().try_for_each(|(chunk, known)| store_chunk(evaluator, chunk, known, stores))
        };
        if self.geometry.registers {
            store(&mut self.evaluator, &mut std::mem::take(&mut self.steps))?;
        } else {
            let nothing = Adding { level: &[], width: self.geometry.width };
            self.walk_steps(&nothing, Vec::new(), |kernel, chunks, _| {
                let mut steps: Vec<_> =
                    chunks.iter().map(|chunk| (chunk.clone(), kernel.known.clone())).collect();
                store(&mut kernel.evaluator, &mut steps)?;
                Ok(Vec::new())
            })?;
        }
        if let Some((chunk, known)) = &mut edge {
            store_chunk(&mut self.evaluator, chunk, known, stores)?;
        }
        Ok(())
    }
}

/// Takes a chunk into the accumulators of a level.
fn take(
    evaluator: &mut Evaluator<'_>,
    chunk: &Chunk,
    known: &mut Environment,
    level: &[Accumulator],
    all: &mut [Parts],
    positions: &[i64],
) -> Result<(), LoweringError> {
    let wanted: Vec<_> = level.iter().map(|accumulator| (accumulator.operand, Form::Accumulator)).collect();
    let values = evaluator.evaluate(known, chunk, &wanted)?;
    for ((accumulator, parts), value) in level.iter().zip(all).zip(values) {
        *parts = accumulator.take(evaluator, chunk, parts, &value, positions)?;
    }
    Ok(())
}

/// Evaluates and stores values of a chunk, where it is valid.
fn store_chunk(
    evaluator: &mut Evaluator<'_>,
    chunk: &Chunk,
    known: &mut Environment,
    stores: &[&Store],
) -> Result<(), LoweringError> {
    let wanted: Vec<_> = stores.iter().map(|store| (store.value, Form::Storage)).collect();
    let values = evaluator.evaluate(known, chunk, &wanted)?;
    evaluator.store_valid(chunk, stores.iter().copied(), &values);
    Ok(())
}
