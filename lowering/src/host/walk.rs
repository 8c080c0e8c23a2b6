//! Loops over the reduction space and over chunks of lanes.

use super::accumulate::Accumulator;
use super::lanes::{Environment, vector_type};
use super::row::Rows;
use super::tiles::{Carried, Range, index, index_op, open_carrying_if, scaled};
use crate::cascade::{CHAIN, Iterations, Next, Sums, cascade};
use crate::emit::Emitter;
use burn_mlir_ir::{DimKind, Operand};

/// Code for one chunk: gets the width and the carried values.
type ChunkCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, usize, Vec<Carried>) -> Next;

/// Code for one chunk of the reduction space: also gets what is known.
type SpaceCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, &Environment, usize, Vec<Carried>) -> Next;

/// Code for one point of the outer reduction dimensions: gets the part of the lanes left.
type PointCode<'f, 'a> = &'f mut dyn FnMut(&mut Rows<'a>, Option<Part>, Vec<Carried>) -> Next;

/// A part of a dimension.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub range: Range,
    /// Its length at most.
    pub most: usize,
}

/// What loops add up: the reductions of a pass, in vectors of `width` lanes.
#[derive(Clone, Copy)]
pub(super) struct Adding<'s> {
    pub accumulators: &'s [Accumulator],
    pub width: usize,
}

impl Adding<'_> {
    /// For loops that carry nothing.
    pub const NOTHING: Self = Self { accumulators: &[], width: 0 };
}

impl<'a> Sums<Rows<'a>> for Adding<'_> {
    fn rounds(&self) -> bool {
        self.accumulators.iter().any(Accumulator::rounds)
    }

    fn emitter<'w>(&self, rows: &'w mut Rows<'a>) -> &'w mut Emitter {
        rows.lanes.e()
    }

    fn start(&self, rows: &mut Rows<'a>) -> Vec<Carried> {
        rows.identities(self.accumulators, self.width)
    }

    fn merge(&self, rows: &mut Rows<'a>, a: &[Carried], b: &[Carried]) -> Next {
        Ok(merge_all(rows, self.accumulators, a, b))
    }
}

