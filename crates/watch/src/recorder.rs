//! Records waits, piece by piece.

use std::path::Path;
use std::time::Instant;

use metasched_base::{Error, Interrupt, Kind, Result};
use metasched_host::machine::machine;
use metasched_loader::{CountRuns, LaneInfo, Runs, WaitTracer, Waiters};
use metasched_stats::WaitHistogram;

use crate::force::{Force, in_force};
use crate::looking_cost::LookingCost;
use crate::recording::{Piece, Recording, Subject};
use crate::whom::{Whom, lane};

/// Records how long the tasks of some subjects wait for a CPU, from when it is made until it is
/// asked for the recording.
pub struct Recorder {
    recording: Recording,
    /// None where only lanes were asked for, whose waits level 1 counts anyhow.
    tracer: Option<WaitTracer>,
    counting: Option<CountRuns>,
    ran_before: Runs,
    sources: Vec<Source>,
    force: Force,
    began: Instant,
    /// When the last piece ended.
    last: Instant,
    interrupt: Interrupt,
}

/// Where the waits of a subject come from.
enum Source {
    /// The tracer has them at this place, and had these.
    Tracer { place: usize, earlier: WaitHistogram },
    /// A lane, as it was at the last look.
    Lane { name: String, earlier: Box<LaneInfo> },
}

impl Source {
    fn is_lane(&self) -> bool {
        matches!(self, Self::Lane { .. })
    }
}

impl Recorder {
    /// Begins to record; how long they run, too, of those that are traced, if `runs` says so.
    ///
    /// # Errors
    /// `BadInput` where a subject is not there; for a lane, where metasched keeps no scheduler
    /// with lanes. Else as [`WaitTracer::attach`].
    pub fn begin(whom: &[Whom], runs: bool, interrupt: &Interrupt) -> Result<Self> {
        let root = Path::new("/");
        let force = in_force(interrupt)?;
        let (mut waiters, mut sources): (Vec<Waiters>, Vec<Source>) = Default::default();
        for one in whom {
            sources.push(match (one, one.waiters(root)?) {
                (_, Some(asked)) => {
                    waiters.push(asked);
                    Source::Tracer { place: waiters.len() - 1, earlier: WaitHistogram::default() }
                }
                (Whom::Lane(name), None) => {
                    let earlier = Box::new(lane_now(&force, name)?.clone());
                    Source::Lane { name: name.clone(), earlier }
                }
                (other, None) => unreachable!("{other} is traced"),
            });
        }
        let attach = if runs { WaitTracer::attach_with_runs } else { WaitTracer::attach };
        let tracer = (!waiters.is_empty()).then(|| attach(&waiters)).transpose()?;
        // Without it is recorded all the same, and what that takes is not known.
        let counting = tracer.as_ref().and_then(|_| CountRuns::start().ok());
        let mut recording = Recording::of(&machine(root)?, force.scheduler.clone());
        let subject = |whom: &Whom| Subject { whom: whom.clone(), pieces: Vec::new(), runs: None };
        recording.subjects = whom.iter().map(subject).collect();
        let ran_before = tracer.as_ref().map_or(Ok(Runs::default()), WaitTracer::runs)?;
        // To attach takes time: only now begins what is recorded, of lanes too.
        tracer.as_ref().map_or(Ok(()), WaitTracer::reset)?;
        let force = if sources.iter().any(Source::is_lane) { in_force(interrupt)? } else { force };
        for source in &mut sources {
            if let Source::Lane { name, earlier } = source {
                **earlier = lane_now(&force, name)?.clone();
            }
        }
        let began = Instant::now();
        Ok(Self {
            recording,
            tracer,
            counting,
            ran_before,
            sources,
            force,
            began,
            last: began,
            interrupt: interrupt.clone(),
        })
    }

    /// Ends a piece: the waits since the last one, of each subject.
    ///
    /// # Errors
    /// When they cannot be read; for a lane, when it is gone.
    pub fn piece(&mut self) -> Result<Vec<&Piece>> {
        let traced = self.tracer.as_ref().map_or(Ok(Vec::new()), WaitTracer::read)?;
        let force = if self.sources.iter().any(Source::is_lane) {
            Some(in_force(&self.interrupt)?)
        } else {
            None
        };
        let now = Instant::now();
        let length_ns = now.duration_since(self.last).as_nanos() as u64;
        for (source, subject) in self.sources.iter_mut().zip(&mut self.recording.subjects) {
            let waits = match source {
                Source::Tracer { place, earlier } => {
                    let waits = traced[*place].since(earlier);
                    earlier.clone_from(&traced[*place]);
                    waits
                }
                Source::Lane { name, earlier } => {
                    let force = force.as_ref().expect("asked above");
                    let now = lane_now(force, name)?;
                    let waits = lane_waits(earlier, now);
                    **earlier = now.clone();
                    waits?
                }
            };
            subject.pieces.push(Piece { length_ns, waits });
        }
        self.last = now;
        self.recording.length_ns = now.duration_since(self.began).as_nanos() as u64;
        Ok(self.recording.subjects.iter().filter_map(|subject| subject.pieces.last()).collect())
    }

    /// What was recorded until the last piece ended.
    pub fn finish(mut self) -> Result<Recording> {
        if let (Some(tracer), Some(_)) = (&self.tracer, &self.counting) {
            let runs = tracer.runs()?.since(&self.ran_before);
            let Recording { length_ns, cpus, .. } = self.recording;
            self.recording.overhead = Some(LookingCost::new(runs, length_ns, cpus));
        }
        if let Some(tracer) = &self.tracer {
            let runs = tracer.read_runs()?;
            for (source, subject) in self.sources.iter().zip(&mut self.recording.subjects) {
                if let Source::Tracer { place, .. } = source {
                    subject.runs = runs.get(*place).cloned();
                }
            }
        }
        let later = in_force(&self.interrupt)?;
        let same = later.scheduler == self.force.scheduler && later.enabled == self.force.enabled;
        self.recording.scheduler_later = (!same).then_some(later.scheduler);
        Ok(self.recording)
    }
}

fn lane_now<'a>(force: &'a Force, name: &str) -> Result<&'a LaneInfo> {
    let keeper = force.keeper.as_ref().filter(|keeper| !keeper.lanes.is_empty());
    let keeper = keeper.ok_or_else(|| {
        let cause = format!("'{}' is in force, which has no lanes", force.scheduler);
        Error::new(Kind::BadInput, format!("look at the lane of '{name}'"), cause)
            .remedy("start one that lanes can be in: metasched start vtime")
    })?;
    lane(keeper, name)
}

/// What a lane's tasks waited since the look before; of a lane that has replaced another all.
fn lane_waits(earlier: &LaneInfo, now: &LaneInfo) -> Result<WaitHistogram> {
    let all = now.waits.as_ref().ok_or_else(|| {
        Error::new(
            Kind::Unsupported,
            "read how long a lane's tasks wait",
            "the kernel does not tell",
        )
        .remedy("use one with CONFIG_SCHED_INFO, or trace its cgroups with --cgroup")
    })?;
    match &earlier.waits {
        Some(before) if earlier.generation == now.generation => Ok(all.since(before)),
        _ => Ok(all.clone()),
    }
}
