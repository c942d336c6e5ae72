//! From a plan, or from the command line, to turns.

use std::collections::BTreeMap;
use std::io::Read;
use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_control::{Candidate, Turn, resolve};
use metasched_report::PlanOptions;
use metasched_strategy::{BenefitForm, Objective, Strategy};
use serde::Deserialize;

use crate::commands::plan::{PUBLISHED_BASE_SLICE, Source};

/// One `--turn APP=SCHEDULER[:WEIGHT]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TurnSpec {
    app: String,
    scheduler: String,
    weight: Option<f64>,
}

impl FromStr for TurnSpec {
    type Err = Error;

    /// What follows the last colon is the weight if it is a number; otherwise it
    /// belongs to the scheduler, whose options follow a colon as well.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = |cause: &str| {
            Error::new(Kind::Usage, format!("read the turn '{text}'"), cause)
                .remedy("write it like front=fifo, front=fifo:0.7 or back=scx_simple:-f:0.3")
        };
        let (app, rest) = text.split_once('=').ok_or_else(|| wrong("it has no '='"))?;
        let (scheduler, weight) = match rest.rsplit_once(':') {
            Some((scheduler, number)) => match number.parse::<f64>() {
                Ok(weight) => (scheduler, Some(weight)),
                Err(_) => (rest, None),
            },
            None => (rest, None),
        };
        if app.is_empty() || scheduler.is_empty() {
            return Err(wrong("the application or the scheduler is missing"));
        }
        if weight.is_some_and(|w| !w.is_finite() || w < 0.0) {
            return Err(wrong("the weight is not a number from 0 upwards"));
        }
        Ok(Self { app: app.to_owned(), scheduler: scheduler.to_owned(), weight })
    }
}

/// What `metasched plan --json` writes, as far as it matters here.
#[derive(Debug, Deserialize)]
pub(super) struct PlanFile {
    apps: Vec<PlannedApp>,
}

/// One application of the plan.
#[derive(Debug, Deserialize)]
pub(super) struct PlannedApp {
    name: String,
    /// The scheduler that it prefers.
    preferred: String,
    /// Its weight by strategy.
    weights: BTreeMap<String, f64>,
}

/// Who has turns, under which scheduler, with what share of the time.
#[derive(Debug, PartialEq)]
pub(super) struct Plan(Vec<(String, String, f64)>);

impl Plan {
    /// The plan that the command line asks for.
    pub(super) fn read(
        file: Option<&str>,
        source: &Source,
        turns: &[TurnSpec],
        strategy: Strategy,
    ) -> Result<Self> {
        match (file, turns) {
            (_, [_, ..]) => Self::from_turns(turns),
            (Some(path), []) => Self::from_file(read_file(path)?, strategy, path),
            (None, []) => {
                Self::from_file(plan_from_store(source, strategy)?, strategy, "the store")
            }
        }
    }

    /// Every application with its scheduler and its share of 1.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &str, f64)> {
        self.0.iter().map(|(app, scheduler, share)| (app.as_str(), scheduler.as_str(), *share))
    }

    /// The turns, with the lengths that `slices` makes of the weights.
    pub(super) fn turns(
        &self,
        table: &[Candidate],
        slices: impl FnOnce(&[f64]) -> Vec<Duration>,
    ) -> Result<Vec<Turn>> {
        let weights: Vec<f64> = self.0.iter().map(|(_, _, weight)| *weight).collect();
        self.0
            .iter()
            .zip(slices(&weights))
            .map(|((app, scheduler, _), slice)| {
                Ok(Turn { candidate: resolve(table, scheduler)?, slice, app: app.clone() })
            })
            .collect()
    }

    fn from_turns(turns: &[TurnSpec]) -> Result<Self> {
        let given = turns.iter().filter(|turn| turn.weight.is_some()).count();
        if given != 0 && given != turns.len() {
            return Err(Error::new(
                Kind::Usage,
                "share the time between the turns",
                "some have a weight and some have none",
            )
            .remedy("give each of them a weight, or none of them"));
        }
        Self::normalised(
            turns
                .iter()
                .map(|turn| (turn.app.clone(), turn.scheduler.clone(), turn.weight.unwrap_or(1.0))),
        )
    }

    fn from_file(file: PlanFile, strategy: Strategy, from: &str) -> Result<Self> {
        let rows = file
            .apps
            .into_iter()
            .map(|app| match app.weights.get(strategy.name()) {
                Some(weight) if weight.is_finite() && *weight >= 0.0 => {
                    Ok((app.name, app.preferred, *weight))
                }
                weight => Err(Error::new(
                    Kind::BadInput,
                    format!("use the plan from {from}"),
                    match weight {
                        Some(weight) => format!("'{}' has the weight {weight}", app.name),
                        None => format!("'{}' has no weight for '{strategy}'", app.name),
                    },
                )
                .remedy("make it anew: metasched plan --json")),
            })
            .collect::<Result<Vec<_>>>()?;
        Self::normalised(rows.into_iter())
    }

    /// Weights that add up to 1, as the formula of the turns' length wants them.
    fn normalised(rows: impl Iterator<Item = (String, String, f64)>) -> Result<Self> {
        let mut rows: Vec<_> = rows.collect();
        let sum: f64 = rows.iter().map(|(_, _, weight)| weight).sum();
        if sum <= 0.0 {
            return Err(Error::new(
                Kind::BadInput,
                "share the time between the applications",
                "no application has a weight above 0",
            )
            .remedy("give at least one of them a weight"));
        }
        for (_, _, weight) in &mut rows {
            *weight /= sum;
        }
        Ok(Self(rows))
    }
}

