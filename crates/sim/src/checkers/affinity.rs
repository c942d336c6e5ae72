use super::Checker;
use crate::abi::CpuMask;
use crate::dense::Dense;
use crate::kinds::Kinds;
use crate::trace::{Observed, What};
use std::rc::Rc;

/// A task runs only where it may.
#[derive(Default)]
pub struct AffinityKept {
    allowed: Dense<Rc<CpuMask>>,
}

impl Checker for AffinityKept {
    fn name(&self) -> &'static str {
        "affinity_kept"
    }

    fn wants(&self) -> Kinds {
        Kinds::ARRIVE.and(Kinds::ALLOWED).and(Kinds::START)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        let Some(task) = event.task else { return Ok(()) };
        match &event.what {
            What::Arrive { allowed, .. } | What::Allowed(allowed) => {
                *self.allowed.at(task.0) = allowed.clone();
            }
            What::Start if !self.allowed.at(task.0).has(event.cpu) => {
                let allowed = self.allowed.at(task.0);
                return Err(format!(
                    "task {} starts on CPU {}, and may run on {allowed:?} only",
                    task.0, event.cpu
                ));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;

    #[test]
    fn a_task_on_a_forbidden_cpu_is_caught() {
        let mut checker = AffinityKept::default();
        let said = feed(&mut checker, [(0, 0, 1, arrive(&[0, 2])), (5, 1, 1, What::Start)]);
        assert!(said.unwrap_err().contains("starts on CPU 1"));
    }

    #[test]
    fn the_latest_affinity_counts() {
        let mut checker = AffinityKept::default();
        let later = What::Allowed(Rc::new(CpuMask::one(1)));
        feed(&mut checker, [(0, 0, 1, arrive(&[0])), (1, 0, 1, later), (5, 1, 1, What::Start)])
            .unwrap();
    }
}
