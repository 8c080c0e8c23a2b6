//! Executes a plan kernel by kernel on bytes, and checks that kernels keep to their memory.

use crate::arithmetic::*;
use crate::graph_interpreter::{Tensor, indices, scatter, sorted};
use burn_mlir_ir::{
    Access, Argument, Attention, AttentionOperand, Block, BufferSource, DType, DimKind, Graph, Instr, Kernel,
    Launch, Layout, ParamMode, Plan,
};
use std::collections::{HashMap, HashSet};

/// An input in memory: bytes, and the element its tensor starts at.
#[derive(Clone, Debug)]
pub struct Bound {
    pub bytes: Vec<u8>,
    pub start: usize,
}

/// Bytes and whether each has been written.
#[derive(Clone)]
struct Region {
    bytes: Vec<u8>,
    written: Vec<bool>,
}

/// All memory of a run; buffers are windows of regions.
struct Memory {
    regions: Vec<Region>,
    /// Region and first byte of each buffer of the plan, and its size in bytes.
    buffers: Vec<(usize, usize, usize)>,
}

/// The results of a plan, and the inputs' memory afterwards.
pub fn run(plan: &Plan, graph: &Graph, inputs: &[Bound], scalars: &[i64]) -> (Vec<Tensor>, Vec<Vec<u8>>) {
    let mut regions: Vec<Region> = (inputs.iter())
        .map(|input| Region { bytes: input.bytes.clone(), written: vec![true; input.bytes.len()] })
        .collect();
    let unwritten = |bytes: usize| Region { bytes: vec![0xEE; bytes], written: vec![false; bytes] };
    let arena = regions.len();
    regions.push(unwritten(plan.arena_bytes));
    let mut buffers = Vec::new();
    for buffer in &plan.buffers {
        buffers.push(match buffer.source {
            BufferSource::Input(slot) => {
                let slot = slot as usize;
                (slot, inputs[slot].start, regions[slot].bytes.len() - inputs[slot].start)
            }
            BufferSource::Arena { offset } => {
                assert_eq!(offset % 64, 0);
                (arena, offset, buffer.bytes)
            }
            BufferSource::Fresh => {
                regions.push(unwritten(buffer.bytes));
                (regions.len() - 1, 0, buffer.bytes)
            }
        });
    }
    let mut memory = Memory { regions, buffers };
    for launch in &plan.launches {
        let kernel = &plan.kernels[launch.kernel.0 as usize];
        kernel.verify().unwrap_or_else(|error| panic!("{error}\n{kernel}"));
        let values: Vec<i64> = (launch.scalars.iter())
            .map(|&slot| wrap(graph.scalars[slot as usize], scalars[slot as usize]))
            .collect();
        memory.launch(kernel, launch, &values);
    }
    let read = |(place, id): (&burn_mlir_ir::ResultPlace, &burn_mlir_ir::ValueId)| {
        let dtype = graph.node(*id).dtype;
        assert_eq!(place.layout.shape, graph.node(*id).shape);
        let argument = Argument { buffer: place.buffer, offset: 0, dtype };
        Tensor::build(&place.layout.shape, |index| memory.load(&argument, at(&place.layout, index)))
    };
    let results = plan.results.iter().zip(&graph.results).map(read).collect();
    (results, memory.regions.into_iter().take(inputs.len()).map(|region| region.bytes).collect())
}

/// The element of a layout at an index.
pub fn at(layout: &Layout, index: &[usize]) -> i64 {
    layout.offset + index.iter().zip(&layout.strides).map(|(&i, stride)| i as i64 * stride).sum::<i64>()
}

fn walk(access: &Access, point: &[usize]) -> i64 {
    assert_eq!(access.strides.len(), point.len());
    point.iter().zip(&access.strides).map(|(&i, stride)| i as i64 * stride).sum()
}

impl Memory {
    fn range(&self, argument: &Argument, element: i64) -> (usize, std::ops::Range<usize>) {
        let (region, start, bytes) = self.buffers[argument.buffer as usize];
        let size = argument.dtype.size();
        let byte = (argument.offset + element) * size as i64;
        let first = start as i64 + byte;
        let input = start != 0 || byte < 0;
        assert!(
            input || byte + size as i64 <= bytes as i64,
            "element {element} of {argument:?} out of bounds"
        );
        (region, first as usize..first as usize + size)
    }

