//! One run, with a trace or a picture of a window of it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt, brief_time, format_duration};
use metasched_report::{Bar, Gantt, Lane, gantt};
use metasched_sim::perfetto::Perfetto;
use metasched_sim::timeline::Timeline;
use metasched_simbed::{Run, Runner, Setup, one};

use super::bed::ns;

/// A row of a picture is some thousand pixels wide: bars of more stays could not be told
/// from each other.
const STAYS: usize = 500;
/// A picture of more rows fits on no screen.
const CPUS: usize = 128;

/// The window that is drawn, ns since the start.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    from_ns: u64,
    to_ns: u64,
}

/// Where to write.
pub struct Files<'a> {
    pub trace: Option<&'a Path>,
    pub gantt: Option<&'a Path>,
}

impl Window {
    /// What counts of the run, unless something else is asked for.
    ///
    /// # Errors
    /// When nothing of the run lies in it.
    pub fn new(from: Option<Duration>, to: Option<Duration>, setup: &Setup) -> Result<Self> {
        let from_ns = from.map_or(setup.file.warm_up_ns, ns);
        let to_ns = to.map_or(setup.file.duration_ns, ns).min(setup.file.duration_ns);
        if from_ns < to_ns {
            return Ok(Window { from_ns, to_ns });
        }
        let [begins, ends] = [from_ns, to_ns].map(|ns| brief_time(ns as f64));
        let warm_up = if from.is_none() { ", where the warm-up ends" } else { "" };
        let cause = format!("it begins at {begins}{warm_up}, and ends at {ends}");
        let end = format_duration(Duration::from_nanos(setup.file.duration_ns));
        Err(Error::new(Kind::Usage, "draw that window", cause)
            .remedy(format!("choose --from before --to; the run ends at {end}")))
    }
}

/// Runs it, and writes the files, of a run that fails too.
///
/// # Errors
/// When the run fails, a file cannot be written, or a picture would be unreadable.
pub fn run(runner: &Runner, seed: u64, window: Window, files: &Files) -> Result<Run> {
    let (setup, arrangement) = (runner.setup, &runner.arrangements[0]);
    let Window { from_ns, to_ns } = window;
    let mut scenario = arrangement.scenario(setup, seed);
    let trace = match files.trace {
        None => None,
        Some(path) => {
            let file = File::create(path).attempt(Kind::Failed, || attempt(path))?;
            Some((path, Rc::new(RefCell::new(Perfetto::new(BufWriter::new(file), from_ns, to_ns)))))
        }
    };
    if let Some((_, trace)) = &trace {
        scenario = scenario.read_by(trace);
    }
    let timeline =
        files.gantt.map(|path| (path, Timeline::new(setup.spec.cpus, from_ns, to_ns, STAYS)));
    let timeline = timeline.map(|(path, timeline)| (path, Rc::new(RefCell::new(timeline))));
    if let Some((path, timeline)) = &timeline {
        refuse_many_cpus(path, setup.spec.cpus)?;
        scenario = scenario.read_by(timeline);
    }
    let ran = one(setup, scenario, runner.only, seed);
    if let Some((path, trace)) = &trace {
        trace.borrow_mut().written().attempt(Kind::Failed, || attempt(path))?;
        eprintln!("metasched: wrote the trace '{}'", path.display());
    }
    let about = format!("{}, {}, seed {seed}", arrangement.name, setup.machine_text());
    let drawn = timeline.map(|(path, timeline)| {
        let picture = picture(&timeline.borrow(), setup, &about, path)?;
        std::fs::write(path, gantt(&picture))
            .attempt(Kind::Failed, || attempt(path))
            .map(|()| eprintln!("metasched: wrote the picture '{}'", path.display()))
    });
    // What the run failed by comes first.
    let run = ran.map_err(|failure| runner.failed(arrangement, seed, &failure))?;
    drawn.transpose()?;
    Ok(run)
}

fn attempt(path: &Path) -> String {
    format!("write '{}'", path.display())
}

fn refuse_many_cpus(path: &Path, cpus: usize) -> Result<()> {
    if cpus <= CPUS {
        return Ok(());
    }
    let cause = format!("a picture of {cpus} CPUs would be unreadable");
    Err(Error::new(Kind::BadInput, attempt(path), cause)
        .remedy(format!("use --trace, or simulate at most {CPUS} CPUs")))
}

/// What is drawn of a window.
fn picture(timeline: &Timeline, setup: &Setup, about: &str, path: &Path) -> Result<Gantt> {
    let (from_ns, to_ns) = timeline.window_ns();
    if let Some(full) = timeline.full_ns() {
        // Rounded down to what can be typed.
        let to = Duration::from_micros(full / 1_000);
        let from = Duration::from_nanos(from_ns);
        let say = |time| format_duration(time).replace(' ', "");
        return Err(Error::new(
            Kind::BadInput,
            attempt(path),
            format!("a CPU runs more than {STAYS} tasks, one after the other, in that window"),
        )
        .remedy(format!("draw a shorter one: --from {} --to {}", say(from), say(to))));
    }
    let mut used: BTreeMap<&str, u64> = BTreeMap::new();
    let stays = timeline.rows().iter().flat_map(|row| &row.stays);
    for stay in stays {
        *used.entry(timeline.task(stay.task).1).or_default() += stay.to_ns - stay.from_ns;
    }
    // Colours go first to those who use most.
    let mut groups: Vec<&str> = used.keys().copied().collect();
    groups.sort_by_key(|group| std::cmp::Reverse(used[group]));
    let series = |cgroup: &str| groups.iter().position(|g| *g == cgroup).unwrap_or(groups.len());
    let lanes = timeline.rows().iter().enumerate().map(|(cpu, row)| Lane {
        label: format!("CPU {cpu}"),
        bars: row
            .stays
            .iter()
            .map(|stay| {
                let (name, cgroup) = timeline.task(stay.task);
                Bar {
                    from_ns: stay.from_ns,
                    to_ns: stay.to_ns,
                    series: series(cgroup),
                    label: name.to_owned(),
                }
            })
            .collect(),
        wasted: row.idle_beside_work.clone(),
    });
    let named = |group: &&str| if group.is_empty() { "(root)" } else { group }.to_owned();
    Ok(Gantt {
        title: setup.file.name.clone(),
        about: about.to_owned(),
        window_ns: (from_ns, to_ns),
        series: groups.iter().map(named).collect(),
        lanes: lanes.collect(),
    })
}
