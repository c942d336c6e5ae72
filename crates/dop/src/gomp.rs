//! Before the entry points of GNU's runtime that start a parallel region. GCC's `libgomp_g.h`
//! declares them. All have the body, its data and the number of threads first; that number is the
//! one of the `num_threads` clause, 1 for an `if` that is false, and 0 without either.

use std::ffi::{c_long, c_uint, c_void};
use std::mem::transmute;

use crate::process::adapted;
use crate::real::{Real, Symbol, c_name};

type Body = unsafe extern "C" fn(*mut c_void);

/// The number of threads that the runtime is told.
fn told(real: &Real, said: c_uint) -> c_uint {
    let clause = (said > 0).then_some(said);
    let Some(runtime) = real.runtime else { return said };
    let threads = adapted(&runtime, clause);
    if threads == Some(1) {
        runtime.end_waiting_threads();
    }
    threads.unwrap_or(said)
}

macro_rules! start_regions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            body: Body, data: *mut c_void, threads: c_uint $(, $argument: $type)*
        ) $(-> $result)? {
            static SYMBOL: Symbol = Symbol::new(c_name!($name));
            // The body is in the file that calls.
            let real = SYMBOL.find(body as *const c_void);
            let threads = told(&real, threads);
            // SAFETY: the runtime's function of this name has this type, and gets what the program
            // gave us, but for the number of threads, which is any from 1 on.
            unsafe {
                let entry = transmute::<
                    usize,
                    unsafe extern "C" fn(Body, *mut c_void, c_uint $(, $type)*) $(-> $result)?,
                >(real.entry);
                entry(body, data, threads $(, $argument)*)
            }
        }
    )*};
}

start_regions! {
    GOMP_parallel(flags: c_uint);
    GOMP_parallel_reductions(flags: c_uint) -> c_uint;
    GOMP_parallel_sections(count: c_uint, flags: c_uint);
    GOMP_parallel_loop_static(
        first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_dynamic(
        first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_guided(
        first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_runtime(first: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_dynamic(
        first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_guided(
        first: c_long, end: c_long, step: c_long, chunk: c_long, flags: c_uint);
    GOMP_parallel_loop_nonmonotonic_runtime(
        first: c_long, end: c_long, step: c_long, flags: c_uint);
    GOMP_parallel_loop_maybe_nonmonotonic_runtime(
        first: c_long, end: c_long, step: c_long, flags: c_uint);

    // Programs of GCC before 4.9: the caller runs the body itself after these.
    GOMP_parallel_start();
    GOMP_parallel_sections_start(count: c_uint);
    GOMP_parallel_loop_static_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_dynamic_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_guided_start(first: c_long, end: c_long, step: c_long, chunk: c_long);
    GOMP_parallel_loop_runtime_start(first: c_long, end: c_long, step: c_long);
}
