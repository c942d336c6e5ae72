//! What was measured, in a file of lines that each run adds to, so that a bench that was
//! interrupted goes on.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Progress, Result, ResultExt};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::order;

/// What must be the same for figures to stand beside each other. The first line of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Of this program, which has all policies in it.
    pub program: String,
    /// The kernel's release.
    pub kernel: String,
    /// CPUs that there are.
    pub cpus: usize,
    /// What the bench was asked for that its figures depend on.
    pub options: String,
}

impl Setting {
    /// That of this program on this machine.
    ///
    /// # Errors
    /// When the program or the kernel's release cannot be read.
    pub fn here(options: String) -> Result<Setting> {
        Ok(Setting {
            program: version_of(Path::new("/proc/self/exe"))?,
            kernel: metasched_host::kernel::release(Path::new("/"))?.to_string(),
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            options,
        })
    }
}

/// What tells one build of a program or library from another.
///
/// # Errors
/// When its file cannot be read.
pub fn version_of(file: &Path) -> Result<String> {
    let attempt = || format!("say which build '{}' is", file.display());
    let bytes = std::fs::read(file).attempt(Kind::Failed, attempt)?;
    Ok(Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect())
}

/// One scheduler in one round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// In a round everybody is measured once, in one boot.
    pub round: u64,
    /// The scheduler.
    pub subject: String,
    /// Figures by their names.
    pub values: BTreeMap<String, f64>,
    /// Why there are none, by load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failed: BTreeMap<String, String>,
}

/// All that was measured in one setting.
#[derive(Clone, Debug)]
pub struct Kept {
    /// What is the same for all of it.
    pub setting: Setting,
    /// In the order in which it was measured.
    pub measured: Vec<Measured>,
}

/// The file, to which more can be added.
#[derive(Debug)]
pub struct Rounds {
    path: PathBuf,
    file: File,
    /// All that is in it.
    pub kept: Kept,
}

impl Kept {
    /// Reads a file of rounds; none where there is no file, or nothing in it. A last line that an
    /// interruption left is left out.
    ///
    /// # Errors
    /// When it cannot be read, or is none of ours.
    pub fn read(path: &Path) -> Result<Option<Kept>> {
        let attempt = || format!("read the measurements in {}", path.display());
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::new(Kind::Failed, attempt(), error)),
        };
        let mut lines = whole_lines(&text).lines();
        let Some(first) = lines.next() else { return Ok(None) };
        let setting = serde_json::from_str(first).attempt(Kind::BadInput, attempt)?;
        let measured =
            lines.map(|line| serde_json::from_str(line).attempt(Kind::BadInput, attempt));
        Ok(Some(Kept { setting, measured: measured.collect::<Result<_>>()? }))
    }

    /// The number of a round that nobody was measured in.
    pub fn next_round(&self) -> u64 {
        self.measured.iter().map(|measured| measured.round + 1).max().unwrap_or(0)
    }

    /// In how many rounds a scheduler was measured beside the baseline.
    pub fn count(&self, subject: &str, baseline: &str) -> u64 {
        let of = |name: &str| {
            let rounds = self.measured.iter().filter(move |measured| measured.subject == name);
            rounds.map(|measured| measured.round).collect::<std::collections::BTreeSet<u64>>()
        };
        of(subject).intersection(&of(baseline)).count() as u64
    }

    /// A figure of a scheduler, in every round that has it.
    pub fn values(&self, figure: &str, subject: &str) -> Vec<f64> {
        let of = self.measured.iter().filter(|measured| measured.subject == subject);
        of.filter_map(|measured| measured.values.get(figure).copied()).collect()
    }

    /// A figure of two schedulers, in every round that has both.
    pub fn pairs(&self, figure: &str, subject: &str, baseline: &str) -> Vec<(f64, f64)> {
        let value = |measured: &Measured| measured.values.get(figure).copied();
        let under = |round: u64| {
            self.measured.iter().find(|m| m.round == round && m.subject == baseline).and_then(value)
        };
        let over = self.measured.iter().filter(|measured| measured.subject == subject);
        over.filter_map(|measured| Some((value(measured)?, under(measured.round)?))).collect()
    }

    /// Two figures of a scheduler, in every round that has both.
    pub fn pairs_within(&self, figure: &str, over: &str, subject: &str) -> Vec<(f64, f64)> {
        let of = self.measured.iter().filter(|measured| measured.subject == subject);
        of.filter_map(|measured| {
            let value = |name: &str| measured.values.get(name).copied();
            Some((value(figure)?, value(over)?))
        })
        .collect()
    }

    /// The last reason for which a scheduler has no figures of a load.
    pub fn why_not(&self, load: &str, subject: &str) -> Option<&str> {
        let of = self.measured.iter().rev().filter(|measured| measured.subject == subject);
        of.filter_map(|measured| measured.failed.get(load)).map(String::as_str).next()
    }
}

