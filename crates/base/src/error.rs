use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

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
    /// The command that was to be run is there, and cannot be executed.
    NotExecutable,
    /// The command that was to be run is not there.
    NoSuchCommand,
    /// A signal asked us to stop, and we did, in an orderly way.
    Interrupted,
}

/// The exit status of a failure of ours where the status is otherwise that of a command which we
/// run, as env, timeout and docker have it.
pub const OURS_BESIDE_A_COMMAND: u8 = 125;

/// The exit status that passes a command's own on, as a shell does: 128 and the signal's number
/// where one killed it.
pub fn passed_on(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;
    let code = status.code().or_else(|| status.signal().map(|number| 128 + number));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(OURS_BESIDE_A_COMMAND)
}

impl Kind {
    /// Every kind, in the order of its exit status.
    pub const ALL: [Kind; 13] = [
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
        Kind::NotExecutable,
        Kind::NoSuchCommand,
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
            Kind::NotExecutable => 126,
            Kind::NoSuchCommand => 127,
            Kind::Interrupted => 130,
        }
    }

    /// Why a command could not be started, as a shell tells it.
    pub fn of_command(error: &std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::NotFound => Kind::NoSuchCommand,
            _ => Kind::NotExecutable,
        }
    }

    /// The exit status where it is otherwise that of a command which we run: one that no such
    /// command has by chance.
    pub fn exit_code_beside_a_command(self) -> u8 {
        match self {
            Kind::NotExecutable | Kind::NoSuchCommand | Kind::Interrupted => self.exit_code(),
            _ => OURS_BESIDE_A_COMMAND,
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
            Kind::NotExecutable => "the command that was to be run cannot be executed",
            Kind::NoSuchCommand => "the command that was to be run is not there",
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
    /// The error that the cause was written from, for callers that have to decide by it.
    #[serde(skip)]
    pub source: Option<Arc<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure of the given kind, without a remedy yet.
    pub fn new(kind: Kind, attempt: impl Into<String>, cause: impl fmt::Display) -> Self {
        Self {
            kind,
            attempt: attempt.into(),
            cause: cause.to_string(),
            remedy: String::new(),
            source: None,
        }
    }

    /// Says what the user can do about it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    /// Tells of another failure as well, such as one while we put right what this one left.
    pub fn and(mut self, second: &Error) -> Self {
        self.cause = format!("{}; and {second}", self.cause);
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

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(self.source.as_deref()?)
    }
}

/// Turns any foreign error into ours where it happens, because only there is it
/// known what was being attempted.
pub trait ResultExt<T> {
    /// Wraps the error with its kind and what was attempted. It stays the source, and the cause
    /// is all that it and its own sources say.
    fn attempt(self, kind: Kind, attempt: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: Into<Box<dyn StdError + Send + Sync>>> ResultExt<T> for std::result::Result<T, E> {
    fn attempt(self, kind: Kind, attempt: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|error| {
            let error = error.into();
            let cause = all_it_says(&*error);
            Error { source: Some(error.into()), ..Error::new(kind, attempt(), cause) }
        })
    }
}

/// An error and its sources, from the outermost on. Many, and ours are among them, repeat what
/// their source says: nothing is said twice.
fn all_it_says(error: &(dyn StdError + 'static)) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let more = source.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        next = source.source();
    }
    said
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
    fn the_source_is_kept_and_what_lies_below_it_is_said_once() {
        #[derive(Debug)]
        struct Outer(std::io::Error);
        impl fmt::Display for Outer {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("cannot map it")
            }
        }
        impl StdError for Outer {
            fn source(&self) -> Option<&(dyn StdError + 'static)> {
                Some(&self.0)
            }
        }
        let busy = || std::io::Error::from_raw_os_error(nix::libc::EBUSY);
        let error = Err::<(), _>(Outer(busy())).attempt(Kind::Busy, || "load".into()).unwrap_err();
        assert_eq!(error.cause, format!("cannot map it: {}", busy()));
        let outer = error.source().unwrap();
        let io = outer.source().unwrap().downcast_ref::<std::io::Error>().unwrap();
        assert_eq!(io.raw_os_error(), Some(nix::libc::EBUSY));
        let told = error.to_string();
        let again = Err::<(), _>(error).attempt(Kind::Failed, || "start".into()).unwrap_err();
        assert_eq!(again.cause, told);
    }

    #[test]
    fn beside_a_command_no_failure_of_ours_looks_like_one_of_its_own() {
        let codes = Kind::ALL.map(Kind::exit_code_beside_a_command);
        assert!(codes.iter().all(|code| (125..=127).contains(code) || *code == 130), "{codes:?}");
        let not_found = std::process::Command::new("/no/such/command").spawn().unwrap_err();
        assert_eq!(Kind::of_command(&not_found), Kind::NoSuchCommand);
        let not_executable = std::process::Command::new("/").spawn().unwrap_err();
        assert_eq!(Kind::of_command(&not_executable), Kind::NotExecutable);
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