    fn load(&self, argument: &Argument, element: i64) -> i64 {
        let (region, range) = self.range(argument, element);
        let region = &self.regions[region];
        assert!(
            region.written[range.clone()].iter().all(|&w| w),
            "{argument:?} [{element}] is not written yet"
        );
        let mut bytes = [0; 8];
        bytes[..range.len()].copy_from_slice(&region.bytes[range]);
        wrap(argument.dtype, i64::from_le_bytes(bytes))
    }

    fn store(&mut self, argument: &Argument, element: i64, value: i64) {
        let (region, range) = self.range(argument, element);
        let region = &mut self.regions[region];
        region.bytes[range.clone()].copy_from_slice(&value.to_le_bytes()[..range.len()]);
        region.written[range].fill(true);
    }

    fn launch(&mut self, kernel: &Kernel, launch: &Launch, scalars: &[i64]) {
        let args = &launch.arguments;
        match kernel {
            Kernel::Block(block) => self.block(block, args, scalars),
            Kernel::Scatter(scatter_) => {
                for index in indices(&scatter_.shape) {
                    let target = self.load(&args[1], walk(&scatter_.accesses[1], &index));
                    let update = self.load(&args[2], walk(&scatter_.accesses[2], &index));
                    let mut to = index.clone();
                    to[scatter_.axis] = target as usize;
                    let to = walk(&scatter_.accesses[0], &to);
                    let old = self.load(&args[0], to);
                    self.store(&args[0], to, scatter(scatter_.op, scatter_.dtype, old, update));
                }
            }
            Kernel::Paths(paths) => {
                let [scores, skips, output] = &paths.accesses;
                for index in indices(&paths.shape) {
                    let score = self.load(&args[0], walk(scores, &index));
                    let before = |at: &[usize]| self.load(&args[2], walk(output, at));
                    let skip = |at: &[usize]| self.load(&args[1], walk(skips, at));
                    let value = path(&index, score, before, skip);
                    self.store(&args[2], walk(output, &index), value);
                }
            }
            Kernel::Attention(kernel) => self.attention(kernel, args, scalars),
            Kernel::Sort(sort) => self.lines(&sort.shape, sort.axis, &sort.accesses, args, |line| {
                sorted(line, sort.descending, sort.index_dtype.is_some())
            }),
            Kernel::Scan(scan) => self.lines(&scan.shape, scan.axis, &scan.accesses, args, |line| {
                let prefix = |end: usize| reduce(scan.op, scan.dtype, line[..=end].iter().copied());
                (0..line.len()).map(prefix).collect()
            }),
        }
    }

    fn attention(&mut self, kernel: &Attention, args: &[Argument], scalars: &[i64]) {
        let place = |operand, index: &[usize]| {
            let position = kernel.position(operand)?;
            let (_, start) = self.range_unchecked(&args[position]);
            let view = kernel.view(operand)?;
            assert_eq!(start % view.alignment, 0, "alignment of {operand:?}");
            assert_eq!(args[position].dtype, kernel.operand_dtype(operand));
            Some((&args[position], walk(&view.access, index)))
        };
        let at =
            |operand, index: &[usize]| place(operand, index).map(|(arg, element)| self.load(arg, element));
        let compute = |index: Vec<usize>| {
            let value = attention(&kernel.sizes, kernel.causal, scalars, &index, at);
            let (arg, element) = place(AttentionOperand::Output, &index).unwrap();
            (*arg, element, value)
        };
        let all = indices(&kernel.operand_shape(AttentionOperand::Output));
        let results: Vec<_> = all.into_iter().map(compute).collect();
        for (arg, element, value) in results {
            self.store(&arg, element, value);
        }
    }

