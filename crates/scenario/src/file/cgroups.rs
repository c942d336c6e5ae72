//! Cgroups from a file: their weights, limits and lanes.

use super::changes::Change;
use super::read::Reader;
use super::values::{self, Wrong, wrong};
use super::{LaneSpec, raw};
use crate::options;
use metasched_abi::{POLICIES, PRESETS, variant};
use metasched_base::{Result, nearest};
use metasched_experiment::Objective;
use std::collections::BTreeMap;
use toml::Spanned;

/// Applications beside the default one.
const APPS: usize = metasched_abi::ACCOUNTS_MAX - 1;

impl Reader<'_> {
    /// What is written to cgroups at the beginning, and the lanes that some have.
    pub fn cgroups(
        &mut self,
        raw: &BTreeMap<raw::Text, raw::Cgroup>,
    ) -> Result<(Vec<Change>, Vec<LaneSpec>)> {
        let (mut changes, mut lanes) = (Vec::new(), Vec::new());
        let mut in_order: Vec<_> = raw.iter().collect();
        in_order.sort_by_key(|(path, _)| path.span().start);
        for (path, cgroup) in in_order {
            let name = self.cgroup(path)?;
            let weight = self.weight(&cgroup.weight, &None)?;
            if let Some(weight) = weight {
                self.weights.insert(name.clone(), weight);
                changes.push(Change::CgroupWeight(name.clone(), weight));
            }
            changes.extend(self.quota(&name, &cgroup.quota, &cgroup.burst)?);
            if let Some(idle) = cgroup.idle {
                changes.push(Change::CgroupIdle(name.clone(), idle));
            }
            if let Some(lane) = &cgroup.lane {
                lanes.push(self.lane(&name, lane)?);
            }
        }
        Ok((changes, lanes))
    }

    /// What cgroups are for, where that is said.
    pub fn objectives(
        &self,
        raw: &BTreeMap<raw::Text, raw::Cgroup>,
    ) -> Result<BTreeMap<String, Objective>> {
        let said = raw.iter().filter_map(|(path, cgroup)| Some((path, cgroup.objective.as_ref()?)));
        said.map(|(path, text)| {
            let objective = text.get_ref().parse::<Objective>();
            let remedy = "write one of these; a cgroup without it is judged by what it does";
            let refuse = |e: metasched_experiment::StrategyError| {
                self.wrong(text.span().start, wrong(e.to_string(), remedy))
            };
            Ok((self.cgroup(path)?, objective.map_err(refuse)?))
        })
        .collect()
    }

    pub fn quota(
        &self,
        cgroup: &str,
        quota: &Option<raw::Text>,
        burst: &Option<raw::Text>,
    ) -> Result<Option<Change>> {
        let burst_ns = self.duration(burst, 0)?;
        match (quota, burst) {
            (Some(text), _) => {
                let quota = self.text(text, values::quota)?;
                Ok(Some(Change::CgroupQuota(cgroup.to_owned(), quota, burst_ns / 1_000)))
            }
            (None, Some(burst)) => {
                let cause = "a burst goes beyond a quota, and there is none";
                let remedy = "add quota = \"40ms/100ms\", or so";
                Err(self.wrong(burst.span().start, wrong(cause, remedy)))
            }
            (None, None) => Ok(None),
        }
    }

    pub fn policy(&self, at: usize, policy: &str) -> Result<String> {
        if variant(POLICIES, policy).is_some() {
            return Ok(policy.to_owned());
        }
        let known: Vec<&str> = POLICIES.iter().chain(PRESETS).map(|info| info.name).collect();
        let remedy = match nearest(policy, known.iter().copied()) {
            Some(near) => format!("did you mean '{near}'?"),
            None => format!("there are {}", known.join(", ")),
        };
        Err(self.wrong(at, wrong(format!("there is no policy '{policy}'"), remedy)))
    }

    pub fn lane(&mut self, cgroup: &str, lane: &Spanned<raw::Lane>) -> Result<LaneSpec> {
        let at = lane.span().start;
        let (policy, weight, given) = match lane.get_ref() {
            raw::Lane::Policy(policy) => (policy, None, &BTreeMap::new()),
            raw::Lane::Table(table) => (&table.policy, table.weight, &table.options),
        };
        let policy = self.policy(at, policy)?;
        let weight = weight.map(values::weight).transpose().map_err(|e| self.wrong(at, e))?;
        let (mut settings, mut options) = (Vec::new(), BTreeMap::new());
        for (name, value) in given {
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                other => {
                    let cause =
                        format!("an option is a string or a number, not a {}", other.type_str());
                    return Err(self.wrong(at, wrong(cause, "write it like slice = \"5ms\"")));
                }
            };
            let found = options::option(&policy, name, &value);
            settings.push(found.map_err(|e| {
                let cause = format!("cannot {}: {}", e.attempt, e.cause);
                self.wrong(at, Wrong { cause, remedy: e.remedy })
            })?);
            options.insert(name.clone(), value);
        }
        let app = self.app(at, cgroup)?;
        let cgroup_weight = self.weights.get(cgroup).copied().unwrap_or(100);
        let cgroup = cgroup.to_owned();
        Ok(LaneSpec { app, cgroup, policy, weight, options, settings, cgroup_weight })
    }

    /// The number of a cgroup's application.
    pub fn app(&mut self, at: usize, cgroup: &str) -> Result<u32> {
        if !self.apps.iter().any(|known| known == cgroup) {
            if self.apps.len() == APPS {
                let cause = format!("there are lanes for {APPS} cgroups already");
                return Err(self.wrong(at, wrong(cause, "assign a cgroup above them instead")));
            }
            self.apps.push(cgroup.to_owned());
        }
        let place = self.apps.iter().position(|known| known == cgroup);
        Ok(place.expect("just put there") as u32 + 1)
    }
}
