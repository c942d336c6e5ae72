//! A guest: what is decided about it before it is booted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt};

use crate::guest::find_program;
use crate::initramfs;
use crate::kernels::{self, Kernel};
use crate::modules;
use crate::options::{Accel, Thread, VmOptions};
use crate::qemu::GuestMachine;
use crate::session::{Outcome, Session, Streams};
use crate::spec::{Share, Spec};

/// How often a guest is booted at most, where the emulator fails before its command starts: it
/// does in about one of a thousand boots.
const BOOTS: u32 = 3;
/// A guest with KVM boots in 1 to 2 s.
const KVM_TRIAL: Duration = Duration::from_secs(20);
/// What is handed on from our environment: where programs are, who and where the
/// user is, how to write, and what is ours.
const ENVIRONMENT: [&str; 11] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "TZ",
    "NO_COLOR",
    "RUST_BACKTRACE",
];

/// Boots a guest, runs `command` in it with our own streams, and gives its end.
pub fn run(options: &VmOptions, command: &[String], interrupt: &Interrupt) -> Result<Outcome> {
    Vm::new(options.clone())?.run(command, Streams::inherit(), interrupt)
}

/// Whether KVM may be used, as its device says: not whether a guest runs with it, which takes a trial.
pub fn kvm_opens(device: &Path) -> Result<(), String> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(device);
    opened.map(drop).map_err(|e| format!("{}: {e}", device.display()))
}

/// A guest that is ready to be booted, any number of times.
#[derive(Debug)]
pub struct Vm {
    options: VmOptions,
    kernel: Kernel,
    machine: GuestMachine,
    agent: PathBuf,
}

impl Vm {
    /// Decides everything that is left open by the options.
    pub fn new(options: VmOptions) -> Result<Self> {
        let cpus = options.cpu_count()?;
        let host_cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        let thread = match options.thread {
            Thread::Auto if cpus <= host_cpus => Thread::Multi,
            Thread::Auto => Thread::Single,
            decided => decided,
        };
        if options.pin && (thread != Thread::Multi || cpus > host_cpus) {
            let cause = format!("its {cpus} CPUs do not run in parallel on CPUs of their own");
            return Err(Error::new(Kind::Usage, "pin the guest's CPUs", cause)
                .remedy(format!("give --thread multi and {host_cpus} CPUs at most")));
        }
        let kernel = match (&options.no_modules, &options.kernel) {
            (None, kernel) => kernels::choose(kernel.as_deref())?,
            (Some(_), Some(image)) if options.shares.is_empty() => Kernel::image_alone(image)?,
            (Some(_), _) => {
                let cause = "it takes an image, and such a guest shares no folders";
                return Err(Error::new(Kind::Usage, "boot a kernel without its modules", cause)
                    .remedy("give --kernel IMAGE, and no --rw"));
            }
        };
        let mut shares = Vec::new();
        for (number, path) in options.shares.iter().enumerate() {
            let attempt = || format!("share {}", path.display());
            fs::create_dir_all(path).attempt(Kind::BadInput, attempt)?;
            shares.push((
                format!("share{number}"),
                path.canonicalize().attempt(Kind::BadInput, attempt)?,
            ));
        }
        let agent = match &options.agent {
            Some(agent) => agent.clone(),
            None => std::env::current_exe()
                .attempt(Kind::Failed, || "find the metasched command".into())?,
        };
        let machine = GuestMachine {
            kvm: false,
            thread,
            cpus,
            topology: options.topology,
            llc: options.llc,
            cpu_model: options.cpu_model.clone(),
            kvm_host: options.kvm_host,
            append: options.append.clone(),
            memory_bytes: options.memory_bytes,
            kernel: kernel.bootable()?,
            alone: options.no_modules.is_some().then(|| agent.clone()),
            shares,
            verbose: options.show_console,
            tsc_khz: crate::tsc::khz(),
        };
        let mut vm = Self { options, kernel, machine, agent };
        vm.machine.kvm = vm.decide_accel()?;
        vm.check_kvm_host()?;
        Ok(vm)
    }

    /// Refuses a guest that could not run virtual machines although it is to.
    fn check_kvm_host(&self) -> Result<()> {
        let machine = &self.machine;
        let attempt = "make a guest that runs virtual machines";
        if machine.kvm_host && machine.alone.is_some() {
            let cause = "KVM is a module, and it has none";
            return Err(Error::new(Kind::Usage, attempt, cause).remedy("leave --no-modules out"));
        }
        if machine.kvm_host && !machine.kvm && machine.grouped() && machine.cpu_model.is_none() {
            let cause = "the CPU model of an emulated guest with a topology cannot do so";
            return Err(Error::new(Kind::Usage, attempt, cause)
                .remedy("leave the topology out, or give --cpu-model EPYC-v4,+svm"));
        }
        Ok(())
    }

    fn decide_accel(&self) -> Result<bool> {
        match self.options.accel {
            Accel::Tcg => Ok(false),
            Accel::Auto => Ok(self.has_kvm_for_it() && self.kvm_boots().is_ok()),
            Accel::Kvm if !self.has_kvm_for_it() => {
                let cause = "its guests cannot use KVM themselves: kvm_intel and kvm_amd have \
                             a parameter 'nested'";
                Err(Error::new(Kind::Unsupported, "use KVM", cause)
                    .remedy("leave --accel out to use emulation"))
            }
            Accel::Kvm => match self.kvm_boots() {
                Ok(()) => Ok(true),
                Err(cause) => Err(Error::new(Kind::Unsupported, "use KVM", cause)
                    .remedy("leave --accel out to use emulation")),
            },
        }
    }

