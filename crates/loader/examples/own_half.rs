//! A scheduler's order in user space, in forty lines: the policy `rustland` with a half of one's
//! own. Here whoever has run least in all comes first.
//!
//! `own_half [SECONDS]`, as root, on a kernel with sched_ext.

use std::time::{Duration, Instant};

use metasched_loader::{LoadOptions, Program, UserDriver};
use metasched_userhalf::{Decision, Halves, Task, UserHalf};

struct LeastFirst;

impl UserHalf for LeastFirst {
    fn decide(&mut self, task: &Task) -> Decision {
        // Shorter slices the more tasks wait; the policy bounds them.
        let slice_ns = 5_000_000 / u64::from(task.waiting.max(1));
        Decision { order: task.ran_ns, slice_ns, cpu: None }
    }
}

fn main() {
    if let Err(error) = run() {
        eprintln!("own_half: {error}");
        std::process::exit(i32::from(error.kind.exit_code()));
    }
}

fn run() -> metasched_base::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let end = Instant::now() + Duration::from_secs(seconds);
    let program = Program::load(&LoadOptions::policy("rustland"))?;
    let halves = Halves::new(|_| Some(Box::new(LeastFirst)));
    let mut driver = UserDriver::new(program.user_files()?, halves)?;
    while Instant::now() < end {
        driver.serve()?;
    }
    println!("{:#?}", program.counters()?);
    program.unload()
}
