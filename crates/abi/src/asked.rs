//! What the kernel program may be asked for, checked before it is: policies, weights, turns,
//! and options as users write them. The loader and the simulator refuse the same.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Kind, Result, format_duration, meant, parse_duration, parse_pair};

use crate::policies::variant;
use crate::{CycleArgs, OptionInfo, PRESETS, PolicyInfo, TURNS_MAX, TurnArgs, WEIGHT_DFL};

/// The name that users give the kernel's own scheduler.
pub const EEVDF: &str = "eevdf";
/// The policy of everything that has none of its own, unless the user names another.
pub const DEFAULT_POLICY: &str = "fair";
/// Weights that a lane may have, as for `cpu.weight`.
pub const WEIGHTS: RangeInclusive<u32> = 1..=10_000;
/// The weight of a lane, and of a cgroup, that nobody has touched.
pub const DEFAULT_WEIGHT: u32 = WEIGHT_DFL;

/// The shortest turn. A change interrupts every CPU and costs some tens of microseconds, so
/// that of shorter turns little would be left.
const LEAST_TURN: Duration = Duration::from_micros(100);
/// The longest turn. The kernel's timers count nanoseconds from its start with a sign: one that
/// is due beyond that would end its turn at once, again and again.
const LONGEST_TURN: Duration = Duration::from_secs(24 * 60 * 60);

/// One turn of a cycle; users write `vtime=3ms`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaneTurn {
    /// The policy that is in force in it.
    pub policy: String,
    /// For how long.
    pub length: Duration,
}

impl FromStr for LaneTurn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (policy, time) = parse_pair(text, "a turn", "vtime=3ms")?;
        Ok(LaneTurn { policy, length: parse_duration(&time)? })
    }
}

impl fmt::Display for LaneTurn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.policy, format_duration(self.length).replace(' ', ""))
    }
}

/// The policy or preset of that name, and its number, by which the kernel program knows it.
/// `policies` is as for [`variant`].
///
/// # Errors
/// `BadInput`, with what there is.
pub fn known_variant(
    policies: &'static [PolicyInfo],
    name: &str,
) -> Result<(u32, &'static PolicyInfo)> {
    variant(policies, name).ok_or_else(|| {
        let known: Vec<&str> = policies.iter().chain(PRESETS).map(|info| info.name).collect();
        Error::new(Kind::BadInput, format!("use the policy '{name}'"), "there is no such policy")
            .remedy(meant(name, &known, "choose one of"))
    })
}

/// Refuses a weight that no lane can have.
///
/// # Errors
/// `BadInput`, with what it can have.
pub fn check_weight(weight: u32) -> Result<()> {
    if WEIGHTS.contains(&weight) {
        return Ok(());
    }
    let (least, most) = (WEIGHTS.start(), WEIGHTS.end());
    Err(Error::new(Kind::BadInput, format!("give a lane the weight {weight}"), "out of range")
        .remedy(format!("choose {least} to {most}; 100 is what a cgroup has by default")))
}

/// A cycle of turns as the kernel program takes it. `policies` is as for [`variant`].
///
/// # Errors
/// `BadInput` for no turn, too many, too short or too long ones, and unknown policies, with
/// what can be.
pub fn cycle_args(policies: &'static [PolicyInfo], turns: &[LaneTurn]) -> Result<CycleArgs> {
    let attempt = || format!("take {} turns", turns.len());
    if !(1..=TURNS_MAX).contains(&turns.len()) {
        return Err(Error::new(
            Kind::BadInput,
            attempt(),
            format!("a cycle by lanes has 1 to {TURNS_MAX}"),
        )
        .remedy("give fewer applications a turn, or use --mechanism swap"));
    }
    let mut args = CycleArgs { turns: turns.len() as u32, ..Default::default() };
    for (turn, arg) in turns.iter().zip(&mut args.turn) {
        let refused = |remedy: &str| {
            let cause = format!("the one of '{}' would last {:?}", turn.policy, turn.length);
            Err(Error::new(Kind::BadInput, attempt(), cause).remedy(remedy))
        };
        if turn.length < LEAST_TURN {
            return refused(&format!("the shortest is {LEAST_TURN:?}: raise the base timeslice"));
        }
        if turn.length > LONGEST_TURN {
            return refused("the longest is a day: lower the base timeslice");
        }
        let length_ns = turn.length.as_nanos() as u64;
        let (variant, _) = known_variant(policies, &turn.policy)?;
        *arg = TurnArgs { length_ns, variant, ..Default::default() };
    }
    Ok(args)
}

/// `name=value` for an option of a policy, not yet checked against one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    name: String,
    value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Setting {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, value) = parse_pair(text, "an option", "slice=5ms")?;
        Ok(Self { name, value })
    }
}

