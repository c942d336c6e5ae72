//! A scenario in the simulator, as a bed: its cgroups are the parts.

use std::collections::BTreeSet;
use std::time::Instant;

use metasched_abi::{DEFAULT_POLICY, EEVDF};
use metasched_base::{Interrupt, Result};
use metasched_experiment::{
    Bed, CandidateRounds, Contender, Effort, Measured, Need, Objective, Part, Round, Sample, Whole,
    losers, need,
};
use metasched_sim::figures::GroupFigures;

use crate::arrangement::Arrangement;
use crate::runs::{Group, Run, Runner, Steps};
use crate::setup::Setup;
use crate::work::Work;

/// The name of all cgroups together.
pub const WHOLE: &str = "all";

/// The command that gives a run again: of an arrangement, of one cgroup alone if there is one,
/// and the seed.
pub type AgainAlone<'a> = &'a dyn Fn(&Arrangement, Option<&str>, u64) -> String;

/// A scenario that is simulated.
pub struct ScenarioBed<'a> {
    setup: &'a Setup,
    again: AgainAlone<'a>,
    interrupt: &'a Interrupt,
    /// What all others are compared with.
    default: Contender,
    subjects: Vec<Subject>,
    first_seed: u64,
    simulated: u64,
}

/// A cgroup, or all of them, and what was simulated of it. The n-th run of each contender has the
/// n-th seed.
struct Subject {
    name: String,
    default: Vec<Run>,
    contenders: Vec<(Contender, Vec<Run>)>,
}

impl<'a> ScenarioBed<'a> {
    /// Nothing is simulated yet.
    pub fn new(setup: &'a Setup, again: AgainAlone<'a>, interrupt: &'a Interrupt) -> Self {
        // What changes lanes needs our program.
        let default = if setup.file.needs_program() { DEFAULT_POLICY } else { EEVDF };
        let default = Contender::scheduler(default);
        let (subjects, first_seed) = (Vec::new(), setup.first_seed);
        Self { setup, again, interrupt, default, subjects, first_seed, simulated: 0 }
    }

    /// The same from another seed on than the setup's.
    #[must_use]
    pub fn from_seed(self, first_seed: u64) -> Self {
        Self { first_seed, ..self }
    }

    /// What is simulated.
    pub fn setup(&self) -> &Setup {
        self.setup
    }

    /// The scenario's name.
    pub fn name(&self) -> &str {
        &self.setup.file.name
    }

    /// The scheduler that all are compared with.
    pub fn default_name(&self) -> String {
        self.default.to_string()
    }

    /// How many runs were simulated so far.
    pub fn simulated(&self) -> u64 {
        self.simulated
    }

    /// The cgroups that can have lanes.
    pub fn parts(&self) -> Vec<String> {
        self.paths().into_iter().filter(|path| !path.is_empty()).cloned().collect()
    }

    /// How many cgroups have tasks, the root among them.
    pub fn cgroups(&self) -> usize {
        self.paths().len()
    }

    fn paths(&self) -> BTreeSet<&String> {
        self.setup.file.tasks.iter().map(|task| &task.cgroup).collect()
    }

    /// The command that simulates a contender alone.
    ///
    /// # Errors
    /// When it cannot be simulated.
    pub fn command(&self, contender: &Contender) -> Result<String> {
        let arrangement = Arrangement::of(contender, &self.setup.settings)?;
        Ok((self.again)(&arrangement, None, self.first_seed))
    }

