//! What keys mean.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// To end.
    Quit,
    /// To the row above.
    Up,
    /// To the row below.
    Down,
    /// To look into a row, or to take what is chosen.
    Enter,
    /// Away from what lies over the list.
    Back,
    /// By the next figure.
    Sort,
    /// The other way round.
    Reverse,
    /// Stand still, or go on.
    Pause,
    /// Show the keys.
    Help,
    /// Another policy.
    Policy,
    /// Another weight.
    Weight,
    /// Take back what was changed last.
    Undo,
    /// A digit of a number.
    Digit(char),
    /// Take the last digit away.
    Erase,
}

/// The keys and what they do, as the help shows them.
pub const HELP: &[(&str, &str)] = &[
    ("up, down, k, j", "select a row"),
    ("Enter", "look into it: its tasks, and what its policy counts"),
    ("Esc, left", "back to the list"),
    ("s", "sort by the next column; after the last, as they come"),
    ("r", "sort the other way round"),
    ("p", "another policy for the selected lane"),
    ("w", "another weight for the selected lane"),
    ("u", "take back what was changed last"),
    ("space", "stand still, or go on"),
    ("?", "these keys"),
    ("q, Ctrl-C", "end"),
];

/// What a key means; in a number letters mean nothing.
pub fn of(key: KeyEvent, in_number: bool) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Quit);
    }
    Some(match key.code {
        KeyCode::Enter | KeyCode::Right => Key::Enter,
        KeyCode::Esc | KeyCode::Left => Key::Back,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Backspace => Key::Erase,
        KeyCode::Char(digit) if digit.is_ascii_digit() => Key::Digit(digit),
        KeyCode::Char(_) if in_number => return None,
        KeyCode::Char('q') => Key::Quit,
        KeyCode::Char('k') => Key::Up,
        KeyCode::Char('j') => Key::Down,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char('r') => Key::Reverse,
        KeyCode::Char('p') => Key::Policy,
        KeyCode::Char('w') => Key::Weight,
        KeyCode::Char('u') => Key::Undo,
        KeyCode::Char(' ') => Key::Pause,
        KeyCode::Char('?' | 'h') => Key::Help,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_nothing_in_a_number_and_ctrl_c_always_ends() {
        let key = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE);
        assert_eq!(of(key('q'), false), Some(Key::Quit));
        assert_eq!((of(key('q'), true), of(key('7'), true)), (None, Some(Key::Digit('7'))));
        let ctrl = |c| KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL);
        assert_eq!((of(ctrl('c'), true), of(ctrl('q'), false)), (Some(Key::Quit), None));
    }
}
