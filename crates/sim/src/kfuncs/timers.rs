//! Calls about timers.

use super::{EINVAL, K, kernel};
use std::ffi::c_void;

/// CLOCK_MONOTONIC, the only clock that there is.
const MONOTONIC: u64 = 1;
/// BPF_F_TIMER_ABS; that a timer is pinned to its CPU says what happens here anyway.
const ABSOLUTE: u64 = 1;
const PINNED: u64 = 2;

pub(super) extern "C" fn timer_init(k: K, timer: K, map: K, clock: u64) -> i64 {
    let kernel = kernel(k);
    if clock != MONOTONIC {
        kernel.fail("refused", format!("bpf_timer_init: clock {clock} is not modelled"));
        return -i64::from(EINVAL);
    }
    answer(kernel.timer_init(map, timer))
}

pub(super) extern "C" fn timer_set_callback(k: K, timer: K, callback: *const c_void) -> i64 {
    answer(kernel(k).timer_set_callback(timer, callback))
}

pub(super) extern "C" fn timer_start(k: K, timer: K, ns: u64, flags: u64) -> i64 {
    if flags & !(ABSOLUTE | PINNED) != 0 {
        return -i64::from(EINVAL);
    }
    let kernel = kernel(k);
    let at = if flags & ABSOLUTE != 0 { ns } else { kernel.clock.now.saturating_add(ns) };
    answer(kernel.timer_start(timer, at, flags & PINNED != 0))
}

pub(super) extern "C" fn timer_cancel(k: K, timer: K) -> i64 {
    match kernel(k).timer_cancel(timer) {
        Ok(was_set) => was_set.into(),
        Err(error) => -i64::from(error),
    }
}

fn answer(said: Result<(), i32>) -> i64 {
    said.map_or_else(|error| -i64::from(error), |()| 0)
}