    /// Whether this machine's KVM, if there is one, could run such a guest.
    fn has_kvm_for_it(&self) -> bool {
        !self.machine.kvm_host || modules::nested_kvm(Path::new("/")).is_some()
    }

    /// Whether this kernel boots with KVM, which is tried with a guest: some virtual machines offer
    /// a KVM that runs nothing, or some instructions and not others. The answer holds until this
    /// machine is booted again.
    fn kvm_boots(&self) -> Result<(), String> {
        kvm_opens(Path::new("/dev/kvm"))?;
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let store = self.kernel.store().map_err(|e| e.cause)?;
        let cause = store.kvm_verdict(boot_id.trim()).unwrap_or_else(|| {
            let cause = self.try_kvm().err().unwrap_or_default();
            store.keep_kvm_verdict(boot_id.trim(), &cause);
            cause
        });
        if cause.is_empty() { Ok(()) } else { Err(cause) }
    }

    fn try_kvm(&self) -> Result<(), String> {
        let no_modules = self.options.no_modules.clone();
        let options = VmOptions { timeout: Some(KVM_TRIAL), no_modules, ..VmOptions::default() };
        let machine = GuestMachine {
            kvm: true,
            kvm_host: false,
            cpus: 1,
            topology: None,
            llc: None,
            shares: Vec::new(),
            ..self.machine.clone()
        };
        let (kernel, agent) = (self.kernel.clone(), self.agent.clone());
        let trial = Self { options, kernel, machine, agent };
        let command = ["true".to_owned()];
        match trial.run(&command, Streams::nowhere(), &Interrupt::default()) {
            Ok(Outcome { status: 0, .. }) => Ok(()),
            Ok(outcome) => Err(format!("a trial ended with status {}", outcome.status)),
            // The registers and the console that follow are for those who ask for them.
            Err(error) => {
                let first: Vec<&str> = error.cause.lines().take(2).map(str::trim).collect();
                Err(format!("a guest does not boot with it: {}", first.join(": ")))
            }
        }
    }

    /// The kernel that it boots.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What was decided.
    pub fn machine(&self) -> &GuestMachine {
        &self.machine
    }

    fn spec(&self, command: &[String]) -> Result<Spec> {
        let cwd = match &self.options.cwd {
            Some(cwd) => cwd.clone(),
            None => std::env::current_dir()
                .attempt(Kind::Failed, || "find the current folder".into())?,
        };
        let mut env: BTreeMap<String, String> = std::env::vars_os()
            .filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)))
            .filter(|(k, _)| ENVIRONMENT.contains(&k.as_str()) || k.starts_with("METASCHED_"))
            .collect();
        env.extend(self.options.env.clone());
        let shares = &self.machine.shares;
        let open_files = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
            .attempt(Kind::Failed, || "read the limit on open files".into())?;
        Ok(Spec {
            command: command.to_vec(),
            cwd: cwd.display().to_string(),
            env,
            hostname: "metasched".into(),
            shares: shares
                .iter()
                .map(|(tag, path)| Share { tag: tag.clone(), path: path.display().to_string() })
                .collect(),
            modules: self.kernel.modules.as_ref().map(|path| path.display().to_string()),
            config: self.kernel.config.as_ref().map(|c| c.display().to_string()),
            open_files,
            terminal: self.options.terminal,
        })
    }

    /// Boots the guest, runs `command` in it, and ends it. Where the emulator fails before the
    /// command starts, the guest is booted again; the command is started once at most.
    ///
    /// Call it on a thread that lives until it returns: QEMU is bound to die with
    /// the thread that started it.
    pub fn run(
        &self,
        command: &[String],
        streams: Streams,
        interrupt: &Interrupt,
    ) -> Result<Outcome> {
        if command.is_empty() {
            return Err(Error::new(Kind::Usage, "run a guest", "there is no command")
                .remedy("write it after --, as in `metasched vm -- uname -r`"));
        }
        let spec = self.spec(command)?;
        let initramfs = match (&self.kernel.modules, &self.options.no_modules) {
            (Some(modules), None) => {
                let nested = modules::nested_kvm(Path::new("/")).filter(|_| self.machine.kvm);
                let kvm = nested.unwrap_or(modules::EMULATED_KVM);
                let kvm = self.machine.kvm_host.then_some(kvm);
                initramfs::build(modules, kvm, &self.agent, &spec)?
            }
            (_, with) => {
                let path = spec.env.get("PATH").map_or("", String::as_str);
                let named = with.iter().flatten().map(|name| name.to_string_lossy());
                let named = named.chain([spec.command[0].as_str().into()]);
                let programs: Vec<PathBuf> = named.map(|name| find_program(&name, path)).collect();
                initramfs::build_alone(&programs, &self.agent, &spec)?
            }
        };
        let mut boots = 0;
        loop {
            boots += 1;
            let mut session = Session::start(&self.machine, &self.options, &initramfs)?;
            match session.boot(interrupt) {
                Ok(()) => return session.run(streams, interrupt),
                Err(_) if boots < BOOTS && self.is_emulators_fault(&mut session) => {
                    eprintln!("metasched: the emulator failed while the guest booted; once more");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether the guest died of what the emulator did, and not of its kernel or its command.
    fn is_emulators_fault(&self, session: &mut Session) -> bool {
        let in_parallel = !self.machine.kvm && self.machine.thread == Thread::Multi;
        in_parallel && session.met_a_stale_breakpoint()
    }
}
