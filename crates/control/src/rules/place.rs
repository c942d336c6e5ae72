//! Which cgroup belongs to which application: rules and a picture of the hierarchy go in,
//! nothing else.

use std::collections::{BTreeMap, BTreeSet};

use metasched_host::cgroup::{Node, Tree};

use super::{Pattern, RuleApp, Rules};

/// The commands that run in a cgroup, by its path.
pub type Commands = BTreeMap<String, BTreeSet<String>>;

/// What a user has said of a cgroup by hand, which goes before all rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    Free,
    /// It was assigned.
    Assigned,
    /// It was unassigned.
    Unassigned,
}

/// A cgroup that a rule puts on a lane.
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
    /// The cgroups whose attribute names a policy that there is not, with that name.
    pub unknown: Vec<(&'a str, &'a str)>,
}

/// What holds for what is below a cgroup.
#[derive(Clone, Copy, Default)]
struct Above {
    /// The application whose lane it is on by a rule.
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
            let rule = self.first(path, node, commands);
            let own = rule.map(|at| self.patterns[at].0);
            if let (None, Some(policy)) = (rule, self.unknown_policy(node)) {
                placement.unknown.push((path, policy));
            }
            let here = match (standing(path, node.id), rule) {
                (Standing::Assigned, _) => Above { app: None, overruled: own },
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

    /// The place of the first pattern that matches this very cgroup; attributes come last.
    fn first(&self, path: &str, node: &Node, commands: &Commands) -> Option<usize> {
        let name = path.rsplit('/').next().unwrap_or(path);
        let running = commands.get(path).into_iter().flatten();
        let by_command = running.filter_map(|name| self.commands.first(name)).min();
        let given = [self.cgroups.first(path), self.units.first(name), by_command];
        given.into_iter().flatten().min().or_else(|| {
            let app = self.attributes.get(node.attribute.as_deref()?)?;
            self.patterns.iter().position(|(owner, _)| owner == app)
        })
    }

    fn unknown_policy<'a>(&self, node: &'a Node) -> Option<&'a str> {
        let policy = node.attribute.as_deref()?;
        (!self.attributes.is_empty() && !self.attributes.contains_key(policy)).then_some(policy)
    }
}
