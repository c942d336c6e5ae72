//! `central` on a kernel that was started with `nohz_full=`: ticks stop where it leaves a task alone,
//! and are back where another lane needs that CPU. It boots a guest of its own, for that parameter.
//!
//! The guest's clock counts its instructions. So what is measured below does not depend on how fast
//! the host is, nor on what else it does: a busy one takes longer for the same figures.

use std::process::Command;

use crate::Turn;

/// A tick of 250 Hz. So soon who wakes beside a run without an end has the CPU, and a tick is
/// back from then on, but for
const TICK_NS: u64 = 4_000_000;
/// what the emulator has an interrupt of one CPU by the other wait: both take turns.
const TURNS_NS: u64 = 1_000_000;
/// The ticks of a quarter of a second, less a tenth: where somebody has a slice that ends, all come.
const ALL_LEAST: u64 = 56;
/// Of these a third. Without ticks there are timers of others that happen to expire there, and what
/// follows when who looks at the clock, in another lane, is awake: up to five sweeps later that lane
/// counts as idle, and the slice ends that the CPU was given meanwhile.
const FEW_MOST: u64 = 20;
/// Of a CPU that two accounts of the same weight share, each has so much; half, but for turns of
/// some milliseconds.
const SHARE_LEAST: f64 = 0.4;
/// How often somebody comes to the CPU without ticks.
const COMES: usize = 8;

/// Prints a name and figures a line.
const SCRIPT: &str = r#"
import os, signal, subprocess, time

def hog():
    """Computes on CPU 1."""
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, {1})
        while True:
            pass
    return pid

def interrupts():
    """Of the local timer of CPU 1, all its ticks among them."""
    with open('/proc/interrupts') as file:
        return next(int(line.split()[2]) for line in file if 'LOC:' in line)

def windows(name):
    """The interrupts of a quarter of a second, three times, when what came before has ended."""
    time.sleep(0.1)
    for _ in range(3):
        before = interrupts()
        time.sleep(0.25)
        print(name, interrupts() - before)

def metasched(*words):
    subprocess.run([os.environ['METASCHED'], *words], check=True, stdout=2)

def ran(pid):
    with open(f'/proc/{pid}/schedstat') as file:
        return int(file.read().split()[0])

def trace(file, text):
    with open(f'/sys/kernel/tracing/{file}', 'w') as file:
        file.write(text)

def at(line):
    """The time of a line of the trace, in ns."""
    return round(float(line.split(': ')[0].split()[-1]) * 1e9)

first = hog()
metasched('start', 'central')
windows('alone')
metasched('switch', 'vtime')
os.mkdir('/sys/fs/cgroup/far')
with open('/sys/fs/cgroup/far/cgroup.procs', 'w') as file:
    file.write(str(first))
metasched('lane', 'assign', 'far', 'central')
time.sleep(0.1)

other = hog()
shared_from = ran(first), ran(other)
windows('shared')
print('ran', ran(first) - shared_from[0], ran(other) - shared_from[1])
os.kill(other, signal.SIGSTOP)

subprocess.run('mount -t tracefs none /sys/kernel/tracing 2>/dev/null', shell=True)
trace('events/sched/sched_waking/filter', f'pid == {other}')
trace('events/sched/sched_switch/filter', f'next_pid == {other}')
for event in ['sched/sched_waking', 'sched/sched_switch', 'timer/hrtimer_expire_entry']:
    trace(f'events/{event}/enable', '1')
for _ in range(int(os.environ['COMES'])):
    time.sleep(0.04)
    os.kill(other, signal.SIGCONT)
    time.sleep(0.02)
    os.kill(other, signal.SIGSTOP)
trace('tracing_on', '0')
woken = running = None
with open('/sys/kernel/tracing/trace') as file:
    for line in file:
        if 'sched_waking:' in line:
            woken, running = at(line), None
        elif woken and 'sched_switch:' in line and not running:
            running = at(line)
            print('waited', running - woken)
        elif running and '[001]' in line and 'function=tick_' in line:
            print('ticked', at(line) - running)
            woken = running = None
windows('again')
os.kill(first, signal.SIGKILL)
os.kill(other, signal.SIGKILL)
metasched('stop')
"#;

#[test]
fn under_central_a_cpu_takes_few_ticks_until_another_lane_needs_it() {
    let _turn = Turn::wait();
    let metasched = env!("CARGO_BIN_EXE_metasched");
    let output = Command::new(metasched)
        .args(["vm", "--cpus", "2", "--thread", "counted", "--append", "nohz_full=1"])
        .args(["--env", &format!("METASCHED={metasched}"), "--env", &format!("COMES={COMES}")])
        .args(["--", "/usr/bin/python3", "-u", "-c", SCRIPT])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{all}");
    assert!(output.status.success(), "{all}");
    let figures = |name: &str| -> Vec<u64> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let mut figures: Vec<u64> =
            lines.flat_map(str::split_whitespace).map(|figure| figure.parse().unwrap()).collect();
        figures.sort_unstable();
        figures
    };
    // Of three windows the one in the middle: in another some thread of the guest's may come.
    let ticks = |name: &str| figures(name)[1];
    // Also who has not slept, but was moved to that CPU, has it shared at once.
    let shared = figures("shared")[0];
    assert!(shared >= ALL_LEAST, "shared: {shared} ticks: {all}");
    for name in ["alone", "again"] {
        assert!(ticks(name) <= FEW_MOST, "{name}: {} ticks: {all}", ticks(name));
    }
    let (waited, ticked) = (figures("waited"), figures("ticked"));
    assert!(waited.len() == COMES && ticked.len() == COMES, "{all}");
    for ns in [waited[COMES - 1], ticked[COMES - 1]] {
        assert!(ns <= TICK_NS + TURNS_NS, "who came waited {ns} ns for the CPU or a tick: {all}");
    }
    let ran = figures("ran");
    let whole: u64 = ran.iter().sum();
    for had in ran {
        assert!(had as f64 >= SHARE_LEAST * whole as f64, "{had} of {whole} ns: {all}");
    }
}
