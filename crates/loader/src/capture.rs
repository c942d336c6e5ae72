//! libbpf's messages, kept for the error instead of spilled on standard error.

use std::sync::{Mutex, MutexGuard};

use libbpf_rs::{PrintLevel, set_print};

static MESSAGES: Mutex<String> = Mutex::new(String::new());
/// libbpf has one callback per process, so one capture is under way at a time.
static CAPTURING: Mutex<()> = Mutex::new(());

/// More than the verifier's log of all programs; the rest is dropped.
const CAPTURED_MAX: usize = 4 << 20;

fn keep(_: PrintLevel, message: String) {
    let mut all = MESSAGES.lock().unwrap_or_else(|e| e.into_inner());
    if all.len() < CAPTURED_MAX {
        all.push_str(&message);
    }
}

/// Captures what libbpf says for as long as it lives.
pub(crate) struct Capture(#[allow(dead_code)] MutexGuard<'static, ()>);

impl Capture {
    pub(crate) fn start() -> Self {
        let guard = CAPTURING.lock().unwrap_or_else(|e| e.into_inner());
        MESSAGES.lock().unwrap_or_else(|e| e.into_inner()).clear();
        set_print(Some((PrintLevel::Info, keep)));
        Capture(guard)
    }

    /// What was said so far.
    pub(crate) fn text(&self) -> String {
        MESSAGES.lock().unwrap_or_else(|e| e.into_inner()).clone()
    }
}

impl Drop for Capture {
    /// From then on libbpf is silent: what it says on detaching helps nobody.
    fn drop(&mut self) {
        set_print(None);
    }
}
