//! Sets of CPUs. The simulator asks them at every event, so that their methods are inlined there.

/// The largest machine that is modelled.
pub const MAX_CPUS: usize = 1024;

/// A set of CPUs: `struct cpumask`.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CpuMask {
    bits: [u64; MAX_CPUS / 64],
}

impl CpuMask {
    /// No CPU at all.
    pub const EMPTY: CpuMask = CpuMask { bits: [0; MAX_CPUS / 64] };

    /// The CPUs 0 to `nr` - 1.
    pub fn first(nr: usize) -> Self {
        CpuMask::range(0, nr)
    }

    /// The CPUs `from` to `to` - 1.
    #[inline]
    pub fn range(from: usize, to: usize) -> Self {
        let mut mask = CpuMask::EMPTY;
        let mut cpu = from;
        while cpu < to {
            let (low, next) = (cpu % 64, (cpu / 64 + 1) * 64);
            let above = u64::MAX << low;
            let below = if next <= to { u64::MAX } else { (1 << (to % 64)) - 1 };
            mask.bits[cpu / 64] = above & below;
            cpu = next;
        }
        mask
    }

    /// One CPU.
    pub fn one(cpu: usize) -> Self {
        CpuMask::range(cpu, cpu + 1)
    }

    /// Whether `cpu` is in the set.
    #[inline]
    pub fn has(&self, cpu: usize) -> bool {
        cpu < MAX_CPUS && self.bits[cpu / 64] >> (cpu % 64) & 1 == 1
    }

    /// Adds a CPU.
    #[inline]
    pub fn set(&mut self, cpu: usize) {
        self.bits[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Takes a CPU out.
    #[inline]
    pub fn clear(&mut self, cpu: usize) {
        self.bits[cpu / 64] &= !(1 << (cpu % 64));
    }

    /// The CPUs that are in both sets.
    #[inline]
    pub fn and(&self, other: &CpuMask) -> CpuMask {
        let mut both = *self;
        both.bits.iter_mut().zip(other.bits).for_each(|(a, b)| *a &= b);
        both
    }

    /// The CPUs that are in this set and not in the other.
    #[inline]
    pub fn but(&self, other: &CpuMask) -> CpuMask {
        let mut left = *self;
        left.bits.iter_mut().zip(other.bits).for_each(|(a, b)| *a &= !b);
        left
    }

    /// The lowest CPU of the set that is not below `from`; where there is none, the lowest.
    #[inline]
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let above = (from / 64..MAX_CPUS / 64).find_map(|word| {
            let low = if word == from / 64 { from % 64 } else { 0 };
            let bits = self.bits[word] & (u64::MAX << low);
            (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize)
        });
        above.or_else(|| self.first_one())
    }

    /// The lowest CPU of the set.
    #[inline]
    pub fn first_one(&self) -> Option<usize> {
        let word = self.bits.iter().position(|word| *word != 0)?;
        Some(word * 64 + self.bits[word].trailing_zeros() as usize)
    }

    /// 64 CPUs a word.
    #[inline]
    pub fn words(&self) -> [u64; MAX_CPUS / 64] {
        self.bits
    }

    /// How many CPUs there are in the set.
    #[inline]
    pub fn count(&self) -> usize {
        // Counting bits takes longer than looking whether there is any.
        self.bits.iter().filter(|word| **word != 0).map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.bits.iter().fold(0, |all, word| all | word) == 0
    }

    /// The CPUs in ascending order.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.bits.iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                if left == 0 {
                    return None;
                }
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for CpuMask {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> Self {
        let mut mask = CpuMask::EMPTY;
        cpus.into_iter().for_each(|cpu| mask.set(cpu));
        mask
    }
}

impl std::fmt::Debug for CpuMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}
