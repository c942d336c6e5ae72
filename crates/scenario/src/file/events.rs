//! Events from a file: what changes while it runs.

use super::changes::Change;
use super::read::Reader;
use super::values::{self, duration_ns, wrong};
use super::{MachineSpec, raw};
use metasched_base::{Result, nearest};
use toml::Spanned;

impl Reader<'_> {
    /// When it is, and all that changes then.
    pub fn event(
        &mut self,
        event: &Spanned<raw::Event>,
        groups: &[String],
        machine: &MachineSpec,
    ) -> Result<(u64, Vec<Change>)> {
        let (start, raw) = (event.span().start, event.get_ref());
        let at_ns = self.text(&raw.at, duration_ns)?;
        let weight = self.weight(&raw.weight, &raw.nice)?;
        let affinity =
            raw.affinity.as_ref().map(|text| self.text(text, values::cpus)).transpose()?;
        let move_to = raw.move_to.as_ref().map(|path| self.cgroup(path)).transpose()?;
        let (mut changes, mut used) = (Vec::new(), 0);
        match (&raw.task, &raw.cgroup, &raw.cpu) {
            (Some(task), None, None) => {
                let group = task.get_ref().clone();
                if !groups.contains(&group) {
                    let remedy = match nearest(&group, groups.iter().map(String::as_str)) {
                        Some(near) => format!("did you mean '{near}'?"),
                        None => format!("there are {}", groups.join(", ")),
                    };
                    let unknown = wrong(format!("there is no task '{group}'"), remedy);
                    return Err(self.wrong(task.span().start, unknown));
                }
                changes.extend(weight.map(|weight| Change::TaskWeight(group.clone(), weight)));
                changes.extend(affinity.map(|mask| Change::TaskAffinity(group.clone(), mask)));
                changes.extend(move_to.map(|cgroup| Change::TaskMove(group.clone(), cgroup)));
                used += changes.len();
            }
            (None, Some(cgroup), None) => {
                let name = self.cgroup(cgroup)?;
                if let (Some(weight), None) = (weight, &raw.nice) {
                    self.weights.insert(name.clone(), weight);
                    changes.push(Change::CgroupWeight(name.clone(), weight));
                }
                changes.extend(self.quota(&name, &raw.quota, &raw.burst)?);
                changes.extend(raw.idle.map(|idle| Change::CgroupIdle(name.clone(), idle)));
                if let Some(lane) = &raw.lane {
                    changes.push(self.lane_change(&name, lane)?);
                }
                used += changes.len() + usize::from(raw.burst.is_some());
            }
            (None, None, Some(_)) => {
                let cpu = self.number(&raw.cpu, 0, 0..=machine.cpus as u64 - 1)? as usize;
                changes.extend(raw.online.map(|online| Change::Online(cpu, online)));
                used += changes.len();
            }
            (None, None, None) => {
                if let Some(lane) = &raw.lane {
                    let raw::Lane::Policy(policy) = lane.get_ref() else {
                        let cause = "the root lane is replaced by one of a policy";
                        let remedy = "write lane = \"vtime\", or say of which cgroup it is";
                        return Err(self.wrong(lane.span().start, wrong(cause, remedy)));
                    };
                    changes.push(Change::RootLane(self.policy(lane.span().start, policy)?));
                    used += 1;
                }
            }
            _ => {
                let cause = "an event is about one thing";
                let remedy = "say one of task, cgroup and cpu, and write another event";
                return Err(self.wrong(start, wrong(cause, remedy)));
            }
        }
        let given = [
            raw.weight.is_some(),
            raw.nice.is_some(),
            raw.affinity.is_some(),
            raw.move_to.is_some(),
            raw.quota.is_some(),
            raw.burst.is_some(),
            raw.idle.is_some(),
            raw.lane.is_some(),
            raw.online.is_some(),
        ];
        if changes.is_empty() || used != given.iter().filter(|given| **given).count() {
            let cause = "it does not fit together what changes, and of what";
            let remedy = "write weight, nice, affinity or move_to of a task; weight, quota and \
                          burst, idle or lane of a cgroup; online of a cpu; or lane alone";
            return Err(self.wrong(start, wrong(cause, remedy)));
        }
        Ok((at_ns, changes))
    }

    fn lane_change(&mut self, cgroup: &str, lane: &Spanned<raw::Lane>) -> Result<Change> {
        let at = lane.span().start;
        if !matches!(lane.get_ref(), raw::Lane::Policy(policy) if policy == "none") {
            return Ok(Change::Lane(self.lane(cgroup, lane)?));
        }
        if !self.apps.iter().any(|known| known == cgroup) {
            let cause = format!("'{cgroup}' has no lane of its own");
            return Err(self.wrong(at, wrong(cause, "give it one before, or remove the event")));
        }
        Ok(Change::NoLane { cgroup: cgroup.to_owned(), app: self.app(at, cgroup)? })
    }
}
