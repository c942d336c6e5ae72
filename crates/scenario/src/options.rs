//! What can be set of each policy, as scenarios say it.

use metasched_abi::{FAULTY_POLICIES, OptionInfo, variant};
use metasched_base::{Error, Kind, Result};

/// The options of a policy, or of a preset, in the order of their numbers.
pub fn options_of(policy: &str) -> &'static [OptionInfo] {
    variant(FAULTY_POLICIES, policy).map_or(&[], |(_, info)| info.options)
}

/// An option of a policy, by its number, and its value: see `PolicyInfo::read_option`.
///
/// # Errors
/// `BadInput`, when the policy has no such option, or it cannot have that value.
pub fn option(policy: &str, name: &str, value: &str) -> Result<(usize, u64)> {
    let found = variant(FAULTY_POLICIES, policy);
    let (_, policy) = found.ok_or_else(|| {
        Error::new(Kind::BadInput, format!("set '{name}' of '{policy}'"), "there is no such policy")
    })?;
    policy.read_option(name, value)
}
