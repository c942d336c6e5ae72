//! How fast this machine's time stamp counter counts, which is how fast an emulated one does.
//!
//! A kernel measures that as it boots, against timers that QEMU emulates. While the host is busy they
//! come late, and the kernel may believe in a counter of a tenth of its frequency: the guest's
//! clock then runs ten times too fast, and all its time limits with it.

use std::arch::x86_64::_rdtsc;
use std::time::{Duration, Instant};

/// How long it is measured: a reading of the clock beside one of the counter is some hundred
/// nanoseconds off, a hundred-thousandth of this.
const MEASURED_FOR: Duration = Duration::from_millis(20);

/// So many readings are tried, and the quickest is taken: between the two a thread may lose its CPU.
const READINGS: usize = 16;

/// The counter's frequency in kHz, as the kernel's `tsc_early_khz` wants it.
pub(crate) fn khz() -> u64 {
    let (from, counted_from) = reading();
    std::thread::sleep(MEASURED_FOR);
    let (until, counted_until) = reading();
    let ns = until.duration_since(from).as_nanos();
    (u128::from(counted_until.wrapping_sub(counted_from)) * 1_000_000 / ns) as u64
}

/// The clock and the counter at one time.
fn reading() -> (Instant, u64) {
    let read = |_| {
        // SAFETY: every x86-64 CPU has it; Linux does not forbid it, but for a process that asks to.
        let before = unsafe { _rdtsc() };
        let clock = Instant::now();
        // SAFETY: as above.
        let after = unsafe { _rdtsc() };
        let took = after.wrapping_sub(before);
        (took, clock, before.wrapping_add(took / 2))
    };
    let quickest = (0..READINGS).map(read).min_by_key(|(took, ..)| *took);
    let (_, clock, counter) = quickest.expect("some readings");
    (clock, counter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_frequency_of_a_counter_and_stays_so() {
        let first = khz();
        assert!((100_000..10_000_000).contains(&first), "{first} kHz");
        let again = khz();
        assert!(first.abs_diff(again) * 1000 < first, "{first} and then {again} kHz");
    }
}
