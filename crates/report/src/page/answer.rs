//! The question that the page answers, and the answer, each in one sentence.

use metasched_experiment::{Outcome, Plan, Recommendation};

use super::html::{escape, typeset};

/// What was asked of the workload. A pair, `a+b`, is one beside the other.
pub fn question(workload: &str) -> String {
    format!("Which scheduler should run {}?", workload.replace('+', " beside "))
}

/// What to do, how sure that is, and the command that does it.
pub fn answer(plan: &Plan) -> String {
    let Some(recommended) = &plan.recommendation else {
        return "<p class=\"answer\">There is no answer yet: the plan recommends nothing.</p>\n"
            .to_owned();
    };
    let mut out = format!("<p class=\"answer\">{}</p>\n", sentence(recommended));
    if !recommended.command.is_empty() {
        out += &format!(
            "<p>The command that does it: <code>{}</code></p>\n",
            escape(&recommended.command)
        );
    }
    if !recommended.not_measured.is_empty() {
        let what = recommended.not_measured.join(", ");
        out += &format!("<p class=\"muted\">Not measured: {}.</p>\n", escape(&what));
    }
    out
}

/// The recommendation as one sentence of HTML.
fn sentence(recommended: &Recommendation) -> String {
    let said = &recommended.sure.sentence;
    // The engine's sentence begins with the name, which stands before it here.
    let reason = said.split_once(": ").map_or(said.as_str(), |(_, reason)| reason);
    let reason = escape(&typeset(reason));
    match &recommended.contender {
        Some(contender) => {
            let who = match contender.shares() {
                [] => String::new(),
                _ => format!(" ({})", escape(&contender.assignments())),
            };
            // The interval follows the figure's percent sign; how sure it is follows no such sign.
            let reason = reason.replacen("% (", "% (95\u{a0}%: ", 1);
            format!("<b>Run {}</b>{who}: {reason}.", escape(&contender.to_string()))
        }
        None if recommended.sure.outcome == Outcome::TooFewRounds => format!(
            "<b>Not enough was measured to say</b>, so leave the default scheduler (EEVDF) in \
             force: {reason}."
        ),
        None => format!("<b>Leave the default scheduler (EEVDF) in force</b>: {reason}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_experiment::{Confidence, Contender};
    use metasched_stats::Interval;

    fn recommended(outcome: Outcome, said: &str) -> Recommendation {
        let sure = Confidence { confidence: 0.9, outcome, sentence: said.to_owned() };
        Recommendation { sure, ..Recommendation::default() }
    }

    #[test]
    fn the_question_names_the_workload_and_both_of_a_pair() {
        assert_eq!(question("qa"), "Which scheduler should run qa?");
        assert_eq!(question("redis+batch"), "Which scheduler should run redis beside batch?");
    }

    #[test]
    fn the_answer_says_what_to_run_and_what_its_interval_is() {
        let said = "fifo: throughput +12.0 % (+8.0 to +16.0) (97 % sure that it is better)";
        let it = Recommendation {
            contender: Some(Contender::scheduler("fifo")),
            ratio: Some(Interval { estimate: 1.12, low: 1.08, high: 1.16, n: 6 }),
            ..recommended(Outcome::Better, said)
        };
        let text = "<b>Run fifo</b>: throughput +12.0 % (95 %: +8.0 to +16.0) (97 % sure that it is better).";
        assert_eq!(sentence(&it).replace('\u{a0}', " "), text);
    }

    #[test]
    fn the_answer_is_honest_about_too_little() {
        let few =
            recommended(Outcome::TooFewRounds, "eevdf: too few rounds to tell; profile longer");
        let text = sentence(&few);
        assert!(text.starts_with("<b>Not enough was measured to say</b>"), "{text}");
        assert!(text.ends_with("in force: too few rounds to tell; profile longer."), "{text}");
        let none = recommended(Outcome::NoneBetter, "eevdf: no scheduler is better");
        assert!(sentence(&none).starts_with("<b>Leave the default scheduler (EEVDF)"));
        assert!(answer(&Plan::default()).contains("no answer yet"));
    }
}
