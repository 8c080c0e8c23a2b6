//! The bytes of an entry of the disk store.

use crate::compile::Compiled;
use burn_mlir_ir::{Factor, Phase, Program, Swizzle, TensorMap};
use xxhash_rust::xxh3::xxh3_64;

/// Identifies the files; the digit is the version of the format.
const MAGIC: &[u8; 8] = b"bmlir\0\x003";

/// An entry: magic, key, program, code, and a checksum of all before.
pub(crate) fn encode(key: &str, compiled: &Compiled) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    bytes(&mut out, key.as_bytes());
    let program = &compiled.program;
    out.extend((program.phases.len() as u64).to_le_bytes());
    for phase in &program.phases {
        bytes(&mut out, phase.symbol.as_bytes());
        out.extend(phase.tiles.to_le_bytes());
        for value in phase.grid.iter().chain(&phase.block).chain([&phase.workgroup_bytes]) {
            out.extend(value.to_le_bytes());
        }
        out.extend((phase.factors.len() as u64).to_le_bytes());
        for factor in &phase.factors {
            out.extend(factor.known.to_le_bytes());
            out.extend((factor.numbers.len() as u64).to_le_bytes());
            out.extend(factor.numbers.iter().flat_map(|number| number.to_le_bytes()));
            out.extend(factor.divisor.to_le_bytes());
        }
        out.extend((phase.tensor_maps.len() as u64).to_le_bytes());
        for map in &phase.tensor_maps {
            tensor_map(&mut out, map);
        }
    }
    out.extend(program.shared_bytes.to_le_bytes());
    out.extend(program.worker_bytes.to_le_bytes());
    bytes(&mut out, &compiled.code);
    let checksum = xxh3_64(&out);
    out.extend(checksum.to_le_bytes());
    out
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn tensor_map(out: &mut Vec<u8>, map: &TensorMap) {
    out.extend(map.param.to_le_bytes());
    out.extend(map.offset.to_le_bytes());
    bytes(out, map.dtype.name().as_bytes());
    for list in [map.sizes.as_slice(), map.strides.as_slice()] {
        out.extend((list.len() as u64).to_le_bytes());
        out.extend(list.iter().flat_map(|value| value.to_le_bytes()));
    }
    out.extend((map.box_sizes.len() as u64).to_le_bytes());
    out.extend(map.box_sizes.iter().flat_map(|value| value.to_le_bytes()));
    out.extend((map.swizzle.bytes() as u64).to_le_bytes());
}

/// The entry, unless it is damaged or belongs to another key.
pub(crate) fn decode(key: &str, file: &[u8]) -> Option<Compiled> {
    let (body, checksum) = file.split_last_chunk::<8>()?;
    if xxh3_64(body) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let mut reader = Reader(body);
    if reader.take(MAGIC.len())? != MAGIC || reader.bytes()? != key.as_bytes() {
        return None;
    }
    let phases = (0..reader.u64()?).map(|_| reader.phase()).collect::<Option<Vec<_>>>()?;
    let program = Program { phases, shared_bytes: reader.u64()?, worker_bytes: reader.u64()? };
    let code = reader.bytes()?.to_vec();
    reader.0.is_empty().then_some(Compiled { program, code })
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn triple(&mut self) -> Option<[u32; 3]> {
        let mut values = [0; 3];
        for value in &mut values {
            *value = self.u32()?;
        }
        Some(values)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let count = usize::try_from(self.u64()?).ok()?;
        self.take(count)
    }

    fn phase(&mut self) -> Option<Phase> {
        let symbol = String::from_utf8(self.bytes()?.to_vec()).ok()?;
        let (tiles, grid, block) = (self.u64()?, self.triple()?, self.triple()?);
        let workgroup_bytes = self.u32()?;
        let factors = (0..self.u64()?).map(|_| self.factor()).collect::<Option<_>>()?;
        let tensor_maps = (0..self.u64()?).map(|_| self.tensor_map()).collect::<Option<_>>()?;
        Some(Phase { symbol, tiles, factors, grid, block, workgroup_bytes, tensor_maps })
    }

    fn factor(&mut self) -> Option<Factor> {
        Some(Factor { known: self.u64()?, numbers: self.list(Self::u32)?, divisor: self.u64()? })
    }

    fn tensor_map(&mut self) -> Option<TensorMap> {
        Some(TensorMap {
            param: self.u32()?,
            offset: self.u64()?,
            dtype: std::str::from_utf8(self.bytes()?).ok()?.parse().ok()?,
            sizes: self.list(Self::u64)?,
            strides: self.list(Self::u64)?,
            box_sizes: self.list(Self::u32)?,
            swizzle: self
                .u64()
                .and_then(|bytes| Swizzle::ALL.into_iter().find(|s| s.bytes() as u64 == bytes))?,
        })
    }

    fn list<T, C: FromIterator<T>>(&mut self, item: fn(&mut Self) -> Option<T>) -> Option<C> {
        (0..self.u64()?).map(|_| item(self)).collect()
    }
}
