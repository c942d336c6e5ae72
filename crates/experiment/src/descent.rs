//! Coordinate descent over a policy's options: one option's values are tried while all others
//! stand still, the best is kept, and the next option follows. A search of n options with m
//! values each measures n * m points instead of m to the power of n.
//!
//! The method is that of the priority scheduler's report (seed 003, section 4.1), which varied the
//! slice first and then the slice of priority.

use metasched_stats::{Interval, paired_ratio};
use serde::Serialize;

use crate::choose::CandidateRounds;
use crate::{Objective, SEED};

/// An option, and the values to try, as users write them: `slice`, `5ms`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Coordinate {
    /// The option.
    pub option: String,
    /// Its values, none twice.
    pub values: Vec<String>,
}

/// A search that is under way: [`Descent::points`] says what is to be measured now, and
/// [`Descent::tell`] takes what was.
#[derive(Debug)]
pub struct Descent {
    coordinates: Vec<Coordinate>,
    objective: Option<Objective>,
    /// The options that stand, in the order in which they were set.
    standing: Vec<(String, String)>,
    steps: Vec<Step>,
}

/// What came of one coordinate.
#[derive(Clone, Debug, Serialize)]
pub struct Step {
    /// The option whose values were tried.
    pub option: String,
    /// What all other options were set to meanwhile: `prio_slice=10ms`.
    pub beside: Vec<String>,
    /// The values, in the order in which they were given.
    pub points: Vec<Point>,
    /// The place of the one that was kept; absent where none could be measured.
    pub kept: Option<usize>,
}

/// One value of one option. Ratios are to the default scheduler, in the same rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Point {
    /// The value.
    pub value: String,
    /// Of all forms together: run time for the same work. Less is better.
    pub run_time: Option<Interval>,
    /// Likewise the time that threads waited for a CPU, for the same work. Less is better.
    pub wait: Option<Interval>,
    /// What points are chosen by, of all forms together. More is better.
    pub score: Option<Interval>,
    /// Each form for itself.
    pub forms: Vec<FormPoint>,
    /// No other point has both less run time and less wait, by their estimates.
    pub undominated: bool,
}

/// A value on one form.
#[derive(Clone, Debug, Serialize)]
pub struct FormPoint {
    /// The form, with its workload: `jvm-store full`.
    pub form: String,
    /// How many rounds its ratios rest on.
    pub rounds: usize,
    /// Run time for the same work against the default scheduler. Less is better.
    pub run_time: Option<Interval>,
    /// Likewise the wait for a CPU. Less is better.
    pub wait: Option<Interval>,
}

/// What was measured of one form.
#[derive(Clone, Debug)]
pub struct FormRounds {
    /// The form, with its workload.
    pub form: String,
    /// What it is for.
    pub objective: Objective,
    /// Of each point of [`Descent::points`], in their order; without rounds where it failed.
    pub points: Vec<CandidateRounds>,
}

impl Descent {
    /// Searches these, in their order, from options that are set already. Points are chosen by the
    /// objective, or each form by what it is for.
    pub fn new(
        coordinates: Vec<Coordinate>,
        standing: Vec<(String, String)>,
        objective: Option<Objective>,
    ) -> Self {
        Self { coordinates, objective, standing, steps: Vec::new() }
    }

    /// The options of every point that is to be measured now: `slice=5ms prio_slice=10ms`; none
    /// when the search is over.
    pub fn points(&self) -> Vec<Vec<String>> {
        let Some(coordinate) = self.coordinates.get(self.steps.len()) else { return Vec::new() };
        let beside = self.beside(coordinate);
        let point = |value: &String| {
            let mut options = beside.clone();
            options.push(written(&coordinate.option, value));
            options
        };
        coordinate.values.iter().map(point).collect()
    }

    /// What is set while a coordinate is searched.
    fn beside(&self, coordinate: &Coordinate) -> Vec<String> {
        let others = self.standing.iter().filter(|(option, _)| *option != coordinate.option);
        others.map(|(option, value)| written(option, value)).collect()
    }

    /// Takes what was measured of [`Descent::points`], keeps the best value, and goes on to the
    /// next coordinate. The best is the highest estimate: how far apart points are, their
    /// intervals say.
    pub fn tell(&mut self, measured: &[FormRounds]) -> &Step {
        let coordinate = self.coordinates[self.steps.len()].clone();
        let beside = self.beside(&coordinate);
        let mut points: Vec<Point> = coordinate
            .values
            .iter()
            .enumerate()
            .map(|(at, value)| point(value, at, measured, self.objective))
            .collect();
        for at in 0..points.len() {
            points[at].undominated = !points.iter().any(|other| dominates(other, &points[at]));
        }
        let estimate = |at: &usize| points[*at].score.map(|score| score.estimate);
        let kept = (0..points.len())
            .filter(|at| estimate(at).is_some())
            .max_by(|a, b| estimate(a).partial_cmp(&estimate(b)).expect("a ratio is a number"));
        if let Some(kept) = kept {
            self.standing.retain(|(option, _)| *option != coordinate.option);
            self.standing.push((coordinate.option.clone(), points[kept].value.clone()));
        }
        self.steps.push(Step { option: coordinate.option, beside, points, kept });
        self.steps.last().expect("just pushed")
    }

