//! The simulator as what runs a scenario for an experiment.

use std::time::Instant;

use metasched_abi::{DEFAULT_POLICY, EEVDF};
use metasched_base::{Interrupt, Result};
use metasched_experiment::{About, Contender, Counts, GroupRun, Runs, SeededBed, SeededRun, WHOLE};

use crate::arrangement::Arrangement;
use crate::runs::{Group, Run, Runner, Steps};
use crate::setup::Setup;

/// The command that gives a run again: of an arrangement, of one cgroup alone if there is one,
/// and the seed.
pub type AgainAlone<'a> = &'a dyn Fn(&Arrangement, Option<&str>, u64) -> String;

/// A scenario that is simulated, as a bed.
pub type ScenarioBed<'a> = SeededBed<Simulated<'a>>;

/// Simulates a scenario by its seeds.
pub struct Simulated<'a> {
    setup: &'a Setup,
    again: AgainAlone<'a>,
    interrupt: &'a Interrupt,
    steps: Option<Steps>,
}

impl<'a> Simulated<'a> {
    /// Nothing is simulated yet.
    pub fn new(setup: &'a Setup, again: AgainAlone<'a>, interrupt: &'a Interrupt) -> Self {
        Self { setup, again, interrupt, steps: None }
    }

    /// The bed of it, with the setup's seeds.
    pub fn bed(self) -> ScenarioBed<'a> {
        let first_seed = self.setup.first_seed;
        SeededBed::new(self, first_seed)
    }
}

impl Runs for Simulated<'_> {
    fn run(&mut self, subject: &str, jobs: &[(Contender, u64)]) -> Result<Vec<SeededRun>> {
        let mut contenders: Vec<&Contender> = Vec::new();
        let mut places: Vec<(usize, u64)> = Vec::new();
        for (contender, seed) in jobs {
            let known = contenders.iter().position(|known| *known == contender);
            places.push((known.unwrap_or(contenders.len()), *seed));
            if known.is_none() {
                contenders.push(contender);
            }
        }
        let made = contenders.iter().map(|c| Arrangement::of(c, &self.setup.settings));
        let made = made.collect::<Result<Vec<_>>>()?;
        let only = (subject != WHOLE).then_some(subject);
        let again = |made: Option<&Arrangement>, seed| {
            made.map_or_else(String::new, |made| (self.again)(made, only, seed))
        };
        let (setup, interrupt) = (self.setup, self.interrupt);
        let runner = Runner { setup, arrangements: &made, only, again: &again, interrupt };
        let steps = &mut self.steps;
        let runs = runner.jobs(&places, &mut || steps.iter_mut().for_each(Steps::step))?;
        Ok(runs.iter().map(seeded).collect())
    }

    fn expects(&mut self, most: usize) {
        let what = format!("simulating {}", self.setup.file.name);
        self.steps = Some(Steps::new(what, most, Instant::now()));
    }

    fn about(&self) -> About {
        let Setup { file, .. } = self.setup;
        // What changes lanes needs our program.
        let default = if file.needs_program() { DEFAULT_POLICY } else { EEVDF };
        let machine = self.setup.machine_text();
        About { machine, default: default.to_owned(), ..file.described() }
    }

    fn command(&self, contender: &Contender) -> Result<String> {
        let arrangement = Arrangement::of(contender, &self.setup.settings)?;
        Ok((self.again)(&arrangement, None, self.setup.first_seed))
    }
}

/// The figures by which a choice is made.
fn seeded(run: &Run) -> SeededRun {
    let groups = run.groups.iter().map(|group| (group.path.clone(), group.run()));
    SeededRun { groups: groups.collect(), window_ns: run.window_ns }
}

impl Group {
    /// How much its tasks did.
    pub(crate) fn counts(&self) -> Counts {
        let Group { figures, responses, done, .. } = self;
        let (bursts, cpu_ns) = (figures.bursts, figures.cpu_ns);
        Counts { done: *done, answered: responses.count(), bursts, cpu_ns }
    }

    /// The figures by which a choice is made.
    fn run(&self) -> GroupRun {
        let Group { figures, responses, .. } = self;
        let answers = responses.count() > 0;
        let p99 = if answers { responses } else { &figures.waits }.percentile_ns(0.99);
        GroupRun {
            counts: self.counts(),
            p99_us: p99.map_or(f64::NAN, |ns| ns as f64 / 1e3),
            latency_ns: match answers {
                true => responses.sum_ns(),
                false => figures.waits.sum_ns() + figures.cpu_ns,
            },
        }
    }
}
