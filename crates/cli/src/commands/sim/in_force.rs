//! The scheduler that is in force while this machine is measured for the simulator.

use std::path::Path;

use metasched_base::Result;
use metasched_control::{CandidateEnv, EEVDF, LaneProgram, Switcher, SwitcherOptions, resolve_in};
use metasched_host::sched_ext::{SchedExt, State};

/// A scheduler in force: put there by us, and stopped again at the end, or found there.
pub struct InForce {
    /// As the user named it, or as the kernel names the one that was found.
    pub name: String,
    switcher: Option<Switcher>,
}

impl InForce {
    /// Puts a scheduler in force, by its name in `metasched list`; None leaves what there is.
    /// `by` is the command that does it, for those who find its record.
    ///
    /// # Errors
    /// When there is none of that name, or it cannot be loaded; what was in force before is then
    /// in force again.
    pub fn put(wanted: Option<&str>, by: &str) -> Result<Self> {
        let Some(wanted) = wanted else {
            return Ok(InForce { name: found()?, switcher: None });
        };
        let candidate = resolve_in(&CandidateEnv::system(), wanted)?;
        let mut switcher = Switcher::new(SwitcherOptions::new(by))?;
        switcher.switch_to(&candidate)?;
        Ok(InForce { name: wanted.to_owned(), switcher: Some(switcher) })
    }

    /// Our own program, if that is what was put in force.
    pub fn program(&mut self) -> Option<&mut dyn LaneProgram> {
        self.switcher.as_mut()?.program()
    }

    /// Ends it: what was in force before is so again.
    ///
    /// # Errors
    /// When it did not stay in force until now, or what was there before does not come back.
    pub fn give_back(self) -> Result<()> {
        let Some(mut switcher) = self.switcher else {
            return Ok(());
        };
        switcher.check_alive()?;
        switcher.restore()?;
        Ok(())
    }
}

/// The scheduler that is in force, as the kernel names it.
fn found() -> Result<String> {
    let status = SchedExt::at(Path::new("/")).status()?;
    let ours = if status.state == State::Enabled { status.ops } else { None };
    Ok(ours.unwrap_or_else(|| EEVDF.to_owned()))
}
