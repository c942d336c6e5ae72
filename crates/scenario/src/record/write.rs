//! Groups of tasks as a scenario file tells them.

use super::chains::Chains;
use super::fit::{span, span_of_mean};
use super::groups::{Group, Life};
use super::recording::{CgroupFacts, Recording};
use crate::machine::{HZ, HZ_RANGE};
use metasched_base::{brief_time, format_cpu_list};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A task that wakes others this often between two sleeps runs in parts.
const PARTS: u64 = 4;
/// A loop that is longer says nothing any more.
const LOOP_MAX: u64 = 10_000;
/// The nice value that comes nearest to a real-time priority.
const NEAREST_TO_REAL_TIME: i64 = -20;

/// A word as TOML quotes it.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// The machine of a recording; the CPUs that were seen where it is not known.
pub(super) fn machine(recording: &Recording) -> String {
    let seen = recording.events.iter().map(|event| event.cpu + 1).max().unwrap_or(1);
    let Some(machine) = recording.machine else { return format!("\n[machine]\ncpus = {seen}\n") };
    let mut text = format!("\n[machine]\ncpus = {}\n", machine.cpus);
    for (key, value) in [("llcs", machine.llcs), ("nodes", machine.nodes)] {
        if value > 1 {
            text += &format!("{key} = {value}\n");
        }
    }
    if machine.smt {
        text += "smt = true\n";
    }
    match machine.hz {
        None | Some(HZ) => {}
        Some(hz) if HZ_RANGE.contains(&hz) => text += &format!("hz = {hz}\n"),
        Some(hz) => text += &format!("# Its tick is {hz} Hz; that of the model is {HZ} Hz.\n"),
    }
    text
}

/// What the cgroups of these groups, and those above them, are given.
pub(super) fn cgroups(recording: &Recording, groups: &[Group]) -> String {
    let paths: BTreeSet<&str> = groups
        .iter()
        .flat_map(|group| Path::new(&group.kin.cgroup).ancestors().filter_map(Path::to_str))
        .collect();
    let told = paths.into_iter().filter_map(|path| {
        let keys = keys(recording.cgroups.get(path)?);
        (!keys.is_empty()).then(|| format!("{} = {{ {} }}\n", quoted(path), keys.join(", ")))
    });
    let told: String = told.collect();
    if told.is_empty() { told } else { format!("\n[cgroups]\n{told}") }
}

fn keys(facts: &CgroupFacts) -> Vec<String> {
    let mut keys = Vec::new();
    // An idle one has no weight.
    if let Some(weight) = facts.weight.filter(|weight| *weight != 100 && !facts.idle) {
        keys.push(format!("weight = {weight}"));
    }
    if let Some((quota_us, period_us)) = facts.quota_us {
        keys.push(format!("quota = \"{quota_us}us/{period_us}us\""));
        if facts.burst_us > 0 {
            keys.push(format!("burst = \"{}us\"", facts.burst_us));
        }
    }
    if facts.idle {
        keys.push("idle = true".into());
    }
    keys
}

/// All groups.
pub(super) fn groups(
    groups: &[Group],
    chains: &Chains,
    forkers: &BTreeMap<(usize, usize), u64>,
    length_ns: u64,
) -> String {
    let mut text = String::new();
    for (at, group) in groups.iter().enumerate() {
        let mut extra = Vec::new();
        for (woken, wakers) in &chains.wakers {
            if let Some(times) = wakers.get(&at) {
                extra.push((format!("wake {}", groups[*woken].name), *times));
            }
        }
        for ((child, parent), births) in forkers {
            if *parent == at {
                extra.push((format!("fork {}", groups[*child].name), *births));
            }
        }
        text += &one(group, chains.waits(at), &does(groups, at, chains, extra), length_ns);
    }
    text
}

/// What the tasks of a group do, and how often all of them together did in the trace.
struct Does {
    steps: String,
    rounds: u64,
}

