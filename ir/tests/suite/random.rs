//! Random graphs and kernels: of every form, with extreme numbers, rarely well formed.

use burn_mlir_ir::{
    Access, ArgReduceOp, Attention, AttentionOp, AttentionSizes, BinaryOp, Block, BufferView, CompareOp,
    DType, DimKind, DomainDim, Gather, Graph, Instr, Kernel, Labels, Layout, Literal, Node, Op, Operand,
    Param, ParamId, ParamMode, Paths, ReduceOp, Scan, Scatter, ScatterOp, Shape, SliceDim, Sort, Statement,
    Store, UnaryOp, ValueId,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use smallvec::SmallVec;

fn dtype() -> impl Strategy<Value = DType> {
    select(DType::all().collect::<Vec<_>>())
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..5, 1 => any::<usize>(), 1 => Just(usize::MAX)]
}

fn stride() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -4i64..20, 1 => any::<i64>(), 1 => Just(i64::MIN)]
}

fn sizes() -> impl Strategy<Value = SmallVec<[usize; 6]>> {
    vec(size(), 0..8).prop_map(SmallVec::from)
}

fn shape() -> impl Strategy<Value = Shape> {
    sizes().prop_map(Shape)
}

fn access() -> impl Strategy<Value = Access> {
    vec(stride(), 0..4).prop_map(Access::new)
}

pub fn literal() -> impl Strategy<Value = Literal> {
    prop_oneof![
        any::<u64>().prop_map(Literal::Float),
        any::<f64>().prop_map(Literal::float),
        any::<i64>().prop_map(Literal::Int),
        select(vec![
            0.0,
            -0.0,
            1.0,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::NAN,
            -f64::NAN,
            1e300,
            f64::MIN_POSITIVE,
            5e-324
        ])
        .prop_map(Literal::float),
    ]
}

fn labels() -> impl Strategy<Value = Labels> {
    "[a-cA]{0,4}".prop_map(|text| Labels::new(&text))
}

fn ranges() -> impl Strategy<Value = SmallVec<[SliceDim; 6]>> {
    let range = (size(), size(), stride()).prop_map(|(start, size, step)| SliceDim { start, size, step });
    vec(range, 0..4).prop_map(SmallVec::from)
}

fn reduce_op() -> impl Strategy<Value = ReduceOp> {
    select(ReduceOp::ALL)
}

/// Every operation but inputs.
fn op() -> impl Strategy<Value = Op> {
    let simple = vec![Op::Select, Op::Cast, Op::Bitcast, Op::Reshape, Op::Expand];
    let leaves = prop_oneof![
        (0u32..4).prop_map(|slot| Op::Fill { slot }),
        literal().prop_map(|value| Op::Constant { value }),
        size().prop_map(|axis| Op::Iota { axis }),
        (0u32..4, 0u32..4).prop_map(|(key, stream)| Op::Random { key, stream }),
        select(UnaryOp::ALL).prop_map(Op::Unary),
        select(BinaryOp::ALL).prop_map(Op::Binary),
        select(CompareOp::ALL).prop_map(Op::Compare),
        select(simple),
    ];
    let views = prop_oneof![
        sizes().prop_map(|axes| Op::Permute { axes }),
        ranges().prop_map(|dims| Op::Slice { dims }),
        [size(), size(), size(), size()].prop_map(|[axis, size, step, dilation]| Op::Unfold {
            axis,
            size,
            step,
            dilation
        }),
        ranges().prop_map(|dims| Op::SliceUpdate { dims }),
    ];
    let combinations = prop_oneof![
        (reduce_op(), sizes()).prop_map(|(op, axes)| Op::Reduce { op, axes }),
        (select(ArgReduceOp::ALL), sizes()).prop_map(|(op, axes)| Op::ArgReduce { op, axes }),
        (reduce_op(), size()).prop_map(|(op, axis)| Op::Scan { op, axis }),
        Just(Op::Paths),
        [labels(), labels(), labels()].prop_map(|[lhs, rhs, out]| Op::Contract { lhs, rhs, out }),
        size().prop_map(|axis| Op::Gather { axis }),
        (select(ScatterOp::ALL), size()).prop_map(|(op, axis)| Op::Scatter { op, axis }),
        (size(), any::<bool>()).prop_map(|(axis, descending)| Op::Sort { axis, descending }),
        (size(), any::<bool>()).prop_map(|(axis, descending)| Op::ArgSort { axis, descending }),
        size().prop_map(|axis| Op::Concat { axis }),
        (0u32..4, option::of(0u32..4), any::<[bool; 3]>()).prop_map(
            |(scale, softcap, [causal, masked, biased])| {
                Op::Attention(AttentionOp { scale, softcap, causal, masked, biased })
            }
        ),
    ];
    prop_oneof![leaves, views, combinations]
}

fn node() -> impl Strategy<Value = Node> {
    let operation = (op(), vec((0u32..8).prop_map(ValueId), 0..4), dtype(), shape())
        .prop_map(|(op, operands, dtype, shape)| Node { op, operands: operands.into(), dtype, shape });
    let input = (0u32..9, dtype(), shape(), vec(stride(), 0..4), stride(), any::<bool>()).prop_map(
        |(slot, dtype, shape, strides, offset, donated)| {
            let layout = Layout { shape: shape.clone(), strides: strides.into(), offset };
            Node {
                op: Op::Input { slot, layout, donated, alignment: 1 },
                operands: SmallVec::new(),
                dtype,
                shape,
            }
        },
    );
    let dense = (0u32..9, dtype(), vec(0usize..5, 0..4)).prop_map(|(slot, dtype, dims)| {
        let shape = Shape::new(dims);
        let layout = Layout::contiguous(&shape);
        Node {
            op: Op::Input { slot, layout, donated: false, alignment: 1 },
            operands: SmallVec::new(),
            dtype,
            shape,
        }
    });
    prop_oneof![4 => operation, 1 => input, 1 => dense]
}

