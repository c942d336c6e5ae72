//! The kernel's own way to wait for a word to change. What the standard library makes of it
//! spins before it sleeps, which the model's locks do not.

use std::ptr::null;
use std::sync::atomic::AtomicU32;

use nix::libc;

/// Sleeps while the word holds `expected`: until it is woken, a signal comes, or it has changed
/// already. What it waits for has to be looked at again.
pub fn wait(word: &AtomicU32, expected: u32) {
    // SAFETY: the word is alive for as long as the call lasts; no time limit is given.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            null::<libc::timespec>(),
        );
    }
}

/// Wakes so many threads that sleep on the word, first come first.
pub fn wake(word: &AtomicU32, n: u32) {
    // SAFETY: the kernel uses the word's address only, to find who sleeps.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            n.min(i32::MAX as u32) as i32,
        );
    }
}
