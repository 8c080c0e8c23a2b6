//! Memory: which values share a buffer, and where temporaries lie in the arena.

use super::emit::Arg;
use super::group::{Storage, StorageId};
use super::schedule::Step;
use crate::{Access, Block, BufferSource, DimKind, Instr, Kernel, ParamId, ParamMode};

/// Everything in the arena starts at a multiple of this.
const ALIGNMENT: usize = 64;

/// When a storage is first and last touched.
#[derive(Clone, Copy)]
struct Life {
    first: usize,
    last: usize,
    writers: usize,
}

/// The outcome: the representative of each storage, where it lies, and the size of the arena.
pub(super) struct Memory {
    pub representative: Vec<StorageId>,
    pub sources: Vec<BufferSource>,
    pub arena_bytes: usize,
}

/// Decides about memory; kernels that write over an operand are changed accordingly.
pub(super) fn plan_memory(storages: &mut [Storage], steps: &mut [Step]) -> Memory {
    let mut lives = lives(storages.len(), steps);
    let mut representative: Vec<StorageId> = (0..storages.len() as u32).map(StorageId).collect();
    for (at, step) in steps.iter_mut().enumerate() {
        reuse_operands(at, step, storages, &mut lives, &mut representative);
    }
    let (offsets, arena_bytes) = place(storages, &lives, &representative, steps.len());
    let source = |(index, storage): (usize, &Storage)| match storage.input {
        Some(slot) => BufferSource::Input(slot),
        None if storage.escapes => BufferSource::Fresh,
        None => BufferSource::Arena { offset: offsets[index] },
    };
    let sources = storages.iter().enumerate().map(source).collect();
    Memory { representative, sources, arena_bytes }
}

fn lives(count: usize, steps: &[Step]) -> Vec<Option<Life>> {
    let mut lives: Vec<Option<Life>> = vec![None; count];
    for (at, step) in steps.iter().enumerate() {
        for (param, arg) in step.args.iter().enumerate() {
            let life = lives[arg.storage.0 as usize].get_or_insert(Life { first: at, last: at, writers: 0 });
            life.last = at;
            life.writers += usize::from(step.writes(param));
        }
    }
    lives
}

/// Lets the stores of a map take over the storage of operands that die there.
fn reuse_operands(
    at: usize,
    step: &mut Step,
    storages: &mut [Storage],
    lives: &mut [Option<Life>],
    representative: &mut [StorageId],
) {
    // Earlier steps may have given their results' storage away.
    step.args.iter_mut().for_each(|arg| arg.storage = representative[arg.storage.0 as usize]);
    let Step { kernel: Kernel::Block(block), args, .. } = step else { return };
    if block.domain.iter().any(|dim| dim.kind == DimKind::Reduction) || block.contraction().is_some() {
        return;
    }
    let mut written = 0;
    while written < block.stores.len() {
        let store = &block.stores[written];
        written += 1;
        let (out, access) = (store.param, store.access.clone());
        let target = args[out.0 as usize];
        let owned = |arg: &Arg, last: usize| {
            let storage = &storages[arg.storage.0 as usize];
            !storage.escapes && (storage.input.is_none() || storage.donated) && last == at
        };
        let fresh = storages[target.storage.0 as usize].input.is_none()
            && lives[target.storage.0 as usize].is_some_and(|life| life.writers == 1)
            && args.iter().filter(|arg| arg.storage == target.storage).count() == 1;
        if !fresh {
            continue;
        }
        let dying = (0..args.len()).map(|p| ParamId(p as u32)).find(|&param| {
            let arg = args[param.0 as usize];
            let life = lives[arg.storage.0 as usize];
            arg.dtype == target.dtype
                && arg.offset == target.offset
                && storages[arg.storage.0 as usize].bytes == storages[target.storage.0 as usize].bytes
                && block.params[param.0 as usize].mode == ParamMode::In
                && life.is_some_and(|life| owned(&arg, life.last))
                && args.iter().filter(|other| other.storage == arg.storage).count() == 1
                && only_loaded_at(block, param, &access)
        });
        let Some(dying) = dying else { continue };
        let (from, to) = (target.storage.0 as usize, args[dying.0 as usize].storage.0 as usize);
        for storage in representative.iter_mut().filter(|storage| storage.0 as usize == from) {
            *storage = StorageId(to as u32);
        }
        storages[to].escapes |= storages[from].escapes;
        if let (Some(new), Some(old)) = (lives[from].take(), &mut lives[to]) {
            old.last = old.last.max(new.last);
        }
        merge_params(block, args, out, dying);
    }
}

