//! The user's terminal, where the guest's command has it for its own.

use std::io::{IsTerminal, stdin, stdout};

use metasched_base::{Kind, Result, ResultExt};
use nix::libc;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use crate::spec::Size;

/// Whether there is one that somebody types at and reads.
pub fn is_there() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// Its size; none where it does not tell.
pub(crate) fn size() -> Option<Size> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the kernel writes a winsize, which lives as long as the call.
    let status = unsafe { libc::ioctl(libc::STDIN_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    let told = status == 0 && size.ws_row > 0 && size.ws_col > 0;
    told.then_some(Size { rows: size.ws_row, columns: size.ws_col })
}

/// As long as this lives, every key goes to the guest as it is: its own terminal makes lines and
/// signals of them.
pub(crate) struct Raw(Termios);

impl Raw {
    pub(crate) fn enter() -> Result<Self> {
        let attempt = || "hand the terminal to the guest".to_owned();
        let before = tcgetattr(stdin()).attempt(Kind::Failed, attempt)?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        // What was typed meanwhile is kept.
        tcsetattr(stdin(), SetArg::TCSANOW, &raw).attempt(Kind::Failed, attempt)?;
        Ok(Self(before))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), SetArg::TCSADRAIN, &self.0);
    }
}
