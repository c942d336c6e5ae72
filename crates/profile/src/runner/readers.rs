//! From a load tool's output to figures. What makes no sense is an error that quotes
//! the line: a wrong figure would be worse than none.

use std::collections::BTreeMap;

use metasched_stats::LatencyHistogram;
use serde::Deserialize;

use crate::LoadFigures;
use crate::manifest::Reader;

/// Reads the output of a load that ran for `elapsed_s`; the error says what is wrong.
pub(super) fn read(reader: Reader, output: &str, elapsed_s: f64) -> Result<LoadFigures, String> {
    let figures = match reader {
        Reader::Metrics => metrics(output),
        Reader::Latencies => latencies(output, elapsed_s),
        Reader::Elapsed => Ok(elapsed(elapsed_s)),
    }?;
    sense(&figures)?;
    Ok(figures)
}

const PREFIX: &str = "METASCHED ";

/// How far throughput may be from requests over duration: tools round, and some
/// count requests in flight, but a factor of two means that one of them is not what
/// it says.
const THROUGHPUT_SLACK: f64 = 2.0;

#[derive(Deserialize)]
struct Metrics {
    throughput_per_s: f64,
    requests: u64,
    #[serde(default)]
    errors: u64,
    duration_s: f64,
    mean_us: Option<f64>,
    p50_us: Option<f64>,
    p95_us: Option<f64>,
    p99_us: Option<f64>,
    p999_us: Option<f64>,
    max_us: Option<f64>,
    histogram: Option<Vec<(f64, u64)>>,
    #[serde(default)]
    subsets: BTreeMap<String, Vec<(f64, u64)>>,
}

fn metrics(output: &str) -> Result<LoadFigures, String> {
    let (number, json) = output
        .lines()
        .enumerate()
        .filter_map(|(number, line)| Some((number + 1, line.strip_prefix(PREFIX)?)))
        .last()
        .ok_or_else(|| match output.lines().rfind(|line| !line.trim().is_empty()) {
            None => "it printed nothing".to_owned(),
            Some(last) => format!(
                "no line of its output begins with '{}'; the last line is {}",
                PREFIX.trim_end(),
                short(last)
            ),
        })?;
    let wrong = |cause: String| format!("line {number} of its output, {}: {cause}", short(json));
    let raw: Metrics = serde_json::from_str(json).map_err(|e| wrong(e.to_string()))?;
    let whole = |pairs: Vec<(f64, u64)>| -> Result<LatencyHistogram, String> {
        let mut counts = Vec::new();
        for (value, count) in pairs {
            if !(value.is_finite() && value >= 0.0) {
                return Err(wrong(format!("a histogram holds the latency {value}")));
            }
            counts.push((value.round() as u64, count));
        }
        Ok(LatencyHistogram::from_counts(&counts))
    };
    let subsets = raw.subsets.into_iter();
    let subsets = subsets.map(|(name, pairs)| Ok((name, whole(pairs)?.counts())));
    let base = LoadFigures {
        subsets: subsets.collect::<Result<_, String>>()?,
        throughput_per_s: raw.throughput_per_s,
        requests: raw.requests,
        errors: raw.errors,
        duration_s: raw.duration_s,
        ..LoadFigures::default()
    };
    if let Some(pairs) = raw.histogram.filter(|pairs| !pairs.is_empty()) {
        return with_histogram(base, &whole(pairs)?)
            .ok_or_else(|| wrong("the histogram is empty".to_owned()));
    }
    let given = |value: Option<f64>, name: &str| {
        value.ok_or_else(|| wrong(format!("there is neither '{name}' nor a histogram")))
    };
    Ok(LoadFigures {
        mean_us: given(raw.mean_us, "mean_us")?,
        p50_us: given(raw.p50_us, "p50_us")?,
        p95_us: given(raw.p95_us, "p95_us")?,
        p99_us: given(raw.p99_us, "p99_us")?,
        p999_us: given(raw.p999_us, "p999_us")?,
        max_us: given(raw.max_us, "max_us")?,
        ..base
    })
}

