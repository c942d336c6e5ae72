//! Which cgroup belongs to which application: rules and a picture of the hierarchy go in,
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use metasched_host::cgroup::{Node, Tree};

use super::latency_aware::flag;
use super::{ATTRIBUTE, FLAG, Pattern, RuleApp, Rules};

/// The commands that run in a cgroup, by its path.
pub type Commands = BTreeMap<String, BTreeSet<String>>;

/// What a user has said of a cgroup by hand, which goes before all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Free,
    /// It was assigned.
    Assigned,
    /// It was flagged latency-aware.
    Flagged,
    /// It was unassigned.
    Unassigned,
}

/// A cgroup that a rule puts on a lane, or back on the default one below a flagged cgroup.
#[derive(Clone, Copy, Debug)]
pub struct Placed<'a> {
    /// The kernel's number of it.
    pub id: u64,
    /// The application that it belongs to.
    pub app: &'a RuleApp,
    /// The rule.
    pub rule: &'a Pattern,
}

/// What rules make of a hierarchy.
#[derive(Debug, Default)]
pub struct Placement<'a> {
    /// The cgroups that have to be assigned, by their paths. Not in it are those that
    /// get the same from a cgroup above them.
    pub cgroups: BTreeMap<&'a str, Placed<'a>>,
    /// What attributes say that means nothing.
    pub unknown: Vec<Unknown<'a>>,
}

/// A value of an attribute that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// The cgroup.
    pub path: &'a str,
    /// The attribute.
    pub attribute: &'static str,
    /// What it says.
    pub value: &'a str,
}

/// What holds for what is below a cgroup.
#[derive(Clone, Copy, Default)]
struct Above {
    /// The application whose lane it is on by a rule, or by a flag whoever set it; where it is put back on
    /// the default lane, that of those.
    app: Option<usize>,
    /// The application that a rule gives it to, and a user does not: what is below goes
    /// along with what the user said, down to the next cgroup that a rule gives to another
    /// application.
    overruled: Option<usize>,
}

impl Rules {
    /// Compares the rules with the cgroups that there are: the rule nearest to a cgroup
    /// counts, on its way up, and of those that match the very same one the first.
    pub fn place<'a>(
        &'a self,
        tree: &'a Tree,
        commands: &Commands,
        standing: impl Fn(&str, u64) -> Standing,
    ) -> Placement<'a> {
        let mut placement = Placement::default();
        let mut known: BTreeMap<&str, Above> = BTreeMap::new();
        for (path, node) in tree.iter() {
            let parent = path.rsplit_once('/').and_then(|(parent, _)| known.get(parent));
            let above = parent.copied().unwrap_or_default();
            let rule = self.by_file(path, commands).or_else(|| {
                placement.unknown.extend(self.unknown(path, node));
                self.by_attribute(node)
            });
            let own = rule.map(|at| self.patterns[at].0);
            let here = match (standing(path, node.id), rule) {
                (Standing::Assigned, _) => Above { app: None, overruled: own },
                (Standing::Flagged, _) => Above { app: Some(self.latency_aware), overruled: own },
                (Standing::Unassigned, _) => {
                    Above { app: above.app, overruled: own.or(above.overruled) }
                }
                (Standing::Free, None) => above,
                (Standing::Free, Some(at)) => {
                    let (own, rule) = &self.patterns[at];
                    let app = &self.apps[*own];
                    if above.overruled == Some(*own) {
                        above
                    } else if above.app == Some(*own) {
                        // The rule is in force, and so ends what a user said further up.
                        Above { overruled: None, ..above }
                    } else if *own == self.exempt {
                        if above.app == Some(self.latency_aware) {
                            placement.cgroups.insert(path, Placed { id: node.id, app, rule });
                            Above { app: Some(self.exempt), overruled: None }
                        } else {
                            above
                        }
                    } else if app.lane.is_none() {
                        // It stays where what is above it is; later rules have no say.
                        Above { app: above.app, overruled: Some(*own) }
                    } else {
                        placement.cgroups.insert(path, Placed { id: node.id, app, rule });
                        Above { app: Some(*own), overruled: None }
                    }
                }
            };
            known.insert(path, here);
        }
        placement
    }

    /// The place of the first pattern of the file that matches this very cgroup.
    fn by_file(&self, path: &str, commands: &Commands) -> Option<usize> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let running = commands.get(path).into_iter().flatten();
        let by_command = running.filter_map(|name| self.commands.first(name)).min();
        let given = [self.cgroups.first(path), self.units.first(name), by_command];
        given.into_iter().flatten().min()
    }

    /// The place of what its attributes say: a policy goes before a flag, since it says more.
    fn by_attribute(&self, node: &Node) -> Option<usize> {
        let known = self.attributes.as_ref()?;
        let value = |name: &str| node.attributes.get(name).map(String::as_str);
        let policy = value(ATTRIBUTE).and_then(|policy| known.policies.get(policy));
        policy.or_else(|| known.flags.get(&flag(value(FLAG)?)?)).copied()
    }

    /// What its attributes say that means nothing.
    fn unknown<'a>(&self, path: &'a str, node: &'a Node) -> impl Iterator<Item = Unknown<'a>> {
        let means = |attribute: &str, value: &str| match &self.attributes {
            Some(known) if attribute == ATTRIBUTE => known.policies.contains_key(value),
            Some(_) => flag(value).is_some(),
            // Nobody has asked.
            None => true,
        };
        let all = node.attributes.iter();
        all.filter(move |(attribute, value)| !means(attribute, value))
            .map(move |(attribute, value)| Unknown { path, attribute, value })
    }
}
