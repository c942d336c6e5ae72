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
}
