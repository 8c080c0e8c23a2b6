//! Writing the code of one thread: 32-bit arithmetic, loops over many carried values, inline assembly.

use crate::emit::{Emitter, Value};
use crate::nvptx::writer::KernelWriter;

/// Types of values that are carried around loops or go through assembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ty {
    F32,
    I32,
    I64,
    /// A generic address.
    Ptr,
}

impl Ty {
    fn name(self) -> &'static str {
        ["f32", "i32", "i64", "!llvm.ptr"][self as usize]
    }

    fn constraint(self) -> &'static str {
        ["f", "r", "l", "l"][self as usize]
    }
}

/// A value and its type.
pub(super) type Typed = (Value, Ty);

/// All values with one type.
pub(super) fn typed(values: &[Value], ty: Ty) -> Vec<Typed> {
    values.iter().map(|value| (value.clone(), ty)).collect()
}

fn names(types: &[Ty]) -> String {
    types.iter().map(|ty| ty.name()).collect::<Vec<_>>().join(", ")
}

/// The text of a function.
pub(super) struct Code {
    pub writer: KernelWriter,
}

/// A loop, a while or an if that is being written.
#[must_use]
pub(super) struct Region {
    name: Value,
    types: Vec<Ty>,
}

impl Region {
    fn results(&self) -> Vec<Value> {
        (0..self.types.len()).map(|index| format!("{}#{index}", self.name)).collect()
    }
}

impl Code {
    pub fn e(&mut self) -> &mut Emitter {
        &mut self.writer.emitter
    }

    pub fn op(&mut self, text: impl std::fmt::Display) -> Value {
        self.e().op(text)
    }

    pub fn line(&mut self, text: impl std::fmt::Display) {
        self.e().line(text);
    }

    pub fn i32(&mut self, value: i64) -> Value {
        self.op(format_args!("arith.constant {value} : i32"))
    }

    pub fn f32(&mut self, text: &str) -> Value {
        self.op(format_args!("arith.constant {text} : f32"))
    }

    /// A binary operation on i32.
    pub fn bin(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.{op} {a}, {b} : i32"))
    }

    /// A binary operation on i32 with a constant.
    pub fn with(&mut self, op: &str, a: &Value, b: i64) -> Value {
        let b = self.i32(b);
        self.bin(op, a, &b)
    }

    pub fn add(&mut self, a: &Value, b: &Value) -> Value {
        self.bin("addi", a, b)
    }

    pub fn sub(&mut self, a: &Value, b: &Value) -> Value {
        self.bin("subi", a, b)
    }

    pub fn cmp(&mut self, predicate: &str, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.cmpi {predicate}, {a}, {b} : i32"))
    }

    pub fn cmp_with(&mut self, predicate: &str, a: &Value, b: i64) -> Value {
        let b = self.i32(b);
        self.cmp(predicate, a, &b)
    }

    pub fn select(&mut self, condition: &Value, a: &Value, b: &Value, ty: &str) -> Value {
        self.op(format_args!("arith.select {condition}, {a}, {b} : {ty}"))
    }

    pub fn fmul(&mut self, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.mulf {a}, {b} : f32"))
    }

    pub fn fadd(&mut self, a: &Value, b: &Value) -> Value {
        self.op(format_args!("arith.addf {a}, {b} : f32"))
    }

    /// The larger; the other one if one is NaN.
    pub fn fmax(&mut self, a: &Value, b: &Value) -> Value {
        self.op(format_args!("llvm.intr.maxnum({a}, {b}) : (f32, f32) -> f32"))
    }

    pub fn fma(&mut self, a: &Value, b: &Value, c: &Value) -> Value {
        self.op(format_args!("llvm.intr.fma({a}, {b}, {c}) : (f32, f32, f32) -> f32"))
    }

    pub fn extended(&mut self, value: &Value) -> Value {
        self.op(format_args!("arith.extui {value} : i32 to i64"))
    }

    /// The value as an `index`.
    pub fn indexed(&mut self, value: &Value) -> Value {
        self.op(format_args!("arith.index_castui {value} : i32 to index"))
    }

    /// A value of another thread of the warp: `idx 0` or `bfly 1`.
    pub fn shuffle(&mut self, how: &str, value: &Value, lane: i64, ty: Ty) -> Value {
        let (all, lane, clamp) = (self.i32(-1), self.i32(lane), self.i32(31));
        let ty = ty.name();
        self.op(format_args!("nvvm.shfl.sync {how} {all}, {value}, {lane}, {clamp} : {ty} -> {ty}"))
    }

    /// Inline assembly. Its operands are numbered: fresh results, tied results, tied operands, operands.
    /// Gives the fresh and the tied results.
    fn assemble(
        &mut self,
        effects: bool,
        text: &str,
        fresh: &[Ty],
        tied: &[Typed],
        operands: &[Typed],
    ) -> Vec<Value> {
        let results: Vec<Ty> = fresh.iter().copied().chain(tied.iter().map(|t| t.1)).collect();
        let outputs = results.iter().map(|ty| format!("={}", ty.constraint()));
        let ties = (0..tied.len()).map(|index| (fresh.len() + index).to_string());
        let inputs = operands.iter().map(|operand| operand.1.constraint().to_string());
        let constraints: Vec<String> = outputs.chain(ties).chain(inputs).collect();
        let all: Vec<&Typed> = tied.iter().chain(operands).collect();
        let values: Vec<&str> = all.iter().map(|operand| operand.0.as_str()).collect();
        let types: Vec<Ty> = all.iter().map(|operand| operand.1).collect();
        let result = match results.as_slice() {
            [] => "!llvm.void".to_string(),
            [one] => one.name().to_string(),
            many => format!("!llvm.struct<({})>", names(many)),
        };
        let text = format!(
            "llvm.inline_asm {}asm_dialect = att \"{text}\", \"{}\" {} : ({}) -> {result}",
            if effects { "has_side_effects " } else { "" },
            constraints.join(","),
            values.join(", "),
            names(&types),
        );
        match results.len() {
            0 => {
                self.line(text);
                Vec::new()
            }
            1 => vec![self.op(text)],
            count => {
                let all = self.op(text);
                let part = |index| format!("llvm.extractvalue {all}[{index}] : {result}");
                (0..count).map(|index| self.op(part(index))).collect()
            }
        }
    }

