//! QEMU's command line, from facts. Nothing here touches the machine.

use std::path::{Path, PathBuf};

use crate::options::{Llc, Thread, Topology};
use crate::spec::{SERIAL, port};

/// The program.
pub const QEMU: &str = "qemu-system-x86_64";

/// What was decided about a guest.
#[derive(Clone, Debug)]
pub struct GuestMachine {
    /// KVM, or emulation.
    pub kvm: bool,
    /// Emulation: whether CPUs run in parallel; decided, so never `auto`.
    pub thread: Thread,
    /// Number of CPUs.
    pub cpus: u32,
    /// How they are grouped; all cores of one package where it is `None`.
    pub topology: Option<Topology>,
    /// Which share a last-level cache, if not as the model has it.
    pub llc: Option<Llc>,
    /// The CPU model, if not the default.
    pub cpu_model: Option<String>,
    /// Whether it can run virtual machines with KVM.
    pub kvm_host: bool,
    /// Parameters of the kernel beyond those that it gets anyway.
    pub append: Vec<String>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The kernel's image.
    pub kernel: PathBuf,
    /// The first process, where the first file system is the only one and serial lines are the
    /// ports; else that file system says it, and finds the host's files and virtio's ports.
    pub alone: Option<PathBuf>,
    /// Shared folders and the names of their devices.
    pub shares: Vec<(String, PathBuf)>,
    /// Whether the kernel should tell all on its console.
    pub verbose: bool,
    /// How fast the host's time stamp counter counts.
    pub tsc_khz: u64,
}

/// The file descriptors, inherited by QEMU, that it connects the guest to.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors {
    /// The file with the first file system.
    pub initramfs: i32,
    /// The serial console.
    pub console: i32,
    /// [`port::CONTROL`].
    pub control: i32,
    /// [`port::STDIN`].
    pub stdin: i32,
    /// [`port::STDOUT`].
    pub stdout: i32,
    /// [`port::STDERR`].
    pub stderr: i32,
}

/// The CPU model that suits how the guest runs.
///
/// Emulated: no AVX and no FMA. QEMU emulates vector instructions one element at
/// a time in helper calls, so that programs that choose the widest that they find
/// (numpy, string functions of the C library) run far slower with AVX than with
/// the SSE that is then left. A topology needs a named model: `max` describes
/// itself as a processor without dies and threads.
pub fn cpu_model(machine: &GuestMachine) -> String {
    // Two are wide forms of AES that cannot be without AVX. Without MPX and protection
    // keys less is saved at every context switch, and without a fifth level of page
    // tables there is less to walk; none of that shows in what is measured. A processor that says
    // that it copies and clears bytes fast is told to do so byte by byte, which QEMU does: the kernel
    // then clears a page in ten times the time that it takes with wider stores.
    const PLAIN: &str = "-avx,-avx2,-fma,-f16c,-vaes,-vpclmulqdq,-mpx,-pku,-la57,\
                         -erms,-fsrm,-fzrm,-fsrs,-fsrc";
    match (&machine.cpu_model, machine.kvm, machine.grouped()) {
        (Some(model), _, _) => model.clone(),
        (None, true, _) => "host".to_owned(),
        // AMD's virtualisation is what QEMU emulates.
        (None, false, false) if machine.kvm_host => format!("max,{PLAIN},+svm"),
        (None, false, false) => format!("max,{PLAIN}"),
        (None, false, true) => format!("SapphireRapids,{PLAIN}"),
    }
}

impl GuestMachine {
    /// Whether the guest must see more than so many equal cores.
    pub(crate) fn grouped(&self) -> bool {
        self.topology.is_some_and(|t| t.dies > 1 || t.threads > 1 || t.sockets > 1)
            || self.llc.is_some()
    }
}

/// The kernel's command line.
///
/// A kernel that is in trouble should end rather than go on: a panic makes QEMU
/// end (`panic=-1` with `-no-reboot`), and an oops is a panic.
pub fn kernel_command_line(machine: &GuestMachine) -> String {
    let level = if machine.verbose { 7 } else { 4 };
    let mut line = format!("console=ttyS0 loglevel={level} panic=-1 oops=panic");
    // All CPUs' time stamp counters are the host's, but with several packages the
    // kernel does not believe it, and reading the clock becomes a slow device access.
    line.push_str(" tsc=reliable");
    if !machine.kvm {
        // There is no speculation in an emulated CPU. On a busy host its timer comes too late for
        // the kernel's check of it, and the kernel panics.
        line.push_str(" mitigations=off no_timer_check");
    }
    if !machine.kvm && machine.thread != Thread::Counted {
        // Its counter is the host's, and it would measure it against timers that come late.
        line.push_str(&format!(" tsc_early_khz={}", machine.tsc_khz));
    }
    for parameter in &machine.append {
        line.push(' ');
        line.push_str(parameter);
    }
    if let Some(agent) = &machine.alone {
        // What the kernel does not know becomes the first process's environment.
        line.push_str(&format!(" {SERIAL}=1 rdinit={} -- vm --guest-init", agent.display()));
    }
    line
}

