//! What a guest is to be like.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use metasched_base::{Error, Kind, Result};

/// What a guest is to be like; the default is two CPUs, 2 GiB, and whatever
/// kernel and acceleration there are.
#[derive(Clone, Debug)]
pub struct VmOptions {
    /// Number of CPUs; from the topology where it is `None` and there is one, else 2.
    pub cpus: Option<u32>,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// How the CPUs are grouped.
    pub topology: Option<Topology>,
    /// Which CPUs share a last-level cache, where it is not as the CPU model has it.
    pub llc: Option<Llc>,
    /// The kernel: a version or a path; the newest sound one where it is `None`.
    pub kernel: Option<String>,
    /// For a kernel of which there is the image alone: the guest's files are the command's program
    /// and these, with the libraries that they need, and it talks over serial lines.
    pub no_modules: Option<Vec<PathBuf>>,
    /// Emulation: whether CPUs run in parallel.
    pub thread: Thread,
    /// Whether each CPU stays on a CPU of this machine of its own.
    pub pin: bool,
    /// KVM or emulation.
    pub accel: Accel,
    /// QEMU's CPU model, where the default is not wanted.
    pub cpu_model: Option<String>,
    /// Whether the guest can run virtual machines with KVM itself.
    pub kvm_host: bool,
    /// Parameters for the guest's kernel, after those that it gets anyway.
    pub append: Vec<String>,
    /// Folders that the guest shares with the host for reading and writing.
    pub shares: Vec<PathBuf>,
    /// Time for everything, booting included.
    pub timeout: Option<Duration>,
    /// Environment of the command beyond what is handed on anyway.
    pub env: BTreeMap<String, String>,
    /// Whether the command has the terminal for its own that our standard input and output are.
    pub terminal: bool,
    /// The folder that the command starts in; the current one where it is `None`.
    pub cwd: Option<PathBuf>,
    /// A file that gets the guest's console.
    pub console: Option<PathBuf>,
    /// Whether the console is shown on standard error too.
    pub show_console: bool,
    /// The program that is the guest's first process: the `metasched` command, seen
    /// through the guest's view of the host's files.
    pub agent: Option<PathBuf>,
}

impl Default for VmOptions {
    fn default() -> Self {
        Self {
            cpus: None,
            memory_bytes: 2 << 30,
            topology: None,
            llc: None,
            kernel: None,
            no_modules: None,
            thread: Thread::Auto,
            pin: false,
            accel: Accel::Auto,
            cpu_model: None,
            kvm_host: false,
            append: Vec::new(),
            shares: Vec::new(),
            timeout: None,
            env: BTreeMap::new(),
            terminal: false,
            cwd: None,
            console: None,
            show_console: false,
            agent: None,
        }
    }
}

impl VmOptions {
    /// The number of CPUs that the options amount to.
    pub fn cpu_count(&self) -> Result<u32> {
        let attempt = "make a guest";
        match (self.cpus, &self.topology) {
            (Some(0), _) => Err(Error::new(Kind::Usage, attempt, "it would have no CPU")),
            (Some(cpus), Some(t)) if cpus != t.cpus() => Err(Error::new(
                Kind::Usage,
                attempt,
                format!("{t} makes {} CPUs, and {cpus} were asked for", t.cpus()),
            )
            .remedy("leave --cpus out, or make them agree")),
            (Some(cpus), _) => Ok(cpus),
            (None, Some(t)) => Ok(t.cpus()),
            (None, None) => Ok(2),
        }
    }
}

/// How the CPUs are grouped: `sockets=2,dies=1,cores=2,threads=2,nodes=2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Packages.
    pub sockets: u32,
    /// Dies per package.
    pub dies: u32,
    /// Cores per die.
    pub cores: u32,
    /// Hardware threads per core.
    pub threads: u32,
    /// NUMA nodes; the CPUs and the memory are divided evenly among them, in order.
    pub nodes: u32,
}

impl Topology {
    /// The number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.sockets * self.dies * self.cores * self.threads
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Topology { sockets, dies, cores, threads, nodes } = self;
        write!(f, "sockets={sockets},dies={dies},cores={cores},threads={threads},nodes={nodes}")
    }
}

impl FromStr for Topology {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = |cause: String| {
            Error::new(Kind::Usage, format!("read '{text}' as a topology"), cause).remedy(
                "write it as in sockets=2,dies=1,cores=2,threads=2,nodes=2; what is left out is 1",
            )
        };
        let mut t = Self { sockets: 1, dies: 1, cores: 1, threads: 1, nodes: 1 };
        for part in text.split(',') {
            let (name, value) =
                part.split_once('=').ok_or_else(|| fail(format!("'{part}' has no '='")))?;
            let value: u32 = value
                .parse()
                .ok()
                .filter(|v| (1..=1024).contains(v))
                .ok_or_else(|| fail(format!("'{value}' is not a number from 1 to 1024")))?;
            match name.trim() {
                "sockets" => t.sockets = value,
                "dies" => t.dies = value,
                "cores" => t.cores = value,
                "threads" => t.threads = value,
                "nodes" => t.nodes = value,
                _ => return Err(fail(format!("there is no '{name}'"))),
            }
        }
        if !t.cpus().is_multiple_of(t.nodes) {
            return Err(fail(format!(
                "{} CPUs cannot be divided evenly among {} nodes",
                t.cpus(),
                t.nodes
            )));
        }
        Ok(t)
    }
}