    /// Simulates what a subject still needs under contenders; the first is the default.
    fn subject(
        &mut self,
        at: usize,
        contenders: &[Contender],
        effort: &Effort,
        steps: &mut Steps,
    ) -> Result<()> {
        let made = std::iter::once(&self.default)
            .chain(contenders)
            .map(|contender| Arrangement::of(contender, &self.setup.settings))
            .collect::<Result<Vec<_>>>()?;
        let name = self.subjects[at].name.clone();
        let only = (name != WHOLE).then_some(name.as_str());
        let (setup, first) = (self.setup, self.first_seed);
        let again = |made: Option<&Arrangement>, seed| {
            made.map_or_else(String::new, |made| (self.again)(made, only, seed))
        };
        let interrupt = self.interrupt;
        let runner = Runner { setup, arrangements: &made, only, again: &again, interrupt };
        loop {
            let subject = &mut self.subjects[at];
            let places = subject.places(contenders);
            let wanted = subject.wanted(setup, &places, effort);
            let mut jobs: Vec<(usize, u64)> = Vec::new();
            let mut until = subject.default.len() as u32;
            for (which, runs, more) in &wanted {
                jobs.extend((*runs..runs + more).map(|n| (which + 1, first + u64::from(n))));
                until = until.max(runs + more);
            }
            if wanted.is_empty() {
                return Ok(());
            }
            let has = subject.default.len() as u32;
            jobs.extend((has..until).map(|n| (0, first + u64::from(n))));
            self.simulated += jobs.len() as u64;
            let subject = &mut self.subjects[at];
            for ((which, _), run) in jobs.iter().zip(runner.jobs(&jobs, &mut || steps.step())?) {
                match which.checked_sub(1) {
                    None => subject.default.push(run),
                    Some(which) => subject.contenders[places[which]].1.push(run),
                }
            }
        }
    }
}

impl Bed for ScenarioBed<'_> {
    fn measure(
        &mut self,
        subjects: &[String],
        contenders: &[Contender],
        effort: &Effort,
    ) -> Result<()> {
        // At most: those that are precise, or surely not the best, have fewer runs.
        let most = subjects.len() * (contenders.len() + 1) * effort.rules.max_rounds as usize;
        let mut steps = Steps::new(format!("simulating {}", self.name()), most, Instant::now());
        for name in subjects {
            let known = self.subjects.iter().position(|subject| subject.name == *name);
            let at = known.unwrap_or_else(|| {
                let (default, contenders) = (Vec::new(), Vec::new());
                self.subjects.push(Subject { name: name.clone(), default, contenders });
                self.subjects.len() - 1
            });
            self.subject(at, contenders, effort, &mut steps)?;
        }
        Ok(())
    }

    fn measured(&mut self) -> Result<Measured> {
        let (wholes, parts): (Vec<_>, Vec<_>) =
            self.subjects.iter().partition(|subject| subject.name == WHOLE);
        Ok(Measured {
            application: self.setup.file.name.clone(),
            machine: self.setup.machine_text(),
            default: self.default_name(),
            parts: parts.into_iter().map(|part| part.part(self.setup)).collect(),
            whole: wholes.first().map(|whole| whole.whole(self.setup)),
            ..Measured::default()
        })
    }
}

impl Subject {
    /// The places of contenders; those that are new have no runs.
    fn places(&mut self, contenders: &[Contender]) -> Vec<usize> {
        let mut place = |contender: &Contender| {
            let known = self.contenders.iter().position(|(known, _)| known == contender);
            known.unwrap_or_else(|| {
                self.contenders.push((contender.clone(), Vec::new()));
                self.contenders.len() - 1
            })
        };
        contenders.iter().map(&mut place).collect()
    }

    /// Which of the contenders at these places want more runs: which one it is of them, how
    /// many it has, and how many more.
    fn wanted(&self, setup: &Setup, places: &[usize], effort: &Effort) -> Vec<(usize, u32, u32)> {
        let groups = self.groups(setup);
        let objective = self.objective(&groups);
        let rounds: Vec<CandidateRounds> =
            places.iter().map(|place| self.rounds(*place, &groups)).collect();
        let lost = match effort.rules.drop_losers {
            true => losers(&rounds, objective),
            false => Vec::new(),
        };
        let wants = |(which, candidate): (usize, &CandidateRounds)| {
            if lost.iter().any(|lost| lost.place == which) {
                return None;
            }
            let has = candidate.rounds.len() as u32;
            match need(&candidate.pairs(objective), &effort.rules) {
                // One by one after the first, so that each look at the race is taken.
                Need::Rounds(more) => Some((which, has, if has == 0 { more.min(3) } else { 1 })),
                _ => None,
            }
        };
        rounds.iter().enumerate().filter_map(wants).collect()
    }

