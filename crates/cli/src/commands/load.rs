//! What a load of our program holds: the option that the commands that load it share.

use metasched_base::Result;
use metasched_control::SwitcherOptions;
use metasched_loader::LaneSpec;

/// Which policies are loaded.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Load {
    /// Load these policies of ours only, separated by commas, and the one that is wanted first.
    /// Loading is shorter; no lane can have another policy until the next load [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policies: Vec<String>,
}

impl Load {
    /// Options for the command that is called so.
    ///
    /// # Errors
    /// `BadInput` for a policy that there is not.
    pub fn options(&self, command: &str) -> Result<SwitcherOptions> {
        self.check()?;
        Ok(SwitcherOptions::new(command).policies(&self.policies))
    }

    /// Refuses a policy that there is not.
    ///
    /// # Errors
    /// `BadInput`, with those that there are.
    pub fn check(&self) -> Result<()> {
        self.policies.iter().try_for_each(|name| LaneSpec::of(name).check())
    }

    /// The same for another process.
    pub fn words(&self) -> Vec<String> {
        match self.policies.as_slice() {
            [] => Vec::new(),
            named => vec!["--policies".to_owned(), named.join(",")],
        }
    }
}