fn latencies(output: &str, elapsed_s: f64) -> Result<LoadFigures, String> {
    let mut duration_s = elapsed_s;
    let mut histogram = LatencyHistogram::new();
    let (mut sum, mut max) = (0.0, 0.0_f64);
    for (number, line) in output.lines().enumerate() {
        let line = line.trim();
        let wrong = |what: &str| {
            Err(format!("line {} of its output, {}, is not {what}", number + 1, short(line)))
        };
        if let Some(comment) = line.strip_prefix('#') {
            let mut words = comment.split_whitespace();
            if words.next() == Some("duration_s") {
                match words.next().and_then(|word| word.parse::<f64>().ok()) {
                    Some(value) => duration_s = value,
                    None => return wrong("a duration in seconds"),
                }
            }
            continue;
        }
        if line.is_empty() {
            continue;
        }
        match line.parse::<f64>() {
            Ok(value) if value.is_finite() && value >= 0.0 => {
                histogram.record(value.round() as u64);
                sum += value;
                max = max.max(value);
            }
            _ => return wrong("a latency in microseconds"),
        }
    }
    let requests = histogram.count();
    let base = LoadFigures {
        throughput_per_s: requests as f64 / duration_s,
        requests,
        duration_s,
        ..LoadFigures::default()
    };
    let figures = with_histogram(base, &histogram).ok_or("it printed no latency")?;
    // The sums are exact, the histogram is not.
    Ok(LoadFigures { mean_us: sum / requests as f64, max_us: max, ..figures })
}

fn elapsed(elapsed_s: f64) -> LoadFigures {
    let us = elapsed_s * 1e6;
    LoadFigures {
        throughput_per_s: 1.0 / elapsed_s,
        requests: 1,
        duration_s: elapsed_s,
        mean_us: us,
        p50_us: us,
        p95_us: us,
        p99_us: us,
        p999_us: us,
        max_us: us,
        ..LoadFigures::default()
    }
}

/// The figures with mean and percentiles from the histogram; `None` if it is empty.
fn with_histogram(base: LoadFigures, histogram: &LatencyHistogram) -> Option<LoadFigures> {
    let of = histogram.percentiles()?;
    Some(LoadFigures {
        mean_us: of.mean,
        p50_us: of.p50,
        p95_us: of.p95,
        p99_us: of.p99,
        p999_us: of.p999,
        max_us: of.max,
        histogram: Some(histogram.counts()),
        ..base
    })
}

/// Refuses what cannot be true.
fn sense(f: &LoadFigures) -> Result<(), String> {
    if f.requests == 0 {
        return Err(format!("it finished no request, and {} failed", f.errors));
    }
    if f.errors > f.requests {
        return Err(format!("{} requests failed and only {} succeeded", f.errors, f.requests));
    }
    let named = [
        ("throughput_per_s", f.throughput_per_s),
        ("duration_s", f.duration_s),
        ("mean_us", f.mean_us),
        ("p50_us", f.p50_us),
        ("p95_us", f.p95_us),
        ("p99_us", f.p99_us),
        ("p999_us", f.p999_us),
        ("max_us", f.max_us),
    ];
    for (name, value) in named {
        let zero_is_fine = name.ends_with("_us");
        if !value.is_finite() || value < 0.0 || (value == 0.0 && !zero_is_fine) {
            return Err(format!("{name} is {value}"));
        }
    }
    for pair in named[3..].windows(2) {
        if pair[0].1 > pair[1].1 {
            return Err(format!(
                "{} is {}, more than {}, which is {}",
                pair[0].0, pair[0].1, pair[1].0, pair[1].1
            ));
        }
    }
    let rate = f.requests as f64 / f.duration_s;
    if !(rate / THROUGHPUT_SLACK..=rate * THROUGHPUT_SLACK).contains(&f.throughput_per_s) {
        return Err(format!(
            "{} requests in {} s are not a throughput of {} a second",
            f.requests, f.duration_s, f.throughput_per_s
        ));
    }
    Ok(())
}

