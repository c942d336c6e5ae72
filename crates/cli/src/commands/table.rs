//! Tables that fit the terminal: a line for each row, however narrow it is.

use std::io::IsTerminal;

use comfy_table::Table;

/// What is between columns.
const GAP: &str = "  ";
/// What stands for what was cut out.
const CUT: &str = "..";
/// To this names are shortened, before columns are left out.
const LEAST: usize = 12;
/// A terminal that says it has less does not know: a serial console says 1.
const NARROWEST: usize = 40;

/// What may become of a column where there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// It stays as it is.
    Whole,
    /// Names, which are cut in their middle: they differ at their ends.
    Names,
    /// Prose, of which the end is cut.
    Prose,
    /// It is left out, those with the least number first.
    Out(u8),
}

/// A title, and what may become of its column.
pub type Column = (&'static str, Fit);

/// The width of the terminal that standard output is; none where it is no terminal.
pub fn terminal_width() -> Option<usize> {
    Table::new().width().map(usize::from).filter(|width| *width >= NARROWEST)
}

/// What comes before a picture that takes the place of the one before it: a terminal's screen is
/// written over, elsewhere one follows the other.
pub fn clear_screen() -> &'static str {
    if std::io::stdout().is_terminal() { "\x1b[H\x1b[2J" } else { "\n" }
}

/// The lines of a table, none of them wider than `width` where the columns allow that; and one
/// that tells of columns which were left out.
pub fn fitted(columns: &[Column], rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
    let natural = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([columns[column].0.chars().count()]).max().unwrap_or(0)
    };
    let least = |column: usize| match columns[column].1 {
        Fit::Names | Fit::Prose => natural(column).min(LEAST),
        Fit::Whole | Fit::Out(_) => natural(column),
    };
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let mut out: Vec<usize> = Vec::new();
    let room = width.unwrap_or(usize::MAX);
    let gaps = |shown: &[usize]| GAP.len() * shown.len().saturating_sub(1);
    while shown.iter().map(|column| least(*column)).sum::<usize>() + gaps(&shown) > room {
        let rank = |column: &usize| match columns[*column].1 {
            Fit::Out(rank) => Some(rank),
            _ => None,
        };
        let next = (0..shown.len()).filter_map(|at| Some((rank(&shown[at])?, at))).min();
        let Some((_, at)) = next else { break };
        out.push(shown.remove(at));
    }
    let mut widths: Vec<usize> = shown.iter().map(|column| natural(*column)).collect();
    while widths.iter().sum::<usize>() + gaps(&shown) > room {
        let over = widths.iter().sum::<usize>() + gaps(&shown) - room;
        let spare = |at: &usize| widths[*at] - least(shown[*at]);
        let Some(at) = (0..widths.len()).filter(|at| spare(at) > 0).max_by_key(spare) else {
            break;
        };
        widths[at] -= over.min(spare(&at));
    }
    let titles: Vec<String> = columns.iter().map(|(title, _)| (*title).to_owned()).collect();
    let mut lines: Vec<String> = std::iter::once(&titles)
        .chain(rows)
        .map(|row| {
            let cell = |(column, width): (&usize, &usize)| {
                let text = cut(&row[*column], *width, columns[*column].1);
                format!("{text:width$}")
            };
            let cells: Vec<String> = shown.iter().zip(&widths).map(cell).collect();
            cells.join(GAP).trim_end().to_owned()
        })
        .collect();
    if !out.is_empty() {
        out.sort_unstable();
        let titles: Vec<&str> = out.iter().map(|column| columns[*column].0).collect();
        lines.push(format!("(no room for {}; --json has them)", titles.join(", ")));
    }
    lines
}

/// A cell of at most `width` letters.
fn cut(text: &str, width: usize, fit: Fit) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(CUT.len());
    let tail = if fit == Fit::Prose { 0 } else { kept / 2 };
    let head: String = letters[..kept - tail].iter().collect();
    let end: String = letters[letters.len() - tail..].iter().collect();
    format!("{head}{CUT}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        ("NAME", Fit::Names),
        ("N", Fit::Whole),
        ("SELDOM", Fit::Out(0)),
        ("RARE", Fit::Out(1)),
        ("WHAT IT IS", Fit::Prose),
    ];

    fn lines(width: Option<usize>) -> Vec<String> {
        let row =
            ["system.slice/front-0123456789.service", "1", "seldom", "rare", "a long story, told"];
        fitted(COLUMNS, &[row.map(str::to_owned).to_vec()], width)
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let lines = lines(None);
        assert_eq!(lines.len(), 2);
        assert!(lines[1].contains("front-0123456789.service") && lines[1].ends_with("told"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_what_is_missing_is_said() {
        for width in 34..80 {
            let lines = lines(Some(width));
            assert!(lines[..2].iter().all(|line| line.len() <= width), "{width}: {lines:#?}");
            assert_eq!(lines.len() == 3, width < 43, "{width}: {lines:#?}");
        }
    }

    #[test]
    fn names_lose_their_middle_prose_its_end_and_columns_go_by_their_rank() {
        let wide = lines(Some(60));
        assert!(
            wide[1].starts_with("system.") && wide[1].contains(".service  1  seldom"),
            "{wide:#?}"
        );
        let narrow = lines(Some(38));
        assert!(narrow[1].starts_with("syste..rvice  1  rare  a long story,.."), "{narrow:#?}");
        assert_eq!(narrow[2], "(no room for SELDOM; --json has them)");
    }
}
