//! Steps as scenario files write them: a verb, and what it is done with.

use super::values::{self, Wrong, duration_ns, wrong};
use crate::step::{Name, Step};
use metasched_base::nearest;

/// Every verb and how it is written, in the order of the documentation.
pub(super) const VERBS: [(&str, &str); 26] = [
    ("run", "run SPAN"),
    ("sleep", "sleep SPAN"),
    ("every", "every DURATION"),
    ("busy", "busy DURATION"),
    ("yield", "yield"),
    ("fork", "fork TASK [COUNT]"),
    ("join", "join"),
    ("io", "io DEVICE"),
    ("write", "write PIPE [COUNT]"),
    ("read", "read PIPE [COUNT]"),
    ("lock", "lock LOCK"),
    ("unlock", "unlock LOCK"),
    ("syscall", "syscall"),
    ("return", "return"),
    ("guest", "guest"),
    ("barrier", "barrier BARRIER"),
    ("wake", "wake NAME [COUNT]"),
    ("wait", "wait NAME"),
    ("signal", "signal NAME"),
    ("broadcast", "broadcast NAME"),
    ("await", "await NAME [LOCK]"),
    ("accept", "accept ARRIVALS"),
    ("begin", "begin"),
    ("end", "end"),
    ("done", "done [COUNT]"),
    ("repeat", "{ repeat = COUNT, steps = [...] }"),
];

/// A step as it stands in the file.
#[derive(Clone, Debug)]
pub(super) enum Written {
    /// One that stands for itself.
    Plain(Step),
    /// A task of another group is born.
    Fork { group: String, count: u64 },
    /// Steps that are gone through several times.
    Repeat { times: u64, steps: Vec<Written> },
}

/// What kind of thing a step is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Device,
    Pipe,
    Lock,
    Barrier,
    Arrivals,
    Semaphore,
    Condition,
}

impl Kind {
    /// As a person calls it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Device => "device",
            Kind::Pipe => "pipe",
            Kind::Lock => "lock",
            Kind::Barrier => "barrier",
            Kind::Arrivals => "arrivals",
            Kind::Semaphore => "wake-up",
            Kind::Condition => "condition",
        }
    }
}

impl Written {
    /// Reads `run 2ms` and the like.
    pub fn parse(text: &str) -> Result<Written, Wrong> {
        let (verb, rest) = text.trim().split_once(char::is_whitespace).unwrap_or((text.trim(), ""));
        let rest = rest.trim();
        let words: Vec<&str> = rest.split_whitespace().collect();
        let Some((_, usage)) = VERBS.iter().find(|(known, _)| *known == verb) else {
            let near = nearest(verb, VERBS.map(|(verb, _)| verb));
            return Err(wrong(
                format!("there is no step '{verb}'"),
                match near {
                    Some(near) => format!("did you mean '{near}'?"),
                    None => format!("there are {}", VERBS.map(|(verb, _)| verb).join(", ")),
                },
            ));
        };
        let usage = || wrong(format!("'{text}' cannot be read"), format!("write {usage}"));
        let name = |at: usize| words.get(at).map(|word| Name::from(*word)).ok_or_else(usage);
        let count = |at: usize| match words.get(at) {
            None => Ok(1),
            Some(word) => {
                word.parse().ok().filter(|n| (1..=1_000_000).contains(n)).ok_or_else(usage)
            }
        };
        // How many words may follow; a span may hold spaces.
        let most = match verb {
            "run" | "busy" | "sleep" | "every" => usize::MAX,
            "fork" | "write" | "read" | "wake" | "await" => 2,
            "yield" | "join" | "begin" | "end" | "syscall" | "return" | "guest" => 0,
            _ => 1,
        };
        if words.len() > most {
            return Err(usage());
        }
        Ok(Written::Plain(match verb {
            "run" => Step::Run(values::span(rest)?),
            "busy" => match duration_ns(rest)? {
                0 => return Err(usage()),
                ns => Step::Busy(ns),
            },
            "sleep" => Step::Sleep(values::span(rest)?),
            "every" => match duration_ns(rest)? {
                0 => return Err(usage()),
                period_ns => Step::Timer { timer: 0, period_ns, keeps_schedule: true },
            },
            "yield" => Step::Yield,
            "join" => Step::Join,
            "io" => Step::Io(name(0)?),
            "write" => Step::Write(name(0)?, count(1)?),
            "read" => Step::Read(name(0)?, count(1)?),
            "lock" => Step::Lock(name(0)?),
            "unlock" => Step::Unlock(name(0)?),
            "syscall" => Step::Syscall,
            "return" => Step::Return,
            "guest" => Step::Guest,
            "barrier" => Step::Barrier(name(0)?),
            "wake" => Step::Wake(name(0)?, count(1)?),
            "wait" => Step::Wait(name(0)?),
            "signal" => Step::Signal { condition: name(0)?, all: false },
            "broadcast" => Step::Signal { condition: name(0)?, all: true },
            "await" => Step::Await { condition: name(0)?, lock: name(1).ok() },
            "accept" => Step::Accept(name(0)?),
            "begin" => Step::Begin,
            "end" => Step::End,
            "done" => Step::Done(count(0)?),
            "fork" => {
                return Ok(Written::Fork { group: name(0)?.to_string(), count: count(1)? });
            }
            _ => return Err(usage()),
        }))
    }

