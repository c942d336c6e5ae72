//! What the facts mean, and what to do about each: a pure function.

use metasched_host::privileges::TO_LOAD_SCHEDULERS;
use metasched_host::sched_ext::State;
use metasched_host::services::{Rival, RivalState};
use serde::Serialize;

use super::facts::Facts;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; schedulers can be loaded all the same.
    Note,
    /// No scheduler can be loaded on this machine until this is mended.
    Blocks,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub topic: &'static str,
    /// How serious it is.
    pub level: Level,
    /// What was found.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

impl Finding {
    fn new(topic: &'static str, level: Level, text: impl Into<String>) -> Self {
        Self { topic, level, text: text.into(), remedy: None }
    }

    fn ok(topic: &'static str, text: impl Into<String>) -> Self {
        Self::new(topic, Level::Ok, text)
    }

    fn note(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(topic, Level::Note, text) }
    }

    fn blocks(topic: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..Self::new(topic, Level::Blocks, text) }
    }
}

/// The oldest kernel that our program is built for.
const OLDEST: (u32, u32) = (7, 0);

/// Makes findings of the facts, in the order in which a user would mend them.
pub fn examine(facts: &Facts) -> Vec<Finding> {
    let mut findings = vec![
        kernel(facts),
        sched_ext(facts),
        config(facts),
        btf(facts),
        privileges(facts),
        cgroups(facts),
        isolation(facts),
    ];
    findings.extend(rivals(&facts.rivals));
    findings.push(kvm(facts));
    findings.push(testbed(facts));
    findings.extend(tools(facts));
    findings
}

fn kernel(facts: &Facts) -> Finding {
    let (major, minor) = OLDEST;
    if facts.release.is_at_least(major, minor) {
        Finding::ok("kernel", facts.release.to_string())
    } else {
        Finding::blocks(
            "kernel",
            format!("{} is older than {major}.{minor}", facts.release),
            format!("boot a kernel from {major}.{minor} on, or use `metasched vm`"),
        )
    }
}

fn sched_ext(facts: &Facts) -> Finding {
    match (&facts.sched_ext, &facts.ops) {
        (State::Absent, _) => Finding::blocks(
            "sched_ext",
            "the kernel has no /sys/kernel/sched_ext",
            "boot a kernel with CONFIG_SCHED_CLASS_EXT (6.12 brought it; Debian's have it from \
             7.0 on), or use `metasched vm`",
        ),
        (State::Disabled, _) => Finding::ok("sched_ext", "there, and no scheduler is loaded"),
        (state, ops) => Finding::note(
            "sched_ext",
            format!("'{}' is {state}", ops.as_deref().unwrap_or("a scheduler")),
            "stop it first, or let metasched take over and put it back: --take-over",
        ),
    }
}

fn config(facts: &Facts) -> Finding {
    let Some(config) = &facts.config else {
        return Finding::note(
            "config",
            "the kernel's configuration is nowhere to be found",
            format!(
                "external schedulers may fail to load with a bare \"Invalid argument\"; put it at \
                 /boot/config-{}",
                facts.release
            ),
        );
    };
    let path = config.path.display();
    if !config.missing.is_empty() {
        return Finding::blocks(
            "config",
            format!("{path} lacks {}", config.missing.join(", ")),
            "boot a kernel that has them, or use `metasched vm`",
        );
    }
    if !config.seen_by_libbpf {
        return Finding::note(
            "config",
            format!("it is at {path}, where libbpf does not look"),
            format!("for external schedulers: ln -s {path} /boot/config-{}", facts.release),
        );
    }
    Finding::ok("config", format!("{path} has what schedulers need"))
}

fn btf(facts: &Facts) -> Finding {
    // All of them would fill the screen; the first few tell.
    const SHOWN: usize = 3;
    match &facts.btf {
        None => Finding::blocks(
            "BTF",
            "the kernel exposes no /sys/kernel/btf/vmlinux",
            "boot a kernel with CONFIG_DEBUG_INFO_BTF, or use `metasched vm`",
        ),
        Some(Err(cause)) => Finding::blocks(
            "BTF",
            format!("it cannot be read: {cause}"),
            "boot another kernel, or use `metasched vm`",
        ),
        Some(Ok(verdict)) if verdict.sound => {
            Finding::ok("BTF", "sound: every kfunc of sched_ext that schedulers need is tagged")
        }
        Some(Ok(_)) if facts.sched_ext == State::Absent => {
            Finding::blocks("BTF", "it has no kfuncs of sched_ext", "see sched_ext above")
        }
        Some(Ok(verdict)) => {
            let shown = verdict.missing.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
            let more = verdict.missing.len().saturating_sub(SHOWN);
            Finding::blocks(
                "BTF",
                format!(
                    "unsound build: {shown}{} lost their kfunc tag",
                    if more > 0 { format!(" and {more} more") } else { String::new() }
                ),
                "boot another build of the kernel (`metasched vm --list-kernels` judges those that \
                 can be had), or use `metasched vm`",
            )
        }
    }
}

