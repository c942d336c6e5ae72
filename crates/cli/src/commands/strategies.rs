//! Which strategies are searched: of `tune`, on a machine and in the simulator.

use metasched_experiment::Strategy;

/// Strategies to search.
#[derive(Clone, Debug, clap::Args)]
pub struct SearchedArgs {
    /// The strategies to search
    #[arg(
        long = "strategy",
        value_name = "NAME,...",
        value_delimiter = ',',
        default_value = "round-robin,delta,benefit,delta-benefit"
    )]
    pub strategies: Vec<Strategy>,
}
