//! How users name what is in force.

use metasched_host::sched_ext::Status;

use super::KeeperStatus;
use crate::candidate::EEVDF;
use crate::program::OPS_NAME;

/// What is in force, as users name it. The keeper's word counts only where the kernel's agrees.
pub fn scheduler_name(status: &Status, keeper: Option<&KeeperStatus>) -> String {
    match (&status.ops, keeper) {
        _ if status.is_default() => EEVDF.to_owned(),
        (Some(ops), Some(k)) if ops == OPS_NAME || !k.scheduler.command.is_empty() => {
            k.scheduler.name.clone()
        }
        (Some(ops), _) => ops.clone(),
        (None, _) => format!("unknown ({})", status.state),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidate::Candidate;
    use metasched_host::sched_ext::State;

    fn status(state: State, ops: Option<&str>) -> Status {
        Status {
            state,
            ops: ops.map(str::to_owned),
            enable_seq: 1,
            nr_rejected: 0,
            switch_all: true,
            hotplug_seq: 0,
            events: Default::default(),
        }
    }

    fn keeper(name: &str, command: &[&str]) -> KeeperStatus {
        let mut scheduler = Candidate::eevdf("");
        scheduler.name = name.to_owned();
        scheduler.command = command.iter().map(|word| (*word).to_owned()).collect();
        KeeperStatus {
            pid: 1,
            scheduler,
            since_unix_s: 0,
            earlier: None,
            lanes: Vec::new(),
            apps: Vec::new(),
            without_lane: Vec::new(),
            exempt: Default::default(),
            quarantines: Vec::new(),
            limits: Default::default(),
            policies: Vec::new(),
        }
    }

    #[test]
    fn the_kernels_word_goes_before_the_keepers() {
        let k = keeper("fifo", &[]);
        assert_eq!(scheduler_name(&status(State::Disabled, None), Some(&k)), "eevdf");
        assert_eq!(scheduler_name(&status(State::Enabled, Some("rusty_1")), Some(&k)), "rusty_1");
        assert_eq!(scheduler_name(&status(State::Enabled, Some("metasched")), Some(&k)), "fifo");
        assert_eq!(scheduler_name(&status(State::Enabled, Some("rusty_1")), None), "rusty_1");
    }
}
