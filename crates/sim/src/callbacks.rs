//! The names of callbacks.

use std::fmt;

macro_rules! callbacks {
    ($($variant:ident $name:literal $of_task:literal)*) => {
        /// A callback of the program's, or what stands in the place of one.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Callback {
            $($variant,)*
        }

        impl Callback {
            /// All of them.
            pub const ALL: &[Callback] = &[$(Callback::$variant),*];

            /// As the table of callbacks has it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Callback::$variant => $name,)*
                }
            }

            /// Whether its first argument is the task that it is about.
            pub fn is_of_task(self) -> bool {
                match self {
                    $(Callback::$variant => $of_task,)*
                }
            }
        }
    };
}

callbacks! {
    SelectCpu "select_cpu" true
    Enqueue "enqueue" true
    Dequeue "dequeue" true
    Dispatch "dispatch" false
    Tick "tick" true
    Runnable "runnable" true
    Running "running" true
    Stopping "stopping" true
    Quiescent "quiescent" true
    Yield "yield" true
    SetWeight "set_weight" true
    SetCpumask "set_cpumask" true
    UpdateIdle "update_idle" false
    InitTask "init_task" true
    ExitTask "exit_task" true
    Enable "enable" true
    Disable "disable" true
    CgroupInit "cgroup_init" false
    CgroupExit "cgroup_exit" false
    CgroupPrepMove "cgroup_prep_move" false
    CgroupMove "cgroup_move" false
    CgroupCancelMove "cgroup_cancel_move" false
    CgroupSetWeight "cgroup_set_weight" false
    CgroupSetBandwidth "cgroup_set_bandwidth" false
    CgroupSetIdle "cgroup_set_idle" false
    CpuOnline "cpu_online" false
    CpuOffline "cpu_offline" false
    Init "init" false
    Exit "exit" false
    // What user space calls, what a timer does, and the kernel by itself.
    Program "a system-call program" false
    Timer "a timer's callback" false
    Return "a callback at the return to user space" false
    Nothing "nothing" false
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
