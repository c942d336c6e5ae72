use super::Checker;
use crate::callbacks::Callback;
use crate::dense::Dense;
use crate::task::TaskId;
use crate::trace::{Observed, What};

#[derive(Clone, Copy, Debug, PartialEq)]
enum RunState {
    Asleep,
    Waiting,
    Running,
    Stopped,
    Gone,
}

/// How a task stands with the policy, by the callbacks about it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Told {
    known: bool,
    enabled: bool,
    runnable: bool,
    running: bool,
    /// By select_cpu or enqueue, and ops.dequeue has not taken it back.
    handed_over: bool,
}

/// A task wakes before it runs, stops before it runs again, and sleeps only after
/// it ran; nothing happens to one that is gone. And callbacks come in the order, and
/// within one another, as Documentation/scheduler/sched-ext.rst and the kernel's
/// include/linux/sched/ext.h have it.
#[derive(Default)]
pub struct CallbacksInOrder {
    places: Dense<Option<RunState>>,
    told: Dense<Told>,
}

/// Within these a task may be moved to a local queue, which ends the policy's custody of it at
/// once. Whatever else is asked for, another CPU's local queue or a queue enqueued anew, the
/// kernel does when they are over.
fn may_move(within: Callback) -> bool {
    matches!(
        within,
        Callback::Dispatch | Callback::CpuOffline | Callback::Program | Callback::Timer
    )
}

fn may_nest(callback: Callback, within: Callback) -> bool {
    within == Callback::Nothing || callback == Callback::Dequeue && may_move(within)
}

impl Told {
    /// What the callback leads to, or none if it must not come now.
    fn after(mut self, callback: Callback) -> Option<Told> {
        let Told { known, enabled, runnable, running, handed_over } = self;
        let may = match callback {
            Callback::InitTask => !std::mem::replace(&mut self.known, true),
            Callback::Enable => known && !std::mem::replace(&mut self.enabled, true),
            Callback::SetWeight | Callback::SetCpumask => enabled,
            Callback::SelectCpu => {
                self.handed_over = true;
                enabled && !runnable
            }
            Callback::Runnable => enabled && !std::mem::replace(&mut self.runnable, true),
            Callback::Enqueue => {
                self.handed_over = true;
                runnable && !running
            }
            Callback::Dequeue => handed_over && std::mem::take(&mut self.handed_over),
            Callback::Running => runnable && !std::mem::replace(&mut self.running, true),
            Callback::Tick | Callback::Yield => running,
            Callback::Stopping => runnable && std::mem::take(&mut self.running),
            Callback::Quiescent => !running && std::mem::take(&mut self.runnable),
            Callback::Disable => !runnable && std::mem::take(&mut self.enabled),
            Callback::ExitTask => !enabled && std::mem::take(&mut self.known),
            _ => true,
        };
        may.then_some(self)
    }
}

impl CallbacksInOrder {
    fn called(
        &mut self,
        task: Option<TaskId>,
        callback: Callback,
        within: Callback,
    ) -> Result<(), String> {
        if !may_nest(callback, within) {
            return Err(format!("ops.{callback} is called within {within}"));
        }
        let Some(task) = task else { return Ok(()) };
        let told = self.told.at(task.0);
        match told.after(callback) {
            Some(next) => {
                *told = next;
                Ok(())
            }
            None => Err(format!("ops.{callback} of task {} comes at {told:?}", task.0)),
        }
    }
}

