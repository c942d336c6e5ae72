//! What is simulated: the loads, the machines, and what schedules them.

use metasched_sim::metasched::{assign, scenario, set_app, start_turns};
use metasched_sim::{Machine, Scenario, TaskSpec, between, ms, us};

/// What schedules the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A policy on the root lane, alone.
    Alone(&'static str),
    /// So many lanes of applications, fifo and vtime in turn, which share all tasks; the root
    /// lane has none.
    Lanes(u32),
    /// fifo and vtime in turns of 10 ms on the root lane's share.
    Turns,
    /// No program: the model of the fair class.
    Fair,
}

/// Those whose speed is told.
pub const SUBJECTS: [Subject; 6] = [
    Subject::Alone("fifo"),
    Subject::Alone("vtime"),
    Subject::Lanes(1),
    Subject::Lanes(8),
    Subject::Turns,
    Subject::Fair,
];

/// Those of the curve.
pub const CURVE: [Subject; 3] =
    [Subject::Alone("fifo"), Subject::Alone("vtime"), Subject::Lanes(8)];

const TURN_NS: u64 = ms(10);

impl Subject {
    /// Its name in tables and in JSON.
    pub fn name(self) -> String {
        match self {
            Subject::Alone(policy) => policy.to_owned(),
            Subject::Lanes(1) => "1 lane".to_owned(),
            Subject::Lanes(lanes) => format!("{lanes} lanes"),
            Subject::Turns => "turns".to_owned(),
            Subject::Fair => "fair class".to_owned(),
        }
    }

    /// An empty run under it; tasks belong into its [`Subject::cgroup`].
    fn run(self, name: &str) -> Scenario {
        match self {
            Subject::Alone(policy) => scenario(name, policy),
            Subject::Lanes(lanes) => {
                let run = scenario(name, "vtime");
                run.at(0, move |kernel| {
                    for lane in 0..lanes {
                        let policy = ["vtime", "fifo"][lane as usize % 2];
                        set_app(kernel, lane + 1, policy, 100);
                        assign(kernel, &format!("app{lane}"), lane + 1);
                    }
                })
            }
            Subject::Turns => scenario(name, "fifo")
                .at(0, |kernel| start_turns(kernel, &[("fifo", TURN_NS), ("vtime", TURN_NS)])),
            Subject::Fair => Scenario::eevdf(name),
        }
    }

    /// Where the `place`-th group of tasks belongs.
    fn cgroup(self, place: usize) -> String {
        match self {
            Subject::Lanes(lanes) => format!("app{}", place % lanes as usize),
            _ => String::new(),
        }
    }
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// For every four CPUs a task that never sleeps, one that runs for 0.1 to 0.3 ms and sleeps
    /// for 4 to 6 ms, and one that runs for 0.3 to 0.7 ms and sleeps for 2 to 4 ms.
    Light,
    /// For every CPU two tasks that never sleep, and four that run for 0.05 to 2 ms and sleep
    /// for 0.1 to 10 ms.
    Contended,
}

impl Load {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Load::Light => "light",
            Load::Contended => "contended",
        }
    }

    /// A run of it, without a duration.
    pub fn under(self, subject: Subject, cpus: usize, seed: u64) -> Scenario {
        let name = format!("{} load under {}", self.name(), subject.name());
        let run = subject.run(&name).machine(machine(cpus)).seed(seed);
        let sleeper = |run: (u64, u64), sleep: (u64, u64)| {
            move |i: usize| {
                TaskSpec::named(format!("sleeper {i}"))
                    .run(between(run.0, run.1))
                    .sleep(between(sleep.0, sleep.1))
                    .for_ever()
                    .in_cgroup(subject.cgroup(i))
            }
        };
        let hog = |i: usize| TaskSpec::hog(format!("hog {i}")).in_cgroup(subject.cgroup(i));
        match self {
            Load::Light => {
                let each = cpus.div_ceil(4);
                run.tasks(each, hog)
                    .tasks(each, sleeper((us(100), us(300)), (ms(4), ms(6))))
                    .tasks(each, sleeper((us(300), us(700)), (ms(2), ms(4))))
            }
            Load::Contended => run
                .tasks(2 * cpus, hog)
                .tasks(4 * cpus, sleeper((us(50), ms(2)), (us(100), ms(10)))),
        }
    }
}

/// A machine of cores of two, sixteen CPUs under a last-level cache, and from 64 CPUs on a
/// NUMA node for each 64.
///
/// # Panics
/// When `cpus` is no power of two from 2 to 1024.
pub fn machine(cpus: usize) -> Machine {
    let machine = Machine::new(cpus, cpus.div_ceil(16), cpus.div_ceil(64), true);
    machine.expect("a power of two is spread evenly")
}

/// The big case: its CPUs, tasks, cgroups and lanes.
#[derive(Clone, Copy, Debug)]
pub struct Big {
    /// CPUs.
    pub cpus: usize,
    /// Tasks.
    pub tasks: usize,
    /// Cgroups, a task in each at least.
    pub cgroups: usize,
    /// Lanes, the root's included.
    pub lanes: usize,
}

/// As big as the simulator is meant to be used.
pub const BIG: Big = Big { cpus: 512, tasks: 100_000, cgroups: 4_096, lanes: 63 };

impl Big {
    /// Tasks of all cgroups come within the first 100 ms. One in a hundred never sleeps; the
    /// others run for 0.2 to 1 ms and sleep for 100 to 400 ms, which asks for a little less
    /// than half of the CPUs. A cgroup's parent has the lane of its number.
    pub fn run(self, seed: u64) -> Scenario {
        let Big { cpus, tasks, cgroups, lanes } = self;
        let apps = lanes - 1;
        let path = move |i: usize| {
            let cgroup = i % cgroups;
            format!("app{}/{cgroup}", cgroup % lanes)
        };
        let run = scenario("the big case", "vtime").machine(machine(cpus)).seed(seed);
        run.at(0, move |kernel| {
            for app in 0..apps {
                let number = app as u32 + 1;
                set_app(kernel, number, ["vtime", "fifo"][app % 2], 100);
                assign(kernel, &format!("app{app}"), number);
            }
        })
        .tasks(tasks, move |i| {
            let spec = match i % 100 {
                0 => TaskSpec::hog(format!("hog {i}")),
                _ => TaskSpec::named(format!("sleeper {i}"))
                    .run(between(us(200), ms(1)))
                    .sleep(between(ms(100), ms(400)))
                    .for_ever(),
            };
            spec.in_cgroup(path(i)).arrives(ms(100) * i as u64 / tasks as u64 + 1)
        })
    }
}
