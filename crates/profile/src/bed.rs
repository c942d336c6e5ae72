//! Workloads on this machine, as a bed.

use metasched_base::Result;
use metasched_control::{Candidate, resolve};
use metasched_experiment::{Bed, Contender, Effort, Measured, Share};

use crate::analysis::{Declared, analyse};
use crate::manifest::Workload;
use crate::measure::{Executor, Observer, Options, Request, measure_subjects};
use crate::runner::{Site, cgroup_name, top};
use crate::{Error, Kind, Store, Subject, TurnShare};

/// A workload that is measured on this machine, into a store.
pub struct WorkloadBed<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// The schedulers that there are.
    pub table: &'a [Candidate],
    /// Where it runs.
    pub site: &'a Site,
    /// Puts subjects in force.
    pub executor: &'a mut dyn Executor,
    /// Where figures are kept.
    pub store: &'a mut Store,
    /// Receives the events.
    pub observer: Observer<'a>,
    /// How to measure, but for what each call says.
    pub options: Options,
}

impl Bed for WorkloadBed<'_> {
    fn measure(
        &mut self,
        subjects: &[String],
        contenders: &[Contender],
        effort: &Effort,
    ) -> Result<()> {
        let cgroups = |part: &str| cgroups_of(part, self.workload, &subjects[0]);
        let under = contenders
            .iter()
            .map(|contender| subject(contender, self.table, &cgroups))
            .collect::<Result<Vec<_>>>()?;
        let options =
            Options { rules: effort.rules, budget: effort.budget, ..self.options.clone() };
        let request = Request {
            workload: self.workload,
            forms: subjects,
            subjects: &under,
            options: &options,
        };
        let observer = &mut *self.observer;
        measure_subjects(&request, self.site, self.executor, self.store, observer).map(drop)
    }

    fn measured(&mut self) -> Result<Measured> {
        let manifest = &self.workload.manifest;
        let analysis = analyse(self.store, Some(&manifest.name), |_| Declared::of(manifest))?;
        Ok(analysis.measured())
    }
}

/// The contender as a subject: with versions, and of lanes with the cgroups of their parts, as
/// `cgroups_of` finds them.
///
/// # Errors
/// When there is no such scheduler, or a part has no cgroup of its own.
pub fn subject(
    contender: &Contender,
    table: &[Candidate],
    cgroups_of: &dyn Fn(&str) -> Result<Vec<String>>,
) -> Result<Subject> {
    let share = |share: &Share| -> Result<TurnShare> {
        let candidate = resolve(table, &share.scheduler)?;
        Ok(TurnShare::new(share.name(), &candidate, share.weight))
    };
    Ok(match contender {
        Contender::Scheduler { name } => Subject::scheduler(&resolve(table, name)?),
        Contender::Turns { strategy, mechanism, base_slice_ms, turns } => Subject::Strategy {
            strategy: strategy.to_string(),
            mechanism: mechanism.parse()?,
            base_slice_ms: *base_slice_ms,
            turns: turns.iter().map(share).collect::<Result<_>>()?,
        },
        Contender::Lanes { strategy, default, lanes } => {
            let default = resolve(table, default)?;
            let lane = |lane: &Share| {
                let mut cgroups = Vec::new();
                for part in &lane.parts {
                    cgroups.extend(cgroups_of(part)?);
                }
                Ok(share(lane)?.cgroups(cgroups))
            };
            Subject::Lanes {
                strategy: strategy.map(|strategy| strategy.to_string()),
                default: (Subject::scheduler(&default).to_string(), default.version.clone()),
                lanes: lanes.iter().map(lane).collect::<Result<_>>()?,
            }
        }
    })
}

/// The cgroups of a part while the whole runs.
///
/// # Errors
/// When it has none for itself.
pub fn cgroups_of(part: &str, workload: &Workload, whole: &str) -> Result<Vec<String>> {
    // Of a pair each is in one, with the tool that loads it.
    if let Some(side) = workload.side(part) {
        return Ok(vec![top(&side.workload.manifest.name)]);
    }
    let own = workload.part_cgroups(part, whole);
    if own.is_empty() {
        return Err(Error::new(
            Kind::BadInput,
            format!("put the parts of '{whole}' on lanes"),
            format!("'{part}' has no cgroup of its own there"),
        )
        .remedy("have it run in processes of its own; for qa: --set layout=split"));
    }
    Ok(own.into_iter().map(|own| cgroup_name(&workload.manifest.name, own)).collect())
}