fn one(group: &Group, waits: bool, does: &Does, length_ns: u64) -> String {
    let tasks = group.members.len() as u64;
    let mut lines = vec!["\n[[task]]".to_owned()];
    lines.push(format!("# {}", was(group, length_ns)));
    lines.extend(group.notes.iter().map(|note| format!("# {note}")));
    lines.push(format!("name = {}", quoted(&group.name)));
    if group.kin.life != Life::Short {
        lines.push(format!("count = {tasks}"));
    }
    if !group.kin.cgroup.is_empty() {
        lines.push(format!("cgroup = {}", quoted(&group.kin.cgroup)));
    }
    match group.kin.priority {
        Some(real_time @ 0..100) => lines.extend([
            format!("# its priority is {real_time}, real time: this is the nearest to it"),
            format!("nice = {NEAREST_TO_REAL_TIME}"),
        ]),
        Some(priority @ 100..140) => lines.push(format!("nice = {}", i64::from(priority) - 120)),
        _ => {}
    }
    if let Some(cpus) = &group.kin.affinity {
        lines.push(format!("affinity = \"{}\"", format_cpu_list(cpus)));
    }
    if group.kin.kthread {
        lines.push("kthread = true".into());
    }
    let sleeps = group.kin.life == Life::Long && !waits;
    let arrives = group.arrives(if sleeps { sleep_ns(group) } else { 0 });
    if group.kin.life != Life::Short
        && let Some(arrives) = arrives
    {
        lines.push(format!("arrives = \"{arrives}\""));
    }
    if group.kin.went || group.kin.life == Life::Short {
        lines.push(format!("rounds = {}", (does.rounds / tasks).max(1)));
    }
    lines.push(format!("steps = [{}]", does.steps));
    lines.join("\n") + "\n"
}

/// What a group was like, so that it can be compared with what is simulated.
fn was(group: &Group, length_ns: u64) -> String {
    let share = group.ran_ns / (length_ns / 1_000).max(1);
    let per_s = u128::from(group.wakeups) * 10_000_000_000 / u128::from(length_ns);
    let mut text = format!(
        "was: {}.{} % of a CPU, {}.{} wake-ups/s",
        share / 10,
        share % 10,
        per_s / 10,
        per_s % 10
    );
    let mut waits = group.waits.clone();
    waits.sort_unstable();
    if let Some(last) = waits.len().checked_sub(1) {
        let [p50, p99] = [50, 99].map(|percent| brief_time(waits[last * percent / 100] as f64));
        text += &format!(", waits of {p50} (p50), {p99} (p99)");
    }
    text
}

/// How long a task of the group slept in the mean, so that it ran as often as in the trace.
fn sleep_ns(group: &Group) -> u64 {
    group.sleeps.iter().sum::<u64>() / group.rounds().max(1)
}

/// `extra` are steps that they take so often in all their rounds together.
fn does(groups: &[Group], at: usize, chains: &Chains, mut extra: Vec<(String, u64)>) -> Does {
    let group = &groups[at];
    let rounds = group.rounds().max(1);
    let step = |verb: &str, what: &str| format!("\"{verb} {what}\"");
    let often = |verb: &str| {
        let of = extra.iter().filter(|(step, _)| step.starts_with(verb));
        of.map(|(_, times)| *times).max().unwrap_or(0)
    };
    let (often, wakes) = (often(""), often("wake "));
    let parts = |often: u64| {
        let of_part = group.ran_ns / often;
        step("run", &span_of_mean(&group.bursts, of_part.max(1)))
    };
    if group.kin.life == Life::Busy {
        return match (often, group.kin.went) {
            (0, false) => Does { steps: step("run", "1s"), rounds },
            (0, true) => Does { steps: step("run", &span(&group.bursts)), rounds },
            (often, _) => {
                Does { steps: rounds_of(&[parts(often)], extra, &[], often), rounds: often }
            }
        };
    }
    if wakes >= PARTS * rounds && !chains.in_loop(at) {
        let pause = match chains.waits(at) {
            true => format!("wait {}", group.name),
            false => format!("sleep {}", span_of_mean(&group.sleeps, sleep_ns(group).max(1))),
        };
        extra.push((pause, rounds));
        return Does { steps: rounds_of(&[parts(wakes)], extra, &[], wakes), rounds: wakes };
    }
    let run = step("run", &span(&group.bursts));
    let (begin, end) = if let Some(asks) = chains.loops.get(&at) {
        let wait = step("wait", &group.name);
        (vec![wait, run, step("wake", &groups[*asks].name)], vec![])
    } else if let Some((answers, _)) = chains.loops.iter().find(|(_, asks)| **asks == at) {
        let wake = step("wake", &groups[*answers].name);
        (vec![run, wake], vec![step("wait", &group.name)])
    } else if chains.wakers.contains_key(&at) {
        (vec![step("wait", &group.name), run], vec![])
    } else if group.sleeps.is_empty() {
        (vec![run], vec![])
    } else {
        let sleep = span_of_mean(&group.sleeps, sleep_ns(group).max(1));
        (vec![run], vec![step("sleep", &sleep)])
    };
    Does { steps: rounds_of(&begin, extra, &end, rounds), rounds }
}

