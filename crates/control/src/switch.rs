use metasched_base::{Error, Kind, Result};
use serde::{Deserialize, Serialize};

/// How a change of scheduler is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// The old scheduler's process is stopped, the new one's started; in between
    /// every task is under the default scheduler.
    Swap,
    /// The root lane of our loaded program is replaced; no task leaves sched_ext. Where the program
    /// is not loaded yet, the change to it is a swap.
    Lane,
}

/// What a change of scheduler took. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SwitchRecord {
    /// The candidate that was in force before, `eevdf` for none.
    pub from: String,
    /// The candidate that is in force now.
    pub to: String,
    /// How it was done.
    pub mechanism: Mechanism,
    /// From the request to stop until sysfs says `disabled`; absent where nothing was stopped.
    pub stop_ns: Option<u64>,
    /// From the start of the process or the load until sysfs says `enabled`;
    /// absent where nothing was started.
    pub start_ns: Option<u64>,
    /// The lane write itself; absent for a process swap.
    pub write_ns: Option<u64>,
    /// The whole change as its caller saw it.
    pub total_ns: u64,
}

impl SwitchRecord {
    /// The record of a change that needed none: the candidate was in force already.
    pub fn unchanged(name: &str, mechanism: Mechanism) -> Self {
        Self {
            from: name.to_owned(),
            to: name.to_owned(),
            mechanism,
            stop_ns: None,
            start_ns: None,
            write_ns: None,
            total_ns: 0,
        }
    }

    /// Whether a lane was replaced. Earlier versions stored a load of our program as that too, so the
    /// write tells it.
    pub fn replaced_a_lane(&self) -> bool {
        self.write_ns.is_some()
    }

    /// Whether anything was changed at all.
    pub fn is_change(&self) -> bool {
        self.stop_ns.is_some() || self.start_ns.is_some() || self.write_ns.is_some()
    }
}

impl std::fmt::Display for Mechanism {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Mechanism::Swap => "swap",
            Mechanism::Lane => "lane",
        })
    }
}

impl std::str::FromStr for Mechanism {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "swap" => Ok(Mechanism::Swap),
            "lane" => Ok(Mechanism::Lane),
            _ => Err(Error::new(
                Kind::Usage,
                format!("use the mechanism '{text}'"),
                "there is none of that name",
            )
            .remedy("write 'swap' (any scheduler) or 'lane' (our policies)")),
        }
    }
}
