//! Rules at work: whenever the hierarchy of cgroups changes, the lanes follow.

use std::collections::BTreeSet;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use metasched_base::{Error, Kind, Result};
use metasched_host::cgroup::Watch;
use metasched_host::process::cgroups_of_commands;
use metasched_loader::variants;

use crate::assignments::Assignments;
use crate::program::LaneProgram;
use crate::rules::{ATTRIBUTE, Commands, RuleApp, Rules, Unknown};

/// How much is told at most. Whoever may mark a cgroup could make up names without end.
const TOLD_MAX: usize = 64;

/// Of a name that somebody made up not more than this is shown.
const SHOWN_LETTERS: usize = 64;

/// Rules, and what they are compared with.
#[derive(Debug)]
pub struct Follower {
    rules: Rules,
    root: PathBuf,
    watch: Watch,
    commands: Commands,
    told: Told,
    /// Whether something has changed since rules were last compared.
    stale: bool,
}

/// Warnings that were given, each of them once.
#[derive(Debug)]
struct Told {
    said: BTreeSet<String>,
    warn: fn(&str),
}

impl Follower {
    /// Reads the hierarchy of the system whose root directory is `root`, and follows it.
    /// What goes wrong later is told through `warn`, each thing once.
    ///
    /// # Errors
    /// `Unsupported` where the hierarchy is not of cgroup v2; `Busy` if the rules match
    /// too much.
    pub fn new(root: &Path, rules: Rules, warn: fn(&str)) -> Result<Self> {
        let watch = Watch::new(root, rules.attributes())?;
        let mut follower = Self {
            rules,
            root: root.to_owned(),
            watch,
            commands: Commands::new(),
            told: Told { said: BTreeSet::new(), warn },
            stale: true,
        };
        follower.look();
        // Nobody has assigned anything yet.
        let nothing = Assignments::new(root);
        let standing = |path: &str, id| nothing.standing(path, id);
        let placement = follower.rules.place(follower.watch.tree(), &follower.commands, standing);
        nothing.check_room(&placement)?;
        Ok(follower)
    }

    /// The applications of the rules, in their order.
    pub fn apps(&self) -> &[RuleApp] {
        self.rules.apps()
    }

    /// The application of cgroups that are flagged latency-aware.
    pub(crate) fn latency_aware(&self) -> &RuleApp {
        self.rules.latency_aware()
    }

    /// What becomes readable when the hierarchy has changed, if the kernel tells.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.watch.fd()
    }

    /// Takes in what has changed of the hierarchy.
    pub(crate) fn update(&mut self) {
        self.stale |= self.watch.update();
    }

    /// Looks for what nobody tells of. To be called now and then.
    pub(crate) fn look(&mut self) {
        self.stale |= self.watch.look();
        if self.rules.are_about_commands() {
            let commands = cgroups_of_commands(&self.root, |name| self.rules.want_command(name));
            self.stale |= commands != self.commands;
            self.commands = commands;
        }
    }

    /// Has rules compared at the next call of [`Follower::apply`]: a user has changed
    /// what is assigned.
    pub(crate) fn reconsider(&mut self) {
        self.stale = true;
    }

    /// Makes the lanes what the rules say, if anything has changed; gives what could not
    /// be done, which is tried again at the next call.
    ///
    /// # Errors
    /// As [`Assignments::follow`].
    pub(crate) fn begin(
        &mut self,
        program: &mut dyn LaneProgram,
        assignments: &mut Assignments,
    ) -> Result<Vec<Error>> {
        if !self.stale {
            return Ok(Vec::new());
        }
        let standing = |path: &str, id| assignments.standing(path, id);
        let placement = self.rules.place(self.watch.tree(), &self.commands, standing);
        for unknown in &placement.unknown {
            let Unknown { attribute, value, .. } = unknown;
            self.told.once(&format!("{attribute}={value}"), || tell(unknown));
        }
        let failed = assignments.follow(program, &placement)?;
        self.stale = !failed.is_empty();
        Ok(failed)
    }

    /// As [`Follower::begin`], but what goes wrong is told.
    ///
    /// # Errors
    /// `SchedulerExit` if the program has left the kernel.
    pub(crate) fn apply(
        &mut self,
        program: &mut dyn LaneProgram,
        assignments: &mut Assignments,
    ) -> Result<()> {
        let failed = match self.begin(program, assignments) {
            Err(error) if error.kind == Kind::SchedulerExit => return Err(error),
            Err(error) => vec![error],
            Ok(failed) => failed,
        };
        for error in failed {
            self.told.once(&error.attempt, || error.to_string());
        }
        Ok(())
    }
}

impl Told {
    fn once(&mut self, what: &str, text: impl FnOnce() -> String) {
        if self.said.len() < TOLD_MAX && self.said.insert(what.to_owned()) {
            (self.warn)(&text());
        }
    }
}

fn tell(unknown: &Unknown) -> String {
    let shown = |text: &str| -> String {
        text.chars().take(SHOWN_LETTERS).flat_map(char::escape_debug).collect()
    };
    let Unknown { path, attribute, value } = unknown;
    let (path, value) = (shown(path), shown(value));
    if *attribute == ATTRIBUTE {
        let known: Vec<&str> = variants().map(|info| info.name).collect();
        Error::new(
            Kind::BadInput,
            format!("put '{path}' on the lane that its {attribute} names"),
            format!("there is no policy '{value}'"),
        )
        .remedy(format!("there are {}", known.join(", ")))
    } else {
        Error::new(
            Kind::BadInput,
            format!("flag '{path}' as its {attribute} says"),
            format!("'{value}' is neither yes nor no"),
        )
        .remedy("set it to 1, or to 0 below a cgroup that is flagged")
    }
    .to_string()
}

#[cfg(test)]
mod tests;
