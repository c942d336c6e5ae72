//! Cgroups that are flagged latency-aware: all of a machine share one application, since load credits
//! are compared within a lane only.

use metasched_loader::LaneSpec;

use super::{Pattern, RuleApp, Why};

/// The extended attribute that flags a cgroup, or takes one below a flagged one out again.
pub const FLAG: &str = "user.metasched.latency_aware";

/// The name of the application that all flagged cgroups are of.
pub const LATENCY_AWARE: &str = "latency-aware";

/// The policy of its lane.
pub const LATENCY_AWARE_POLICY: &str = "lags";

/// What [`FLAG`] may be, and what that means.
const VALUES: [(&str, bool); 6] =
    [("1", true), ("0", false), ("true", true), ("false", false), ("yes", true), ("no", false)];

impl RuleApp {
    /// The application of all flagged cgroups, with what a file says of it.
    pub fn latency_aware(lane: LaneSpec, patterns: Vec<Pattern>) -> Self {
        Self {
            name: LATENCY_AWARE.to_owned(),
            lane: Some(lane),
            why: Why::LatencyAware,
            share: None,
            patterns,
        }
    }

    /// The same where nobody has said anything of it.
    pub fn latency_aware_by_default() -> Self {
        Self::latency_aware(LaneSpec::of(LATENCY_AWARE_POLICY), Vec::new())
    }

    /// Those that are taken out again below a flagged one.
    pub(super) fn exempt() -> Self {
        Self {
            // No user can give this name.
            name: format!("not {LATENCY_AWARE}"),
            lane: None,
            ..Self::latency_aware_by_default()
        }
    }
}

/// What a value of [`FLAG`] says; `None` if nothing.
pub(super) fn flag(value: &str) -> Option<bool> {
    VALUES.iter().find(|(text, _)| text.eq_ignore_ascii_case(value)).map(|(_, flagged)| *flagged)
}
