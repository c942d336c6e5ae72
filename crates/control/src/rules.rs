//! Rules: which cgroups belong to which application, whenever they are made.

mod latency_aware;
mod place;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use globset::{Glob, GlobBuilder, GlobSet, GlobSetBuilder};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_loader::{APPS, LaneSpec, variants};
use serde::{Deserialize, Serialize};

pub use latency_aware::{FLAG, LATENCY_AWARE, LATENCY_AWARE_POLICY};
pub use place::{Commands, Placed, Placement, Standing, Unknown};

/// The extended attribute by which a cgroup asks for a policy.
pub const ATTRIBUTE: &str = "user.metasched.policy";

/// What cgroups are asked for where they may ask themselves.
const ATTRIBUTES: &[&str] = &[ATTRIBUTE, FLAG];

/// What the names of applications begin with that such an attribute makes.
const BY_ATTRIBUTE: &str = "policy:";

/// What a cgroup is known by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Its path below the mount point, as a glob.
    Cgroups(String),
    /// The last name in its path, as a glob: that of a systemd unit, wherever it is.
    Units(String),
    /// The name of a command that runs in it, as a glob.
    Commands(String),
    /// The policy that its extended attribute names.
    Attribute(String),
    /// Whether its extended attribute flags it, or takes it out below a flagged one.
    LatencyAware(bool),
}

/// Why an application has the policy that it has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// A user assigned its cgroup.
    Hand,
    /// The file of rules with this name says so.
    File(String),
    /// The command line says so.
    CommandLine,
    /// It was measured to prefer it.
    Preferred(Preference),
    /// Its cgroups ask for it by their extended attribute.
    Attribute,
    /// Its cgroups are flagged latency-aware, each by hand or by a rule.
    LatencyAware,
}

/// What an application prefers, as a plan has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Preference {
    /// The file of the plan; `None` for that of the store.
    pub plan: Option<String>,
    /// What was measured; absent where the plan does not say, or the default scheduler
    /// is preferred.
    pub figures: Option<MeasuredRatio>,
}

/// A ratio to the default scheduler, with its 95 % interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredRatio {
    /// Of what: "throughput", "p99 latency".
    pub of: String,
    /// The best guess.
    pub estimate: f64,
    /// The lower bound.
    pub low: f64,
    /// The upper bound.
    pub high: f64,
    /// How many rounds it rests on.
    pub rounds: usize,
}

/// An application that rules speak of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleApp {
    /// Its name.
    pub name: String,
    /// What its lane is to be; `None` if it is to stay on the default lane.
    pub lane: Option<LaneSpec>,
    /// Why that is so.
    pub why: Why,
    /// Its share by the strategy, of 1, where its weight follows from that.
    pub share: Option<f64>,
    /// What its cgroups are known by.
    pub patterns: Vec<Pattern>,
}

/// Rules, checked and ready to be compared with cgroups.
#[derive(Debug)]
pub struct Rules {
    /// Those that were given, in their order, then those of flags and attributes.
    apps: Vec<RuleApp>,
    given: usize,
    /// Of flagged cgroups.
    latency_aware: usize,
    /// Of those that are taken out again below a flagged one.
    exempt: usize,
    /// Every pattern with its application, in the order in which they count.
    patterns: Vec<(usize, Pattern)>,
    cgroups: Globs,
    units: Globs,
    commands: Globs,
    attributes: Option<Attributes>,
}

/// The place among the patterns of what an attribute may say, where attributes count.
#[derive(Debug)]
struct Attributes {
    /// By the policy that [`ATTRIBUTE`] names.
    policies: BTreeMap<&'static str, usize>,
    /// By what [`FLAG`] says.
    flags: BTreeMap<bool, usize>,
}

/// Globs of one kind, each with the place of its pattern among all.
#[derive(Debug)]
struct Globs {
    set: GlobSet,
    places: Vec<usize>,
}

impl Pattern {
    /// The cgroup of this path and no other.
    pub fn exactly(path: &str) -> Self {
        Self::Cgroups(globset::escape(path))
    }

