//! Runs in the simulator: the policies' own tests, level 1, planted faults, and
//! what every run promises.

mod faults;
mod fuzz;
mod lanes;
mod level1;
mod limits;
mod model;
mod mutants;
mod runs;
mod turns;
mod waits;

mod policies {
    include!(concat!(env!("OUT_DIR"), "/policy_tests.rs"));
}