/// A line as an error quotes it.
fn short(line: &str) -> String {
    const MOST: usize = 100;
    let mut text: String = line.chars().take(MOST).collect();
    if line.chars().count() > MOST {
        text.push('…');
    }
    format!("'{text}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"METASCHED {"throughput_per_s":50.0,"requests":100,"errors":2,"duration_s":2.0,"mean_us":10.0,"p50_us":9.0,"p95_us":20.0,"p99_us":30.0,"p999_us":40.0,"max_us":50.0}"#;

    #[test]
    fn the_last_metrics_line_counts() {
        let text = format!("METASCHED nonsense\nhello\n{LINE}\nbye\n");
        let f = read(Reader::Metrics, &text, 9.0).unwrap();
        assert_eq!((f.throughput_per_s, f.requests, f.errors, f.p99_us), (50.0, 100, 2, 30.0));
        assert_eq!(f.histogram, None);
    }

    #[test]
    fn percentiles_come_from_the_histogram_where_there_is_one() {
        let text = LINE.replace(
            "\"max_us\":50.0",
            "\"max_us\":50.0,\"histogram\":[[100,980],[200,15],[300,5]]",
        );
        let f = read(Reader::Metrics, &text, 2.0).unwrap();
        assert_eq!((f.p50_us, f.p99_us, f.p999_us, f.max_us), (100.0, 200.0, 300.0, 300.0));
        assert_eq!(f.mean_us, (100.0 * 980.0 + 200.0 * 15.0 + 300.0 * 5.0) / 1000.0);
        assert_eq!(f.histogram.unwrap(), [(100, 980), (200, 15), (300, 5)]);
    }

    #[test]
    fn some_of_the_requests_are_told_apart() {
        let with = |subsets: &str| {
            LINE.replace("\"max_us\":50.0", &format!("\"max_us\":50.0,\"subsets\":{subsets}"))
        };
        let f =
            read(Reader::Metrics, &with("{\"light\":[[100,3],[90,1]],\"none\":[]}"), 2.0).unwrap();
        assert_eq!(f.subsets["light"], [(90, 1), (100, 3)]);
        assert_eq!(f.subsets["none"], []);
        let error = read(Reader::Metrics, &with("{\"light\":[[-1,3]]}"), 2.0).unwrap_err();
        assert!(error.contains("the latency -1"), "{error}");
    }

    #[test]
    fn latencies_are_counted_one_per_line() {
        let f = read(Reader::Latencies, "# duration_s 0.5\n100\n# x\n\n300.4\n", 9.0).unwrap();
        assert_eq!((f.requests, f.throughput_per_s, f.max_us), (2, 4.0, 300.4));
        assert!((f.mean_us - 200.2).abs() < 1e-9);
        let f = read(Reader::Latencies, "100\n", 4.0).unwrap();
        assert_eq!((f.duration_s, f.throughput_per_s), (4.0, 0.25));
    }

    #[test]
    fn the_run_time_of_a_command_is_its_figure() {
        let f = read(Reader::Elapsed, "whatever", 4.0).unwrap();
        assert_eq!((f.throughput_per_s, f.p99_us), (0.25, 4e6));
    }

    #[test]
    fn nonsense_is_refused_with_the_line_that_holds_it() {
        use Reader::{Latencies, Metrics};
        let changed = |from: &str, to: &str| LINE.replace(from, to);
        let cases = [
            (Metrics, String::new(), "printed nothing"),
            (Metrics, "Running 8s test\nsocket error\n".into(), "'socket error'"),
            (Metrics, "a\nMETASCHED {oops\n".into(), "line 2 of its output, '{oops'"),
            (Metrics, changed("\"requests\":100,", ""), "missing field `requests`"),
            (Metrics, changed("\"requests\":100", "\"requests\":-1"), "line 1"),
            (Metrics, changed("\"requests\":100", "\"requests\":0"), "finished no request"),
            (Metrics, changed("\"errors\":2", "\"errors\":101"), "only 100 succeeded"),
            (Metrics, changed("\"p99_us\":30.0,", ""), "neither 'p99_us' nor a histogram"),
            (Metrics, changed("\"p99_us\":30.0", "\"p99_us\":10.0"), "more than p99_us"),
            (Metrics, changed("\"mean_us\":10.0", "\"mean_us\":-3"), "mean_us is -3"),
            (Metrics, changed("\"duration_s\":2.0", "\"duration_s\":0"), "duration_s is 0"),
            (Metrics, changed("50.0,\"req", "5000.0,\"req"), "not a throughput of 5000"),
            (Latencies, String::new(), "no latency"),
            (Latencies, "12\nfast\n".into(), "line 2 of its output, 'fast'"),
            (Latencies, "12\n-4\n".into(), "line 2"),
            (Latencies, "NaN\n".into(), "line 1"),
            (Latencies, "# duration_s soon\n1\n".into(), "not a duration"),
        ];
        for (reader, text, words) in cases {
            let e = read(reader, &text, 1.0).expect_err(&text);
            assert!(e.contains(words), "'{words}' is not in: {e}");
        }
    }
}
