//! The kernel's own tracing: an instance for ourselves, which nobody else's tracing is disturbed
//! by, and which vanishes with us.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use nix::libc;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::process::of_the_gone;

/// Where it is mounted, if it is, the newer place first.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// What our instances are called, with the number of the process behind.
const PREFIX: &str = "metasched-";
/// Clocks that are the same on all CPUs, the best first.
const CLOCKS: [&str; 2] = ["mono", "global"];
/// Buffers whose readers have just gone hold an instance for a moment.
const BUSY: Duration = Duration::from_secs(2);

/// The file system of the kernel's tracing.
#[derive(Debug)]
pub struct Tracefs {
    root: PathBuf,
    /// Where nobody has mounted it: a mount of our own, which no path but that through this
    /// descriptor leads to.
    _mount: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it, or mounts it for this process alone.
    ///
    /// # Errors
    /// `Unsupported` where the kernel has none, `Denied` without the privileges for it.
    pub fn open() -> Result<Self> {
        for place in PLACES {
            match fs::metadata(Path::new(place).join("instances")) {
                Ok(_) => return Ok(Self { root: place.into(), _mount: None }),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return Err(failed(&e)),
                Err(_) => {}
            }
        }
        let mount = mount().map_err(|e| failed(&e))?;
        let root = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
        Ok(Self { root, _mount: Some(mount) })
    }

    /// Reads one of its files, such as `events/header_page`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> Result<String> {
        read(&self.root.join(name))
    }

    /// The `format` file of an event of the scheduler's.
    ///
    /// # Errors
    /// `Unsupported` where the kernel has no such event.
    pub fn format(&self, event: &str) -> Result<String> {
        let path = self.root.join("events/sched").join(event).join("format");
        read(&path).map_err(|e| {
            let cause = format!("this kernel has no event '{event}': {}", e.cause);
            Error::new(Kind::Unsupported, "trace the scheduler", cause)
                .remedy("use a kernel with CONFIG_EVENT_TRACING and CONFIG_SCHED_TRACER")
        })
    }

    /// Makes an instance, with a buffer of so many KiB for each CPU. Those that processes of ours
    /// left when they were killed are removed first.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn instance(&self, buffer_kib: u64) -> Result<Instance> {
        let folder = self.root.join("instances");
        for left in of_the_gone(&folder, PREFIX) {
            // Somebody else may be faster; what stays is in nobody's way.
            let _ = fs::remove_dir(left);
        }
        let path = folder.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|e| failed(&e))?;
        let instance = Instance { path, pipes: Vec::new() };
        instance.write("tracing_on", "0")?;
        instance
            .write("buffer_size_kb", &buffer_kib.to_string())
            .map_err(|e| e.remedy("give less with --buffer: each CPU has a buffer of that size"))?;
        if !CLOCKS.iter().any(|clock| instance.write("trace_clock", clock).is_ok()) {
            let cause = format!("it has none of the clocks {}", CLOCKS.join(", "));
            return Err(Error::new(Kind::Unsupported, "trace the scheduler", cause));
        }
        instance.opened()
    }
}

