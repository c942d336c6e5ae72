//! What can be set of each policy: read from the same declarations as its code.

use crate::image::{Image, metasched};
use metasched_base::{Error, Kind, Result, nearest, parse_duration};
use std::ffi::{CStr, c_char};
use std::sync::LazyLock;

/// `struct sim_option` of `seam/options.c`.
#[repr(C)]
struct RawOption {
    policy: *const c_char,
    name: *const c_char,
    unit: *const c_char,
    default: u64,
    least: u64,
    most: u64,
}

/// An option of a policy, as its `options.h` declares it.
#[derive(Clone, Debug)]
pub struct PolicyOption {
    /// Its policy.
    pub policy: String,
    /// Its name.
    pub name: String,
    /// What it is counted in.
    pub unit: String,
    /// Its place among those of its policy.
    pub number: usize,
    /// What a lane has unless told otherwise.
    pub default: u64,
    /// The least value.
    pub least: u64,
    /// The greatest.
    pub most: u64,
}

/// Every option of every policy, in the order of `policies.def` and of their numbers.
///
/// # Panics
/// When the image of level 1 cannot be opened.
pub fn all_options() -> &'static [PolicyOption] {
    static ALL: LazyLock<Vec<PolicyOption>> =
        LazyLock::new(|| read_options().unwrap_or_else(|e| panic!("{e}")));
    &ALL
}

fn read_options() -> Result<Vec<PolicyOption>> {
    let image = Image::open(metasched())?;
    let mut at = image.required("sim_options")?.cast_const().cast::<RawOption>();
    let mut options: Vec<PolicyOption> = Vec::new();
    let text = |at| unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned();
    loop {
        let raw = unsafe { &*at };
        if raw.policy.is_null() {
            return Ok(options);
        }
        let policy = text(raw.policy);
        let number = options.iter().filter(|before| before.policy == policy).count();
        options.push(PolicyOption {
            policy,
            name: text(raw.name),
            unit: text(raw.unit),
            number,
            default: raw.default,
            least: raw.least,
            most: raw.most,
        });
        at = unsafe { at.add(1) };
    }
}

/// The options of a policy, in the order of their numbers.
pub fn options_of(policy: &str) -> impl Iterator<Item = &'static PolicyOption> {
    all_options().iter().filter(move |option| option.policy == policy)
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
    let is = |option: &&PolicyOption| {
        option.name == name || option.name == format!("{name}_{}", option.unit)
    };
    let Some(option) = options_of(policy).find(is) else {
        let names: Vec<&str> = options_of(policy).map(|option| option.name.as_str()).collect();
        let said = wrong("it has no such option".into());
        return Err(match nearest(name, names.iter().copied()) {
            Some(near) => said.remedy(format!("did you mean '{near}'?")),
            None => said.remedy(format!("it has {}", names.join(", "))),
        });
    };
    let PolicyOption { unit, number, least, most, .. } = option;
    let time = || parse_duration(value).ok()?.as_nanos().try_into().ok();
    let read = value.parse().ok().or_else(|| if unit == "ns" { time() } else { None });
    match read {
        Some(read) if (*least..=*most).contains(&read) => Ok((*number, read)),
        Some(read) => Err(wrong(format!("{read} is out of range"))
            .remedy(format!("it may be {least} to {most} {unit}"))),
        None => Err(wrong("it is no number".into())
            .remedy(format!("write {least} to {most} {unit}, or a time such as 5ms"))),
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
