use std::collections::BTreeMap;

use metasched_host::sched_ext::Status;
use metasched_loader::LaneSpec;
use serde::{Deserialize, Serialize};

pub use metasched_loader::EEVDF;

/// What is in force, by its name in the kernel: [`EEVDF`] if nothing is loaded.
pub fn name_in_force(status: &Status) -> String {
    if status.is_default() { EEVDF.to_owned() } else { status.ops.clone().unwrap_or_default() }
}

/// Where a candidate scheduler comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    /// The kernel's own scheduler, EEVDF: nothing is loaded.
    Default,
    /// One of our policies, on the root lane of our program.
    Policy,
    /// A scheduler of somebody else's, run as a process.
    External,
}

/// A scheduler that can be put in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// What users call it: `eevdf`, `fifo`, `scx_bpfland`.
    pub name: String,
    /// Where it comes from.
    pub kind: CandidateKind,
    /// One line that says what it is.
    pub summary: String,
    /// Its version: the kernel's release for the default scheduler, ours for our
    /// policies, what `--version` says for an external one.
    pub version: String,
    /// The command of an external scheduler, its options included; empty otherwise.
    pub command: Vec<String>,
    /// The options of a policy of ours that are not to have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, u64>,
}

impl Candidate {
    /// The kernel's own scheduler, of a kernel of this release.
    pub fn eevdf(release: &str) -> Self {
        Self {
            name: EEVDF.to_owned(),
            kind: CandidateKind::Default,
            summary: "the kernel's own scheduler: nothing is loaded".to_owned(),
            version: release.to_owned(),
            command: Vec::new(),
            settings: BTreeMap::new(),
        }
    }

    /// A scheduler of somebody else's, run by that command.
    pub fn external(name: impl Into<String>, command: Vec<String>) -> Self {
        Self {
            name: name.into(),
            kind: CandidateKind::External,
            summary: String::new(),
            version: String::new(),
            command,
            settings: BTreeMap::new(),
        }
    }

    /// The name without options: of a policy of ours, what the kernel program knows it by.
    pub fn bare_name(&self) -> &str {
        self.name.split(' ').next().unwrap_or_default()
    }

    /// The lane that a policy of ours comes to, weighted by `cpu.weight`.
    pub fn lane(&self) -> LaneSpec {
        LaneSpec { options: self.settings.clone(), ..LaneSpec::of(self.bare_name()) }
    }

    /// Whether it can have turns that the kernel program takes itself: that knows policies and
    /// presets, and no options beside them.
    pub fn turns_by_lane(&self) -> bool {
        self.kind == CandidateKind::Policy && self.settings.is_empty()
    }

    /// Whether it is a policy of ours with options, under a name of its own.
    pub fn is_preset(&self) -> bool {
        let info = metasched_loader::variant(&self.name);
        self.kind == CandidateKind::Policy && info.is_ok_and(|info| info.preset_of.is_some())
    }

    /// Its options, as users write them.
    pub fn options(&self) -> Vec<&str> {
        match self.kind {
            CandidateKind::External => self.command.iter().skip(1).map(String::as_str).collect(),
            CandidateKind::Policy | CandidateKind::Default => {
                self.name.split(' ').skip(1).collect()
            }
        }
    }
}

impl std::fmt::Display for CandidateKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            CandidateKind::Default => "default",
            CandidateKind::Policy => "policy",
            CandidateKind::External => "external",
        })
    }
}
