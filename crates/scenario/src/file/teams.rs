//! Parallel programs in virtual machines: a team of threads each, one for each virtual CPU.

use super::raw;
use super::read::{MANY, Reader, task_names};
use super::values::{self, duration_ns, wrong};
use crate::cpu_mask::MAX_CPUS;
use crate::shared::{SharedSpec, TeamSpec};
use crate::step::{Name, Step};
use crate::task::TaskSpec;
use metasched_base::{Result, nearest};

/// What blocking costs a virtual CPU unless the file says otherwise, ns. With 36 threads and 250 us
/// from one barrier to the next a program that blocks then takes 1.8 times as long as one that
/// spins: as NPB's UA was published to do on an idle host. docs/results-paravirt.md has the
/// figures.
const HALT_NS: u64 = 5_000;
const WAKE_NS: u64 = 6_000;
const RESUME_NS: u64 = 20_000;
/// Over how long a time the host tells its machines of CPUs: a tick of 250 Hz.
const WINDOW_NS: u64 = 4_000_000;
/// How a thread waits.
const WAITS: [&str; 2] = ["spin", "block"];
/// Parts that are less alike than these have one thread do nearly all.
const IMBALANCE_MOST: f64 = 2.0;

impl Reader<'_> {
    /// All of them, with their tasks added to the others.
    pub fn teams(
        &self,
        file: &raw::File,
        tasks: &mut Vec<TaskSpec>,
        shared: &mut SharedSpec,
    ) -> Result<()> {
        let mut names = Vec::new();
        for name in task_names(file) {
            names.push(self.name(name, &names)?);
        }
        for team in &file.team {
            let spec = self.team(team)?;
            let name: Name = team.name.get_ref().as_str().into();
            let cgroup =
                team.cgroup.as_ref().map_or(Ok(String::new()), |path| self.cgroup(path))?;
            let weight = self.weight(&team.weight, &team.nice)?.unwrap_or(100);
            tasks.extend((0..spec.threads).map(|thread| {
                TaskSpec {
                    allowed: spec.allowed,
                    ..TaskSpec::named(format!("{name} {thread}"))
                        .in_group(&*name)
                        .in_cgroup(&cgroup)
                        .weight(weight)
                        .arrives(spec.arrives_ns)
                        .step(Step::Team { team: name.clone(), thread })
                }
            }));
            shared.teams.insert(name, spec);
        }
        Ok(())
    }

    fn team(&self, raw: &raw::Team) -> Result<TeamSpec> {
        let threads = self.number(&Some(raw.threads.clone()), 1, 1..=MAX_CPUS as u64)?;
        let work = self.text(&raw.work, |text| match values::span(text)? {
            span if span.mean_ns() == 0 => {
                Err(wrong("a region that takes no time", "write what it computes, as \"9ms\""))
            }
            span => Ok(span),
        })?;
        let spins = match &raw.wait {
            None => true,
            Some(text) => self.text(text, |text| match text {
                "spin" => Ok(true),
                "block" => Ok(false),
                other => {
                    let near = nearest(other, WAITS).map(|near| format!("did you mean '{near}'?"));
                    let remedy = near.unwrap_or_else(|| format!("there are {}", WAITS.join(", ")));
                    Err(wrong(format!("no thread waits by '{other}'"), remedy))
                }
            })?,
        };
        let window_ns = match &raw.window {
            None => WINDOW_NS,
            Some(text) if !raw.adapt => {
                let cause = "a window is of a team whose number of threads changes";
                let remedy = "remove it, or write adapt = true";
                return Err(self.wrong(text.span().start, wrong(cause, remedy)));
            }
            Some(text) => self.text(text, |text| match duration_ns(text)? {
                0 => Err(wrong("a window of no time", "write \"4ms\"")),
                ns => Ok(ns),
            })?,
        };
        if let Some(owed) = raw.owed.as_ref().filter(|_| !raw.adapt) {
            let cause = "CPUs are owed to a team whose number of threads changes";
            return Err(
                self.wrong(owed.span().start, wrong(cause, "remove it, or write adapt = true"))
            );
        }
        Ok(TeamSpec {
            threads: threads as usize,
            regions: match &raw.regions {
                None => None,
                regions => Some(self.number(regions, 1, MANY)?),
            },
            barriers: self.number(&raw.barriers, 1, MANY)?,
            work,
            imbalance_thousandths: self.thousandths(&raw.imbalance, 0.0, 0.0..=IMBALANCE_MOST)?
                as u32,
            spins,
            halt_ns: self.duration(&raw.halt, HALT_NS)?,
            wake_ns: self.duration(&raw.wake, WAKE_NS)?,
            resume_ns: self.duration(&raw.resume, RESUME_NS)?,
            adapts_to_ns: raw.adapt.then_some(window_ns),
            owed: raw.owed.as_ref().is_none_or(|owed| *owed.get_ref()),
            allowed: raw.affinity.as_ref().map(|text| self.text(text, values::cpus)).transpose()?,
            arrives_ns: self.duration(&raw.arrives, 0)?,
        })
    }
}
