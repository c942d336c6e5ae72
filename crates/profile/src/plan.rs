//! Plans of what the store holds, and plans that were written before.

use std::collections::BTreeMap;
use std::io::Read;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_experiment::{Contender, Plan, PlanOptions, plan};

use crate::manifest::Workload;
use crate::{Analysis, cgroups_of};

/// What the store's figures come to, with the command that carries it out.
pub fn planned(analysis: &Analysis, options: PlanOptions) -> Result<Plan> {
    let mut plan = plan(&analysis.measured(), options)?;
    if let Some(recommended) = &mut plan.recommendation
        && let Some(contender) = &recommended.contender
    {
        if let Contender::Lanes { lanes, .. } = contender {
            let parts = lanes.iter().flat_map(|lane| &lane.parts);
            recommended.cgroups = cgroups(analysis, parts).unwrap_or_default();
        }
        recommended.command = "metasched run".to_owned();
    }
    Ok(plan)
}

/// The cgroups that parts have while the whole is measured, where the manifest is found.
fn cgroups<'a>(
    analysis: &Analysis,
    parts: impl Iterator<Item = &'a String>,
) -> Option<BTreeMap<String, Vec<String>>> {
    let settings: Vec<(String, String)> = analysis.params.clone().into_iter().collect();
    let emulated = analysis.environment.emulated;
    let workload = Workload::find(&analysis.workload, &settings, emulated).ok()?;
    let whole = analysis.composition.whole.as_deref()?;
    parts.map(|part| Some((part.clone(), cgroups_of(part, &workload, whole).ok()?))).collect()
}

/// Reads a plan that 'metasched plan --json' wrote; '-' is standard input.
///
/// # Errors
/// When it cannot be read, or is none.
pub fn read_plan(path: &str) -> Result<Plan> {
    let attempt = || format!("read the plan '{path}'");
    let text = if path == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    }
    .attempt(Kind::BadInput, attempt)?;
    serde_json::from_str(&text).map_err(|e| {
        Error::new(Kind::BadInput, attempt(), e).remedy("make one with: metasched plan --json")
    })
}
