//! The functions of the runtimes themselves, before which ours stand.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CStr, c_int, c_void};
use std::mem::{MaybeUninit, transmute};
use std::sync::OnceLock;

use crate::log::say;

/// Where a runtime may be that neither the program nor its caller is linked to.
const RUNTIMES: [&CStr; 4] = [c"libgomp.so.1", c"libomp.so.5", c"libomp.so", c"libiomp5.so"];

type Number = unsafe extern "C" fn() -> c_int;
type PauseResource = unsafe extern "C" fn(c_int, c_int) -> c_int;
type PushNumThreads = unsafe extern "C" fn(*mut c_void, i32, i32);
type GlobalThreadNum = unsafe extern "C" fn(*mut c_void) -> i32;

/// What a runtime says, and LLVM's is told.
#[derive(Clone, Copy)]
pub(crate) struct Runtime {
    max_threads: Number,
    active_level: Number,
    thread_limit: Number,
    /// What ends threads that wait for a region, and the number of the host that it takes.
    pause: Option<(PauseResource, Number)>,
    llvm: Option<(PushNumThreads, GlobalThreadNum)>,
}

impl Runtime {
    /// The runtime that has this function. A program may have several, so its other functions are
    /// looked for in the same file.
    fn of(entry: *mut c_void) -> Option<Runtime> {
        let file = open(file_of(entry)?)?;
        let number = |name| {
            // SAFETY: OpenMP says that these take nothing and return an int.
            symbol(file, name).map(|at| unsafe { transmute::<*mut c_void, Number>(at) })
        };
        let pause = symbol(file, c"omp_pause_resource").map(|at| {
            // SAFETY: OpenMP says that it takes a kind and a device, both ints, and returns an int.
            unsafe { transmute::<*mut c_void, PauseResource>(at) }
        });
        let push = symbol(file, c"__kmpc_push_num_threads");
        let thread = symbol(file, c"__kmpc_global_thread_num");
        Some(Runtime {
            max_threads: number(c"omp_get_max_threads")?,
            active_level: number(c"omp_get_active_level")?,
            thread_limit: number(c"omp_get_thread_limit")?,
            pause: pause.zip(number(c"omp_get_initial_device")),
            llvm: push.zip(thread).map(|(push, thread)| {
                // SAFETY: they are declared so in LLVM's kmp.h.
                unsafe {
                    (
                        transmute::<*mut c_void, PushNumThreads>(push),
                        transmute::<*mut c_void, GlobalThreadNum>(thread),
                    )
                }
            }),
        })
    }

    /// How many threads a region without a clause has now.
    pub fn max_threads(&self) -> u32 {
        // SAFETY: it may be called anywhere.
        u32::try_from(unsafe { (self.max_threads)() }).unwrap_or(1)
    }

    /// How many threads there may be in all.
    pub fn thread_limit(&self) -> u32 {
        // SAFETY: it may be called anywhere.
        u32::try_from(unsafe { (self.thread_limit)() }).unwrap_or(u32::MAX)
    }

    /// Whether the caller is in a region that has several threads.
    pub fn is_parallel(&self) -> bool {
        // SAFETY: it may be called anywhere.
        unsafe { (self.active_level)() > 0 }
    }

    /// Ends the threads that wait for the calling thread's next region. GNU's runtime ends those that a region leaves
    /// out, but where the region has one thread: then they would compute while they wait, if they are to, and take
    /// the CPUs from which the host is to see that there is room again.
    pub fn end_waiting_threads(&self) {
        // `omp_pause_soft` in omp.h.
        const SOFT: c_int = 1;
        if let Some((pause, host)) = self.pause {
            // SAFETY: it may be called anywhere, and does nothing within a region.
            unsafe { pause(SOFT, host()) };
        }
    }

