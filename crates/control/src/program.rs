//! Our own kernel program, seen from the state machine: a trait, so that the state
//! machine can be tested without privileges.

use std::collections::BTreeMap;

use metasched_base::Result;
use metasched_loader::{
    ExitRecord, LaneInfo, LaneSpec, LaneTurn, Limits, LoadOptions, Program, Quarantine,
    Replacement, TurnFigures,
};

use crate::decider::{Decider, has_half};

/// The name by which the kernel knows our program, in `root/ops`.
pub const OPS_NAME: &str = "metasched";

/// A program of ours that is attached. Dropping it detaches it.
pub trait LaneProgram: Send {
    /// Replaces the lane of the root cgroup by a new one.
    fn replace_root(&mut self, lane: &LaneSpec) -> Result<Replacement>;
    /// When the first task ran under the lane of this generation (CLOCK_MONOTONIC,
    /// nanoseconds); `None` when none has yet.
    fn first_run_ns(&self, generation: u64) -> Option<u64>;
    /// Has the kernel take turns between policies: see [`Program::start_turns`].
    fn start_turns(&mut self, turns: &[LaneTurn]) -> Result<()>;
    /// What has become of them so far: see [`Program::look_at_turns`].
    fn look_at_turns(&self) -> TurnFigures;
    /// Ends the turns; what became of them.
    fn stop_turns(&mut self) -> Result<TurnFigures>;
    /// Puts a lane in force for an application: see [`Program::set_app`].
    fn set_app(&mut self, app: u32, spec: &LaneSpec, weight: u32) -> Result<Replacement>;
    /// Takes an application's lane away.
    fn drop_app(&mut self, app: u32) -> Result<()>;
    /// Assigns a cgroup, by its id, to an application that has a lane.
    fn assign(&mut self, cgroup: u64, app: u32) -> Result<()>;
    /// Undoes that.
    fn unassign(&mut self, cgroup: u64) -> Result<()>;
    /// Changes weight or options of a lane in force; application 0 is the root lane's.
    fn set_lane(&mut self, app: u32, change: &LaneSpec) -> Result<()>;
    /// The latest lanes whose policies did not dispatch.
    fn quarantines(&self) -> Vec<Quarantine>;
    /// Those of them that came since the last call: see [`Program::new_quarantines`].
    fn new_quarantines(&mut self) -> Vec<Quarantine>;
    /// Cgroups with a limit in `cpu.max`.
    fn limits(&self) -> Limits;
    /// Every lane that is in use.
    fn lanes(&self) -> Result<Vec<LaneInfo>>;
    /// The policy of the root cgroup's lane.
    fn root_policy(&self) -> String;
    /// The policies that it was loaded with.
    fn policies(&self) -> Vec<String>;
    /// How it left the kernel, if it has.
    fn exited(&self) -> Option<ExitRecord>;
    /// Its counters.
    fn counters(&self) -> Result<BTreeMap<String, u64>>;
}

/// What brings a program of ours into the kernel.
pub trait ProgramLoader: Send {
    /// Loads and attaches the program with this root lane.
    fn load(&self, root: &LaneSpec) -> Result<Box<dyn LaneProgram>>;
}

/// The loader of real programs.
#[derive(Clone, Debug)]
pub struct KernelLoader {
    /// After how many milliseconds the kernel takes a task that does not get to run
    /// for a stall of the scheduler.
    pub timeout_ms: u32,
    /// The policies that lanes may have, beside that of the first lane; all if none is given.
    pub policies: Vec<String>,
}

impl Default for KernelLoader {
    /// The kernel's longest, because a machine that is emulated or overcommitted
    /// stops for seconds on its own.
    fn default() -> Self {
        Self { timeout_ms: 30_000, policies: Vec::new() }
    }
}

impl ProgramLoader for KernelLoader {
    fn load(&self, root: &LaneSpec) -> Result<Box<dyn LaneProgram>> {
        root.check()?;
        let options = LoadOptions {
            policy: root.policy.clone(),
            timeout_ms: self.timeout_ms,
            policies: self.policies.clone(),
        };
        let mut loaded = Loaded { decider: None, program: Program::load(&options)? };
        loaded.decides_for(&root.policy)?;
        loaded.set_root(root)?;
        Ok(Box::new(loaded))
    }
}

/// A real program, and the process that decides where a policy has a half in user space.
struct Loaded {
    /// First, so that it is gone before what it decides for.
    decider: Option<Decider>,
    program: Program,
}

impl Loaded {
    /// From the first lane on whose policy has such a half there is that process.
    fn decides_for(&mut self, policy: &str) -> Result<()> {
        if self.decider.is_none() && has_half(policy) {
            self.decider = Some(Decider::start(self.program.user_files()?)?);
        }
        Ok(())
    }

    /// Gives the root lane its options: it has its policy's defaults for the moment until then.
    fn set_root(&mut self, lane: &LaneSpec) -> Result<()> {
        if lane.options.is_empty() { Ok(()) } else { self.program.set_lane(0, lane) }
    }
}

impl LaneProgram for Loaded {
    fn replace_root(&mut self, lane: &LaneSpec) -> Result<Replacement> {
        lane.check()?;
        self.decides_for(&lane.policy)?;
        let replacement = self.program.replace_root(&lane.policy)?;
        self.set_root(lane)?;
        Ok(replacement)
    }

    fn first_run_ns(&self, generation: u64) -> Option<u64> {
        self.program.first_run_ns(generation)
    }

    fn start_turns(&mut self, turns: &[LaneTurn]) -> Result<()> {
        turns.iter().try_for_each(|turn| self.decides_for(&turn.policy))?;
        self.program.start_turns(turns)
    }

    fn look_at_turns(&self) -> TurnFigures {
        self.program.look_at_turns()
    }

    fn stop_turns(&mut self) -> Result<TurnFigures> {
        self.program.stop_turns()
    }

    fn set_app(&mut self, app: u32, spec: &LaneSpec, weight: u32) -> Result<Replacement> {
        self.decides_for(&spec.policy)?;
        self.program.set_app(app, spec, weight)
    }

    fn drop_app(&mut self, app: u32) -> Result<()> {
        self.program.drop_app(app)
    }

    fn assign(&mut self, cgroup: u64, app: u32) -> Result<()> {
        self.program.assign(cgroup, app)
    }

    fn unassign(&mut self, cgroup: u64) -> Result<()> {
        self.program.unassign(cgroup)
    }

    fn set_lane(&mut self, app: u32, change: &LaneSpec) -> Result<()> {
        self.program.set_lane(app, change)
    }

    fn quarantines(&self) -> Vec<Quarantine> {
        self.program.quarantines()
    }

    fn new_quarantines(&mut self) -> Vec<Quarantine> {
        self.program.new_quarantines()
    }

    fn limits(&self) -> Limits {
        self.program.limits()
    }

    fn lanes(&self) -> Result<Vec<LaneInfo>> {
        self.program.lanes()
    }

    fn root_policy(&self) -> String {
        self.program.root_policy()
    }

    fn policies(&self) -> Vec<String> {
        self.program.policies()
    }

    fn exited(&self) -> Option<ExitRecord> {
        self.program.exited()
    }

    fn counters(&self) -> Result<BTreeMap<String, u64>> {
        self.program.counters()
    }
}