pub fn graph() -> impl Strategy<Value = Graph> {
    (vec(node(), 0..12), vec((0u32..12).prop_map(ValueId), 0..4), vec(dtype(), 0..4))
        .prop_map(|(nodes, results, scalars)| Graph { nodes, results, scalars })
}

fn operand() -> impl Strategy<Value = Operand> {
    (0u32..10).prop_map(Operand)
}

fn param() -> impl Strategy<Value = ParamId> {
    (0u32..5).prop_map(ParamId)
}

fn instr() -> impl Strategy<Value = Instr> {
    prop_oneof![
        (param(), access()).prop_map(|(param, access)| Instr::Load { param, access }),
        (param(), access(), operand(), stride(), size()).prop_map(
            |(param, access, index, stride, extent)| {
                Instr::Gather(Gather { param, access, index, stride, extent })
            }
        ),
        (0u32..4).prop_map(|slot| Instr::Scalar { slot }),
        literal().prop_map(|value| Instr::Constant { value }),
        (access(), stride()).prop_map(|(access, offset)| Instr::Index { access, offset }),
        (0u32..4, 0u32..4, access(), stride()).prop_map(|(key, stream, access, offset)| Instr::Random {
            key,
            stream,
            access,
            offset
        }),
        (select(UnaryOp::ALL), operand()).prop_map(|(op, a)| Instr::Unary(op, a)),
        (select(BinaryOp::ALL), operand(), operand()).prop_map(|(op, a, b)| Instr::Binary(op, a, b)),
        (select(CompareOp::ALL), operand(), operand()).prop_map(|(op, a, b)| Instr::Compare(op, a, b)),
        [operand(), operand(), operand()].prop_map(|[c, a, b]| Instr::Select(c, a, b)),
        operand().prop_map(Instr::Cast),
        operand().prop_map(Instr::Bitcast),
        (reduce_op(), operand()).prop_map(|(op, a)| Instr::Reduce(op, a)),
        (select(ArgReduceOp::ALL), operand()).prop_map(|(op, a)| Instr::ArgReduce(op, a)),
        (operand(), operand()).prop_map(|(a, b)| Instr::Contract(a, b)),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    let kind = select(vec![DimKind::Parallel, DimKind::Reduction]);
    let dim = (size(), kind).prop_map(|(size, kind)| DomainDim::new(kind, size));
    let mode = select(vec![ParamMode::In, ParamMode::Out, ParamMode::InOut]);
    let parameter =
        (dtype(), mode, size()).prop_map(|(dtype, mode, alignment)| Param { dtype, mode, alignment });
    let statement = (instr(), dtype()).prop_map(|(instr, dtype)| Statement { instr, dtype });
    let store =
        (param(), access(), operand()).prop_map(|(param, access, value)| Store { param, access, value });
    (vec(dim, 0..4), vec(parameter, 0..4), vec(dtype(), 0..4), vec(statement, 0..10), vec(store, 0..3))
        .prop_map(|(domain, params, scalars, body, stores)| Block {
            domain: domain.into(),
            params,
            scalars,
            body,
            stores,
        })
}

fn attention() -> impl Strategy<Value = Attention> {
    let view = || (access(), size()).prop_map(|(access, alignment)| BufferView { access, alignment });
    let sizes = (size(), size(), size(), size(), size(), size(), size()).prop_map(
        |(batch, heads, kv_heads, queries, keys, width, value_width)| AttentionSizes {
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            width,
            value_width,
        },
    );
    let read = ([view(), view(), view()], [option::of(view()), option::of(view())]);
    (dtype(), sizes, any::<[bool; 2]>(), read, view(), option::of(view())).prop_map(
        |(dtype, sizes, [causal, softcap], ([query, key, value], [mask, bias]), output, lse)| Attention {
            dtype,
            sizes,
            causal,
            softcap,
            query,
            key,
            value,
            mask,
            bias,
            output,
            lse,
        },
    )
}

pub fn kernel() -> impl Strategy<Value = Kernel> {
    let pair = || [access(), access()];
    prop_oneof![
        3 => block().prop_map(Kernel::Block),
        1 => (select(ScatterOp::ALL), dtype(), dtype(), sizes(), size(), size(), [access(), access(), access()])
            .prop_map(|(op, dtype, index_dtype, shape, axis, extent, accesses)| {
                Kernel::Scatter(Scatter { op, dtype, index_dtype, shape, axis, extent, accesses })
            }),
        1 => (dtype(), proptest::option::of(dtype()), any::<bool>(), sizes(), size(), pair())
            .prop_map(|(dtype, index_dtype, descending, shape, axis, accesses)| {
                Kernel::Sort(Sort { dtype, index_dtype, descending, shape, axis, accesses })
            }),
        1 => (reduce_op(), dtype(), sizes(), size(), pair()).prop_map(|(op, dtype, shape, axis, accesses)| {
            Kernel::Scan(Scan { op, dtype, shape, axis, accesses })
        }),
        1 => (dtype(), sizes(), [access(), access(), access()])
            .prop_map(|(dtype, shape, accesses)| Kernel::Paths(Paths { dtype, shape, accesses })),
        1 => attention().prop_map(|attention| Kernel::Attention(Box::new(attention))),
    ]
}
