//! The table is made what rules say.

use std::collections::BTreeSet;

use metasched_base::{Error, Kind, Result};
use metasched_loader::{APPS, ASSIGNED_MAX, BACK_TO_ROOT};

use super::{App, Assignments, Member};
use crate::program::LaneProgram;
use crate::rules::{Placed, Placement, Why};

impl Assignments {
    /// Assigns what rules place and takes off what they do not place any more; what a
    /// user assigned stays. Gives what could not be done, which leaves that cgroup as it
    /// was.
    ///
    /// # Errors
    /// `Busy`, and nothing is changed, if that would be too many; `SchedulerExit` if the
    /// program has left the kernel.
    pub(crate) fn follow(
        &mut self,
        program: &mut dyn LaneProgram,
        placement: &Placement,
    ) -> Result<Vec<Error>> {
        self.check_room(placement)?;
        let mut failed = Vec::new();
        for (path, placed) in &placement.cgroups {
            tolerate(self.put(program, path, placed), &mut failed)?;
        }
        let mut stray = Vec::new();
        for app in self.apps.values() {
            let by_rule = app.cgroups.iter().filter(|(_, member)| member.rule.is_some());
            let gone = by_rule.filter(|(path, _)| !placement.cgroups.contains_key(path.as_str()));
            stray.extend(gone.map(|(path, _)| (app.number, path.clone())));
        }
        for (number, path) in stray {
            tolerate(self.remove(program, number, &path), &mut failed)?;
        }
        let included =
            self.exempt.keys().filter(|path| !placement.cgroups.contains_key(path.as_str()));
        for path in included.cloned().collect::<Vec<_>>() {
            tolerate(self.include(program, &path), &mut failed)?;
        }
        Ok(failed)
    }

    /// Whether there is room for what rules place beside what users assigned.
    ///
    /// # Errors
    /// `Busy`, with what there is too much of.
    pub(crate) fn check_room(&self, placement: &Placement) -> Result<()> {
        let by_hand = |app: &App| app.cgroups.values().filter(|m| m.rule.is_none()).count();
        let cgroups = placement.cgroups.len() + self.apps.values().map(by_hand).sum::<usize>();
        // What was assigned by hand may have the name of an application of rules.
        let mut apps: BTreeSet<(bool, &str)> = BTreeSet::new();
        let placed = placement.cgroups.values().filter(|placed| placed.app.lane.is_some());
        apps.extend(placed.map(|placed| (false, placed.app.name.as_str())));
        let assigned = self.apps.values().filter(|app| by_hand(app) > 0);
        apps.extend(assigned.map(|app| (app.why == Why::Hand, app.name.as_str())));
        let apps = apps.len();
        let attempt = "put on lanes what rules match";
        if cgroups > ASSIGNED_MAX {
            let cause =
                format!("these would be {cgroups} cgroups, and at most {ASSIGNED_MAX} have room");
            return Err(Error::new(Kind::Busy, attempt, cause)
                .remedy("match a cgroup further up: those below it inherit"));
        }
        if apps > APPS as usize {
            let cause = format!("these would be {apps} applications, and at most {APPS} have room");
            return Err(Error::new(Kind::Busy, attempt, cause)
                .remedy("put cgroups that are to share a lane into one application"));
        }
        Ok(())
    }

    /// Sees to it that a cgroup is on the lane of its application, which is made for the
    /// first one; without one, that it is on the default lane.
    fn put(&mut self, program: &mut dyn LaneProgram, path: &str, placed: &Placed) -> Result<()> {
        let Placed { id, app, rule } = *placed;
        let member = Member { id, rule: Some(rule.clone()) };
        if app.lane.is_none() {
            if self.exempt.get(path) != Some(&member) {
                self.move_to(program, BACK_TO_ROOT, path, member)?;
            }
            return Ok(());
        }
        let own = |known: &&mut App| known.why != Why::Hand && known.name == app.name;
        let number = match self.apps.values_mut().find(own) {
            Some(known) => {
                if let Some(there) = known.cgroups.get_mut(path).filter(|there| there.id == id) {
                    *there = member;
                    return Ok(());
                }
                known.number
            }
            None => self.make(program, path, app)?.0,
        };
        match self.move_to(program, number, path, member) {
            Err(error) if error.kind == Kind::BadInput => Err(Error::new(
                Kind::Failed,
                format!("put more cgroups on the lane of '{}'", app.name),
                "it was taken away, since its policy did not dispatch",
            )
            .remedy(
                "'metasched lane list' tells more; unassign its cgroups, or choose another policy",
            )),
            done => done.map(|_| ()),
        }
    }
}

/// Keeps a failure for later, unless there is no program any more to go on with.
fn tolerate(done: Result<()>, failed: &mut Vec<Error>) -> Result<()> {
    match done {
        Err(error) if error.kind == Kind::SchedulerExit => Err(error),
        Err(error) => {
            failed.push(error);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
