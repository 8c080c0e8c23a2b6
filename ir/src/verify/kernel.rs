//! Rules on kernels; those on blocks stand in a file of their own.

use super::access::{check_strides, is_injective};
use super::{VerifyError, Violation};
use crate::infer::infer_dtype;
use crate::text::Separated;
use crate::{Access, DType, Kernel, Op, Paths, Rule, Scan, Scatter, Sort};

impl Kernel {
    /// Checks that the domain is canonical, that accesses fit it, that parameters and scalars exist
    /// and are used as declared, that types fit the statements and that each output element is
    /// written once.
    pub fn verify(&self) -> Result<(), VerifyError> {
        match self {
            Self::Block(block) => block.verify(),
            Self::Scatter(scatter) => at_head(self, scatter.verify()),
            Self::Sort(sort) => at_head(self, sort.verify()),
            Self::Scan(scan) => at_head(self, scan.verify()),
            Self::Paths(paths) => at_head(self, paths.verify()),
            Self::Attention(attention) => at_head(self, attention.verify()),
        }
    }
}

/// Reports a violation at the first line of a kernel's text.
fn at_head(kernel: &Kernel, result: Result<(), Violation>) -> Result<(), VerifyError> {
    result.map_err(|violation| {
        let text = kernel.to_string();
        let head = text.lines().next().unwrap_or_default();
        VerifyError { at: head.trim_end_matches([' ', '{']).into(), violation }
    })
}

impl Scatter {
    fn verify(&self) -> Result<(), Violation> {
        let op = Op::Scatter { op: self.op, axis: self.axis };
        check_types(&op, &[self.dtype, self.index_dtype, self.dtype], self.dtype)?;
        check_axis(self.axis, &self.shape)?;
        let mut extents = self.shape.clone();
        extents[self.axis] = self.extent;
        let [data, indices, updates] = &self.accesses;
        check_output(data, &extents, self.dtype)?;
        check_strides(&indices.strides, &self.shape, self.index_dtype.size())?;
        check_strides(&updates.strides, &self.shape, self.dtype.size())
    }
}

impl Sort {
    fn verify(&self) -> Result<(), Violation> {
        let Self { axis, descending, .. } = *self;
        let (op, result) = match self.index_dtype {
            Some(index) => (Op::ArgSort { axis, descending }, index),
            None => (Op::Sort { axis, descending }, self.dtype),
        };
        check_types(&op, &[self.dtype], result)?;
        check_axis(axis, &self.shape)?;
        check_strides(&self.accesses[0].strides, &self.shape, self.dtype.size())?;
        check_output(&self.accesses[1], &self.shape, result)
    }
}

impl Scan {
    fn verify(&self) -> Result<(), Violation> {
        check_types(&Op::Scan { op: self.op, axis: self.axis }, &[self.dtype], self.dtype)?;
        check_axis(self.axis, &self.shape)?;
        check_strides(&self.accesses[0].strides, &self.shape, self.dtype.size())?;
        check_output(&self.accesses[1], &self.shape, self.dtype)
    }
}

impl Paths {
    fn verify(&self) -> Result<(), Violation> {
        check_types(&Op::Paths, &[self.dtype, DType::Bool], self.dtype)?;
        if self.shape.len() != 3 {
            let types = format!("{:?}", self.shape);
            return Err(Violation::Operands { types, rule: Rule::Ranks });
        }
        let [scores, skips, output] = &self.accesses;
        check_strides(&scores.strides, &self.shape, self.dtype.size())?;
        check_strides(&skips.strides, &self.shape, DType::Bool.size())?;
        check_output(output, &self.shape, self.dtype)
    }
}

pub(super) fn check_types(op: &Op, operands: &[DType], result: DType) -> Result<(), Violation> {
    let broken = |rule| Violation::Operands { types: Separated(operands).to_string(), rule };
    infer_dtype(op, operands, Some(result)).map(drop).map_err(broken)
}

fn check_axis(axis: usize, shape: &[usize]) -> Result<(), Violation> {
    if axis < shape.len() {
        return Ok(());
    }
    let rule = Rule::Axis { axis, rank: shape.len() };
    Err(Violation::Operands { types: format!("{shape:?}"), rule })
}

pub(super) fn check_output(access: &Access, sizes: &[usize], dtype: DType) -> Result<(), Violation> {
    check_strides(&access.strides, sizes, dtype.size())?;
    if is_injective(&access.strides, sizes) { Ok(()) } else { Err(Violation::Overlap(access.to_string())) }
}
