//! Draws what was measured: [`page()`] writes it as one self-contained HTML file, [`curve()`] and
//! [`gantt()`] pictures of their own. It decides nothing.

#[cfg(test)]
#[path = "../../profile/tests/support/made_up.rs"]
mod made_up;
mod page;

pub use page::{Bar, Bench, Curve, CurveLine, Figure, Gantt, Lane, curve, gantt, page};
