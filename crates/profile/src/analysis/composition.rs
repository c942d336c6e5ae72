//! Which forms of a workload are parts, and of what.

use serde::Serialize;

/// The forms that are measured for themselves (parts), and the one that they make
/// up together (whole).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Composition {
    /// The parts, in the order of their turns.
    pub parts: Vec<String>,
    /// The whole; absent for a workload of one form.
    pub whole: Option<String>,
}

impl Composition {
    /// The given forms, parts first, then the whole, then what is neither.
    pub(super) fn order<'a>(&self, forms: &[&'a str]) -> Vec<&'a str> {
        let mut sorted = forms.to_vec();
        let rank = |form: &str| match self.parts.iter().position(|p| p == form) {
            Some(at) => at,
            None if self.whole.as_deref() == Some(form) => self.parts.len(),
            None => self.parts.len() + 1,
        };
        sorted.sort_by(|a, b| rank(a).cmp(&rank(b)).then(a.cmp(b)));
        sorted
    }
}

/// The composition of a workload whose manifest declares none: `full` is the
/// whole, where there is such a form and another; every other form is a part, in
/// the order given.
pub fn composition(forms: &[&str]) -> Composition {
    const WHOLE: &str = "full";
    let has_whole = forms.len() > 1 && forms.contains(&WHOLE);
    let parts = forms.iter().filter(|f| !has_whole || **f != WHOLE).map(|f| (*f).to_owned());
    let parts = parts.collect();
    Composition { parts, whole: has_whole.then(|| WHOLE.to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_is_the_whole_where_there_are_other_forms() {
        let c = composition(&["full", "front", "back"]);
        assert_eq!((c.parts.join(" "), c.whole.as_deref()), ("front back".into(), Some("full")));
        let alone = composition(&["full"]);
        assert_eq!((alone.parts.join(" "), alone.whole), ("full".into(), None));
        assert_eq!(composition(&["a", "b"]).whole, None);
    }

    #[test]
    fn forms_are_ordered_parts_first_then_the_whole_then_others() {
        let c =
            Composition { parts: vec!["front".into(), "back".into()], whole: Some("full".into()) };
        assert_eq!(
            c.order(&["other", "full", "back", "front"]),
            ["front", "back", "full", "other"]
        );
    }
}
