//! A scheduler in force for as long as some work takes.

use std::path::Path;

use metasched_base::Result;
use metasched_host::sched_ext::SchedExt;

use crate::candidate::name_in_force;
use crate::program::LaneProgram;
use crate::switcher::{Switcher, SwitcherOptions};
use crate::table::{CandidateEnv, resolve_in};

/// Has work done that changes the scheduler, and puts back what was in force before, whatever
/// comes of the work.
///
/// # Errors
/// What [`Switcher::new`], the work, and [`Switcher::restore`] fail with. Where the last two both
/// fail, the error is the work's and tells of the other too.
pub fn put_back_after<T>(
    options: SwitcherOptions,
    work: impl FnOnce(&mut Switcher) -> Result<T>,
) -> Result<T> {
    let mut switcher = Switcher::new(options)?;
    let worked = work(&mut switcher);
    match (worked, switcher.restore()) {
        (Err(error), Err(second)) => Err(error.and(&second)),
        (worked, restored) => worked.and_then(|value| restored.map(|()| value)),
    }
}

/// A scheduler that is in force while something is measured: put there by us, or found there.
pub struct InForce<'a> {
    /// As the user named it, or as the kernel names the one that was found.
    pub name: String,
    switcher: Option<&'a mut Switcher>,
}

impl InForce<'_> {
    /// Our own program, if that is what we put in force.
    pub fn program(&mut self) -> Option<&mut dyn LaneProgram> {
        self.switcher.as_mut()?.program()
    }
}

/// Has work done while a scheduler is in force, by its name in `metasched list`; then what was in
/// force before is so again. None leaves what there is. `by` is the command that does it, for
/// those who find its record.
///
/// # Errors
/// When there is none of that name, it cannot be loaded, or what was there before does not come
/// back. When it did not stay in force: that explains what else may have gone wrong.
pub fn under<T>(
    wanted: Option<&str>,
    by: &str,
    work: impl FnOnce(&mut InForce) -> Result<T>,
) -> Result<T> {
    let Some(wanted) = wanted else {
        let name = name_in_force(&SchedExt::at(Path::new("/")).status()?);
        return work(&mut InForce { name, switcher: None });
    };
    let candidate = resolve_in(&CandidateEnv::system(), wanted)?;
    put_back_after(SwitcherOptions::new(by), |switcher| {
        switcher.switch_to(&candidate)?;
        let name = wanted.to_owned();
        let worked = work(&mut InForce { name, switcher: Some(&mut *switcher) });
        switcher.check_alive()?;
        worked
    })
}

#[cfg(test)]
mod tests {
    use metasched_base::{Error, Kind};

    use super::*;
    use crate::fake::FakeMachine;

    #[test]
    fn what_was_found_is_put_back_after_work_that_failed() {
        let machine = FakeMachine::new();
        let candidate = machine.good("scx_good");
        let failed: Result<()> = put_back_after(machine.options(), |switcher| {
            switcher.switch_to(&candidate)?;
            assert_eq!(machine.state(), "enabled");
            Err(Error::new(Kind::Failed, "work", "it does not"))
        });
        assert_eq!(failed.unwrap_err().to_string(), "cannot work: it does not");
        assert_eq!(machine.state(), "disabled");
    }
}
