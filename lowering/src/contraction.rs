//! What a contraction's operands and results look like: which dimensions are batch, row, column
//! and summed, and how every access walks over them.

use burn_mlir_ir::{Access, Block, DType, DimKind, Instr, Operand, ParamId};

/// Dimensions of the domain walked as one, outermost first.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    /// Positions in the domain.
    pub dims: Vec<usize>,
    /// Their extents.
    pub sizes: Vec<usize>,
}

/// One run of a group that an access walks with a single stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walk {
    /// Elements.
    pub size: i64,
    /// Elements between two of them.
    pub stride: i64,
}

impl Group {
    fn new(block: &Block, dims: impl IntoIterator<Item = usize>) -> Self {
        let dims: Vec<usize> = dims.into_iter().collect();
        let sizes = dims.iter().map(|&d| block.domain[d].size).collect();
        Self { dims, sizes }
    }

    /// Number of points.
    pub fn len(&self) -> i64 {
        self.sizes.iter().map(|&size| size as i64).product()
    }

    /// How `access` walks over the group, outermost first, neighbours merged where it can. Never empty.
    pub fn walks(&self, access: &Access) -> Vec<Walk> {
        let mut walks: Vec<Walk> = Vec::new();
        for (&d, &size) in self.dims.iter().zip(&self.sizes) {
            let walk = Walk { size: size as i64, stride: access.strides[d] };
            match walks.last_mut() {
                Some(outer) if outer.stride == walk.stride * walk.size => {
                    *outer = Walk { size: outer.size * walk.size, stride: walk.stride }
                }
                _ => walks.push(walk),
            }
        }
        if walks.is_empty() {
            walks.push(Walk { size: 1, stride: 0 });
        }
        walks
    }

    /// The innermost run of `access`.
    pub fn inner(&self, access: &Access) -> Walk {
        *self.walks(access).last().expect("walks are never empty")
    }

    /// The number of innermost points that every one of `accesses` walks with a single stride.
    pub fn common_run(&self, accesses: &[&Access]) -> i64 {
        let Some(&innermost) = self.dims.last() else { return 1 };
        let mut run = 1;
        for (&d, &size) in self.dims.iter().zip(&self.sizes).rev() {
            if accesses.iter().any(|a| a.strides[d] != a.strides[innermost] * run) {
                break;
            }
            run *= size as i64;
        }
        run
    }
}

/// An operand of the contraction.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    /// The buffer.
    pub param: ParamId,
    /// How it is walked.
    pub access: Access,
    /// Types it passes through, from the buffer's to the accumulator's.
    pub types: Vec<DType>,
}

/// A contraction as a batch of matrix products. `rows` may be the dimensions of either operand:
/// columns are those along which results are contiguous.
#[derive(Clone, Debug)]
pub(crate) struct Contraction {
    /// The statement.
    pub statement: Operand,
    /// Dimensions of both operands and the result.
    pub batch: Group,
    /// Dimensions of the left operand (and those of neither).
    pub rows: Group,
    /// Dimensions of the right operand.
    pub columns: Group,
    /// Summed dimensions.
    pub sum: Group,
    /// The operand that varies along rows.
    pub left: Factor,
    /// The operand that varies along columns.
    pub right: Factor,
    /// Type in which products are summed.
    pub accumulator: DType,
    /// Innermost columns that every load and store of the epilogue walks with a single stride.
    pub column_run: i64,
}

impl Contraction {
    /// Extent of the memory one batch element of the right operand lies in: less than its points if they overlap.
    pub fn right_reach(&self) -> i64 {
        let reach = |group: &Group| -> i64 {
            let dims = group.dims.iter().zip(&group.sizes);
            dims.map(|(&d, &size)| self.right.access.strides[d].abs() * (size as i64 - 1)).sum()
        };
        reach(&self.columns) + reach(&self.sum) + 1
    }

    /// The same with summed dimensions along which operands lie close together innermost.
    pub fn with_close_sum(mut self) -> Self {
        let steps = |&dim: &usize| [&self.left, &self.right].map(|f| f.access.strides[dim].unsigned_abs());
        let mut dims: Vec<(usize, usize)> =
            self.sum.dims.iter().copied().zip(self.sum.sizes.iter().copied()).collect();
        dims.sort_by_key(|(dim, _)| std::cmp::Reverse(steps(dim).iter().sum::<u64>()));
        (self.sum.dims, self.sum.sizes) = dims.into_iter().unzip();
        self
    }

