//! A case as a scenario: its tasks, its acts, and what is demanded of it.

use super::{Act, Case, Does, Task, When, hierarchy};
use crate::abi::NO_QUOTA;
use crate::image;
use crate::kernel::Kernel;
use crate::load::BYPASS_NS;
use crate::metasched::{self, FAIR, LAZY, LaneState};
use crate::{Scenario, ms};
use metasched_abi::{POLICIES, SWEEP_NS};
use std::collections::BTreeSet;

/// How often user space looks after lanes, once it is calm.
const REAP_NS: u64 = ms(20);
/// In the calm no task waits longer than this, and its turn behind all others, see
/// [`Case::longest_wait_ns`]. A task that only one CPU may run, in a lane that has its share
/// elsewhere, is served once in 128 ms for each lane there is.
const LEAST_BOUND_NS: u64 = ms(2_000);
/// Level 1 keeps a task parked for so long, until it was calm and the limits were gone; a sweep
/// later it finds that.
const PARKED_NS: u64 = ms(10_000) + SWEEP_NS;
/// A policy that does not dispatch leaves a CPU idle beside its tasks until level 1 tries
/// itself, which takes one task in eight sweeps, or until it puts the lane in quarantine.
const LAZY_IDLE_NS: u64 = ms(1_100);
/// Whatever the weights say, nobody may wait for so long: the kernel's watchdog would end the
/// program in half as much again.
const WATCHED_NS: u64 = ms(20_000);
/// As in any scenario.
const IDLE_NS: u64 = ms(10);

impl Case {
    /// Whether a policy that never dispatches may be on a lane.
    fn has_lazy(&self) -> bool {
        self.acts.iter().any(|timed| match &timed.act {
            Act::SetApp { policy, .. } => policy == LAZY,
            _ => false,
        })
    }

    /// For how long a task may be parked, if for longer than it waits for anything else: each
    /// task of a cgroup may use up more than a period's quota, by the tick after which one that
    /// came as it ran is stopped, and as the program comes, by the time for which the kernel
    /// bypasses it. Level 1 bounds that.
    fn parked_ns(&self) -> u64 {
        let comes = self.acts.iter().any(|timed| matches!(timed.act, Act::Load { .. }));
        let bypass_ns = if comes { BYPASS_NS.1 } else { 0 };
        let (tasks, late_ns) = (self.nr_tasks(), self.machine.modelled().tick_ns() + bypass_ns);
        let periods = self.acts.iter().filter_map(|timed| match timed.act {
            Act::CgroupMax { period_us, quota_us: Some(quota_us), .. } => {
                Some((1 + late_ns.div_ceil(quota_us * 1_000)) * period_us * 1_000)
            }
            _ => None,
        });
        periods.max().map_or(0, |periods| tasks.saturating_mul(periods)).min(PARKED_NS)
    }

    fn nr_tasks(&self) -> u64 {
        self.tasks.iter().map(Task::count).sum()
    }

    /// As in the kernel, a CPU that has gone may still be marked as idle. Who is sent there, once
    /// for each time that one went, ends up in the local queue of another, behind what runs there
    /// and others who were sent.
    fn hotplug_idle_ns(&self) -> u64 {
        let gone = self.acts.iter().filter(|timed| matches!(timed.act, Act::CpuOff { .. }));
        match gone.count() as u64 {
            0 => 0,
            times => (times + 1) * (self.longest_slice_ns() + self.machine.modelled().tick_ns()),
        }
    }

    /// The longest slice that any lane may grant.
    fn longest_slice_ns(&self) -> u64 {
        // Others are times too, such as how often load is balanced.
        let of_runs = |name: &str| name.contains("slice") || name.contains("starvation");
        let all = POLICIES.iter().flat_map(|policy| policy.options);
        let slices = all.filter(|option| of_runs(option.name));
        let default = slices.map(|option| option.default).max().unwrap_or(0);
        let set = self.acts.iter().flat_map(|timed| match &timed.act {
            Act::SetApp { options, .. } => options.clone(),
            Act::LaneOption { value, .. } => vec![*value],
            _ => Vec::new(),
        });
        set.fold(default, u64::max)
    }

    /// How much more the heaviest task weighs than the lightest: by as much the latter waits
    /// longer where a policy goes by weights.
    fn weight_ratio(&self) -> u64 {
        fn weights(task: &Task, found: &mut Vec<u32>) {
            found.push(task.weight);
            for does in &task.does {
                if let Does::Fork(child) = does {
                    weights(child, found);
                }
            }
        }
        let mut all = vec![100];
        self.tasks.iter().for_each(|task| weights(task, &mut all));
        for timed in &self.acts {
            if let Act::TaskWeight { weight, .. } = &timed.act {
                all.push(*weight);
            }
        }
        let (low, high) = (all.iter().min(), all.iter().max());
        u64::from(high.copied().unwrap_or(1)).div_ceil(u64::from(low.copied().unwrap_or(1)))
    }