/// Whether a parameter is read by loads with this access only.
fn only_loaded_at(block: &Block, param: ParamId, expected: &Access) -> bool {
    block.body.iter().all(|statement| match &statement.instr {
        Instr::Load { param: p, access } => *p != param || access == expected,
        Instr::Gather(gather) => gather.param != param,
        _ => true,
    })
}

/// Lets `kept` play the part of `dropped`, too.
fn merge_params(block: &mut Block, args: &mut Vec<Arg>, dropped: ParamId, kept: ParamId) {
    block.params[kept.0 as usize].mode = ParamMode::InOut;
    block.params.remove(dropped.0 as usize);
    args.remove(dropped.0 as usize);
    let renumber = |param: &mut ParamId| {
        if *param == dropped {
            *param = kept;
        }
        if param.0 > dropped.0 {
            param.0 -= 1;
        }
    };
    for statement in &mut block.body {
        match &mut statement.instr {
            Instr::Load { param, .. } => renumber(param),
            Instr::Gather(gather) => renumber(&mut gather.param),
            _ => {}
        }
    }
    block.stores.iter_mut().for_each(|store| renumber(&mut store.param));
}

/// Arena offsets by best fit over the steps.
fn place(
    storages: &[Storage],
    lives: &[Option<Life>],
    representative: &[StorageId],
    steps: usize,
) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; storages.len()];
    let mut born: Vec<Vec<usize>> = vec![Vec::new(); steps];
    let mut dying: Vec<Vec<usize>> = vec![Vec::new(); steps];
    for (index, storage) in storages.iter().enumerate() {
        let own = representative[index].0 as usize == index;
        if let (true, None, false, Some(life)) = (own, storage.input, storage.escapes, lives[index]) {
            born[life.first].push(index);
            dying[life.last].push(index);
        }
    }
    let mut arena = Arena::default();
    let size = |index: usize| storages[index].bytes.next_multiple_of(ALIGNMENT);
    for (born, dying) in born.iter().zip(&dying) {
        born.iter().for_each(|&index| offsets[index] = arena.take(size(index)));
        dying.iter().for_each(|&index| arena.give(offsets[index], size(index)));
    }
    (offsets, arena.end)
}

/// Free ranges, ascending and never touching, below `end`.
#[derive(Default)]
struct Arena {
    free: Vec<(usize, usize)>,
    end: usize,
}

impl Arena {
    fn take(&mut self, bytes: usize) -> usize {
        let fitting =
            (0..self.free.len()).filter(|&i| self.free[i].1 >= bytes).min_by_key(|&i| self.free[i].1);
        if let Some(index) = fitting {
            let (offset, size) = self.free[index];
            if size == bytes {
                self.free.remove(index);
            } else {
                self.free[index] = (offset + bytes, size - bytes);
            }
            return offset;
        }
        let start = match self.free.last() {
            Some(&(offset, size)) if offset + size == self.end => {
                self.free.pop();
                offset
            }
            _ => self.end,
        };
        self.end = start + bytes;
        start
    }

    fn give(&mut self, offset: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let at = self.free.partition_point(|range| range.0 < offset);
        self.free.insert(at, (offset, bytes));
        if at + 1 < self.free.len() && offset + bytes == self.free[at + 1].0 {
            self.free[at].1 += self.free.remove(at + 1).1;
        }
        if at > 0 && self.free[at - 1].0 + self.free[at - 1].1 == offset {
            self.free[at - 1].1 += self.free.remove(at).1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn freed_ranges_merge_and_the_best_fit_is_taken() {
        let mut arena = Arena::default();
        let offsets: Vec<usize> = [64, 128, 64, 256].map(|bytes| arena.take(bytes)).into();
        assert_eq!(offsets, [0, 64, 192, 256]);
        arena.give(64, 128);
        arena.give(0, 64);
        assert_eq!(arena.free, [(0, 192)]);
        arena.give(256, 256);
        assert_eq!(arena.take(192), 0);
        assert_eq!(arena.take(512), 256);
        assert_eq!(arena.end, 768);
    }
}
