//! The tasks, of which none is forgotten: one that has ended keeps its number and its figures.

use super::Kernel;
use crate::abi::CpuMask;
use crate::task::{Raw, Task, TaskId};
use std::ops::{Index, IndexMut};
use std::rc::Rc;

/// All tasks there were, by their number.
pub(crate) struct Tasks {
    each: Vec<Task>,
    /// What the kernel has for each CPU that runs none of them.
    pub idle: Vec<Raw>,
    /// All CPUs. One set for all tasks that may run anywhere: a line of the cache for each takes
    /// room.
    pub anywhere: Rc<CpuMask>,
}

impl Tasks {
    /// None yet, beside the idle ones.
    pub fn new(idle: Vec<Raw>, all: CpuMask) -> Self {
        Tasks { each: Vec::new(), idle, anywhere: Rc::new(all) }
    }

    /// The number of the next one.
    pub fn next_id(&self) -> TaskId {
        TaskId(self.each.len())
    }

    pub fn get(&self, id: TaskId) -> Option<&Task> {
        self.each.get(id.0)
    }

    pub fn push(&mut self, task: Task) {
        self.each.push(task);
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Task> {
        self.each.iter()
    }

    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Task> {
        self.each.iter_mut()
    }

    /// Those that live, in the order in which they came.
    pub fn living(&self) -> impl Iterator<Item = TaskId> {
        self.each.iter().enumerate().filter(|(_, task)| !task.dead).map(|(id, _)| TaskId(id))
    }
}

impl Index<TaskId> for Tasks {
    type Output = Task;
    fn index(&self, id: TaskId) -> &Task {
        &self.each[id.0]
    }
}

impl IndexMut<TaskId> for Tasks {
    fn index_mut(&mut self, id: TaskId) -> &mut Task {
        &mut self.each[id.0]
    }
}

/// Looking up tasks, for scenarios that act on them.
impl Kernel {
    /// The task of that name.
    ///
    /// # Panics
    /// When none bears it yet.
    pub fn task_named(&self, name: &str) -> TaskId {
        let at = self.tasks.iter().position(|task| task.name == name);
        TaskId(at.unwrap_or_else(|| panic!("no task is called '{name}'")))
    }

    /// The tasks of a group that live.
    pub fn tasks_in_group(&self, group: &str) -> Vec<TaskId> {
        self.tasks.living().filter(|id| self.tasks[*id].spec.group == group).collect()
    }

    /// Any task that lives: the `which`-th, counted round and round.
    pub fn any_task(&self, which: u64) -> Option<TaskId> {
        let living: Vec<TaskId> = self.tasks.living().collect();
        let at = which.checked_rem(living.len() as u64)?;
        Some(living[at as usize])
    }
}