/// A choice with a word for each value.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$value_doc:meta])* $value:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$value_doc])* $value),+ }

        impl $name {
            /// The words for the values, in order.
            pub const WORDS: &[&str] = &[$($word),+];
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($word => Ok(Self::$value),)+
                    _ => Err(Error::new(
                        Kind::Usage,
                        format!("read '{text}' as {}", $what),
                        format!("it is none of {}", Self::WORDS.join(", ")),
                    )),
                }
            }
        }
    };
}

choice! {
    /// Which CPUs share a last-level cache.
    Llc, "the sharing of a last-level cache" {
        /// All of a package.
        PerSocket = "per-socket",
        /// All of a die.
        PerDie = "per-die",
        /// Only the threads of a core.
        PerCore = "per-core",
    }
}

choice! {
    /// Whether emulated CPUs run in parallel.
    Thread, "the threading of the emulation" {
        /// A thread per CPU. For throughput and latency; after one or two thousand loads
        /// of a scheduler the guest's kernel has died with `Oops: int3` at a place that
        /// it was patching.
        Multi = "multi",
        /// One thread for all CPUs in turn. Slower, and never seen to fail.
        Single = "single",
        /// As `single`, and the guest's clock counts instructions, each for 1 ns. So its
        /// figures do not depend on what else the host does, nor on how fast it is. With
        /// several CPUs an interrupt from one to another waits for the other's turn.
        Counted = "counted",
        /// `multi` where every CPU can have one of the host's, else `single`.
        Auto = "auto",
    }
}

choice! {
    /// What runs the guest's instructions.
    Accel, "an accelerator" {
        /// The processor.
        Kvm = "kvm",
        /// QEMU's emulation.
        Tcg = "tcg",
        /// KVM where a trial shows that it works.
        Auto = "auto",
    }
}

/// Reads an amount of memory: `512M`, `2G`, or bytes.
pub fn parse_memory(text: &str) -> Result<u64> {
    let fail = |cause: &str| {
        Error::new(Kind::Usage, format!("read '{text}' as an amount of memory"), cause)
            .remedy("write it as in 512M or 2G")
    };
    let trimmed = text.trim().trim_end_matches(['i', 'B', 'b']);
    let (digits, shift) = match trimmed.chars().last() {
        Some('K' | 'k') => (&trimmed[..trimmed.len() - 1], 10),
        Some('M' | 'm') => (&trimmed[..trimmed.len() - 1], 20),
        Some('G' | 'g') => (&trimmed[..trimmed.len() - 1], 30),
        _ => (trimmed, 0),
    };
    let number: u64 = digits.parse().map_err(|_| fail("it is not a number with a unit"))?;
    let bytes = number.checked_mul(1 << shift).ok_or_else(|| fail("it is too much"))?;
    // Less than this does not even unpack the first file system.
    const LEAST_BYTES: u64 = 128 << 20;
    if bytes < LEAST_BYTES {
        return Err(fail("a guest needs at least 128M"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topology_multiplies_to_its_cpus_and_divides_among_its_nodes() {
        let t: Topology = "sockets=2,dies=2,cores=2,threads=2,nodes=4".parse().unwrap();
        assert_eq!(t.cpus(), 16);
        let e = "cores=3,nodes=2".parse::<Topology>().unwrap_err();
        assert!(e.to_string().contains("3 CPUs cannot be divided evenly among 2 nodes"), "{e}");
        let e = "core=3".parse::<Topology>().unwrap_err();
        assert!(e.to_string().contains("there is no 'core'"), "{e}");
        assert!("cores=0".parse::<Topology>().is_err());
    }

    #[test]
    fn cpus_and_topology_that_disagree_are_refused() {
        let topology = Some("cores=4".parse().unwrap());
        let mut options = VmOptions { topology, ..VmOptions::default() };
        assert_eq!(options.cpu_count().unwrap(), 4);
        options.cpus = Some(2);
        let e = options.cpu_count().unwrap_err();
        assert_eq!(e.kind, Kind::Usage);
        assert!(e.to_string().contains("makes 4 CPUs, and 2 were asked for"), "{e}");
    }

    #[test]
    fn memory_is_read_with_its_unit() {
        assert_eq!(parse_memory("2G").unwrap(), 2 << 30);
        assert_eq!(parse_memory("512MiB").unwrap(), 512 << 20);
        assert!(parse_memory("2").unwrap_err().to_string().contains("at least 128M"));
        assert!(parse_memory("lots").is_err());
    }

    #[test]
    fn a_wrong_word_is_answered_with_the_right_ones() {
        let e = "both".parse::<Thread>().unwrap_err();
        assert!(e.to_string().contains("none of multi, single, counted, auto"), "{e}");
    }
}