    /// Under [`FAIR`] the lightest task has as much less as the hierarchy leaves it: how long it is
    /// until that makes a slice.
    fn longest_turn_ns(&self) -> u64 {
        let has_fair = self.root == FAIR
            || self.acts.iter().any(|timed| match &timed.act {
                Act::ReplaceRoot { policy } | Act::SetApp { policy, .. } | Act::Load { policy } => {
                    policy == FAIR
                }
                Act::StartTurns { turns } => turns.iter().any(|(policy, _)| policy == FAIR),
                _ => false,
            });
        if !has_fair {
            return 0;
        }
        let part = hierarchy::least_part(self, self.nr_tasks(), self.weight_ratio());
        ((self.longest_slice_ns() as f64 / part) as u64).min(WATCHED_NS)
    }

    /// How much more the heaviest application weighs than the lightest, where a task may not use
    /// every CPU: who stands behind others of a light one waits for as much longer on its only CPU.
    fn application_ratio(&self) -> u64 {
        fn bound(task: &Task) -> bool {
            let child = |does: &Does| matches!(does, Does::Fork(child) if bound(child));
            !task.cpus.is_empty() || task.does.iter().any(child)
        }
        if !self.tasks.iter().any(bound) {
            return 1;
        }
        let weights = self.acts.iter().filter_map(|timed| match &timed.act {
            Act::SetApp { weight, .. } | Act::LaneWeight { weight, .. } => Some(*weight),
            _ => None,
        });
        let (low, high) = weights.fold((100, 100), |(low, high), w| (w.min(low), w.max(high)));
        u64::from(high).div_ceil(u64::from(low.max(1)))
    }

    /// In the calm no task may wait longer: on the only CPU that it may use it may stand
    /// behind all others, each of which has a whole slice, or several by their weights.
    pub fn longest_wait_ns(&self) -> u64 {
        if let Some(bound_ns) = self.bound_ns {
            return bound_ns;
        }
        let behind_ns = self.nr_tasks() * self.longest_slice_ns() * self.weight_ratio();
        let of_light_ns = behind_ns.saturating_mul(self.application_ratio()).min(WATCHED_NS);
        LEAST_BOUND_NS + self.parked_ns() + self.longest_turn_ns().max(behind_ns).max(of_light_ns)
    }

    /// When the run is over.
    pub fn until_ns(&self) -> u64 {
        self.calm_ns + self.longest_wait_ns() + ms(1)
    }

    fn cgroups(&self) -> BTreeSet<String> {
        let of_act = |act: &Act| match act {
            Act::CgroupMax { cgroup, .. } => Some(cgroup.clone()),
            _ => None,
        };
        self.acts.iter().filter_map(|timed| of_act(&timed.act)).collect()
    }
}

/// The command that runs a seed again.
pub fn replay_seed(seed: u64) -> String {
    format!("make fuzz-sim ARGS=\"--seed {seed}\"")
}

/// The scenario of a case, on level 1 with every policy and one that never dispatches.
pub fn scenario(case: &Case) -> Scenario {
    scenario_on(image::faulty(), case)
}

/// The scenario of a case, on another image of level 1 with those policies.
pub fn scenario_on(image: &'static [u8], case: &Case) -> Scenario {
    let idle_ns = if case.has_lazy() { LAZY_IDLE_NS } else { IDLE_NS };
    let hotplug_idle_ns = case.hotplug_idle_ns();
    let mut run = metasched::scenario_of(image, "fuzz", &case.root)
        .machine(case.machine.modelled())
        .seed(case.seed)
        .waits_at_most(case.longest_wait_ns())
        .waits_but_in_the_fair_class()
        .idle_at_most(idle_ns.max(hotplug_idle_ns))
        .idle_at_most_in_the_calm(idle_ns, hotplug_idle_ns)
        .run_for(case.until_ns());
    for (place, task) in case.tasks.iter().enumerate() {
        run = run.task(task.spec(format!("task {place}")));
    }
    let calm_ns = case.calm_ns;
    for timed in &case.acts {
        let act = timed.act.clone();
        let carry_out = move |kernel: &mut Kernel| {
            if kernel.now() < calm_ns {
                act.carry_out(kernel, image);
            }
        };
        run = match timed.when {
            When::At(ns) => run.at(ns, carry_out),
            When::After(events) => run.after(events, carry_out),
        };
    }
    let cgroups = case.cgroups();
    run = run.at(calm_ns, move |kernel| {
        for cgroup in &cgroups {
            kernel.set_cgroup_max(cgroup, 100_000, NO_QUOTA, 0);
        }
        for cpu in 0..kernel.nr_cpus() {
            kernel.cpu_on(cpu);
        }
        kernel.calm();
    });
    if case.reaps {
        for at in (calm_ns..case.until_ns()).step_by(REAP_NS as usize) {
            run = run.at(at, |kernel| {
                metasched::reap(kernel);
            });
        }
        run = run.at(case.until_ns(), all_freed);
    }
    run.replayed_by(replay_seed(case.seed))
}

/// Nothing is left of lanes that were replaced.
fn all_freed(kernel: &mut Kernel) {
    if kernel.loaded().is_none() {
        return;
    }
    let turns = metasched::cycle(kernel).turns > 0;
    let left = metasched::lanes(kernel).into_iter().find(|lane| match lane.state {
        LaneState::Draining | LaneState::Retired => true,
        LaneState::Resting => !turns,
        LaneState::InForce => lane.quarantined && lane.app != 0,
        LaneState::Free => false,
    });
    if let Some(lane) = left {
        kernel.fail("lanes_freed", format!("long after faults stopped there is {lane:?}"));
    }
}
