//! A scenario file as TOML has it. What it says is checked in `read.rs`.

use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

pub(super) type Text = Spanned<String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub name: Option<String>,
    #[serde(default)]
    pub about: String,
    pub duration: Option<Text>,
    pub warm_up: Option<Text>,
    pub seed: Option<Spanned<i64>>,
    #[serde(default)]
    pub machine: MachineTable,
    #[serde(default)]
    pub cgroups: BTreeMap<Text, Cgroup>,
    #[serde(default)]
    pub task: Vec<Spanned<Task>>,
    #[serde(default)]
    pub device: Vec<Device>,
    #[serde(default)]
    pub pipe: Vec<Pipe>,
    #[serde(default)]
    pub lock: Vec<Lock>,
    #[serde(default)]
    pub barrier: Vec<Barrier>,
    #[serde(default)]
    pub team: Vec<Team>,
    #[serde(default)]
    pub arrivals: Vec<Spanned<Arrivals>>,
    #[serde(default)]
    pub function: Vec<Spanned<Function>>,
    #[serde(default)]
    pub event: Vec<Spanned<Event>>,
    pub fleet: Option<Fleet>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineTable {
    pub cpus: Option<Spanned<i64>>,
    pub llcs: Option<Spanned<i64>>,
    pub nodes: Option<Spanned<i64>>,
    pub smt: Option<bool>,
    pub hz: Option<Spanned<i64>>,
    pub base_slice: Option<Text>,
    #[serde(default)]
    pub costs: Costs,
    #[serde(default)]
    pub kernel_thread: Vec<KernelThread>,
}

/// `[[machine.kernel_thread]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KernelThread {
    pub name: String,
    pub cpu: Option<Spanned<i64>>,
    pub every: Text,
    pub run: Text,
}

/// `[machine.costs]`: see `Costs` of machine.rs.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Costs {
    pub switch: Option<Text>,
    pub group_level: Option<Text>,
    pub group_queued: Option<Text>,
    pub migration_core: Option<Text>,
    pub migration_llc: Option<Text>,
    pub migration_node: Option<Text>,
    pub migration_across: Option<Text>,
    pub cold: Option<Text>,
    pub cold_after: Option<Text>,
    pub callback: Option<Text>,
    pub kfunc: Option<Text>,
    pub call: Option<Text>,
    pub wake: Option<Text>,
    pub tell: Option<Text>,
    pub sleep: Option<Text>,
    pub timer: Option<Text>,
    pub tick_late: Option<Text>,
    pub tick_jitter: Option<Text>,
    pub tick_strays: Option<Spanned<i64>>,
    pub tick_stray: Option<Text>,
    pub ipi: Option<Text>,
    pub own: Option<Text>,
}

/// A file that has nothing but a machine, as `metasched sim calibrate` writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MachineFile {
    pub machine: MachineTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cgroup {
    pub weight: Option<Spanned<i64>>,
    pub quota: Option<Text>,
    pub burst: Option<Text>,
    pub idle: Option<bool>,
    pub lane: Option<Spanned<Lane>>,
    pub objective: Option<Text>,
}

/// `lane = "fifo"`, or a table.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "a lane is a policy's name, or a table of policy, weight and options"
)]
pub(super) enum Lane {
    Policy(String),
    Table(LaneTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LaneTable {
    pub policy: String,
    pub weight: Option<i64>,
    #[serde(default)]
    pub options: BTreeMap<String, toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    pub name: Text,
    pub count: Option<Spanned<i64>>,
    pub cgroup: Option<Text>,
    pub weight: Option<Spanned<i64>>,
    pub nice: Option<Spanned<i64>>,
    pub affinity: Option<Text>,
    #[serde(default)]
    pub kthread: bool,
    pub arrives: Option<Text>,
    pub rounds: Option<Spanned<i64>>,
    pub steps: Spanned<Vec<Spanned<toml::Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    pub name: Text,
    pub depth: Option<Spanned<i64>>,
    pub time: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pipe {
    pub name: Text,
    pub holds: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Lock {
    pub name: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Barrier {
    pub name: Text,
    pub parties: Option<Spanned<i64>>,
    pub spin: Option<Spanned<Spin>>,
}

/// `spin = true`, or for how long.
#[derive(Deserialize)]
#[serde(untagged, expecting = "spin is true, false, or a time such as \"1ms\"")]
pub(super) enum Spin {
    Always(bool),
    For(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Team {
    pub name: Text,
    pub threads: Spanned<i64>,
    pub cgroup: Option<Text>,
    pub weight: Option<Spanned<i64>>,
    pub nice: Option<Spanned<i64>>,
    pub affinity: Option<Text>,
    pub arrives: Option<Text>,
    pub regions: Option<Spanned<i64>>,
    pub barriers: Option<Spanned<i64>>,
    pub work: Text,
    pub imbalance: Option<Spanned<f64>>,
    pub wait: Option<Text>,
    pub halt: Option<Text>,
    pub wake: Option<Text>,
    pub resume: Option<Text>,
    #[serde(default)]
    pub adapt: bool,
    pub window: Option<Text>,
    pub owed: Option<Spanned<bool>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Arrivals {
    pub name: Text,
    pub rate: Option<Spanned<f64>>,
    pub every: Option<Text>,
    pub clients: Option<Spanned<Clients>>,
    pub sample: Option<Text>,
    pub think: Option<Text>,
    pub on: Option<Text>,
    pub off: Option<Text>,
    pub at: Option<Vec<Text>>,
    pub list: Option<Text>,
    pub from: Option<Text>,
    pub until: Option<Text>,
}

/// `clients = 20`, or how many there are in each sample.
#[derive(Deserialize)]
#[serde(untagged, expecting = "clients is a number, or a list of numbers: one for each sample")]
pub(super) enum Clients {
    Always(i64),
    Samples(Vec<i64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Function {
    pub name: Text,
    pub count: Option<Spanned<i64>>,
    pub cgroup: Option<Text>,
    pub samples: Option<Text>,
    pub scale: Option<Spanned<f64>>,
    pub sleep: Option<Text>,
    pub run: Text,
    pub threads: Option<Spanned<i64>>,
    pub request: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Fleet {
    pub machines: Option<Text>,
    pub baseline: Option<Spanned<i64>>,
    #[serde(default)]
    pub schedulers: Vec<Text>,
    pub placer: Option<Text>,
    pub fill: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    pub at: Text,
    pub task: Option<Text>,
    pub cgroup: Option<Text>,
    pub cpu: Option<Spanned<i64>>,
    pub weight: Option<Spanned<i64>>,
    pub nice: Option<Spanned<i64>>,
    pub affinity: Option<Text>,
    pub move_to: Option<Text>,
    pub quota: Option<Text>,
    pub burst: Option<Text>,
    pub idle: Option<bool>,
    pub lane: Option<Spanned<Lane>>,
    pub online: Option<bool>,
}