    /// Finds the parts of `block`, or says why it is not a contraction. A side of up to `few` points does not
    /// become the columns if the other side is longer.
    pub fn of(block: &Block, few: i64) -> Result<Self, String> {
        let statement = block.contraction().ok_or("no contraction")?;
        let Instr::Contract(a, b) = block.body[statement.0 as usize].instr else {
            return Err("no contraction".into());
        };
        if block.reduces() {
            return Err("a contraction together with a reduction".into());
        }
        let accumulator = crate::scalar::accumulator(block.body[statement.0 as usize].dtype);
        let (a, b) = (factor(block, a, accumulator)?, factor(block, b, accumulator)?);
        let outer = outer_accesses(block, statement)?;

        let dims = 0..block.domain.len();
        let pick = |of_a: bool, of_b: bool| -> Vec<usize> {
            let parallel = dims.clone().filter(|&d| block.domain[d].kind == DimKind::Parallel);
            parallel.filter(|&d| (a.access.uses(d), b.access.uses(d)) == (of_a, of_b)).collect()
        };
        let batch = pick(true, true);
        let (mut rows, columns) = (pick(true, false), pick(false, true));
        rows.extend(pick(false, false));
        rows.sort_unstable();
        let sum = dims.clone().filter(|&d| block.domain[d].kind == DimKind::Reduction);

        // Columns are the side along which results lie closer together, unless one side is a few points only.
        let stores = &outer[..block.stores.len()];
        let closest = |dims: &[usize]| {
            let steps =
                stores.iter().flat_map(|access| dims.iter().map(|&d| access.strides[d].unsigned_abs()));
            steps.filter(|&step| step != 0).min().unwrap_or(u64::MAX)
        };
        let points = |dims: &[usize]| dims.iter().map(|&d| block.domain[d].size as i64).product::<i64>();
        let few = |dims: &[usize]| points(dims) <= few;
        let swap = match (few(&rows), few(&columns)) {
            (true, false) => false,
            (false, true) => true,
            _ => closest(&rows) < closest(&columns),
        };
        let (rows, columns) = if swap { (columns, rows) } else { (rows, columns) };
        let columns = innermost_last(columns, &outer);
        let (left, right) = if swap { (b, a) } else { (a, b) };
        let columns = Group::new(block, columns);
        Ok(Self {
            statement,
            batch: Group::new(block, batch),
            rows: Group::new(block, rows),
            column_run: columns.common_run(&outer),
            columns,
            sum: Group::new(block, sum),
            left,
            right,
            accumulator,
        })
    }
}

/// The operand of a contraction: a load, maybe through conversions.
fn factor(block: &Block, operand: Operand, accumulator: DType) -> Result<Factor, String> {
    let statement = &block.body[operand.0 as usize];
    match &statement.instr {
        Instr::Load { param, access } => {
            let types = vec![statement.dtype, accumulator];
            Ok(Factor { param: *param, access: access.clone(), types })
        }
        Instr::Cast(source) => {
            let mut factor = factor(block, *source, accumulator)?;
            factor.types.insert(factor.types.len() - 1, statement.dtype);
            Ok(factor)
        }
        other => Err(format!("an operand of a contraction that is neither load nor cast: {other:?}")),
    }
}

/// Statements the stores need besides the contraction and its operands, in order.
pub(crate) fn epilogue(block: &Block, contraction: Operand) -> Vec<usize> {
    let mut needed = vec![false; block.body.len()];
    for store in &block.stores {
        needed[store.value.0 as usize] = true;
    }
    for position in (0..block.body.len()).rev() {
        if !needed[position] || position == contraction.0 as usize {
            continue;
        }
        let mut need = |operand: &Operand| needed[operand.0 as usize] = true;
        match &block.body[position].instr {
            Instr::Load { .. } | Instr::Scalar { .. } | Instr::Constant { .. } => {}
            Instr::Index { .. } | Instr::Random { .. } => {}
            Instr::Gather(gather) => need(&gather.index),
            Instr::Unary(_, a)
            | Instr::Cast(a)
            | Instr::Bitcast(a)
            | Instr::Reduce(_, a)
            | Instr::ArgReduce(_, a) => need(a),
            Instr::Binary(_, a, b) | Instr::Compare(_, a, b) | Instr::Contract(a, b) => {
                need(a);
                need(b);
            }
            Instr::Select(c, a, b) => {
                need(c);
                need(a);
                need(b);
            }
        }
    }
    (0..block.body.len()).filter(|&p| needed[p] && p != contraction.0 as usize).collect()
}

/// Accesses outside the sum: stores first, then what the epilogue loads and computes from.
fn outer_accesses(block: &Block, contraction: Operand) -> Result<Vec<&Access>, String> {
    let mut accesses: Vec<&Access> = block.stores.iter().map(|store| &store.access).collect();
    for position in epilogue(block, contraction) {
        match &block.body[position].instr {
            Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
                accesses.push(access)
            }
            Instr::Gather(_) => return Err("a gather in the epilogue of a contraction".into()),
            _ => {}
        }
    }
    let reduction = block.reduction_dims();
    if accesses.iter().any(|a| (0..block.domain.len()).any(|d| reduction >> d & 1 == 1 && a.uses(d))) {
        return Err("an epilogue of a contraction that depends on the summed dimensions".into());
    }
    Ok(accesses)
}

/// Orders dimensions by the distance between their elements in the first store, largest first.
fn innermost_last(mut dims: Vec<usize>, outer: &[&Access]) -> Vec<usize> {
    if let Some(store) = outer.first() {
        dims.sort_by_key(|&d| (std::cmp::Reverse(store.strides[d].unsigned_abs()), d));
    }
    dims
}