    fn lines(
        &mut self,
        shape: &[usize],
        axis: usize,
        [from, to]: &[Access; 2],
        args: &[Argument],
        f: impl Fn(&[i64]) -> Vec<i64>,
    ) {
        for index in indices(shape).into_iter().filter(|index| index[axis] == 0) {
            let along = |i: usize| {
                let mut index = index.clone();
                index[axis] = i;
                index
            };
            let line: Vec<i64> =
                (0..shape[axis]).map(|i| self.load(&args[0], walk(from, &along(i)))).collect();
            for (i, value) in f(&line).into_iter().enumerate() {
                self.store(&args[1], walk(to, &along(i)), value);
            }
        }
    }

    fn block(&mut self, block: &Block, args: &[Argument], scalars: &[i64]) {
        assert_eq!(block.params.len(), args.len());
        for (param, arg) in block.params.iter().zip(args) {
            assert_eq!(param.dtype, arg.dtype);
            let (_, range) = self.range_unchecked(arg);
            assert_eq!(range % param.alignment.min(64), 0, "alignment of {arg:?}");
        }
        let extents = |kind: DimKind| -> Vec<usize> {
            block.domain.iter().filter(|dim| dim.kind == kind).map(|dim| dim.size).collect()
        };
        let reduction = indices(&extents(DimKind::Reduction));
        let mut touched = Touched::default();
        // Backwards: nothing may depend on the order of parallel points.
        for point in indices(&extents(DimKind::Parallel)).iter().rev() {
            let points: Vec<Vec<usize>> = reduction.iter().map(|r| [&point[..], r].concat()).collect();
            let origin = [&point[..], &vec![0; block.domain.len() - point.len()]].concat();
            self.point(block, args, scalars, &points, &origin, &mut touched);
        }
        touched.check(block);
    }

    /// Address of an argument modulo 64, given regions aligned to 64 and inputs to their element.
    fn range_unchecked(&self, arg: &Argument) -> (usize, usize) {
        let (region, start, _) = self.buffers[arg.buffer as usize];
        (region, (start as i64 + arg.offset * arg.dtype.size() as i64).rem_euclid(64) as usize)
    }

    fn point(
        &mut self,
        block: &Block,
        args: &[Argument],
        scalars: &[i64],
        points: &[Vec<usize>],
        origin: &[usize],
        touched: &mut Touched,
    ) {
        let full = block.dependences().into_iter().map(|set| set & block.reduction_dims() != 0);
        let full: Vec<bool> = full.collect();
        let origin = [origin.to_vec()];
        let mut values: Vec<Vec<i64>> = Vec::new();
        for (index, statement) in block.body.iter().enumerate() {
            let dtype = statement.dtype;
            let points = if full[index] { points } else { &origin[..] };
            let of = |operand: &burn_mlir_ir::Operand, i: usize| {
                let values = &values[operand.0 as usize];
                if values.len() == 1 { values[0] } else { values[i] }
            };
            let count = if full[index] { points.len() } else { 1 };
            let over = |operand: &burn_mlir_ir::Operand| -> Vec<i64> { values[operand.0 as usize].clone() };
            let value: Vec<i64> = match &statement.instr {
                Instr::Reduce(op, a) => {
                    assert!(full[a.0 as usize], "a reduction of a row value\n{block:?}");
                    vec![reduce(*op, dtype, over(a).into_iter())]
                }
                Instr::ArgReduce(op, a) => vec![arg_reduce(*op, over(a).into_iter())],
                Instr::Contract(a, b) => {
                    let terms = (0..reductions(block)).map(|i| of(a, i).wrapping_mul(of(b, i)));
                    vec![wrap(dtype, terms.fold(0, i64::wrapping_add))]
                }
                instr => (0..count)
                    .map(|i| {
                        let point = &points[i];
                        match instr {
                            Instr::Load { param, access } => {
                                let arg = &args[param.0 as usize];
                                let element = walk(access, point);
                                touched.read(self, param.0, arg, element);
                                self.load(arg, element)
                            }
                            Instr::Gather(gather) => {
                                let arg = &args[gather.param.0 as usize];
                                let index = of(&gather.index, i).clamp(0, gather.extent as i64 - 1);
                                let element = walk(&gather.access, point) + index * gather.stride;
                                touched.read(self, gather.param.0, arg, element);
                                self.load(arg, element)
                            }
                            Instr::Scalar { slot } => wrap(dtype, scalars[*slot as usize]),
                            Instr::Constant { value } => literal(dtype, *value),
                            Instr::Index { access, offset } => wrap(dtype, offset + walk(access, point)),
                            Instr::Random { key, stream, access, offset } => {
                                let [key, stream] = [key, stream].map(|slot| scalars[*slot as usize]);
                                random(key, stream, offset + walk(access, point))
                            }
                            Instr::Unary(op, a) => unary(*op, dtype, of(a, i)),
                            Instr::Binary(op, a, b) => binary(*op, dtype, of(a, i), of(b, i)),
                            Instr::Compare(op, a, b) => compare(*op, of(a, i), of(b, i)),
                            Instr::Select(c, a, b) => {
                                if of(c, i) != 0 {
                                    of(a, i)
                                } else {
                                    of(b, i)
                                }
                            }
                            Instr::Cast(a) | Instr::Bitcast(a) => wrap(dtype, of(a, i)),
                            Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..) => unreachable!(),
                        }
                    })
                    .collect(),
            };
            values.push(value);
        }
        let dependences = block.dependences();
        for store in &block.stores {
            let value = &values[store.value.0 as usize];
            // A full value that does not move along some reduction dimension is one value along it, however
            // often it is stored.
            let depends = dependences[store.value.0 as usize];
            let still = |d: usize| block.reduction_dims() & !depends & 1 << d != 0 && !store.access.uses(d);
            let again = |point: &[usize]| (0..point.len()).any(|d| point[d] != 0 && still(d));
            let arg = &args[store.param.0 as usize];
            let spread = store
                .access
                .strides
                .iter()
                .enumerate()
                .any(|(d, &stride)| stride != 0 && block.reduction_dims() >> d & 1 == 1);
            for (i, point) in if spread { points } else { &origin[..] }.iter().enumerate() {
                if again(point) {
                    continue;
                }
                let element = walk(&store.access, point);
                touched.write(self, store.param.0, arg, element);
                self.store(arg, element, if value.len() == 1 { value[0] } else { value[i] });
            }
        }
    }
}

