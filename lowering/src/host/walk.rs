//! Loops over the reduction space and over chunks of lanes.

use super::lanes::{Environment, vector_type};
use super::row::Rows;
use super::tiles::{Carried, Range, index, index_op, open_carrying_for, open_carrying_if, scaled};
use crate::LoweringError;
use burn_mlir_ir::{DimKind, Operand};

/// The values carried on, or why there are none.
type Next = Result<Vec<Carried>, LoweringError>;

/// Code for one chunk: gets the width and the carried values.
type ChunkCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, usize, Vec<Carried>) -> Next;

/// Code for one chunk of the reduction space: also gets what is known.
type SpaceCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, &Environment, usize, Vec<Carried>) -> Next;

/// Code for one point of the outer reduction dimensions: gets the part of the lanes left.
type PointCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, Option<Range>, Vec<Carried>) -> Next;

impl<'a> Rows<'a> {
    /// The row-major position within the reduction dimensions of each lane, `vector<width x i64>`.
    pub fn positions(&mut self, width: usize) -> String {
        let mut at = self.lanes.zero();
        let (mut factor, mut lane_factor) = (1i64, 0i64);
        for dim in (0..self.lanes.block.domain.len()).rev() {
            let domain_dim = self.lanes.block.domain[dim];
            if domain_dim.kind == DimKind::Reduction {
                let coordinate = self.lanes.coordinates[dim].clone();
                let step = scaled(self.lanes.e(), &coordinate, factor);
                at = index_op(self.lanes.e(), "arith.addi", &at, &step);
                if dim == self.lanes.lane {
                    lane_factor = factor;
                }
                factor *= domain_dim.size as i64;
            }
        }
        let steps: Vec<_> = (0..width as i64).map(|lane| lane * lane_factor).collect();
        let ty = vector_type(width, "i64");
        let e = self.lanes.e();
        let at = e.op(format_args!("arith.index_cast {at} : index to i64"));
        let at = e.op(format_args!("vector.broadcast {at} : i64 to {ty}"));
        let steps = e.op(format_args!("arith.constant dense<{steps:?}> : {ty}"));
        e.op(format_args!("arith.addi {at}, {steps} : {ty}"))
    }

    /// Walks the reduction space: `code` gets what is known, the width of the chunk and the carried values. A
    /// `part` restricts the outermost reduction dimension, or the lane dimension if there is no other.
    pub fn space(
        &mut self,
        width: usize,
        part: Option<Range>,
        carried: Vec<Carried>,
        wanted: &[Operand],
        known: &Environment,
        code: SpaceCode<'_, 'a>,
    ) -> Next {
        let dims = self.reductions.clone();
        self.nest(&dims, part, carried, &mut |rows, part, carried| {
            let mut known = known.clone();
            rows.lanes.invariants(&mut known, wanted, !0)?;
            if rows.across {
                rows.chunks(width, part, carried, &mut |rows, chunk, carried| {
                    code(rows, &known, chunk, carried)
                })
            } else {
                code(rows, &known, width, carried)
            }
        })
    }

    /// Loops over reduction dimensions.
    fn nest(
        &mut self,
        dims: &[usize],
        part: Option<Range>,
        carried: Vec<Carried>,
        code: PointCode<'_, 'a>,
    ) -> Next {
        let Some((&dim, inner)) = dims.split_first() else {
            return code(self, part, carried);
        };
        let size = self.size(dim);
        let range = match part {
            Some(range) => range,
            None => Range { from: self.lanes.zero(), to: index(self.lanes.e(), size) },
        };
        let open = open_carrying_for(self.lanes.e(), &range.from, &range.to, 1, &carried);
        self.lanes.coordinates[dim] = open.variable.clone();
        let next = self.nest(inner, None, open.carried.clone(), code)?;
        Ok(open.close(self.lanes.e(), &next))
    }

    /// Walks the lane dimension, or `range` of it, whose start is a multiple of `width`: chunks of `width`
    /// lanes, then of a native vector, then what is left.
    pub fn chunks(
        &mut self,
        width: usize,
        range: Option<Range>,
        carried: Vec<Carried>,
        code: ChunkCode<'_, 'a>,
    ) -> Next {
        let (size, lane) = (self.lane_size(), self.lanes.lane);
        let whole = size / width * width;
        let natives = size / self.native * self.native;
        let mut carried = carried;
        if whole > 0 {
            let limit = index(self.lanes.e(), whole);
            let (from, to) = match &range {
                Some(range) => {
                    (range.from.clone(), index_op(self.lanes.e(), "arith.minsi", &range.to, &limit))
                }
                None => (self.lanes.zero(), limit),
            };
            let open = open_carrying_for(self.lanes.e(), &from, &to, width, &carried);
            self.lanes.coordinates[lane] = open.variable.clone();
            let next = code(self, width, open.carried.clone())?;
            carried = open.close(self.lanes.e(), &next);
        }
        if whole == size {
            return Ok(carried);
        }
        let last = range.map(|range| {
            let size = index(self.lanes.e(), size);
            let last = self.lanes.e().op(format_args!("arith.cmpi eq, {}, {size} : index", range.to));
            open_carrying_if(self.lanes.e(), &last, &carried)
        });
        if natives > whole {
            let (from, to) = (index(self.lanes.e(), whole), index(self.lanes.e(), natives));
            let open = open_carrying_for(self.lanes.e(), &from, &to, self.native, &carried);
            self.lanes.coordinates[lane] = open.variable.clone();
            let next = code(self, self.native, open.carried.clone())?;
            carried = open.close(self.lanes.e(), &next);
        }
        if size > natives {
            self.lanes.coordinates[lane] = index(self.lanes.e(), natives);
            carried = code(self, size - natives, carried)?;
        }
        Ok(match last {
            Some(last) => last.close(self.lanes.e(), &carried),
            None => carried,
        })
    }
}
