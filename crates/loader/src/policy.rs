//! The policies, as `policies/policies.def` and their `options.h` declare them.

use metasched_base::{Error, Kind, Result};

/// One policy of ours.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct PolicyInfo {
    /// Its name, folder and file.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    /// What can be set, for each lane of its own.
    pub options: &'static [OptionInfo],
    /// What it counts, for each lane of its own.
    pub counters: &'static [CounterInfo],
}

/// One option of a policy.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct OptionInfo {
    /// Its name; the unit stands last in it.
    pub name: &'static str,
    /// The unit of its value.
    pub unit: &'static str,
    /// The value unless one is set.
    pub default: u64,
    /// The least value that makes sense.
    pub least: u64,
    /// The greatest value that makes sense.
    pub most: u64,
    /// Its effect, its cost and when to change it.
    pub help: &'static str,
}

/// One counter of a policy.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct CounterInfo {
    /// Its name.
    pub name: &'static str,
    /// What it counts.
    pub description: &'static str,
}

/// Every policy, in the order of `policies.def`.
pub fn policies() -> &'static [PolicyInfo] {
    const ALL: &[PolicyInfo] = include!(concat!(env!("OUT_DIR"), "/policies.rs"));
    ALL
}

/// The number by which the kernel program knows a policy.
pub(crate) fn number_of(name: &str) -> Result<u32> {
    match policies().iter().position(|p| p.name == name) {
        Some(index) => Ok(index as u32),
        None => {
            let known: Vec<&str> = policies().iter().map(|p| p.name).collect();
            Err(Error::new(
                Kind::BadInput,
                format!("use the policy '{name}'"),
                "there is no such policy",
            )
            .remedy(format!("choose one of {}", known.join(", "))))
        }
    }
}

/// The policy that the kernel program knows by this number.
pub(crate) fn by_number(number: u32) -> Option<&'static PolicyInfo> {
    policies().get(number as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_policies_are_those_of_the_main_job() {
        let names: Vec<&str> = policies().iter().map(|p| p.name).collect();
        assert_eq!(&names[..2], ["fifo", "vtime"]);
        assert_eq!(number_of("vtime").unwrap(), 1);
    }

    #[test]
    fn every_policy_says_what_its_options_and_counters_are() {
        for policy in policies() {
            assert!(!policy.summary.is_empty(), "{}: summary", policy.name);
            assert!(!policy.counters.is_empty(), "{}: counters", policy.name);
            for option in policy.options {
                assert!(option.help.len() > 20, "{}: help of {}", policy.name, option.name);
                assert!(
                    option.least <= option.default && option.default <= option.most,
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

    #[test]
    fn an_unknown_policy_is_refused_with_those_that_there_are() {
        let error = number_of("lavd").unwrap_err();
        assert_eq!(error.kind, Kind::BadInput);
        assert!(error.to_string().contains("fifo, vtime"), "{error}");
    }
}
