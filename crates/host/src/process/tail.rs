use std::collections::VecDeque;
use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// The last bytes that a process wrote, read by a thread of their own so that the
/// process never waits for us.
#[derive(Clone, Debug)]
pub(super) struct Tail(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    bytes: VecDeque<u8>,
    limit: usize,
    ended: bool,
}

impl Tail {
    /// Reads `from` to its end and keeps the last `limit` bytes.
    pub(super) fn follow(mut from: impl Read + Send + 'static, limit: usize) -> Self {
        let state = State { bytes: VecDeque::new(), limit, ended: false };
        let tail = Tail(Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new() }));
        let shared = Arc::clone(&tail.0);
        std::thread::spawn(move || {
            let mut block = [0; 4096];
            loop {
                match from.read(&mut block) {
                    Ok(0) => break,
                    Ok(n) => lock(&shared).push(&block[..n]),
                    Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
            lock(&shared).ended = true;
            shared.ended.notify_all();
        });
        tail
    }

    /// What was kept, as text. Waits up to `patience` for the end of the stream: what
    /// a process wrote just before it ended can still be in the pipe, but a
    /// grandchild may hold the pipe open for ever.
    pub(super) fn text(&self, patience: Duration) -> String {
        let (state, _) = self
            .0
            .ended
            .wait_timeout_while(lock(&self.0), patience, |state| !state.ended)
            .unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = state.bytes.iter().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl State {
    fn push(&mut self, block: &[u8]) {
        self.bytes.extend(block);
        let excess = self.bytes.len().saturating_sub(self.limit);
        self.bytes.drain(..excess);
    }
}

/// A poisoned lock means that a reader panicked between two whole operations on the
/// bytes, which are as good as before.
fn lock(shared: &Shared) -> std::sync::MutexGuard<'_, State> {
    shared.state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_bytes_are_kept() {
        let tail = Tail::follow(std::io::Cursor::new(vec![b'a'; 10_000]), 4096);
        assert_eq!(tail.text(Duration::from_secs(10)).len(), 4096);
        let tail = Tail::follow(std::io::Cursor::new(b"first\nlast\n"), 5);
        assert_eq!(tail.text(Duration::from_secs(10)), "last\n");
    }

    #[test]
    fn a_stream_that_stays_open_does_not_hold_us_up() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let tail = Tail::follow(reader, 100);
        std::io::Write::write_all(&mut writer, b"so far").unwrap();
        // The reading thread needs a moment; the stream itself never ends here.
        let mut text = String::new();
        for _ in 0..1000 {
            text = tail.text(Duration::from_millis(5));
            if !text.is_empty() {
                break;
            }
        }
        assert_eq!(text, "so far");
    }
}
