//! Frees lanes that were replaced, in a thread of its own.
//!
//! The kernel program cannot do it: before a queue may be destroyed, every
//! callback that could still use it must have ended, and only user space can
//! wait for that. Meanwhile level 1 takes its slow path, so this must be prompt,
//! and cost nothing while there is nothing to free: the thread sleeps until a
//! lane is replaced.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use metasched_abi::{IntoBytes, LANES_MAX, LaneState, ReapArgs};
use metasched_host::process::run_first;

use crate::freed::Freed;
use crate::syscalls::{run_program, wait_for_callbacks};
use crate::variables::Variables;

/// The first look after a replacement; a drain takes some milliseconds.
const FIRST_LOOK: Duration = Duration::from_millis(5);
/// The pace at which it settles while a lane does not get empty, or while
/// nothing runs that could be a new lane's first task.
const SLOWEST_LOOK: Duration = Duration::from_millis(50);
/// Where neither all CPUs can be visited nor the kernel gives a grace period (it
/// refuses with nohz_full), this long is waited instead. Callbacks run with interrupts off; a CPU that keeps
/// them off for so long is reported as locked up.
const GRACE_WITHOUT_HELP: Duration = Duration::from_secs(10);

/// What the reaper needs from the loaded program.
pub(crate) struct Lanes {
    /// The program `reap`.
    pub reap: OwnedFd,
    /// Held while lanes are changed: the kernel side takes one caller at a time.
    pub lock: Arc<Mutex<()>>,
    pub variables: Variables,
    /// Told of every slot that was freed.
    pub freed: Arc<Freed>,
}

/// The thread; ends when it is dropped.
pub(crate) struct Reaper {
    wake: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Reaper {
    pub(crate) fn start(lanes: Lanes) -> io::Result<Self> {
        let (wake, woken) = channel();
        let thread =
            Builder::new().name("lane-reaper".into()).spawn(move || serve(&lanes, &woken))?;
        Ok(Reaper { wake: Some(wake), thread: Some(thread) })
    }

    /// Says that there is a lane to free, or a first run to wait for.
    pub(crate) fn wake(&self) {
        if let Some(wake) = &self.wake {
            // It fails only if the thread has ended, and then nothing can be done.
            let _ = wake.send(());
        }
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.wake.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(lanes: &Lanes, woken: &Receiver<()>) {
    // Without the privilege it is slower under load, and nothing else.
    let _ = run_first(1);
    let mut graces = 0;
    while woken.recv().is_ok() {
        let mut pause = FIRST_LOOK;
        loop {
            match woken.recv_timeout(pause) {
                Ok(()) => pause = FIRST_LOOK,
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(SLOWEST_LOOK),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            match free_what_is_empty(lanes, &mut graces) {
                Ok(0) => break,
                Ok(_) => {}
                // The program has left the kernel: its lanes went with it.
                Err(_) => return,
            }
        }
    }
}

/// Takes every lane that is empty through to its end; how many are not yet done
/// with. While none is empty that is one call of a program: a grace period, which
/// makes every CPU change tasks, is waited for only if there is something to gain.
/// `graces` counts those that were waited for.
fn free_what_is_empty(lanes: &Lanes, graces: &mut u64) -> io::Result<i32> {
    loop {
        let (left, waits) = reap(lanes, *graces)?;
        if waits == 0 {
            return Ok(left);
        }
        if wait_for_callbacks().is_err() {
            std::thread::sleep(GRACE_WITHOUT_HELP);
        }
        *graces += 1;
    }
}

/// Moves lanes on: how many are left, and how many of them wait for a grace period.
fn reap(lanes: &Lanes, graces: u64) -> io::Result<(i32, u32)> {
    let _one_caller = lanes.lock.lock().unwrap_or_else(|e| e.into_inner());
    // A state that is not known is neither; Program::lanes() reports it.
    let is = |slot: usize, state| matches!(lanes.variables.lane_state(slot), Ok(is) if is == state);
    let retired: Vec<usize> = (0..LANES_MAX).filter(|slot| is(*slot, LaneState::Retired)).collect();
    let left = run_program(lanes.reap.as_fd(), ReapArgs { graces }.as_bytes())?;
    if left < 0 {
        return Err(io::Error::from_raw_os_error(-left));
    }
    for slot in retired.into_iter().filter(|slot| is(*slot, LaneState::Free)) {
        lanes.freed.keep(lanes.variables, slot as u32);
    }
    // How many it has left for after the next grace period.
    Ok((left, lanes.variables.reap_waits()))
}
