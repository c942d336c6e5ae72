//! What a user most likely meant.

/// The word that is nearest to `wrong` in editing steps, if it is near enough to be
/// a slip: at most a third of its letters, and at least one, may differ.
pub(crate) fn nearest<'a>(
    wrong: &str,
    words: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    words
        .into_iter()
        .map(|word| (distance(wrong, word), word))
        .min()
        .filter(|(steps, _)| *steps <= (wrong.chars().count() / 3).max(1))
        .map(|(_, word)| word)
}

/// Levenshtein's distance: the letters to insert, delete or replace.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        assert_eq!(nearest("comand", ["cgroup", "command"]), Some("command"));
        assert_eq!(nearest("zebra", ["cgroup", "command"]), None);
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
