//! Runs in the simulator: the policies' own tests, level 1, planted faults, and
//! what every run promises.

mod cgroups;
mod fair;
mod faults;
mod hotplug;
mod behaviour;
mod files;
mod lanes;
mod level1;
mod limits;
mod machine;
mod model;
mod record;
mod runs;
mod turns;
mod waits;

mod policies {
    include!(concat!(env!("OUT_DIR"), "/policy_tests.rs"));
}
