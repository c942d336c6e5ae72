//! What host and guest say to each other.
//!
//! The guest's orders travel in its first file system. While it runs there are
//! four virtio-serial ports: the command's three streams, and one for control,
//! where every line is one JSON message.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The names of the ports, as QEMU gives them to the guest.
pub mod port {
    /// Messages in both directions.
    pub const CONTROL: &str = "metasched.control";
    /// The command's standard input.
    pub const STDIN: &str = "metasched.stdin";
    /// The command's standard output.
    pub const STDOUT: &str = "metasched.stdout";
    /// The command's standard error.
    pub const STDERR: &str = "metasched.stderr";
}

/// A variable of the first process: the ports are serial lines.
pub const SERIAL: &str = "METASCHED_SERIAL";
/// The ports that are then `/dev/ttyS1` and so on, in order; the first line is the console.
pub const SERIAL_PORTS: [&str; 3] = [port::CONTROL, port::STDOUT, port::STDERR];

/// Where the guest finds its orders once it sees the host's files.
pub const SPEC_PATH: &str = "/run/testbed/spec.json";

/// The guest's orders.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The folder that it starts in.
    pub cwd: String,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// The guest's name.
    pub hostname: String,
    /// Folders shared for reading and writing.
    pub shares: Vec<Share>,
    /// The folder of the kernel's modules on the host, where there is one.
    pub modules: Option<String>,
    /// The kernel's configuration on the host, where there is one.
    pub config: Option<String>,
    /// The limit on open files: soft and hard, as on the host.
    pub open_files: (u64, u64),
    /// Whether the command has a terminal, on the ports of its standard input and output.
    pub terminal: bool,
}

/// How large a terminal is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Letters in a line.
    pub columns: u16,
}

/// A folder of the host that the guest writes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The name of the 9p device.
    pub tag: String,
    /// The path, the same on both sides.
    pub path: String,
}

/// What the guest tells the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum FromGuest {
    /// The command can be started: it waits for [`ToGuest::Start`], and its standard
    /// input may be sent.
    Ready,
    /// The guest could not be set up, or the command could not be started.
    Failed {
        /// What was attempted and why it failed.
        why: String,
        /// The exit status that a shell would give (126, 127), where the command is at fault.
        status: Option<i32>,
    },
    /// The command ended, and all that it wrote is on its way.
    Ended {
        /// Its exit status; 128 and the signal's number where it was killed.
        status: i32,
        /// Bytes that it wrote to standard output: so many the host must get before it ends.
        stdout_bytes: u64,
        /// The same for standard error.
        stderr_bytes: u64,
    },
}

/// What the host tells the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "message", rename_all = "snake_case")]
pub enum ToGuest {
    /// Starts the command. As the host says so, it knows at any moment whether there is a
    /// command that an interrupt has to reach.
    Start,
    /// The command's terminal has this size now.
    Resize(Size),
    /// Sends a signal to the command's process group.
    Signal {
        /// The signal's number.
        number: i32,
    },
}
