//! What passes through the keeper's socket.

use std::collections::BTreeMap;
use std::time::Duration;

use metasched_base::{Error, Kind};
use metasched_loader::{LaneInfo, LaneSpec, Limits, Quarantine};
use serde::{Deserialize, Serialize};

use crate::assignments::{App, Assigned, Member};
use crate::candidate::Candidate;
use crate::rules::RuleApp;
use crate::switch::{Mechanism, SwitchRecord};

/// The socket's name in the run folder.
pub(super) const SOCKET: &str = "control.sock";

/// How long work may take that brings a scheduler into the kernel or out: a failed start with
/// everything that follows.
pub(super) const LONG_WORK: Duration = Duration::from_secs(400);

/// How long other work may take: many times what a place for a lane is waited for.
pub(super) const SHORT_WORK: Duration = Duration::from_secs(30);

/// An order to the keeper.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Tell what is in force.
    Status,
    /// Put another scheduler in force; without a mechanism the better one is taken.
    Switch {
        /// The scheduler.
        candidate: Candidate,
        /// How to change to it.
        mechanism: Option<Mechanism>,
    },
    /// Put a cgroup on a lane of its own.
    Assign {
        /// The cgroup, as the user names it.
        cgroup: String,
        /// What its lane is to be.
        lane: LaneSpec,
        /// Whether the cgroup is to be removed when nobody is in it any more.
        brief: bool,
    },
    /// Put a cgroup on the lane of those that are flagged latency-aware.
    Flag {
        /// The cgroup, as the user names it.
        cgroup: String,
        /// Options of that lane that are to change.
        options: BTreeMap<String, u64>,
    },
    /// Take a cgroup off its lane.
    Unassign {
        /// The cgroup, as the user names it.
        cgroup: String,
    },
    /// Change a lane in force.
    Adjust {
        /// The cgroup, as the user names it.
        cgroup: String,
        /// The lane's weight, if that is to change.
        weight: Option<u32>,
        /// Options of its policy that are to change.
        options: BTreeMap<String, u64>,
    },
    /// Put back what was found, and end.
    Stop,
}

impl Order {
    /// What it is to do, to be read after "cannot".
    pub(super) fn describe(&self) -> String {
        match self {
            Order::Status => "ask the keeper what is in force".to_owned(),
            Order::Switch { candidate, .. } => format!("switch to '{}'", candidate.name),
            Order::Assign { cgroup, .. } => format!("assign '{cgroup}'"),
            Order::Flag { cgroup, .. } => format!("flag '{cgroup}' latency-aware"),
            Order::Unassign { cgroup } => format!("unassign '{cgroup}'"),
            Order::Adjust { cgroup, .. } => format!("change the lane of '{cgroup}'"),
            Order::Stop => "stop the keeper".to_owned(),
        }
    }

    /// How long it may take.
    pub(super) fn bound(&self) -> Duration {
        match self {
            Order::Switch { .. } | Order::Stop => LONG_WORK,
            _ => SHORT_WORK,
        }
    }
}

/// What the keeper holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperStatus {
    /// The keeper's process.
    pub pid: u32,
    /// What is in force by its doing.
    pub scheduler: Candidate,
    /// Since when, in seconds since 1970.
    pub since_unix_s: u64,
    /// What will be put back at the end, by its name in the kernel.
    pub earlier: Option<String>,
    /// The lanes of our program, where that is what is in force.
    pub lanes: Vec<LaneInfo>,
    /// Applications that have lanes of their own.
    pub apps: Vec<App>,
    /// Applications of the rules that have none: no cgroup matches now, or they are to be
    /// on the default lane.
    pub without_lane: Vec<RuleApp>,
    /// Cgroups that are back on the default lane below one that is flagged latency-aware, by their paths.
    pub exempt: BTreeMap<String, Member>,
    /// The latest lanes whose policies did not dispatch.
    pub quarantines: Vec<Quarantine>,
    /// Cgroups with a limit in `cpu.max`, while our program enforces them.
    pub limits: Limits,
    /// The policies that our program was loaded with, where that is what is in force.
    pub policies: Vec<String>,
}

/// The keeper's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// To [`Order::Status`].
    Status(Box<KeeperStatus>),
    /// To [`Order::Switch`].
    Switched(SwitchRecord),
    /// To [`Order::Assign`], [`Order::Flag`] and [`Order::Adjust`].
    Assigned(Assigned),
    /// To [`Order::Unassign`]: what was assigned.
    Unassigned(App),
    /// To [`Order::Stop`]: what is in force again, by its name in the kernel.
    Stopped {
        /// `None` for the default scheduler.
        back: Option<String>,
    },
    /// To any of them.
    Failed(Failure),
    /// Before any of them, again and again, while the keeper is at work.
    Working {
        /// What it is at, which may be another client's order.
        on: String,
        /// For how long, in milliseconds.
        for_ms: u64,
    },
}

/// An [`Error`] on its way through the socket.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Failure {
    exit_code: u8,
    attempt: String,
    cause: String,
    remedy: String,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        Self { exit_code: e.kind.exit_code(), attempt: e.attempt, cause: e.cause, remedy: e.remedy }
    }
}

impl From<Failure> for Error {
    fn from(f: Failure) -> Self {
        let kind = Kind::ALL
            .into_iter()
            .find(|kind| kind.exit_code() == f.exit_code)
            .unwrap_or(Kind::Failed);
        Error::new(kind, f.attempt, f.cause).remedy(f.remedy)
    }
}
