//! From a group to statements over the dimensions of its space.

use super::PlanError;
use super::affine::{Affine, Coords, Space, address, linear_index, used_dims};
use super::group::*;
use super::views::{At, Seen, see_through};
use super::window::Window;
use crate::{
    Access, CompareOp, DType, Gather, Instr, Literal, Op, Operand, ParamId, Statement, Store, ValueId,
};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// A buffer argument before memory is planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Arg {
    pub storage: StorageId,
    /// Elements from the storage's start to coordinate 0.
    pub offset: i64,
    pub dtype: DType,
}

/// A block whose accesses still have one stride per dimension of the group's space.
#[derive(Clone, Debug, Default)]
pub(super) struct RawBlock {
    /// Size of every dimension of the space.
    pub sizes: Vec<usize>,
    /// Iterated dimensions, outermost first.
    pub parallel: Vec<usize>,
    pub reduction: Vec<usize>,
    pub args: Vec<Arg>,
    /// The graph's scalars in order of first use, with their types.
    pub scalars: Vec<(u32, DType)>,
    pub body: Vec<Statement>,
    pub stores: Vec<Store>,
}

/// The blocks of a group: one, and one more for each store that turned out not to use all parallel
/// dimensions.
pub(super) fn emit(
    window: &Window,
    scalars: &[DType],
    fused: &Fused,
    id: GroupId,
) -> Result<SmallVec<[RawBlock; 1]>, PlanError> {
    let mut stores: Vec<&StoreSpec> = fused.groups[id.0 as usize].stores.iter().collect();
    stores.sort_by_key(|store| store.node);
    let emit = |stores: &[&StoreSpec]| {
        let mut emitter = Emitter::new(window, scalars, fused, id);
        stores.iter().try_for_each(|store| emitter.store(store))?;
        Ok::<_, PlanError>(emitter.finish())
    };
    let block = emit(&stores)?;
    let used =
        |store: &Store| block.parallel.iter().all(|&d| block.sizes[d] == 1 || store.access.strides[d] != 0);
    if block.stores.iter().all(used) {
        return Ok(SmallVec::from_iter([block]));
    }
    let (whole, partial): (Vec<_>, Vec<_>) =
        stores.iter().zip(&block.stores).partition(|(_, store)| used(store));
    let mut blocks = SmallVec::new();
    if !whole.is_empty() {
        blocks.push(emit(&whole.iter().map(|(spec, _)| **spec).collect::<Vec<_>>())?);
    }
    for (spec, _) in partial {
        blocks.push(emit(&[*spec])?);
    }
    Ok(blocks)
}

struct Emitter<'a> {
    window: &'a Window,
    scalar_types: &'a [DType],
    fused: &'a Fused,
    group: GroupId,
    space: Space,
    reduction: u64,
    /// Dimensions that some store uses.
    stored: u64,
    members: FxHashMap<ValueId, Operand>,
    statements: FxHashMap<Statement, Operand>,
    params: FxHashMap<Arg, ParamId>,
    raw: RawBlock,
}

impl<'a> Emitter<'a> {
    fn new(window: &'a Window, scalar_types: &'a [DType], fused: &'a Fused, group: GroupId) -> Self {
        let described = &fused.groups[group.0 as usize];
        // Fusion has split whatever needs splitting.
        let space = described.space.fixed();
        let sizes = space.dims.iter().map(|dim| dim.size).collect();
        Self {
            window,
            scalar_types,
            fused,
            group,
            reduction: described.reduction_dims(),
            space,
            stored: 0,
            members: FxHashMap::default(),
            statements: FxHashMap::default(),
            params: FxHashMap::default(),
            raw: RawBlock { sizes, ..RawBlock::default() },
        }
    }

    fn store(&mut self, store: &StoreSpec) -> Result<(), PlanError> {
        let coords = self.refreshed(&store.coords, store.seen);
        self.stored |= used_dims(&coords);
        let value = self.value(store.node, coords.clone())?;
        let place = address(&coords, &store.home.layout.strides, store.home.layout.offset);
        let param = self.param(store.home.storage, place.offset, self.window.node(store.node).dtype);
        let access = self.access(&place);
        self.raw.stores.push(Store { param, access, value });
        Ok(())
    }

