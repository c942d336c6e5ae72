//! Calls into the program: which callback it is in, and so what it may call.

use super::Kernel;
use crate::abi::TaskStruct;
use crate::callbacks::Callback;
use crate::image::{Image, Trampoline};
use crate::load::Class;
use crate::task::TaskId;
use crate::trace::What;
use metasched_base::Result;
use std::ffi::c_void;

/// In which callback the policy is, and so what it may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum May {
    /// select_cpu and enqueue: insert this task, once.
    InsertOne { task: TaskId, spent: bool, selecting: bool },
    /// dispatch: insert and move any task.
    Dispatch,
    /// A callback with the run queue locked: look, kick.
    Look,
    /// Timers and CPU hotplug, with no run queue locked: move tasks between queues.
    Unlocked,
    /// init, init_task and system-call programs: make queues as well.
    Sleep,
    /// A timer that outlives its program: queues and CPUs are another scheduler's.
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Context {
    pub callback: Callback,
    pub cpu: usize,
    pub may: May,
    /// How many calls of the kernel there had been when the outermost callback began.
    pub calls_before: u64,
}

/// The calls into the program. They nest, and have one context: that of the innermost.
pub(crate) struct Calls {
    pub context: Context,
    /// The CPU of the caller that changes something about a task: it makes those callbacks, with
    /// the run queue of the task's CPU locked.
    pub changer: Option<usize>,
    /// The CPU on which a wake-up is being made: that of the waker. It makes the callbacks,
    /// as above.
    pub waking_on: Option<usize>,
    /// The most calls of the kernel that one of each kind of callbacks has made.
    most: [u64; Callback::ALL.len()],
}

impl Default for Calls {
    fn default() -> Self {
        let context =
            Context { callback: Callback::Nothing, cpu: 0, may: May::Look, calls_before: 0 };
        Calls { context, changer: None, waking_on: None, most: [0; Callback::ALL.len()] }
    }
}

/// The task that a callback is about, by its first argument.
fn task_of_callback(callback: Callback, arg: u64) -> Option<TaskId> {
    let task = arg as *const TaskStruct;
    // SAFETY: of such a callback the first argument is the address of a task's struct, which stays
    // until the run is over.
    callback.is_of_task().then(|| TaskId(unsafe { (*task).pid } as usize - 1))
}

impl Kernel {
    /// Calls into the policy, if it has that callback. Nothing is called after a
    /// fault: the kernel bypasses a scheduler that it is about to eject.
    pub(crate) fn call<const N: usize>(
        &mut self,
        code: *const c_void,
        callback: Callback,
        cpu: usize,
        may: May,
        args: [u64; N],
    ) -> u64 {
        // No callback has more than four; those that it has not are not looked at.
        let arg = |place: usize| args.get(place).copied().unwrap_or(0);
        if self.audience.fault.is_some() {
            return 0;
        }
        // Programs and timers are the scheduler's own: the kernel has no order for them.
        let ordered = !matches!(callback, Callback::Program | Callback::Timer | Callback::Return);
        if self.load.class == Class::Ext && ordered {
            let within = self.calls.context.callback;
            let task = task_of_callback(callback, arg(0));
            self.observe(cpu, task, What::Call { callback, within });
        }
        if code.is_null() || self.audience.fault.is_some() {
            return 0;
        }
        // The last that a CPU does as it goes off line is to wake tasks.
        let on_line = if self.cpus.online.has(cpu) { cpu } else { self.first_active() };
        let cpu = self.calls.changer.or(self.calls.waking_on).unwrap_or(on_line);
        self.cost(cpu, self.machine.what_it_costs().callback_ns);
        let Some(trampoline) = self.program.image.as_ref().map(|image| image.trampoline) else {
            return 0;
        };
        let calls = self.calls_made();
        let within = self.calls.context.callback != Callback::Nothing;
        let calls_before = if within { self.calls.context.calls_before } else { calls };
        let context = Context { callback, cpu, may, calls_before };
        let outer = std::mem::replace(&mut self.calls.context, context);
        let result = self.enter_image(trampoline, code, [0, 1, 2, 3].map(arg));
        let made = self.calls_made() - calls;
        let most = &mut self.calls.most[callback as usize];
        *most = (*most).max(made);
        if !within {
            self.cost(cpu, self.time_in_callback());
        }
        self.calls.context = outer;
        if self.program.maps.memory.waits() {
            self.grace_period();
        }
        result
    }

    /// Has the image run a function; what that calls of the kernel comes to `self`. Calls nest
    /// (dispatch moves a task, which calls dequeue), so where they went before is put back.
    fn enter_image(&mut self, run: Trampoline, code: *const c_void, args: [u64; 4]) -> u64 {
        let ([a, b, c, d], host) = (args, self.program.host);
        // SAFETY: `host` is the table of the loaded image, and `run` and `code` are its functions.
        // From the moment when the table has `self` until it has it no more nothing here touches
        // `self`: it is kernel()'s. The image always comes back: a fault in C ends in `run`, and
        // no panic leaves a function that C calls.
        unsafe {
            let before = (*host).enter(self);
            let result = run(code, a, b, c, d);
            (*host).leave(before);
            result
        }
    }

    /// How many calls of the kernel the image has made. One must be loaded.
    fn calls_made(&self) -> u64 {
        // SAFETY: `host` is the table of the loaded image, which counts while it runs only.
        unsafe { (*self.program.host).calls() }
    }

    /// What the callback that is under way has taken until now, ns: its calls of the kernel.
    pub(crate) fn time_in_callback(&self) -> u64 {
        let kfunc_ns = self.machine.what_it_costs().kfunc_ns;
        if kfunc_ns == 0 || self.calls.context.callback == Callback::Nothing {
            return 0;
        }
        (self.calls_made() - self.calls.context.calls_before) * kfunc_ns
    }

    /// The most calls of the kernel that one callback of that kind has made, look-ups in maps
    /// among them, since it was last asked for.
    pub fn most_calls(&mut self, callback: Callback) -> u64 {
        std::mem::take(&mut self.calls.most[callback as usize])
    }

    /// Where no callback is under way nobody holds RCU: deleted values are gone.
    pub(crate) fn grace_period(&mut self) {
        if self.calls.context.callback != Callback::Nothing {
            return;
        }
        if let Err(map) = self.program.maps.memory.grace_period() {
            self.written_too_late(map);
        }
    }

    pub(crate) fn written_too_late(&mut self, map: usize) {
        let map = self.program.image.as_ref().map_or(String::new(), |image| image.name_of(map));
        self.fail(
            "memory",
            format!("a value of the map '{map}' was written to after it was deleted"),
        );
    }

    /// Runs a function of the image as a system-call program, which may sleep, and
    /// gives what it returns.
    ///
    /// # Errors
    /// When the image has no such function.
    pub fn program(&mut self, name: &str, [a, b]: [u64; 2]) -> Result<i32> {
        let program = self.image().required(name)?;
        let cpu = self.first_active();
        Ok(self.call(program, Callback::Program, cpu, May::Sleep, [a, b, 0]) as i32)
    }

    /// The image, to look at the program's globals.
    ///
    /// # Panics
    /// When no program is loaded.
    pub fn image(&self) -> &Image {
        self.program.image.as_ref().expect("a program is loaded")
    }

    /// A value of one of the program's maps whose keys are 32 bits: those of all CPUs side
    /// by side. None if there is none yet.
    pub(crate) fn map_words(&mut self, map: &str, key: u32) -> Option<&mut [u64]> {
        let map = self.program.image.as_ref()?.symbol(map)?;
        self.program.maps.words(map, &key.to_ne_bytes())
    }
}
