//! What is put in force in a run: one policy for all, lanes side by side, or turns.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use metasched_abi::{
    DEFAULT_WEIGHT, EEVDF, LaneTurn, POLICIES, POLICY_NAMES, PolicyInfo, Setting, check_weight,
    cycle_args, known_variant,
};
use metasched_base::{Error, Kind, Result, parse_pair};
use metasched_experiment::{Contender, Share, lane_weights, timeslices};
use metasched_scenario::file::{LaneSpec, ScenarioFile};
use metasched_sim::kernel::Kernel;
use metasched_sim::metasched::{assign, scenario, set_app, set_option, start_turns};
use metasched_sim::{Scenario, put_in_force};

use crate::setup::Setup;

/// The name of what the scenario says of its cgroups, and of lanes that the user asks for.
pub const LANES: &str = "lanes";
/// The name of policies that take turns.
const TURNS: &str = "turns";

/// The kernel ends a scheduler under which a task waits so long (SCX_WATCHDOG_MAX_TIMEOUT).
/// What is bad below that is told by the figures; the scenario may ask for less.
const WATCHDOG_NS: u64 = 30_000_000_000;

/// A lane that some cgroups share; users write `CGROUP[+CGROUP...]=POLICY[:WEIGHT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupLane {
    /// The cgroups.
    pub cgroups: Vec<String>,
    /// Their policy.
    pub policy: String,
    /// The weight of their lane.
    pub weight: u32,
}

impl FromStr for CgroupLane {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        const EXAMPLE: &str = "web=vtime:300";
        let (names, rest) = parse_pair(text, "a lane", EXAMPLE)?;
        let cgroups = Share::parts_of(&names);
        let (policy, weight) = match rest.split_once(':') {
            Some((policy, weight)) => {
                let attempt = || format!("read '{weight}' as the weight of a lane");
                let weight = weight.parse().map_err(|e| {
                    Error::new(Kind::Usage, attempt(), e).remedy(format!("write it like {EXAMPLE}"))
                })?;
                check_weight(weight)?;
                (policy.to_owned(), weight)
            }
            None => (rest, DEFAULT_WEIGHT),
        };
        Ok(CgroupLane { cgroups, policy, weight })
    }
}

impl fmt::Display for CgroupLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CgroupLane { cgroups, policy, weight } = self;
        write!(f, "{}={policy}:{weight}", cgroups.join("+"))
    }
}

/// How a machine is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything under one policy, or under the kernel's own scheduler ([`EEVDF`]).
    Alone {
        /// The policy.
        policy: String,
    },
    /// Cgroups have the lanes that the scenario says.
    ScenarioLanes {
        /// The policy of everything else.
        default: String,
        /// What the scenario says.
        lanes: Vec<LaneSpec>,
    },
    /// Cgroups have lanes that somebody asks for.
    Lanes {
        /// The policy of everything else.
        default: String,
        /// The lanes.
        lanes: Vec<CgroupLane>,
    },
    /// The whole machine goes from policy to policy.
    Turns(Vec<LaneTurn>),
}

/// An option's value, by the application's number (0: the root lane) and the option's place.
type OptionValue = (u32, usize, u64);

/// A way to schedule a scenario: what a [`Contender`] comes to in the simulator.
#[derive(Clone, Debug)]
pub struct Arrangement {
    /// What it is called in tables.
    pub name: String,
    /// How the machine is shared.
    pub form: Form,
    options: Vec<OptionValue>,
}

impl Arrangement {
    /// Everything under one policy, with its settings.
    ///
    /// # Errors
    /// `BadInput` when there is no such policy, or it has no such option.
    pub fn policy(name: &str, given: &[Setting]) -> Result<Self> {
        let options = match name {
            EEVDF => Vec::new(),
            name => options(0, name, given)?,
        };
        let form = Form::Alone { policy: name.to_owned() };
        Ok(Arrangement { name: name.to_owned(), form, options })
    }