impl PolicyInfo {
    /// Reads settings as options of this policy. A unit at the end of an option's name may be
    /// left out, and one of time may be given as 5ms.
    ///
    /// # Errors
    /// As of [`PolicyInfo::read_option`].
    pub fn settings(&self, given: &[Setting]) -> Result<BTreeMap<String, u64>> {
        let option = |setting: &Setting| {
            let (number, value) = self.read_option(&setting.name, &setting.value)?;
            Ok((self.options[number].name.to_owned(), value))
        };
        given.iter().map(option).collect()
    }

    /// Options as users write them, in the policy's order: units at the end of names are left
    /// out, and times have the greatest unit of which they are whole numbers.
    pub fn written(&self, options: &BTreeMap<String, u64>) -> Vec<String> {
        let is_set = |option: &OptionInfo| Some((*option, *options.get(option.name)?));
        let write = |(option, value): (OptionInfo, u64)| {
            let (name, unit) = (option.name, option.unit);
            let bare = name.strip_suffix(unit).and_then(|name| name.strip_suffix('_'));
            format!("{}={}", bare.unwrap_or(name), written(unit, value))
        };
        self.options.iter().filter_map(is_set).map(write).collect()
    }
}

fn written(unit: &str, value: u64) -> String {
    const TIMES: [(u64, &str); 4] =
        [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let whole = TIMES.iter().find(|(ns, _)| unit == "ns" && value > 0 && value.is_multiple_of(*ns));
    whole.map_or_else(|| value.to_string(), |(ns, time)| format!("{}{time}", value / ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::POLICIES;

    fn turn(policy: &str, us: u64) -> LaneTurn {
        LaneTurn { policy: policy.to_owned(), length: Duration::from_micros(us) }
    }

    #[test]
    fn what_cannot_be_a_cycle_is_refused_with_what_can() {
        const DAY_US: u64 = 24 * 60 * 60 * 1_000_000;
        let many = vec![turn("fifo", 1000); TURNS_MAX + 1];
        for (bad, said) in [
            (&[][..], "1 to 16"),
            (&many, "1 to 16"),
            (&[turn("fifo", 1000), turn("lavd", 1000)], "fifo, vtime"),
            (&[turn("fifo", 1000), turn("vtime", 99)], "100µs"),
            (&[turn("fifo", 1000), turn("vtime", DAY_US + 1)], "a day"),
            (&[turn("fifo", 1000), turn("vtime", u64::MAX)], "a day"),
        ] {
            let error = cycle_args(POLICIES, bad).unwrap_err();
            assert_eq!(error.kind, Kind::BadInput);
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    #[test]
    fn a_cycle_has_its_turns_in_their_order_and_no_other() {
        let longest = [turn("fifo", 100), turn("vtime", 24 * 60 * 60 * 1_000_000)];
        cycle_args(POLICIES, &longest).unwrap();
        let args = cycle_args(POLICIES, &[turn("fifo", 1000), turn("vtime", 3000)]).unwrap();
        let given = args.turn.map(|turn| (turn.variant, turn.length_ns));
        assert_eq!(args.turns, 2);
        assert_eq!(given[..3], [(0, 1_000_000), (1, 3_000_000), (0, 0)]);
    }

    fn read(text: &str) -> Result<BTreeMap<String, u64>> {
        known_variant(POLICIES, "fifo")?.1.settings(&[text.parse()?])
    }

    #[test]
    fn what_is_written_is_read_as_the_same() {
        let (_, ioprio) = known_variant(POLICIES, "ioprio").unwrap();
        for (given, written) in [
            (&["prio_slice=1500us", "slice_ns=1000000000"][..], "slice=1s prio_slice=1500us"),
            (&["average=0", "slice=20000001"], "slice=20000001ns average=0"),
            (&["no_starvation=1", "threshold=5"], "threshold=5 no_starvation=1"),
        ] {
            let read = |words: &[&str]| {
                let settings: Vec<Setting> = words.iter().map(|w| w.parse().unwrap()).collect();
                ioprio.settings(&settings).unwrap()
            };
            let options = read(given);
            let words = ioprio.written(&options);
            assert_eq!(words.join(" "), written);
            assert_eq!(read(&words.iter().map(String::as_str).collect::<Vec<_>>()), options);
        }
    }

    #[test]
    fn a_time_is_read_with_its_unit_and_without() {
        for text in ["slice=5ms", "slice_ns=5000000", "slice=5000000"] {
            assert_eq!(read(text).unwrap(), [("slice_ns".to_owned(), 5_000_000)].into(), "{text}");
        }
    }

    #[test]
    fn what_is_no_setting_is_refused_with_what_there_is() {
        assert!("slice".parse::<Setting>().is_err());
        assert!(read("quantum=1").unwrap_err().to_string().contains("slice_ns"));
        assert!(read("slice=soon").unwrap_err().to_string().contains("no number"));
        assert!(read("slice=").unwrap_err().to_string().contains("no number"));
    }
}
