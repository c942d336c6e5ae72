//! The guest's console: kept, shown, and read for what went wrong.

use std::collections::VecDeque;

/// How many lines an error quotes: a kernel's panic with its call trace fits.
pub const TAIL_LINES: usize = 30;

/// The last lines of a console.
#[derive(Debug, Default)]
pub struct Tail {
    lines: VecDeque<String>,
    partial: Vec<u8>,
}

impl Tail {
    /// Takes what the console printed next.
    pub fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end_line(),
                b'\r' => {}
                _ => self.partial.push(byte),
            }
        }
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.partial).trim_end().to_owned();
        self.partial.clear();
        if line.is_empty() {
            return;
        }
        self.lines.push_back(line);
        // What the panic itself says stands above its call trace.
        if self.lines.len() > 4 * TAIL_LINES {
            self.lines.pop_front();
        }
    }

    /// The line in which the kernel says why it died, if it did.
    pub fn cause_of_death(&self) -> Option<&str> {
        const SIGNS: [&str; 5] = [
            "Kernel panic - not syncing",
            "Oops:",
            "BUG: ",
            "testbed: cannot",
            "general protection fault",
        ];
        let find = |sign: &str| self.lines.iter().find(|l| l.contains(sign));
        // What comes first in time is the cause, but a panic's own line says most.
        SIGNS.iter().find_map(|sign| find(sign)).map(|line| line.trim())
    }

    /// Whether one of its last lines holds that text.
    pub fn shows(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }

    /// The last lines, indented, for an error message.
    pub fn quote(&self) -> String {
        let mut lines: Vec<String> = self.lines.iter().cloned().collect();
        let rest = String::from_utf8_lossy(&self.partial);
        if !rest.trim().is_empty() {
            lines.push(rest.trim_end().to_owned());
        }
        if lines.is_empty() {
            return "the console shows nothing".to_owned();
        }
        let from = lines.len().saturating_sub(TAIL_LINES);
        format!("the console's last lines:\n  {}", lines[from..].join("\n  "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_keeps_the_last_lines_and_an_unfinished_one() {
        let mut tail = Tail::default();
        for i in 0..1000 {
            tail.push(format!("line {i}\r\n").as_bytes());
        }
        tail.push(b"half a l");
        tail.push(b"ine");
        let quote = tail.quote();
        assert!(quote.ends_with("  line 999\n  half a line"), "{quote}");
        assert_eq!(quote.lines().count(), TAIL_LINES + 1);
    }

    #[test]
    fn the_cause_of_death_is_the_panics_own_line() {
        let mut tail = Tail::default();
        assert_eq!(tail.cause_of_death(), None);
        tail.push(b"[1.0] Oops: int3: 0000 [#1]\n");
        assert_eq!(tail.cause_of_death(), Some("[1.0] Oops: int3: 0000 [#1]"));
        tail.push(b"[1.1] Kernel panic - not syncing: Fatal exception\n");
        assert_eq!(
            tail.cause_of_death(),
            Some("[1.1] Kernel panic - not syncing: Fatal exception")
        );
    }

    #[test]
    fn an_empty_console_says_so() {
        assert_eq!(Tail::default().quote(), "the console shows nothing");
    }
}
