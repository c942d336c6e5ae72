use std::fmt;

use metasched_control::{Candidate, Mechanism};
use metasched_experiment::in_hundredths;
use serde::{Deserialize, Serialize};

/// The name of the kernel's default scheduler, against which all is compared.
pub const BASELINE: &str = "eevdf";

/// What a workload is measured under: one scheduler, or a metascheduler.
///
/// Two subjects are the same if all of this is the same; figures of different
/// subjects are never mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Subject {
    /// One scheduler for the whole machine, all the time.
    Scheduler {
        /// The candidate's name, its options included.
        name: String,
        /// Its version. A policy's tells what it was compiled to, so that figures of a
        /// changed one are not taken for those of the one before.
        version: String,
        /// The options that it runs with.
        options: Vec<String>,
    },
    /// Schedulers that take turns.
    Strategy {
        /// The strategy's name: `round-robin`, `delta`, `benefit`, `delta-benefit`.
        strategy: String,
        /// How turns are changed.
        mechanism: Mechanism,
        /// The base timeslice in milliseconds.
        base_slice_ms: u64,
        /// The turns, in their order.
        turns: Vec<TurnShare>,
    },
    /// Policies side by side, each application on a lane of its own.
    Lanes {
        /// The strategy's name, by which the lanes are weighted; absent where their weights are by no
        /// formula.
        strategy: Option<String>,
        /// The policy of everything else, and its version.
        default: (String, String),
        /// The applications, with their cgroups.
        lanes: Vec<TurnShare>,
    },
}

/// One turn or lane of a strategy: its application, its scheduler, and its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TurnShare {
    /// The application (form) whose turn it is.
    pub app: String,
    /// The candidate's name, its options included.
    pub scheduler: String,
    /// The candidate's version.
    pub version: String,
    /// The weight, a share of one: the turn lasts n * base timeslice * weight.
    pub weight: f64,
    /// The cgroups of the application; empty for a turn, which is the whole machine's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cgroups: Vec<String>,
}

impl Subject {
    /// The subject that is this candidate alone.
    pub fn scheduler(candidate: &Candidate) -> Self {
        Subject::Scheduler {
            name: candidate.name.clone(),
            version: candidate.version.clone(),
            options: candidate.command.iter().skip(1).cloned().collect(),
        }
    }

    /// Whether this is the default scheduler.
    pub fn is_baseline(&self) -> bool {
        matches!(self, Subject::Scheduler { name, .. } if name == BASELINE)
    }

    /// Its identity as text: equal subjects give equal text.
    pub(crate) fn canonical(&self) -> String {
        // A struct of strings and numbers always has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl TurnShare {
    /// A turn of `candidate` for `app`, with its share of the cycle.
    pub fn new(app: impl Into<String>, candidate: &Candidate, weight: f64) -> Self {
        Self {
            app: app.into(),
            scheduler: Subject::scheduler(candidate).to_string(),
            version: candidate.version.clone(),
            weight,
            cgroups: Vec::new(),
        }
    }

    /// Says that the lane is of these cgroups.
    pub fn cgroups(mut self, cgroups: Vec<String>) -> Self {
        self.cgroups = cgroups;
        self
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Scheduler { name, .. } => f.write_str(name),
            Subject::Strategy { strategy, mechanism, base_slice_ms, .. } => {
                let mechanism = match mechanism {
                    Mechanism::Swap => "swap",
                    Mechanism::Lane => "lane",
                };
                write!(f, "{strategy} {base_slice_ms}ms {mechanism}")
            }
            Subject::Lanes { strategy: Some(strategy), .. } => write!(f, "{strategy} lanes"),
            Subject::Lanes { strategy: None, lanes, .. } => {
                write!(f, "{} lanes", in_hundredths(lanes.iter().map(|lane| lane.weight)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::{CandidateKind, resolve};

    #[test]
    fn a_candidate_with_options_is_shown_as_what_asks_for_it() {
        let rusty = Candidate {
            name: "scx_rusty".into(),
            kind: CandidateKind::External,
            command: vec!["/bin/scx_rusty".into()],
            ..Candidate::eevdf("")
        };
        let table = [rusty];
        let asked = resolve(&table, "scx_rusty:-k -s 3000").unwrap();
        let subject = Subject::scheduler(&asked);
        assert_eq!(subject.to_string(), "scx_rusty -k -s 3000");
        assert_eq!(resolve(&table, &subject.to_string()).unwrap(), asked);
        assert_ne!(subject, Subject::scheduler(&table[0]));
        assert_eq!(TurnShare::new("a", &asked, 1.0).scheduler, "scx_rusty -k -s 3000");
    }
}
