//! Loads for the guest tests. Each ends when it is dropped.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A program, in a process group of its own so that all of it can be ended.
pub struct Load {
    child: std::cell::RefCell<Child>,
    script: String,
}

impl Load {
    /// hackbench: `groups` groups of 40 tasks, each sending `loops` messages.
    pub fn hackbench(groups: u32, loops: u32) -> Self {
        Self::spawn(&format!("exec hackbench -g {groups} -l {loops}"))
    }

    /// One after the other until it is dropped.
    pub fn endless_hackbench(groups: u32) -> Self {
        Self::spawn(&format!("while hackbench -g {groups} -l 100; do :; done"))
    }

    /// stress-ng: processes that change their affinity all the time, fork, and yield.
    pub fn stress() -> Self {
        Self::spawn(
            "exec stress-ng --quiet --temp-path /tmp --affinity 2 --affinity-rand --fork 1 --yield 1",
        )
    }

    fn spawn(script: &str) -> Self {
        let child = Command::new("sh")
            .args(["-c", script])
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("there is a shell");
        Self { child: child.into(), script: script.to_owned() }
    }

    /// Waits for its end, which must be a good one.
    pub fn wait(&mut self) {
        let status = self.child.get_mut().wait().unwrap();
        assert!(status.success(), "the load: {status}");
    }

    /// It must not have ended by itself.
    pub fn assert_running(&self) {
        if let Some(status) = self.child.borrow_mut().try_wait().unwrap() {
            panic!("a load has ended before the test, {status}: {}", self.script);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        if let Ok(None) = child.try_wait() {
            let group = nix::unistd::Pid::from_raw(child.id() as i32);
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            let _ = child.wait();
            // Others of it need a CPU to die on, and may be bound to a busy one.
            let start = Instant::now();
            while nix::sys::signal::killpg(group, None).is_ok() {
                if start.elapsed() > Duration::from_secs(60) {
                    eprintln!("some of a load are still there after {:?}", start.elapsed());
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}

/// A process that never stops computing.
pub struct Hog(Child);

impl Hog {
    /// On those CPUs only (any, if none is named), with that niceness.
    pub fn start(cpus: &[usize], nice: i32) -> Self {
        Self::spawn(cpus, nice, "while :; do :; done")
    }

    /// One that is none: it starts a process every few milliseconds and waits for it.
    pub fn mostly_waiting() -> Self {
        Self::spawn(&[], 0, "while :; do sleep 0.003; done")
    }

    /// One that forks, and waits for it, all the time.
    pub fn forking() -> Self {
        Self::spawn(&[], 0, "while :; do (:); done")
    }

    fn spawn(cpus: &[usize], nice: i32, script: &str) -> Self {
        let mut set = nix::sched::CpuSet::new();
        for cpu in cpus {
            set.set(*cpu).unwrap();
        }
        let pinned = !cpus.is_empty();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        // SAFETY: both calls are plain system calls, allowed after a fork.
        unsafe {
            command.pre_exec(move || {
                if pinned {
                    nix::sched::sched_setaffinity(nix::unistd::Pid::from_raw(0), &set)?;
                }
                if nix::libc::nice(nice) == -1 && nice != -1 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        Self(command.spawn().unwrap())
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// How long it ran so far.
    pub fn ran(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.pid())).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }

    /// Its cgroup, its niceness and its CPUs, for messages.
    pub fn about(&self) -> String {
        let file = |name| fs::read_to_string(format!("/proc/{}/{name}", self.pid())).unwrap();
        let (cgroup, stat, status) = (file("cgroup"), file("stat"), file("status"));
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let nice = fields.split(' ').nth(16).unwrap();
        let cpus = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:\t"));
        format!("{} in {}, nice {nice}, CPUs {}", self.pid(), cgroup.trim(), cpus.unwrap())
    }

    /// The CPU that it ran on last.
    pub fn last_cpu(&self) -> usize {
        let text = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        // The name, in parentheses, may hold spaces; the CPU is field 39 of all.
        let (_, fields) = text.rsplit_once(") ").unwrap();
        fields.split(' ').nth(36).unwrap().parse().unwrap()
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
