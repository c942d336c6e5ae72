//! Before the entry points of LLVM's runtime that start a parallel region; Intel's has the same.
//! LLVM's `kmp.h` declares them.
//!
//! `__kmpc_fork_call` takes any number of arguments, so nothing can call it again with what it got.
//! Ours jumps to it instead: all registers and the stack are as the program left them, and nothing
//! needs to be known of the arguments. Before that it tells the runtime the number of threads by
//! `__kmpc_push_num_threads`, which is how a compiler passes on a clause: it holds for the next
//! region of this thread and no longer. `omp_set_num_threads` would change what the program reads
//! by `omp_get_max_threads`, and would last.

use std::arch::naked_asm;
use std::cell::Cell;
use std::ffi::c_void;
use std::mem::transmute;

use crate::process::adapted;
use crate::real::{Real, Symbol, c_name};

thread_local! {
    /// What the clause of this thread's next region says.
    static CLAUSE: Cell<Clause> = const { Cell::new(Clause::None) };
    /// Whether it was decided already how many threads the next region gets.
    static DECIDED: Cell<bool> = const { Cell::new(false) };
}

#[derive(Clone, Copy)]
enum Clause {
    None,
    Threads(i32),
    /// It has numbers for several levels, or wants them exactly: such a region is left as it is.
    Other,
}

fn decide(real: &Real, place: *mut c_void) {
    let clause = match CLAUSE.replace(Clause::None) {
        Clause::None => None,
        Clause::Threads(threads) => u32::try_from(threads).ok().filter(|threads| *threads > 0),
        Clause::Other => return,
    };
    if let Some(runtime) = real.runtime
        && let Some(threads) = adapted(&runtime, clause)
    {
        // SAFETY: the place is the one that the runtime gets from the program.
        unsafe { runtime.push(place, threads) };
    }
}

/// Defines a function that calls `$hook` with its own first three arguments and the address of its
/// caller, and then jumps to what that returns, with all as it was.
macro_rules! stand_before {
    ($($name:ident: $hook:ident;)*) => {$(
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            extern "C" fn hook(
                place: *mut c_void, second: usize, third: usize, caller: *const c_void,
            ) -> usize {
                static SYMBOL: Symbol = Symbol::new(c_name!($name));
                let real = SYMBOL.find(caller);
                $hook(&real, place, second, third);
                real.entry
            }
            // The registers that may have arguments. `al` is the number of those that are in vector
            // registers, which is none: compilers pass pointers and numbers of their size. Seven
            // words after the return address leave the stack aligned as a call needs it.
            naked_asm!(
                "push rax",
                "push rdi",
                "push rsi",
                "push rdx",
                "push rcx",
                "push r8",
                "push r9",
                "mov rcx, [rsp + 56]",
                "call {hook}",
                "mov r11, rax",
                "pop r9",
                "pop r8",
                "pop rcx",
                "pop rdx",
                "pop rsi",
                "pop rdi",
                "pop rax",
                "jmp r11",
                hook = sym hook,
            )
        }
    )*};
}

stand_before! {
    __kmpc_fork_call: before_region;
    __kmpc_push_num_threads: before_clause;
    __kmpc_push_num_threads_strict: before_other_clause;
    __kmpc_push_num_threads_list: before_other_clause;
    __kmpc_push_num_threads_list_strict: before_other_clause;
    __kmpc_serialized_parallel: before_serial_region;
}

fn before_region(real: &Real, place: *mut c_void, _arguments: usize, _body: usize) {
    if !DECIDED.replace(false) {
        decide(real, place);
    }
}

fn before_clause(_real: &Real, _place: *mut c_void, _thread: usize, threads: usize) {
    // It is an int, and the upper half of the register may hold anything.
    CLAUSE.set(Clause::Threads(threads as i32));
}

fn before_other_clause(_real: &Real, _place: *mut c_void, _thread: usize, _numbers: usize) {
    CLAUSE.set(Clause::Other);
}

/// With an `if` that is false, the runtime forgets what was pushed.
fn before_serial_region(_real: &Real, _place: *mut c_void, _thread: usize, _third: usize) {
    CLAUSE.set(Clause::None);
}

type ForkCallIf = unsafe extern "C" fn(*mut c_void, i32, *mut c_void, i32, *mut c_void);

/// It calls `__kmpc_fork_call`, within the runtime or through us, by how that was linked. What was
/// decided here holds for both.
#[unsafe(no_mangle)]
unsafe extern "C" fn __kmpc_fork_call_if(
    place: *mut c_void,
    arguments: i32,
    body: *mut c_void,
    condition: i32,
    data: *mut c_void,
) {
    static SYMBOL: Symbol = Symbol::new(c_name!(__kmpc_fork_call_if));
    let real = SYMBOL.find(body);
    if condition == 0 {
        CLAUSE.set(Clause::None);
    } else {
        decide(&real, place);
        DECIDED.set(true);
    }
    // SAFETY: the runtime's function of this name has this type, and gets what the program gave us.
    unsafe {
        transmute::<usize, ForkCallIf>(real.entry)(place, arguments, body, condition, data);
    }
    DECIDED.set(false);
}