/// QEMU's arguments.
pub fn arguments(machine: &GuestMachine, fds: &Descriptors) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    let mut add = |option: &str, value: String| {
        args.push(option.to_owned());
        if !value.is_empty() {
            args.push(value);
        }
    };
    for option in ["-nodefaults", "-no-user-config", "-no-reboot"] {
        add(option, String::new());
    }
    // With names for its threads, by which `pin.rs` knows them.
    add("-name", "metasched,debug-threads=on".into());
    add("-display", "none".into());
    add("-machine", machine_type(machine));
    let accel = match (machine.kvm, machine.thread) {
        (true, _) => "kvm",
        (false, Thread::Multi) => "tcg,thread=multi",
        (false, _) => "tcg,thread=single",
    };
    add("-accel", accel.into());
    if !machine.kvm && machine.thread == Thread::Counted {
        // Where every CPU is idle the clock goes on to the next timer at once.
        add("-icount", "shift=0,sleep=off".into());
    }
    add("-cpu", cpu_model(machine));
    add("-smp", smp(machine));
    add("-m", format!("{}M", machine.memory_bytes >> 20));
    for (option, value) in numa(machine) {
        add(option, value);
    }
    add("-kernel", machine.kernel.display().to_string());
    add("-initrd", format!("/dev/fd/{}", fds.initramfs));
    add("-append", kernel_command_line(machine));

    add("-chardev", format!("socket,id=console,fd={}", fds.console));
    add("-serial", "chardev:console".into());
    if machine.alone.is_some() {
        for (number, fd) in [fds.control, fds.stdout, fds.stderr].into_iter().enumerate() {
            add("-chardev", format!("socket,id=line{number},fd={fd}"));
            add("-serial", format!("chardev:line{number}"));
        }
        return args;
    }
    add("-device", "virtio-serial-pci,max_ports=8".into());
    for (number, (name, fd)) in [
        (port::CONTROL, fds.control),
        (port::STDIN, fds.stdin),
        (port::STDOUT, fds.stdout),
        (port::STDERR, fds.stderr),
    ]
    .into_iter()
    .enumerate()
    {
        add("-chardev", format!("socket,id=port{number},fd={fd}"));
        add("-device", format!("virtserialport,chardev=port{number},name={name}"));
    }

    add("-fsdev", fsdev("root", Path::new("/"), true));
    add("-device", "virtio-9p-pci,fsdev=root,mount_tag=root".into());
    for (tag, path) in &machine.shares {
        add("-fsdev", fsdev(tag, path, false));
        add("-device", format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}"));
    }
    args
}

/// `multidevs=remap`: the host's path may lie on several file systems, whose
/// inode numbers must stay apart.
fn fsdev(id: &str, path: &Path, readonly: bool) -> String {
    // A comma in a value is written twice.
    let path = path.display().to_string().replace(',', ",,");
    let readonly = if readonly { "on" } else { "off" };
    format!("local,id={id},path={path},security_model=none,multidevs=remap,readonly={readonly}")
}

fn machine_type(machine: &GuestMachine) -> String {
    let level = match machine.llc {
        None => return "q35".into(),
        Some(Llc::PerSocket) => "socket",
        Some(Llc::PerDie) => "die",
        Some(Llc::PerCore) => "core",
    };
    format!("q35,smp-cache.0.cache=l3,smp-cache.0.topology={level}")
}

fn smp(machine: &GuestMachine) -> String {
    match machine.topology {
        None => format!("{0},sockets=1,cores={0},threads=1", machine.cpus),
        Some(Topology { sockets, dies, cores, threads, .. }) => format!(
            "{},sockets={sockets},dies={dies},cores={cores},threads={threads}",
            machine.cpus
        ),
    }
}