fn whole_lines(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

/// How many rounds are measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The bench's name.
    pub bench: &'a str,
    /// Who is in every round, since all others are compared with it.
    pub baseline: &'a str,
    /// In how many rounds each of the others is to be measured beside it.
    pub rounds: u64,
    /// No round begins after this time.
    pub budget: Duration,
    /// Of the order in each round.
    pub seed: u64,
}

impl Rounds {
    /// Opens what is there, or begins. A last line that an interruption left is dropped.
    ///
    /// # Errors
    /// When what is there is of another setting; `fresh` puts it away in place of that.
    pub fn open(path: &Path, setting: &Setting, fresh: bool) -> Result<Rounds> {
        let attempt = || format!("go on with the measurements in {}", path.display());
        if fresh && path.exists() {
            std::fs::rename(path, path.with_extension("old.jsonl"))
                .attempt(Kind::Failed, attempt)?;
        }
        let kept = Kept::read(path)?;
        if let Some(there) = kept.as_ref().map(|kept| &kept.setting).filter(|it| *it != setting) {
            let cause = format!("they are of another setting: {there:?}, and not {setting:?}");
            return Err(Error::new(Kind::Usage, attempt(), cause).remedy(
                "give --fresh, which puts them away and begins anew, or the same options",
            ));
        }
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.attempt(Kind::Failed, attempt)?;
        let text = std::fs::read_to_string(path).attempt(Kind::Failed, attempt)?;
        file.set_len(whole_lines(&text).len() as u64).attempt(Kind::Failed, attempt)?;
        let begins = kept.is_none();
        let kept = kept.unwrap_or_else(|| Kept { setting: setting.clone(), measured: Vec::new() });
        let mut rounds = Rounds { path: path.to_owned(), file, kept };
        if begins {
            rounds.write(setting)?;
        }
        Ok(rounds)
    }

    fn write(&mut self, line: &impl Serialize) -> Result<()> {
        let attempt = || format!("keep what was measured in {}", self.path.display());
        let mut line = serde_json::to_string(line).attempt(Kind::Failed, attempt)?;
        line.push('\n');
        self.file.write_all(line.as_bytes()).attempt(Kind::Failed, attempt)?;
        self.file.sync_data().attempt(Kind::Failed, attempt)
    }

    /// Measures round after round, until each of `subjects` was in enough of them or the time is
    /// over, which it says. `measure` measures the one of this place among `subjects` in this round.
    ///
    /// # Errors
    /// Those of `measure`, and when a measurement cannot be kept.
    pub fn go_on(
        &mut self,
        plan: &Plan,
        subjects: &[&str],
        mut measure: impl FnMut(usize, u64) -> Result<Measured>,
    ) -> Result<()> {
        let (began, mut longest) = (Instant::now(), Duration::ZERO);
        loop {
            let lacks = |name: &str| self.kept.count(name, plan.baseline) < plan.rounds;
            let lacking = subjects.iter().filter(|name| lacks(name)).count();
            if lacking == 0 {
                return Ok(());
            }
            if began.elapsed() + longest > plan.budget {
                eprintln!(
                    "{}: the time is over, and {lacking} of {} want more rounds; the same command goes on",
                    plan.bench,
                    subjects.len()
                );
                return Ok(());
            }
            let wanting: Vec<usize> = (0..subjects.len())
                .filter(|at| subjects[*at] == plan.baseline || lacks(subjects[*at]))
                .collect();
            let (round, round_began) = (self.kept.next_round(), Instant::now());
            let progress = Progress::new(format!("round {}", round + 1), wanting.len() as u64);
            for at in order(wanting.len(), plan.seed, round) {
                let subject = subjects[wanting[at]];
                progress.message(subject.to_owned());
                let measured = measure(wanting[at], round)?;
                for (load, why) in &measured.failed {
                    progress.line(&format!("{subject}, {load}: {why}"));
                }
                self.add(measured)?;
                progress.step();
            }
            longest = longest.max(round_began.elapsed());
        }
    }

