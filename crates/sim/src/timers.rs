//! BPF timers, in values of the program's maps. They live as long as their maps, which user
//! space may hold beyond the program's end: a timer that nobody stopped expires then too, and
//! what its callback calls there fails the run.

use crate::callbacks::Callback;
use crate::kernel::{Event, Kernel, May};
use crate::kfuncs::{EBUSY, EINVAL};
use std::ffi::c_void;

/// A timer expires so much too late at most, ns: what interrupts take natively.
const LATEST_NS: u64 = 50_000;

/// So much before its time a timer may expire in a gap: see [`Kernel::timers_come_in_gaps`].
const EARLY_NS: u64 = 1_000_000;

/// One that was initialised.
struct Timer {
    map: *mut c_void,
    /// The value of the map that it is, and that one's key.
    value: *mut c_void,
    key: Box<u32>,
    callback: *const c_void,
    /// Tells the time that it is set to from earlier ones; 0 where it is not set.
    armed: u64,
    /// The time that it is set to.
    at: u64,
    /// On which it was set.
    cpu: usize,
    /// It expires on no other.
    pinned: bool,
}

/// Those of one program.
#[derive(Default)]
pub(crate) struct Timers(Vec<Timer>);

impl Timers {
    fn find(&mut self, value: *mut c_void) -> Option<usize> {
        self.0.iter().position(|timer| timer.value == value)
    }
}

impl Kernel {
    /// 0, or an error as the helper gives it.
    pub(crate) fn timer_init(&mut self, map: *mut c_void, value: *mut c_void) -> Result<(), i32> {
        if self.program.timers.find(value).is_some() {
            return Err(EBUSY);
        }
        let key = self.program.maps.index_of(map, value).ok_or(EINVAL)?;
        let (key, callback) = (Box::new(key), std::ptr::null());
        self.program.timers.0.push(Timer {
            map,
            value,
            key,
            callback,
            armed: 0,
            at: 0,
            cpu: 0,
            pinned: false,
        });
        Ok(())
    }

    pub(crate) fn timer_set_callback(
        &mut self,
        value: *mut c_void,
        callback: *const c_void,
    ) -> Result<(), i32> {
        let at = self.program.timers.find(value).ok_or(EINVAL)?;
        self.program.timers.0[at].callback = callback;
        Ok(())
    }

    /// How often a timer of the program was set so far.
    pub fn timers_set(&self) -> u64 {
        self.clock.timers_set
    }

    /// Sets a timer, instead of what it was set to before.
    pub(crate) fn timer_start(
        &mut self,
        value: *mut c_void,
        at: u64,
        pinned: bool,
    ) -> Result<(), i32> {
        let place = self.program.timers.find(value).ok_or(EINVAL)?;
        self.clock.timers_set += 1;
        let (armed, cpu) = (self.clock.timers_set, self.calls.context.cpu);
        let timer = &mut self.program.timers.0[place];
        if timer.callback.is_null() {
            let why = "it calls nothing: it was never told what, or was stopped since";
            self.fail("refused", format!("bpf_timer_start of a timer: {why}"));
            return Err(EINVAL);
        }
        if self.interrupts_are_off("bpf_timer_start") {
            return Ok(());
        }
        let timer = &mut self.program.timers.0[place];
        (timer.armed, timer.cpu, timer.pinned) = (armed, cpu, pinned);
        let late_ns = self.random.within(0, LATEST_NS);
        let at = at.max(self.clock.now) + late_ns;
        self.program.timers.0[place].at = at;
        self.schedule_at(at, Event::Timer { place: place as u32, armed });
        Ok(())
    }

    /// Whether it was set.
    pub(crate) fn timer_cancel(&mut self, value: *mut c_void) -> Result<bool, i32> {
        let at = self.program.timers.find(value).ok_or(EINVAL)?;
        // As in the kernel, it forgets what to call, too.
        self.program.timers.0[at].callback = std::ptr::null();
        Ok(std::mem::take(&mut self.program.timers.0[at].armed) != 0)
    }

    /// A timer expires, unless it was set anew or stopped meanwhile.
    pub(crate) fn timer_expires(&mut self, place: usize, armed: u64) {
        if self.program.timers.0.get(place).is_some_and(|timer| timer.armed == armed) {
            self.timer_calls(place, May::Unlocked);
            if self.stays() {
                (self.program.timed.clone())(self);
            }
            return;
        }
        let Some(mut left) = self.load.left.take() else { return };
        if left.timers.0.get(place).is_some_and(|timer| timer.armed == armed) {
            std::mem::swap(&mut self.program, &mut left);
            self.timer_calls(place, May::Nothing);
            std::mem::swap(&mut self.program, &mut left);
        }
        self.load.left = Some(left);
    }

    /// From now on timers of other CPUs expire between an enqueue and its insert where they are
    /// nearly due. The kernel carries an insert out after the callback, so that anything may
    /// happen elsewhere meanwhile; here it is one step else.
    pub fn timers_come_in_gaps(&mut self) {
        self.clock.timers_in_gaps = true;
    }

    /// An enqueue on that CPU is over, and its insert is still to come.
    pub(crate) fn gap(&mut self, cpu: usize) {
        if !self.clock.timers_in_gaps {
            return;
        }
        let until = self.clock.now + EARLY_NS;
        let due = |timer: &Timer| timer.armed != 0 && timer.cpu != cpu && timer.at <= until;
        let places = self.program.timers.0.iter().enumerate().filter(|(_, timer)| due(timer));
        let places: Vec<_> = places.map(|(place, timer)| (place, timer.armed)).collect();
        for (place, armed) in places {
            self.timer_expires(place, armed);
        }
    }

    fn timer_calls(&mut self, place: usize, may: May) {
        let timer = &mut self.program.timers.0[place];
        timer.armed = 0;
        let args =
            [timer.map as u64, std::ptr::from_mut(&mut *timer.key) as u64, timer.value as u64];
        let (callback, cpu, pinned) = (timer.callback, timer.cpu, timer.pinned);
        if pinned {
            self.interrupted_idle(cpu);
        }
        let cpu = if self.cpus.active.has(cpu) { cpu } else { self.first_active() };
        self.call(callback, Callback::Timer, cpu, may, args);
    }
}
