/// The word that is nearest to `wrong`, if it is near enough to be a slip: at most a third
/// of its letters, and at least one, are wrong, missing, too many or swapped.
pub fn nearest<'a>(wrong: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    words
        .into_iter()
        .map(|word| (strsim::damerau_levenshtein(wrong, word), word))
        .min()
        .filter(|(steps, _)| *steps <= (wrong.chars().count() / 3).max(1))
        .map(|(_, word)| word)
}

/// The remedy for an unknown name: the name that was probably meant, else all,
/// after `there_are`.
pub fn meant(wrong: &str, known: &[&str], there_are: &str) -> String {
    match nearest(wrong, known.iter().copied()) {
        Some(near) => format!("did you mean '{near}'?"),
        None => format!("{there_are} {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        assert_eq!(nearest("comand", ["cgroup", "command"]), Some("command"));
        assert_eq!(nearest("vtiem", ["fifo", "vtime"]), Some("vtime"));
        assert_eq!(nearest("zebra", ["cgroup", "command"]), None);
        assert_eq!(nearest("zebra", []), None);
    }

    #[test]
    fn who_errs_is_told_what_was_meant_or_what_there_is() {
        let told = |wrong| meant(wrong, &["fifo", "vtime"], "there are");
        assert_eq!(told("vtiem"), "did you mean 'vtime'?");
        assert_eq!(told("zebra"), "there are fifo, vtime");
    }
}
