//! The driver of policies' halves in user space: messages up by a ring buffer, decisions down by
//! a system-call program.
//!
//! It may be a thread, and is better a process: [`UserFiles`] are what a child needs, and go
//! down to it. Put it into a cgroup with a lane of its own, whose policy has no such half.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::rc::Rc;
use std::time::Duration;

use libbpf_rs::{MapHandle, MapInfo, RingBuffer, RingBufferBuilder};
use metasched_abi::{
    DECISIONS_MAX, FromBytes, IntoBytes, UserArgs, UserDecision, UserLane, UserMessage,
};
use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::Spawn;
use metasched_userhalf::Halves;
use rustix::io::fcntl_getfd;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::program::Program;
use crate::syscalls::run_program;

/// Where a process finds the numbers of its [`UserFiles`].
const VARIABLE: &str = "METASCHED_USER_HALF";
/// How long it waits for messages before it says that it is there. The kernel leaves tasks to a
/// half only while it hears of it, so one that slept too long is heard of so much later.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// What the driver needs of a program that is loaded.
#[derive(Debug)]
pub struct UserFiles {
    messages: OwnedFd,
    decisions: OwnedFd,
    decide: OwnedFd,
}

impl UserFiles {
    /// Has a process find them, by [`UserFiles::inherited`].
    ///
    /// # Errors
    /// `Failed` where this process may open no more files.
    pub fn pass_to(&self, spawn: Spawn) -> Result<Spawn> {
        let again = |file: &OwnedFd| {
            file.try_clone().attempt(Kind::Failed, || "pass files on to a process".to_owned())
        };
        let [messages, decisions, decide] =
            [again(&self.messages)?, again(&self.decisions)?, again(&self.decide)?];
        let numbers = [&messages, &decisions, &decide].map(|file| file.as_raw_fd().to_string());
        let spawn = spawn.env(VARIABLE, numbers.join(","));
        Ok(spawn.keep(messages).keep(decisions).keep(decide))
    }

    /// Those that the parent has passed on. To be called once.
    ///
    /// # Errors
    /// `BadInput` where it has passed none.
    pub fn inherited() -> Result<Self> {
        let said = std::env::var(VARIABLE).unwrap_or_default();
        let numbers: Vec<RawFd> = said.split(',').filter_map(|n| n.parse().ok()).collect();
        let open = |number: &RawFd| {
            // SAFETY: it reads a flag; a number that is no file's is an error. -1 is none.
            *number >= 0 && fcntl_getfd(unsafe { BorrowedFd::borrow_raw(*number) }).is_ok()
        };
        let &[messages, decisions, decide] = numbers.as_slice() else {
            return Err(not_passed(format!("{VARIABLE} is '{said}'")));
        };
        if !numbers.iter().all(open) {
            return Err(not_passed(format!("{VARIABLE} names files that are not open: {said}")));
        }
        // SAFETY: they are open, and the parent has left them to this process.
        let [messages, decisions, decide] =
            [messages, decisions, decide].map(|number| unsafe { OwnedFd::from_raw_fd(number) });
        Ok(UserFiles { messages, decisions, decide })
    }
}

fn not_passed(cause: String) -> Error {
    Error::new(Kind::BadInput, "decide for a policy in user space", cause)
        .remedy("the process that has loaded the program starts it")
}

/// Asks the halves and hands their decisions to the kernel.
pub struct UserDriver {
    ring: RingBuffer<'static>,
    halves: Rc<RefCell<Halves>>,
    decide: OwnedFd,
    shared: Shared,
}

/// The decisions, in the program's memory.
struct Shared {
    at: *mut UserDecision,
    bytes: usize,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and nobody else has the address.
        let _ = unsafe { munmap(self.at.cast(), self.bytes) };
    }
}

