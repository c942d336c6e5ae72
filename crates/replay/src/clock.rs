//! Time, sleep, and the use of CPU time.

use std::hint::black_box;

use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

fn read_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock).expect("every Linux has this clock");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// CLOCK_MONOTONIC, ns.
pub fn now_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns.
pub fn cpu_ns() -> u64 {
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID)
}

/// Sleeps until that time, ns; false if a signal ended it.
pub fn sleep_until(at_ns: u64) -> bool {
    let at = TimeSpec::new((at_ns / 1_000_000_000) as i64, (at_ns % 1_000_000_000) as i64);
    let flags = ClockNanosleepFlags::TIMER_ABSTIME;
    !matches!(clock_nanosleep(ClockId::CLOCK_MONOTONIC, flags, &at), Err(Errno::EINTR))
}

/// Some computing that the compiler cannot leave out, or make another loop of.
#[inline(never)]
fn compute(rounds: u64) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..rounds {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// Between two looks at the clock, ns: a look is a system call, and a thread that made one
/// after the other would be in the kernel most of the time.
const LOOK_NS: (u64, u64) = (500, 100_000);
/// The share of what is left that is computed before the next look, so that looks get denser
/// towards the end and what is used too much stays small.
const PART: u64 = 2;
/// Rounds per us that the first stretch is made of: few, since it says how many to make.
const FIRST_GUESS: u64 = 20;

/// Uses CPU time.
#[derive(Debug)]
pub struct Spinner {
    rounds_per_us: u64,
    /// What the last stretch took too much: the next one takes it off, so that none of it
    /// adds up.
    ahead_ns: u64,
}

impl Default for Spinner {
    fn default() -> Self {
        Spinner { rounds_per_us: FIRST_GUESS, ahead_ns: 0 }
    }
}

impl Spinner {
    /// Computes until the calling thread's CPU time has advanced by so much, or `enough`.
    pub fn spin(&mut self, ns: u64, enough: impl Fn() -> bool) {
        let began = cpu_ns();
        let (mut now, end) = (began, began.saturating_add(ns.saturating_sub(self.ahead_ns)));
        while now < end && !enough() {
            let stretch_ns = ((end - now) / PART).clamp(LOOK_NS.0, LOOK_NS.1);
            let rounds = (stretch_ns * self.rounds_per_us / 1_000).max(1);
            compute(rounds);
            let then = std::mem::replace(&mut now, cpu_ns());
            let took_ns = (now - then).max(1);
            // Short ones say more of the look than of the computing.
            if took_ns > LOOK_NS.0 * 4 || rounds < FIRST_GUESS {
                let seen = (rounds * 1_000 / took_ns).max(1);
                self.rounds_per_us = (self.rounds_per_us * 3 + seen) / 4;
            } else {
                self.rounds_per_us += self.rounds_per_us / 4 + 1;
            }
        }
        self.ahead_ns = (self.ahead_ns + (now - began)).saturating_sub(ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_spins_for_ever_does_until_it_is_enough() {
        let looks = std::cell::Cell::new(0);
        let enough = || looks.replace(looks.get() + 1) == 3;
        Spinner::default().spin(u64::MAX, enough);
        assert_eq!(looks.get(), 4);
    }

    #[test]
    fn as_much_cpu_time_is_used_as_was_asked_for() {
        // Every look may be off by itself, their sum by no more than one.
        const OFF_NS: u64 = 200_000;
        let (mut spinner, before) = (Spinner::default(), cpu_ns());
        for _ in 0..50 {
            spinner.spin(300_000, || false);
        }
        let used = cpu_ns() - before;
        assert!((15_000_000..15_000_000 + OFF_NS * 2).contains(&used), "{used}");
    }

    #[test]
    fn who_has_enough_stops() {
        let before = cpu_ns();
        Spinner::default().spin(3_600_000_000_000, || true);
        assert!(cpu_ns() - before < 1_000_000_000);
    }

    #[test]
    fn a_sleep_ends_when_it_is_said_to() {
        let end = now_ns() + 2_000_000;
        assert!(sleep_until(end));
        assert!(now_ns() >= end);
    }
}
