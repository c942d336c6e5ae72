//! What is put in force: one policy for all, or lanes side by side.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration, parse_duration};
use metasched_experiment::{self as experiment, Share, lane_weights, timeslices};
use metasched_loader::{DEFAULT_WEIGHT, LaneTurn, check_turns, check_weight, variant};
use metasched_scenario::file::{LaneSpec, ScenarioFile};
use metasched_sim::metasched::{POLICIES, assign, scenario, set_app, set_option, start_turns};
use metasched_sim::{Scenario, put_in_force};

use super::bed::{Bed, ns};
use crate::commands::lane::{Setting, pair, settings};

/// The name of what the scenario says of its cgroups.
pub const LANES: &str = "lanes";
/// The name of policies that take turns.
const TURNS: &str = "turns";

/// The kernel's own scheduler.
pub const EEVDF: &str = metasched_control::EEVDF;

/// The kernel ends a scheduler under which a task waits so long (SCX_WATCHDOG_MAX_TIMEOUT).
/// What is bad below that is told by the figures; the scenario may ask for less.
const WATCHDOG_NS: u64 = 30_000_000_000;

/// One `CGROUP[+CGROUP...]=POLICY[:WEIGHT]` of `--lanes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneArg {
    pub cgroups: Vec<String>,
    pub policy: String,
    pub weight: u32,
}

impl FromStr for LaneArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        const FORM: &str = "CGROUP[+CGROUP]=POLICY[:WEIGHT], such as web=vtime:300";
        let (names, rest) = pair(text, FORM)?;
        let cgroups = Share::parts_of(&names);
        let (policy, weight) = match rest.split_once(':') {
            Some((policy, weight)) => {
                let weight = weight.parse().map_err(|_| format!("write it as {FORM}"))?;
                check_weight(weight).map_err(|e| e.to_string())?;
                (policy.to_owned(), weight)
            }
            None => (rest, DEFAULT_WEIGHT),
        };
        Ok(LaneArg { cgroups, policy, weight })
    }
}

impl fmt::Display for LaneArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LaneArg { cgroups, policy, weight } = self;
        write!(f, "{}={policy}:{weight}", cgroups.join("+"))
    }
}

/// One `POLICY=TIME` of `--turns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnArg {
    policy: String,
    length_ns: u64,
}

impl TurnArg {
    /// A turn of that policy.
    pub fn new(policy: &str, length_ns: u64) -> Self {
        TurnArg { policy: policy.to_owned(), length_ns }
    }
}

impl FromStr for TurnArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (policy, time) = pair(text, "POLICY=TIME, such as vtime=3ms")?;
        let length = parse_duration(&time).map_err(|e| e.to_string())?;
        Ok(TurnArg::new(&policy, ns(length)))
    }
}

impl fmt::Display for TurnArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = format_duration(Duration::from_nanos(self.length_ns));
        write!(f, "{}={}", self.policy, length.replace(' ', ""))
    }
}

/// An option's value, by the application's number (0: the root lane) and the option's place.
type OptionValue = (u32, usize, u64);

/// One of those that are compared.
#[derive(Clone, Debug)]
pub struct Contender {
    /// What it is called in tables.
    pub name: String,
    /// The options of the command that ask for it alone.
    pub arguments: Vec<String>,
    root: String,
    /// What the scenario says, with what it sets of the policies.
    file_lanes: Vec<LaneSpec>,
    lanes: Vec<LaneArg>,
    turns: Vec<TurnArg>,
    options: Vec<OptionValue>,
}

impl Contender {
    /// Everything under one policy.
    ///
    /// # Errors
    /// When there is no such policy, or it has no such option.
    pub fn policy(name: &str, given: &[Setting]) -> Result<Self> {
        if name != EEVDF {
            Self::known(name)?;
        }
        Ok(Contender {
            name: name.to_owned(),
            arguments: vec!["--policy".to_owned(), name.to_owned()],
            root: name.to_owned(),
            file_lanes: Vec::new(),
            lanes: Vec::new(),
            turns: Vec::new(),
            options: options(0, name, given)?,
        })
    }