impl UserDriver {
    /// From now on the kernel may ask these.
    ///
    /// # Errors
    /// `Failed` where the kernel refuses.
    pub fn new(files: UserFiles, halves: Halves) -> Result<Self> {
        let attempt = || "decide for a policy in user space".to_owned();
        let halves = Rc::new(RefCell::new(halves));
        let heard = Rc::clone(&halves);
        let map = MapInfo::new(files.messages.as_fd())
            .and_then(|info| MapHandle::from_map_id(info.info.id))
            .attempt(Kind::Failed, attempt)?;
        let mut ring = RingBufferBuilder::new();
        ring.add(&map, move |bytes| {
            if let Ok(message) = UserMessage::read_from_bytes(bytes) {
                heard.borrow_mut().hear(&message);
            }
            0
        })
        .attempt(Kind::Failed, attempt)?;
        let ring = ring.build().attempt(Kind::Failed, attempt)?;
        let shared = Shared::of(&files.decisions).attempt(Kind::Failed, attempt)?;
        let mut driver = UserDriver { ring, halves, decide: files.decide, shared };
        driver.call(&mut [])?;
        Ok(driver)
    }

    /// Waits for messages, a tenth of a second at most, and decides.
    ///
    /// # Errors
    /// `SchedulerExit` where the program has left the kernel.
    pub fn serve(&mut self) -> Result<()> {
        let wait = if self.halves.borrow_mut().again() { Duration::ZERO } else { HEARTBEAT };
        match self.ring.poll(wait) {
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => {
                return Err(error).attempt(Kind::Failed, || "read the kernel's messages".into());
            }
            _ => {}
        }
        let halves = Rc::clone(&self.halves);
        let mut halves = halves.borrow_mut();
        let mut said = false;
        while let Some(batch) = halves.decisions() {
            self.call(batch)?;
            halves.answered();
            said = true;
        }
        if said { Ok(()) } else { self.call(&mut []) }
    }

    /// Hands over so many, and notes what became of each.
    fn call(&mut self, batch: &mut [UserDecision]) -> Result<()> {
        let attempt = || "hand decisions to the kernel".to_owned();
        // SAFETY: so many are mapped, and a batch has no more.
        unsafe { ptr::copy_nonoverlapping(batch.as_ptr(), self.shared.at, batch.len()) };
        let args = UserArgs { decisions: batch.len() as u32, tgid: std::process::id() };
        let status =
            run_program(self.decide.as_fd(), args.as_bytes()).attempt(Kind::Failed, attempt)?;
        if status != 0 {
            let cause = "the program has left the kernel";
            return Err(Error::new(Kind::SchedulerExit, attempt(), cause));
        }
        // SAFETY: the same.
        unsafe { ptr::copy_nonoverlapping(self.shared.at, batch.as_mut_ptr(), batch.len()) };
        Ok(())
    }
}

impl Shared {
    fn of(map: &OwnedFd) -> io::Result<Self> {
        let bytes = DECISIONS_MAX * size_of::<UserDecision>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, of a map that holds as much.
        let at = unsafe { mmap(ptr::null_mut(), bytes, access, MapFlags::SHARED, map, 0)? };
        Ok(Shared { at: at.cast(), bytes })
    }
}

impl Program {
    /// What a driver needs that decides for the policies that have a half in user space.
    ///
    /// # Errors
    /// `Failed` where there are too many files open.
    pub fn user_files(&self) -> Result<UserFiles> {
        let own = |file: std::os::fd::BorrowedFd<'_>| {
            file.try_clone_to_owned().attempt(Kind::Failed, || "start a half in user space".into())
        };
        let (maps, programs) = (self.maps(), self.programs());
        Ok(UserFiles {
            messages: own(maps.user_messages.as_fd())?,
            decisions: own(maps.bss_user.as_fd())?,
            decide: own(programs.user_decide.as_fd())?,
        })
    }

    /// How the lane in a slot has met its half in user space.
    pub fn user_lane(&self, slot: u32) -> UserLane {
        self.variables().user_lane(slot as usize)
    }
}
