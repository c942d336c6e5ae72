//! Text into HTML: escaping, tables, numbers as people read them.

use metasched_base::brief_time;

/// A space at which no line breaks.
const NO_BREAK: char = '\u{a0}';

/// The text with everything escaped that means something in HTML or SVG, in
/// content and in quoted attributes alike.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters are not allowed in XML, escaped or not.
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A table; cells are plain text, the first column a row header.
#[derive(Debug)]
pub struct Table {
    caption: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    wraps: bool,
}

impl Table {
    pub fn new<S: Into<String>>(caption: &str, header: impl IntoIterator<Item = S>) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { caption: caption.to_owned(), header, rows: Vec::new(), wraps: false }
    }

    /// Lets the last column break into lines: it holds sentences.
    pub fn wrap_last(mut self) -> Self {
        self.wraps = true;
        self
    }

    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn html(&self) -> String {
        let mut out = scroll(&self.caption) + "<table>";
        out += &format!("<caption>{}</caption>\n", escape(&self.caption));
        if !self.header.is_empty() {
            let cells: String = self
                .header
                .iter()
                .map(|h| format!("<th scope=\"col\">{}</th>", escape(h)))
                .collect();
            out += &format!("<thead><tr>{cells}</tr></thead>\n");
        }
        out += "<tbody>\n";
        for row in &self.rows {
            out += "<tr>";
            for (i, cell) in row.iter().enumerate() {
                out += &match i {
                    0 => format!("<th scope=\"row\">{}</th>", escape(cell)),
                    _ if self.wraps && i + 1 == row.len() => {
                        format!("<td class=\"text\">{}</td>", escape(cell))
                    }
                    _ => format!("<td>{}</td>", escape(cell)),
                };
            }
            out += "</tr>\n";
        }
        out + "</tbody></table></div>\n"
    }

    /// The table folded away behind a line that opens it.
    pub fn details(&self, summary: &str) -> String {
        format!("<details><summary>{}</summary>\n{}</details>\n", escape(summary), self.html())
    }
}

/// Opens the container in which something wide scrolls, so that the page does not. It takes the
/// focus, for who scrolls with keys, and so needs a name.
pub fn scroll(name: &str) -> String {
    format!("<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">", escape(name))
}

/// A ratio as the change that it is: `+6.9 %`, with a true minus sign.
pub fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    // Bounds of two or three noisy rounds run to astronomical figures.
    if change > 1000.0 {
        return format!("over +1000{NO_BREAK}%");
    }
    let digits = if change.abs() >= 99.95 { 0 } else { 1 };
    // What rounds to nothing has no sign; a number is never parted from its unit.
    match format!("{change:+.digits$}").as_str() {
        "-0.0" | "+0.0" => format!("±0.0{NO_BREAK}%"),
        text => format!("{}{NO_BREAK}%", text.replace('-', "−")),
    }
}

/// A ratio as a factor: `1.12`. Of one that is small, or far off, more digits say nothing.
pub fn factor(ratio: f64) -> String {
    match ratio {
        r if r > 1000.0 => "over 1000".to_owned(),
        r if r >= 99.95 => format!("{r:.0}"),
        r if r >= 9.995 => format!("{r:.1}"),
        r => format!("{r:.2}"),
    }
}

/// As [`brief_time`], typeset.
pub fn time(ns: f64) -> String {
    brief_time(ns).replace(' ', &NO_BREAK.to_string()).replace("us", "µs")
}

/// A sentence made for terminals, as the page writes it: true minus signs, and no
/// number parted from its percent sign.
pub fn typeset(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    let mut before = ' ';
    while let Some(c) = characters.next() {
        let next = characters.peek().copied().unwrap_or(' ');
        out.push(match c {
            '-' if !before.is_alphanumeric() && next.is_ascii_digit() => '−',
            ' ' if before.is_ascii_digit() && next == '%' => NO_BREAK,
            c => c,
        });
        before = c;
    }
    out
}

/// A figure with three significant digits or all of its integer part.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_means_something_in_html_survives() {
        assert_eq!(
            escape("<a href='x'>\"&\u{1b}"),
            "&lt;a href=&#39;x&#39;&gt;&quot;&amp;\u{fffd}"
        );
        let mut table = Table::new("<caption>", ["<h>"]);
        table.row(["<r>", "<c>"]);
        let out = table.html();
        for tag in ["<h>", "<r>", "<c>", "<caption><"] {
            assert!(!out.contains(tag), "{tag} in {out}");
        }
    }

    #[test]
    fn changes_are_written_with_their_sign() {
        assert_eq!(percent(1.0694), "+6.9\u{a0}%");
        assert_eq!(percent(0.841), "−15.9\u{a0}%");
        assert_eq!(percent(2.826), "+183\u{a0}%");
        assert_eq!(percent(1e9), "over +1000\u{a0}%");
        assert_eq!(percent(0.99999), "±0.0\u{a0}%");
    }

    #[test]
    fn factors_have_as_many_digits_as_say_something() {
        let cases = [(0.288, "0.29"), (1.1, "1.10"), (12.34, "12.3"), (250.2, "250")];
        for (ratio, text) in cases {
            assert_eq!(factor(ratio), text);
        }
        assert_eq!(factor(1e9), "over 1000");
    }

    #[test]
    fn sentences_get_true_minus_signs_and_names_keep_their_hyphens() {
        assert_eq!(typeset("delta-2 -1.5 % (-0.3)"), "delta-2 −1.5\u{a0}% (−0.3)");
    }

    #[test]
    fn times_are_written_in_the_unit_that_fits() {
        let cases = [
            (40_000.0, "40 µs"),
            (1.58e9, "1.58 s"),
            (133e6, "133 ms"),
            (512.0, "512 ns"),
            (1.5e6, "1.50 ms"),
        ];
        for (ns, text) in cases {
            assert_eq!(time(ns).replace(NO_BREAK, " "), text);
        }
    }
}
