//! Which groups come before which: the order that keeps groups free of cycles.

use super::group::GroupId;

/// A growing acyclic graph of groups with its transitive closure.
#[derive(Default)]
pub(super) struct Reach {
    /// For each group the set of groups that (transitively) run after it.
    after: Vec<Vec<u64>>,
    /// Whether some group runs before it.
    follows: Vec<bool>,
    pub edges: Vec<(GroupId, GroupId)>,
}

impl Reach {
    /// Adds a group without edges.
    pub fn push(&mut self) {
        self.after.push(Vec::new());
        self.follows.push(false);
    }

    /// Whether `first` has to run before `second`.
    pub fn precedes(&self, first: GroupId, second: GroupId) -> bool {
        let (word, bit) = (second.0 as usize / 64, second.0 % 64);
        self.after[first.0 as usize].get(word).is_some_and(|bits| bits >> bit & 1 == 1)
    }

    /// Demands that `first` runs before `second`. The caller knows that `second` does not precede
    /// `first`.
    pub fn add(&mut self, first: GroupId, second: GroupId) {
        if first == second {
            return;
        }
        debug_assert!(!self.precedes(second, first), "a cycle of groups");
        if self.edges.last() != Some(&(first, second)) {
            self.edges.push((first, second));
        }
        if self.precedes(first, second) {
            return;
        }
        let mut gained = self.after[second.0 as usize].clone();
        set(&mut gained, second);
        self.follows[second.0 as usize] = true;
        if !self.follows[first.0 as usize] {
            return union(&mut self.after[first.0 as usize], &gained);
        }
        for group in 0..self.after.len() {
            if group == first.0 as usize || self.precedes(GroupId(group as u32), first) {
                union(&mut self.after[group], &gained);
            }
        }
    }
}

fn set(bits: &mut Vec<u64>, group: GroupId) {
    let word = group.0 as usize / 64;
    if bits.len() <= word {
        bits.resize(word + 1, 0);
    }
    bits[word] |= 1 << (group.0 % 64);
}

fn union(bits: &mut Vec<u64>, more: &[u64]) {
    if bits.len() < more.len() {
        bits.resize(more.len(), 0);
    }
    bits.iter_mut().zip(more).for_each(|(bits, more)| *bits |= more);
}
