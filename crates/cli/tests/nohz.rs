//! `central` on a kernel that was started with `nohz_full=`: ticks stop where it leaves a task alone,
//! and another lane's tasks have that CPU in time and by their share all the same. It boots a guest of its own, for that parameter.

use std::process::Command;

/// Of 250 each second: where a slice ends they come.
const TICKS_LEAST: u64 = 100;
/// Part of those under a policy with slices that are left: the kernel's own, timers that happen to
/// expire there, and what a busy host has wait until the policy ends runs. A quiet one sees single ones.
const LEFT_MOST: f64 = 0.25;
/// A tick of 250 Hz, within which a CPU without ticks must have noticed that somebody came.
const TICK_NS: u64 = 4_000_000;
/// Of a CPU that two accounts of the same weight share, each has so much; half, but for turns of
/// some milliseconds.
const SHARE_LEAST: f64 = 0.4;

/// Reads how long each of its waits for CPU 1 took, which begin when it has slept.
const SLEEPER: &str = "
import os, time
os.sched_setaffinity(0, {1})
def waited():
    with open('/proc/self/schedstat') as file:
        return int(file.read().split()[1])
waits = []
for _ in range(40):
    before = waited()
    time.sleep(0.03)
    waits.append(waited() - before)
print('waits', *sorted(waits))
";

/// Prints a name and figures a line.
const SCRIPT: &str = "
ticks() { awk '/LOC:/ { print $3 }' /proc/interrupts; }
each_second() {
    sleep 1
    for _ in 1 2 3; do before=$(ticks); sleep 1; echo $1 $(($(ticks) - before)); done
}
hog() { taskset -c 1 sh -c 'while :; do :; done' & hog=$!; }
ran() { cut -d' ' -f1 /proc/$1/schedstat; }
set -e
$METASCHED start central >&2
hog
each_second central
$METASCHED switch vtime >&2
each_second vtime
mkdir /sys/fs/cgroup/far
echo $hog >/sys/fs/cgroup/far/cgroup.procs
$METASCHED assign far central >&2
python3 -c \"$SLEEPER\"
first=$hog
hog
sleep 1
first_ran=$(ran $first) other_ran=$(ran $hog)
each_second shared
echo ran $(($(ran $first) - first_ran)) $(($(ran $hog) - other_ran))
kill $first $hog
$METASCHED stop >&2
";

#[test]
fn under_central_a_cpu_takes_few_ticks_until_another_lane_needs_it() {
    let metasched = env!("CARGO_BIN_EXE_metasched");
    let output = Command::new(metasched)
        .args(["vm", "--cpus", "2", "--thread", "single", "--append", "nohz_full=1"])
        .args(["--env", &format!("METASCHED={metasched}"), "--env", &format!("SLEEPER={SLEEPER}")])
        .args(["--", "sh", "-c", SCRIPT])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{all}");
    assert!(output.status.success(), "{all}");
    let figures = |name: &str| -> Vec<u64> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        lines.flat_map(str::split_whitespace).map(|figure| figure.parse().unwrap()).collect()
    };
    // Of three seconds the best: in another one some thread of the kernel's may come.
    let least = |name: &str| figures(name).into_iter().min().unwrap();
    for name in ["vtime", "shared"] {
        assert!(least(name) >= TICKS_LEAST, "{name}: {} ticks a second: {all}", least(name));
    }
    let left = least("central") as f64 / least("vtime") as f64;
    assert!(left <= LEFT_MOST, "of the ticks {left:.2} are left: {all}");
    let waits = figures("waits");
    assert!(waits.len() == 40, "{all}");
    // The median, since a busy host stops the guest now and then.
    assert!(waits[20] < TICK_NS, "who slept has waited {} ns: {all}", waits[20]);
    let ran = figures("ran");
    let whole: u64 = ran.iter().sum();
    for had in ran {
        assert!(had as f64 >= SHARE_LEAST * whole as f64, "{had} of {whole} ns: {all}");
    }
}
