//! Figures: what is measured of something, declared once for tables, documents and pictures.

use serde_json::{Map, Value};

use crate::{brief_time, percent};

/// What a figure counts, and so how it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Things.
    Count,
    /// Things a second.
    PerSecond,
    /// Time, in nanoseconds.
    Nanoseconds,
    /// A part of a whole, from 0 to 1.
    Share,
    /// A number that need not be whole.
    Number,
}

/// A figure of a `T`. Its name is the key in documents.
#[derive(Debug)]
pub struct Figure<T: ?Sized + 'static> {
    /// Its name, which says the unit where that is a time: `p99_ns`.
    pub name: &'static str,
    /// What stands above its column.
    pub title: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// What it tells, in a sentence.
    pub help: &'static str,
    /// The figure of one of them; none where it was not measured.
    pub of: fn(&T) -> Option<f64>,
}

impl Unit {
    /// A value as people read it.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Count => format!("{value:.0}"),
            Self::PerSecond if value < 10.0 => format!("{value:.1}"),
            Self::PerSecond => format!("{value:.0}"),
            Self::Nanoseconds => brief_time(value),
            Self::Share => percent(value),
            Self::Number => format!("{value:.2}"),
        }
    }

    /// A value as documents have it: what counts is a whole number.
    fn value(self, value: f64) -> Value {
        match self {
            Self::Count | Self::Nanoseconds => Value::from(value.round() as i64),
            Self::PerSecond | Self::Share | Self::Number => Value::from(value),
        }
    }
}

impl<T: ?Sized> Figure<T> {
    /// As people read it; `-` where it was not measured.
    pub fn text(&self, of: &T) -> String {
        (self.of)(of).map_or("-".to_owned(), |value| self.unit.text(value))
    }
}

/// The figures as keys of a document; null where one was not measured.
pub fn document<T: ?Sized>(figures: &[Figure<T>], of: &T) -> Map<String, Value> {
    let value = |figure: &Figure<T>| (figure.of)(of).map_or(Value::Null, |v| figure.unit.value(v));
    figures.iter().map(|figure| (figure.name.to_owned(), value(figure))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &[Figure<f64>] = &[
        Figure { name: "n", title: "N", unit: Unit::Count, help: "how many", of: |n| Some(*n) },
        Figure {
            name: "p99_ns",
            title: "P99",
            unit: Unit::Nanoseconds,
            help: "not measured below 5",
            of: |n| (*n >= 5.0).then_some(n * 1e6),
        },
        Figure { name: "share", title: "S", unit: Unit::Share, help: "", of: |n| Some(n / 10.0) },
    ];

    #[test]
    fn a_figure_is_declared_once_for_tables_and_documents() {
        let texts: Vec<String> = FIGURES.iter().map(|figure| figure.text(&5.0)).collect();
        assert_eq!(texts, ["5", "5 ms", "50.0 %"]);
        assert_eq!(FIGURES[1].text(&4.0), "-");
        let document = Value::Object(document(FIGURES, &4.0));
        assert_eq!(document, serde_json::json!({ "n": 4, "p99_ns": null, "share": 0.4 }));
    }
}
