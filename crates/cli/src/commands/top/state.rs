//! What is shown, and what keys make of it.

use std::collections::{BTreeMap, VecDeque};

use metasched_watch::{DEFAULT_LANE, Look, ROW_FIGURES, Row, Task};
use ratatui::crossterm::event::KeyEvent;

use super::act::Change;
use super::keys::{self, Key};

/// So many looks back goes the picture of waits.
pub const HISTORY: usize = 60;

/// Everything that a picture is made of.
#[derive(Default)]
pub struct State {
    /// The last look; none before the first.
    pub look: Option<Look>,
    /// p99 of the waits at each look, of each row by its key; the system's has none.
    pub history: BTreeMap<String, VecDeque<u64>>,
    /// The key of the row that is selected.
    pub selected: Option<String>,
    /// By which of the figures rows stand; none: as they come.
    pub sort: Option<usize>,
    /// Whether the least comes first.
    pub ascending: bool,
    /// Whether the picture stands still.
    pub paused: bool,
    /// What lies over the list.
    pub view: View,
    /// Threads of the row that is looked into.
    pub tasks: Vec<Task>,
    /// What the last order came to.
    pub message: Option<Result<String, String>>,
    /// What was changed, the last one last, with what takes it back.
    undo: Vec<Change>,
}

/// What is on the screen beside the list of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum View {
    /// Nothing else.
    #[default]
    List,
    /// The tasks of a row and what its policy counts.
    Inside,
    /// What keys do.
    Help,
    /// A new policy is being chosen, of these.
    Policy { choices: Vec<String>, at: usize },
    /// A new weight is being written.
    Weight { text: String },
}

/// What a key asks of those who look.
#[derive(Debug, PartialEq)]
pub enum Asked {
    /// To end.
    Quit,
    /// To change something.
    Order(Change),
    /// To take back what was changed last, by this.
    TakeBack(Change),
}

