//! The sections on single schedulers: Figure 1 and the run-queue waits.

use metasched_experiment::Verdict;

use super::dots::{self, Better, Dot, Group};
use super::html::{Table, escape, number, percent, time};
use super::svg::Svg;
use super::{absent, figure, waits};
use metasched_experiment::Ratio;
use metasched_profile::{Analysis, CandidateFigures, FormFigures};
use metasched_stats::{Interval, Log2Histogram};

/// Throughput and p99 of every form under every scheduler.
pub fn ratios(analysis: &Analysis) -> String {
    let mut out = String::from("<section>\n<h2>Each part under each scheduler</h2>\n");
    if analysis.forms.iter().all(|f| f.candidates.is_empty()) {
        return out + &absent("No scheduler but the default", "metasched profile") + "</section>\n";
    }
    out += "<p>Every point is a change against the kernel's default scheduler (EEVDF), measured \
            side by side in the same rounds; the line through it is the 95 % interval. A filled \
            point is better (blue) or worse (orange) beyond the noise, corrected for the number \
            of schedulers compared; a hollow grey one is not. A point without a line has one \
            round, which gives no interval; an arrow points to a value off the scale.</p>\n<div class=\"charts\">\n";
    out += &dot_figure(analysis, "throughput", "Throughput", Better::More, |c| c.throughput);
    out += &dot_figure(analysis, "p99", "99th percentile of latency", Better::Less, |c| c.p99);
    out += "</div>\n";
    out += &baseline_table(analysis).html();
    out += &observation(analysis);
    out += &failures(analysis);
    out + "</section>\n"
}

fn dot_figure(
    analysis: &Analysis,
    id: &str,
    title: &str,
    better: Better,
    of: impl Fn(&CandidateFigures) -> Ratio,
) -> String {
    let caption = format!("{title} against EEVDF");
    let mut table = Table::new(
        &format!("{caption}, with 95 % intervals"),
        ["form", "scheduler", "change", "verdict", "rounds", "version"],
    );
    let mut groups = Vec::new();
    for form in analysis.forms.iter().filter(|f| !f.candidates.is_empty()) {
        let dot = |c: &CandidateFigures| Dot { label: c.name.clone(), ratio: of(c) };
        let dots = form.candidates.iter().map(dot).collect();
        groups.push(Group { heading: heading(analysis, form), dots });
        for c in &form.candidates {
            table.row([
                form.form.clone(),
                c.name.clone(),
                ratio_text(&of(c)),
                verdict_text(of(c).verdict).to_owned(),
                c.rounds.rounds.len().to_string(),
                c.version.clone(),
            ]);
        }
    }
    let description = format!(
        "{title} of each form under each scheduler as a percentage against EEVDF, with 95 % \
         intervals. The values are in the table behind it."
    );
    let svg = Svg::new(&format!("schedulers-{id}"), title, &description);
    figure(&dots::chart(svg, &groups, better), &caption, &table)
}

/// The name of a form, with what it is among them.
pub fn heading(analysis: &Analysis, form: &FormFigures) -> String {
    match analysis.composition.whole.as_deref() {
        Some(whole) if whole == form.form => format!("{} (the whole)", form.form),
        _ => form.form.clone(),
    }
}

/// A ratio as the change that it is, with its bounds.
pub fn interval_text(ratio: Interval) -> String {
    let Interval { estimate, low, high, .. } = ratio;
    format!("{} ({} to {})", percent(estimate), percent(low), percent(high))
}

/// A ratio with its interval as text for tables.
pub fn ratio_text(ratio: &Ratio) -> String {
    match (ratio.interval, ratio.estimate) {
        (Some(interval), _) => interval_text(interval),
        (None, Some(estimate)) => format!("{} (one round)", percent(estimate)),
        (None, None) => "not measured".to_owned(),
    }
}

/// A verdict as text for tables.
pub fn verdict_text(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "better",
        Verdict::Worse => "worse",
        Verdict::WithinNoise => "within the noise",
        Verdict::TooFewRounds => "too few rounds",
    }
}