impl Checker for CallbacksInOrder {
    fn name(&self) -> &'static str {
        "callbacks_in_order"
    }

    fn observe(&mut self, event: &Observed) -> Result<(), String> {
        if let What::Call { callback, within } = event.what {
            return self.called(event.task, callback, within);
        }
        let Some(task) = event.task else { return Ok(()) };
        let place = self.places.at(task.0);
        let next = match (&event.what, *place) {
            (What::Arrive { .. }, None) => RunState::Asleep,
            (What::Wake, Some(RunState::Asleep | RunState::Stopped)) => RunState::Waiting,
            (What::Enqueue | What::Insert(_) | What::Migrate, Some(RunState::Waiting)) => {
                RunState::Waiting
            }
            (What::Start, Some(RunState::Waiting)) => RunState::Running,
            (What::Syscall(_) | What::Guest, Some(RunState::Running)) => RunState::Running,
            (What::Stop { runnable: true }, Some(RunState::Running)) => RunState::Waiting,
            (What::Sleep, Some(RunState::Running)) => RunState::Stopped,
            (What::Stop { runnable: false }, Some(RunState::Stopped)) => RunState::Asleep,
            (What::Exit, Some(RunState::Asleep)) => RunState::Gone,
            // These come at any time while the task lives.
            (What::Dequeue | What::Remove(_), Some(place)) if place != RunState::Gone => place,
            (What::Allowed(_) | What::Weight(_) | What::Member(_), Some(place))
                if place != RunState::Gone =>
            {
                place
            }
            (what, place) => {
                return Err(format!("task {} is {place:?}, and now: {what:?}", task.0));
            }
        };
        *place = Some(next);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, feed};
    use super::*;
    use Callback::*;

    #[test]
    fn a_task_that_runs_without_waking_is_caught() {
        let mut checker = CallbacksInOrder::default();
        let said = feed(&mut checker, [(0, 0, 1, arrive(&[0])), (1, 0, 1, What::Start)]);
        assert!(said.unwrap_err().contains("Asleep"));
    }

    #[test]
    fn a_task_that_comes_back_from_the_dead_is_caught() {
        let mut checker = CallbacksInOrder::default();
        let life = [
            (0, 0, 1, arrive(&[0])),
            (1, 0, 1, What::Wake),
            (2, 0, 1, What::Start),
            (3, 0, 1, What::Sleep),
            (3, 0, 1, What::Stop { runnable: false }),
            (3, 0, 1, What::Exit),
        ];
        feed(&mut checker, life).unwrap();
        assert!(feed(&mut checker, [(4, 0, 1, What::Wake)]).unwrap_err().contains("Gone"));
    }

    fn calls(callbacks: &[Callback]) -> Result<(), String> {
        let mut checker = CallbacksInOrder::default();
        feed(
            &mut checker,
            callbacks.iter().map(|callback| {
                (0, 0, 1, What::Call { callback: *callback, within: Callback::Nothing })
            }),
        )
    }

    #[test]
    fn a_whole_life_in_order_passes() {
        calls(&[
            InitTask, Enable, SetWeight, SelectCpu, Runnable, Enqueue, Dequeue, Running, Tick,
            Yield, Stopping, Quiescent, SetCpumask, Disable, ExitTask, InitTask,
        ])
        .unwrap();
    }

    #[test]
    fn each_callback_out_of_order_is_caught() {
        let ready = [InitTask, Enable, Runnable];
        for wrong in [
            &[Enable][..],
            &[InitTask, InitTask],
            &[InitTask, Runnable],
            &[InitTask, Enable, Running],
            &[InitTask, Enable, Enqueue],
            &[InitTask, Enable, ExitTask],
        ] {
            calls(wrong).unwrap_err();
        }
        for wrong in [Runnable, Tick, Stopping, Dequeue, Disable, SelectCpu] {
            let mut all = ready.to_vec();
            all.push(wrong);
            assert!(calls(&all).unwrap_err().contains(&format!("ops.{wrong} of task 1")));
        }
    }

    #[test]
    fn a_callback_within_another_is_caught_unless_the_kernel_does_it() {
        let within = |callback, within| {
            let call = What::Call { callback, within };
            feed(&mut CallbacksInOrder::default(), [(0, 0, 1, call)])
        };
        assert!(within(Running, Enqueue).unwrap_err().contains("within enqueue"));
        assert!(within(Dequeue, Dispatch).unwrap_err().contains("comes at"));
        assert!(within(Enqueue, CpuOffline).unwrap_err().contains("within cpu_offline"));
        assert!(within(Dequeue, CgroupInit).unwrap_err().contains("within cgroup_init"));
    }
}
