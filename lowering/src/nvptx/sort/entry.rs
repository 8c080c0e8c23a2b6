//! What is sorted: keys as unsigned integers with the positions they come from. No two are equal, so
//! that any sorting is a stable one.

use crate::emit::{Emitter, Value};
use crate::nvptx::code::Code;
use crate::nvptx::writer::KernelWriter;
use crate::order::{Order, bits_type};
use burn_mlir_ir::DType;

/// How entries are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::nvptx) enum Entries {
    /// A key of 32 bits above a position of 32 bits.
    Narrow,
    /// A key of 64 bits, and a position of 32 bits.
    Wide,
    /// A key of 32 bits alone.
    NarrowKeys,
    /// A key of 64 bits alone.
    WideKeys,
}

/// The components of an entry.
pub(in crate::nvptx) type Entry = Vec<Value>;

/// Arrays of the components of entries.
#[derive(Clone, Debug)]
pub(in crate::nvptx) struct Place {
    bases: Vec<Value>,
    space: &'static str,
}

impl Place {
    /// As many bytes (an `i64`) further.
    pub fn shifted(self, e: &mut Emitter, bytes: &Value) -> Self {
        let space = self.space;
        let shift = |base: &Value| {
            e.op(format_args!("llvm.getelementptr {base}[{bytes}] : ({space}, i64) -> {space}, i8"))
        };
        Self { bases: self.bases.iter().map(shift).collect(), space }
    }
}

impl Entries {
    /// The entries of keys of a type, with positions.
    pub fn of(dtype: DType) -> Self {
        if dtype.size() > 4 { Self::Wide } else { Self::Narrow }
    }

    /// The entries of keys of a type, without positions.
    pub fn keys(dtype: DType) -> Self {
        if dtype.size() > 4 { Self::WideKeys } else { Self::NarrowKeys }
    }

    /// The MLIR types of the components.
    pub fn types(self) -> &'static [&'static str] {
        match self {
            Self::Narrow | Self::WideKeys => &["i64"],
            Self::Wide => &["i64", "i32"],
            Self::NarrowKeys => &["i32"],
        }
    }

    /// Bytes of each component.
    fn bytes(self) -> impl Iterator<Item = usize> {
        self.types().iter().map(|ty| if *ty == "i64" { 8 } else { 4 })
    }

    /// The MLIR type of a key.
    pub fn key_type(self) -> &'static str {
        match self {
            Self::Narrow | Self::NarrowKeys => "i32",
            Self::Wide | Self::WideKeys => "i64",
        }
    }

    /// Bytes of an array.
    pub fn array_bytes(self, entries: usize) -> usize {
        self.bytes().map(|bytes| (entries * bytes).next_multiple_of(256)).sum()
    }

    /// An entry of a key and an `i32` position, if it has one.
    pub fn make(self, e: &mut Emitter, key: &Value, position: &Value) -> Entry {
        match self {
            Self::Wide => return vec![key.clone(), position.clone()],
            Self::NarrowKeys | Self::WideKeys => return vec![key.clone()],
            Self::Narrow => {}
        }
        let (key, position) = (e.resize(key, "i32", "i64"), e.resize(position, "i32", "i64"));
        let bits = e.int("i64", 32);
        let high = e.arith("shli", "i64", &key, &bits);
        vec![e.arith("ori", "i64", &high, &position)]
    }

    /// What comes behind every other entry with a position.
    pub fn last(self, e: &mut Emitter) -> Entry {
        self.types().iter().map(|ty| e.int(ty, -1)).collect()
    }

    /// The position of an entry that has one, an `i32`.
    pub fn position(self, e: &mut Emitter, entry: &Entry) -> Value {
        match self {
            Self::Narrow => e.resize(&entry[0], "i64", "i32"),
            _ => entry[entry.len() - 1].clone(),
        }
    }

    /// The key of an entry.
    pub fn key(self, e: &mut Emitter, entry: &Entry) -> Value {
        if self != Self::Narrow {
            return entry[0].clone();
        }
        let bits = e.int("i64", 32);
        let key = e.arith("shrui", "i64", &entry[0], &bits);
        e.resize(&key, "i64", "i32")
    }

    /// Whether `a` comes before `b`; both have positions.
    pub fn precedes(self, e: &mut Emitter, a: &Entry, b: &Entry) -> Value {
        let less = e.compare("ult", "i64", &a[0], &b[0]);
        if self != Self::Wide {
            return less;
        }
        let equal = e.compare("eq", "i64", &a[0], &b[0]);
        let earlier = e.compare("ult", "i32", &a[1], &b[1]);
        let tie = e.both(&equal, &earlier);
        e.arith("ori", "i1", &less, &tie)
    }

    /// One of two entries.
    pub fn choose(self, e: &mut Emitter, condition: &Value, a: &Entry, b: &Entry) -> Entry {
        let parts = a.iter().zip(b).zip(self.types());
        parts.map(|((a, b), ty)| e.choose(condition, ty, a, b)).collect()
    }

    /// An array of entries in the launch's scratch, `offset` bytes into it.
    pub fn scratch(self, kernel: &mut KernelWriter, offset: usize, entries: usize) -> Place {
        let mut offset = offset;
        let mut bases = Vec::new();
        for bytes in self.bytes() {
            bases.push(kernel.scratch(offset));
            offset += (entries * bytes).next_multiple_of(256);
        }
        Place { bases, space: crate::nvptx::writer::GLOBAL }
    }

    /// An array of entries in the memory of a block of threads.
    pub fn workgroup(self, kernel: &mut KernelWriter, entries: usize) -> Place {
        let bases = self.bytes().map(|bytes| kernel.workgroup(entries * bytes)).collect();
        Place { bases, space: crate::nvptx::writer::WORKGROUP }
    }

    /// Entry `at` (an integer of type `ty`) of an array.
    pub fn load(self, e: &mut Emitter, place: &Place, at: &Value, ty: &str) -> Entry {
        let parts = place.bases.iter().zip(self.types());
        parts
            .map(|(base, element)| {
                let address = address(e, base, place.space, at, ty, element);
                e.op(format_args!("llvm.load {address} : {} -> {element}", place.space))
            })
            .collect()
    }

    /// Replaces entry `at` (an integer of type `ty`) of an array.
    pub fn store(self, e: &mut Emitter, place: &Place, at: &Value, ty: &str, entry: &Entry) {
        for ((base, element), part) in place.bases.iter().zip(self.types()).zip(entry) {
            let address = address(e, base, place.space, at, ty, element);
            e.line(format_args!("llvm.store {part}, {address} : {element}, {}", place.space));
        }
    }
}

fn address(e: &mut Emitter, base: &Value, space: &str, at: &Value, ty: &str, element: &str) -> Value {
    let (at, ty) = if ty == "index" { (e.resize(at, ty, "i64"), "i64") } else { (at.clone(), ty) };
    e.op(format_args!("llvm.getelementptr {base}[{at}] : ({space}, {ty}) -> {space}, {element}"))
}

/// An element, given by its bits, as an unsigned integer of the order in which it is sorted, of the type of
/// [keys](Entries::key_type).
pub(super) fn ordered(e: &mut Emitter, dtype: DType, descending: bool, bits: &Value) -> Value {
    let (ty, to) = (bits_type(dtype), Entries::of(dtype).key_type());
    let key = Order::of_sort(dtype).key(e, bits);
    let key = e.resize(&key, &ty, to);
    if !descending {
        return key;
    }
    let all = e.int(to, -1);
    e.arith("xori", to, &key, &all)
}
