//! What happens to a row of accumulators: the statements after the contraction, and the stores.

use super::index::{Index, repeat, segments};
use super::memory::{self, Array, View};
use crate::abi::{PhaseWriter, Scratch};
use crate::contraction::{Contraction, epilogue};
use crate::emit::{Emitter, Value};
use crate::types::{storage_type, value_type};
use crate::{LoweringError, scalar};
use burn_mlir_ir::{Access, Block, DType, Instr, Operand};
use std::collections::HashMap;

/// The epilogue of one contraction, with views of the buffers it uses.
pub(crate) struct Epilogue<'a> {
    block: &'a Block,
    contraction: &'a Contraction,
    statements: Vec<usize>,
    loads: HashMap<usize, View>,
    scalars: HashMap<usize, Value>,
    /// Key and stream of the random statements.
    seeds: HashMap<usize, [Value; 2]>,
    stores: Vec<View>,
    /// Rows of scratch for what does not lie in a row in memory: by statement for loads, by store.
    load_rows: HashMap<usize, Array>,
    store_rows: HashMap<usize, Array>,
}

/// Bytes an element of a scratch row may take.
const ELEMENT: i64 = 8;

/// Bytes of scratch the epilogue of `block` needs for rows of `width` columns.
pub(crate) fn scratch_bytes(block: &Block, width: i64) -> i64 {
    (block.body.len() + block.stores.len()) as i64 * width * ELEMENT
}

/// Where a row of accumulators lies in the iteration space.
pub(crate) struct Row<'a> {
    /// Batch element.
    pub batch: &'a Index,
    /// Row.
    pub row: &'a Index,
    /// First column and the number of columns.
    pub columns: (&'a Index, &'a Index),
}

impl<'a> Epilogue<'a> {
    /// Emits what is loaded once per call: pointers and scalars. Rows of `width` columns may use the worker's
    /// scratch behind `bytes`.
    pub fn prepare(
        phase: &mut PhaseWriter,
        block: &'a Block,
        contraction: &'a Contraction,
        width: i64,
        bytes: i64,
    ) -> Self {
        let statements = epilogue(block, contraction.statement);
        let (mut loads, mut scalars, mut seeds) = (HashMap::new(), HashMap::new(), HashMap::new());
        for &position in &statements {
            match &block.body[position].instr {
                Instr::Load { param, access } => {
                    loads.insert(position, View::of(phase, block, *param, access));
                }
                Instr::Scalar { slot } => {
                    scalars.insert(position, phase.scalar(*slot as usize, block.scalars[*slot as usize]));
                }
                Instr::Random { key, stream, .. } => {
                    let seed = [key, stream].map(|&slot| phase.scalar(slot as usize, DType::U32));
                    seeds.insert(position, seed);
                }
                _ => {}
            }
        }
        let stores: Vec<View> =
            block.stores.iter().map(|s| View::of(phase, block, s.param, &s.access)).collect();
        let stride = |access: &Access| contraction.columns.inner(access).stride;
        let mut row = |position: usize, element| {
            Array::of(phase, Scratch::Worker, bytes + position as i64 * width * ELEMENT, &[width], element)
        };
        let mut load_rows = HashMap::new();
        for (&position, view) in &loads {
            if let Instr::Load { access, .. } = &block.body[position].instr
                && !matches!(stride(access), 0 | 1)
            {
                load_rows.insert(position, row(position, view.element));
            }
        }
        let mut store_rows = HashMap::new();
        for (index, store) in block.stores.iter().enumerate() {
            if !matches!(stride(&store.access), 0 | 1) {
                store_rows.insert(index, row(block.body.len() + index, stores[index].element));
            }
        }
        Self { block, contraction, statements, loads, scalars, seeds, stores, load_rows, store_rows }
    }

    fn offset(&self, e: &mut Emitter, access: &Access, row: &Row) -> Index {
        let c = self.contraction;
        let batch = c.batch.offset(e, access, row.batch);
        let rows = c.rows.offset(e, access, row.row);
        let columns = c.columns.offset(e, access, row.columns.0);
        batch.add(e, &rows).add(e, &columns)
    }

    fn column_stride(&self, access: &Access) -> i64 {
        self.contraction.columns.inner(access).stride
    }

