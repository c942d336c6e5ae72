//! From a plan, or from what a user says, to who has which scheduler for how much of the time.

use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};
use metasched_control::{Candidate, EEVDF, MeasuredRatio, Preference, Turn, Why, resolve};
use metasched_experiment::{
    self as experiment, AppPlan, Contender, Objective, Share, Strategy, TableRow, lane_weights,
};
use metasched_stats::Interval;

/// One `--turn APP=SCHEDULER[:WEIGHT]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TurnSpec {
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

/// What the application's preference rests on.
fn figures(file: &experiment::Plan, app: &AppPlan) -> Option<MeasuredRatio> {
    let is_meant = |row: &&TableRow| row.form == app.form && row.candidate == app.preferred;
    let row = file.table.iter().find(is_meant)?;
    let (of, ratio) = match app.objective {
        Objective::P99 | Objective::Service => ("p99 latency", row.p99),
        _ => ("throughput", row.throughput),
    };
    let Interval { estimate, low, high, .. } = ratio.interval?;
    Some(MeasuredRatio { of: of.to_owned(), estimate, low, high, rounds: row.rounds })
}

/// The applications that have turns, or lanes.
#[derive(Debug, PartialEq)]
pub struct PlannedShares(Vec<PlannedShare>);

/// One application.
#[derive(Debug, PartialEq)]
pub struct PlannedShare {
    /// Its name.
    pub app: String,
    /// The scheduler that it is to be under.
    pub scheduler: String,
    /// Its share of the time, of 1.
    pub share: f64,
    /// Why it is to be under that one.
    pub why: Why,
}

impl PlannedShares {
    /// What a plan recommends: its turns or lanes; one scheduler is a single turn. `file` is the
    /// plan's, none for that of the store.
    pub fn recommended(
        contender: &Contender,
        application: &str,
        file: Option<&str>,
    ) -> Result<Self> {
        let planned = |app: String, scheduler: &str, share: f64| PlannedShare {
            app,
            scheduler: scheduler.to_owned(),
            share,
            why: Why::Preferred(Preference { plan: file.map(str::to_owned), figures: None }),
        };
        Self::normalised(match contender {
            Contender::Scheduler { name } => vec![planned(application.to_owned(), name, 1.0)],
            several => {
                let shares = several.shares().iter();
                shares.map(|share| planned(share.name(), &share.scheduler, share.weight)).collect()
            }
        })
    }

    /// Every application.
    pub fn rows(&self) -> &[PlannedShare] {
        &self.0
    }

    /// How many parts there are: several may share a lane.
    fn parts(&self) -> usize {
        self.0.iter().map(|planned| Share::parts_of(&planned.app).len()).sum()
    }

    /// The weight of an application's lane, by its share.
    pub fn lane_weight(&self, app: &str) -> Option<u32> {
        let shares: Vec<f64> = self.0.iter().map(|planned| planned.share).collect();
        let place = self.0.iter().position(|planned| planned.app == app)?;
        lane_weights(&shares, self.parts()).get(place).copied()
    }

    /// The turns, with the lengths that `slices` makes of the weights.
    pub fn turns(
        &self,
        table: &[Candidate],
        slices: impl FnOnce(&[f64]) -> Vec<Duration>,
    ) -> Result<Vec<Turn>> {
        let weights: Vec<f64> = self.0.iter().map(|planned| planned.share).collect();
        self.0
            .iter()
            .zip(slices(&weights))
            .map(|(planned, slice)| {
                let candidate = resolve(table, &planned.scheduler)?;
                Ok(Turn { candidate, slice, app: planned.app.clone() })
            })
            .collect()
    }

    /// What is said of each application by a `TurnSpec`.
    ///
    /// # Errors
    /// `Usage` where some have a weight and some have none, or the weights are all 0.
    pub fn from_turns(turns: &[TurnSpec]) -> Result<Self> {
        let given = turns.iter().filter(|turn| turn.weight.is_some()).count();
        if given != 0 && given != turns.len() {
            return Err(Error::new(
                Kind::Usage,
                "share the time between the turns",
                "some have a weight and some have none",
            )
            .remedy("give each of them a weight, or none of them"));
        }
        let planned = |turn: &TurnSpec| PlannedShare {
            app: turn.app.clone(),
            scheduler: turn.scheduler.clone(),
            share: turn.weight.unwrap_or(1.0),
            why: Why::CommandLine,
        };
        Self::normalised(turns.iter().map(planned).collect())
    }