/// The rounds of a group until they repeat. What it does beside running and sleeping comes
/// before `end`, in as many of ten rounds as it is due; what is rarer, after as many.
fn rounds_of(
    begin: &[String],
    mut extra: Vec<(String, u64)>,
    end: &[String],
    rounds: u64,
) -> String {
    extra.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
    let often = extra.iter().take_while(|(_, times)| *times * 10 >= rounds * 3).count();
    let in_ten: Vec<u64> =
        extra[..often].iter().map(|(_, times)| (times * 10 + rounds / 2) / rounds).collect();
    let common = in_ten.iter().fold(10, |common, n| greatest_common_divisor(common, *n));
    let period = 10 / common;
    let mut steps = Vec::new();
    for round in 0..period {
        steps.extend_from_slice(begin);
        for ((step, _), n) in extra.iter().zip(&in_ten) {
            let n = n / common;
            match (round + 1) * n / period - round * n / period {
                0 => {}
                now => steps.push(format!("\"{step} {now}\"")),
            }
        }
        steps.extend_from_slice(end);
    }
    let (mut steps, mut each) = (steps.join(", "), period);
    for (step, times) in &extra[often..] {
        let times = (times * each).max(1);
        let due = ((rounds + times / 2) / times).clamp(1, LOOP_MAX);
        steps = format!("{{ repeat = {due}, steps = [{steps}] }}, \"{step}\"");
        each *= due;
    }
    steps
}

fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::MachineFacts;

    fn steps(extra: &[(&str, u64)]) -> String {
        let extra = extra.iter().map(|(step, times)| ((*step).to_owned(), *times)).collect();
        rounds_of(&["R".into()], extra, &["S".into()], 100)
    }

    #[test]
    fn a_step_is_taken_as_often_as_it_is_due() {
        assert_eq!(steps(&[]), "R, S");
        assert_eq!(steps(&[("wake a", 100)]), "R, \"wake a 1\", S");
        assert_eq!(steps(&[("fork a", 301)]), "R, \"fork a 3\", S");
        assert_eq!(steps(&[("wake a", 50)]), "R, S, R, \"wake a 1\", S");
        assert_eq!(steps(&[("wake a", 70)]).matches("wake").count(), 7);
        assert_eq!(steps(&[("wake a", 10)]), "{ repeat = 10, steps = [R, S] }, \"wake a\"");
        assert_eq!(
            steps(&[("wake a", 2), ("wake b", 150), ("wake c", 20)]),
            "{ repeat = 8, steps = [{ repeat = 3, steps = [R, \"wake b 1\", S, R, \"wake b 2\", S] }, \
             \"wake c\"] }, \"wake a\""
        );
    }

    #[test]
    fn the_machine_has_the_ticks_of_the_kernel_where_the_model_can() {
        let with = |hz| {
            let facts = MachineFacts { cpus: 8, llcs: 2, nodes: 1, smt: true, hz };
            machine(&Recording { machine: Some(facts), ..Recording::default() })
        };
        let usual = "\n[machine]\ncpus = 8\nllcs = 2\nsmt = true\n";
        assert_eq!((with(None).as_str(), with(Some(250)).as_str()), (usual, usual));
        assert_eq!(with(Some(1000)), format!("{usual}hz = 1000\n"));
        assert_eq!(
            with(Some(24)),
            format!("{usual}# Its tick is 24 Hz; that of the model is 250 Hz.\n")
        );
    }
}
