//! The sections on where it was measured and how to do it again.

use serde_json::Value;

use super::html::{Table, escape};
use metasched_profile::Analysis;

/// The machine, the kernel, the versions, the workload's parameters.
pub fn facts(analysis: &Analysis) -> String {
    let at = &analysis.environment;
    let fact = |key: &str| at.facts.get(key).filter(|v| !v.is_null());
    let text = |key: &str| {
        fact(key).map_or("not known".to_owned(), |v| {
            v.as_str().map_or_else(|| v.to_string(), str::to_owned)
        })
    };
    let mut table =
        Table::new("The machine, its kernel and the workload", ["what", "value"]).wrap_last();
    table.row(["processor", &text("cpu_model")]);
    table.row(["CPUs on line", &cpus(at.cpus, fact("smt"), fact("llcs"), fact("nodes"))]);
    if let Some(bytes) = fact("memory_bytes").and_then(Value::as_f64) {
        table.row(["memory", &format!("{:.1} GiB", bytes / f64::from(1 << 30))]);
    }
    let virtualised = if at.emulated {
        "the CPU is emulated in software: absolute figures are those of a slower machine".to_owned()
    } else {
        fact("hypervisor").and_then(Value::as_str).unwrap_or("none").to_owned()
    };
    table.row(["hypervisor", &virtualised]);
    table.row(["kernel", &at.kernel]);
    table.row(["operating system", &text("os")]);
    table.row(["metasched", &at.metasched]);
    table.row(["machine's fingerprint", &at.machine]);
    table.row(["workload", &format!("{} ({})", analysis.workload, analysis.workload_hash)]);
    for (name, value) in &analysis.params {
        table.row([name, value]);
    }
    for form in &analysis.forms {
        table.row([format!("length of a run, {}", form.form), format!("{} s", form.duration_s)]);
    }
    format!("<section>\n<h2>Where it was measured</h2>\n{}</section>\n", table.html())
}

fn cpus(cpus: u32, smt: Option<&Value>, llcs: Option<&Value>, nodes: Option<&Value>) -> String {
    let mut text = cpus.to_string();
    if let Some(smt) = smt.and_then(Value::as_bool) {
        text += if smt { ", with SMT" } else { ", without SMT" };
    }
    if let (Some(llcs), Some(nodes)) = (llcs, nodes) {
        text += &format!(", last-level caches: {llcs}, NUMA nodes: {nodes}");
    }
    text
}

/// The commands that were used, with their seeds.
pub fn repeat(analysis: &Analysis) -> String {
    let mut table = Table::new("Sessions", ["session", "began", "boot", "seed", "command"]);
    let mut commands: Vec<&str> = Vec::new();
    for s in &analysis.sessions {
        table.row([
            s.id.to_string(),
            s.started_at.clone(),
            s.boot_id.clone(),
            s.seed.to_string(),
            s.command.clone(),
        ]);
        if !commands.contains(&s.command.as_str()) {
            commands.push(&s.command);
        }
    }
    let workload = shell_word(&analysis.workload);
    let mut lines: Vec<String> = commands.iter().map(|c| (*c).to_owned()).collect();
    lines.push(format!("metasched plan --workload {workload}"));
    lines.push(format!("metasched report --workload {workload} --out report/index.html"));
    // One block each, since a long command breaks into lines on a narrow page.
    let lines: String =
        lines.iter().map(|line| format!("<pre><code>{}</code></pre>\n", escape(line))).collect();
    format!(
        "<section>\n<h2>How to repeat it</h2>\n<p>These commands measured it, planned, and wrote \
         this page. The seed of a session fixes the random order in which things are measured. \
         Where <code>--store</code> names a store, <code>plan</code> and <code>report</code> take \
         the same.</p>\n{lines}{}</section>\n",
        table.details("The sessions, with their seeds")
    )
}

/// The word as a shell takes it.
fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_with_an_odd_name_is_quoted_for_the_shell() {
        assert_eq!(shell_word("qa"), "qa");
        assert_eq!(shell_word("redis+batch"), "redis+batch");
        assert_eq!(shell_word("it's; rm"), "'it'\\''s; rm'");
    }
}