    /// Cgroups on lanes of their own, everything else under `default`; settings are of each policy.
    ///
    /// # Errors
    /// As [`Arrangement::policy`].
    pub fn lanes(lanes: Vec<CgroupLane>, default: &str, given: &[Setting]) -> Result<Self> {
        let mut values = options(0, default, given)?;
        for (lane, app) in lanes.iter().zip(1..) {
            values.extend(options(app, &lane.policy, given)?);
        }
        let form = Form::Lanes { default: default.to_owned(), lanes };
        Ok(Arrangement { name: LANES.to_owned(), form, options: values })
    }

    /// The whole machine goes from policy to policy.
    ///
    /// # Errors
    /// `BadInput` when there is no such policy, or a turn is too short; `Usage` when options are
    /// given: the lane that they would be of changes with the turns.
    pub fn turns(turns: Vec<LaneTurn>, given: &[Setting]) -> Result<Self> {
        turns.iter().try_for_each(|turn| known(&turn.policy).map(drop))?;
        cycle_args(POLICIES, &turns)?;
        if let Some(setting) = given.first() {
            let cause = "policies that take turns have their defaults";
            return Err(Error::new(Kind::Usage, format!("set '{setting}'"), cause)
                .remedy("leave it out, or try lanes: --mode lanes"));
        }
        let form = Form::Turns(turns);
        Ok(Arrangement { name: TURNS.to_owned(), form, options: Vec::new() })
    }

    /// What the scenario says of its cgroups, everything else under `default`; that alone if the
    /// scenario says nothing.
    ///
    /// # Errors
    /// As [`Arrangement::policy`].
    pub fn of_file(file: &ScenarioFile, default: &str, given: &[Setting]) -> Result<Self> {
        if file.lanes.is_empty() {
            return Self::policy(default, given);
        }
        let mut values = options(0, default, given)?;
        for lane in &file.lanes {
            values.extend(options(lane.app, &lane.policy, given)?);
        }
        let form = Form::ScenarioLanes { default: default.to_owned(), lanes: file.lanes.clone() };
        Ok(Arrangement { name: LANES.to_owned(), form, options: values })
    }

    /// What a contender of an experiment is here; parts are cgroups.
    ///
    /// # Errors
    /// As [`Arrangement::policy`] and [`Arrangement::turns`].
    pub fn of(contender: &Contender, given: &[Setting]) -> Result<Self> {
        let made = match contender {
            Contender::Scheduler { name } => return Self::policy(name, given),
            Contender::Turns { base_slice_ms, turns, .. } => {
                let weights: Vec<f64> = turns.iter().map(|turn| turn.weight).collect();
                let lengths = timeslices(Duration::from_millis(*base_slice_ms), &weights);
                let turns = turns.iter().zip(lengths);
                // One without weight has no turn.
                let turns = turns.filter(|(_, length)| !length.is_zero());
                let turn = |(turn, length): (&Share, _)| LaneTurn {
                    policy: turn.scheduler.clone(),
                    length,
                };
                Self::turns(turns.map(turn).collect(), given)?
            }
            Contender::Lanes { default, lanes, .. } => {
                let weights: Vec<f64> = lanes.iter().map(|lane| lane.weight).collect();
                let parts = lanes.iter().map(|lane| lane.parts.len());
                let lane = |(lane, weight): (&Share, u32)| CgroupLane {
                    cgroups: lane.parts.clone(),
                    policy: lane.scheduler.clone(),
                    weight,
                };
                let weighed = lanes.iter().zip(lane_weights(&weights, parts.sum()));
                Self::lanes(weighed.map(lane).collect(), default, given)?
            }
        };
        Ok(Arrangement { name: contender.to_string(), ..made })
    }

    /// The cgroups that have lanes.
    pub fn cgroups(&self) -> Vec<&str> {
        match &self.form {
            Form::Alone { .. } | Form::Turns(_) => Vec::new(),
            Form::ScenarioLanes { lanes, .. } => {
                lanes.iter().map(|lane| lane.cgroup.as_str()).collect()
            }
            Form::Lanes { lanes, .. } => {
                lanes.iter().flat_map(|lane| &lane.cgroups).map(String::as_str).collect()
            }
        }
    }

