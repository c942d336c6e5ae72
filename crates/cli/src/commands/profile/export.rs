//! Run times of a command in files, in the formats of hyperfine where it has them, so that what
//! reads its files reads these too: a result for each scheduler, which is a parameter.

use std::path::Path;

use metasched_base::{Error, Kind, Result};
use metasched_profile::{BASELINE, Runs};
use serde_json::json;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Csv,
    Markdown,
}

/// Whether a file can be written; makes it where it is not there.
pub(super) fn check(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| unwritable(path, &error))
}

/// Writes the runs of a command.
pub(super) fn write(path: &Path, format: Format, command: &str, all: &[&Runs]) -> Result<()> {
    let text = match format {
        Format::Json => json(command, all),
        Format::Csv => csv(command, all),
        Format::Markdown => markdown(command, all),
    };
    std::fs::write(path, text).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Error {
    Error::new(Kind::BadInput, format!("write '{}'", path.display()), error)
        .remedy("name a file in a folder that is there and can be written")
}

fn json(command: &str, all: &[&Runs]) -> String {
    let results: Vec<_> = all
        .iter()
        .map(|runs| {
            json!({
                "command": command,
                "mean": runs.mean,
                "stddev": runs.stddev,
                "median": runs.median,
                "user": runs.user,
                "system": runs.system,
                "min": runs.min,
                "max": runs.max,
                "times": runs.times,
                "exit_codes": runs.exit_codes,
                "parameters": { "scheduler": runs.scheduler },
            })
        })
        .collect();
    format!("{:#}\n", json!({ "results": results }))
}

fn csv(command: &str, all: &[&Runs]) -> String {
    let mut out = "command,mean,stddev,median,user,system,min,max,parameter_scheduler\n".to_owned();
    let optional = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for runs in all {
        let cells = [
            cell(command),
            runs.mean.to_string(),
            optional(runs.stddev),
            runs.median.to_string(),
            optional(runs.user),
            optional(runs.system),
            runs.min.to_string(),
            runs.max.to_string(),
            cell(&runs.scheduler),
        ];
        out += &cells.join(",");
        out.push('\n');
    }
    out
}

/// A text as a cell of CSV.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}

fn markdown(command: &str, all: &[&Runs]) -> String {
    let (unit, factor, digits) = match all.iter().all(|runs| runs.mean < 1.0) {
        true => ("ms", 1e3, 1),
        false => ("s", 1.0, 3),
    };
    let mut out = format!(
        "| Command | Mean [{unit}] | Min [{unit}] | Max [{unit}] | Relative |\n\
         |:---|---:|---:|---:|---:|\n"
    );
    let command = command.replace('|', "\\|").replace('\n', " ");
    let baseline = all.iter().find(|runs| runs.scheduler == BASELINE);
    for runs in all {
        let time = |seconds: f64| format!("{:.digits$}", seconds * factor);
        let deviation = runs.stddev.map_or_else(String::new, |s| format!(" ± {}", time(s)));
        out += &format!(
            "| `{command}` under {} | {}{deviation} | {} | {} | {} |\n",
            runs.scheduler,
            time(runs.mean),
            time(runs.min),
            time(runs.max),
            baseline.map_or_else(String::new, |baseline| relative(runs, baseline)),
        );
    }
    out
}

/// The mean time over the default scheduler's, and its deviation by the propagation of error.
fn relative(runs: &Runs, baseline: &Runs) -> String {
    let ratio = runs.mean / baseline.mean;
    let part = |runs: &Runs| Some(runs.stddev? / runs.mean);
    match (part(runs), part(baseline)) {
        _ if runs.scheduler == baseline.scheduler => "1.00".to_owned(),
        (Some(a), Some(b)) => format!("{ratio:.2} ± {:.2}", ratio * a.hypot(b)),
        _ => format!("{ratio:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two() -> [Runs; 2] {
        let fast = Runs::timed("vtime:slice=5ms".to_owned(), vec![0.05, 0.05]);
        let accounted =
            Runs { user: Some(0.07), system: Some(0.01), exit_codes: vec![0, 1], ..fast };
        [Runs::timed(BASELINE.to_owned(), vec![0.09, 0.11]), accounted]
    }

    fn written(format: Format, command: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        check(&path).unwrap();
        write(&path, format, command, &two().iter().collect::<Vec<_>>()).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn json_has_a_result_for_each_scheduler_as_hyperfine_has_for_each_parameter() {
        let text = written(Format::Json, "make -j4");
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let fast = json!({
            "command": "make -j4", "mean": 0.05, "stddev": 0.0, "median": 0.05, "user": 0.07,
            "system": 0.01, "min": 0.05, "max": 0.05, "times": [0.05, 0.05], "exit_codes": [0, 1],
            "parameters": { "scheduler": "vtime:slice=5ms" },
        });
        assert_eq!(value["results"][1], fast);
        assert_eq!(value["results"][0]["user"], serde_json::Value::Null);
        assert_eq!(value["results"].as_array().map(Vec::len), Some(2));
    }

    #[test]
    fn csv_has_hyperfines_columns_and_quotes_what_would_be_several_cells() {
        let text = written(Format::Csv, "sh -c 'echo \"a,b\"'");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "command,mean,stddev,median,user,system,min,max,parameter_scheduler");
        let fast = "\"sh -c 'echo \"\"a,b\"\"'\",0.05,0,0.05,0.07,0.01,0.05,0.05,vtime:slice=5ms";
        assert_eq!((lines.len(), lines[2]), (3, fast));
    }

    #[test]
    fn markdown_is_a_table_with_times_relative_to_the_default_scheduler() {
        let text = written(Format::Markdown, "a | b");
        assert_eq!(
            text,
            "| Command | Mean [ms] | Min [ms] | Max [ms] | Relative |\n\
             |:---|---:|---:|---:|---:|\n\
             | `a \\| b` under eevdf | 100.0 ± 14.1 | 90.0 | 110.0 | 1.00 |\n\
             | `a \\| b` under vtime:slice=5ms | 50.0 ± 0.0 | 50.0 | 50.0 | 0.50 ± 0.07 |\n"
        );
    }

    #[test]
    fn a_file_that_cannot_be_written_is_told_before_anything_is_measured() {
        let error = check(Path::new("/no/such/folder/file")).unwrap_err();
        assert_eq!(error.kind, Kind::BadInput);
        assert!(error.to_string().contains("/no/such/folder/file"), "{error}");
    }
}
