//! The policies that the kernel program holds, and their presets.

use std::collections::BTreeMap;

use metasched_abi::{PRESETS, PolicyInfo, Setting};
use metasched_base::Result;

use crate::object::object;

/// Every policy, in the order of `policies.def`.
pub fn policies() -> &'static [PolicyInfo] {
    object().policies
}

/// Every policy, and after them every preset of one, in the order of `presets.def`: all that a
/// lane may be asked to be.
pub fn variants() -> impl Iterator<Item = &'static PolicyInfo> + Clone {
    policies().iter().chain(PRESETS)
}

/// The policy or preset of that name.
///
/// # Errors
/// `BadInput`, with what there is.
pub fn variant(name: &str) -> Result<&'static PolicyInfo> {
    find(name).map(|(_, info)| info)
}

/// Reads settings as options of the policy or preset of that name.
///
/// # Errors
/// `BadInput`, with what there is.
pub fn settings(policy: &str, given: &[Setting]) -> Result<BTreeMap<String, u64>> {
    variant(policy)?.settings(given)
}

/// The number by which the kernel program knows a policy or a preset.
pub(crate) fn number_of(name: &str) -> Result<u32> {
    find(name).map(|(number, _)| number)
}

/// The number of that policy, or of the policy of that preset.
pub(crate) fn policy_of(name: &str) -> Result<u32> {
    let (number, info) = find(name)?;
    info.preset_of.map_or(Ok(number), number_of)
}

/// The policy or preset that the kernel program knows by this number.
pub(crate) fn by_number(number: u32) -> Option<&'static PolicyInfo> {
    metasched_abi::by_number(policies(), number)
}

fn find(name: &str) -> Result<(u32, &'static PolicyInfo)> {
    metasched_abi::known_variant(policies(), name)
}

#[cfg(test)]
mod tests {
    use metasched_base::Kind;

    use super::*;

    #[test]
    fn an_unknown_policy_is_refused_with_those_that_there_are() {
        let error = number_of("lavd").unwrap_err();
        assert_eq!(error.kind, Kind::BadInput);
        assert!(error.to_string().contains("fifo, vtime"), "{error}");
    }

    #[test]
    fn a_preset_is_known_by_its_name_and_stands_on_its_policy() {
        let info = variant("rr").unwrap();
        assert_eq!(info.preset_of, Some("fifo"));
        assert_eq!(policy_of("rr").unwrap(), number_of("fifo").unwrap());
        assert_eq!(by_number(number_of("rr").unwrap()).unwrap().name, "rr");
    }
}
