/// The name nearest to `wanted`, if one is near enough to have been meant: within
/// a third of its letters, or differing only by `scx_`.
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let bare = |name: &str| name.trim_start_matches("scx_").to_lowercase();
    let wanted = bare(wanted);
    names
        .map(|name| (distance(&wanted, &bare(name)), name))
        .filter(|(distance, _)| *distance <= 1 + wanted.chars().count() / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many letters must be inserted, deleted or replaced to turn `a` into `b`
/// (Levenshtein), by rows of the usual table.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_the_textbook_ones() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }

    #[test]
    fn a_slip_or_a_missing_prefix_finds_the_name_and_nonsense_finds_none() {
        let names = ["eevdf", "fifo", "vtime", "scx_bpfland"];
        assert_eq!(nearest("bpfland", names.into_iter()), Some("scx_bpfland"));
        assert_eq!(nearest("vtiem", names.into_iter()), Some("vtime"));
        assert_eq!(nearest("scx_fifo", names.into_iter()), Some("fifo"));
        assert_eq!(nearest("completely-else", names.into_iter()), None);
    }
}
