//! Quotients whose operands are known to be in range.
//!
//! `div.rn.f32` looks at its operands, approximates the quotient and branches if they are not in range. The
//! formulas of functions know that theirs are ([`Float::quotient`]) and ask for no more than the approximation: the
//! hardware's reciprocal, a step of Newton's iteration, and a correction of the product by its remainder. That is
//! the sequence that the assembler makes of a division, so it has the same bits.
//!
//! [`Float::quotient`]: crate::scalar

use melior::{
    Context,
    ir::{
        Attribute, BlockLike, BlockRef, Identifier, Location, Module, Type, Value, ValueLike,
        operation::{OperationBuilder, OperationLike, OperationRef, WalkOrder, WalkResult},
    },
};

/// The flags by which such a division is known; on a division they mean nothing else.
const MARK: &str = "#llvm.fastmath<contract>";

/// Replaces the marked divisions of a module in the LLVM dialect.
pub(super) fn expand(context: &Context, module: &Module<'_>) {
    let mut marked = Vec::new();
    module.as_operation().walk(WalkOrder::PreOrder, |operation| {
        let name = operation.name();
        if name.as_string_ref().as_str() == Ok("llvm.fdiv")
            && operation.attribute("fastmathFlags").is_ok_and(|flags| flags.to_string() == MARK)
        {
            marked.push(operation.to_raw());
        }
        WalkResult::Advance
    });
    for division in marked {
        // SAFETY: the operations were found in the module, which outlives this function; each is erased below
        // after its own turn only.
        let operation = unsafe { OperationRef::from_raw(division) };
        let (Some(block), Ok(a), Ok(b)) = (operation.block(), operation.operand(0), operation.operand(1))
        else {
            continue;
        };
        let Some(quotient) = (Sequence { context, block, before: operation }).quotient(a, b) else {
            continue;
        };
        if let Ok(result) = operation.result(0) {
            // SAFETY: the values are of one type, and the division has no uses when it is destroyed.
            unsafe {
                mlir_sys::mlirValueReplaceAllUsesOfWith(result.to_raw(), quotient.to_raw());
                mlir_sys::mlirOperationDestroy(division);
            }
        }
    }
}

/// Operations being written before another one.
struct Sequence<'c, 'a> {
    context: &'c Context,
    block: BlockRef<'c, 'a>,
    before: OperationRef<'c, 'a>,
}

impl<'c, 'a> Sequence<'c, 'a> {
    fn operation(
        &self,
        name: &str,
        operands: &[Value<'c, 'a>],
        ty: Type<'c>,
        value: Option<&str>,
    ) -> Option<Value<'c, 'a>> {
        let mut builder = OperationBuilder::new(name, Location::unknown(self.context));
        if let Some(value) = value {
            let attribute = Attribute::parse(self.context, value)?;
            builder = builder.add_attributes(&[(Identifier::new(self.context, "value"), attribute)]);
        }
        let operation = builder.add_operands(operands).add_results(&[ty]).build().ok()?;
        let operation = self.block.insert_operation_before(self.before, operation);
        Some(operation.result(0).ok()?.into())
    }

    /// The reciprocals that the hardware has.
    fn reciprocals(&self, b: Value<'c, 'a>) -> Option<Value<'c, 'a>> {
        const RECIPROCAL: &str = "nvvm.rcp.approx.ftz.f";
        let (ty, single) = (b.r#type(), Type::parse(self.context, "f32")?);
        let text = ty.to_string();
        let Some(width) = text.strip_prefix("vector<") else {
            return self.operation(RECIPROCAL, &[b], ty, None);
        };
        let width: usize = width.strip_suffix("xf32>")?.parse().ok()?;
        let index = Type::parse(self.context, "i64")?;
        let mut all = self.operation("llvm.mlir.poison", &[], ty, None)?;
        for lane in 0..width {
            let at = self.operation("llvm.mlir.constant", &[], index, Some(&format!("{lane} : i64")))?;
            let element = self.operation("llvm.extractelement", &[b, at], single, None)?;
            let reciprocal = self.operation(RECIPROCAL, &[element], single, None)?;
            all = self.operation("llvm.insertelement", &[all, reciprocal, at], ty, None)?;
        }
        Some(all)
    }

    fn quotient(&self, a: Value<'c, 'a>, b: Value<'c, 'a>) -> Option<Value<'c, 'a>> {
        let ty = b.r#type();
        let fma = |a, b, c| self.operation("llvm.intr.fma", &[a, b, c], ty, None);
        let one = if ty.to_string() == "f32" { "1.0 : f32".into() } else { format!("dense<1.0> : {ty}") };
        let one = self.operation("llvm.mlir.constant", &[], ty, Some(&one))?;
        let minus_b = self.operation("llvm.fneg", &[b], ty, None)?;
        let rough = self.reciprocals(b)?;
        let error = fma(minus_b, rough, one)?;
        let reciprocal = fma(rough, error, rough)?;
        let product = self.operation("llvm.fmul", &[a, reciprocal], ty, None)?;
        let remainder = fma(minus_b, product, a)?;
        fma(reciprocal, remainder, product)
    }
}
