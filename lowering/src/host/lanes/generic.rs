//! What depends on the lanes: one linalg operation for all values asked for.

use super::{Around, Environment, Form, Known, Lanes, operands, tensor_type};
use crate::body;
use crate::emit::Value;
use crate::error::LoweringError;
use burn_mlir_ir::Operand;

impl Lanes<'_> {
    /// Evaluates `wanted` for a chunk of `width` lanes, each in the form asked for, as tensors.
    pub fn tensors(
        &mut self,
        known: &mut Environment,
        width: usize,
        wanted: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let operands: Vec<_> = wanted.iter().map(|w| w.0).collect();
        self.prepare(known, width, &operands)?;
        let mut tensors = vec![Value::new(); wanted.len()];
        let mut computed = Vec::new();
        for (position, (operand, form)) in wanted.iter().enumerate() {
            let dtype = self.block.body[operand.0 as usize].dtype;
            match &known[operand.0 as usize] {
                Some(Known::Lanes(tensor, has)) if has.element(dtype) == form.element(dtype) => {
                    tensors[position] = tensor.clone();
                }
                _ => computed.push((position, *operand, *form)),
            }
        }
        if !computed.is_empty() {
            let outputs: Vec<_> = computed.iter().map(|&(_, operand, form)| (operand, form)).collect();
            let results = self.generic(known, width, &outputs)?;
            for ((position, ..), result) in computed.iter().zip(results) {
                tensors[*position] = result;
            }
        }
        Ok(tensors)
    }

    /// One `linalg.generic` that computes `outputs` from what is known.
    pub(super) fn generic(
        &mut self,
        known: &Environment,
        width: usize,
        outputs: &[(Operand, Form)],
    ) -> Result<Vec<Value>, LoweringError> {
        let body = &self.block.body;
        let mut used = vec![false; body.len()];
        let mut stack: Vec<usize> = outputs.iter().map(|o| o.0.0 as usize).collect();
        while let Some(statement) = stack.pop() {
            if !std::mem::replace(&mut used[statement], true)
                && matches!(known[statement], Some(Known::Deferred) | None)
            {
                stack.extend(operands(&body[statement].instr).iter().map(|o| o.0 as usize));
            }
        }
        let mut inputs = Vec::new();
        let mut values: Vec<Option<Value>> = vec![None; body.len()];
        for (statement, _) in used.iter().enumerate().filter(|(_, used)| **used) {
            match &known[statement] {
                Some(Known::Scalar(value)) => values[statement] = Some(value.clone()),
                Some(Known::Lanes(tensor, form)) => inputs.push((statement, tensor.clone(), *form)),
                _ => {}
            }
        }
        let e = &mut self.phase.emitter;
        let elements: Vec<_> =
            outputs.iter().map(|&(operand, form)| form.element(body[operand.0 as usize].dtype)).collect();
        let empties: Vec<_> = elements
            .iter()
            .map(|t| e.op(format_args!("tensor.empty() : {}", tensor_type(width, t))))
            .collect();
        let result = e.fresh();
        let maps = vec!["affine_map<(i) -> (i)>"; inputs.len() + outputs.len()].join(", ");
        let list =
            |types: &[&str]| types.iter().map(|t| tensor_type(width, t)).collect::<Vec<_>>().join(", ");
        let input_types: Vec<_> = inputs.iter().map(|(s, _, form)| form.element(body[*s].dtype)).collect();
        let ins = if inputs.is_empty() {
            String::new()
        } else {
            let names: Vec<_> = inputs.iter().map(|i| i.1.as_str()).collect();
            format!(" ins({} : {})", names.join(", "), list(&input_types))
        };
        e.open(format_args!(
            "{result}:{} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [\"parallel\"]}}{ins} \
             outs({} : {}) {{",
            outputs.len(),
            empties.join(", "),
            list(&elements)
        ));
        let arguments: Vec<_> = input_types.iter().chain(&elements).map(|t| (e.fresh(), *t)).collect();
        let header: Vec<_> = arguments.iter().map(|(name, ty)| format!("{name}: {ty}")).collect();
        e.line(format_args!("^bb0({}):", header.join(", ")));
        for ((statement, _, form), (name, _)) in inputs.iter().zip(&arguments) {
            values[*statement] = Some(form.to_value(e, body[*statement].dtype, name));
        }
        let mut around =
            Around { lane: Some(self.lane), coordinates: &self.coordinates, scalars: &self.scalars };
        for statement in (0..body.len()).filter(|&s| used[s]) {
            body::statements(e, self.block, statement..statement + 1, &mut values, &mut around)?;
        }
        let yielded: Vec<_> = outputs
            .iter()
            .map(|&(operand, form)| {
                let value = values[operand.0 as usize].clone().unwrap_or_default();
                form.from_value(e, body[operand.0 as usize].dtype, &value)
            })
            .collect();
        e.line(format_args!("linalg.yield {} : {}", yielded.join(", "), elements.join(", ")));
        e.close(format_args!("}} -> ({})", list(&elements)));
        Ok((0..outputs.len()).map(|i| format!("{result}#{i}")).collect())
    }
}