    /// Cgroups on lanes of their own, everything else under `default`.
    ///
    /// # Errors
    /// As [`Contender::policy`].
    pub fn lanes(lanes: Vec<LaneArg>, default: &str, given: &[Setting]) -> Result<Self> {
        Self::known(default)?;
        let mut values = options(0, default, given)?;
        for (lane, app) in lanes.iter().zip(1..) {
            Self::known(&lane.policy)?;
            values.extend(options(app, &lane.policy, given)?);
        }
        let text: Vec<String> = lanes.iter().map(LaneArg::to_string).collect();
        let arguments = ["--lanes", &text.join(","), "--default", default];
        Ok(Contender {
            name: LANES.to_owned(),
            arguments: arguments.map(str::to_owned).to_vec(),
            root: default.to_owned(),
            file_lanes: Vec::new(),
            lanes,
            turns: Vec::new(),
            options: values,
        })
    }

    /// The whole machine goes from policy to policy.
    ///
    /// # Errors
    /// When there is no such policy, a turn is too short, or options are given: whose they
    /// would be changes with the turns.
    pub fn turns(turns: Vec<TurnArg>, given: &[Setting]) -> Result<Self> {
        turns.iter().try_for_each(|turn| Self::known(&turn.policy))?;
        let lengths: Vec<LaneTurn> = turns
            .iter()
            .map(|turn| LaneTurn {
                policy: turn.policy.clone(),
                length: Duration::from_nanos(turn.length_ns),
            })
            .collect();
        check_turns(&lengths)?;
        if let Some(setting) = given.first() {
            let cause = "policies that take turns have their defaults";
            return Err(Error::new(Kind::Usage, format!("set '{setting}'"), cause)
                .remedy("leave it out, or try lanes: --mode lanes"));
        }
        let text: Vec<String> = turns.iter().map(TurnArg::to_string).collect();
        Ok(Contender {
            name: TURNS.to_owned(),
            arguments: vec!["--turns".to_owned(), text.join(",")],
            root: turns[0].policy.clone(),
            file_lanes: Vec::new(),
            lanes: Vec::new(),
            turns,
            options: Vec::new(),
        })
    }

    /// What the scenario says of its cgroups.
    ///
    /// # Errors
    /// As [`Contender::policy`].
    pub fn of_file(file: &ScenarioFile, default: &str, given: &[Setting]) -> Result<Self> {
        if file.lanes.is_empty() {
            return Self::policy(default, given);
        }
        let mut options = options(0, default, given)?;
        for lane in &file.lanes {
            options.extend(self::options(lane.app, &lane.policy, given)?);
        }
        let file_lanes = file.lanes.clone();
        Ok(Contender { file_lanes, options, ..Self::lanes(Vec::new(), default, &[])? }.of_its_own())
    }

    /// Without the arguments that would ask for other lanes than the scenario's.
    fn of_its_own(self) -> Self {
        let arguments = ["--default".to_owned(), self.root.clone()].to_vec();
        Contender { arguments, ..self }
    }

    /// What a contender of an experiment is here; parts are cgroups.
    ///
    /// # Errors
    /// As [`Contender::policy`] and [`Contender::turns`].
    pub fn of(contender: &experiment::Contender, given: &[Setting]) -> Result<Self> {
        let made = match contender {
            experiment::Contender::Scheduler { name } => return Self::policy(name, given),
            experiment::Contender::Turns { base_slice_ms, turns, .. } => {
                let weights: Vec<f64> = turns.iter().map(|turn| turn.weight).collect();
                let lengths = timeslices(Duration::from_millis(*base_slice_ms), &weights);
                let turns = turns.iter().zip(lengths);
                // One without weight has no turn.
                let turns = turns.filter(|(_, length)| !length.is_zero());
                let turn = |(turn, length): (&Share, _)| TurnArg::new(&turn.scheduler, ns(length));
                Self::turns(turns.map(turn).collect(), given)?
            }
            experiment::Contender::Lanes { default, lanes, .. } => {
                let weights: Vec<f64> = lanes.iter().map(|lane| lane.weight).collect();
                let parts = lanes.iter().map(|lane| lane.parts.len());
                let lane = |(lane, weight): (&Share, u32)| LaneArg {
                    cgroups: lane.parts.clone(),
                    policy: lane.scheduler.clone(),
                    weight,
                };
                let weighed = lanes.iter().zip(lane_weights(&weights, parts.sum()));
                Self::lanes(weighed.map(lane).collect(), default, given)?
            }
        };
        Ok(made.called(contender.to_string()))
    }

