//! Histograms as people draw them: a bar for each power of two.

use metasched_stats::WaitHistogram;

/// A bar of a histogram.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Bar {
    /// What it counts, from the first bound on and below the second, in units of 1,024 ns:
    /// these are powers of two, as the buckets are.
    pub from_us: u64,
    /// The second bound.
    pub to_us: u64,
    /// How many waits there were.
    pub count: u64,
}

/// Nanoseconds by two to the power of so much are what the bounds are in.
const UNIT_LOG2: usize = 10;

/// The bars from the first to the last that counts something; what is shorter than the unit has
/// one bar.
pub fn bars(waits: &WaitHistogram) -> Vec<Bar> {
    let octaves = waits.octaves();
    let bound = |power: usize| 1_u64.checked_shl(power as u32).unwrap_or(u64::MAX);
    let below = Bar { from_us: 0, to_us: 1, count: octaves[..UNIT_LOG2].iter().sum() };
    let above = octaves[UNIT_LOG2..].iter().enumerate().map(|(power, count)| Bar {
        from_us: bound(power),
        to_us: bound(power + 1),
        count: *count,
    });
    let all: Vec<Bar> = std::iter::once(below).chain(above).collect();
    let first = all.iter().position(|bar| bar.count > 0);
    let last = all.iter().rposition(|bar| bar.count > 0);
    match (first, last) {
        (Some(first), Some(last)) => all[first..=last].to_vec(),
        _ => Vec::new(),
    }
}

impl Bar {
    /// What it counts, as `bpftrace` writes it: `[4, 8)`, `[1]`, `[512, 1K)`.
    pub fn label(&self) -> String {
        if self.to_us == self.from_us + 1 {
            return format!("[{}]", self.from_us);
        }
        format!("[{}, {})", binary(self.from_us), binary(self.to_us))
    }

    /// How long its bar is beside the longest, of so many places.
    pub fn length(&self, most: u64, places: usize) -> usize {
        match most {
            0 => 0,
            most => (u128::from(self.count) * places as u128 / u128::from(most)) as usize,
        }
    }
}

/// A power of two with the letter of its thousands, of 1,024 each.
fn binary(value: u64) -> String {
    match value {
        v if v >= 1 << 20 => format!("{}M", v >> 20),
        v if v >= 1 << 10 => format!("{}K", v >> 10),
        v => v.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_powers_of_two_from_the_first_to_the_last_that_count() {
        let mut waits = WaitHistogram::default();
        for ns in [500, 1000, 1024, 2100, 2200, 4096, 524 << 10, 3 << 30] {
            waits.add(ns);
        }
        let bars = bars(&waits);
        let shown: Vec<(String, u64)> =
            bars.iter().filter(|bar| bar.count > 0).map(|bar| (bar.label(), bar.count)).collect();
        let expected = [
            ("[0]", 2),
            ("[1]", 1),
            ("[2, 4)", 2),
            ("[4, 8)", 1),
            ("[512, 1K)", 1),
            ("[2M, 4M)", 1),
        ];
        assert_eq!(shown, expected.map(|(label, count)| (label.to_owned(), count)));
        // None is left out in between.
        assert!(bars.windows(2).all(|pair| pair[0].to_us == pair[1].from_us), "{bars:?}");
        assert_eq!((bars[0].length(2, 52), bars[1].length(2, 52)), (52, 26));
        assert!(super::bars(&WaitHistogram::default()).is_empty());
    }
}