    fn finish(mut self) -> RawBlock {
        let combines =
            |s: &Statement| matches!(s.instr, Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..));
        if !self.raw.body.iter().any(combines) {
            self.reduction = 0;
        }
        let iterated = self.space.order.iter().copied().filter(|&d| !self.space.dims[d].hidden);
        let (reduction, parallel) = iterated.partition(|d| self.reduction >> d & 1 == 1);
        self.raw.reduction = reduction;
        self.raw.parallel = parallel;
        self.raw.parallel.retain(|d| self.stored >> d & 1 == 1);
        self.raw
    }

    fn refreshed(&self, coords: &Coords, seen: usize) -> Coords {
        let mut coords = coords.clone();
        coords.iter_mut().for_each(|axis| self.space.refresh(axis, seen));
        coords
    }

    fn see(&mut self, id: ValueId, coords: Coords) -> Seen {
        let (group, linear) = (self.group, &self.fused.linear);
        see_through(self.window, &mut self.space, id, coords, |id| linear.contains(&(group, id)))
    }

    /// The value of a node at coordinates: computed here or loaded.
    fn value(&mut self, id: ValueId, coords: Coords) -> Result<Operand, PlanError> {
        if self.window.is_empty(id) {
            return Ok(self.zero(self.window.node(id).dtype));
        }
        let Seen { node, at } = self.see(id, coords);
        match (at, &self.fused.fates[node.index()]) {
            (At::Coords(coords), Fate::Inline) => self.inline(node, coords),
            (At::Coords(_), Fate::Member { group, .. }) if *group == self.group => self.member(node),
            (at, _) => self.load(node, &at),
        }
    }

    fn inline(&mut self, id: ValueId, coords: Coords) -> Result<Operand, PlanError> {
        let node = self.window.node(id);
        let dtype = node.dtype;
        match &node.op {
            Op::Fill { slot } => {
                let (slot, scalar_dtype) = self.slot(id, *slot)?;
                let scalar = self.push(Instr::Scalar { slot }, scalar_dtype);
                Ok(self.converted(scalar, dtype))
            }
            Op::Constant { value } => Ok(self.push(Instr::Constant { value: *value }, dtype)),
            Op::Iota { axis } => {
                let index = coords[*axis].clone();
                let access = self.access(&index);
                let whole = if dtype.is_int() { dtype } else { DType::I64 };
                let operand = self.push(Instr::Index { access, offset: index.offset }, whole);
                Ok(self.converted(operand, dtype))
            }
            Op::Random { key, stream } => {
                let index = linear_index(&coords, &node.shape);
                let access = self.access(&index);
                let (key, stream) = (self.slot(id, *key)?.0, self.slot(id, *stream)?.0);
                Ok(self.push(Instr::Random { key, stream, access, offset: index.offset }, dtype))
            }
            _ => {
                let operands: SmallVec<[Coords; 3]> = node.operands.iter().map(|_| coords.clone()).collect();
                self.compute(id, operands)
            }
        }
    }

    fn member(&mut self, id: ValueId) -> Result<Operand, PlanError> {
        if let Some(&operand) = self.members.get(&id) {
            return Ok(operand);
        }
        let Fate::Member { operands, seen, .. } = &self.fused.fates[id.index()] else {
            return Err(PlanError::Unsupported { node: id.0, reason: "a value without a place" });
        };
        let operands = operands.iter().map(|coords| self.refreshed(coords, *seen)).collect();
        let operand = self.compute(id, operands)?;
        self.members.insert(id, operand);
        Ok(operand)
    }

    fn compute(&mut self, id: ValueId, mut coords: SmallVec<[Coords; 3]>) -> Result<Operand, PlanError> {
        let node = self.window.node(id);
        let inputs = &node.operands;
        let instr = match &node.op {
            Op::Gather { axis } => return self.gather(id, *axis, coords),
            Op::Contract { .. } => {
                if inputs.iter().any(|&input| self.window.is_empty(input)) {
                    return Ok(self.zero(node.dtype));
                }
                let rhs = coords.pop().unwrap_or_default();
                let lhs = coords.pop().unwrap_or_default();
                let lhs = self.factor(inputs[0], lhs)?;
                Instr::Contract(lhs, self.factor(inputs[1], rhs)?)
            }
            op => {
                let mut values: SmallVec<[Operand; 3]> = SmallVec::new();
                for (&input, coords) in inputs.iter().zip(coords) {
                    values.push(self.value(input, coords)?);
                }
                match (op, values.as_slice()) {
                    (Op::Unary(op), &[a]) => Instr::Unary(*op, a),
                    (Op::Binary(op), &[a, b]) => Instr::Binary(*op, a, b),
                    (Op::Compare(op), &[a, b]) => Instr::Compare(*op, a, b),
                    (Op::Select, &[c, a, b]) => Instr::Select(c, a, b),
                    (Op::Cast, &[a]) => return Ok(self.converted(a, node.dtype)),
                    (Op::Bitcast, &[a]) => Instr::Bitcast(a),
                    (Op::Reduce { op, .. }, &[a]) => Instr::Reduce(*op, self.spread(a)),
                    (Op::ArgReduce { op, .. }, &[a]) => Instr::ArgReduce(*op, self.spread(a)),
                    _ => return Err(PlanError::Unsupported { node: id.0, reason: "not a statement" }),
                }
            }
        };
        Ok(self.push(instr, node.dtype))
    }

    /// Makes a value that is the same along all reduction dimensions formally depend on them: a
    /// choice, by a coordinate, between the value and itself. Lowering then only meets reductions of
    /// full values.
    fn spread(&mut self, value: Operand) -> Operand {
        let mut full: SmallVec<[bool; 16]> = SmallVec::new();
        let along = |access: &Access| {
            (0..access.strides.len()).any(|d| self.reduction >> d & 1 == 1 && access.uses(d))
        };
        for statement in &self.raw.body[..=value.0 as usize] {
            let of = |operand: &Operand| full[operand.0 as usize];
            let depends = match &statement.instr {
                Instr::Load { access, .. } | Instr::Index { access, .. } | Instr::Random { access, .. } => {
                    along(access)
                }
                Instr::Gather(gather) => along(&gather.access) || of(&gather.index),
                Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..) => false,
                instr => instr.operands().iter().any(of),
            };
            full.push(depends);
        }
        if full.last() == Some(&true) {
            return value;
        }
        let dtype = self.raw.body[value.0 as usize].dtype;
        let dims = (0..self.space.dims.len()).map(|d| (self.reduction >> d & 1) as i64);
        let index = self.push(Instr::Index { access: Access::new(dims), offset: 0 }, DType::I64);
        let zero = self.push(Instr::Constant { value: Literal::Int(0) }, DType::I64);
        let always = self.push(Instr::Compare(CompareOp::Ge, index, zero), DType::Bool);
        self.push(Instr::Select(always, value, value), dtype)
    }

    /// A contraction's operand: a load, perhaps converted.
    fn factor(&mut self, id: ValueId, coords: Coords) -> Result<Operand, PlanError> {
        let Seen { node, at } = self.see(id, coords);
        if let (At::Coords(coords), Fate::CastOfLoad) = (&at, &self.fused.fates[node.index()]) {
            let Seen { node: source, at } = self.see(self.window.node(node).operands[0], coords.clone());
            let loaded = self.load(source, &at)?;
            return Ok(self.converted(loaded, self.window.node(node).dtype));
        }
        self.load(node, &at)
    }

    fn gather(
        &mut self,
        id: ValueId,
        axis: usize,
        mut coords: SmallVec<[Coords; 3]>,
    ) -> Result<Operand, PlanError> {
        let node = self.window.node(id);
        let (data, index) = (node.operands[0], node.operands[1]);
        if self.window.is_empty(data) {
            return Ok(self.zero(node.dtype));
        }
        let index_coords = coords.pop().unwrap_or_default();
        let data_coords = coords.pop().unwrap_or_default();
        let index = self.value(index, index_coords)?;
        let hidden = data_coords[axis].coefs.len().checked_sub(1);
        let extent = self.window.node(data).shape[axis];
        let Seen { node: source, at } = self.see(data, data_coords);
        let (storage, place) = self.place(source, &at)?;
        let param = self.param(storage, place.offset, self.window.node(source).dtype);
        let mut access = self.access(&place);
        let stride = hidden.map_or(0, |dim| std::mem::take(&mut access.strides[dim]));
        Ok(self.push(Instr::Gather(Gather { param, access, index, stride, extent }), node.dtype))
    }

    fn load(&mut self, id: ValueId, at: &At) -> Result<Operand, PlanError> {
        let (storage, place) = self.place(id, at)?;
        let dtype = self.window.node(id).dtype;
        let param = self.param(storage, place.offset, dtype);
        let access = self.access(&place);
        Ok(self.push(Instr::Load { param, access }, dtype))
    }

    fn place(&self, id: ValueId, at: &At) -> Result<(StorageId, Affine), PlanError> {
        place(self.fused, id, at)
    }

    fn param(&mut self, storage: StorageId, offset: i64, dtype: DType) -> ParamId {
        let arg = Arg { storage, offset, dtype };
        let args = &mut self.raw.args;
        *self.params.entry(arg).or_insert_with(|| {
            args.push(arg);
            ParamId(args.len() as u32 - 1)
        })
    }

    /// The kernel's position of a scalar of the graph, and its type.
    fn slot(&mut self, id: ValueId, slot: u32) -> Result<(u32, DType), PlanError> {
        let Some(&dtype) = self.scalar_types.get(slot as usize) else {
            return Err(PlanError::Unsupported { node: id.0, reason: "a scalar does not exist" });
        };
        let known = self.raw.scalars.iter().position(|&(scalar, _)| scalar == slot);
        let position = known.unwrap_or_else(|| {
            self.raw.scalars.push((slot, dtype));
            self.raw.scalars.len() - 1
        });
        Ok((position as u32, dtype))
    }

    fn zero(&mut self, dtype: DType) -> Operand {
        self.push(Instr::Constant { value: Literal::of(dtype, 0.0) }, dtype)
    }

    fn converted(&mut self, operand: Operand, dtype: DType) -> Operand {
        if self.raw.body[operand.0 as usize].dtype == dtype {
            return operand;
        }
        self.push(Instr::Cast(operand), dtype)
    }

    fn access(&self, affine: &Affine) -> Access {
        Access::new((0..self.space.dims.len()).map(|dim| affine.coef(dim)))
    }

    /// Appends a statement, or finds the same one.
    fn push(&mut self, instr: Instr, dtype: DType) -> Operand {
        let statement = Statement { instr, dtype };
        let body = &mut self.raw.body;
        *self.statements.entry(statement).or_insert_with_key(|statement| {
            body.push(statement.clone());
            Operand(body.len() as u32 - 1)
        })
    }
}

/// The storage and address of a materialised value.
pub(super) fn place(fused: &Fused, id: ValueId, at: &At) -> Result<(StorageId, Affine), PlanError> {
    let missing = PlanError::Unsupported { node: id.0, reason: "a value was not materialised" };
    match at {
        At::Coords(coords) => {
            let home = fused.homes[id.index()].as_ref().ok_or(missing)?;
            Ok((home.storage, address(coords, &home.layout.strides, home.layout.offset)))
        }
        At::Linear(index) => {
            let home = fused.copies.get(&id).or(fused.homes[id.index()].as_ref()).ok_or(missing)?;
            let mut place = index.clone();
            place.offset += home.layout.offset;
            Ok((home.storage, place))
        }
    }
}
