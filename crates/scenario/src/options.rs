//! What can be set of each policy, as scenarios say it.

use metasched_abi::{FAULTY_POLICIES, OptionInfo, variant};
use metasched_base::{Error, Kind, Result, nearest, parse_duration};

/// The options of a policy, or of a preset, in the order of their numbers.
pub fn options_of(policy: &str) -> &'static [OptionInfo] {
    variant(FAULTY_POLICIES, policy).map_or(&[], |(_, info)| info.options)
}

/// An option of a policy, by its number, and its value. A unit at the end of its name may be
/// left out, and a time be given as 5ms.
///
/// # Errors
/// `BadInput`, when the policy has no such option, or it cannot have that value.
pub fn option(policy: &str, name: &str, value: &str) -> Result<(usize, u64)> {
    let wrong = |cause: String| {
        Error::new(Kind::BadInput, format!("set '{name}={value}' of '{policy}'"), cause)
    };
    let options = options_of(policy);
    let is = |option: &OptionInfo| {
        option.name == name || option.name == format!("{name}_{}", option.unit)
    };
    let Some(number) = options.iter().position(is) else {
        let names: Vec<&str> = options.iter().map(|option| option.name).collect();
        let said = wrong("it has no such option".into());
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => said.remedy(format!("did you mean '{near}'?")),
            None => said.remedy(format!("it has {}", names.join(", "))),
        });
    };
    let wanted = &options[number];
    let time = || parse_duration(value).ok()?.as_nanos().try_into().ok();
    let read = value.parse().ok().or_else(|| if wanted.unit == "ns" { time() } else { None });
    match read {
        Some(read) if wanted.takes(read) => Ok((number, read)),
        Some(read) => Err(wrong(format!("{read} is out of range"))
            .remedy(format!("it may be {}", wanted.values()))),
        None => Err(wrong("it is no number".into())
            .remedy(format!("write {}, or a time such as 5ms", wanted.values()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_found_with_and_without_its_unit() {
        for (name, value) in [("slice_ns", "5000000"), ("slice", "5ms")] {
            assert_eq!(option("vtime", name, value).unwrap(), (0, 5_000_000));
        }
    }

    #[test]
    fn what_is_wrong_is_told_with_what_there_is() {
        for (name, value, said) in [
            ("slise_ns", "5ms", "did you mean 'slice_ns'?"),
            ("quantum", "5ms", "it has slice_ns"),
            ("slice", "1", "100000 to 1000000000 ns"),
            ("slice", "soon", "it is no number"),
        ] {
            let e = option("vtime", name, value).unwrap_err();
            assert!(e.to_string().contains(said), "{e}");
        }
    }
}
