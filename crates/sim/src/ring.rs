//! A BPF ring buffer and its reader: a function that is called after a delay.

use crate::kernel::{Act, Event, Kernel};
use metasched_userhalf::Halves;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::rc::Rc;

const EAGAIN: i64 = 11;
/// What the kernel puts before each message, which begins at a multiple of that.
const HEADER_BYTES: usize = 8;

/// The ring of a program.
#[derive(Default)]
pub(crate) struct Ring {
    map: usize,
    used: usize,
    messages: VecDeque<Box<[u8]>>,
    pub(crate) reader: Option<Reader>,
    /// Whoever has loaded the program starts a reader as soon as there is something to decide.
    pub(crate) reader_starts: bool,
}

/// User space that is told of messages.
pub(crate) struct Reader {
    /// The halves in user space, which decide.
    pub(crate) halves: Rc<RefCell<Halves>>,
    /// What it does.
    pub(crate) act: Act,
    /// So long after a message came to an empty ring.
    pub(crate) delay_ns: u64,
}

impl Ring {
    /// The oldest message, which is taken out.
    pub(crate) fn take(&mut self) -> Option<Box<[u8]>> {
        let message = self.messages.pop_front()?;
        self.used -= room(&message);
        Some(message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }
}

fn room(message: &[u8]) -> usize {
    HEADER_BYTES + message.len().next_multiple_of(HEADER_BYTES)
}

impl Kernel {
    /// 0, or an error where the ring is full.
    pub(crate) fn ring_output(&mut self, map: *mut c_void, size: usize, message: &[u8]) -> i64 {
        if self.ring.map != 0 && self.ring.map != map as usize {
            self.fail("refused", "a second ring buffer is not modelled");
            return -EAGAIN;
        }
        self.ring.map = map as usize;
        if self.ring.used + room(message) > size {
            return -EAGAIN;
        }
        if self.interrupts_are_off("bpf_ringbuf_output") {
            return 0;
        }
        let was_empty = self.ring.is_empty();
        self.ring.used += room(message);
        self.ring.messages.push_back(message.into());
        if was_empty {
            self.ring_wakes();
        }
        0
    }

    /// The reader is told that there are messages.
    pub(crate) fn ring_wakes(&mut self) {
        if let Some(Reader { act, delay_ns, .. }) = &self.ring.reader {
            self.schedule_at(self.clock.now + delay_ns, Event::Act(Box::new(act.clone())));
        }
    }
}
