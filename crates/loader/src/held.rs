//! The policies that a load holds: all, or those that were asked for.

use metasched_base::{Error, Kind, Result};

use crate::policy::{by_number, number_of, policies, policy_of};

/// A set of policies, one of which is the first lane's.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    first: String,
    bits: u64,
}

impl Held {
    /// The policy of the first lane and those others; all of them if none is given.
    pub(crate) fn of(first: &str, others: &[String]) -> Result<Self> {
        let mut bits = 1 << policy_of(first)?;
        for other in others {
            bits |= 1 << policy_of(other)?;
        }
        if others.is_empty() {
            bits = (0..policies().len()).fold(0, |bits, number| bits | 1 << number);
        }
        Ok(Self { first: first.to_owned(), bits })
    }

    /// As the kernel program has it: a bit for each.
    pub(crate) fn bits(&self) -> u64 {
        self.bits
    }

    /// What they are called.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let held = (0..u64::BITS).filter(|number| self.bits & 1 << number != 0);
        held.filter_map(by_number).map(|policy| policy.name)
    }

    /// The number by which the kernel program knows a policy or a preset, if it holds that policy.
    pub(crate) fn number_of(&self, name: &str, attempt: impl Fn() -> String) -> Result<u32> {
        if self.bits & 1 << policy_of(name)? != 0 {
            return number_of(name);
        }
        let names: Vec<&str> = self.names().collect();
        let cause =
            format!("the program was loaded without '{name}', only with {}", names.join(", "));
        Err(Error::new(Kind::BadInput, attempt(), cause).remedy(format!(
            "load it with that too: metasched stop; metasched start {} --policies {},{name}",
            self.first,
            names.join(",")
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_that_was_not_loaded_is_refused_with_how_to_load_it() {
        let held = Held::of("fifo", &["fifo".to_owned()]).unwrap();
        assert_eq!(held.bits(), 1);
        assert_eq!(held.number_of("fifo", String::new).unwrap(), 0);
        let e = held.number_of("vtime", || "switch to 'vtime'".to_owned()).unwrap_err();
        assert_eq!(
            e.to_string(),
            "cannot switch to 'vtime': the program was loaded without 'vtime', only with fifo; \
             load it with that too: metasched stop; metasched start fifo --policies fifo,vtime"
        );
    }

    #[test]
    fn a_preset_is_held_with_its_policy() {
        let held = Held::of("rr", &["rr".to_owned()]).unwrap();
        assert_eq!(held.names().collect::<Vec<_>>(), ["fifo"]);
        assert_eq!(held.number_of("rr", String::new).unwrap(), number_of("rr").unwrap());
        let e = held.number_of("simple", || "switch to 'simple'".to_owned()).unwrap_err();
        assert!(e.to_string().contains("--policies fifo,simple"), "{e}");
    }

    #[test]
    fn a_load_holds_all_policies_unless_some_are_named() {
        let all = Held::of("vtime", &[]).unwrap();
        assert_eq!(all.names().count(), policies().len());
        let some = Held::of("vtime", &["fifo".to_owned()]).unwrap();
        assert_eq!(some.names().collect::<Vec<_>>(), ["fifo", "vtime"]);
        assert_eq!(Held::of("vtime", &["lavd".to_owned()]).unwrap_err().kind, Kind::BadInput);
    }
}
