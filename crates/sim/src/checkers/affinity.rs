use super::Checker;
use super::cpus::Cpus;
use crate::kinds::Kinds;
use crate::trace::{Observed, What};

/// A task runs only where it may.
#[derive(Default)]
pub struct AffinityKept {
    cpus: Cpus,
}

impl Checker for AffinityKept {
    fn name(&self) -> &'static str {
        "affinity_kept"
    }

    fn wants(&self) -> Kinds {
        Cpus::OF_TASKS.and(Kinds::START)
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        self.cpus.take(event);
        let (What::Start, Some(task)) = (&event.what, event.task) else { return Ok(()) };
        let allowed = self.cpus.allowed(task).copied().unwrap_or_default();
        if allowed.has(event.cpu) {
            return Ok(());
        }
        Err(format!("task {} starts on CPU {}, and may run on {allowed:?} only", task.0, event.cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;
    use crate::abi::CpuMask;
    use std::rc::Rc;

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
