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

/// The word that was meant, if a message of serde's says that one is unknown, and which there
/// are.
pub fn did_you_mean(message: &str) -> Option<&str> {
    let mut words = message.split('`').skip(1).step_by(2);
    let wrong = words.next().filter(|_| message.starts_with("unknown "))?;
    let expected: Vec<&str> = words.collect();
    nearest(wrong, expected)
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
    fn an_unknown_field_is_told_with_the_one_that_was_meant() {
        let message = "unknown field `polcy`, expected one of `name`, `policy`";
        assert_eq!(did_you_mean(message), Some("policy"));
        assert_eq!(did_you_mean("unknown field `x`, expected `name`"), None);
        assert_eq!(did_you_mean("invalid type: `a`, expected `b`"), None);
    }
}
