//! `metasched latency --pid P --children`.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Result, brief_time, document, format_cpu_list};
use metasched_loader::FollowedProcess;
use metasched_stats::WaitHistogram;
use metasched_watch::{Bar, Following, LookingCost, PROCESS_FIGURES, bars};
use serde::Serialize;
use serde_json::{Map, Value};

use super::show::{NO_OVERHEAD, waits};
use super::{Args, Pieces};
use crate::commands::table::{Column, Fit, clear_screen, fitted, terminal_width};
use crate::context::{self, Context};

/// The text shows so many programs, those that waited longest; JSON has every process.
const SHOWN: usize = 20;
/// Of who ran instead of a process, so many.
const OTHERS_SHOWN: usize = 3;

/// All that was seen until now.
#[derive(Debug, Serialize)]
struct View {
    scheduler: String,
    length_ns: u64,
    /// All of them together.
    waits: Map<String, Value>,
    histogram: Vec<Bar>,
    /// The longest waits first.
    processes: Vec<Row>,
    /// Processes that there was no room for.
    missed: u64,
    overhead: Option<LookingCost>,
    #[serde(skip)]
    all: WaitHistogram,
    /// Processes of one name together, and how many these are.
    #[serde(skip)]
    programs: Vec<(usize, FollowedProcess)>,
}

#[derive(Debug, Serialize)]
struct Row {
    pid: u32,
    parent: Option<u32>,
    name: String,
    #[serde(flatten)]
    figures: Map<String, Value>,
    cpus: Vec<u32>,
    /// Who had the CPU that a thread of it waited for, by how long of these waits.
    instead: Vec<Other>,
}

#[derive(Debug, Serialize)]
struct Other {
    /// The thread's name; none for an idle CPU.
    name: Option<String>,
    wait_ns: u64,
    waits: u64,
    preemptions: u64,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let [pid] = args.pid[..] else {
        let cause = format!("{} processes are named", args.pid.len());
        return Err(Error::new(Kind::Usage, "follow a process and its children", cause)
            .remedy("name one; what it has started goes along"));
    };
    let following = Following::begin(pid, &context.interrupt)?;
    let mut pieces = Pieces::new(args, context);
    while let Some(()) = pieces.next() {
        if args.watch {
            let view = View::of(&following)?;
            match context.json {
                true => context::json_line(&view)?,
                false => {
                    context.print(&view, |view| format!("{}{}", clear_screen(), text(view)))?;
                }
            }
        }
    }
    drop(pieces);
    if !args.watch {
        context.print(&View::of(&following)?, text)?;
    }
    Ok(0)
}

impl View {
    fn of(following: &Following) -> Result<Self> {
        let processes = following.read()?;
        let mut view = Self::new(&processes);
        view.scheduler = following.scheduler().to_owned();
        view.length_ns = following.length_ns();
        view.missed = following.missed();
        view.overhead = following.overhead()?;
        Ok(view)
    }

    fn new(processes: &BTreeMap<u32, FollowedProcess>) -> Self {
        let mut all = WaitHistogram::default();
        processes.values().for_each(|process| all.merge(&process.waits));
        let mut sorted: Vec<&FollowedProcess> = processes.values().collect();
        sorted.sort_by_key(|process| (std::cmp::Reverse(process.waits.sum_ns), process.pid));
        Self {
            scheduler: String::new(),
            length_ns: 0,
            waits: document(WaitHistogram::FIGURES, &all),
            histogram: bars(&all),
            processes: sorted.into_iter().map(Row::of).collect(),
            missed: 0,
            overhead: None,
            all,
            programs: by_name(processes),
        }
    }
}

impl Row {
    fn of(process: &FollowedProcess) -> Self {
        let mut instead: Vec<Other> = process
            .others
            .iter()
            .map(|(name, other)| Other {
                name: (!name.is_empty()).then(|| name.clone()),
                wait_ns: other.wait_ns,
                waits: other.waits,
                preemptions: other.preemptions,
            })
            .collect();
        instead.sort_by_key(|other| std::cmp::Reverse((other.wait_ns, other.preemptions)));
        Self {
            pid: process.pid,
            parent: process.parent,
            name: process.name.clone(),
            figures: document(PROCESS_FIGURES, process),
            cpus: process.cpus.clone(),
            instead,
        }
    }

