//! Where contenders are measured: real applications on this machine, or scenarios in the
//! simulator. Everything else in this crate knows no more of it.

use std::time::Duration;

use metasched_base::Result;

use crate::contender::Contender;
use crate::plan::Measured;
use crate::rounds::Rules;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// When a contender has been measured often enough.
    pub rules: Rules,
    /// After this time no new round is begun; unlimited if absent.
    pub budget: Option<Duration>,
}

/// Runs subjects under contenders, and knows what they did.
pub trait Bed {
    /// Measures subjects (parts, or the whole, by name) under contenders, in interleaved
    /// rounds, each with the default scheduler. What is known of them already counts.
    ///
    /// # Errors
    /// What makes going on pointless; a contender that fails is left out.
    fn measure(
        &mut self,
        subjects: &[String],
        contenders: &[Contender],
        effort: &Effort,
    ) -> Result<()>;

    /// All that is known now.
    ///
    /// # Errors
    /// When it cannot be read.
    fn measured(&mut self) -> Result<Measured>;
}