fn privileges(facts: &Facts) -> Finding {
    if facts.privileged {
        Finding::ok("privileges", "this user may load schedulers")
    } else {
        Finding::blocks(
            "privileges",
            format!("this user may not load schedulers: that takes {TO_LOAD_SCHEDULERS}"),
            "run it as root",
        )
    }
}

fn cgroups(facts: &Facts) -> Finding {
    match &facts.cgroup2_controllers {
        Err(error) => Finding::note(
            "cgroups",
            format!("{}; nothing can have a lane, or be measured part by part", error.cause),
            &error.remedy,
        ),
        Ok(controllers) if controllers.iter().any(|name| name == "cpu") => {
            Finding::ok("cgroups", "cgroup v2 with the cpu controller")
        }
        Ok(_) => Finding::note(
            "cgroups",
            "cgroup v2 is mounted, but the cpu controller is not in it",
            "moves between cgroups are not seen by schedulers: boot with cgroup_no_v1=cpu,cpuacct",
        ),
    }
}

fn isolation(facts: &Facts) -> Finding {
    if facts.isolated_cpus.is_empty() {
        Finding::ok("isolcpus", "no CPU is isolated")
    } else {
        Finding::blocks(
            "isolcpus",
            format!(
                "CPUs {} are isolated; the kernel then refuses schedulers",
                facts.isolated_cpus
            ),
            "boot without isolcpus= (of domains), or use `metasched vm`",
        )
    }
}

fn rivals(rivals: &[Rival]) -> Vec<Finding> {
    if rivals.is_empty() {
        return vec![Finding::ok("rivals", "nobody else loads schedulers")];
    }
    rivals
        .iter()
        .map(|rival| {
            let unit = rival.unit.as_deref().unwrap_or(&rival.name);
            let pid = rival.pid.map(|pid| format!(" (process {pid})")).unwrap_or_default();
            let stop = if rival.unit.is_some() {
                format!("systemctl stop {unit}")
            } else {
                format!("kill {}", rival.pid.unwrap_or_default())
            };
            match rival.state {
                RivalState::ManagerRunning => Finding::note(
                    "rivals",
                    format!(
                        "{}{pid} runs, and answers the end of a scheduler with another",
                        rival.name
                    ),
                    stop,
                ),
                RivalState::SchedulerRunning => Finding::note(
                    "rivals",
                    format!("the scheduler {}{pid} runs", rival.name),
                    format!("{stop}; or let metasched take over and put it back: --take-over"),
                ),
                RivalState::Enabled => Finding::note(
                    "rivals",
                    format!(
                        "{} is enabled, and will load a scheduler at the next boot",
                        rival.name
                    ),
                    format!("systemctl disable {}", rival.name),
                ),
            }
        })
        .collect()
}

fn kvm(facts: &Facts) -> Finding {
    match &facts.kvm {
        Ok(()) => Finding::ok("KVM", "it may be used; the testbed does if a guest boots with it"),
        Err(cause) => Finding::new(
            "KVM",
            Level::Note,
            format!("it cannot be used ({cause}); the testbed emulates, 3 to 20 times slower"),
        ),
    }
}

fn testbed(facts: &Facts) -> Finding {
    let missing = facts.testbed_tools_missing();
    match &facts.qemu {
        Some(version) if missing.is_empty() => Finding::ok("testbed", format!("QEMU {version}")),
        None if missing.is_empty() => Finding::note(
            "testbed",
            "qemu-system-x86_64 does not say its version",
            "run it by hand to see why",
        ),
        _ => Finding::note("testbed", format!("not on PATH: {}", missing.join(", ")), "make deps"),
    }
}

