//! Tasks that move between cgroups where the cpu controller is enabled, as
//! cpu_cgroup_can_attach() and sched_move_task() have it: the program may refuse first, and
//! hears of each move while the task stands in no queue.

use crate::callbacks::Callback;
use crate::cgroups::cgroup_of;
use crate::kernel::{Kernel, May};
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::What;

impl Kernel {
    /// Whether the program in force surely hears of that move: from under a limit, or to under one, a
    /// task changes its group of the cpu controller, which is enabled wherever there is a `cpu.max`.
    pub(crate) fn is_told_of_move(&mut self, task: TaskId, path: &str) -> bool {
        let from = self.tasks[task].cgroup.clone();
        self.load.class == Class::Ext && self.limits_above(&from) != self.limits_above(path)
    }

    /// The cgroups with a limit that are above a task in the one of that path, by their ids.
    fn limits_above(&mut self, path: &str) -> Vec<u64> {
        let line = path.match_indices('/').map(|(end, _)| end).chain([path.len()]);
        let ids: Vec<u64> = line.map(|end| self.cgroup_id(&path[..end])).collect();
        ids.into_iter().filter(|id| self.quota_of(*id).is_some()).collect()
    }

    /// Moves tasks to the cgroup of that path, all of them or none; false where the program
    /// refuses one.
    pub fn attach_to_cgroup(&mut self, tasks: &[TaskId], path: &str) -> bool {
        self.note(&format!("{} tasks move to cgroup '{path}'", tasks.len()));
        let (cgroup, css_set) = (self.cgroup_id(path), self.css_set(path));
        let to = cgroup_of(css_set) as u64;
        let [prepare, moves, cancel] = self.program.ops.cgroup_moves;
        let mut prepared = Vec::new();
        for id in tasks {
            let from = self.tasks[*id].raw.cgroup() as u64;
            if self.tasks[*id].dead || from == to {
                continue;
            }
            let (cpu, p) = (self.tasks[*id].cpu, self.pointer(*id));
            let args = [p, from, to];
            let refused =
                self.call(prepare, Callback::CgroupPrepMove, cpu, May::Sleep, args) as i32 != 0;
            if refused {
                for (_, cpu, args) in prepared {
                    self.call(cancel, Callback::CgroupCancelMove, cpu, May::Look, args);
                }
                return false;
            }
            prepared.push((*id, cpu, args));
        }
        for (id, cpu, args) in prepared {
            self.changing(id, |kernel| {
                kernel.observe(cpu, Some(id), What::Member(cgroup));
                kernel.tasks[id].c_mut().cgroups = css_set;
                kernel.call(moves, Callback::CgroupMove, cpu, May::Look, args);
            });
            self.tell_of_move(id, path);
        }
        true
    }
}