    /// Its cgroups: what the work of each is counted in, and what it is for. The work is of one
    /// kind in all runs, or it could not be compared.
    fn groups(&self, setup: &Setup) -> Vec<(String, Work, Objective)> {
        let Some(first) = self.default.first() else { return Vec::new() };
        let runs = || self.default.iter().chain(self.contenders.iter().flat_map(|(_, runs)| runs));
        let of = |group: &Group| {
            let path = group.path.as_str();
            let work = Work::of(|has| runs().all(|run| run.group(path).is_some_and(has)));
            let objective = setup.objective(path);
            let by_default = || Objective::by_default(work == Work::Requests);
            (path.to_owned(), work, objective.unwrap_or_else(by_default))
        };
        first.groups.iter().map(of).collect()
    }

    fn objective(&self, groups: &[(String, Work, Objective)]) -> Objective {
        match groups {
            [(_, _, objective)] => *objective,
            [] => Objective::default(),
            _ => Objective::Parts,
        }
    }

    /// The rounds of the contender at a place.
    fn rounds(&self, place: usize, groups: &[(String, Work, Objective)]) -> CandidateRounds {
        let (contender, runs) = &self.contenders[place];
        let rounds = runs.iter().zip(&self.default).map(|(run, default)| Round {
            number: run.seed,
            candidate: sample(run, groups),
            default: sample(default, groups),
        });
        CandidateRounds::new(contender.to_string(), rounds.collect())
    }

    fn part(&self, setup: &Setup) -> Part {
        let groups = self.groups(setup);
        let asked = setup.file.lanes.iter().find(|lane| lane.cgroup == self.name);
        Part {
            name: self.name.clone(),
            objective: self.objective(&groups),
            latency_us: latency_us(self.default.iter().map(|run| &run.all)),
            candidates: (0..self.contenders.len()).map(|at| self.rounds(at, &groups)).collect(),
            asked: asked.map(|lane| lane.policy.clone()),
        }
    }

    fn whole(&self, setup: &Setup) -> Whole {
        let groups = self.groups(setup);
        let mut whole = Whole {
            name: self.name.clone(),
            objective: self.objective(&groups),
            ..Whole::default()
        };
        for (at, (contender, _)) in self.contenders.iter().enumerate() {
            let rounds = self.rounds(at, &groups);
            match contender {
                Contender::Scheduler { .. } => whole.candidates.push(rounds),
                several => whole.metaschedulers.push((several.clone(), rounds.rounds)),
            }
        }
        whole
    }
}

/// The figures of a run: of its only cgroup, or of all of them together.
fn sample(run: &Run, groups: &[(String, Work, Objective)]) -> Sample {
    let none = Group::default();
    let of = |(path, work, objective): &(String, Work, Objective)| {
        let group = run.group(path).unwrap_or(&none);
        (*objective, Sample::new(work.per_second(group, run), tail_us(group)))
    };
    match groups {
        [one] => of(one).1,
        several => Sample::of_parts(&several.iter().map(of).collect::<Vec<_>>()),
    }
}

/// The 99th percentile of responses, where there are any, else of waits, us.
fn tail_us(group: &Group) -> f64 {
    let of = if group.responses.count() > 0 { &group.responses } else { &group.figures.waits };
    of.percentile_ns(0.99).map_or(f64::NAN, |ns| ns as f64 / 1e3)
}

/// The mean time of a response; where there are none, that from a wake-up to the sleep
/// after it. Absent where tasks never sleep.
fn latency_us<'a>(groups: impl Iterator<Item = &'a Group>) -> Option<f64> {
    let (mut ns, mut count) = (0, 0);
    for group in groups {
        if group.responses.count() > 0 {
            ns += group.responses.sum_ns();
            count += group.responses.count();
        } else {
            let GroupFigures { waits, cpu_ns, bursts, .. } = &group.figures;
            ns += waits.sum_ns() + cpu_ns;
            count += bursts;
        }
    }
    (count > 0).then(|| ns as f64 / count as f64 / 1e3)
}
