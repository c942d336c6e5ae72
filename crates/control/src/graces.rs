//! How long each step of a change may take, and what helps where one takes longer.

use std::time::Duration;

/// How often the state is looked at while it is expected to change: fine enough for
/// figures of tens of milliseconds, coarse enough to cost next to nothing.
pub(crate) const POLL: Duration = Duration::from_millis(2);

/// What helps where a scheduler does not go.
pub(crate) const SYSRQ_REMEDY: &str =
    "SysRq-S takes any scheduler out: echo S > /proc/sysrq-trigger";

/// How long each step may take.
#[derive(Clone, Debug)]
pub(crate) struct Graces {
    /// From the start of the process until it is in force.
    pub(crate) start: Duration,
    /// From then until the process has the link in its hands.
    pub(crate) link: Duration,
    /// After SIGINT.
    pub(crate) interrupt: Duration,
    /// After SIGTERM.
    pub(crate) terminate: Duration,
    /// After SIGKILL, for the kernel to take the scheduler out.
    pub(crate) kill: Duration,
}

impl Default for Graces {
    fn default() -> Self {
        Self {
            // The verifier takes a second or two over the largest ones, an emulated guest
            // ten times that, and a loaded one more still. A start that hangs is rare.
            start: Duration::from_secs(120),
            // The last thing that a start does; microseconds, unless the machine is busy.
            link: Duration::from_secs(5),
            interrupt: Duration::from_secs(5),
            terminate: Duration::from_secs(3),
            kill: Duration::from_secs(20),
        }
    }
}