    /// The word by which a file names this kind, and the text.
    fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Cgroups(text) => ("cgroups", text),
            Self::Units(text) => ("units", text),
            Self::Commands(text) => ("commands", text),
            Self::Attribute(text) => (ATTRIBUTE, text),
            Self::LatencyAware(flagged) => (FLAG, if *flagged { "1" } else { "0" }),
        }
    }

    /// Refuses what nothing can match.
    ///
    /// # Errors
    /// `BadInput`.
    pub fn check(&self) -> Result<()> {
        self.glob().map(|_| ())
    }

    fn glob(&self) -> Result<Glob> {
        let (kind, text) = self.parts();
        let refuse = |cause: &str, remedy: String| {
            Err(Error::new(Kind::BadInput, format!("use {self} as a rule"), cause).remedy(remedy))
        };
        if text.is_empty() {
            return refuse("it is empty", format!("leave it out, or write what {kind} to take"));
        }
        match self {
            Self::Cgroups(_) if text.starts_with('/') => {
                let below = text.trim_start_matches("/sys/fs/cgroup").trim_start_matches('/');
                return refuse(
                    "it is an absolute path",
                    format!("write it as below /sys/fs/cgroup: '{below}'"),
                );
            }
            Self::Cgroups(_) if text.split('/').any(|part| ["", ".", ".."].contains(&part)) => {
                return refuse(
                    "it is not a plain path",
                    "write it like 'system.slice/nginx.service', without '.', '..' and '//'".into(),
                );
            }
            Self::Units(_) | Self::Commands(_) if text.contains('/') => {
                let last = text.rsplit('/').next().unwrap_or(text);
                return refuse(
                    "a name has no '/' in it",
                    format!("write '{last}', or a path below /sys/fs/cgroup as cgroups = [...]"),
                );
            }
            _ => {}
        }
        GlobBuilder::new(text)
            .literal_separator(true)
            // systemd writes "\x2d" for a '-' in names, and so does who copies them.
            .backslash_escape(false)
            .build()
            .map_err(|e| {
                Error::new(Kind::BadInput, format!("use {self} as a rule"), e.kind()).remedy(
                    "'*' and '?' stand for letters, '**' for any cgroups in between, '[a-z]' and \
                     '{a,b}' for a choice; '[[]' is a '['",
                )
            })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, text) = self.parts();
        write!(f, "{kind} = \"{text}\"")
    }
}

impl Rules {
    /// Checks the rules of applications; with `attributes`, cgroups may ask for a policy
    /// by [`ATTRIBUTE`] too, and flag themselves by [`FLAG`].
    ///
    /// # Errors
    /// `BadInput` for what cannot be.
    pub fn new(mut apps: Vec<RuleApp>, attributes: bool) -> Result<Self> {
        let given = apps.len();
        if given > APPS as usize {
            return Err(Error::new(
                Kind::BadInput,
                format!("give {given} applications lanes"),
                format!("there are at most {APPS}"),
            )
            .remedy("put cgroups that are to share a lane into one application"));
        }
        let flagged = apps.iter().position(|app| app.why == Why::LatencyAware);
        let latency_aware = flagged.unwrap_or(given);
        if flagged.is_none() {
            apps.push(RuleApp::latency_aware_by_default());
        }
        let mut names = BTreeSet::new();
        for app in &apps {
            check(app)?;
            if !names.insert(app.name.as_str()) {
                return Err(Error::new(
                    Kind::BadInput,
                    format!("use the rules of '{}'", app.name),
                    "there is another application of that name",
                )
                .remedy("give each a name of its own, or put their rules together"));
            }
        }
        let mut patterns: Vec<(usize, Pattern)> = apps
            .iter()
            .enumerate()
            .flat_map(|(app, rules)| rules.patterns.iter().map(move |p| (app, p.clone())))
            .collect();
        let exempt = apps.len();
        apps.push(RuleApp::exempt());
        let attributes =
            attributes.then(|| Attributes::new(&mut apps, &mut patterns, latency_aware, exempt));
        let globs = |kind: fn(&Pattern) -> bool| Globs::new(&patterns, kind);
        Ok(Self {
            cgroups: globs(|p| matches!(p, Pattern::Cgroups(_)))?,
            units: globs(|p| matches!(p, Pattern::Units(_)))?,
            commands: globs(|p| matches!(p, Pattern::Commands(_)))?,
            attributes,
            patterns,
            apps,
            given,
            latency_aware,
            exempt,
        })
    }