    /// The same under another name.
    pub fn called(self, name: String) -> Self {
        Contender { name, ..self }
    }

    /// Refuses what the simulator does not have.
    fn known(name: &str) -> Result<()> {
        let attempt = || format!("simulate '{name}'");
        if name == EEVDF {
            let cause = "the fair class takes no turns and has no lanes";
            return Err(Error::new(Kind::Unsupported, attempt(), cause)
                .remedy("have it alone: --policy eevdf, or --compare=eevdf,fifo"));
        }
        variant(name).map(drop).map_err(|e| Error::new(Kind::BadInput, attempt(), e))
    }

    /// The cgroups that have lanes.
    pub fn cgroups(&self) -> impl Iterator<Item = &str> {
        let own = self.file_lanes.iter().map(|lane| lane.cgroup.as_str());
        own.chain(self.lanes.iter().flat_map(|lane| &lane.cgroups).map(String::as_str))
    }

    /// Refuses a scenario that tells nothing under it.
    ///
    /// # Errors
    /// `Unsupported`, under the fair class, if its events change lanes.
    pub fn check(&self, bed: &Bed) -> Result<()> {
        if self.root != EEVDF || !bed.file.needs_program() {
            return Ok(());
        }
        let attempt = format!("simulate '{}' under {EEVDF}", bed.file.name);
        let cause = "its events change lanes, and the fair class has none";
        Err(Error::new(Kind::Unsupported, attempt, cause)
            .remedy(format!("compare {}", POLICIES.join(", "))))
    }

    /// One run of it.
    pub fn scenario(&self, bed: &Bed, seed: u64) -> Scenario {
        let name = format!("{} under {}", bed.file.name, self.name);
        let under = match self.root.as_str() {
            EEVDF => Scenario::eevdf(name),
            policy => scenario(name, policy),
        };
        let bounded = under.waits_at_most(WATCHDOG_NS).idle_at_most(WATCHDOG_NS);
        let (file_lanes, lanes) = (self.file_lanes.clone(), self.lanes.clone());
        let options = self.options.clone();
        let turns = self.turns.clone();
        let bounded = bounded.with_file(&bed.file).with_kernel_threads(&bed.spec);
        bounded.machine(bed.machine.clone()).seed(seed).run_for(bed.duration_ns).at(
            0,
            move |kernel| {
                file_lanes.iter().for_each(|lane| put_in_force(lane, kernel));
                for (lane, app) in lanes.iter().zip(1..) {
                    set_app(kernel, app, &lane.policy, lane.weight);
                    lane.cgroups.iter().for_each(|cgroup| assign(kernel, cgroup, app));
                }
                for (app, option, value) in &options {
                    set_option(kernel, *app, *option, *value);
                }
                let turns: Vec<(&str, u64)> =
                    turns.iter().map(|turn| (turn.policy.as_str(), turn.length_ns)).collect();
                if !turns.is_empty() {
                    start_turns(kernel, &turns);
                }
            },
        )
    }
}

/// What the settings come to for a lane of that policy.
fn options(app: u32, policy: &str, given: &[Setting]) -> Result<Vec<OptionValue>> {
    if policy == EEVDF {
        return Ok(Vec::new());
    }
    let info = variant(policy)?;
    let values = settings(policy, given)?;
    values.iter().map(|(name, value)| Ok((app, info.option(name, *value)?, *value))).collect()
}

/// Contenders of different names, in the order given.
pub fn distinct(
    names: Vec<String>,
    make: impl Fn(&str) -> Result<Contender>,
) -> Result<Vec<Contender>> {
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            let cause = format!("'{name}' is named twice");
            return Err(
                Error::new(Kind::Usage, "compare policies", cause).remedy("name each of them once")
            );
        }
    }
    names.iter().map(|name| make(name)).collect()
}
