//! A recording as text.

use std::path::Path;

use metasched_base::{brief_time, document, percent};
use metasched_stats::{RunLengths, WaitHistogram};
use metasched_watch::{Bar, Piece, Recording, Whom, bars};
use serde_json::{Value, json};

/// As long as the bars of `bpftrace`.
const BAR: usize = 52;

/// In place of what looking took.
pub const NO_OVERHEAD: &str = "what looking took was not measured: this kernel does not tell\n";

/// The whole recording.
pub fn text(recording: &Recording, kept: Option<&Path>) -> String {
    let mut out = format!(
        "waits for a CPU under {}, {}\n",
        recording.scheduler,
        brief_time(recording.length_ns as f64)
    );
    for subject in &recording.subjects {
        out += &format!("\n{}\n{}", subject.whom, waits(&subject.waits(), recording.length_ns));
        if subject.waits().count() == 0 {
            out += match subject.whom {
                Whom::Comm(_) => {
                    "Nobody of that name waited; names are those of /proc/PID/comm, of 15 letters \
                     at most.\n"
                }
                Whom::Lane(_) => {
                    "A lane that is alone counts no waits: leave --lane out to trace the system.\n"
                }
                _ => "",
            };
        }
        out += &subject.runs.as_ref().map_or(String::new(), runs);
    }
    out.push('\n');
    if let Some(later) = &recording.scheduler_later {
        out += &format!(
            "The scheduler changed meanwhile, from {} to {later}: these are waits under both.\n",
            recording.scheduler
        );
    }
    match &recording.overhead {
        Some(overhead) => out += &format!("{}\n", overhead.text()),
        None if recording.subjects.iter().all(|s| matches!(s.whom, Whom::Lane(_))) => {
            out += "looking took nothing: lanes count their waits anyhow\n";
        }
        None => out += NO_OVERHEAD,
    }
    if let Some(path) = kept {
        out += &format!(
            "kept in '{0}'; compare with another: metasched latency diff {0} OTHER\n",
            path.display()
        );
    }
    out
}

/// A piece that has just ended.
pub fn piece(whom: &Whom, piece: &Piece) -> String {
    let length = brief_time(piece.length_ns as f64);
    format!("{whom}, the last {length}\n{}", waits(&piece.waits, piece.length_ns))
}

/// The same as a line of JSON.
pub fn piece_document(whom: &Whom, piece: &Piece) -> Value {
    json!({
        "whom": whom,
        "length_ns": piece.length_ns,
        "figures": document(WaitHistogram::FIGURES, &piece.waits),
        "histogram": bars(&piece.waits),
    })
}

/// The histogram of waits that ended in so long a time, and their figures.
pub fn waits(waits: &WaitHistogram, length_ns: u64) -> String {
    let bars = bars(waits);
    if bars.is_empty() {
        return "no wait ended\n".to_owned();
    }
    let per_s = waits.count() as f64 * 1e9 / length_ns.max(1) as f64;
    let figures: Vec<String> = WaitHistogram::FIGURES
        .iter()
        .filter(|figure| !["count", "sum_ns"].contains(&figure.name))
        .map(|figure| format!("{} {}", figure.title.to_lowercase(), figure.text(waits)))
        .collect();
    let lines = histogram(&[&bars]);
    let counts = format!("{} waits, {per_s:.0} a second; ", waits.count());
    format!("usecs, of 1,024 ns\n{lines}{counts}{}\n", figures.join(", "))
}

/// How long they ran each time, by what came then.
fn runs(runs: &RunLengths) -> String {
    let Some(slept) = runs.slept_share() else { return "no run ended\n".to_owned() };
    let mut out =
        String::from("how long they ran at a time, until they slept | until they were stopped\n");
    out += &histogram(&[&bars(&runs.slept), &bars(&runs.stopped)]);
    let middle = |of: &WaitHistogram| {
        of.percentile_ns(0.5).map_or("-".to_owned(), |ns| brief_time(ns as f64))
    };
    out += &format!(
        "{} runs, {} ended in sleep; p50 {} until they slept, {} until they were stopped\n",
        runs.count(),
        percent(slept),
        middle(&runs.slept),
        middle(&runs.stopped)
    );
    out
}

/// The bars of histograms side by side.
pub fn histogram(all: &[&[Bar]]) -> String {
    let places = BAR / all.len();
    let mut rows: Vec<&Bar> = all.iter().flat_map(|bars| bars.iter()).collect();
    rows.sort_by_key(|bar| bar.from_us);
    rows.dedup_by_key(|bar| bar.from_us);
    let mut out = String::new();
    for row in rows {
        let mut line = format!("{:<12}", row.label());
        for bars in all {
            let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
            let found = bars.iter().find(|bar| bar.from_us == row.from_us);
            let count = found.map_or(0, |bar| bar.count);
            let length = found.map_or(0, |bar| bar.length(most, places));
            line += &format!(" {count:>9} |{:<places$}|", "@".repeat(length));
        }
        out += &line;
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(waits_us: &[u64]) -> WaitHistogram {
        let mut waits = WaitHistogram::default();
        waits_us.iter().for_each(|us| waits.add(us << 10));
        waits
    }

    #[test]
    fn a_histogram_has_a_line_for_each_power_of_two_and_figures_below() {
        let text = waits(&of(&[2, 3, 3, 9]), 2_000_000_000);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "usecs, of 1,024 ns");
        assert_eq!(lines[1], format!("[2, 4)               3 |{}|", "@".repeat(52)));
        assert_eq!(lines[2], format!("[4, 8)               0 |{}|", " ".repeat(52)));
        assert!(lines[3].starts_with("[8, 16)              1 |@@@@@@@@@@@@@@@@@ "), "{text}");
        assert!(lines[4].starts_with("4 waits, 2 a second; mean 4.35 us, p50 "), "{text}");
        assert_eq!(waits(&of(&[]), 1), "no wait ended\n");
    }

    #[test]
    fn runs_are_told_by_what_came_then() {
        let lengths = RunLengths { slept: of(&[2, 3, 3]), stopped: of(&[4000]) };
        let text = runs(&lengths);
        assert!(text.contains("4 runs, 75.0 % ended in sleep; p50 "), "{text}");
        assert!(text.contains("[2, 4)               3 |@"), "{text}");
        assert_eq!(runs(&RunLengths::default()), "no run ended\n");
    }

    #[test]
    fn two_histograms_stand_side_by_side_in_rows_of_both() {
        let (a, b) = (bars(&of(&[2])), bars(&of(&[8, 9])));
        let text = histogram(&[&a, &b]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("1 |@@@") && lines[1].contains("2 |@@@"), "{text}");
        assert_eq!(lines[0].len(), lines[1].len());
        assert!(lines[0].chars().count() <= 100, "{text}");
    }
}
