//! Loads the kernel program and replaces its lanes; the only crate that knows libbpf.
//!
//! [`Program`] is the metascheduler with its lanes; [`WaitTracer`] measures
//! run-queue waits under any scheduler. Both leave the kernel when they are
//! dropped, and when the process dies in whatever way.

mod apps;
mod callbacks;
mod capture;
mod cpu_masks;
mod exit;
mod follow;
mod freed;
mod held;
mod lanes;
mod limits;
mod object;
mod overhead;
mod paravirt;
mod places;
mod policy;
mod program;
mod reaper;
mod refusal;
mod run_stats;
mod skel;
mod stored;
mod struct_ops;
mod syscalls;
mod turns;
mod user;
mod variables;
mod vcpus;
mod version;
mod wait;

pub use apps::{APPS, LaneSpec, Quarantine};
pub use callbacks::{CallbackCost, CountCallbacks, HOT_CALLBACKS};
pub use exit::ExitRecord;
pub use follow::{FollowedProcess, Follower, OtherTask};
pub use lanes::LaneInfo;
pub use limits::{Limit, Limits};
pub use metasched_abi::{
    ASSIGNED_MAX, BACK_TO_ROOT, CounterInfo, DEFAULT_POLICY, DEFAULT_WEIGHT, EEVDF, LaneState,
    LaneTurn, OptionInfo, OverheadPart, ParavirtState, PolicyInfo, Setting, VcpuThread, WEIGHTS,
    check_weight,
};
pub use object::{Object, load_instead};
pub use overhead::{OVERHEAD_DEPTHS, OverheadCounts, OverheadTracer, Probes, ScheduleCalls};
pub use paravirt::{ParavirtReading, ParavirtTracer, ThreadReading, WatchedThread};
pub use policy::{policies, settings, variant, variants};
pub use program::{LoadOptions, Program, Replacement};
pub use run_stats::{CountRuns, Runs};
pub use struct_ops::holds_scheduler;
pub use turns::{BegunTurn, LONG_TURN, TurnFigures, check_turns};
pub use user::{UserDriver, UserFiles};
pub use vcpus::VcpuFinder;
pub use version::policies_version;
pub use wait::{WaitTracer, Waiters};