/// Combines the carried values of several reductions.
pub(super) fn merge_all(
    rows: &mut Rows,
    accumulators: &[Accumulator],
    a: &[Carried],
    b: &[Carried],
) -> Vec<Carried> {
    let (mut merged, mut position) = (Vec::new(), 0);
    for accumulator in accumulators {
        let mine = position..position + accumulator.carries();
        position = mine.end;
        merged.extend(accumulator.merge(&mut rows.lanes, &a[mine.clone()], &b[mine]));
    }
    merged
}

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
    #[expect(clippy::too_many_arguments, reason = "what a walk is about")]
    pub fn space(
        &mut self,
        adding: Adding<'_>,
        width: usize,
        part: Option<Part>,
        carried: Vec<Carried>,
        wanted: &[Operand],
        known: &Environment,
        code: SpaceCode<'_, 'a>,
    ) -> Next {
        let dims = self.reductions.clone();
        self.nest(adding, width, &dims, part, carried, &mut |rows, part, carried| {
            let mut known = known.clone();
            rows.lanes.invariants(&mut known, wanted, !0)?;
            if rows.across {
                rows.chunks(adding, width, part, carried, &mut |rows, chunk, carried| {
                    code(rows, &known, chunk, carried)
                })
            } else {
                code(rows, &known, width, carried)
            }
        })
    }

    /// Additions one behind the other at a point of the reduction dimensions before `dims`, if they all are.
    fn chain(&self, width: usize, dims: &[usize]) -> usize {
        let point = if self.across {
            let size = self.lane_size();
            size / width + size % width / self.native + usize::from(!size.is_multiple_of(self.native))
        } else {
            1
        };
        dims.iter().map(|&dim| self.size(dim)).product::<usize>() * point
    }

    /// Loops over reduction dimensions.
    pub fn nest(
        &mut self,
        adding: Adding<'_>,
        width: usize,
        dims: &[usize],
        part: Option<Part>,
        carried: Vec<Carried>,
        code: PointCode<'_, 'a>,
    ) -> Next {
        let Some((&dim, inner)) = dims.split_first() else {
            return code(self, part, carried);
        };
        let size = self.size(dim);
        let extent = self.lanes.extent(dim);
        let Part { range, most } = part.unwrap_or_else(|| Part {
            range: Range { from: self.lanes.zero(), to: extent.value(self.lanes.e()) },
            most: size,
        });
        let chain = self.chain(width, inner);
        // A longer one is cut further in, and adds what it comes to.
        let apart = adding.rounds() && chain > CHAIN;
        // Of many iterations each does enough, and code of all shapes has to be compiled quickly.
        let rolled = dims.iter().any(|&dim| !self.lanes.extent(dim).is_known());
        let weight = if apart { 1 } else { chain };
        let iterations = Iterations { range, step: 1, most, weight, rolled };
        cascade(self, &adding, &iterations, carried, &mut |rows, at, carried| {
            rows.lanes.coordinates[dim] = at.clone();
            if !apart {
                return rows.nest(adding, width, inner, None, carried, code);
            }
            let start = adding.start(rows);
            let total = rows.nest(adding, width, inner, None, start, code)?;
            adding.merge(rows, &carried, &total)
        })
    }

    /// Walks the lane dimension, or `range` of it, whose start is a multiple of `width`: chunks of `width`
    /// lanes, then of a native vector, then what is left.
    pub fn chunks(
        &mut self,
        adding: Adding<'_>,
        width: usize,
        part: Option<Part>,
        carried: Vec<Carried>,
        code: ChunkCode<'_, 'a>,
    ) -> Next {
        let (size, lane) = (self.lane_size(), self.lanes.lane);
        if !self.lanes.extent(lane).is_known() {
            return self.open_chunks(adding, width, part, carried, code);
        }
        let whole = size / width * width;
        let natives = size / self.native * self.native;
        let mut carried = carried;
        if whole > 0 {
            let limit = index(self.lanes.e(), whole);
            let (range, most) = match &part {
                Some(Part { range, most }) => {
                    let to = index_op(self.lanes.e(), "arith.minsi", &range.to, &limit);
                    (Range { from: range.from.clone(), to }, *most)
                }
                None => (Range { from: self.lanes.zero(), to: limit }, whole),
            };
            let most = most.div_ceil(width);
            let iterations = Iterations { range, step: width, most, weight: 1, rolled: false };
            carried = cascade(self, &adding, &iterations, carried, &mut |rows, at, carried| {
                rows.lanes.coordinates[lane] = at.clone();
                code(rows, width, carried)
            })?;
        }
        if whole == size {
            return Ok(carried);
        }
        let last = part.map(|Part { range, .. }| {
            let size = index(self.lanes.e(), size);
            let last = self.lanes.e().op(format_args!("arith.cmpi eq, {}, {size} : index", range.to));
            open_carrying_if(self.lanes.e(), &last, &carried)
        });
        if natives > whole {
            let range = Range { from: index(self.lanes.e(), whole), to: index(self.lanes.e(), natives) };
            let (step, most) = (self.native, (natives - whole) / self.native);
            let iterations = Iterations { range, step, most, weight: 1, rolled: false };
            carried = cascade(self, &adding, &iterations, carried, &mut |rows, at, carried| {
                rows.lanes.coordinates[lane] = at.clone();
                code(rows, step, carried)
            })?;
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

    /// The same along a lane dimension whose extent the launch says: lanes that do not fill a native vector come one
    /// by one.
    fn open_chunks(
        &mut self,
        adding: Adding<'_>,
        width: usize,
        part: Option<Part>,
        carried: Vec<Carried>,
        code: ChunkCode<'_, 'a>,
    ) -> Next {
        let lane = self.lanes.lane;
        let extent = self.lanes.extent(lane);
        let size = extent.value(self.lanes.e());
        let Part { range, most } = part.unwrap_or_else(|| Part {
            range: Range { from: self.lanes.zero(), to: size },
            most: extent.most(),
        });
        let (mut carried, mut from) = (carried, range.from.clone());
        let mut longest = most;
        for step in [width, self.native, 1] {
            if step == longest {
                continue;
            }
            let whole = extent.whole(self.lanes.e(), step);
            let to = index_op(self.lanes.e(), "arith.minsi", &range.to, &whole);
            let iterations = Iterations {
                range: Range { from, to: to.clone() },
                step,
                most: longest.div_ceil(step),
                weight: 1,
                rolled: true,
            };
            carried = cascade(self, &adding, &iterations, carried, &mut |rows, at, carried| {
                rows.lanes.coordinates[lane] = at.clone();
                code(rows, step, carried)
            })?;
            from = index_op(self.lanes.e(), "arith.maxsi", &range.from, &to);
            longest = step;
        }
        Ok(carried)
    }
}