fn baseline_table(analysis: &Analysis) -> Table {
    let mut table = Table::new(
        "EEVDF's own figures (medians); absolute values hold for this machine only",
        ["form", "throughput per second", "mean latency", "p99 latency", "runs"],
    );
    for f in &analysis.forms {
        table.row([
            f.form.clone(),
            format!("{} {}", number(f.baseline.throughput_per_s), f.unit),
            latency(f.baseline.mean_us),
            latency(f.baseline.p99_us),
            f.baseline.runs.to_string(),
        ]);
    }
    table
}

/// A latency; the load of a job, and that of both of a pair, has none.
fn latency(us: f64) -> String {
    if us > 0.0 { time(us * 1e3) } else { "none".to_owned() }
}

/// What metasched's own observation costs, from the control runs.
fn observation(analysis: &Analysis) -> String {
    let items: Vec<String> = analysis
        .forms
        .iter()
        .filter_map(|f| {
            let i = f.observed_over_unobserved?;
            Some(format!("{}: {}", escape(&f.form), interval_text(i)))
        })
        .collect();
    if items.is_empty() {
        return String::new();
    }
    format!(
        "<p class=\"muted\">What being observed does to throughput, from control runs without \
         any observation: {}.</p>\n",
        items.join("; ")
    )
}

fn failures(analysis: &Analysis) -> String {
    let mut table = Table::new("Runs that failed", ["form", "under", "what it said"]).wrap_last();
    for form in &analysis.forms {
        for f in &form.failures {
            table.row([form.form.clone(), f.subject.to_string(), f.error.clone()]);
        }
    }
    if table.is_empty() { String::new() } else { table.html() }
}

/// Run-queue waits under each scheduler.
pub fn wait_histograms(analysis: &Analysis) -> String {
    let mut out = String::from("<section>\n<h2>Waiting for a CPU</h2>\n");
    let mut charts = Vec::new();
    for form in analysis.forms.iter().rev() {
        let title = format!("Run-queue latency, {}", heading(analysis, form));
        let whose = format!("{}'s threads", form.form);
        let id = format!("waits-{}", super::slug(&form.form));
        charts.extend(wait_figure(&id, &title, &whose, &form.waits));
    }
    // Clients that share the machine with what they ask wait for its CPUs too.
    for form in analysis.forms.iter().rev() {
        let title = format!("Run-queue latency of what loads {}", heading(analysis, form));
        let whose = format!("the threads of the tool that loads {}", form.form);
        let id = format!("waits-of-load-{}", super::slug(&form.form));
        charts.extend(wait_figure(&id, &title, &whose, &form.load_waits));
    }
    // The whole, which comes first here, says most; the parts are there to open.
    match charts.split_first() {
        None => out += &absent("Run-queue latency", "metasched profile"),
        Some((first, others)) => {
            out += "<p>How long threads that were ready to run waited for a CPU. These runs \
                    were made for this alone, with a tracer attached; no other figure comes from \
                    them. They count every wait, and nothing is compared with EEVDF in one round, \
                    so there are no intervals.</p>\n";
            out += first;
            if !others.is_empty() {
                out += "<details><summary>The same for the parts, and for what loads them</summary>\n<div \
                        class=\"charts\">\n";
                out += &others.concat();
                out += "</div>\n</details>\n";
            }
        }
    }
    out + "</section>\n"
}

/// The histograms of one form under each scheduler; nothing where it was not traced.
fn wait_figure(
    id: &str,
    title: &str,
    whose: &str,
    histograms: &[(String, Log2Histogram)],
) -> Option<String> {
    let description = format!(
        "For each scheduler, how the waits of {whose} between becoming runnable and running \
         spread over powers of two; a line marks the 99th percentile. The values are in the table \
         behind it."
    );
    let chart = waits::chart(Svg::new(id, title, &description), histograms)?;
    let caption = format!("{title}, under each scheduler; the upright line is the p99");
    Some(figure(&chart, &caption, &waits::table(title, histograms)))
}
