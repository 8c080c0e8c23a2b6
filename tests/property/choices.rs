//! What a case is made of: a stream of numbers that proptest draws and shrinks. A smaller number always means a
//! simpler choice, so shrinking needs to know nothing about what is chosen.

use burn_backend::DType;

/// Numbers a structure is made of; behind the last come zeros.
pub const LENGTH: usize = 96;

/// Every type of floats.
pub const FLOATS: &[DType] = &[DType::F32, DType::F64, DType::F16, DType::BF16, DType::Flex32];

/// Every type of integers.
pub const INTS: &[DType] =
    &[DType::I32, DType::I64, DType::I16, DType::I8, DType::U8, DType::U16, DType::U32, DType::U64];

/// Extents of axes, the simple ones first: around the sizes of vectors, warps and blocks.
const EXTENTS: &[usize] = &[1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 31, 33, 63, 65, 100, 129, 255, 257, 300, 0];

/// A stream of choices.
pub struct Choices<'a> {
    numbers: std::slice::Iter<'a, u16>,
}

impl<'a> Choices<'a> {
    /// The choices that these numbers make.
    pub fn new(numbers: &'a [u16]) -> Self {
        Self { numbers: numbers.iter() }
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: usize) -> usize {
        (self.numbers.next().copied().unwrap_or(0) as usize * count) >> 16
    }

    /// One of `low..=high`.
    pub fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high + 1 - low)
    }

    /// True once in `every` times.
    pub fn one_in(&mut self, every: usize) -> bool {
        self.below(every) == every - 1
    }

    /// One of a list.
    pub fn pick<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    /// All of `0..count` in some order.
    pub fn permutation(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        for at in 0..count {
            let other = self.within(at, count - 1);
            order.swap(at, other);
        }
        order
    }

    /// A shape of `low..=high` axes with few enough elements for a debug build of the reference.
    pub fn shape(&mut self, low: usize, high: usize) -> Vec<usize> {
        let limit = if self.one_in(12) { 40_000 } else { 3_000 };
        let rank = self.within(low, high);
        self.shape_of(rank, limit)
    }

    /// The same without empty axes.
    pub fn filled_shape(&mut self, low: usize, high: usize) -> Vec<usize> {
        let mut shape = self.shape(low, high);
        shape.iter_mut().for_each(|extent| *extent = (*extent).max(1));
        shape
    }

    fn shape_of(&mut self, rank: usize, limit: usize) -> Vec<usize> {
        let mut room = limit;
        let mut shape: Vec<usize> = (0..rank)
            .map(|_| {
                // Empty axes one time in about fifty.
                let empty = self.one_in(3);
                let mut extent = self.pick(&EXTENTS[..EXTENTS.len() - !empty as usize]);
                while extent > room {
                    extent /= 2;
                }
                room /= extent.max(1);
                extent
            })
            .collect();
        // The large extents are not always the first ones.
        let shift = self.below(rank.max(1));
        shape.rotate_right(shift);
        shape
    }

    /// A shape that broadcasts to `shape`.
    pub fn broadcastable(&mut self, shape: &[usize]) -> Vec<usize> {
        if !self.one_in(3) {
            return shape.to_vec();
        }
        shape.iter().map(|&extent| if self.one_in(2) { 1 } else { extent }).collect()
    }
}
