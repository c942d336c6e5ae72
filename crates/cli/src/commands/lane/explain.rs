//! `metasched lane explain`.

use std::path::Path;

use metasched_base::Result;
use metasched_control::{
    App, Explained, Explanation, Located, MeasuredRatio, Pattern, Preference, RuleApp, Why,
};

use crate::commands::keeper::kept_status;
use crate::context::Context;

/// Says of each application why it is on the lane that it is on.
///
/// One line each: the policy and the weight of its lane; who said so, or the figures by
/// which it was preferred; and the rules by which its cgroups were found. Of a cgroup it says
/// first which one above it, or whether it itself, was put there, and how.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An application: its name in the rules; or a cgroup, as a path below /sys/fs/cgroup
    /// or the name of a systemd unit. All if not given
    #[arg(value_name = "APP")]
    app: Option<String>,
}

/// Carries the command out; the value is the process's exit status.
pub fn run(args: &Args, context: &Context) -> Result<u8> {
    let mut view = Explanation::of(&kept_status(context, "explain the lanes")?);
    if let Some(wanted) = &args.app {
        view.narrow(Path::new("/"), wanted)?;
    }
    context.print(&view, text)?;
    Ok(0)
}

/// A line for each application, and one for all else.
pub fn text(view: &Explanation) -> String {
    let mut lines: Vec<String> =
        view.cgroup.iter().map(|located| line_of(located, &view.default)).collect();
    lines.extend(view.apps.iter().map(|e| line(e, &view.default)));
    lines.extend(view.without_lane.iter().map(|app| line_without(app, &view.default)));
    lines.extend(view.exempt.iter().map(|(path, member)| {
        let rule = by(member.rule.as_ref());
        format!("{path}: on the default lane ('{}') below flagged ones, {rule}", view.default)
    }));
    lines.push(format!("everything else: on the default lane ('{}')", view.default));
    lines.join("\n")
}

/// Where a cgroup has its lane from.
fn line_of(located: &Located, default: &str) -> String {
    let Located { cgroup, from, rule, app, latency_aware } = located;
    let what = match app {
        Some(_) if *latency_aware => "latency-aware".to_owned(),
        Some(app) => format!("on the lane of '{app}'"),
        None => format!("not latency-aware, on the default lane ('{default}')"),
    };
    let along = if from == cgroup { String::new() } else { format!(" of '{from}' above it") };
    format!("{cgroup}: {what}, {}{along}", by(rule.as_ref()))
}

/// By what a cgroup was put where it is.
fn by(rule: Option<&Pattern>) -> String {
    rule.map_or("by hand".to_owned(), |rule| format!("by {rule}"))
}

fn line(explained: &Explained, default: &str) -> String {
    let Explained { app, weight } = explained;
    let policy = &app.lane.policy;
    let Some(weight) = weight else {
        return format!(
            "{}: on the default lane ('{default}'), since '{policy}' left its tasks waiting \
             ('metasched lane list' tells more)",
            app.name
        );
    };
    let from = match (app.share, app.lane.weight) {
        (Some(share), _) => format!(" ({:.0} % of the shares)", share * 100.0),
        (None, None) => " (cpu.weight)".to_owned(),
        (None, Some(_)) => String::new(),
    };
    let found = match matched(app) {
        matched if matched.is_empty() => String::new(),
        matched => format!("; matched by {matched}"),
    };
    format!(
        "{}: on a lane of '{policy}', weight {weight}{from}, {}{found}",
        app.name,
        reason(&app.why)
    )
}

fn line_without(app: &RuleApp, default: &str) -> String {
    let Some(lane) = &app.lane else {
        return format!(
            "{}: on the default lane ('{default}'), since it prefers the default scheduler, \
             which cannot be a lane",
            app.name
        );
    };
    let rules: Vec<String> = app.patterns.iter().map(ToString::to_string).collect();
    let none = match rules.as_slice() {
        // Of an application that others than the file can give cgroups.
        [] => "none is flagged".to_owned(),
        rules => format!("no cgroup matches {}", rules.join(", ")),
    };
    format!(
        "{}: on no lane, since {none}; it would be on one of '{}', {}",
        app.name,
        lane.policy,
        reason(&app.why)
    )
}

/// Why an application has the policy that it has.
fn reason(why: &Why) -> String {
    match why {
        Why::Hand => "assigned by hand".to_owned(),
        Why::File(path) => format!("named in {path}"),
        Why::CommandLine => "named on the command line".to_owned(),
        Why::Attribute => "which its cgroups ask for".to_owned(),
        Why::LatencyAware => "for cgroups that are flagged".to_owned(),
        Why::Preferred(Preference { plan, figures }) => {
            let plan =
                plan.as_deref().map_or("plan of the store".to_owned(), |p| format!("plan {p}"));
            match figures {
                Some(MeasuredRatio { of, estimate, low, high, rounds }) => format!(
                    "which it prefers: {of} {estimate:.2} [{low:.2}-{high:.2}] of EEVDF over \
                     {rounds} rounds ({plan})"
                ),
                None => format!("which it prefers ({plan})"),
            }
        }
    }
}

