//! What this process itself takes of the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::identity::peak_memory_kib;

/// What this process itself took from a moment on.
#[derive(Debug, Default, Serialize)]
pub struct OwnUse {
    /// Its CPU time over the time that passed: 0.01 is one hundredth of a CPU.
    pub cpu_share: f64,
    /// The most memory that it ever had, in KiB; not there if it is not known.
    pub max_rss_kib: Option<u64>,
    #[serde(skip)]
    began: Option<(Instant, Duration)>,
}

impl OwnUse {
    /// It counts from here; from the first of several calls.
    pub fn begin(&mut self) {
        if self.began.is_none() {
            self.began = cpu_time().map(|cpu| (Instant::now(), cpu));
        }
    }

    /// It counts until here.
    pub fn end(&mut self) {
        if let (Some((began, before)), Some(cpu)) = (self.began, cpu_time()) {
            self.cpu_share = (cpu - before).as_secs_f64() / began.elapsed().as_secs_f64();
        }
        self.max_rss_kib = peak_memory_kib(Path::new("/"));
    }
}

/// The CPU time of this process so far.
fn cpu_time() -> Option<Duration> {
    use nix::sys::time::TimeValLike;
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).ok()?;
    let cpu_us = (usage.user_time() + usage.system_time()).num_microseconds();
    Some(Duration::from_micros(cpu_us.unsigned_abs()))
}