fn numa(machine: &GuestMachine) -> Vec<(&'static str, String)> {
    let Some(topology) = machine.topology.filter(|t| t.nodes > 1) else {
        return Vec::new();
    };
    let cpus = machine.cpus / topology.nodes;
    let memory = (machine.memory_bytes >> 20) / u64::from(topology.nodes);
    // Whole megabytes per node, so that the sum may be a little less than -m says:
    // the first node gets what is left over.
    let rest = (machine.memory_bytes >> 20) - memory * u64::from(topology.nodes);
    (0..topology.nodes)
        .flat_map(|node| {
            let memory = if node == 0 { memory + rest } else { memory };
            let (first, last) = (node * cpus, (node + 1) * cpus - 1);
            [
                ("-object", format!("memory-backend-ram,id=node{node},size={memory}M")),
                ("-numa", format!("node,nodeid={node},cpus={first}-{last},memdev=node{node}")),
            ]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FDS: Descriptors =
        Descriptors { initramfs: 8, console: 3, control: 4, stdin: 5, stdout: 6, stderr: 7 };

    fn machine() -> GuestMachine {
        GuestMachine {
            kvm: false,
            thread: Thread::Multi,
            cpus: 2,
            topology: None,
            llc: None,
            cpu_model: None,
            kvm_host: false,
            append: Vec::new(),
            memory_bytes: 2 << 30,
            kernel: "/k/vmlinuz".into(),
            alone: None,
            shares: Vec::new(),
            verbose: false,
            tsc_khz: 2_596_122,
        }
    }

    #[test]
    fn without_modules_there_are_serial_lines_and_no_devices() {
        let alone = GuestMachine { alone: Some("/bin/metasched".into()), ..machine() };
        assert!(values(&alone, "-device").is_empty());
        assert_eq!(values(&alone, "-serial").len(), 1 + crate::spec::SERIAL_PORTS.len());
        let line = kernel_command_line(&alone);
        assert!(line.ends_with(" rdinit=/bin/metasched -- vm --guest-init"), "{line}");
    }

    /// The values of an option, in order.
    fn values(machine: &GuestMachine, option: &str) -> Vec<String> {
        let args = arguments(machine, &FDS);
        args.windows(2).filter(|w| w[0] == option).map(|w| w[1].clone()).collect()
    }

    #[test]
    fn a_guest_whose_clock_counts_instructions_has_one_thread() {
        assert!(values(&machine(), "-icount").is_empty());
        let counted = GuestMachine { thread: Thread::Counted, ..machine() };
        assert_eq!(values(&counted, "-accel"), ["tcg,thread=single"]);
        assert_eq!(values(&counted, "-icount"), ["shift=0,sleep=off"]);
        assert!(values(&GuestMachine { kvm: true, ..counted }, "-icount").is_empty());
    }

    #[test]
    fn an_emulated_guest_has_no_avx() {
        assert_eq!(values(&machine(), "-accel"), ["tcg,thread=multi"]);
        assert!(values(&machine(), "-cpu")[0].starts_with("max,-avx"));
        let kvm = GuestMachine { kvm: true, ..machine() };
        assert_eq!(values(&kvm, "-cpu"), ["host"]);
        assert!(!values(&kvm, "-append")[0].contains("mitigations"));
    }

    #[test]
    fn an_emulated_host_of_kvm_has_amds_virtualisation() {
        assert!(!values(&machine(), "-cpu")[0].contains("svm"));
        let host = GuestMachine { kvm_host: true, ..machine() };
        let model = &values(&host, "-cpu")[0];
        assert!(model.starts_with("max,-avx") && model.ends_with(",+svm"), "{model}");
        assert_eq!(values(&GuestMachine { kvm: true, ..host }, "-cpu"), ["host"]);
    }

    #[test]
    fn a_topology_reaches_qemu_whole() {
        let topology = "sockets=2,dies=2,cores=2,threads=2,nodes=2".parse().ok();
        let m = GuestMachine { topology, cpus: 16, llc: Some(Llc::PerCore), ..machine() };
        assert_eq!(values(&m, "-smp"), ["16,sockets=2,dies=2,cores=2,threads=2"]);
        assert!(values(&m, "-cpu")[0].starts_with("SapphireRapids"));
        assert_eq!(
            values(&m, "-numa"),
            ["node,nodeid=0,cpus=0-7,memdev=node0", "node,nodeid=1,cpus=8-15,memdev=node1"]
        );
        assert!(values(&m, "-machine")[0].ends_with("smp-cache.0.topology=core"));
    }

    #[test]
    fn the_memory_of_the_nodes_adds_up() {
        let topology = "cores=3,nodes=3".parse().ok();
        let m = GuestMachine { topology, cpus: 3, memory_bytes: 1024 << 20, ..machine() };
        let sizes: Vec<u64> = values(&m, "-object")
            .iter()
            .map(|v| v.rsplit('=').next().unwrap().trim_end_matches('M').parse().unwrap())
            .collect();
        assert_eq!(sizes.iter().sum::<u64>(), 1024);
    }

    #[test]
    fn only_named_folders_are_shared_for_writing() {
        let m = GuestMachine { shares: vec![("rw0".into(), "/a,b".into())], ..machine() };
        let fsdevs = values(&m, "-fsdev");
        assert!(fsdevs[0].contains("path=/,") && fsdevs[0].ends_with("readonly=on"));
        assert!(fsdevs[1].contains("path=/a,,b,") && fsdevs[1].ends_with("readonly=off"));
    }

    #[test]
    fn an_emulated_kernel_is_told_how_fast_the_hosts_counter_counts() {
        let tells = |machine| kernel_command_line(&machine).contains(" tsc_early_khz=2596122");
        assert!(tells(machine()));
        // One that counts instructions has a counter of its own, and KVM tells it by itself.
        assert!(!tells(GuestMachine { thread: Thread::Counted, ..machine() }));
        assert!(!tells(GuestMachine { kvm: true, ..machine() }));
    }

    #[test]
    fn a_kernel_in_trouble_ends() {
        let line = kernel_command_line(&machine());
        assert!(line.contains("panic=-1") && line.contains("oops=panic"), "{line}");
        assert!(values(&machine(), "-no-reboot").len() == 1);
    }
}
