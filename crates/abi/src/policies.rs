//! The policies, as `policies/policies.def` and their `options.h` declare them, and their
//! presets, as `policies/presets.def` does.

use metasched_base::{Error, Kind, Result, meant, parse_duration};

use crate::{LANE_COUNTERS_MAX, LANE_OPTIONS_MAX, PRESETS_FIRST};

/// One policy of ours, or a preset of one: the same with other defaults, under a name of its own.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct PolicyInfo {
    /// Its name, folder and file.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// The policy that it is a preset of; `None` for a policy.
    pub preset_of: Option<&'static str>,
    /// What can be set, for each lane of its own.
    pub options: &'static [OptionInfo],
    /// What it counts, for each lane of its own.
    pub counters: &'static [CounterInfo],
}

/// One option of a policy. Its place among the policy's is its number.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct OptionInfo {
    /// Its name; the unit stands last in it.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: &'static str,
    /// The value unless one is set. It may lie outside the range: then the policy chooses.
    pub default: u64,
    /// The least value that makes sense.
    pub least: u64,
    /// The greatest value that makes sense.
    pub most: u64,
    /// Its effect, its cost and when to change it.
    pub help: &'static str,
}

impl OptionInfo {
    /// Whether it can have that value.
    pub fn takes(&self, value: u64) -> bool {
        value == self.default || (self.least..=self.most).contains(&value)
    }

    /// Whether users call it that: a unit at the end of its name may be left out.
    fn is_called(&self, name: &str) -> bool {
        self.name == name || self.name == format!("{name}_{}", self.unit)
    }

    /// What it can have, in words.
    pub fn values(&self) -> String {
        let OptionInfo { unit, default, least, most, .. } = self;
        let range = format!("{least} to {most} {unit}");
        if (least..=most).contains(&default) { range } else { format!("{range}, or {default}") }
    }
}

impl PolicyInfo {
    /// The number of an option, which may have that value.
    ///
    /// # Errors
    /// `BadInput` where there is no such option, or that is no value of it, with what there is.
    pub fn option(&self, name: &str, value: u64) -> Result<usize> {
        let number = self.find(name, |option| option.name == name)?;
        let option = &self.options[number];
        if option.takes(value) {
            return Ok(number);
        }
        Err(self
            .wrong(name, &format!("{value} is out of range"))
            .remedy(format!("choose {}", option.values())))
    }

    /// The number of an option and its value, as users write them: a unit at the end of the name
    /// may be left out, and a time be given as 5ms.
    ///
    /// # Errors
    /// As of [`PolicyInfo::option`].
    pub fn read_option(&self, name: &str, value: &str) -> Result<(usize, u64)> {
        let option = self.option_named(name)?;
        let time = || parse_duration(value).ok()?.as_nanos().try_into().ok();
        let read = value.parse().ok().or_else(|| if option.unit == "ns" { time() } else { None });
        let Some(read) = read else {
            return Err(self
                .wrong(name, &format!("'{value}' is no number"))
                .remedy(format!("write {}, or a time such as 5ms", option.values())));
        };
        Ok((self.option(option.name, read)?, read))
    }

    /// The option of that name; a unit at its end may be left out.
    ///
    /// # Errors
    /// `BadInput` where there is none, with what there is.
    pub fn option_named(&self, name: &str) -> Result<&'static OptionInfo> {
        let is = |option: &OptionInfo| option.is_called(name);
        Ok(&self.options[self.find(name, is)?])
    }

    fn find(&self, name: &str, is: impl FnMut(&OptionInfo) -> bool) -> Result<usize> {
        self.options.iter().position(is).ok_or_else(|| {
            let known: Vec<&str> = self.options.iter().map(|option| option.name).collect();
            self.wrong(name, "it has no such option").remedy(meant(name, &known, "it has"))
        })
    }

    fn wrong(&self, name: &str, cause: &str) -> Error {
        Error::new(Kind::BadInput, format!("set '{name}' of the policy '{}'", self.name), cause)
    }
}

/// One counter of a policy.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct CounterInfo {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub description: &'static str,
}

/// Every policy; its number is its place.
pub const POLICIES: &[PolicyInfo] = include!(concat!(env!("OUT_DIR"), "/policies/table.rs"));

/// The same, and after those one that does not dispatch, for tests.
pub const FAULTY_POLICIES: &[PolicyInfo] = include!(concat!(env!("OUT_DIR"), "/faulty/table.rs"));

/// Every preset of those policies.
pub const PRESETS: &[PolicyInfo] = include!(concat!(env!("OUT_DIR"), "/policies/presets.rs"));