    /// Emits the epilogue of the accumulators `sums`, a tensor of the row's length and the accumulator's type.
    pub fn emit(&self, e: &mut Emitter, sums: (&Value, &str), row: &Row) -> Result<(), LoweringError> {
        let length = row.columns.1;
        let accumulator = value_type(self.contraction.accumulator);
        // Inputs along the columns are operands of the linalg operation; all else is captured.
        let mut inputs = vec![(sums.0.clone(), sums.1.to_string(), accumulator)];
        let mut arguments: HashMap<usize, usize> = HashMap::new();
        let mut captured: HashMap<usize, Value> = self.scalars.clone();
        for &position in &self.statements {
            let statement = &self.block.body[position];
            match &statement.instr {
                Instr::Load { access, .. } => {
                    let view = &self.loads[&position];
                    let offset = self.offset(e, access, row);
                    let stride = self.column_stride(access);
                    if stride == 0 {
                        let x = view.load(e, &offset);
                        captured.insert(position, scalar::from_storage(e, statement.dtype, &x));
                    } else {
                        let (tensor, tensor_type) = match self.load_rows.get(&position) {
                            None => view.tensor(e, &offset, length),
                            Some(scratch) => {
                                repeat(e, &Index::Known(0), length, 1, |e, j| {
                                    let place = j.mul(e, stride).add(e, &offset);
                                    let x = view.load(e, &place);
                                    scratch.store(e, &[&j], &x);
                                });
                                let (slice, slice_type) =
                                    scratch.slice(e, &[&Index::Known(0)], &[length], &[1]);
                                memory::to_tensor(e, &slice, &slice_type, &[length], scratch.element)
                            }
                        };
                        arguments.insert(position, inputs.len());
                        inputs.push((tensor, tensor_type, storage_type(statement.dtype)));
                    }
                }
                Instr::Index { access, offset } | Instr::Random { access, offset, .. } => {
                    let base = self.offset(e, access, row).add(e, &Index::Known(*offset)).value(e);
                    captured.insert(position, base);
                }
                _ => {}
            }
        }
        // Results are computed where they go: those that have the same value would become one, and then be copied.
        let mut targets = Vec::new();
        let mut outputs: Vec<(Value, String, DType)> = Vec::new();
        for (index, store) in self.block.stores.iter().enumerate() {
            let dtype = self.block.body[store.value.0 as usize].dtype;
            let offset = self.offset(e, &store.access, row);
            let (slice, slice_type) = match self.store_rows.get(&index) {
                None => self.stores[index].slice(e, &offset, length),
                Some(scratch) => scratch.slice(e, &[&Index::Known(0)], &[length], &[1]),
            };
            let (tensor, tensor_type) = memory::target(e, &slice, &slice_type, length, storage_type(dtype));
            outputs.push((tensor, tensor_type, dtype));
            targets.push((offset, slice, slice_type));
        }
        let list = |items: &[String]| items.join(", ");
        let maps = vec!["affine_map<(j) -> (j)>".to_string(); inputs.len() + outputs.len()];
        let results = list(&outputs.iter().map(|o| o.1.clone()).collect::<Vec<_>>());
        let result = e.fresh();
        let count = if outputs.len() > 1 { format!(":{}", outputs.len()) } else { String::new() };
        let position_of = |r: usize| if outputs.len() > 1 { format!("{result}#{r}") } else { result.clone() };
        e.open(format_args!(
            "{result}{count} = linalg.generic {{indexing_maps = [{}], iterator_types = [\"parallel\"]}} ins({} : {}) outs({} : {results}) attrs = {{epilogue}} {{",
            list(&maps),
            list(&inputs.iter().map(|i| i.0.clone()).collect::<Vec<_>>()),
            list(&inputs.iter().map(|i| i.1.clone()).collect::<Vec<_>>()),
            list(&outputs.iter().map(|o| o.0.clone()).collect::<Vec<_>>()),
        ));
        let names: Vec<Value> = inputs.iter().map(|_| e.fresh()).collect();
        let mut block_arguments: Vec<String> =
            names.iter().zip(&inputs).map(|(name, input)| format!("{name}: {}", input.2)).collect();
        for output in &outputs {
            block_arguments.push(format!("{}: {}", e.fresh(), storage_type(output.2)));
        }
        e.line(format_args!("^bb0({}):", list(&block_arguments)));
        let values = self.body(e, &names, &arguments, &captured)?;
        let yielded: Vec<Value> = (self.block.stores.iter())
            .map(|store| {
                let dtype = self.block.body[store.value.0 as usize].dtype;
                scalar::to_storage(e, dtype, &values[&(store.value.0 as usize)])
            })
            .collect();
        let types: Vec<String> = outputs.iter().map(|o| storage_type(o.2).to_string()).collect();
        e.line(format_args!("linalg.yield {} : {}", list(&yielded), list(&types)));
        let results = if outputs.len() > 1 { format!("({results})") } else { results };
        e.close(format_args!("}} -> {results}"));
        for (index, (offset, slice, slice_type)) in targets.iter().enumerate() {
            memory::write(e, (&position_of(index), &outputs[index].1), (slice, slice_type));
            let Some(scratch) = self.store_rows.get(&index) else { continue };
            let view = &self.stores[index];
            let stride = self.column_stride(&self.block.stores[index].access);
            repeat(e, &Index::Known(0), length, 1, |e, j| {
                let place = j.mul(e, stride).add(e, offset);
                let x = scratch.load(e, &[&j]);
                view.store(e, &place, &x);
            });
        }
        Ok(())
    }

