use std::fmt;

/// The result of anything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What sort of failure it was. It decides the exit status, so that scripts can
/// tell "you asked for something wrong" from "this machine cannot do it".
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Something went wrong at run time that none of the others describes.
    Failed,
    /// The command line is wrong.
    Usage,
    /// A file or a value that the user gave is wrong: manifest, store, name.
    BadInput,
    /// This machine or kernel lacks something that is needed.
    Unsupported,
    /// Somebody else holds what is needed: a scheduler is attached, a lock is held.
    Busy,
    /// More privileges are needed.
    Denied,
    /// A scheduler left the kernel, or was thrown out of it, on its own account.
    SchedulerExit,
    /// Something did not happen in the time that it was given.
    Timeout,
    /// The guest panicked or vanished.
    Guest,
    /// A simulated run broke a rule of the kernel's, or failed a checker.
    Simulation,
    /// A signal asked us to stop, and we did, in an orderly way.
    Interrupted,
}

impl Kind {
    /// Every kind, in the order of its exit status.
    pub const ALL: [Kind; 11] = [
        Kind::Failed,
        Kind::Usage,
        Kind::BadInput,
        Kind::Unsupported,
        Kind::Busy,
        Kind::Denied,
        Kind::SchedulerExit,
        Kind::Timeout,
        Kind::Guest,
        Kind::Simulation,
        Kind::Interrupted,
    ];

    /// The exit status of the command that ends with this failure.
    pub fn exit_code(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::BadInput => 3,
            Kind::Unsupported => 4,
            Kind::Busy => 5,
            Kind::Denied => 6,
            Kind::SchedulerExit => 7,
            Kind::Timeout => 8,
            Kind::Guest => 9,
            Kind::Simulation => 10,
            Kind::Interrupted => 130,
        }
    }

    /// One line for the manual page.
    pub fn describe(self) -> &'static str {
        match self {
            Kind::Failed => "something failed at run time",
            Kind::Usage => "the command line is wrong",
            Kind::BadInput => "a file or a value that was given is wrong",
            Kind::Unsupported => "this machine or kernel lacks something that is needed",
            Kind::Busy => "another scheduler is attached, or another metasched holds the lock",
            Kind::Denied => "more privileges are needed",
            Kind::SchedulerExit => "a scheduler left the kernel on its own account",
            Kind::Timeout => "something did not happen in the time that it was given",
            Kind::Guest => "the guest of the testbed panicked or vanished",
            Kind::Simulation => "a simulated run broke a rule or failed a checker",
            Kind::Interrupted => "stopped by a signal, in an orderly way",
        }
    }
}

/// A failure as a user can act on it: `cannot ATTEMPT: CAUSE; REMEDY`.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Error {
    /// What sort of failure it was.
    pub kind: Kind,
    /// What was being done, to be read after "cannot": `attach 'vtime'`.
    pub attempt: String,
    /// Why it failed, with the path and line where there is one.
    pub cause: String,
    /// What the user can do about it; empty where there is nothing to do.
    pub remedy: String,
}

impl Error {
    /// A failure of the given kind, without a remedy yet.
    pub fn new(kind: Kind, attempt: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self { kind, attempt: attempt.into(), cause: cause.to_string(), remedy: String::new() }
    }

    /// Says what the user can do about it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.attempt, self.cause)?;
        if !self.remedy.is_empty() {
            write!(f, "; {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Turns any foreign error into ours where it happens, because only there is it
/// known what was being attempted.
pub trait ResultExt<T> {
    /// Wraps the error with its kind and what was attempted.
    fn attempt(self, kind: Kind, attempt: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> ResultExt<T> for std::result::Result<T, E> {
    fn attempt(self, kind: Kind, attempt: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::new(kind, attempt(), cause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_reads_as_attempt_cause_and_remedy() {
        let e = Error::new(Kind::Busy, "attach 'vtime'", "'lavd' is already attached")
            .remedy("stop it first");
        assert_eq!(
            e.to_string(),
            "cannot attach 'vtime': 'lavd' is already attached; stop it first"
        );
    }

    #[test]
    fn exit_codes_are_distinct_and_never_success() {
        let mut codes: Vec<u8> = Kind::ALL.iter().map(|k| k.exit_code()).collect();
        codes.sort_unstable();
        codes.dedup();
        assert_eq!(codes.len(), Kind::ALL.len());
        assert!(!codes.contains(&0));
    }
}