    /// Who ran instead of it, and for what part of its waits.
    fn others(&self) -> String {
        let named = |other: &Other| {
            let name = other.name.as_deref().unwrap_or("(an idle CPU)");
            format!("{name} {}", brief_time(other.wait_ns as f64))
        };
        let shown: Vec<String> = self.instead.iter().take(OTHERS_SHOWN).map(named).collect();
        shown.join(", ")
    }
}

/// Processes of one name, all together: a build has hundreds of compilers.
fn by_name(processes: &BTreeMap<u32, FollowedProcess>) -> Vec<(usize, FollowedProcess)> {
    let mut named: BTreeMap<&str, (usize, FollowedProcess)> = BTreeMap::new();
    for process in processes.values() {
        match named.get_mut(process.name.as_str()) {
            None => {
                named.insert(&process.name, (1, process.clone()));
            }
            Some((count, all)) => {
                *count += 1;
                all.merge(process);
            }
        }
    }
    let mut all: Vec<_> = named.into_values().collect();
    all.sort_by_key(|(_, all)| std::cmp::Reverse(all.waits.sum_ns));
    all
}

fn text(view: &View) -> String {
    let mut columns: Vec<Column> = vec![("PROGRAM", Fit::Names), ("PID", Fit::Whole)];
    // Those that stand last are left out first where there is no room.
    columns.extend(PROCESS_FIGURES.iter().enumerate().map(|(at, figure)| {
        let rank = PROCESS_FIGURES.len() - at;
        (figure.title, if at < 2 { Fit::Whole } else { Fit::Out(rank as u8) })
    }));
    columns.extend([("CPUS", Fit::Names), ("RAN INSTEAD, BEFORE IT", Fit::Prose)]);
    let cells = |(count, process): &(usize, FollowedProcess)| {
        let row = Row::of(process);
        let which = match count {
            1 => row.pid.to_string(),
            more => format!("{more} processes"),
        };
        let mut cells = vec![row.name.clone(), which];
        cells.extend(PROCESS_FIGURES.iter().map(|figure| figure.text(process)));
        cells.push(format_cpu_list(&row.cpus.iter().copied().collect()));
        cells.push(row.others());
        cells
    };
    let rows: Vec<Vec<String>> = view.programs.iter().take(SHOWN).map(cells).collect();
    let mut out = format!(
        "{} processes under {}, {}\n\n",
        view.processes.len(),
        view.scheduler,
        brief_time(view.length_ns as f64)
    );
    out += &fitted(&columns, &rows, terminal_width()).join("\n");
    if view.programs.len() > SHOWN {
        out += &format!("\n({} more; --json has them)", view.programs.len() - SHOWN);
    }
    out += "\n\nall of their waits, ";
    out += &waits(&view.all, view.length_ns);
    if view.missed > 0 {
        out += &format!("{} processes more were not followed: there is no room\n", view.missed);
    }
    match &view.overhead {
        Some(overhead) => out += &overhead.text(),
        None => out += NO_OVERHEAD,
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_loader::OtherTask;

    #[test]
    fn who_waited_longest_comes_first_with_who_ran_instead() {
        let process = |pid: u32, name: &str, wait_ns: u64| {
            let mut process = FollowedProcess { pid, name: name.into(), ..Default::default() };
            process.waits.add(wait_ns);
            process.cpus = vec![0, 1, 3];
            for (other, ns) in [("", 1_000), ("hog", wait_ns / 2)] {
                let ran = OtherTask { waits: 1, wait_ns: ns, preemptions: 0 };
                process.others.insert(other.into(), ran);
            }
            process
        };
        let processes = [(7, "make", 5), (8, "cc1", 9), (9, "cc1", 1)]
            .map(|(pid, name, ms)| (pid, process(pid, name, ms * 1_000_000)));
        let view = View::new(&processes.into());
        let names: Vec<&str> = view.processes.iter().map(|row| row.name.as_str()).collect();
        assert_eq!(names, ["cc1", "make", "cc1"]);
        assert_eq!(view.processes[0].others(), "hog 4.50 ms, (an idle CPU) 1 us");
        let text = text(&view);
        assert!(text.contains("cc1      2 processes  0 ns  10 ms "), "{text}");
        assert!(text.contains("make     7 ") && text.contains("0-1,3"), "{text}");
        assert!(text.contains("3 waits, "), "{text}");
        assert_eq!(view.processes[0].figures["wait_max_ns"], 9_000_000);
    }
}