    /// The options that stand now, and what came of each coordinate.
    pub fn end(self) -> (Vec<String>, Vec<Step>) {
        let set = self.standing.iter().map(|(option, value)| written(option, value)).collect();
        (set, self.steps)
    }
}

fn written(option: &str, value: &str) -> String {
    format!("{option}={value}")
}

fn point(value: &str, at: usize, measured: &[FormRounds], objective: Option<Objective>) -> Point {
    let ratio = |form: &FormRounds, by| paired_ratio(&form.points[at].pairs(by), SEED);
    let of = |by: &dyn Fn(&FormRounds) -> Objective| -> Option<Interval> {
        let each: Option<Vec<Interval>> =
            measured.iter().map(|form| ratio(form, by(form))).collect();
        Interval::geometric_mean(&each?)
    };
    let less = |by: Objective| of(&|_| by).map(|ratio| ratio.inverse());
    Point {
        value: value.to_owned(),
        run_time: less(Objective::Throughput),
        wait: less(Objective::Wait),
        score: of(&|form| objective.unwrap_or(form.objective)),
        forms: measured
            .iter()
            .map(|form| FormPoint {
                form: form.form.clone(),
                rounds: form.points[at].rounds.len(),
                run_time: ratio(form, Objective::Throughput).map(|ratio| ratio.inverse()),
                wait: ratio(form, Objective::Wait).map(|ratio| ratio.inverse()),
            })
            .collect(),
        undominated: false,
    }
}

/// Whether `this` is no worse than `other` in both, and better in one.
fn dominates(this: &Point, other: &Point) -> bool {
    let both = |point: &Point| Some((point.run_time?.estimate, point.wait?.estimate));
    let (Some(this), Some(other)) = (both(this), both(other)) else { return false };
    this.0 <= other.0 && this.1 <= other.1 && this != other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{Round, Sample};

    /// Rounds in which so much is done in a second, with so much wait for each unit of it, where
    /// the default scheduler does 100 with 10.
    fn rounds(throughput: f64, wait: f64) -> CandidateRounds {
        let round = |number| {
            let drift = 1.0 + number as f64 / 10.0;
            let sample = |throughput: f64, wait| Sample {
                wait_us: wait,
                ..Sample::new(throughput * drift, f64::NAN)
            };
            Round { number, candidate: sample(throughput, wait), default: sample(100.0, 10.0) }
        };
        CandidateRounds::new("point", (0..4).map(round).collect())
    }

    fn coordinate(option: &str, values: &[&str]) -> Coordinate {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Coordinate { option: option.to_owned(), values }
    }

    fn form(points: Vec<CandidateRounds>) -> FormRounds {
        FormRounds { form: "all".into(), objective: Objective::Throughput, points }
    }

    #[test]
    fn the_best_value_of_one_coordinate_stands_while_the_next_is_searched() {
        let searched =
            [coordinate("slice", &["5ms", "20ms"]), coordinate("prio", &["1", "2", "3"])];
        let begins = vec![("prio".to_owned(), "10ms".to_owned())];
        let mut descent = Descent::new(searched.to_vec(), begins, None);
        assert_eq!(descent.points(), [["prio=10ms", "slice=5ms"], ["prio=10ms", "slice=20ms"]]);
        let step = descent.tell(&[form(vec![rounds(90.0, 5.0), rounds(120.0, 20.0)])]);
        assert_eq!(step.kept, Some(1));
        assert_eq!(step.beside, ["prio=10ms"]);
        let (run_time, wait) = (step.points[1].run_time.unwrap(), step.points[1].wait.unwrap());
        assert!((run_time.estimate - 100.0 / 120.0).abs() < 1e-9);
        assert!((wait.estimate - 2.0).abs() < 1e-9);
        assert!(step.points.iter().all(|point| point.undominated), "one waits less");
        assert_eq!(descent.points()[2], ["slice=20ms", "prio=3"]);
        let points = vec![rounds(100.0, 10.0), rounds(101.0, 9.0), CandidateRounds::default()];
        let step = descent.tell(&[form(points)]);
        assert_eq!(step.kept, Some(1));
        let undominated: Vec<bool> = step.points.iter().map(|point| point.undominated).collect();
        assert_eq!(undominated[..2], [false, true]);
        assert!(step.points[2].score.is_none(), "it could not be measured");
        assert!(descent.points().is_empty());
        assert_eq!(descent.end().0, ["slice=20ms", "prio=2"]);
    }

    #[test]
    fn forms_count_alike_however_much_each_does() {
        let searched = vec![coordinate("slice", &["5ms"])];
        let mut descent = Descent::new(searched, Vec::new(), Some(Objective::Wait));
        let forms = [form(vec![rounds(200.0, 10.0)]), form(vec![rounds(50.0, 2.5)])];
        let step = descent.tell(&forms);
        let point = &step.points[0];
        assert!((point.run_time.unwrap().estimate - 1.0).abs() < 1e-9);
        assert!((point.score.unwrap().estimate - 2.0).abs() < 1e-9, "half as much wait");
        assert_eq!(point.forms.len(), 2);
    }

    #[test]
    fn nothing_is_kept_where_nothing_was_measured() {
        let mut descent = Descent::new(vec![coordinate("slice", &["5ms"])], Vec::new(), None);
        let step = descent.tell(&[form(vec![CandidateRounds::default()])]);
        assert_eq!(step.kept, None);
        assert!(descent.end().0.is_empty());
    }
}