fn read_file(path: &str) -> Result<PlanFile> {
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

/// The plan that `metasched plan` would make of the store.
fn plan_from_store(source: &Source, strategy: Strategy) -> Result<PlanFile> {
    let analysis = source.analyse(&source.open()?)?;
    let choice = PlanOptions {
        objective: Objective::Throughput,
        benefit: BenefitForm::default(),
        base_slice: PUBLISHED_BASE_SLICE,
        count_switching: false,
    };
    let apps = metasched_report::plan(&analysis, choice)?
        .apps
        .into_iter()
        .map(|app| PlannedApp {
            weights: app
                .weights
                .get(strategy.name())
                .map(|w| (strategy.to_string(), *w))
                .into_iter()
                .collect(),
            name: app.name,
            preferred: app.preferred,
        })
        .collect();
    Ok(PlanFile { apps })
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::EEVDF;

    fn spec(text: &str) -> TurnSpec {
        text.parse().unwrap()
    }

    fn weights(plan: &Plan) -> Vec<f64> {
        plan.0.iter().map(|(_, _, weight)| *weight).collect()
    }

    #[test]
    fn a_turn_may_have_options_and_a_weight() {
        let t = spec("back=scx_simple:-f:0.3");
        assert_eq!((t.scheduler.as_str(), t.weight), ("scx_simple:-f", Some(0.3)));
        let t = spec("back=scx_simple:-f");
        assert_eq!((t.scheduler.as_str(), t.weight), ("scx_simple:-f", None));
        let t = spec("back=fifo:2");
        assert_eq!((t.scheduler.as_str(), t.weight), ("fifo", Some(2.0)));
        for wrong in ["fifo", "=fifo", "front=", "front=fifo:-1", "front=fifo:inf"] {
            assert_eq!(wrong.parse::<TurnSpec>().unwrap_err().kind, Kind::Usage, "{wrong}");
        }
    }

    #[test]
    fn turns_without_weights_are_equal_and_given_ones_add_up_to_one() {
        let plan = Plan::read(
            None,
            &Source::default(),
            &[spec("a=fifo"), spec("b=vtime")],
            Strategy::RoundRobin,
        )
        .unwrap();
        assert_eq!(weights(&plan), [0.5, 0.5]);
        let plan = Plan::read(
            None,
            &Source::default(),
            &[spec("a=fifo:3"), spec("b=vtime:1")],
            Strategy::Delta,
        )
        .unwrap();
        assert_eq!(weights(&plan), [0.75, 0.25]);
        let e = Plan::read(
            None,
            &Source::default(),
            &[spec("a=fifo:3"), spec("b=vtime")],
            Strategy::Delta,
        );
        assert_eq!(e.unwrap_err().kind, Kind::Usage);
    }

    #[test]
    fn the_weights_of_the_strategy_are_taken_from_the_plan() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        std::fs::write(
            &path,
            r#"{"apps":[
                {"name":"front","preferred":"fifo","weights":{"delta":0.8,"benefit":0.5},"more":1},
                {"name":"back","preferred":"eevdf","weights":{"delta":0.2,"benefit":0.5}}]}"#,
        )
        .unwrap();
        let path = path.to_str().unwrap();
        let plan = Plan::read(Some(path), &Source::default(), &[], Strategy::Delta).unwrap();
        assert_eq!(weights(&plan), [0.8, 0.2]);
        assert_eq!(plan.0[1].1, EEVDF);
        let e = Plan::read(Some(path), &Source::default(), &[], Strategy::RoundRobin).unwrap_err();
        assert!(e.to_string().contains("no weight for 'round-robin'"), "{e}");
    }

    #[test]
    fn a_plan_that_is_no_plan_is_bad_input_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        std::fs::write(&path, "{\n  \"apps\": 3\n}").unwrap();
        let e = Plan::read(path.to_str(), &Source::default(), &[], Strategy::Delta).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert!(e.to_string().contains("line 2"), "{e}");
        let e = Plan::read(Some("/no/such/plan"), &Source::default(), &[], Strategy::Delta)
            .unwrap_err();
        assert!(e.to_string().contains("/no/such/plan"), "{e}");
    }

    #[test]
    fn an_unknown_scheduler_in_a_turn_is_told_with_what_there_is() {
        let plan =
            Plan::read(None, &Source::default(), &[spec("a=fifoo")], Strategy::Delta).unwrap();
        let e = plan.turns(&[Candidate::eevdf("")], |_| vec![Duration::from_secs(1)]).unwrap_err();
        assert!(e.to_string().contains("there are: eevdf"), "{e}");
    }
}
