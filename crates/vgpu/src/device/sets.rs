//! Sets of device addresses, as sparse bitmaps: sectors that a launch touched, bytes that it wrote.

const WORDS: usize = 1024;
const BITS: u64 = WORDS as u64 * 64;

/// A set of small integers from 0 to a limit, in chunks of 65,536 that exist once touched.
#[derive(Debug, Clone, Default)]
pub struct SparseSet {
    chunks: Vec<Option<Box<[u64; WORDS]>>>,
}

impl SparseSet {
    /// An empty set of integers below `limit`.
    pub fn new(limit: u64) -> Self {
        Self {
            chunks: vec![None; limit.div_ceil(BITS) as usize],
        }
    }

    /// Adds `first..=last`, which must be below the limit.
    #[inline(always)]
    pub fn insert_range(&mut self, first: u64, last: u64) {
        let word = first / 64;
        if word == last / 64 {
            let ones = u64::MAX >> (63 - (last - first));
            self.chunk(word)[word as usize % WORDS] |= ones << (first % 64);
        } else {
            self.insert_long(first, last);
        }
    }

    #[cold]
    #[inline(never)]
    fn insert_long(&mut self, first: u64, last: u64) {
        let (head, tail) = (first / 64, last / 64);
        self.chunk(head)[head as usize % WORDS] |= u64::MAX << (first % 64);
        for word in head + 1..tail {
            self.chunk(word)[word as usize % WORDS] = u64::MAX;
        }
        self.chunk(tail)[tail as usize % WORDS] |= u64::MAX >> (63 - last % 64);
    }

    #[inline(always)]
    fn chunk(&mut self, word: u64) -> &mut [u64; WORDS] {
        let slot = &mut self.chunks[word as usize / WORDS];
        if slot.is_none() {
            Self::fill(slot);
        }
        slot.as_mut().expect("just filled")
    }

    #[cold]
    #[inline(never)]
    fn fill(slot: &mut Option<Box<[u64; WORDS]>>) {
        *slot = Some(Box::new([0; WORDS]));
    }

    /// Adds another set's members.
    pub fn merge(&mut self, other: SparseSet) {
        if self.chunks.len() < other.chunks.len() {
            self.chunks.resize(other.chunks.len(), None);
        }
        for (mine, theirs) in self.chunks.iter_mut().zip(other.chunks) {
            match (mine, theirs) {
                (_, None) => {}
                (slot @ None, theirs) => *slot = theirs,
                (Some(mine), Some(theirs)) => {
                    for (mine, theirs) in mine.iter_mut().zip(theirs.iter()) {
                        *mine |= theirs;
                    }
                }
            }
        }
    }

    /// Number of members.
    pub fn count(&self) -> u64 {
        let words = self.chunks.iter().flatten().flat_map(|chunk| chunk.iter());
        words.map(|word| u64::from(word.count_ones())).sum()
    }

    /// The members as maximal runs, first and last, ascending.
    pub fn runs(&self) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for (index, chunk) in self.chunks.iter().enumerate() {
            let Some(chunk) = chunk else { continue };
            for (offset, &word) in chunk.iter().enumerate() {
                let base = index as u64 * BITS + offset as u64 * 64;
                let mut rest = word;
                while rest != 0 {
                    let start = u64::from(rest.trailing_zeros());
                    let length = u64::from((rest >> start).trailing_ones());
                    let first = base + start;
                    match runs.last_mut() {
                        Some(run) if run.1 + 1 == first => run.1 = first + length - 1,
                        _ => runs.push((first, first + length - 1)),
                    }
                    rest &= u64::MAX.checked_shl((start + length) as u32).unwrap_or(0);
                }
            }
        }
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn ranges_counts_and_runs_agree_with_a_plain_set() {
        let mut sparse = SparseSet::new(400_000);
        let mut plain = BTreeSet::new();
        let mut state = 12345u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for _ in 0..500 {
            let first = random(399_000);
            let last = first + random(if first % 7 == 0 { 900 } else { 70 });
            sparse.insert_range(first, last);
            plain.extend(first..=last);
        }
        assert_eq!(sparse.count(), plain.len() as u64);
        let mut members = BTreeSet::new();
        for (first, last) in sparse.runs() {
            members.extend(first..=last);
        }
        assert_eq!(members, plain);
    }
}
