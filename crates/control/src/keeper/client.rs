//! The other side of the socket: the client that gives the keeper an order.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use metasched_base::{Error, Interrupt, Kind, Result, ResultExt, format_duration};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, socket, sockopt,
};

use super::messages::{Answer, Order, SOCKET};
use crate::lock::lock_holder;

/// A keeper that says nothing for so long hangs, or is stopped. While it is at work it says so
/// twice a second, at a priority before that of all ordinary tasks.
const SILENCE: Duration = Duration::from_secs(4);

/// Between two tries to get in where too many others wait to be let in.
const RETRY: Duration = Duration::from_millis(20);

/// What came of an order.
#[derive(Debug)]
pub(super) enum Heard {
    /// The keeper's answer.
    Answer(Answer),
    /// There is no keeper.
    Nobody,
    /// It has ended without an answer.
    Ended,
    /// It says nothing. The process is known if it can be spoken to at all.
    Silent(Option<i32>),
    /// It is at other work, as it said last; told only to clients that ask for it.
    Busy(String, Duration),
}

/// Asks the keeper of this run folder; `None` when there is no keeper.
///
/// # Errors
/// What the keeper answers as one. `Timeout` when it says nothing for seconds; `Busy` when it
/// has been at other work for as long and only its status is asked for; `Interrupted` by a
/// signal; `Denied` without root.
pub fn ask(run_dir: &Path, order: &Order, interrupt: &Interrupt) -> Result<Option<Answer>> {
    let attempt = || order.describe();
    match converse(run_dir, order, interrupt)? {
        Heard::Nobody => Ok(None),
        Heard::Answer(Answer::Failed(failure)) => Err(failure.into()),
        Heard::Answer(answer) => Ok(Some(answer)),
        Heard::Ended => {
            Err(Error::new(Kind::Failed, attempt(), "the keeper ended without an answer").remedy(
                format!(
                    "'metasched status' and '{}' tell more",
                    run_dir.join("keeper.log").display()
                ),
            ))
        }
        Heard::Silent(_) => {
            let who = lock_holder(run_dir).map_or("the keeper".to_owned(), |owner| {
                format!("the keeper (process {}, '{}')", owner.id.pid, owner.command)
            });
            let cause = format!("{who} has not answered for {}", format_duration(SILENCE));
            Err(Error::new(Kind::Timeout, attempt(), cause)
                .remedy("'metasched stop' ends it all the same, and has EEVDF back"))
        }
        Heard::Busy(on, past) => {
            let cause = format!("the keeper has been at work for {}: {on}", format_duration(past));
            Err(Error::new(Kind::Busy, attempt(), cause).remedy("try again when that is done"))
        }
    }
}

/// Gives an order, and hears what comes of it.
pub(super) fn converse(run_dir: &Path, order: &Order, interrupt: &Interrupt) -> Result<Heard> {
    let attempt = || order.describe();
    let Some(mut stream) = get_in(&run_dir.join(SOCKET), order, interrupt)? else {
        return Ok(Heard::Nobody);
    };
    let Some(stream) = &mut stream else { return Ok(Heard::Silent(None)) };
    let peer = getsockopt(&*stream, sockopt::PeerCredentials).ok().map(|peer| peer.pid());
    let mut line = serde_json::to_string(order).attempt(Kind::Failed, attempt)?;
    line.push('\n');
    // An order is far shorter than what the socket takes at once.
    if stream.write_all(line.as_bytes()).is_err() {
        return Ok(Heard::Ended);
    }
    let (asked, mut heard) = (Instant::now(), Instant::now());
    let mut said = Vec::new();
    let mut block = [0; 16 * 1024];
    loop {
        let left = SILENCE.saturating_sub(heard.elapsed());
        if left.is_zero() {
            return Ok(Heard::Silent(peer));
        }
        wait(stream, interrupt, left);
        interrupted(order, interrupt)?;
        match stream.read(&mut block) {
            Ok(0) => return Ok(Heard::Ended),
            Ok(n) => said.extend(&block[..n]),
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                continue;
            }
            Err(_) => return Ok(Heard::Ended),
        }
        heard = Instant::now();
        while let Some(end) = said.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = said.drain(..=end).collect();
            let answer = serde_json::from_slice(&line).map_err(|e| {
                Error::new(Kind::Failed, attempt(), format!("the keeper's answer: {e}"))
                    .remedy("use the metasched of the same version as the keeper")
            })?;
            match answer {
                Answer::Working { on, for_ms } => {
                    if matches!(order, Order::Status) && asked.elapsed() >= SILENCE {
                        return Ok(Heard::Busy(on, Duration::from_millis(for_ms)));
                    }
                }
                answer => return Ok(Heard::Answer(answer)),
            }
        }
    }
}

/// A connection to the keeper: `None` where there is no keeper, `Some(None)` where one does not
/// let anybody in.
fn get_in(path: &Path, order: &Order, interrupt: &Interrupt) -> Result<Option<Option<UnixStream>>> {
    let attempt = || order.describe();
    let address = UnixAddr::new(path).attempt(Kind::Failed, attempt)?;
    let end = Instant::now() + SILENCE;
    loop {
        // Without waiting: where the queue is full, as a keeper that is stopped leaves it, the
        // kernel would have us wait for ever.
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket: OwnedFd = socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .attempt(Kind::Failed, attempt)?;
        match connect(socket.as_raw_fd(), &address) {
            Ok(()) => return Ok(Some(Some(UnixStream::from(socket)))),
            // A socket that nobody listens to was left by a keeper that was killed.
            Err(Errno::ENOENT | Errno::ECONNREFUSED) => return Ok(None),
            Err(Errno::EACCES | Errno::EPERM) => {
                let cause = format!("only root may speak to it at '{}'", path.display());
                return Err(Error::new(Kind::Denied, attempt(), cause).remedy("run it with sudo"));
            }
            Err(Errno::EAGAIN | Errno::EINTR) if Instant::now() < end => {
                interrupt.sleep(RETRY);
                interrupted(order, interrupt)?;
            }
            Err(Errno::EAGAIN | Errno::EINTR) => return Ok(Some(None)),
            Err(e) => return Err(e).attempt(Kind::Failed, attempt),
        }
    }
}

/// Waits until the keeper says something or a signal comes, at most so long.
fn wait(stream: &UnixStream, interrupt: &Interrupt, most: Duration) {
    let mut fds = [stream.as_fd(), interrupt.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let most = PollTimeout::try_from(most + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
    let _ = poll(&mut fds, most);
}

fn interrupted(order: &Order, interrupt: &Interrupt) -> Result<()> {
    if !interrupt.is_raised() {
        return Ok(());
    }
    let remedy = match order {
        Order::Status => "",
        _ => "the keeper may still carry it out: see 'metasched status'",
    };
    Err(Error::new(Kind::Interrupted, order.describe(), "interrupted").remedy(remedy))
}
