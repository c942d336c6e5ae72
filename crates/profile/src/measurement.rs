use std::collections::BTreeMap;

use metasched_experiment::Round;
use serde::{Deserialize, Serialize};

use crate::{LoadFigures, Parts, Subject};

/// Why a run was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// For its figures: the only kind from which ratios are made.
    Measured,
    /// With the tracer of run-queue waits attached, for its wait histogram.
    Traced,
    /// Under the default scheduler with metasched's own observation switched off,
    /// to show what that observation costs.
    Control,
}

impl RunKind {
    /// Its name in the store.
    pub fn name(self) -> &'static str {
        match self {
            RunKind::Measured => "measured",
            RunKind::Traced => "traced",
            RunKind::Control => "control",
        }
    }

    /// Reads what [`RunKind::name`] wrote.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [RunKind::Measured, RunKind::Traced, RunKind::Control]
            .into_iter()
            .find(|k| k.name() == name)
    }
}

/// The machine and the software, as far as figures depend on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    /// The machine's fingerprint.
    pub machine: String,
    /// The facts that the fingerprint stands for.
    pub facts: serde_json::Value,
    /// The kernel's release.
    pub kernel: String,
    /// The version of metasched.
    pub metasched: String,
    /// CPUs on line.
    pub cpus: u32,
    /// Whether the CPU is emulated in software.
    pub emulated: bool,
}

/// What makes measurements comparable with one another: same environment, same
/// workload with the same parameters and files, same form, same durations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesKey {
    /// Where it was measured.
    pub environment: Environment,
    /// The workload's name.
    pub workload: String,
    /// The workload's form.
    pub form: String,
    /// What the form's throughput counts.
    pub unit: String,
    /// The parameters, `auto` resolved.
    pub params: BTreeMap<String, String>,
    /// The hash of the workload's manifest, files and parameters.
    pub workload_hash: String,
    /// How long each load runs, in seconds.
    pub duration_s: f64,
    /// How long the warm-up before it runs, in seconds.
    pub warmup_s: f64,
}

/// A series as the store holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Its number in this store.
    pub id: i64,
    /// What its measurements have in common.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// How many measurements of kind [`RunKind::Measured`] it holds.
    pub measured: u64,
    /// When the last of its measurements was made (RFC 3339, UTC).
    pub last_at: String,
}

/// One call of the tool that measured: one boot, one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// Its number in this store.
    pub id: i64,
    /// The kernel's boot id.
    pub boot_id: String,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// The seed of its random order.
    pub seed: u64,
    /// The command line, to repeat it.
    pub command: String,
}

/// One finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Its number in this store.
    pub id: i64,
    /// The series that it belongs to.
    pub series: i64,
    /// The session that made it.
    pub session: i64,
    /// The round within session and series: what was measured side by side.
    pub round: u32,
    /// Its place in the order of the round, from 0.
    pub order: u32,
    /// Why it was made.
    pub kind: RunKind,
    /// What it was measured under.
    pub subject: Subject,
    /// When it began (RFC 3339, UTC).
    pub started_at: String,
    /// The figures of the whole.
    pub figures: LoadFigures,
    /// The figures of each cgroup.
    pub parts: Parts,
}

/// A measurement and the default scheduler's of the same round: what ratios are made from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairedFigures {
    /// The series that both belong to.
    pub series: i64,
    /// The session that made both.
    pub session: i64,
    /// The round that both belong to.
    pub round: u32,
    /// What the second was measured under.
    pub subject: Subject,
    /// Under the default scheduler.
    pub baseline: LoadFigures,
    /// Under the subject.
    pub figures: LoadFigures,
}

/// The number of a round in all sessions: rounds of one session are numbered by 32 bits.
pub(crate) fn round_number(session: i64, round: u32) -> u64 {
    session.unsigned_abs() << u32::BITS | u64::from(round)
}

impl PairedFigures {
    /// As the experiment counts them.
    pub fn round(&self) -> Round {
        Round {
            number: round_number(self.session, self.round),
            candidate: self.figures.sample(),
            default: self.baseline.sample(),
        }
    }
}

/// A run that failed: a candidate that died, a load that gave nonsense under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The session in which it happened.
    pub session: i64,
    /// The series that was being measured.
    pub series: i64,
    /// What it was being measured under.
    pub subject: Subject,
    /// When (RFC 3339, UTC).
    pub at: String,
    /// The error, as it was told.
    pub error: String,
}
