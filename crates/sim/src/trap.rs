//! What the machine itself objects to in native policy code: a pointer to nothing, a deleted
//! value of a map, a division that has no result. The verifier would have refused all of it;
//! here it ends the callback, and the run by name, and not the process with all its runs.
//!
//! The handler of such a signal looks whose code it was. If it was an image's, that goes on in
//! a function of its own, `trapped()` of `seam.c`, which tells the engine and leaves the
//! callback. Everything else is left to the handler that was there before.

use crate::kfuncs::{K, kernel};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Once, OnceLock};

/// Images at the same time that are looked after: a run has one, and a thread one run.
const IMAGES: usize = 1024;
const SIGNALS: [c_int; 3] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE];

/// `struct seam_trap` of `seam.c`.
#[repr(C)]
pub(crate) struct Trap {
    /// The image's code.
    from: usize,
    to: usize,
    /// Where it goes on.
    go: usize,
    /// The signal; 0 while there is none.
    signal: u64,
    address: u64,
}

/// One image's, so that a handler need not look into the memory of others.
struct Slot {
    /// How many images it was for: it may be another's from one look to the next.
    count: AtomicUsize,
    from: AtomicUsize,
    to: AtomicUsize,
    trap: AtomicPtr<Trap>,
}

impl Slot {
    /// Whether it is of the image whose code is at `at`, and which runs: so it is not reused
    /// meanwhile. The count is there for other slots: one that is reused between two of these reads
    /// would show the end of one image and the beginning of another, and all that lies between.
    /// `watch()` writes in the opposite order.
    fn covers(&self, at: usize) -> bool {
        let count = self.count.load(Ordering::Acquire);
        let to = self.to.load(Ordering::Acquire);
        let from = self.from.load(Ordering::Acquire);
        (from..to).contains(&at) && self.count.load(Ordering::Acquire) == count
    }
}

static SLOTS: [Slot; IMAGES] = [const {
    Slot {
        count: AtomicUsize::new(0),
        from: AtomicUsize::new(0),
        to: AtomicUsize::new(0),
        trap: AtomicPtr::new(ptr::null_mut()),
    }
}; IMAGES];

/// An image that is looked after.
pub(crate) struct Watched(Option<&'static Slot>);

/// Looks after an image from now on.
///
/// # Safety
/// `trap` must be an image's, and outlive what is returned.
pub(crate) unsafe fn watch(trap: *mut Trap) -> Watched {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(install);
    let free = |slot: &&Slot| {
        slot.trap
            .compare_exchange(ptr::null_mut(), trap, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    };
    let slot = SLOTS.iter().find(free);
    if let Some(slot) = slot {
        // SAFETY: the caller says that it is an image's, which does not run now.
        let Trap { from, to, .. } = unsafe { &*trap };
        slot.count.fetch_add(1, Ordering::AcqRel);
        slot.from.store(*from, Ordering::Release);
        slot.to.store(*to, Ordering::Release);
    }
    Watched(slot)
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.to.store(0, Ordering::Release);
            slot.trap.store(ptr::null_mut(), Ordering::Release);
        }
    }
}

/// The handlers that were there before, in the order of [`SIGNALS`].
static BEFORE: [OnceLock<libc::sigaction>; SIGNALS.len()] =
    [const { OnceLock::new() }; SIGNALS.len()];

fn install() {
    for (signal, before) in SIGNALS.iter().zip(&BEFORE) {
        // SAFETY: a zeroed sigaction is one without flags; the handler's type is what
        // SA_SIGINFO asks for.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut earlier: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            if libc::sigaction(*signal, &action, &mut earlier) == 0 {
                let _ = before.set(earlier);
            }
        }
    }
}

/// It does nothing that is not allowed at any point of a program.
unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: with SA_SIGINFO the kernel gives the context of what was interrupted.
    let at = unsafe { counter(context) };
    let trap = SLOTS.iter().find(|slot| slot.covers(at));
    let trap = trap.map(|slot| slot.trap.load(Ordering::Acquire));
    match trap {
        // SAFETY: it is this thread that runs the image's code, and it rests until we return: the
        // image stays, and nobody else looks at its trap. `info` and `context` are the kernel's for
        // us; `go` is a function of the image's that never returns, on a stack as after a call.
        Some(trap) if !trap.is_null() && unsafe { (*trap).signal } == 0 => unsafe {
            (*trap).signal = signal as u64;
            (*trap).address = (*info).si_addr() as u64;
            go_on_at(context, (*trap).go);
        },
        _ => {
            let of = SIGNALS.iter().position(|known| *known == signal);
            let before = of.and_then(|of| BEFORE[of].get());
            // It comes again, and there is nobody else who would end it.
            let before = before.map_or(ptr::null(), ptr::from_ref);
            // SAFETY: both calls are allowed in a handler, and `before` is null or in a static.
            unsafe {
                if before.is_null() {
                    libc::signal(signal, libc::SIG_DFL);
                } else {
                    libc::sigaction(signal, before, ptr::null_mut());
                }
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
unsafe fn counter(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller gives a handler's own context.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

/// With the stack as after a call: below what the function that was left may still use.
#[cfg(target_arch = "x86_64")]
unsafe fn go_on_at(context: *mut libc::ucontext_t, at: usize) {
    const RED_ZONE: i64 = 128;
    // SAFETY: the caller gives a handler's own context, of which nobody else has a reference.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    registers[libc::REG_RIP as usize] = at as i64;
    let stack = &mut registers[libc::REG_RSP as usize];
    *stack = ((*stack - RED_ZONE) & !15) - 8;
}

#[cfg(target_arch = "aarch64")]
unsafe fn counter(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller gives a handler's own context.
    unsafe { (*context).uc_mcontext.pc as usize }
}

#[cfg(target_arch = "aarch64")]
unsafe fn go_on_at(context: *mut libc::ucontext_t, at: usize) {
    // SAFETY: the caller gives a handler's own context, of which nobody else has a reference.
    let registers = unsafe { &mut (*context).uc_mcontext };
    registers.pc = at as u64;
    registers.sp &= !15;
}

/// Below this nothing is ever mapped: members of a struct at NULL.
const NULL_ENDS: u64 = 1 << 16;

/// Fails the run; the callback is left after that.
pub(crate) extern "C" fn trapped(k: K, signal: u64, address: u64) {
    let kernel = kernel(k);
    let callback = kernel.calls.context.callback;
    if signal == libc::SIGFPE as u64 {
        let what = "signed division without a result (BPF before v4 has no signed division)";
        return kernel.fail("arithmetic", format!("{what} (in {callback})"));
    }
    let what = match kernel.program.maps.deleted_of(address) {
        Some(map) => {
            let map = kernel.image().name_of(map);
            format!("a value of the map '{map}' is used after it was deleted")
        }
        // The processor does not say which address it was, where that cannot be one.
        None if address == 0 => {
            "a pointer that was never written, or to a deleted value, is followed".to_owned()
        }
        None if address < NULL_ENDS => "NULL dereference (the verifier would refuse it)".to_owned(),
        None => format!("a pointer to nothing is followed, {address:#x}"),
    };
    kernel.fail("memory", format!("{what} (in {callback})"));
}
