//! The policies that the kernel program holds.

use metasched_abi::{FAULTY_POLICIES, POLICIES, PolicyInfo};
use metasched_base::{Error, Kind, Result};

/// Every policy, in the order of `policies.def`.
pub fn policies() -> &'static [PolicyInfo] {
    if cfg!(lazy) { FAULTY_POLICIES } else { POLICIES }
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
    fn an_unknown_policy_is_refused_with_those_that_there_are() {
        let error = number_of("lavd").unwrap_err();
        assert_eq!(error.kind, Kind::BadInput);
        assert!(error.to_string().contains("fifo, vtime"), "{error}");
    }
}