    /// The applications that were given, in their order.
    pub fn apps(&self) -> &[RuleApp] {
        &self.apps[..self.given]
    }

    /// The application of flagged cgroups.
    pub fn latency_aware(&self) -> &RuleApp {
        &self.apps[self.latency_aware]
    }

    /// The extended attributes that cgroups are asked for.
    pub fn attributes(&self) -> &'static [&'static str] {
        if self.attributes.is_some() { ATTRIBUTES } else { &[] }
    }

    /// Whether any rule is about commands, which have to be looked for again and again.
    pub fn are_about_commands(&self) -> bool {
        !self.commands.places.is_empty()
    }

    /// Whether a rule is about commands of this name.
    pub fn want_command(&self, name: &str) -> bool {
        self.commands.set.is_match(name)
    }
}

fn check(app: &RuleApp) -> Result<()> {
    let refuse = |cause: &str, remedy: &str| {
        Err(Error::new(Kind::BadInput, format!("use the rules of '{}'", app.name), cause)
            .remedy(remedy))
    };
    // Between parts that share a lane stands a '+'.
    let plain = |c: char| c.is_alphanumeric() || "-_.@+".contains(c);
    if app.name.is_empty() || !app.name.chars().all(plain) {
        return refuse("that cannot be a name", "use letters, digits, '-', '_', '.', '@' and '+'");
    }
    // Cgroups may be flagged by hand.
    if app.patterns.is_empty() && app.lane.is_some() && app.why != Why::LatencyAware {
        return refuse(
            "no cgroup can belong to it",
            "say which do: cgroups = [...], units = [...] or commands = [...]",
        );
    }
    app.lane.as_ref().map_or(Ok(()), LaneSpec::check)
}

impl Attributes {
    /// Adds what attributes may say, and the applications that policies make.
    fn new(
        apps: &mut Vec<RuleApp>,
        patterns: &mut Vec<(usize, Pattern)>,
        latency_aware: usize,
        exempt: usize,
    ) -> Self {
        let mut add = |app, pattern| {
            patterns.push((app, pattern));
            patterns.len() - 1
        };
        let flags = [(true, latency_aware), (false, exempt)]
            .map(|(flag, app)| (flag, add(app, Pattern::LatencyAware(flag))));
        let mut policies = BTreeMap::new();
        for policy in variants() {
            let app = if policy.name == LATENCY_AWARE_POLICY {
                latency_aware
            } else {
                apps.push(RuleApp {
                    name: format!("{BY_ATTRIBUTE}{}", policy.name),
                    lane: Some(LaneSpec::of(policy.name)),
                    why: Why::Attribute,
                    share: None,
                    patterns: Vec::new(),
                });
                apps.len() - 1
            };
            policies.insert(policy.name, add(app, Pattern::Attribute(policy.name.to_owned())));
        }
        Self { policies, flags: flags.into() }
    }
}

impl Globs {
    fn new(patterns: &[(usize, Pattern)], kind: fn(&Pattern) -> bool) -> Result<Self> {
        let (mut set, mut places) = (GlobSetBuilder::new(), Vec::new());
        for (at, (_, pattern)) in patterns.iter().enumerate().filter(|(_, (_, p))| kind(p)) {
            set.add(pattern.glob()?);
            places.push(at);
        }
        let set = set.build().attempt(Kind::BadInput, || "put rules together".to_owned())?;
        Ok(Self { set, places })
    }

    /// The first pattern that matches.
    fn first(&self, text: &str) -> Option<usize> {
        self.set.matches(text).into_iter().map(|at| self.places[at]).min()
    }
}

#[cfg(test)]
mod exhaustive;
#[cfg(test)]
mod tests;