fn reductions(block: &Block) -> usize {
    block.domain.iter().filter(|dim| dim.kind == DimKind::Reduction).map(|dim| dim.size).product()
}

/// Which parameters touch which bytes.
#[derive(Default)]
struct Touched {
    reads: HashMap<(usize, usize), HashSet<u32>>,
    writes: HashMap<(usize, usize), u32>,
}

impl Touched {
    fn read(&mut self, memory: &Memory, param: u32, arg: &Argument, element: i64) {
        let (region, range) = memory.range(arg, element);
        for byte in range {
            self.reads.entry((region, byte)).or_default().insert(param);
        }
    }

    fn write(&mut self, memory: &Memory, param: u32, arg: &Argument, element: i64) {
        let (region, range) = memory.range(arg, element);
        for byte in range {
            assert!(
                self.writes.insert((region, byte), param).is_none(),
                "written twice: {arg:?} [{element}]"
            );
        }
    }

    fn check(&self, block: &Block) {
        for (byte, param) in &self.writes {
            assert_ne!(block.params[*param as usize].mode, ParamMode::In);
            for reader in self.reads.get(byte).into_iter().flatten() {
                assert!(reader == param, "@{reader} reads what @{param} writes\n{block:?}");
                assert_eq!(block.params[*param as usize].mode, ParamMode::InOut);
            }
        }
    }
}

/// Puts a row-major tensor into memory of a layout.
pub fn bind(tensor: &Tensor, layout: &Layout, dtype: DType, padding: usize) -> Bound {
    let elements: Vec<i64> = indices(&tensor.shape).iter().map(|index| at(layout, index)).collect();
    let low = elements.iter().copied().min().unwrap_or(0).min(0);
    let high = elements.iter().copied().max().unwrap_or(0).max(0);
    let size = dtype.size();
    let start = ((-low) as usize + padding) * size;
    let mut bytes = vec![0x55; start + (high as usize + 1 + padding) * size];
    for (element, value) in elements.iter().zip(&tensor.values) {
        let byte = (start as i64 + element * size as i64) as usize;
        bytes[byte..byte + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Bound { bytes, start }
}