/// A new mount that is nowhere in the tree of files.
fn mount() -> io::Result<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    Ok(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

fn failed(e: &io::Error) -> Error {
    const ATTEMPT: &str = "trace the scheduler";
    match e.kind() {
        io::ErrorKind::PermissionDenied => Error::new(Kind::Denied, ATTEMPT, e).remedy(
            "run it as root (sudo); under kernel lockdown, record elsewhere and use --perf",
        ),
        _ if e.raw_os_error() == Some(libc::ENODEV) => {
            Error::new(Kind::Unsupported, ATTEMPT, "this kernel has no tracefs")
                .remedy("use one with CONFIG_FTRACE and CONFIG_EVENT_TRACING")
        }
        _ => Error::new(Kind::Failed, ATTEMPT, e).remedy(
            "see whether tracefs can be mounted: mount -t tracefs nodev /sys/kernel/tracing",
        ),
    }
}

fn read(path: &Path) -> Result<String> {
    // Some of these files can be read at one go only, and then seem to be at their end.
    let mut text = String::with_capacity(1 << 16);
    File::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .attempt(Kind::Failed, || format!("read '{}'", path.display()))?;
    Ok(text)
}

/// Buffers of our own. Dropping it removes them.
#[derive(Debug)]
pub struct Instance {
    path: PathBuf,
    /// By CPU.
    pipes: Vec<(usize, File)>,
}

impl Instance {
    fn opened(mut self) -> Result<Self> {
        let folder = self.path.join("per_cpu");
        let attempt = || format!("read '{}'", folder.display());
        for entry in fs::read_dir(&folder).attempt(Kind::Failed, attempt)?.flatten() {
            let name = entry.file_name();
            let Some(cpu) = name.to_str().and_then(|name| name.strip_prefix("cpu")?.parse().ok())
            else {
                continue;
            };
            let path = entry.path().join("trace_pipe_raw");
            let pipe = OpenOptions::new()
                .read(true)
                .custom_flags(libc::O_NONBLOCK)
                .open(&path)
                .attempt(Kind::Failed, || format!("open '{}'", path.display()))?;
            self.pipes.push((cpu, pipe));
        }
        self.pipes.sort_by_key(|(cpu, _)| *cpu);
        Ok(self)
    }

    fn write(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        OpenOptions::new()
            .write(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .attempt(Kind::Failed, || format!("write '{text}' to '{}'", path.display()))
    }

    /// Records these events of the scheduler's from now on.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub fn start(&self, events: &[&str]) -> Result<()> {
        for event in events {
            self.write(&format!("events/sched/{event}/enable"), "1")?;
        }
        self.write("tracing_on", "1")
    }

    /// Records nothing any more; what was recorded can still be read.
    ///
    /// # Errors
    /// When the kernel does not take it.
    pub fn stop(&self) -> Result<()> {
        self.write("tracing_on", "0")
    }

    /// Shows all pages that the buffers hold, each with its CPU, those of a CPU in their order.
    /// A page is of `page_bytes` bytes. Does not wait for more.
    ///
    /// # Errors
    /// When one cannot be read.
    pub fn pages(&mut self, page_bytes: usize, mut show: impl FnMut(usize, &[u8])) -> Result<()> {
        let mut page = vec![0; page_bytes];
        for (cpu, pipe) in &mut self.pipes {
            loop {
                match pipe.read(&mut page) {
                    Ok(0) => break,
                    Ok(bytes) => show(*cpu, &page[..bytes]),
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) => {
                        let attempt = format!("read the trace of CPU {cpu}");
                        return Err(Error::new(Kind::Failed, attempt, e));
                    }
                }
            }
        }
        Ok(())
    }

    /// How many events found no room.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn lost(&self) -> Result<u64> {
        let mut lost = 0;
        for (cpu, _) in &self.pipes {
            lost += lost_in(&read(&self.path.join(format!("per_cpu/cpu{cpu}/stats")))?);
        }
        Ok(lost)
    }
}

/// From the file `stats` of a CPU's buffer.
fn lost_in(stats: &str) -> u64 {
    let counted = ["overrun", "commit overrun", "dropped events"];
    let value = |line: &str| {
        let (key, value) = line.split_once(':')?;
        counted.contains(&key).then(|| value.trim().parse::<u64>().ok())?
    };
    stats.lines().filter_map(value).sum()
}

impl Drop for Instance {
    fn drop(&mut self) {
        // What cannot be written now the removal does as well.
        let _ = self.write("tracing_on", "0");
        self.pipes.clear();
        let end = Instant::now() + BUSY;
        while let Err(e) = fs::remove_dir(&self.path) {
            if e.kind() == io::ErrorKind::NotFound {
                return;
            }
            if Instant::now() >= end {
                let path = self.path.display();
                eprintln!("cannot remove '{path}': {e}; remove it with rmdir");
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_of_lost_events_are_counted() {
        let stats = "entries: 12\noverrun: 3\ncommit overrun: 1\nbytes: 480\n\
                     oldest event ts:  2770.1\nnow ts: 2790.2\ndropped events: 5\nread events: 9\n";
        assert_eq!(lost_in(stats), 9);
    }

    #[test]
    fn what_is_missing_is_told_with_what_to_do() {
        let of = |errno| failed(&io::Error::from_raw_os_error(errno));
        assert_eq!(of(libc::ENODEV).kind, Kind::Unsupported);
        assert_eq!(of(libc::EPERM).kind, Kind::Denied);
        assert!(of(libc::EACCES).to_string().contains("as root"), "{}", of(libc::EACCES));
    }
}
