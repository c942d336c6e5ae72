use super::{Checker, us};
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::trace::{Observed, What};

/// A run that is shorter gets nothing done, ns: it is a few switches long.
const SHORT_NS: u64 = 10_000;
/// So many on a CPU one after another are a storm. A task that has used up a limit ends each run that
/// was queued before that: random runs have some hundred tasks.
const STORM: u32 = 300;

/// What a CPU has done of late.
#[derive(Clone, Copy, Default)]
struct Doing {
    since: u64,
    /// Whether somebody had it choose anew since the run began.
    kicked: bool,
    /// Short runs that were ended so, one after another.
    short: u32,
}

/// Kicks leave tasks time to run: no CPU does nothing else than begin runs that are ended at
/// once. The waits of such tasks look well, and time does go on, by a switch for each run.
#[derive(Default)]
pub struct NoKickStorm {
    cpus: Dense<Doing>,
}

impl Checker for NoKickStorm {
    fn name(&self) -> &'static str {
        "no_kick_storm"
    }

    fn wants(&self) -> Kinds {
        Kinds::START.and(Kinds::STOP).and(Kinds::KICK)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let cpu = self.cpus.at(event.cpu);
        match event.what {
            What::Start => (cpu.since, cpu.kicked) = (event.at, false),
            What::Kick { preempt } => cpu.kicked |= preempt,
            What::Stop { runnable } => {
                let short = runnable && cpu.kicked && event.at - cpu.since < SHORT_NS;
                cpu.short = if short { cpu.short + 1 } else { 0 };
                if cpu.short > STORM {
                    return Err(format!(
                        "CPU {} was kicked in the first {} of {STORM} runs one after another",
                        event.cpu,
                        us(SHORT_NS)
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::feed;
    use super::*;

    /// A run of each of two tasks in turn, which a kick ends after so long.
    fn runs(count: u64, ns: u64, preempt: bool) -> impl Iterator<Item = (u64, usize, usize, What)> {
        (0..count).flat_map(move |run| {
            let (at, task) = (run * ns, run as usize % 2);
            [
                (at, 0, task, What::Start),
                (at, 0, task, What::Kick { preempt }),
                (at + ns, 0, task, What::Stop { runnable: true }),
            ]
        })
    }

    #[test]
    fn a_cpu_that_only_begins_runs_is_caught() {
        let mut checker = NoKickStorm::default();
        feed(&mut checker, runs(u64::from(STORM), 500, true)).unwrap();
        let said = feed(&mut checker, runs(1, 500, true)).unwrap_err();
        assert!(said.contains("CPU 0 was kicked"), "{said}");
    }

    #[test]
    fn runs_that_end_otherwise_or_later_are_no_storm() {
        let twice = 2 * u64::from(STORM);
        feed(&mut NoKickStorm::default(), runs(twice, 500, false)).unwrap();
        feed(&mut NoKickStorm::default(), runs(twice, SHORT_NS, true)).unwrap();
    }
}