fn tools(facts: &Facts) -> Vec<Finding> {
    facts
        .tools_missing
        .iter()
        .filter(|tool| !tool.for_testbed)
        .map(|tool| {
            Finding::note(
                "tools",
                format!("{} is not on PATH; {} needs it", tool.command, tool.purpose),
                "make deps",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{ConfigFacts, TOOLS};
    use super::*;
    use metasched_host::btf::BtfVerdict;
    use metasched_host::kernel::Release;

    fn healthy() -> Facts {
        Facts {
            release: Release::parse("7.2.13+deb14-amd64").unwrap(),
            config: Some(ConfigFacts {
                path: "/boot/config-7.2.13+deb14-amd64".into(),
                missing: vec![],
                seen_by_libbpf: true,
            }),
            sched_ext: State::Disabled,
            ops: None,
            btf: Some(Ok(BtfVerdict { sound: true, missing: vec![] })),
            privileged: true,
            cgroup2_controllers: Ok(vec!["cpu".into()]),
            rivals: vec![],
            isolated_cpus: String::new(),
            kvm: Ok(()),
            qemu: Some("10.0.2".into()),
            tools_missing: vec![],
        }
    }

    fn blocking(facts: &Facts) -> Vec<&'static str> {
        let findings = examine(facts);
        findings.iter().filter(|f| f.level == Level::Blocks).map(|f| f.topic).collect()
    }

    #[test]
    fn a_healthy_machine_has_nothing_but_good_findings() {
        for finding in examine(&healthy()) {
            assert_eq!(finding.level, Level::Ok, "{finding:?}");
        }
    }

    #[test]
    fn everything_that_is_not_good_says_what_to_do() {
        let mut sick = healthy();
        sick.sched_ext = State::Enabled;
        sick.ops = Some("rusty".into());
        sick.config = None;
        sick.privileged = false;
        sick.cgroup2_controllers = Ok(vec![]);
        sick.isolated_cpus = "2-3".into();
        sick.tools_missing = TOOLS.iter().collect();
        let findings = examine(&sick);
        let bad: Vec<_> = findings.iter().filter(|f| f.level != Level::Ok).collect();
        assert!(bad.len() >= 9, "{bad:?}");
        for finding in bad {
            assert!(finding.remedy.as_deref().is_some_and(|r| !r.is_empty()), "{finding:?}");
        }
    }

    #[test]
    fn a_kernel_without_sched_ext_blocks() {
        let mut facts = healthy();
        facts.release = Release::parse("6.18.1").unwrap();
        facts.sched_ext = State::Absent;
        facts.btf = Some(Ok(BtfVerdict { sound: false, missing: vec!["scx_bpf_now".into()] }));
        assert_eq!(blocking(&facts), ["kernel", "sched_ext", "BTF"]);
    }

    #[test]
    fn an_unsound_build_is_told_by_the_kfuncs_that_lost_their_tag() {
        let missing = ["a", "b", "c", "d", "e"].map(|n| format!("scx_bpf_{n}")).to_vec();
        let mut facts = healthy();
        facts.btf = Some(Ok(BtfVerdict { sound: false, missing }));
        let finding = btf(&facts);
        assert_eq!(finding.level, Level::Blocks);
        assert!(
            finding.text.contains("scx_bpf_a, scx_bpf_b, scx_bpf_c and 2 more lost"),
            "{finding:?}"
        );
    }

    #[test]
    fn isolated_cpus_and_missing_privileges_block() {
        let mut facts = healthy();
        facts.isolated_cpus = "2-3".into();
        facts.privileged = false;
        assert_eq!(blocking(&facts), ["privileges", "isolcpus"]);
    }

    #[test]
    fn a_rival_daemon_is_a_note_with_the_command_that_stops_it() {
        let mut facts = healthy();
        facts.rivals = vec![Rival {
            state: RivalState::ManagerRunning,
            name: "scx_loader".into(),
            pid: Some(10),
            unit: Some("scx_loader.service".into()),
        }];
        assert_eq!(blocking(&facts), [""; 0]);
        let findings = examine(&facts);
        let finding = findings.iter().find(|f| f.topic == "rivals").unwrap();
        assert_eq!(finding.remedy.as_deref(), Some("systemctl stop scx_loader.service"));
    }

    #[test]
    fn a_configuration_out_of_libbpfs_sight_is_a_note_with_the_link_to_make() {
        let mut facts = healthy();
        let config = facts.config.as_mut().unwrap();
        config.path = "/usr/lib/modules/7.3.4/config".into();
        config.seen_by_libbpf = false;
        let finding = super::config(&facts);
        assert_eq!(finding.level, Level::Note);
        assert!(finding.remedy.unwrap().contains("ln -s /usr/lib/modules/7.3.4/config"));
    }
}
