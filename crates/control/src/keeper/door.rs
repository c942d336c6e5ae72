//! Where the keeper's clients come in.
//!
//! A thread of its own hears their orders out, so that a client which is slow or says nothing
//! holds up nobody. To those who wait while the keeper is at work it says so again and again:
//! a client can then tell work that takes long from a keeper that hangs.

use std::collections::VecDeque;
use std::fs::{DirBuilder, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use metasched_base::{Error, Kind, Result, ResultExt};
use metasched_host::process::run_first;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::socket::{MsgFlags, send};

use super::messages::Answer;

/// How often a client that waits is told that the keeper is at work.
const BEAT: Duration = Duration::from_millis(500);

/// How long a client may take to say what it wants, and to take the answer.
const CLIENT_PATIENCE: Duration = Duration::from_secs(2);

/// No order is longer; more is not from us.
const LINE_BYTES: usize = 64 * 1024;

/// So many clients are heard at once; more of them wait to be let in.
const HEARD_AT_ONCE: usize = 64;

/// So many clients may wait for an answer; more of them are told to come again. Each takes an
/// open file.
pub(super) const WAITING_MOST: usize = 64;

/// What the keeper is at, and for how long that may take. What takes longer hangs, and then
/// nobody is told any more that the keeper is at work.
#[derive(Debug)]
struct Work {
    on: String,
    since: Instant,
    bound: Duration,
}

type SharedWork = Arc<Mutex<Option<Work>>>;

/// The keeper's side of the door.
#[derive(Debug)]
pub(super) struct Door {
    path: PathBuf,
    calls: Arc<Calls>,
    work: SharedWork,
    /// Closing it ends the thread.
    open: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

/// The calls that nobody has served yet.
#[derive(Debug)]
struct Calls {
    queue: Mutex<VecDeque<Call>>,
    /// Readable while there are some. It holds one number, so nobody ever waits to ring it.
    bell: EventFd,
}

impl Calls {
    fn new() -> Result<Self, Errno> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        Ok(Self { queue: Mutex::default(), bell: EventFd::from_flags(flags)? })
    }

    /// Puts a call at the end.
    fn push(&self, call: Call) {
        let mut queue = lock(&self.queue);
        queue.push_back(call);
        let _ = self.bell.write(1);
    }

    /// The first call, if there is one.
    fn next(&self) -> Option<Call> {
        let mut queue = lock(&self.queue);
        let call = queue.pop_front();
        self.hush(&queue);
        call
    }

    /// Forgets those whose clients have gone: they may have come again since.
    fn forget_who_went(&self) {
        let mut queue = lock(&self.queue);
        queue.retain(|call| !call.has_gone());
        self.hush(&queue);
    }

    fn hush(&self, queue: &VecDeque<Call>) {
        if queue.is_empty() {
            let _ = self.bell.read();
        }
    }
}

/// An order of a client that waits for the answer.
#[derive(Debug)]
pub(super) struct Call {
    /// The order, a line.
    pub(super) line: String,
    client: Arc<Mutex<UnixStream>>,
}

impl Call {
    /// Whether its client has closed the connection.
    fn has_gone(&self) -> bool {
        let client = lock(&self.client);
        let mut fd = [PollFd::new(client.as_fd(), PollFlags::empty())];
        // A closed connection is told of unasked.
        poll(&mut fd, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
    }

    /// Answers, and lets the client go.
    pub(super) fn answer(self, answer: &Answer) {
        if let Ok(mut text) = serde_json::to_string(answer) {
            text.push('\n');
            // A client that did not wait does not need to know.
            let _ = lock(&self.client).write_all(text.as_bytes());
        }
    }
}

impl Door {
    /// Opens the door at `path`, to ourselves only.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let attempt = || format!("listen at '{}'", path.display());
        let listener = listen(path).attempt(Kind::Failed, attempt)?;
        let (open, closed) = UnixStream::pair().attempt(Kind::Failed, attempt)?;
        let calls = Arc::new(Calls::new().attempt(Kind::Failed, attempt)?);
        let work = SharedWork::default();
        let doorman = Doorman {
            closed,
            calls: Arc::clone(&calls),
            work: Arc::clone(&work),
            waiting: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("door".to_owned())
            .spawn(move || doorman.attend(&listener))
            .attempt(Kind::Failed, attempt)?;
        let (open, thread) = (Some(open), Some(thread));
        Ok(Self { path: path.to_owned(), calls, work, open, thread })
    }

    /// The next call, if there is one: when the door, as a descriptor, is readable.
    pub(super) fn next(&self) -> Option<Call> {
        self.calls.next()
    }

    /// Says what the keeper is at from now on, until the guard goes.
    pub(super) fn at_work(&self, on: &str, bound: Duration) -> AtWork {
        *lock(&self.work) = Some(Work { on: on.to_owned(), since: Instant::now(), bound });
        AtWork(Arc::clone(&self.work))
    }
}

/// While it lives, clients are told that the keeper is at work.
#[derive(Debug)]
pub(super) struct AtWork(SharedWork);

impl Drop for AtWork {
    fn drop(&mut self) {
        *lock(&self.0) = None;
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.calls.bell.as_fd()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
        self.open = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket has the mode that the umask leaves it until it gets another. So it is made in a
/// folder that is closed to others, and comes to its place when it is closed itself.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let folder = path.with_extension("new");
    // A killed keeper left this socket: the caller holds the lock.
    let _ = std::fs::remove_dir_all(&folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = folder.join("socket");
    let listener = UnixListener::bind(&made)?;
    std::fs::set_permissions(&made, Permissions::from_mode(0o600))?;
    std::fs::rename(&made, path)?;
    std::fs::remove_dir(&folder)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The thread's side.
struct Doorman {
    closed: UnixStream,
    calls: Arc<Calls>,
    work: SharedWork,
    /// Clients that wait for an answer.
    waiting: Vec<Weak<Mutex<UnixStream>>>,
}

/// A client that has not said all yet.
struct Caller {
    stream: UnixStream,
    said: Vec<u8>,
    since: Instant,
}

/// How far a client has got.
enum Said {
    Part,
    All,
    Nothing,
}

impl Doorman {
    fn attend(mut self, listener: &UnixListener) {
        // Without the privilege clients are told late under load.
        let _ = run_first(1);
        let mut callers: Vec<Caller> = Vec::new();
        let mut next_beat = Instant::now();
        loop {
            let idle = callers.is_empty() && self.waiting.is_empty();
            if !self.wait(listener, &callers, if idle { None } else { Some(BEAT) }) {
                return;
            }
            if idle {
                // Most orders are served before there is anything to tell.
                next_beat = Instant::now() + BEAT;
            }
            if callers.len() < HEARD_AT_ONCE
                && let Ok((stream, _)) = listener.accept()
                && stream.set_nonblocking(true).is_ok()
            {
                callers.push(Caller { stream, said: Vec::new(), since: Instant::now() });
            }
            for mut caller in std::mem::take(&mut callers) {
                match caller.hear() {
                    Said::Part => callers.push(caller),
                    Said::All => self.announce(caller),
                    Said::Nothing => {}
                }
            }
            self.waiting.retain(|client| client.strong_count() > 0);
            if Instant::now() >= next_beat {
                self.calls.forget_who_went();
                self.tell_who_waits();
                next_beat = Instant::now() + BEAT;
            }
        }
    }

    /// Waits until something is to be done, at most so long; false when the door is closed.
    fn wait(&self, listener: &UnixListener, callers: &[Caller], most: Option<Duration>) -> bool {
        let mut fds = vec![self.closed.as_fd()];
        fds.extend(callers.iter().map(|caller| caller.stream.as_fd()));
        if callers.len() < HEARD_AT_ONCE {
            fds.push(listener.as_fd());
        }
        let mut fds: Vec<PollFd> =
            fds.into_iter().map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        let most = most.map_or(PollTimeout::NONE, |most| (most.as_millis() as u16).into());
        // Interrupted by a signal counts as nothing to do.
        let _ = poll(&mut fds, most);
        !fds[0].any().unwrap_or(false)
    }

    /// Hands an order to the keeper.
    fn announce(&mut self, caller: Caller) {
        let Caller { stream, said, .. } = caller;
        // Only writing may take time from now on, and not for ever.
        let set = stream
            .set_nonblocking(false)
            .and_then(|()| stream.set_write_timeout(Some(CLIENT_PATIENCE)));
        if set.is_err() {
            return;
        }
        if self.waiting.len() >= WAITING_MOST {
            let cause = format!("{WAITING_MOST} others wait for it already");
            let busy = Error::new(Kind::Busy, "give the keeper an order", cause)
                .remedy("try again when it has done its work");
            say(&stream, &Answer::Failed(busy.into()));
            return;
        }
        let client = Arc::new(Mutex::new(stream));
        self.waiting.push(Arc::downgrade(&client));
        self.calls.push(Call { line: String::from_utf8_lossy(&said).into_owned(), client });
    }

    fn tell_who_waits(&self) {
        let work = lock(&self.work);
        let Some(Work { on, since, bound }) = work.as_ref() else { return };
        let past = since.elapsed();
        if past >= *bound {
            return;
        }
        let for_ms = past.as_millis() as u64;
        let working = Answer::Working { on: on.clone(), for_ms };
        for client in self.waiting.iter().filter_map(Weak::upgrade) {
            // Where the answer is on its way nothing is to be said any more.
            if let Ok(stream) = client.try_lock() {
                say(&stream, &working);
            }
        }
    }
}

/// Sends a client a message without waiting: one that does not read misses it.
fn say(stream: &UnixStream, answer: &Answer) {
    if let Ok(mut text) = serde_json::to_string(answer) {
        text.push('\n');
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let _ = send(stream.as_raw_fd(), text.as_bytes(), flags);
    }
}

impl Caller {
    /// Takes in what the client has said by now.
    fn hear(&mut self) -> Said {
        let mut block = [0; 4096];
        loop {
            match self.stream.read(&mut block) {
                Ok(0) => return Said::Nothing,
                Ok(n) => self.said.extend(&block[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    let late = self.since.elapsed() >= CLIENT_PATIENCE;
                    return if late { Said::Nothing } else { Said::Part };
                }
                Err(_) => return Said::Nothing,
            }
            if self.said.contains(&b'\n') {
                return Said::All;
            }
            if self.said.len() > LINE_BYTES {
                return Said::Nothing;
            }
        }
    }
}

/// What a thread that panicked left is as good as before: it is replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
