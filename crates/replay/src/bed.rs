//! A scenario that is replayed with real threads, as what an experiment runs.

use metasched_base::{Error, Interrupt, Kind, Progress, Result};
use metasched_control::{Candidate, EEVDF};
use metasched_experiment::{About, Contender, GroupRun, Runs, SeededRun, WHOLE};
use metasched_host::machine::HostFacts;
use metasched_profile::measure::Executor;
use metasched_profile::subject;
use metasched_scenario::file::ScenarioFile;

use crate::figures::{Replayed, ReplayedGroup};
use crate::replay::Replay;
use crate::replayable::Replayable;

/// Replays a scenario by its seeds, one run after the other.
pub struct ReplayRuns<'a> {
    /// The scenario.
    pub file: &'a ScenarioFile,
    /// This machine.
    pub host: &'a HostFacts,
    /// The schedulers that there are.
    pub table: &'a [Candidate],
    /// Puts contenders in force.
    pub executor: &'a mut (dyn Executor + 'a),
    /// Ends it early.
    pub interrupt: &'a Interrupt,
    /// The command that replays it, to which the scheduler is added.
    pub again: String,
    /// What is shown meanwhile.
    pub progress: Option<Progress>,
}

impl ReplayRuns<'_> {
    fn one(&mut self, replay: &Replay, contender: &Contender, seed: u64) -> Result<SeededRun> {
        self.interrupt.check("the replay")?;
        let cgroups = |part: &str| {
            let cgroup = replay.cgroup(part).ok_or_else(|| {
                let attempt = format!("give '{part}' a lane");
                Error::new(Kind::Failed, attempt, "the replay has no such cgroup")
            })?;
            Ok(vec![cgroup.name()])
        };
        let subject = subject(contender, self.table, &cgroups)?;
        self.executor.enter(&subject)?;
        let mut replayed = None;
        let interrupt = self.interrupt;
        self.executor.during(&subject, &mut |_| replayed = Some(replay.run(seed, interrupt)))?;
        let none = || Err(Error::new(Kind::Failed, "replay the scenario", "it did not begin"));
        replayed.unwrap_or_else(none).map(|replayed| seeded(&replayed))
    }
}

impl Runs for ReplayRuns<'_> {
    fn run(&mut self, subject: &str, jobs: &[(Contender, u64)]) -> Result<Vec<SeededRun>> {
        let only = (subject != WHOLE).then_some(subject);
        let replayable = Replayable::of(self.file, only, self.host.cpus as usize)?;
        let replay = Replay::prepare(&replayable)?;
        let mut runs = Vec::new();
        let mut done = Ok(());
        for (contender, seed) in jobs {
            match self.one(&replay, contender, *seed) {
                Ok(run) => runs.push(run),
                Err(error) => {
                    done = Err(error);
                    break;
                }
            }
            self.progress.iter().for_each(Progress::step);
        }
        // No lane may have a cgroup that goes.
        let left = self.executor.baseline().and_then(|baseline| self.executor.enter(&baseline));
        let removed = replay.remove();
        done.and(left.map(drop)).and(removed).map(|()| runs)
    }

    fn expects(&mut self, most: usize) {
        self.progress = Some(Progress::new(format!("replaying {}", self.file.name), most as u64));
    }

    fn about(&self) -> About {
        let count = |n: u32, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let HostFacts { cpus, llcs, nodes, .. } = *self.host;
        let (cpus, llcs) = (count(cpus, "CPU"), count(llcs, "LLC"));
        About {
            kernel: Some(self.host.kernel_release.clone()),
            machine: format!("this machine, {cpus}, {llcs}, {}", count(nodes, "node")),
            default: EEVDF.to_owned(),
            ..self.file.described()
        }
    }

    fn command(&self, contender: &Contender) -> Result<String> {
        // Turns and lanes of one's choice are not among the options of a single replay.
        Ok(match contender {
            Contender::Scheduler { name } => format!("{} --policy {name}", self.again),
            _ => String::new(),
        })
    }
}

fn seeded(replayed: &Replayed) -> SeededRun {
    let groups = replayed.groups.iter().map(|(path, group)| (path.clone(), of_group(group)));
    SeededRun { groups: groups.collect(), window_ns: replayed.window_ns }
}

/// The figures by which a choice is made.
fn of_group(group: &ReplayedGroup) -> GroupRun {
    let answers = group.responses.count() > 0;
    let p99_ns = match answers {
        true => group.responses.percentile_ns(0.99),
        false => group.waits.as_ref().and_then(|waits| waits.percentile_ns(0.99)),
    };
    GroupRun {
        counts: group.counts(),
        p99_us: p99_ns.map_or(f64::NAN, |ns| ns as f64 / 1e3),
        latency_ns: match answers {
            true => group.responses.sum_ns(),
            false => group.waited_ns + group.cpu_ns,
        },
    }
}
