//! What is done to a machine from outside, at any moment.

use crate::abi::NO_QUOTA;
use crate::kernel::Kernel;
use crate::load::Phase;
use crate::metasched;
use serde::{Deserialize, Serialize};

/// When something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At that time, ns.
    At(u64),
    /// Right after so many events, before anything else can happen.
    After(u64),
}

/// Something, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// When.
    pub when: When,
    /// What.
    pub act: Act,
}

/// What user space, the kernel's other parts and faults do. Applications have numbers from 1
/// on, tasks are named by any number: the living are counted round and round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum Act {
    /// Another root lane.
    ReplaceRoot {
        policy: String,
    },
    /// A lane for an application, its first or another one.
    SetApp {
        app: u32,
        policy: String,
        weight: u32,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        options: Vec<u64>,
    },
    /// The application has no lane any more.
    DropApp {
        app: u32,
    },
    Assign {
        cgroup: String,
        app: u32,
    },
    Unassign {
        cgroup: String,
    },
    /// The weight of an application's lane in force.
    LaneWeight {
        app: u32,
        weight: u32,
    },
    /// An option of the lane in force of an application, or of the root's (0).
    LaneOption {
        app: u32,
        option: usize,
        value: u64,
    },
    /// User space looks after lanes.
    Reap,
    /// Policies and lengths in ns.
    StartTurns {
        turns: Vec<(String, u64)>,
    },
    StopTurns,
    MoveTask {
        task: u64,
        cgroup: String,
    },
    TaskWeight {
        task: u64,
        weight: u32,
    },
    Affinity {
        task: u64,
        cpus: Vec<usize>,
    },
    CgroupWeight {
        cgroup: String,
        weight: u32,
    },
    CgroupIdle {
        cgroup: String,
        idle: bool,
    },
    /// `cpu.max`; without a quota, "max".
    CgroupMax {
        cgroup: String,
        period_us: u64,
        quota_us: Option<u64>,
        burst_us: u64,
    },
    RemoveCgroup {
        cgroup: String,
    },
    /// User space lets go of the program, or dies.
    Detach,
    /// It comes anew, with a first lane of this policy.
    Load {
        policy: String,
    },
    /// A CPU goes off line, unless it is the last one.
    CpuOff {
        cpu: usize,
    },
    CpuOn {
        cpu: usize,
    },
}

/// What a program may answer to a request that cannot be met: no such application or
/// assignment, no free slot, an option while turns are taken, or the program was detached.
const REFUSALS: [(i32, &str); 4] =
    [(-2, "ENOENT"), (-28, "ENOSPC"), (-16, "EBUSY"), (-19, "ENODEV")];

fn answered(kernel: &mut Kernel, said: i32) {
    let known = REFUSALS.iter().find(|(error, _)| *error == said);
    match known {
        Some((_, name)) => kernel.note(&format!("refused: {name}")),
        None if said == 0 => {}
        None => kernel.fail("refused_in_order", format!("the program returned {said}")),
    }
}

impl Act {
    /// `image` is what is loaded anew.
    pub(super) fn carry_out(&self, kernel: &mut Kernel, image: &'static [u8]) {
        match self {
            Act::ReplaceRoot { policy } => {
                let said = metasched::try_replace_root(kernel, policy);
                answered(kernel, said);
            }
            Act::SetApp { app, policy, weight, options } => {
                let options: Vec<(usize, u64)> = options.iter().copied().enumerate().collect();
                // The default one is left to cpu.weight.
                let weight = (*weight, *weight != metasched_abi::WEIGHT_DFL);
                let said = metasched::try_set_app(kernel, *app, policy, weight, &options);
                answered(kernel, said);
            }
            Act::DropApp { app } => {
                let said = metasched::try_drop_app(kernel, *app);
                answered(kernel, said);
            }
            Act::Assign { cgroup, app } => {
                let said = metasched::try_assign(kernel, cgroup, *app);
                answered(kernel, said);
            }
            Act::Unassign { cgroup } => {
                let said = metasched::try_unassign(kernel, cgroup);
                answered(kernel, said);
            }
            Act::LaneWeight { app, weight } => {
                let said = metasched::try_set_weight(kernel, *app, *weight);
                answered(kernel, said);
            }
            Act::LaneOption { app, option, value } => {
                let said = metasched::try_set_option(kernel, *app, *option, *value);
                answered(kernel, said);
            }
            Act::Reap => {
                metasched::reap(kernel);
            }
            Act::StartTurns { turns } => {
                let turns: Vec<(&str, u64)> =
                    turns.iter().map(|(policy, ns)| (policy.as_str(), *ns)).collect();
                let said = metasched::try_start_turns(kernel, &turns);
                answered(kernel, said);
            }
            Act::StopTurns => {
                let said = metasched::try_stop_turns(kernel);
                answered(kernel, said);
            }
            Act::MoveTask { task, cgroup } => {
                if let Some(task) = kernel.any_task(*task) {
                    match kernel.is_told_of_move(task, cgroup) {
                        true => {
                            assert!(kernel.attach_to_cgroup(&[task], cgroup), "it refuses none")
                        }
                        false => kernel.move_to_cgroup(task, cgroup),
                    }
                }
            }
            Act::TaskWeight { task, weight } => {
                if let Some(task) = kernel.any_task(*task) {
                    kernel.set_weight(task, *weight);
                }
            }
            Act::Affinity { task, cpus } => {
                if let Some(task) = kernel.any_task(*task) {
                    kernel.set_affinity(task, cpus.iter().copied().collect());
                }
            }
            Act::CgroupWeight { cgroup, weight } => {
                kernel.set_cgroup_weight(cgroup, *weight);
                metasched::tell_lanes(kernel);
            }
            Act::CgroupIdle { cgroup, idle } => {
                kernel.set_cgroup_idle(cgroup, *idle);
                metasched::tell_lanes(kernel);
            }
            Act::CgroupMax { cgroup, period_us, quota_us, burst_us } => {
                let quota_us = quota_us.unwrap_or(NO_QUOTA);
                kernel.set_cgroup_max(cgroup, *period_us, quota_us, *burst_us);
            }
            Act::RemoveCgroup { cgroup } => {
                let removed = kernel.remove_cgroup(cgroup);
                kernel.note(&format!("'{cgroup}' is removed: {removed}"));
            }
            Act::Detach if kernel.load.phase == Phase::Enabled => kernel.unload(),
            Act::Detach => {}
            Act::Load { policy } if kernel.load.phase == Phase::None => {
                kernel.load(&metasched::program_of_image(image, policy));
            }
            Act::Load { .. } => {}
            Act::CpuOff { cpu } => {
                kernel.cpu_off(cpu % kernel.nr_cpus());
            }
            Act::CpuOn { cpu } => {
                kernel.cpu_on(cpu % kernel.nr_cpus());
            }
        }
    }
}
