//! Averages over the recent past, as the kernel has them of loads (PELT): a period is 1024 units of
//! 1024 ns, and what was 32 periods ago counts half.

/// Bits of a unit, and of a period in units.
const UNIT_BITS: u32 = 10;
const PERIOD: u64 = 1 << 10;
/// Periods until something counts half.
const HALF_LIFE: u64 = 32;
/// What a value of 1 comes to when it has always been so (`LOAD_AVG_MAX`).
const MOST: u64 = 47_742;

/// 2^32 times the n-th power of what one period leaves.
fn left_after(periods: u64) -> u64 {
    const fn powers() -> [u64; HALF_LIFE as usize] {
        // The 32nd root of 1/2, in 2^-63: the factors are rounded once each.
        const ROOT: u128 = 9_025_734_193_507_008_925;
        let (mut table, mut value, mut n) = ([0; HALF_LIFE as usize], 1u128 << 63, 0);
        while n < HALF_LIFE as usize {
            table[n] = (value >> 31) as u64;
            value = (value * ROOT) >> 63;
            n += 1;
        }
        table
    }
    const POWERS: [u64; HALF_LIFE as usize] = powers();
    POWERS[(periods % HALF_LIFE) as usize] >> (periods / HALF_LIFE).min(63)
}

fn decayed(value: u64, periods: u64) -> u64 {
    if periods > HALF_LIFE * 63 {
        return 0;
    }
    ((u128::from(value) * u128::from(left_after(periods))) >> 32) as u64
}

/// The average of a value.
#[derive(Clone, Copy, Default)]
pub(super) struct Average {
    sum: u64,
    /// Up to when it is counted, in units.
    at: u64,
}

impl Average {
    /// Counts a value that has been so since this was called last.
    pub fn count(&mut self, value: u64, now_ns: u64) {
        let (now, before) = (now_ns >> UNIT_BITS, self.at);
        if now <= before {
            return;
        }
        self.at = now;
        let periods = now / PERIOD - before / PERIOD;
        if periods == 0 {
            self.sum += value * (now - before);
            return;
        }
        // The end of the period that had begun, whole ones, and the beginning of this one.
        let (first, last) = (PERIOD - before % PERIOD, now % PERIOD);
        let whole = MOST.saturating_sub(decayed(MOST, periods) + PERIOD);
        self.sum = decayed(self.sum, periods);
        self.sum += value * (decayed(first, periods) + whole + last);
    }

    pub fn value(&self) -> u64 {
        self.sum / (MOST - PERIOD + self.at % PERIOD)
    }

    pub fn is_nothing(&self) -> bool {
        self.sum < MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1 << 20;

    #[test]
    fn what_has_always_been_so_is_the_average() {
        let mut average = Average::default();
        for i in 1..=2_000 {
            average.count(1_000, i * MS / 3);
        }
        assert!(average.value().abs_diff(1_000) <= 2, "{}", average.value());
    }

    #[test]
    fn half_is_left_after_32_periods_in_whatever_steps() {
        for steps in [1, 4, 64] {
            let mut average = Average::default();
            average.count(1_000, 1_000 * MS);
            let full = average.value();
            for i in 1..=steps {
                average.count(0, 1_000 * MS + i * 32 * MS / steps);
            }
            assert!(average.value().abs_diff(full / 2) <= 4, "{} of {full}", average.value());
        }
    }

    #[test]
    fn it_comes_to_nothing() {
        let mut average = Average::default();
        average.count(1_000, 1_000 * MS);
        average.count(0, 2_000 * MS);
        assert!(average.is_nothing());
        average.count(0, 9_000_000 * MS);
        assert_eq!(average.value(), 0);
    }
}