    /// What a plan has for each application by a strategy; `path` is the plan's, none for that of
    /// the store.
    ///
    /// # Errors
    /// `BadInput` where it has no weights for that strategy.
    pub fn from_plan(
        file: experiment::Plan,
        strategy: Strategy,
        path: Option<&str>,
    ) -> Result<Self> {
        let from = path.unwrap_or("the store");
        let planned = |app: &AppPlan| match app.weights.get(&strategy) {
            Some(weight) if weight.is_finite() && *weight >= 0.0 => {
                let figures = (app.preferred != EEVDF).then(|| figures(&file, app)).flatten();
                Ok(PlannedShare {
                    app: app.name.clone(),
                    scheduler: app.preferred.clone(),
                    share: *weight,
                    why: Why::Preferred(Preference { plan: path.map(str::to_owned), figures }),
                })
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
        };
        Self::normalised(file.apps.iter().map(planned).collect::<Result<_>>()?)
    }

    /// Weights that add up to 1, as the formula of the turns' length wants them.
    fn normalised(mut rows: Vec<PlannedShare>) -> Result<Self> {
        let sum: f64 = rows.iter().map(|planned| planned.share).sum();
        if sum <= 0.0 {
            return Err(Error::new(
                Kind::BadInput,
                "share the time between the applications",
                "no application has a weight above 0",
            )
            .remedy("give at least one of them a weight"));
        }
        for planned in &mut rows {
            planned.share /= sum;
        }
        Ok(Self(rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> TurnSpec {
        text.parse().unwrap()
    }

    fn read(path: &str, strategy: Strategy) -> Result<PlannedShares> {
        PlannedShares::from_plan(crate::read_plan(path)?, strategy, Some(path))
    }

    fn weights(plan: &PlannedShares) -> Vec<f64> {
        plan.0.iter().map(|planned| planned.share).collect()
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
        let plan = PlannedShares::from_turns(&[spec("a=fifo"), spec("b=vtime")]).unwrap();
        assert_eq!(weights(&plan), [0.5, 0.5]);
        let plan = PlannedShares::from_turns(&[spec("a=fifo:3"), spec("b=vtime:1")]).unwrap();
        assert_eq!(weights(&plan), [0.75, 0.25]);
        let e = PlannedShares::from_turns(&[spec("a=fifo:3"), spec("b=vtime")]);
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
        let plan = read(path, Strategy::Delta).unwrap();
        assert_eq!(weights(&plan), [0.8, 0.2]);
        assert_eq!(plan.0[1].scheduler, EEVDF);
        let e = read(path, Strategy::RoundRobin).unwrap_err();
        assert!(e.to_string().contains("no weight for 'round-robin'"), "{e}");
    }

    #[test]
    fn the_figures_of_a_preference_are_those_of_its_row() {
        let row = |of: &str| {
            format!(
                r#"{{"form":"front","candidate":"fifo","rounds":5,{of},
                "p99":{{"interval":{{"estimate":0.5,"low":0.4,"high":0.6,"n":5}}}}}}"#
            )
        };
        let plan = |objective: &str, of: &str| {
            let text = format!(
                r#"{{"table":[{}],"apps":[{{"name":"front","objective":"{objective}",
                "form":"front","preferred":"fifo","weights":{{"delta":1}}}}]}}"#,
                row(of)
            );
            let file = serde_json::from_str(&text).unwrap();
            match PlannedShares::from_plan(file, Strategy::Delta, None).unwrap().0.remove(0).why {
                Why::Preferred(preference) => preference.figures,
                why => panic!("{why:?}"),
            }
        };
        let measured =
            r#""throughput":{"interval":{"estimate":1.12,"low":1.08,"high":1.15,"n":5}}"#;
        let figures = plan("throughput", measured).unwrap();
        assert_eq!((figures.of.as_str(), figures.low, figures.rounds), ("throughput", 1.08, 5));
        assert_eq!(plan("p99", measured).unwrap().of, "p99 latency");
        assert!(plan("throughput", r#""throughput":{"interval":null}"#).is_none());
    }

    #[test]
    fn a_plan_that_is_no_plan_is_bad_input_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        std::fs::write(&path, "{\n  \"apps\": 3\n}").unwrap();
        let e = read(path.to_str().unwrap(), Strategy::Delta).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert!(e.to_string().contains("line 2"), "{e}");
        let e = read("/no/such/plan", Strategy::Delta).unwrap_err();
        assert!(e.to_string().contains("/no/such/plan"), "{e}");
    }

    #[test]
    fn an_unknown_scheduler_in_a_turn_is_told_with_what_there_is() {
        let plan = PlannedShares::from_turns(&[spec("a=fifoo")]).unwrap();
        let e = plan.turns(&[Candidate::eevdf("")], |_| vec![Duration::from_secs(1)]).unwrap_err();
        assert!(e.to_string().contains("there are: eevdf"), "{e}");
    }
}
