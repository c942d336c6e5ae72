//! Runs in the simulator: the policies' own tests, level 1, planted faults, and
//! what every run promises.

mod accounts;
mod behaviour;
mod cgroups;
mod every_policy;
mod fair;
mod fair_beside;
mod fair_cgroups;
mod fair_deadlines;
mod faults;
mod files;
mod fuzz;
mod hotplug;
mod lanes;
mod level1;
mod limits;
mod machine;
mod marks;
mod model;
mod mutants;
mod planted;
mod policy_mutants;
mod queueing;
mod record;
mod reuse;
mod runs;
mod services;
mod shares;
mod teams;
mod turns;
mod user_half;
mod waits;

mod policies {
    include!(concat!(env!("SIM_OUT"), "/policy_tests.rs"));
}

mod page {
    include!(concat!(env!("SIM_OUT"), "/page_tests.rs"));
}
