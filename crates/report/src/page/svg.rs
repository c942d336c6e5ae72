//! A small writer of SVG: shapes with classes, so that the page's style sheet
//! decides the colours in both themes, and text that is always escaped.

use std::fmt::Write;

use super::html::escape;

/// Where a text is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// The shape of a point; lines differ by it as well as by colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

/// The width of every chart in its own units. At the width of a phone a unit is
/// about a pixel, so the style sheet's 12 units of text stay readable there.
pub const WIDTH: f64 = 400.0;

/// A chart being drawn, downwards from the top.
#[derive(Debug)]
pub struct Svg {
    id: String,
    title: String,
    description: String,
    body: String,
    width: f64,
    height: f64,
}

impl Svg {
    /// An empty chart. `id` is unique on the page; title and description are what a
    /// screen reader says.
    pub fn new(id: &str, title: &str, description: &str) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            description: description.to_owned(),
            body: String::new(),
            width: WIDTH,
            height: 0.0,
        }
    }

    /// A chart of another width, in its units.
    pub fn wide(self, width: f64) -> Self {
        Self { width, ..self }
    }

    /// Makes the chart at least this high.
    pub fn extend_to(&mut self, height: f64) {
        self.height = self.height.max(height);
    }

    pub fn line(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), class: &str) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" class=\"{class}\"/>"
        ));
    }

    pub fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), class: &str) {
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             class=\"{class}\"/>"
        ));
    }

    /// A rectangle that says `told` when it is pointed at.
    pub fn told_rect(&mut self, at: (f64, f64), size: (f64, f64), class: &str, told: &str) {
        let ((x, y), (width, height)) = (at, size);
        self.add(format_args!(
            "<rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.1}\" \
             class=\"{class}\"><title>{}</title></rect>",
            escape(told)
        ));
    }

    /// A pattern of slanting lines that a style sheet fills shapes with, as `url(#id)`.
    pub fn hatching(&mut self, id: &str) {
        self.add(format_args!(
            "<defs><pattern id=\"{id}\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><rect width=\"2\" height=\"4\" class=\"hatch\"/>\
             </pattern></defs>"
        ));
    }

    /// A line through all points.
    pub fn polyline(&mut self, points: &[(f64, f64)], class: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polyline points=\"{}\" class=\"{class}\"/>", list.join(" ")));
    }

    /// A closed shape through all points.
    pub fn polygon(&mut self, points: &[(f64, f64)], class: &str) {
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.add(format_args!("<polygon points=\"{}\" class=\"{class}\"/>", list.join(" ")));
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" class=\"{class}\">{text}</text>"
        ));
    }

    /// A point of the given shape.
    pub fn point(&mut self, shape: Shape, (x, y): (f64, f64), class: &str) {
        const R: f64 = 4.5;
        match shape {
            Shape::Circle => self.add(format_args!(
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{R}\" class=\"{class}\"/>"
            )),
            Shape::Square => {
                self.rect((x - R + 0.5, y - R + 0.5), (2.0 * R - 1.0, 2.0 * R - 1.0), class);
            }
            Shape::Triangle => {
                self.polygon(
                    &[(x, y - R - 0.5), (x + R + 0.5, y + R), (x - R - 0.5, y + R)],
                    class,
                );
            }
            Shape::Diamond => self.polygon(
                &[(x, y - R - 1.0), (x + R + 1.0, y), (x, y + R + 1.0), (x - R - 1.0, y)],
                class,
            ),
        }
    }

    /// An arrow head that says "further that way".
    pub fn arrow(&mut self, (x, y): (f64, f64), rightwards: bool, class: &str) {
        let back = if rightwards { -8.0 } else { 8.0 };
        self.polygon(&[(x, y), (x + back, y - 5.0), (x + back, y + 5.0)], class);
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The finished element.
    pub fn finish(self) -> String {
        self.element("", "")
    }

    /// The finished chart as a file of its own, with its style sheet.
    pub fn finish_alone(self, style: &str) -> String {
        let (width, height) = (self.width, self.height);
        let attributes = format!(
            "xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" "
        );
        self.element(&attributes, &format!("<style>\n{style}</style>\n"))
    }

    fn element(self, attributes: &str, head: &str) -> String {
        let Self { id, title, description, body, width, height } = self;
        format!(
            "<svg {attributes}viewBox=\"0 0 {width} {height:.0}\" role=\"img\" \
             aria-labelledby=\"{id}-t {id}-d\">\n<title id=\"{id}-t\">{}</title>\n\
             <desc id=\"{id}-d\">{}</desc>\n{head}{body}</svg>\n",
            escape(&title),
            escape(&description)
        )
    }
}

/// How wide a text is in chart units, near enough to leave room for it: at 12
/// units most sans-serif faces run to about 6.4 a character, DejaVu Sans to 7.2.
pub fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 7.2
}

/// A label cut to `max` characters; the tables hold it whole.
pub fn shorten(label: &str, max: usize) -> String {
    if label.chars().count() <= max {
        return label.to_owned();
    }
    let mut short: String = label.chars().take(max - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_and_titles_are_tied_to_the_chart() {
        let mut svg = Svg::new("f1", "a < b", "says \"c & d\"");
        svg.text((1.0, 2.0), Anchor::End, "label", "<script>");
        svg.extend_to(20.0);
        let out = svg.finish();
        assert!(out.contains("&lt;script&gt;") && !out.contains("<script"), "{out}");
        assert!(out.contains("aria-labelledby=\"f1-t f1-d\""), "{out}");
        assert!(out.contains("<title id=\"f1-t\">a &lt; b</title>"), "{out}");
        assert!(out.contains("viewBox=\"0 0 400 20\""), "{out}");
    }

    #[test]
    fn long_labels_are_cut_with_a_mark() {
        assert_eq!(shorten("scx_rusty", 12), "scx_rusty");
        assert_eq!(shorten("scx_rustland --slice 5", 12), "scx_rustlan…");
    }
}