/// The policy or preset of that name, and its number, by which the kernel program knows it.
/// `policies` is [`POLICIES`] or [`FAULTY_POLICIES`].
pub fn variant(policies: &'static [PolicyInfo], name: &str) -> Option<(u32, &'static PolicyInfo)> {
    let (policies, presets) = (policies.iter().zip(0..), PRESETS.iter().zip(PRESETS_FIRST..));
    policies.chain(presets).find(|(info, _)| info.name == name).map(|(info, number)| (number, info))
}

/// The policy or preset that has this number.
pub fn by_number(policies: &'static [PolicyInfo], number: u32) -> Option<&'static PolicyInfo> {
    match number.checked_sub(PRESETS_FIRST) {
        Some(preset) => PRESETS.get(preset as usize),
        None => policies.get(number as usize),
    }
}

/// The names of [`POLICIES`].
pub const POLICY_NAMES: &[&str] = &{
    let mut names = [""; POLICIES.len()];
    let mut number = 0;
    while number < names.len() {
        names[number] = POLICIES[number].name;
        number += 1;
    }
    names
};

const _: () = {
    let mut number = 0;
    while number < FAULTY_POLICIES.len() {
        let policy = &FAULTY_POLICIES[number];
        assert!(policy.options.len() <= LANE_OPTIONS_MAX, "a lane has no room for all options");
        assert!(policy.counters.len() <= LANE_COUNTERS_MAX, "or for all counters");
        number += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_policies_are_those_of_the_main_job() {
        assert_eq!(POLICY_NAMES[..2], ["fifo", "vtime"]);
    }

    #[test]
    fn a_preset_has_its_policys_options_and_a_name_that_nobody_else_has() {
        for (at, preset) in PRESETS.iter().enumerate() {
            let of = preset.preset_of.expect("a preset is of a policy");
            let (_, policy) = variant(POLICIES, of).expect("which there is");
            let names = |info: &PolicyInfo| -> Vec<_> {
                info.options.iter().map(|option| option.name).collect()
            };
            assert_eq!(names(preset), names(policy), "{}", preset.name);
            let (number, found) = variant(FAULTY_POLICIES, preset.name).unwrap();
            assert_eq!((number, found.name), (PRESETS_FIRST + at as u32, preset.name));
            assert_eq!(by_number(POLICIES, number).unwrap().name, preset.name);
        }
        assert!(by_number(POLICIES, PRESETS_FIRST + PRESETS.len() as u32).is_none());
        assert!(by_number(POLICIES, PRESETS_FIRST - 1).is_none());
    }

    #[test]
    fn those_for_tests_come_after_all_others() {
        let names: Vec<&str> = FAULTY_POLICIES.iter().map(|policy| policy.name).collect();
        let (others, for_tests) = names.split_at(POLICY_NAMES.len());
        assert_eq!(others, POLICY_NAMES);
        assert_eq!(for_tests.first(), Some(&"lazy"));
    }

    #[test]
    fn an_option_is_found_with_and_without_its_unit() {
        let (_, vtime) = variant(POLICIES, "vtime").unwrap();
        for (name, value) in [("slice_ns", "5000000"), ("slice", "5ms"), ("slice", "5000000")] {
            assert_eq!(vtime.read_option(name, value).unwrap(), (0, 5_000_000));
        }
        assert_eq!(vtime.option("slice_ns", 5_000_000).unwrap(), 0);
    }

    #[test]
    fn what_no_option_is_or_can_be_is_told_with_what_there_is() {
        let (_, vtime) = variant(POLICIES, "vtime").unwrap();
        for (name, value, said) in [
            ("slise_ns", "5ms", "did you mean 'slice_ns'?"),
            ("quantum", "5ms", "it has slice_ns"),
            ("slice", "1", "100000 to 1000000000 ns"),
            ("slice", "soon", "'soon' is no number"),
        ] {
            let e = vtime.read_option(name, value).unwrap_err();
            assert_eq!(e.kind, Kind::BadInput);
            assert!(e.to_string().contains(said), "{e}");
        }
        assert!(vtime.option("slice", 5_000_000).is_err(), "only users leave units out");
    }

    #[test]
    fn every_policy_says_what_its_options_and_counters_are() {
        for policy in POLICIES.iter().chain(PRESETS) {
            assert!(!policy.summary.is_empty(), "{}: summary", policy.name);
            assert!(!policy.counters.is_empty(), "{}: counters", policy.name);
            for option in policy.options {
                assert!(option.help.len() > 20, "{}: help of {}", policy.name, option.name);
                let chooses = option.help.contains(&format!("; {}: ", option.default));
                assert!(
                    (option.least..=option.most).contains(&option.default) || chooses,
                    "{}: the default of {} lies outside its range",
                    policy.name,
                    option.name
                );
            }
            for counter in policy.counters {
                assert!(counter.description.len() > 10, "{}: {}", policy.name, counter.name);
            }
        }
    }
}