    /// Emits the statements for one column; returns their values.
    fn body(
        &self,
        e: &mut Emitter,
        names: &[Value],
        arguments: &HashMap<usize, usize>,
        captured: &HashMap<usize, Value>,
    ) -> Result<HashMap<usize, Value>, LoweringError> {
        let c = self.contraction;
        let sum = scalar::cast(e, c.accumulator, self.block.body[c.statement.0 as usize].dtype, &names[0]);
        let mut values = HashMap::from([(c.statement.0 as usize, sum)]);
        for &position in &self.statements {
            let statement = &self.block.body[position];
            let dtype = statement.dtype;
            let of = |operand: &Operand| values[&(operand.0 as usize)].clone();
            let type_of = |operand: &Operand| self.block.body[operand.0 as usize].dtype;
            let value = match &statement.instr {
                Instr::Load { .. } => match arguments.get(&position) {
                    Some(&input) => scalar::from_storage(e, dtype, &names[input]),
                    None => captured[&position].clone(),
                },
                Instr::Scalar { .. } => captured[&position].clone(),
                Instr::Constant { value } => scalar::constant(e, dtype, *value),
                Instr::Index { access, .. } => {
                    let index = self.column_index(e, access, &captured[&position]);
                    e.op(format_args!("arith.index_cast {index} : index to {}", value_type(dtype)))
                }
                Instr::Random { access, .. } => {
                    let index = self.column_index(e, access, &captured[&position]);
                    let index = e.op(format_args!("arith.index_cast {index} : index to i64"));
                    let [key, stream] = &self.seeds[&position];
                    scalar::philox(e, key, stream, &index)
                }
                Instr::Unary(op, a) if !scalar::has_unary(*op, type_of(a)) => {
                    return Err(LoweringError::Unsupported(format!("{op} of {}", type_of(a))));
                }
                Instr::Binary(op, a, _) if !scalar::has_binary(*op, type_of(a)) => {
                    return Err(LoweringError::Unsupported(format!("{op} of {}", type_of(a))));
                }
                Instr::Unary(op, a) => scalar::unary(e, *op, type_of(a), &of(a)),
                Instr::Binary(op, a, b) => scalar::binary(e, *op, type_of(a), &of(a), &of(b)),
                Instr::Compare(op, a, b) => scalar::compare(e, *op, type_of(a), &of(a), &of(b)),
                Instr::Select(x, a, b) => scalar::select(e, dtype, &of(x), &of(a), &of(b)),
                Instr::Cast(a) => scalar::cast(e, type_of(a), dtype, &of(a)),
                Instr::Bitcast(a) => scalar::bitcast(e, type_of(a), dtype, &of(a)),
                other => {
                    return Err(LoweringError::Unsupported(format!(
                        "{other:?} in the epilogue of a contraction"
                    )));
                }
            };
            values.insert(position, value);
        }
        Ok(values)
    }

    fn column_index(&self, e: &mut Emitter, access: &Access, base: &Value) -> Value {
        let column = Index::Computed(e.op("linalg.index 0 : index"));
        let step = column.mul(e, self.column_stride(access));
        Index::Computed(base.clone()).add(e, &step).value(e)
    }
}

/// Emits the epilogue of every row and column of a register tile whose sums are in entry `slot` of `sums`.
pub(crate) fn tile(
    e: &mut Emitter,
    epilogue: &Epilogue,
    (sums, slot): (&Array, &Index),
    width: i64,
    batch: &Index,
    rows: [&Index; 2],
    columns: [&Index; 3],
) -> Result<(), LoweringError> {
    let c = epilogue.contraction;
    let mut outcome = Ok(());
    let [first_row, row_count] = rows;
    let aligned = c.column_run % width == 0 || c.column_run >= c.columns.len();
    segments(e, columns, c.column_run, width, c.columns.len(), |e, start, length| {
        let whole = matches!(length, Index::Known(n) if *n == width);
        let length = &if whole { length.clone() } else { length.opaque(e) };
        let column = if aligned { Index::Known(0) } else { start.sub(e, columns[0]) };
        repeat(e, &Index::Known(0), row_count, 1, |e, i| {
            let row = first_row.add(e, &i);
            let one = Index::Known(1);
            let (slice, slice_type) = sums.slice(e, &[slot, &i, &column], &[&one, &one, length], &[1]);
            let (tensor, tensor_type) = memory::to_tensor(e, &slice, &slice_type, &[length], sums.element);
            let position = Row { batch, row: &row, columns: (start, length) };
            outcome = epilogue.emit(e, (&tensor, &tensor_type), &position);
        });
    });
    outcome
}
