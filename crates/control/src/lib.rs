//! Which scheduler is in force.
//!
//! The one table of candidates ([`candidates`]), the two mechanisms that put a
//! candidate in force (process swap for any `scx_*` binary, a lane of our own
//! program for our policies) behind one serialised state machine ([`Switcher`]),
//! the metascheduler that takes turns ([`take_turns`]), the keeper that holds a
//! scheduler in the background ([`keeper`]), the cgroups that have lanes of their own
//! ([`Assignments`]) by hand or by rules ([`Rules`], [`Follower`]), and the guard that puts
//! things right when metasched itself is killed ([`Guard`]).

mod assignments;
mod candidate;
mod decider;
mod exit;
mod explain;
mod external;
mod follower;
mod graces;
mod guard;
mod holder;
mod in_force;
pub mod keeper;
mod lock;
mod own;
mod program;
mod quarantine;
mod rules;
mod switch;
mod switcher;
mod table;
mod turns;
mod version;

pub use assignments::{App, Assigned, Assignments, BRIEF_CGROUPS, Change, Member};
pub use candidate::{Candidate, CandidateKind, EEVDF, name_in_force};
pub use decider::decider_main;
pub use exit::SchedulerExit;
pub use explain::{Explained, Explanation, Located};
pub use follower::Follower;
pub use guard::{Guard, guard_main};
pub use holder::{Holder, holder};
pub use in_force::{InForce, put_back_after, under};
pub use lock::{LockHolder, RUN_DIR, lock_holder, make_run_dir};
pub use own::{own_program, spawn_own};
pub use program::{KernelLoader, LaneProgram, OPS_NAME, ProgramLoader};
pub use quarantine::describe as describe_quarantine;
pub use rules::{
    ATTRIBUTE, FLAG, LATENCY_AWARE, LATENCY_AWARE_POLICY, MeasuredRatio, Pattern, Preference,
    RuleApp, Rules, Why,
};
pub use switch::{Mechanism, SwitchRecord};
pub use switcher::{Switcher, SwitcherOptions};
pub use table::{CandidateEnv, candidates, find, resolve, resolve_in};
pub use turns::{Lateness, Turn, TurnEvent, TurnsSummary, take_turns};

#[cfg(test)]
mod fake;