    /// The policy that everything is under at first.
    fn root(&self) -> &str {
        match &self.form {
            Form::Alone { policy } => policy,
            Form::ScenarioLanes { default, .. } | Form::Lanes { default, .. } => default,
            Form::Turns(turns) => &turns[0].policy,
        }
    }

    /// Refuses a scenario that tells nothing under it.
    ///
    /// # Errors
    /// `Unsupported`, under the fair class, if its events change lanes.
    pub fn check(&self, setup: &Setup) -> Result<()> {
        if self.root() != EEVDF || !setup.file.needs_program() {
            return Ok(());
        }
        let attempt = format!("simulate '{}' under {EEVDF}", setup.file.name);
        let cause = "its events change lanes, and the fair class has none";
        Err(Error::new(Kind::Unsupported, attempt, cause)
            .remedy(format!("compare {}", POLICY_NAMES.join(", "))))
    }

    /// One run of it.
    pub fn scenario(&self, setup: &Setup, seed: u64) -> Scenario {
        let file = &setup.file;
        let name = format!("{} under {}", file.name, self.name);
        let under = match self.root() {
            EEVDF => Scenario::eevdf(name),
            policy => scenario(name, policy),
        };
        let arrangement = self.clone();
        under
            .waits_at_most(WATCHDOG_NS)
            .idle_at_most(WATCHDOG_NS)
            .with_file(file)
            .with_kernel_threads(&setup.spec)
            .machine(setup.machine.clone())
            .seed(seed)
            .run_for(file.duration_ns)
            .at(0, move |kernel| arrangement.begin(kernel))
    }

    /// Puts it in force; its root's policy is so already.
    fn begin(&self, kernel: &mut Kernel) {
        match &self.form {
            Form::Alone { .. } | Form::Turns(_) => {}
            Form::ScenarioLanes { lanes, .. } => {
                lanes.iter().for_each(|lane| put_in_force(lane, kernel));
            }
            Form::Lanes { lanes, .. } => {
                for (lane, app) in lanes.iter().zip(1..) {
                    set_app(kernel, app, &lane.policy, lane.weight);
                    lane.cgroups.iter().for_each(|cgroup| assign(kernel, cgroup, app));
                }
            }
        }
        for (app, option, value) in &self.options {
            set_option(kernel, *app, *option, *value);
        }
        if let Form::Turns(turns) = &self.form {
            let turn = |turn: &'_ LaneTurn| turn.length.as_nanos() as u64;
            let turns: Vec<(&str, u64)> =
                turns.iter().map(|t| (t.policy.as_str(), turn(t))).collect();
            start_turns(kernel, &turns);
        }
    }
}

/// A policy by its name, which the simulator must have.
fn known(name: &str) -> Result<&'static PolicyInfo> {
    if name == EEVDF {
        let cause = "the fair class takes no turns and has no lanes";
        return Err(Error::new(Kind::Unsupported, format!("simulate '{name}'"), cause)
            .remedy("have it alone: --policy eevdf, or --compare=eevdf,fifo"));
    }
    known_variant(POLICIES, name).map(|(_, info)| info)
}

/// What the settings come to for a lane of that policy.
fn options(app: u32, policy: &str, given: &[Setting]) -> Result<Vec<OptionValue>> {
    let info = known(policy)?;
    let values = info.settings(given)?;
    values.iter().map(|(name, value)| Ok((app, info.option(name, *value)?, *value))).collect()
}

/// Arrangements of different names, in the order given.
///
/// # Errors
/// `Usage` where one is named twice; and what `make` gives.
pub fn distinct(
    names: Vec<String>,
    make: impl Fn(&str) -> Result<Arrangement>,
) -> Result<Vec<Arrangement>> {
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