    /// Keeps one more.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add(&mut self, measured: Measured) -> Result<()> {
        self.write(&measured)?;
        self.kept.measured.push(measured);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        let options = "scale 1".into();
        Setting { program: "a".into(), kernel: "7.3.4".into(), cpus: 2, options }
    }

    fn measured(round: u64, subject: &str, seconds: f64) -> Measured {
        let values = BTreeMap::from([("pipe".to_owned(), seconds)]);
        Measured { round, subject: subject.into(), values, failed: BTreeMap::new() }
    }

    #[test]
    fn what_was_interrupted_goes_on_with_all_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let mut rounds = Rounds::open(&path, &setting(), false).unwrap();
        rounds.add(measured(0, "eevdf", 2.0)).unwrap();
        rounds.add(measured(0, "fifo", 1.0)).unwrap();
        rounds.add(measured(1, "fifo", 1.0)).unwrap();
        drop(rounds);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"round\":1,\"subj");
        std::fs::write(&path, text).unwrap();
        let mut rounds = Rounds::open(&path, &setting(), false).unwrap();
        assert_eq!(rounds.kept.measured.len(), 3);
        assert_eq!((rounds.kept.next_round(), rounds.kept.count("fifo", "eevdf")), (2, 1));
        assert_eq!(rounds.kept.pairs("pipe", "fifo", "eevdf"), [(1.0, 2.0)]);
        rounds.add(measured(1, "eevdf", 4.0)).unwrap();
        drop(rounds);
        let rounds = Rounds::open(&path, &setting(), false).unwrap();
        assert_eq!(rounds.kept.pairs("pipe", "fifo", "eevdf"), [(1.0, 2.0), (1.0, 4.0)]);
    }

    #[test]
    fn rounds_go_on_until_each_was_in_enough_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        let mut rounds = Rounds::open(&path, &setting(), false).unwrap();
        rounds.add(measured(0, "eevdf", 2.0)).unwrap();
        rounds.add(measured(0, "fifo", 1.0)).unwrap();
        let subjects = ["eevdf", "fifo", "vtime"];
        let budget = Duration::from_secs(3600);
        let plan = Plan { bench: "bench", baseline: "eevdf", rounds: 2, budget, seed: 1 };
        let mut seen = Vec::new();
        let mut go_on = |plan: &Plan, rounds: &mut Rounds| {
            let measure = |at: usize, round| {
                seen.push((round, subjects[at]));
                Ok(measured(round, subjects[at], 1.0))
            };
            rounds.go_on(plan, &subjects, measure).unwrap();
        };
        go_on(&Plan { budget: Duration::ZERO, ..plan }, &mut rounds);
        assert_eq!(rounds.kept.next_round(), 1, "there was no time");
        go_on(&plan, &mut rounds);
        seen.sort_unstable();
        // The one that has enough is left out, but for the baseline.
        let expected = [(1, "eevdf"), (1, "fifo"), (1, "vtime"), (2, "eevdf"), (2, "vtime")];
        assert_eq!(seen, expected);
    }

    #[test]
    fn figures_of_a_scheduler_are_paired_by_rounds() {
        let both = |round, pipe: f64, socket: f64| {
            let values = [("pipe".to_owned(), pipe), ("socket".to_owned(), socket)];
            Measured { values: BTreeMap::from(values), ..measured(round, "fifo", 0.0) }
        };
        let all = vec![both(0, 1.0, 2.0), measured(1, "fifo", 3.0), both(2, 4.0, 5.0)];
        let kept = Kept { setting: setting(), measured: all };
        assert_eq!(kept.pairs_within("pipe", "socket", "fifo"), [(1.0, 2.0), (4.0, 5.0)]);
        assert!(kept.pairs_within("pipe", "socket", "vtime").is_empty());
    }

    #[test]
    fn figures_of_another_program_are_no_part_of_these() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rounds.jsonl");
        Rounds::open(&path, &setting(), false).unwrap().add(measured(0, "fifo", 1.0)).unwrap();
        let other = Setting { program: "b".into(), ..setting() };
        let said = Rounds::open(&path, &other, false).err().unwrap().to_string();
        assert!(said.contains("--fresh"), "{said}");
        assert!(Rounds::open(&path, &other, true).unwrap().kept.measured.is_empty());
        assert!(path.with_extension("old.jsonl").exists());
    }

    #[test]
    fn a_load_that_failed_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut rounds =
            Rounds::open(&folder.path().join("rounds.jsonl"), &setting(), false).unwrap();
        let failed = BTreeMap::from([("pipe".to_owned(), "it ended".to_owned())]);
        let values = BTreeMap::new();
        rounds.add(Measured { round: 0, subject: "fifo".into(), values, failed }).unwrap();
        assert_eq!(rounds.kept.why_not("pipe", "fifo"), Some("it ended"));
        assert_eq!(rounds.kept.why_not("pipe", "vtime"), None);
    }
}
