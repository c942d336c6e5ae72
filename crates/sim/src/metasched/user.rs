//! Policies' halves in user space in the simulator: the driver's twin. It is no task: after its
//! delay it has decided, and the first CPU has lost what that takes.

use super::{global, lanes, tell_lanes};
use crate::kernel::Kernel;
use crate::load::Program;
use crate::ring::Reader;
use metasched_abi::{
    DECISIONS_MAX, DecisionResult, FAULTY_POLICIES, FromBytes, LANES_MAX, UserArgs, UserDecision,
    UserLane, UserMessage,
};
use metasched_scenario::Costs;
use metasched_userhalf::{Halves, half_of};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// What the process is called in the program; no task has that number.
const TGID: u32 = u32::MAX;

/// What the process works for each message: rustland's half takes 0.1 us natively, and the rest is
/// what takes a message out of the ring.
const DECISION_NS: u64 = 200;

/// The process decides for each policy that has a half, from the program's first lane of one on.
pub(super) fn with_user_half(program: Program) -> Program {
    Program { started: Arc::new(started), ..program }
}

fn started(kernel: &mut Kernel) {
    tell_lanes(kernel);
    kernel.ring.reader_starts = true;
    start_with_a_lane(kernel);
}

/// The process starts if it is to and there is a lane that it decides for.
pub(super) fn start_with_a_lane(kernel: &mut Kernel) {
    let half_by_number = |policy: u32| half_of(FAULTY_POLICIES[policy as usize].name);
    if kernel.ring.reader_starts
        && kernel.stays()
        && lanes(kernel).iter().any(|lane| half_by_number(lane.policy).is_some())
    {
        let Costs { ipi_most_ns, wake_ns, switch_ns, call_ns, .. } = kernel.machine.what_it_costs();
        // An interrupt wakes it; it reads, works, and calls.
        let delay_ns = ipi_most_ns + wake_ns + switch_ns + 2 * call_ns + DECISION_NS;
        start_user_half(kernel, delay_ns, Halves::new(half_by_number));
    }
}

/// A process decides for all lanes whose policies have a half in user space: it sees a message so
/// long after it came. It finds those that nobody has read.
pub fn start_user_half(kernel: &mut Kernel, delay_ns: u64, halves: Halves) {
    kernel.note("a half in user space starts");
    kernel.ring.reader_starts = false;
    let halves = Rc::new(RefCell::new(halves));
    kernel.ring.reader = Some(Reader { halves, act: Arc::new(serve), delay_ns });
    user_decide(kernel, &mut []);
    if !kernel.ring.is_empty() {
        kernel.ring_wakes();
    }
}

/// From now on it takes so long.
pub fn delay_user_half(kernel: &mut Kernel, ns: u64) {
    kernel.note(&format!("the half in user space takes {ns} ns"));
    if let Some(reader) = &mut kernel.ring.reader {
        reader.delay_ns = ns;
    }
}

/// It dies.
pub fn stop_user_half(kernel: &mut Kernel) {
    kernel.note("the half in user space dies");
    kernel.ring.reader = None;
}

/// What the process does when it is told of messages.
fn serve(kernel: &mut Kernel) {
    // It may have died meanwhile.
    let Some(halves) = kernel.ring.reader.as_ref().map(|reader| reader.halves.clone()) else {
        return;
    };
    let mut halves = halves.borrow_mut();
    let messages = user_messages(kernel);
    // To the process and back; what its last call costs is the program's.
    let Costs { switch_ns, call_ns, .. } = kernel.machine.what_it_costs();
    let decisions_ns = messages.len() as u64 * DECISION_NS;
    kernel.cost(kernel.first_active(), 2 * switch_ns + call_ns + decisions_ns);
    messages.iter().for_each(|message| halves.hear(message));
    while let Some(batch) = halves.decisions() {
        user_decide(kernel, batch);
        halves.answered();
    }
    if halves.again() {
        kernel.ring_wakes();
    }
}

/// The messages that nobody has read, which are taken.
pub fn user_messages(kernel: &mut Kernel) -> Vec<UserMessage> {
    let read = |bytes: Box<[u8]>| UserMessage::read_from_bytes(&bytes).expect("such a message");
    std::iter::from_fn(|| kernel.ring.take()).map(read).collect()
}

/// Hands decisions to the program, which says of each what became of it. With none it knows that
/// somebody is there.
///
/// # Panics
/// When there are more than one call takes.
pub fn user_decide(kernel: &mut Kernel, decisions: &mut [UserDecision]) -> Vec<DecisionResult> {
    if kernel.loaded().is_none() {
        return Vec::new();
    }
    assert!(decisions.len() <= DECISIONS_MAX, "{} decisions in one call", decisions.len());
    let shared = match kernel.image().required("user_decisions") {
        Ok(at) => at.cast::<UserDecision>(),
        Err(error) => {
            kernel.fail("user_decisions", error.to_string());
            return Vec::new();
        }
    };
    // SAFETY: the program has room for DECISIONS_MAX there, and does not run now.
    unsafe { shared.copy_from(decisions.as_ptr(), decisions.len()) };
    let mut args = UserArgs { decisions: decisions.len() as u32, tgid: TGID };
    match kernel.program("user_decide", [std::ptr::from_mut(&mut args) as u64, 0]) {
        Ok(0) => {}
        said => kernel.fail("user_decide", format!("it said {said:?}")),
    }
    // SAFETY: as above; the program has returned.
    unsafe { shared.copy_to(decisions.as_mut_ptr(), decisions.len()) };
    let result = |d: &UserDecision| DecisionResult::try_from(d.result).expect("one of those");
    decisions.iter().map(result).collect()
}

/// How the lane in that slot has met its half in user space.
pub fn user_lane(kernel: &mut Kernel, slot: u32) -> UserLane {
    let all: [UserLane; LANES_MAX] = global(kernel, "user_lanes");
    all[slot as usize]
}
