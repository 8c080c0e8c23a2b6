//! Rules on a block as a whole: its domain, parameters, stores and contraction.

use super::access::{check_strides, is_injective};
use super::{VerifyError, Violation};
use crate::text::Separated;
use crate::{Access, Block, DimKind, Gather, Instr, Operand, ParamId, ParamMode, Store};

/// Sets of dimensions are 32 bits wide.
const MAX_DIMS: usize = 32;

impl Block {
    pub(super) fn verify(&self) -> Result<(), VerifyError> {
        let sizes: Vec<usize> = self.domain.iter().map(|dim| dim.size).collect();
        let in_domain =
            |violation| VerifyError { at: format!("block [{}]", Separated(&self.domain)), violation };
        self.verify_sizes().map_err(in_domain)?;
        for (index, param) in self.params.iter().enumerate() {
            let (size, alignment) = (param.dtype.size(), param.alignment);
            if !(alignment.is_power_of_two() && (size..=64).contains(&alignment)) {
                let violation = Violation::Alignment { size, alignment };
                return Err(VerifyError { at: format!("@{index} = {param}"), violation });
            }
        }
        self.verify_body(&sizes)?;
        self.verify_contraction()?;
        let dependences = self.dependences();
        for store in &self.stores {
            self.verify_store(store, &sizes, &dependences)
                .map_err(|violation| VerifyError { at: store.to_string(), violation })?;
        }
        self.verify_outputs()?;
        self.verify_merged(&sizes).map_err(in_domain)
    }

    fn verify_sizes(&self) -> Result<(), Violation> {
        if self.domain.len() > MAX_DIMS {
            return Err(Violation::TooManyDims(self.domain.len()));
        }
        for (index, dim) in self.domain.iter().enumerate() {
            match (dim.size, dim.kind) {
                (1, _) => return Err(Violation::UnitDim(index)),
                (0, DimKind::Parallel) => return Err(Violation::EmptyDim(index)),
                _ => {}
            }
        }
        Ok(())
    }

    /// No two adjacent dimensions of one kind that every access walks as one, as far as strides are known.
    fn verify_merged(&self, sizes: &[usize]) -> Result<(), Violation> {
        if self.is_opened() {
            return Ok(());
        }
        let mergeable = |d: usize| {
            self.domain[d].kind == self.domain[d + 1].kind
                && self.accesses().all(|access| {
                    i128::from(access.strides[d]) == i128::from(access.strides[d + 1]) * sizes[d + 1] as i128
                })
        };
        match (1..sizes.len()).map(|next| next - 1).find(|&d| mergeable(d)) {
            Some(d) => Err(Violation::Mergeable(d)),
            None => Ok(()),
        }
    }

    /// Every access of a statement or a store.
    pub(crate) fn accesses(&self) -> impl Iterator<Item = &Access> {
        let of_statements = self.body.iter().filter_map(|statement| match &statement.instr {
            Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
                Some(access)
            }
            Instr::Gather(Gather { access, .. }) => Some(access),
            _ => None,
        });
        of_statements.chain(self.stores.iter().map(|store| &store.access))
    }

    /// Whether there is a reduction dimension of size 0.
    pub(super) fn reduction_is_empty(&self) -> bool {
        self.domain.iter().any(|dim| dim.kind == DimKind::Reduction && dim.size == 0)
    }

    /// At most one contraction, of loads, and nothing else over the reduction dimensions.
    fn verify_contraction(&self) -> Result<(), VerifyError> {
        let Some(contraction) = self.contraction() else { return Ok(()) };
        let name = contraction.to_string();
        let Instr::Contract(lhs, rhs) = self.body[contraction.0 as usize].instr else { return Ok(()) };
        let mut feeding: Vec<Operand> = Vec::new();
        for operand in [lhs, rhs] {
            let mut value = operand;
            feeding.push(value);
            while let Instr::Cast(inner) = self.body[value.0 as usize].instr {
                value = inner;
                feeding.push(value);
            }
            if !matches!(self.body[value.0 as usize].instr, Instr::Load { .. }) {
                return Err(self.at(contraction, Violation::ContractOperand(operand.to_string())));
            }
        }
        let (reduction, dependences) = (self.reduction_dims(), self.dependences());
        for (index, statement) in self.body.iter().enumerate() {
            let operand = Operand(index as u32);
            let violation = match statement.instr {
                Instr::Contract(..) if operand != contraction => Violation::SecondContraction(name),
                Instr::Reduce(..) | Instr::ArgReduce(..) => Violation::ReduceBesideContract(name),
                _ if dependences[index] & reduction != 0 && !feeding.contains(&operand) => {
                    Violation::FullBesideContract(name)
                }
                _ => continue,
            };
            return Err(self.at(operand, violation));
        }
        Ok(())
    }

    fn at(&self, operand: Operand, violation: Violation) -> VerifyError {
        VerifyError { at: format!("{operand} = {}", self.body[operand.0 as usize]), violation }
    }

    fn verify_store(&self, store: &Store, sizes: &[usize], dependences: &[u32]) -> Result<(), Violation> {
        let Some(&depends) = dependences.get(store.value.0 as usize) else {
            return Err(Violation::OperandOrder(store.value.to_string()));
        };
        let dtype = self.dtype(store.value);
        if self.check_param(store.param, dtype)?.mode == ParamMode::In {
            return Err(Violation::Mode { param: store.param.to_string(), mode: "in", used: "stored to" });
        }
        check_strides(&store.access.strides, sizes, dtype.size())?;
        let value = store.value.to_string();
        let is_row = depends & self.reduction_dims() == 0;
        for (dim, domain_dim) in self.domain.iter().enumerate() {
            if is_row && domain_dim.kind == DimKind::Reduction && store.access.uses(dim) {
                return Err(Violation::RowStore(value, dim));
            }
            if depends >> dim & 1 == 1 && !store.access.uses(dim) {
                return Err(Violation::StoreDrops { value, dim });
            }
        }
        let (strides, walked): (Vec<i64>, Vec<usize>) =
            store.access.strides.iter().zip(sizes).filter(|(stride, _)| **stride != 0).unzip();
        if !store.access.arguments.is_empty() || is_injective(&strides, &walked) {
            Ok(())
        } else {
            Err(Violation::Overlap(store.access.to_string()))
        }
    }

    /// Outputs are written, and what is updated in place is read where it is written.
    fn verify_outputs(&self) -> Result<(), VerifyError> {
        for (index, param) in self.params.iter().enumerate() {
            let id = ParamId(index as u32);
            let at = |violation| VerifyError { at: format!("{id} = {param}"), violation };
            let mut stored = self.stores.iter().filter(|store| store.param == id);
            match (param.mode, stored.next()) {
                (ParamMode::In, _) => {}
                (_, None) => return Err(at(Violation::NeverStored)),
                (ParamMode::Out, Some(_)) => {}
                (ParamMode::InOut, Some(first)) => {
                    let elsewhere = self.body.iter().any(|statement| {
                        matches!(&statement.instr, Instr::Load { param, access } if *param == id && *access != first.access)
                    });
                    if elsewhere || stored.any(|store| store.access != first.access) {
                        return Err(at(Violation::InOutAccess(id.to_string())));
                    }
                }
            }
        }
        Ok(())
    }
}
