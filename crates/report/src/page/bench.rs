//! Figures of a benchmark, from the line of JSON that it ends with.

use metasched_base::{Error, Kind, Result, ResultExt};
use serde_json::Value;
use std::path::Path;

use super::spans::Span;

/// What one benchmark said.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    /// Its name: what it calls itself, else its file's.
    pub name: String,
    /// Its figures, by their path in the document.
    pub figures: Vec<Figure>,
}

/// A figure of a benchmark.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The keys that lead to it, joined by dots.
    pub path: String,
    /// The value, or the median of several.
    pub value: f64,
    /// The range that was given with it.
    pub range: Option<(f64, f64)>,
}

impl Bench {
    /// Reads the last line of `path` that is a JSON object, so that a whole log of
    /// the benchmark will do.
    pub fn read(path: &Path) -> Result<Self> {
        let attempt = || format!("read the benchmark '{}'", path.display());
        let text = std::fs::read_to_string(path).attempt(Kind::BadInput, attempt)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::parse(&name, &text).ok_or_else(|| {
            Error::new(Kind::BadInput, attempt(), "no line of it is a JSON object with numbers")
                .remedy("give a file that holds the output of `make bench-switch` or the like")
        })
    }

    /// As [`Bench::read`], from text. Absent where there is no such line.
    pub fn parse(name: &str, text: &str) -> Option<Self> {
        let object = |text: &str| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        let value = object(text).or_else(|| text.lines().rev().find_map(object))?;
        let name = value.get("bench").and_then(Value::as_str).unwrap_or(name).to_owned();
        let mut figures = Vec::new();
        collect(&value, "", &mut figures);
        (!figures.is_empty()).then_some(Self { name, figures })
    }

    /// Those of its figures that are times.
    pub fn spans(&self) -> Vec<Span> {
        let of_figure = |figure: &Figure| {
            let unit_ns = unit_ns(&figure.path)?;
            (figure.value > 0.0).then(|| Span {
                label: label(&figure.path),
                series: usize::from(figure.path.contains("lane")),
                median_ns: figure.value * unit_ns,
                range_ns: figure.range.map(|(low, high)| (low * unit_ns, high * unit_ns)),
                n: None,
            })
        };
        self.figures.iter().filter_map(of_figure).collect()
    }
}

/// The unit that a name ends with, in nanoseconds; units go last in names.
fn unit_ns(path: &str) -> Option<f64> {
    path.rsplit('.').find_map(|segment| {
        let (_, unit) = segment.rsplit_once('_')?;
        match unit {
            "ns" => Some(1.0),
            "us" => Some(1e3),
            "ms" => Some(1e6),
            "s" => Some(1e9),
            _ => None,
        }
    })
}

/// A path as words, without the unit: the axis shows that.
fn label(path: &str) -> String {
    let segments = path.split('.').map(|segment| match segment.rsplit_once('_') {
        Some((name, "ns" | "us" | "ms" | "s")) => name,
        _ => segment,
    });
    // Underscores stay in names of schedulers: they are spelt so.
    let words =
        segments.map(|s| if s.starts_with("scx_") { s.into() } else { s.replace('_', " ") });
    words.collect::<Vec<_>>().join(" ")
}

fn collect(value: &Value, path: &str, figures: &mut Vec<Figure>) {
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    match value {
        Value::Number(n) => {
            let value = n.as_f64().unwrap_or(0.0);
            figures.push(Figure { path: path.to_owned(), value, range: None });
        }
        Value::Object(entries) => {
            let middle = number("median").or_else(|| number("p50")).or_else(|| number("estimate"));
            if let Some(value) = middle {
                let range = number("p5").zip(number("p95")).or(number("low").zip(number("high")));
                figures.push(Figure { path: path.to_owned(), value, range });
                return;
            }
            for (key, value) in entries {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(value, &path, figures);
            }
        }
        // Raw samples are too many for a page; texts are no figures.
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_is_json_counts() {
        let text =
            "a table\n{\"old\": 1}\n{\"bench\": \"switch\", \"ratio_swap_over_lane\": 2000}\n\n";
        let bench = Bench::parse("file", text).unwrap();
        assert_eq!(bench.name, "switch");
        assert_eq!(bench.figures.len(), 1);
        assert_eq!(bench.figures[0].path, "ratio_swap_over_lane");
        assert_eq!(Bench::parse("file", "only a table\n"), None);
        assert_eq!(Bench::parse("file", "{\"text\": \"no number\"}"), None);
    }

    #[test]
    fn times_are_told_by_their_unit_and_medians_keep_their_range() {
        let text = r#"{"swap": {"start_ms": {"median": 1500, "p5": 1400, "p95": 1700}},
                       "lane": {"first_run_us": 900}, "ratio_swap_over_lane": 1700}"#;
        let bench = Bench::parse("switch", text).unwrap();
        let spans = bench.spans();
        assert_eq!(spans.len(), 2, "a ratio is no time");
        let lane = spans.iter().find(|s| s.label == "lane first run").unwrap();
        assert_eq!((lane.median_ns, lane.series), (9e5, 1));
        let swap = spans.iter().find(|s| s.label == "swap start").unwrap();
        assert_eq!((swap.median_ns, swap.range_ns), (1.5e9, Some((1.4e9, 1.7e9))));
    }
}
