//! In which passes over the reduction space a block is computed.

use super::lanes::operands;
use burn_mlir_ir::{BinaryOp, Block, Instr, UnaryOp};

/// Cost, in simple instructions, from which a value is kept rather than computed again.
const WORTH_KEEPING: usize = 8;

/// Passes over the reduction space: each reduction runs once its operand is known; what is stored for every
/// point comes last.
#[derive(Debug)]
pub(super) struct Stages {
    /// The reductions of each pass, as statements.
    pub passes: Vec<Vec<usize>>,
    /// Stores made at every point of the reduction space, in a pass of their own.
    pub full: Vec<usize>,
    /// Stores made once per point of the parallel dimensions.
    pub rows: Vec<usize>,
    /// Statements whose values are kept for later passes, with the pass that computes them.
    pub kept: Vec<(usize, usize)>,
}

impl Stages {
    /// The stages of a block.
    pub fn of(block: &Block) -> Self {
        let reduction = block.reduction_dims();
        let sets = block.dependences();
        let mut levels: Vec<usize> = Vec::new();
        let mut passes: Vec<Vec<usize>> = Vec::new();
        for (index, statement) in block.body.iter().enumerate() {
            let level = operands(&statement.instr).iter().map(|o| levels[o.0 as usize]).max().unwrap_or(0);
            if is_reduction(&statement.instr) {
                passes.resize(passes.len().max(level + 1), Vec::new());
                passes[level].push(index);
                levels.push(level + 1);
            } else {
                levels.push(level);
            }
        }
        let is_full = |store: &burn_mlir_ir::Store| {
            sets[store.value.0 as usize] & reduction != 0
                || (0..block.domain.len()).any(|dim| reduction & (1 << dim) != 0 && store.access.uses(dim))
        };
        let (full, rows): (Vec<_>, Vec<_>) =
            (0..block.stores.len()).partition(|&store| is_full(&block.stores[store]));
        let mut stages = Self { passes, full, rows, kept: Vec::new() };
        stages.choose_kept(block, &sets, reduction);
        stages
    }

    /// The values that pass `pass` (the one after the last is the pass of full stores) asks for.
    pub fn wanted(&self, block: &Block, pass: usize) -> Vec<usize> {
        match self.passes.get(pass) {
            Some(reductions) => {
                let operands = reductions.iter().flat_map(|&r| operands(&block.body[r].instr));
                operands.map(|operand| operand.0 as usize).collect()
            }
            None => self.full.iter().map(|&store| block.stores[store].value.0 as usize).collect(),
        }
    }

    fn choose_kept(&mut self, block: &Block, sets: &[u32], reduction: u32) {
        // The full values each pass computes, without those kept by an earlier one.
        let mut first: Vec<Option<usize>> = vec![None; block.body.len()];
        for pass in 0..=self.passes.len() {
            let mut needed = vec![false; block.body.len()];
            let mut entered = vec![false; block.body.len()];
            let wanted = self.wanted(block, pass);
            wanted.iter().for_each(|&w| entered[w] = true);
            let mut stack = wanted;
            while let Some(statement) = stack.pop() {
                let kept = self.kept.iter().any(|k| k.0 == statement);
                let full = sets[statement] & reduction != 0;
                if kept || !full || std::mem::replace(&mut needed[statement], true) {
                    continue;
                }
                let again = first[statement].is_some();
                for operand in operands(&block.body[statement].instr) {
                    let operand = operand.0 as usize;
                    entered[operand] |= !again;
                    stack.push(operand);
                }
            }
            for statement in 0..block.body.len() {
                if !needed[statement] {
                    continue;
                }
                match first[statement] {
                    Some(earlier) if entered[statement] && self.cost(block, statement) >= WORTH_KEEPING => {
                        self.kept.push((statement, earlier));
                    }
                    Some(_) => {}
                    None => first[statement] = Some(pass),
                }
            }
        }
    }

    /// The cost of a value, down to what is kept.
    fn cost(&self, block: &Block, statement: usize) -> usize {
        let mut seen = vec![false; statement + 1];
        let mut stack = vec![statement];
        let mut cost = 0;
        while let Some(statement) = stack.pop() {
            let kept = self.kept.iter().any(|k| k.0 == statement);
            if kept
                || std::mem::replace(&mut seen[statement], true)
                || is_reduction(&block.body[statement].instr)
            {
                continue;
            }
            cost += instruction_cost(&block.body[statement].instr);
            stack.extend(operands(&block.body[statement].instr).iter().map(|o| o.0 as usize));
        }
        cost
    }
}

/// The cost of computing `wanted` once, in simple instructions.
pub(super) fn cost_of(block: &Block, wanted: &[usize]) -> usize {
    let none = Stages { passes: vec![], full: vec![], rows: vec![], kept: vec![] };
    wanted.iter().map(|&w| none.cost(block, w)).sum()
}

fn is_reduction(instr: &Instr) -> bool {
    matches!(instr, Instr::Reduce(..) | Instr::ArgReduce(..) | Instr::Contract(..))
}

/// Instructions of a statement, roughly.
pub(crate) fn instruction_cost(instr: &Instr) -> usize {
    use UnaryOp::*;
    match instr {
        Instr::Scalar { .. } | Instr::Constant { .. } => 0,
        Instr::Unary(Neg | Abs | Sign | Not | IsNan | IsInf | Floor | Ceil | Round | Trunc, _) => 1,
        Instr::Unary(Sqrt | Rsqrt | Recip, _) => 4,
        Instr::Unary(..) => 12,
        Instr::Binary(BinaryOp::Div, ..) => 4,
        Instr::Binary(BinaryOp::Rem | BinaryOp::Pow | BinaryOp::Atan2, ..) => 16,
        Instr::Gather(_) => 8,
        Instr::Random { .. } => 24,
        _ => 1,
    }
}