    /// Has LLVM's runtime start the calling thread's next region with so many threads.
    ///
    /// # Safety
    ///
    /// `place` is what the caller of the runtime gave it.
    pub unsafe fn push(&self, place: *mut c_void, threads: u32) {
        if let (Some((push, thread)), Ok(threads)) = (self.llvm, i32::try_from(threads)) {
            // SAFETY: the runtime's own number of this thread, and a place that it is given anyway.
            unsafe { push(place, thread(place), threads) };
        }
    }
}

/// A function of a runtime, as the program would have called it without us.
#[derive(Clone, Copy)]
pub(crate) struct Real {
    /// Where it is, as a number, so that threads may share it.
    pub entry: usize,
    /// Nothing if the runtime lacks a function that we need: then it is left alone.
    pub runtime: Option<Runtime>,
}

/// The name of a function that starts regions.
pub(crate) struct Symbol {
    name: &'static CStr,
    /// What it is for all of the program, if it is the same for all.
    global: OnceLock<Real>,
}

thread_local! {
    /// What it is for a caller, by the name and that.
    static OF_CALLERS: RefCell<HashMap<(usize, usize), Real>> = RefCell::default();
}

impl Symbol {
    /// Of the name that `name` is, which ends with a zero.
    pub const fn new(name: &'static CStr) -> Symbol {
        Symbol { name, global: OnceLock::new() }
    }

    /// The function that is called if somebody at the address `caller` calls this name.
    ///
    /// A program that is linked to a runtime has one for all. One that loads libraries as it runs,
    /// as Python does, may have several, each known only to the libraries that are linked to it.
    /// All of these come to us.
    pub fn find(&self, caller: *const c_void) -> Real {
        if let Some(real) = self.global.get() {
            return *real;
        }
        let key = (self.name.as_ptr() as usize, caller as usize);
        let known = OF_CALLERS.try_with(|known| known.borrow().get(&key).copied());
        if let Ok(Some(real)) = known {
            return real;
        }
        if let Some(entry) = symbol(libc::RTLD_NEXT, self.name) {
            return *self.global.get_or_init(|| Real::at(entry));
        }
        let Some(entry) = self.of_caller(caller).or_else(|| self.of_a_known_runtime()) else {
            let name = self.name.to_string_lossy();
            say(&format!(
                "cannot start a parallel region: no OpenMP runtime that is loaded has {name}; \
                 run the program without libmetasched_dop.so"
            ));
            std::process::abort();
        };
        let real = Real::at(entry);
        // A thread that ends looks again.
        let _ = OF_CALLERS.try_with(|known| known.borrow_mut().insert(key, real));
        real
    }

    fn of_caller(&self, caller: *const c_void) -> Option<*mut c_void> {
        symbol(open(file_of(caller)?)?, self.name)
    }

    fn of_a_known_runtime(&self) -> Option<*mut c_void> {
        RUNTIMES.iter().find_map(|file| symbol(open(file)?, self.name))
    }
}

impl Real {
    fn at(entry: *mut c_void) -> Real {
        Real { entry: entry as usize, runtime: Runtime::of(entry) }
    }
}

/// The file from which the code at this address was loaded.
fn file_of(address: *const c_void) -> Option<&'static CStr> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: any address may be asked for. What is found is filled in if the answer is not 0, and
    // its name lives as long as the file is loaded, which `open` sees to.
    unsafe {
        if libc::dladdr(address, found.as_mut_ptr()) == 0 {
            return None;
        }
        let name = found.assume_init().dli_fname;
        (!name.is_null()).then(|| CStr::from_ptr(name))
    }
}

/// A file that is loaded already. It stays so, since what is found in it is kept.
fn open(file: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name ends with a zero, and nothing is loaded that was not.
    let file = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    (!file.is_null()).then_some(file)
}

/// A function of a file, or of those that it is linked to.
fn symbol(file: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the file is open or one of dlsym's own, and the name ends with a zero.
    let found = unsafe { libc::dlsym(file, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// The name of a function in C.
macro_rules! c_name {
    ($name:ident) => {
        match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
            Ok(name) => name,
            Err(_) => unreachable!(),
        }
    };
}
pub(crate) use c_name;
