//! The machine's side of a calibration: what was measured of it, and the figures of every run.
//! It is kept in a file, so that a change of the model is seen in seconds and beside the same
//! figures.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use metasched_base::{Kind, Result, ResultExt};
use metasched_replay::Calibration;
use serde::{Deserialize, Serialize};

use crate::agreement::Figures;

/// A scenario under a scheduler, and the figures of its cgroups in every run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pair {
    /// The scenario's name.
    pub scenario: String,
    /// The scheduler's.
    pub scheduler: String,
    /// By cgroup, one for each round.
    pub runs: Vec<BTreeMap<String, Figures>>,
}

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MachineSide {
    /// How many rounds there were.
    pub rounds: u64,
    /// The seed of the first.
    pub seed: u64,
    /// How long scenarios lasted, where not as long as they say.
    pub duration: Option<Duration>,
    /// The machine under each scheduler.
    pub machines: BTreeMap<String, Calibration>,
    /// Scenarios under schedulers.
    pub pairs: Vec<Pair>,
}

impl MachineSide {
    /// Reads what an earlier run kept.
    ///
    /// # Errors
    /// When there is no such file, or it is none of ours.
    pub fn load(path: &Path) -> Result<MachineSide> {
        let attempt = || format!("read the machine's side from {}", path.display());
        let text = std::fs::read_to_string(path).attempt(Kind::BadInput, attempt)?;
        serde_json::from_str(&text).attempt(Kind::BadInput, attempt)
    }

    /// Keeps it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep(&self, path: &Path) -> Result<()> {
        let attempt = || format!("keep the machine's side in {}", path.display());
        let text = serde_json::to_string(self).attempt(Kind::Failed, attempt)?;
        std::fs::write(path, text).attempt(Kind::Failed, attempt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agreement::Figure;

    #[test]
    fn what_is_kept_is_read_again() {
        let figures = Figures::from([(Figure::Cpus, Some(1.5)), (Figure::WaitP99, None)]);
        let side = MachineSide {
            rounds: 1,
            seed: 7,
            duration: Some(Duration::from_millis(900)),
            machines: BTreeMap::new(),
            pairs: vec![Pair {
                scenario: "hogs".to_owned(),
                scheduler: "fifo".to_owned(),
                runs: vec![BTreeMap::from([("hogs".to_owned(), figures.clone())])],
            }],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        side.keep(&path).unwrap();
        let read = MachineSide::load(&path).unwrap();
        assert_eq!((read.rounds, read.seed, read.duration), (1, 7, side.duration));
        assert_eq!(read.pairs[0].runs[0]["hogs"], figures);
        let error = MachineSide::load(&folder.path().join("none.json")).unwrap_err();
        assert_eq!(error.kind, Kind::BadInput);
    }
}
