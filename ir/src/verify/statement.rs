//! Rules on the statements of a block.

use super::access::check_strides;
use super::{VerifyError, Violation, check_constant, check_scalar};
use crate::infer::infer_dtype;
use crate::text::Separated;
use crate::{
    Access, Block, DType, Gather, Instr, Labels, Op, Operand, Param, ParamId, ParamMode, Rule, Statement,
};
use smallvec::{SmallVec, smallvec};

impl Block {
    pub(super) fn verify_body(&self, sizes: &[usize]) -> Result<(), VerifyError> {
        for (index, statement) in self.body.iter().enumerate() {
            self.verify_statement(index, statement, sizes)
                .map_err(|violation| VerifyError { at: format!("%{index} = {statement}"), violation })?;
        }
        Ok(())
    }

    fn verify_statement(
        &self,
        index: usize,
        statement: &Statement,
        sizes: &[usize],
    ) -> Result<(), Violation> {
        let operands = statement.instr.operands();
        if let Some(operand) = operands.iter().find(|operand| operand.0 as usize >= index) {
            return Err(Violation::OperandOrder(operand.to_string()));
        }
        let dtype = statement.dtype;
        match &statement.instr {
            Instr::Load { param, access } => {
                self.check_read(*param, dtype)?;
                check_strides(&access.strides, sizes, dtype.size())?;
            }
            Instr::Gather(gather) => self.verify_gather(gather, dtype, sizes)?,
            Instr::Scalar { slot } => check_scalar(&self.scalars, *slot, dtype)?,
            Instr::Constant { value } => check_constant(*value, dtype)?,
            Instr::Index { access, offset } => verify_index(access, *offset, sizes)?,
            Instr::Random { key, stream, access, offset } => {
                check_scalar(&self.scalars, *key, DType::U32)?;
                check_scalar(&self.scalars, *stream, DType::U32)?;
                verify_index(access, *offset, sizes)?;
            }
            Instr::ArgReduce(..) if self.reduction_is_empty() => {
                return Err(self.broken_rule(&operands, Rule::EmptyPosition));
            }
            _ => {}
        }
        let Some(op) = statement.instr.as_op() else { return Ok(()) };
        let mut types: SmallVec<[DType; 4]> = operands.iter().map(|operand| self.dtype(*operand)).collect();
        if matches!(op, Op::Gather { .. }) {
            types.insert(0, dtype);
        }
        let computed =
            infer_dtype(&op, &types, Some(dtype)).map_err(|rule| self.broken_rule(&operands, rule))?;
        if computed == dtype {
            Ok(())
        } else {
            Err(Violation::Type { declared: dtype.to_string(), computed: computed.to_string() })
        }
    }

    fn verify_gather(&self, gather: &Gather, dtype: DType, sizes: &[usize]) -> Result<(), Violation> {
        let mode = self.check_read(gather.param, dtype)?.mode;
        if mode == ParamMode::InOut {
            return Err(Violation::Mode {
                param: gather.param.to_string(),
                mode: "inout",
                used: "gathered from",
            });
        }
        if gather.extent == 0 {
            return Err(Violation::GatherExtent);
        }
        check_strides(&gather.access.strides, sizes, dtype.size())?;
        check_strides(&[gather.stride], &[gather.extent], dtype.size())
    }

    /// A parameter that may be read and has this type.
    fn check_read(&self, id: ParamId, needed: DType) -> Result<&Param, Violation> {
        let param = self.check_param(id, needed)?;
        match param.mode {
            ParamMode::Out => Err(Violation::Mode { param: id.to_string(), mode: "out", used: "read" }),
            ParamMode::In | ParamMode::InOut => Ok(param),
        }
    }

    /// A parameter of this type.
    pub(super) fn check_param(&self, id: ParamId, needed: DType) -> Result<&Param, Violation> {
        let param = id.to_string();
        match self.params.get(id.0 as usize) {
            None => Err(Violation::NoParam { param, count: self.params.len() }),
            Some(&Param { dtype: found, .. }) if found != needed => {
                Err(Violation::ParamType { param, needed, found })
            }
            Some(param) => Ok(param),
        }
    }

    /// The type of an operand that is known to exist.
    pub(super) fn dtype(&self, operand: Operand) -> DType {
        self.body[operand.0 as usize].dtype
    }

    fn broken_rule(&self, operands: &[Operand], rule: Rule) -> Violation {
        let types: Vec<_> = operands.iter().map(|operand| self.dtype(*operand)).collect();
        Violation::Operands { types: Separated(&types).to_string(), rule }
    }
}

/// An affine function must fit an i64.
fn verify_index(access: &Access, offset: i64, sizes: &[usize]) -> Result<(), Violation> {
    check_strides(&access.strides, sizes, 1)?;
    let ends =
        access.strides.iter().zip(sizes).map(|(&stride, &size)| stride * size.saturating_sub(1) as i64);
    let (low, high) = ends.fold((offset as i128, offset as i128), |(low, high), end| {
        (low + i128::from(end.min(0)), high + i128::from(end.max(0)))
    });
    if i64::try_from(low).is_ok() && i64::try_from(high).is_ok() { Ok(()) } else { Err(Violation::Reach) }
}

impl Instr {
    /// The values it uses.
    pub fn operands(&self) -> SmallVec<[Operand; 3]> {
        match *self {
            Self::Load { .. } | Self::Scalar { .. } | Self::Constant { .. } => smallvec![],
            Self::Index { .. } | Self::Random { .. } => smallvec![],
            Self::Gather(Gather { index: a, .. }) | Self::Unary(_, a) | Self::Cast(a) | Self::Bitcast(a) => {
                smallvec![a]
            }
            Self::Reduce(_, a) | Self::ArgReduce(_, a) => smallvec![a],
            Self::Binary(_, a, b) | Self::Compare(_, a, b) | Self::Contract(a, b) => smallvec![a, b],
            Self::Select(c, a, b) => smallvec![c, a, b],
        }
    }

    /// The graph operation with the same rules on element types.
    fn as_op(&self) -> Option<Op> {
        let none = || Labels::new("");
        Some(match *self {
            Self::Load { .. } | Self::Scalar { .. } | Self::Constant { .. } => return None,
            Self::Gather(_) => Op::Gather { axis: 0 },
            Self::Index { .. } => Op::Iota { axis: 0 },
            Self::Random { key, stream, .. } => Op::Random { key, stream },
            Self::Unary(op, _) => Op::Unary(op),
            Self::Binary(op, ..) => Op::Binary(op),
            Self::Compare(op, ..) => Op::Compare(op),
            Self::Select(..) => Op::Select,
            Self::Cast(_) => Op::Cast,
            Self::Bitcast(_) => Op::Bitcast,
            Self::Reduce(op, _) => Op::Reduce { op, axes: smallvec![] },
            Self::ArgReduce(op, _) => Op::ArgReduce { op, axes: smallvec![] },
            Self::Contract(..) => Op::Contract { lhs: none(), rhs: none(), out: none() },
        })
    }
}