    /// Every step of a list, those within loops too.
    pub fn all(steps: &[Written]) -> Vec<&Written> {
        let mut all = Vec::new();
        for step in steps {
            all.push(step);
            if let Written::Repeat { steps, .. } = step {
                all.extend(Written::all(steps));
            }
        }
        all
    }

    /// What it is done with, and whether it gives or takes there.
    pub fn uses(&self) -> Vec<(Kind, &Name, Side)> {
        let Written::Plain(step) = self else { return Vec::new() };
        match step {
            Step::Io(name) => vec![(Kind::Device, name, Side::Both)],
            Step::Write(name, _) => vec![(Kind::Pipe, name, Side::Gives)],
            Step::Read(name, _) => vec![(Kind::Pipe, name, Side::Takes)],
            Step::Lock(name) => vec![(Kind::Lock, name, Side::Takes)],
            Step::Unlock(name) => vec![(Kind::Lock, name, Side::Gives)],
            Step::Barrier(name) => vec![(Kind::Barrier, name, Side::Both)],
            Step::Wake(name, _) => vec![(Kind::Semaphore, name, Side::Gives)],
            Step::Wait(name) => vec![(Kind::Semaphore, name, Side::Takes)],
            Step::Signal { condition, .. } => vec![(Kind::Condition, condition, Side::Gives)],
            Step::Await { condition, lock } => {
                let mut uses = vec![(Kind::Condition, condition, Side::Takes)];
                uses.extend(lock.as_ref().map(|lock| (Kind::Lock, lock, Side::Both)));
                uses
            }
            Step::Accept(name) => vec![(Kind::Arrivals, name, Side::Takes)],
            _ => Vec::new(),
        }
    }

    /// Whether time passes in it, so that a task can do it for ever.
    pub fn takes_time(&self) -> bool {
        match self {
            Written::Plain(Step::Run(_) | Step::Busy(_) | Step::Sleep(_) | Step::Timer { .. }) => {
                true
            }
            Written::Plain(_) => !self.uses().is_empty(),
            Written::Fork { .. } | Written::Repeat { .. } => false,
        }
    }
}

/// Which end of it a step has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Gives,
    Takes,
    Both,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verb_reads_what_it_says_that_one_should_write() {
        for (verb, usage) in VERBS {
            let text = usage
                .replace("SPAN", "exp(2ms)")
                .replace("DURATION", "2ms")
                .replace(['[', ']'], "")
                .replace("COUNT", "3");
            let read = Written::parse(&text);
            // A loop is a table.
            assert_eq!(read.is_err(), verb == "repeat", "{text}: {read:?}");
            let short = usage.split(" [").next().unwrap_or(usage);
            let short = short.replace("SPAN", "2ms..3ms").replace("DURATION", "2ms");
            assert_eq!(Written::parse(&short).is_err(), verb == "repeat", "{short}");
        }
    }

    #[test]
    fn a_step_that_cannot_be_read_is_told_with_how_to_write_it() {
        for (text, said) in [
            ("runn 2ms", "did you mean 'run'?"),
            ("frobnicate", "there are run, sleep"),
            ("run", "1800ms"),
            ("io", "write io DEVICE"),
            ("write p 0", "write write PIPE [COUNT]"),
            ("write p 1 2", "write write PIPE [COUNT]"),
            ("yield now", "write yield"),
            ("every 0ms", "write every DURATION"),
            ("busy 0ms", "write busy DURATION"),
            ("repeat 3", "{ repeat = COUNT"),
            ("", "there are run"),
        ] {
            let wrong = Written::parse(text).unwrap_err();
            assert!(wrong.remedy.contains(said), "{text}: {wrong:?}");
        }
    }
}
