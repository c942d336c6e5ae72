//! A replay on a kernel with sched_ext: its cgroups, its lanes and its traced waits.

use std::path::Path;

use metasched_base::Interrupt;
use metasched_control::{KernelLoader, ProgramLoader};
use metasched_loader::LaneSpec;
use metasched_replay::{Replay, Replayable};
use metasched_scenario::file::ScenarioFile;

/// Two lanes that always have work, of weights 3 to 1, the lighter with a cgroup below it.
const SCENARIO: &str = r#"
duration = "2s"
warm_up = "500ms"
[cgroups.heavy]
weight = 300
lane = "vtime"
[cgroups.light]
lane = "fifo"
[[task]]
name = "heavy"
count = 4
cgroup = "heavy"
steps = ["run 1s"]
[[task]]
name = "light"
count = 4
cgroup = "light"
steps = ["run 1s"]
[[task]]
name = "below"
cgroup = "light/below"
steps = ["run 1ms", "sleep 1ms"]
"#;

/// A replay is short, and the guest has other things to do.
const SHARES: std::ops::Range<f64> = 2.4..3.6;

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn lanes_have_their_shares_and_waits_are_told_by_cgroup() {
    let file = ScenarioFile::parse(Path::new("lanes.toml"), SCENARIO).unwrap();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let replayable = Replayable::of(&file, None, cpus).unwrap();
    let mut program = KernelLoader::default().load(&LaneSpec::of("vtime")).unwrap();
    let replay = Replay::prepare(&replayable).unwrap();
    let path = replay.cgroup("light/below").expect("it was made").path().to_owned();
    replay.give_lanes(&file.lanes, program.as_mut()).unwrap();
    let replayed = replay.run(1, &Interrupt::default()).unwrap();
    replay.take_lanes(&file.lanes, program.as_mut()).unwrap();
    replay.remove().unwrap();
    assert!(!path.exists(), "the cgroups are gone");
    drop(program);

    let of = |name: &str| &replayed.groups[name];
    let light = (of("light").cpu_ns + of("light/below").cpu_ns) as f64;
    let ratio = of("heavy").cpu_ns as f64 / light;
    assert!(SHARES.contains(&ratio), "heavy had {ratio} times the CPU time of light");
    for name in ["heavy", "light", "light/below"] {
        let waits = of(name).waits.as_ref().expect("waits are traced");
        let switched_in = of(name).switches();
        // A switch ends a stretch, and a wait begins the next one.
        let near = switched_in / 2..=switched_in * 2 + 10;
        assert!(near.contains(&waits.count()), "{name}: {} waits, {switched_in}", waits.count());
    }
}