impl State {
    /// Takes in another look.
    pub fn take(&mut self, look: Look) {
        let p99 = |waits: Option<&metasched_stats::WaitHistogram>| {
            waits.and_then(|waits| waits.percentile_ns(0.99)).unwrap_or(0)
        };
        let mut now: BTreeMap<String, u64> =
            look.rows.iter().map(|row| (row.key.clone(), p99(row.waits.as_ref()))).collect();
        now.insert(String::new(), p99(look.waits.as_ref()));
        // Those that are gone leave nothing behind.
        self.history.retain(|key, _| now.contains_key(key));
        for (key, value) in now {
            let history = self.history.entry(key).or_default();
            history.push_back(value);
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
        self.look = Some(look);
        let rows = self.rows();
        let there = self.selected.as_ref().is_some_and(|key| rows.iter().any(|r| r.key == *key));
        if !there {
            let first = rows.first().map(|row| row.key.clone());
            self.selected = first;
            if self.view != View::Help {
                self.view = View::List;
            }
        }
    }

    /// The rows in the order in which they are shown.
    pub fn rows(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.look.iter().flat_map(|look| &look.rows).collect();
        if let Some(figure) = self.sort.and_then(|at| ROW_FIGURES.get(at)) {
            // What was not measured comes last, whichever way.
            let value = |row: &Row| (figure.of)(row);
            rows.sort_by(|a, b| match (value(a), value(b)) {
                (Some(a), Some(b)) if self.ascending => a.total_cmp(&b),
                (Some(a), Some(b)) => b.total_cmp(&a),
                (a, b) => b.is_some().cmp(&a.is_some()),
            });
        }
        rows
    }

    /// The row that is selected.
    pub fn row(&self) -> Option<&Row> {
        let key = self.selected.as_ref()?;
        self.look.as_ref()?.rows.iter().find(|row| row.key == *key)
    }

    /// The row whose tasks are looked at: its key, its cgroups, and those that are not in it. Of the
    /// default lane all but those of the others.
    pub fn looked_into(&self) -> Option<(String, Vec<String>, Vec<String>)> {
        let row = self.row().filter(|_| self.view == View::Inside)?;
        let look = self.look.as_ref()?;
        let others = || look.rows.iter().filter(|other| other.key != row.key);
        let without = match look.lanes {
            true => others().flat_map(|other| other.cgroups.clone()).collect(),
            false => Vec::new(),
        };
        Some((row.key.clone(), row.cgroups.clone(), without))
    }

    /// Whether the row is the default lane.
    pub fn is_default(row: &Row) -> bool {
        row.policy.is_some() && row.name == DEFAULT_LANE && row.cgroups.is_empty()
    }

    /// What an order came to: what was done, and what takes that back.
    pub fn done(&mut self, done: Result<(String, Change), String>) {
        self.message = Some(done.map(|(said, back)| {
            self.undo.push(back);
            said
        }));
    }

    /// What came of taking back. Where that failed it can be tried again.
    pub fn taken_back(&mut self, done: Result<(String, Change), String>) {
        self.message = Some(done.map(|(said, _)| {
            self.undo.pop();
            format!("taken back: {said}")
        }));
    }

    /// What a key asks for.
    pub fn key(&mut self, key: KeyEvent) -> Option<Asked> {
        let key = keys::of(key, matches!(self.view, View::Weight { .. }))?;
        self.message = None;
        if key == Key::Quit {
            return Some(Asked::Quit);
        }
        match self.view.clone() {
            View::List | View::Inside => self.key_in_list(key),
            View::Help => {
                self.view = View::List;
                None
            }
            View::Policy { choices, at } => self.key_in_policies(key, choices, at),
            View::Weight { text } => self.key_in_weight(key, text),
        }
    }

    fn key_in_list(&mut self, key: Key) -> Option<Asked> {
        match key {
            Key::Up => self.move_by(-1),
            Key::Down => self.move_by(1),
            Key::Enter if self.row().is_some() => {
                self.tasks.clear();
                self.view = View::Inside;
            }
            Key::Back => self.view = View::List,
            Key::Sort => {
                let next = self.sort.map_or(0, |at| at + 1);
                self.sort = (next < ROW_FIGURES.len()).then_some(next);
            }
            Key::Reverse => self.ascending = !self.ascending,
            Key::Pause => self.paused = !self.paused,
            Key::Help => self.view = View::Help,
            Key::Policy => self.begin_policy(),
            Key::Weight => match self.row() {
                Some(row) if row.policy.is_some() && !Self::is_default(row) => {
                    self.view = View::Weight { text: String::new() };
                }
                _ => self.refuse("only the lane of an application has a weight to be changed"),
            },
            Key::Undo => match self.undo.last() {
                Some(change) => return Some(Asked::TakeBack(change.clone())),
                None => self.refuse("nothing was changed here that could be taken back"),
            },
            _ => {}
        }
        None
    }

    fn refuse(&mut self, why: &str) {
        self.message = Some(Err(why.to_owned()));
    }

    fn begin_policy(&mut self) {
        let Some(now) = self.row().and_then(|row| row.policy.clone()) else {
            self.refuse("cgroups have no policies under this scheduler: metasched start vtime");
            return;
        };
        let loaded: Vec<&str> =
            self.look.iter().flat_map(|look| &look.policies).map(String::as_str).collect();
        let choices: Vec<String> = metasched_loader::variants()
            .filter(|policy| loaded.contains(&policy.preset_of.unwrap_or(policy.name)))
            .map(|policy| policy.name.to_owned())
            .collect();
        let at = choices.iter().position(|name| *name == now).unwrap_or(0);
        self.view = View::Policy { choices, at };
    }

    fn key_in_policies(&mut self, key: Key, choices: Vec<String>, at: usize) -> Option<Asked> {
        let last = choices.len().saturating_sub(1);
        let at = match key {
            Key::Up => at.saturating_sub(1),
            Key::Down => (at + 1).min(last),
            Key::Enter => {
                self.view = View::List;
                let row = self.row()?;
                let cgroups = row.cgroups.clone();
                let policy = choices.get(at)?.clone();
                return Some(Asked::Order(Change::Policy { cgroups, policy }));
            }
            Key::Back => {
                self.view = View::List;
                return None;
            }
            _ => at,
        };
        self.view = View::Policy { choices, at };
        None
    }

    fn key_in_weight(&mut self, key: Key, mut text: String) -> Option<Asked> {
        match key {
            Key::Digit(digit) if text.len() < 5 => text.push(digit),
            Key::Erase => {
                text.pop();
            }
            Key::Back => {
                self.view = View::List;
                return None;
            }
            Key::Enter => {
                self.view = View::List;
                let cgroups = self.row()?.cgroups.clone();
                return match text.parse() {
                    Ok(weight) => Some(Asked::Order(Change::Weight { cgroups, weight })),
                    Err(_) => None,
                };
            }
            _ => {}
        }
        self.view = View::Weight { text };
        None
    }

    fn move_by(&mut self, by: isize) {
        let keys: Vec<String> = self.rows().iter().map(|row| row.key.clone()).collect();
        let at = self.selected.as_ref().and_then(|key| keys.iter().position(|k| k == key));
        let at = at.unwrap_or(0).saturating_add_signed(by).min(keys.len().saturating_sub(1));
        self.selected = keys.get(at).cloned();
    }
}