/// The rules that found cgroups of the application, with how many each did; of flagged ones also how
/// many were by hand.
fn matched(app: &App) -> String {
    let mut counts: Vec<(String, usize)> = Vec::new();
    for member in app.cgroups.values() {
        let rule = match &member.rule {
            Some(rule) => rule.to_string(),
            None if app.why == Why::LatencyAware => "hand".to_owned(),
            None => continue,
        };
        match counts.iter_mut().find(|(known, _)| *known == rule) {
            Some((_, count)) => *count += 1,
            None => counts.push((rule, 1)),
        }
    }
    let words = |(rule, count): &(String, usize)| match count {
        1 => format!("{rule} (1 cgroup)"),
        _ => format!("{rule} ({count} cgroups)"),
    };
    counts.iter().map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::{Member, Pattern};
    use metasched_loader::LaneSpec;

    fn app(name: &str, why: Why, cgroups: &[(&str, Option<Pattern>)]) -> App {
        let member = |rule: &Option<Pattern>| Member { id: 1, rule: rule.clone() };
        App {
            number: 1,
            name: name.to_owned(),
            lane: LaneSpec::of("fifo"),
            why,
            share: None,
            replaced: 0,
            quarantined: false,
            cgroups: cgroups.iter().map(|(p, rule)| ((*p).to_owned(), member(rule))).collect(),
        }
    }

    fn view(apps: Vec<App>, without_lane: Vec<RuleApp>) -> Explanation {
        let apps = apps.into_iter().map(|app| Explained { app, weight: Some(160) }).collect();
        let default = "vtime".to_owned();
        Explanation { apps, without_lane, exempt: [].into(), default, cgroup: None }
    }

    #[test]
    fn a_preference_is_told_with_its_figures_and_the_rules_that_matched() {
        let rule = Some(Pattern::Cgroups("s/qa-*.service".to_owned()));
        let figures = MeasuredRatio {
            of: "throughput".into(),
            estimate: 1.12,
            low: 1.081,
            high: 1.15,
            rounds: 5,
        };
        let why = Why::Preferred(Preference { plan: None, figures: Some(figures) });
        let mut front =
            app("front", why, &[("s/qa-1.service", rule.clone()), ("s/qa-2.service", rule)]);
        front.share = Some(0.8);
        assert_eq!(
            text(&view(vec![front], Vec::new())),
            "front: on a lane of 'fifo', weight 160 (80 % of the shares), which it prefers: \
             throughput 1.12 [1.08-1.15] of EEVDF over 5 rounds (plan of the store); matched by \
             cgroups = \"s/qa-*.service\" (2 cgroups)\n\
             everything else: on the default lane ('vtime')"
        );
    }

    #[test]
    fn a_flag_is_told_with_who_set_it_where() {
        let flag = |flagged| Some(Pattern::LatencyAware(flagged));
        let shared = app("latency-aware", Why::LatencyAware, &[("a", flag(true)), ("b", None)]);
        let out = Member { id: 1, rule: flag(false) };
        let mut view = Explanation {
            exempt: [("a/out".to_owned(), out)].into(),
            cgroup: Some(Located {
                cgroup: "a/b".to_owned(),
                from: "a".to_owned(),
                rule: flag(true),
                app: Some("latency-aware".to_owned()),
                latency_aware: true,
            }),
            ..view(vec![shared], Vec::new())
        };
        let said = text(&view);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "a/b: latency-aware, by user.metasched.latency_aware = \"1\" of 'a' above it",
                "latency-aware: on a lane of 'fifo', weight 160 (cpu.weight), for cgroups that are \
                 flagged; matched by user.metasched.latency_aware = \"1\" (1 cgroup), hand (1 cgroup)",
                "a/out: on the default lane ('vtime') below flagged ones, by \
                 user.metasched.latency_aware = \"0\"",
            ]
        );
        view.cgroup = Some(Located {
            cgroup: "a/out".to_owned(),
            from: "a/out".to_owned(),
            rule: flag(false),
            app: None,
            latency_aware: false,
        });
        assert!(text(&view).starts_with(
            "a/out: not latency-aware, on the default lane ('vtime'), by user.metasched.latency_aware = \"0\"\n"
        ));
    }

    #[test]
    fn what_was_said_by_hand_and_what_has_no_lane_is_told_as_such() {
        let mut by_hand = app("a/b", Why::Hand, &[("a/b", None)]);
        by_hand.lane.weight = Some(160);
        let waiting = RuleApp {
            name: "db".to_owned(),
            lane: Some(LaneSpec::of("fifo")),
            why: Why::File("app.toml".to_owned()),
            share: None,
            patterns: vec![Pattern::Commands("mongod".to_owned())],
        };
        let back = RuleApp { name: "back".to_owned(), lane: None, ..waiting.clone() };
        let said = text(&view(vec![by_hand], vec![waiting, back]));
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "a/b: on a lane of 'fifo', weight 160, assigned by hand");
        assert_eq!(
            lines[1],
            "db: on no lane, since no cgroup matches commands = \"mongod\"; it would be on one of \
             'fifo', named in app.toml"
        );
        assert!(lines[2].starts_with("back: on the default lane ('vtime'), since it prefers"));
    }
}
