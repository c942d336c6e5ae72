//! What becomes of policies that are for tests, on a real kernel.
//!
//! It changes the scheduler of the machine that it runs on, so it is for the guest:
//! `make test-guest`. Elsewhere it fails.

mod quarantine;
mod services;
mod user_half;

use metasched_host::cgroup::Cgroup;
use metasched_host::process::{Child, Output, Spawn};
use std::time::Duration;

/// Tasks of a cgroup: more than there are CPUs, so that some are always queued.
const HOGS: usize = 6;

fn hogs(cgroup: &Cgroup, how_many: usize) -> Vec<Child> {
    (0..how_many)
        .map(|_| {
            Spawn::new(["sh", "-c", "while :; do :; done"])
                .cgroup(cgroup)
                .stdout(Output::Null)
                .stderr(Output::Null)
                .start()
                .unwrap()
        })
        .collect()
}

fn ran(cgroup: &Cgroup) -> Duration {
    Duration::from_micros(cgroup.cpu_stat().unwrap().usage_usec)
}