    /// Assembly with effects and no result.
    pub fn asm(&mut self, text: &str, operands: &[Typed]) {
        self.assemble(true, text, &[], &[], operands);
    }

    /// Assembly with effects and fresh results of one type.
    pub fn asm_results(&mut self, text: &str, results: &[Ty], operands: &[Typed]) -> Vec<Value> {
        self.assemble(true, text, results, &[], operands)
    }

    /// Assembly with effects that reads and replaces values.
    pub fn asm_tied(&mut self, text: &str, tied: &[Typed], operands: &[Typed]) -> Vec<Value> {
        self.assemble(true, text, &[], tied, operands)
    }

    /// Assembly without effects and with one result.
    pub fn asm_pure(&mut self, text: &str, result: Ty, operands: &[Typed]) -> Value {
        self.assemble(false, text, &[result], &[], operands).swap_remove(0)
    }

    /// An approximate function of one f32: `ex2`, `rcp` or `lg2`.
    pub fn approximate(&mut self, function: &str, x: &Value) -> Value {
        // Results end in 16 bits, where a flushed subnormal is 0 anyway.
        let text = format!("{function}.approx.ftz.f32 $0, $1;");
        self.asm_pure(&text, Ty::F32, &[(x.clone(), Ty::F32)])
    }

    /// Opens a loop from `from` to `to` in steps of 1; gives its variable and the carried values.
    pub fn open_for(&mut self, from: &Value, to: &Value, initial: &[Typed]) -> (Region, Value, Vec<Value>) {
        let region = Region { name: self.e().fresh(), types: initial.iter().map(|t| t.1).collect() };
        let variable = self.e().fresh();
        let carried: Vec<Value> = initial.iter().map(|_| self.e().fresh()).collect();
        let pairs: Vec<String> =
            carried.iter().zip(initial).map(|(name, t)| format!("{name} = {}", t.0)).collect();
        let one = self.i32(1);
        self.e().open(format_args!(
            "{}:{} = scf.for {variable} = {from} to {to} step {one} iter_args({}) -> ({}) : i32 {{",
            region.name,
            initial.len(),
            pairs.join(", "),
            names(&region.types)
        ));
        (region, variable, carried)
    }

    /// Closes a loop or a while; gives the carried values behind it.
    pub fn close(&mut self, region: Region, carried: &[Value]) -> Vec<Value> {
        self.yield_(&region, carried);
        self.e().close("}");
        region.results()
    }

    fn yield_(&mut self, region: &Region, values: &[Value]) {
        self.line(format_args!("scf.yield {} : {}", values.join(", "), names(&region.types)));
    }

    /// Opens a loop that goes on as long as `condition` of the carried values; gives the carried values.
    pub fn open_while(
        &mut self,
        initial: &[Typed],
        condition: impl FnOnce(&mut Self, &[Value]) -> Value,
    ) -> (Region, Vec<Value>) {
        let region = Region { name: self.e().fresh(), types: initial.iter().map(|t| t.1).collect() };
        let types = names(&region.types);
        let before: Vec<Value> = initial.iter().map(|_| self.e().fresh()).collect();
        let pairs: Vec<String> =
            before.iter().zip(initial).map(|(name, t)| format!("{name} = {}", t.0)).collect();
        self.e().open(format_args!(
            "{}:{} = scf.while ({}) : ({types}) -> ({types}) {{",
            region.name,
            initial.len(),
            pairs.join(", ")
        ));
        let goes_on = condition(self, &before);
        self.line(format_args!("scf.condition({goes_on}) {} : {types}", before.join(", ")));
        self.line("} do {");
        let after: Vec<Value> = initial.iter().map(|_| self.e().fresh()).collect();
        let block: Vec<String> =
            after.iter().zip(&region.types).map(|(name, ty)| format!("{name}: {}", ty.name())).collect();
        self.line(format_args!("^bb0({}):", block.join(", ")));
        (region, after)
    }

    /// Opens `if` with results.
    pub fn open_if(&mut self, condition: &Value, types: Vec<Ty>) -> Region {
        let region = Region { name: self.e().fresh(), types };
        self.e().open(format_args!(
            "{}:{} = scf.if {condition} -> ({}) {{",
            region.name,
            region.types.len(),
            names(&region.types)
        ));
        region
    }

    /// Ends the first branch of an `if` with results.
    pub fn otherwise(&mut self, region: &Region, values: &[Value]) {
        self.yield_(region, values);
        self.line("} else {");
    }

    /// Code for when `condition` holds.
    pub fn when(&mut self, condition: &Value, code: impl FnOnce(&mut Self)) {
        self.e().open(format_args!("scf.if {condition} {{"));
        code(self);
        self.e().close("}");
    }
}
