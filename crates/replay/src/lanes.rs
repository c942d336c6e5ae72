//! The lanes of a scenario, in the kernel.

use metasched_base::{Error, Kind, Result};
use metasched_control::LaneProgram;
use metasched_loader::{LaneSpec, variant};
use metasched_scenario::file;

use crate::replay::Replay;

impl Replay<'_> {
    /// Gives the scenario's cgroups the lanes that it says, of a program of ours that is in
    /// force.
    ///
    /// # Errors
    /// When the program refuses one, or has left the kernel.
    pub fn give_lanes(
        &self,
        lanes: &[file::LaneSpec],
        program: &mut dyn LaneProgram,
    ) -> Result<()> {
        for lane in lanes {
            let cgroup = self.cgroup(&lane.cgroup).ok_or_else(|| {
                let attempt = format!("give '{}' a lane", lane.cgroup);
                Error::new(Kind::Failed, attempt, "the replay has no such cgroup")
            })?;
            program.set_app(lane.app, &spec(lane), lane.weight_in_force())?;
            program.assign(cgroup.id()?, lane.app)?;
        }
        Ok(())
    }

    /// Takes them away again, so that the cgroups can go.
    ///
    /// # Errors
    /// As [`Replay::give_lanes`].
    pub fn take_lanes(
        &self,
        lanes: &[file::LaneSpec],
        program: &mut dyn LaneProgram,
    ) -> Result<()> {
        for lane in lanes {
            if let Some(cgroup) = self.cgroup(&lane.cgroup) {
                program.unassign(cgroup.id()?)?;
            }
            program.drop_app(lane.app)?;
        }
        Ok(())
    }
}

/// A lane as the loader takes it.
fn spec(lane: &file::LaneSpec) -> LaneSpec {
    let options = variant(&lane.policy).ok().map(|info| info.options);
    // Both read the same declarations.
    let named = |(at, value): &(usize, u64)| Some((options?.get(*at)?.name.to_owned(), *value));
    LaneSpec {
        policy: lane.policy.clone(),
        weight: lane.weight,
        options: lane.settings.iter().filter_map(named).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replayable::testing;

    #[test]
    fn a_lane_has_the_policy_the_weight_and_the_options_that_the_file_says() {
        let file = testing::file(
            "[cgroups.a]\nweight = 300\nlane = { policy = \"vtime\", options = { slice = \"5ms\" } }\n\
             [[task]]\nname = \"t\"\ncgroup = \"a\"\nsteps = [\"run 1ms\"]",
        );
        let lane = &file.lanes[0];
        let spec = spec(lane);
        assert_eq!(
            (spec.policy.as_str(), spec.weight, lane.weight_in_force()),
            ("vtime", None, 300)
        );
        assert_eq!(spec.options, [("slice_ns".to_owned(), 5_000_000)].into());
        spec.check().unwrap();
    }
}
