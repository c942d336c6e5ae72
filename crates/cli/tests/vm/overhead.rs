//! `metasched overhead` in a guest of its own, whose clock counts its instructions: so what is measured
//! does not depend on how fast the host is, nor on what else it does.

use std::process::Command;

use serde_json::Value;

use crate::{Turn, schema};

/// The kernel counts its switches itself. The two counts are of two times, one within the other, and
/// the load is steady.
const SWITCHES_OFF: f64 = 0.05;
/// Two measurements of the same load.
const AGAIN_OFF: f64 = 0.05;
/// A yield that switches takes longer than one of a task that is alone, mostly in schedule(): three
/// quarters of it when this was written. The rest comes before, where one that is alone is done at
/// once, and on the way out, where the other task's registers are restored.
const EXPLAINED: std::ops::Range<f64> = 0.6..0.95;
/// A switch between two in a group at depth 5 takes longer than at depth 1: by a fifth then.
const DEEP_LONGER: f64 = 1.1;
/// So often at least a second, or nothing was measured.
const MANY: f64 = 5_000.0;

/// Prints lines of a name, a figure, and a document.
const SCRIPT: &str = r#"
import json, mmap, os, signal, struct, subprocess, time

ROOT = '/sys/fs/cgroup'

def cgroup(name, depth):
    """One so deep, with its cpu controller on all the way."""
    path = ROOT
    for level in range(depth):
        with open(f'{path}/cgroup.subtree_control', 'w') as file:
            file.write('+cpu')
        path = f'{path}/{name}{level + 1}'
        os.makedirs(path, exist_ok=True)
    return path

def fork(path, work):
    pid = os.fork()
    if pid == 0:
        with open(f'{path}/cgroup.procs', 'w') as file:
            file.write('0')
        os.sched_setaffinity(0, {1})
        work()
    return pid

def pair(path):
    """Two that wake each other by turns."""
    (a_from, a_to), (b_from, b_to) = os.pipe(), os.pipe()
    def play(source, target):
        while True:
            os.write(target, os.read(source, 1))
    pids = [fork(path, lambda: play(a_from, b_to)), fork(path, lambda: play(b_from, a_to))]
    os.write(a_to, b'x')
    return pids

def end(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

def switches():
    with open('/proc/stat') as file:
        return next(int(line.split()[1]) for line in file if line.startswith('ctxt'))

def measure(name, count):
    """What the command shows, and what was counted a second within its time."""
    words = [os.environ['METASCHED'], 'overhead', '--for', '2s', '--json']
    command = subprocess.Popen(words, stdout=subprocess.PIPE)
    time.sleep(1.2)
    from_ns, first = time.monotonic_ns(), count()
    time.sleep(0.8)
    last, to_ns = count(), time.monotonic_ns()
    document = json.loads(command.communicate()[0])
    print(name, (last - first) * 1e9 / (to_ns - from_ns), json.dumps(document), flush=True)

shallow = pair(cgroup('shallow', 1))
measure('shallow', switches)
deep = pair(cgroup('deep', 5))
measure('both', switches)
end(shallow)
measure('deep', switches)
measure('again', switches)
end(deep)

counts = mmap.mmap(-1, 4096)

def yields(at):
    done = 0
    while True:
        os.sched_yield()
        done += 1
        struct.pack_into('Q', counts, at, done)

def all_yields():
    return sum(struct.unpack_from('2Q', counts, 0))

path = cgroup('deep', 5)
pids = [fork(path, lambda: yields(0))]
measure('alone', all_yields)
pids.append(fork(path, lambda: yields(8)))
measure('two', all_yields)
end(pids)
"#;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// What was measured of tasks at that depth.
fn depth(document: &Value, depth: u64) -> &Value {
    let depths = document["depths"].as_array().unwrap();
    let found = depths.iter().find(|row| row["depth"] == depth);
    found.unwrap_or_else(|| panic!("nobody at depth {depth}: {document:#}"))
}

#[test]
fn switches_are_the_kernels_and_the_time_in_schedule_is_what_yields_take_longer() {
    let _turn = Turn::wait();
    let metasched = env!("CARGO_BIN_EXE_metasched");
    let output = Command::new(metasched)
        .args(["vm", "--cpus", "2", "--thread", "counted"])
        .args(["--env", &format!("METASCHED={metasched}")])
        .args(["--", "/usr/bin/python3", "-u", "-c", SCRIPT])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let all = format!("{said}{}", String::from_utf8_lossy(&output.stderr));
    println!("{all}");
    assert!(output.status.success(), "{all}");
    let measured = |name: &str| -> (f64, Value) {
        let line = said.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let (rate, document) = line.expect(name).split_once(' ').unwrap();
        let document = serde_json::from_str(document).unwrap();
        schema::check("overhead", &document);
        (rate.parse().unwrap(), document)
    };
    let near = |a: f64, b: f64, off: f64| (a / b - 1.0).abs() < off;

    let (counted, both) = measured("both");
    let switches = number(&both["schedule"]["switches_per_s"]);
    assert!(near(switches, counted, SWITCHES_OFF), "{switches} by us, {counted} by the kernel");
    assert_eq!(both["dropped"], 0);
    for row in [depth(&both, 1), depth(&both, 5)] {
        assert!(number(&row["switches_per_s"]) > MANY, "{row}");
    }
    // Each wakes the other: what is woken is seen beside schedule().
    let outside = both["outside"].as_array().unwrap();
    let wakes = outside.iter().find(|row| row["part"] == "wake_up").unwrap();
    assert!(near(number(&wakes["calls_per_s"]), switches, 0.1), "{wakes}");

    let mean = |name: &str, at: u64| number(&depth(&measured(name).1, at)["switch_mean_ns"]);
    let (shallow, deep, again) = (mean("shallow", 1), mean("deep", 5), mean("again", 5));
    println!("a switch: {shallow} ns at depth 1, {deep} at depth 5, and again {again}");
    assert!(deep > DEEP_LONGER * shallow, "{deep} and {shallow} ns");
    assert!(near(deep, again, AGAIN_OFF), "{deep} ns, then {again}");

    let ((alone_rate, alone), (two_rate, two)) = (measured("alone"), measured("two"));
    let in_schedule = |document: &Value| number(&depth(document, 5)["mean_ns"]);
    assert!(number(&depth(&two, 5)["switches_per_s"]) > MANY, "{two}");
    let stays = depth(&alone, 5);
    assert!(number(&stays["calls_per_s"]) > 100.0 * number(&stays["switches_per_s"]), "{stays}");
    let each = |rate: f64| 1e9 / rate;
    for (rate, document) in [(alone_rate, &alone), (two_rate, &two)] {
        assert!(each(rate) > in_schedule(document), "{} ns each: {document}", each(rate));
    }
    let longer = each(two_rate) - each(alone_rate);
    let explained = (in_schedule(&two) - in_schedule(&alone)) / longer;
    println!("{longer:.0} ns longer, of which schedule() explains {explained:.2}");
    assert!(EXPLAINED.contains(&explained), "{longer} ns longer: {explained} of it");
}
