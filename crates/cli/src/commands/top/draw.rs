//! The picture on the terminal.

use metasched_base::brief_time;
use metasched_watch::{Look, ROW_FIGURES, Row, TASK_FIGURES, Task};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Clear, Paragraph, Row as TableRow, Table};

use super::keys::HELP;
use super::state::{State, View};

/// From nothing to the longest wait of the row's own history.
const SPARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A name gets so many places, and so many a policy.
const NAME: u16 = 24;
const POLICY: u16 = 14;

/// The history of waits has at least so many, where there is room.
const SPARKS_LEAST: u16 = 20;

/// Columns that go first where there is no room, the first one first.
const LEAVE_OUT: [&str; 8] = [
    "quota",
    "preemptions_per_s",
    "wait_max_ns",
    "waits_per_s",
    "weight",
    "wait_p50_ns",
    "throttled",
    "queued",
];

/// Who is in force, and what looking costs.
pub fn headline(look: &Look) -> String {
    let rows = match (look.lanes, look.rows.len()) {
        (true, 1) => "lane",
        (true, _) => "lanes",
        (false, 1) => "cgroup",
        (false, _) => "cgroups",
    };
    let overhead = look.overhead.map_or("looking: not traced".to_owned(), |overhead| {
        format!("looking takes {:.2} % of the CPUs' time", overhead.share * 100.0)
    });
    format!("{}  {} {rows}  {overhead}", look.scheduler, look.rows.len())
}

/// What the whole system does.
pub fn waits_line(look: &Look) -> String {
    let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}/s"));
    let time = |q: f64| {
        let waits = look.waits.as_ref().and_then(|waits| waits.percentile_ns(q));
        waits.map_or("-".to_owned(), |ns| brief_time(ns as f64))
    };
    format!(
        "wake-ups {}  switches {}  waits p50 {} p99 {} longest {}",
        rate(look.wakeups_per_s),
        rate(look.switches_per_s),
        time(0.5),
        time(0.99),
        time(1.0)
    )
}

/// Draws it all.
pub fn draw(frame: &mut Frame, state: &mut State) {
    let below =
        if state.view == View::Inside { Constraint::Percentage(50) } else { Constraint::Length(0) };
    let [head, list, inside, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(3), below, Constraint::Length(1)])
            .areas(frame.area());
    match &state.look {
        None => frame.render_widget(Paragraph::new("the first look takes a moment ..."), head),
        Some(look) => {
            let mut first = vec![Span::from(headline(look)).bold()];
            if state.paused {
                first.push(Span::from("  (stands still)").fg(Color::Yellow));
            }
            let sparks = state.history.get("").map_or(String::new(), |history| {
                sparkline(&history.iter().copied().collect::<Vec<_>>(), 30)
            });
            let second = Line::from(format!("{}  {sparks}", waits_line(look)));
            frame.render_widget(Paragraph::new(vec![Line::from(first), second]), head);
        }
    }
    rows(frame, list, state);
    if state.view == View::Inside {
        looked_into(frame, inside, state);
    }
    frame.render_widget(footline(state), foot);
    match &state.view {
        View::Help => help(frame, state),
        View::Policy { choices, at } => policies(frame, choices, *at),
        View::Weight { text } => weight(frame, text),
        View::List | View::Inside => {}
    }
}

/// The figures that there is room for.
fn columns(width: u16) -> Vec<usize> {
    // Of a title or a value, and what is between columns.
    let wide = |at: &usize| ROW_FIGURES[*at].title.len().max(8) as u16 + 1;
    let mut shown: Vec<usize> = (0..ROW_FIGURES.len()).collect();
    let fixed = NAME + 1 + POLICY + 1 + SPARKS_LEAST.min(width / 6);
    for name in LEAVE_OUT {
        if fixed + shown.iter().map(wide).sum::<u16>() <= width {
            break;
        }
        shown.retain(|at| ROW_FIGURES[*at].name != name);
    }
    shown
}

fn rows(frame: &mut Frame, area: Rect, state: &State) {
    let shown = columns(area.width);
    let title = |at: &usize| {
        let mark = match (state.sort == Some(*at), state.ascending) {
            (false, _) => "",
            (true, false) => "▼",
            (true, true) => "▲",
        };
        Cell::from(format!("{}{mark}", ROW_FIGURES[*at].title))
    };
    let first = if state.look.as_ref().is_some_and(|look| !look.lanes) { "CGROUP" } else { "APP" };
    let header = [Cell::from(first), Cell::from("POLICY")]
        .into_iter()
        .chain(shown.iter().map(title))
        .chain([Cell::from("P99 OF THE LAST MINUTE")]);
    let all = state.rows();
    let selected = all.iter().position(|row| state.selected.as_ref() == Some(&row.key));
    // As many as fit, with the selected one among them.
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    let from = selected.map_or(0, |at| (at + 1).saturating_sub(room));
    let line = |(at, row): (usize, &&Row)| {
        let name = cut(&row.name, usize::from(NAME));
        let policy = row.policy.clone().unwrap_or_else(|| "-".to_owned());
        let history = state.history.get(&row.key).map_or(String::new(), |history| {
            sparkline(&history.iter().copied().collect::<Vec<_>>(), 60)
        });
        let cells = [name, policy]
            .into_iter()
            .chain(shown.iter().map(|at| ROW_FIGURES[*at].text(row)))
            .chain([history]);
        let style = match selected == Some(at) {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        TableRow::new(cells.map(Cell::from)).style(style)
    };
    let lines = all.iter().enumerate().skip(from).take(room).map(line);
    let widths = [Constraint::Length(NAME), Constraint::Length(POLICY)]
        .into_iter()
        .chain(
            shown.iter().map(|at| Constraint::Length(ROW_FIGURES[*at].title.len().max(8) as u16)),
        )
        .chain([Constraint::Min(0)]);
    let table = Table::new(lines, widths)
        .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)));
    frame.render_widget(table, area);
}

/// The tasks of a row, and what its policy counts.
fn looked_into(frame: &mut Frame, area: Rect, state: &State) {
    let Some(row) = state.row() else { return };
    let block = Block::bordered().title(format!(" {} ", row.name));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let counted = row.counters.len().min(usize::from(inner.height / 2)) as u16;
    let [tasks, counters] =
        Layout::vertical([Constraint::Min(2), Constraint::Length(counted)]).areas(inner);
    let header = [Cell::from("THREAD"), Cell::from("TID")]
        .into_iter()
        .chain(TASK_FIGURES.iter().map(|figure| Cell::from(figure.title)));
    let line = |task: &Task| {
        let cells = [task.name.clone(), task.tid.to_string()];
        let figures = TASK_FIGURES.iter().map(|figure| figure.text(task));
        TableRow::new(cells.into_iter().chain(figures).map(Cell::from))
    };
    let lines = state.tasks.iter().take(usize::from(tasks.height)).map(line);
    let widths = [Constraint::Length(16), Constraint::Length(8)].into_iter().chain(
        TASK_FIGURES.iter().map(|figure| Constraint::Length(figure.title.len().max(8) as u16)),
    );
    let table = Table::new(lines, widths)
        .header(TableRow::new(header).style(Style::new().add_modifier(Modifier::BOLD)));
    frame.render_widget(table, tasks);
    let lines = row.counters.iter().map(|(name, help, count)| {
        Line::from(format!("{:>9.0}/s  {name}: {help}", *count as f64 / row.seconds.max(1e-9)))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), counters);
}

fn footline(state: &State) -> Line<'static> {
    match &state.message {
        Some(Ok(said)) => Line::from(said.clone()).fg(Color::Green),
        Some(Err(said)) => Line::from(said.clone()).fg(Color::Red),
        None => Line::from(
            "q end  Enter look in  s sort  p policy  w weight  u undo  space stand still  ? help",
        )
        .fg(Color::DarkGray),
    }
}

/// A box in the middle that covers what is below it.
fn popup(frame: &mut Frame, title: &str, width: u16, height: u16) -> Rect {
    let all = frame.area();
    let (width, height) = (width.min(all.width), height.min(all.height));
    let area = Rect {
        x: all.x + (all.width - width) / 2,
        y: all.y + (all.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered().title(format!(" {title} "));
    let inner = block.inner(area);
    frame.render_widget(Clear, area);
    frame.render_widget(block, area);
    inner
}

fn help(frame: &mut Frame, state: &State) {
    let mut lines: Vec<Line> =
        HELP.iter().map(|(keys, what)| Line::from(format!("{keys:<16}{what}"))).collect();
    lines.push(Line::from(""));
    lines.extend(
        columns(frame.area().width)
            .into_iter()
            .map(|at| Line::from(format!("{:<16}{}", ROW_FIGURES[at].title, ROW_FIGURES[at].help))),
    );
    if let Some(sorted) = state.sort.and_then(|at| ROW_FIGURES.get(at)) {
        lines.push(Line::from(format!("sorted by {}", sorted.title)));
    }
    let area = popup(frame, "any key goes back", 84, lines.len() as u16 + 2);
    frame.render_widget(Paragraph::new(lines), area);
}

fn policies(frame: &mut Frame, choices: &[String], at: usize) {
    let area = popup(frame, "policy, Enter takes it", 34, choices.len() as u16 + 2);
    let room = usize::from(area.height).max(1);
    let lines =
        choices.iter().enumerate().skip((at + 1).saturating_sub(room)).map(|(place, name)| {
            let line = Line::from(name.clone());
            if place == at { line.reversed() } else { line }
        });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
}

fn weight(frame: &mut Frame, text: &str) {
    let area = popup(frame, "weight, 1 to 10000", 34, 3);
    frame.render_widget(Paragraph::new(format!("{text}_")), area);
}

/// The last values, the largest as the tallest.
fn sparkline(values: &[u64], most: usize) -> String {
    let shown = &values[values.len().saturating_sub(most)..];
    let top = shown.iter().copied().max().unwrap_or(0).max(1);
    let last = SPARKS.len() as u64 - 1;
    let spark =
        |value: &u64| SPARKS[(u128::from(*value) * u128::from(last) / u128::from(top)) as usize];
    shown.iter().map(spark).collect()
}

/// A name of at most so many letters: what it ends with tells it from others.
fn cut(name: &str, most: usize) -> String {
    let letters: Vec<char> = name.chars().collect();
    if letters.len() <= most {
        return name.to_owned();
    }
    format!("..{}", letters[letters.len() - (most - 2)..].iter().collect::<String>())
}

#[cfg(test)]
pub mod tests {
    use super::super::act::Change;
    use super::super::state::Asked;
    use super::*;
    use metasched_stats::WaitHistogram;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    pub fn look() -> Look {
        let waits = |us: u64| {
            let mut waits = WaitHistogram::default();
            (0..100).for_each(|i| waits.add(us * 1000 + i));
            Some(waits)
        };
        let row = |key: &str, name: &str, got: f64, us: u64| Row {
            key: key.to_owned(),
            name: name.to_owned(),
            policy: Some("vtime".to_owned()),
            weight: Some(100),
            got: Some(got),
            waits: waits(us),
            seconds: 1.0,
            ..Row::default()
        };
        let mut front = row("1", "front", 0.75, 50);
        front.cgroups = vec!["app.slice/front.service".to_owned()];
        front.counters = vec![("enqueued".to_owned(), "tasks that were enqueued", 12)];
        Look {
            scheduler: "vtime".to_owned(),
            lanes: true,
            length_ns: 1_000_000_000,
            wakeups_per_s: Some(1234.0),
            switches_per_s: Some(2345.0),
            waits: waits(80),
            overhead: None,
            policies: vec!["vtime".to_owned(), "ioprio".to_owned()],
            rows: vec![row("0", "default", 0.25, 400), front],
        }
    }

    fn screen(state: &mut State, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y) + "\n").collect()
    }

    fn press(state: &mut State, codes: &[KeyCode]) -> Option<Asked> {
        let key = |code: &KeyCode| KeyEvent::new(*code, KeyModifiers::NONE);
        codes.iter().map(|code| state.key(key(code))).last().flatten()
    }

    #[test]
    fn the_screen_has_who_is_in_force_the_rows_and_the_keys_at_any_size() {
        let mut state = State::default();
        assert!(screen(&mut state, 80, 24).contains("the first look"));
        state.take(look());
        let wide = screen(&mut state, 200, 24);
        for words in [
            "vtime  2 lanes",
            "wake-ups 1234/s",
            "default",
            "front",
            "75.0 %",
            "THROTTLED",
            "q end",
        ] {
            assert!(wide.contains(words), "{words}: {wide}");
        }
        let narrow = screen(&mut state, 80, 24);
        assert!(narrow.contains("GOT") && !narrow.contains("QUOTA"), "{narrow}");
        // No size makes it fail.
        for (width, height) in [(1, 1), (10, 3), (40, 5), (500, 100)] {
            for view in [View::List, View::Inside, View::Help, View::Weight { text: "5".into() }] {
                state.view = view;
                screen(&mut state, width, height);
            }
        }
    }

    #[test]
    fn rows_are_sorted_by_each_figure_and_what_was_not_measured_comes_last() {
        let mut state = State::default();
        state.take(look());
        let names = |state: &State| -> Vec<String> {
            state.rows().iter().map(|row| row.name.clone()).collect()
        };
        assert_eq!(names(&state), ["default", "front"]);
        let got = ROW_FIGURES.iter().position(|figure| figure.name == "got").unwrap();
        press(&mut state, &vec![KeyCode::Char('s'); got + 1]);
        assert_eq!(names(&state), ["front", "default"]);
        assert!(screen(&mut state, 120, 10).contains("GOT▼"));
        press(&mut state, &[KeyCode::Char('r')]);
        assert_eq!(names(&state), ["default", "front"]);
        state.look.as_mut().unwrap().rows[0].got = None;
        assert_eq!(names(&state), ["front", "default"]);
        press(&mut state, &vec![KeyCode::Char('s'); ROW_FIGURES.len() - got]);
        assert_eq!(state.sort, None);
    }

    #[test]
    fn a_row_is_looked_into_with_its_tasks_and_what_its_policy_counts() {
        let mut state = State::default();
        state.take(look());
        assert_eq!(state.looked_into(), None);
        press(&mut state, &[KeyCode::Enter]);
        // The default lane has all that the others have not.
        let others = vec!["app.slice/front.service".to_owned()];
        assert_eq!(state.looked_into(), Some(("0".into(), vec![], others.clone())));
        press(&mut state, &[KeyCode::Esc, KeyCode::Down, KeyCode::Enter]);
        assert_eq!(state.looked_into(), Some(("1".into(), others, vec![])));
        state.tasks = vec![Task { name: "nginx".into(), tid: 77, cpus: 0.5, ..Task::default() }];
        let text = screen(&mut state, 120, 30);
        for words in ["nginx", "77", "50.0 %", "12/s  enqueued: tasks that were enqueued"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        // A row that is gone closes it.
        let mut gone = look();
        gone.rows.pop();
        state.take(gone);
        assert_eq!((&state.view, state.selected.as_deref()), (&View::List, Some("0")));
    }

    #[test]
    fn a_policy_and_a_weight_are_asked_for_and_taken_back() {
        let mut state = State::default();
        state.take(look());
        assert_eq!(press(&mut state, &[KeyCode::Char('u')]), None);
        assert!(state.message.as_ref().unwrap().is_err());
        // Only applications have a weight of their own.
        press(&mut state, &[KeyCode::Char('w')]);
        assert_eq!(state.view, View::List);
        press(&mut state, &[KeyCode::Down, KeyCode::Char('p')]);
        let choices = screen(&mut state, 100, 30);
        // What was not loaded no lane can have; a preset can be had with its policy.
        assert!(choices.contains("no-starvation") && !choices.contains("bpfland"), "{choices}");
        let Some(Asked::Order(Change::Policy { cgroups, policy })) =
            press(&mut state, &[KeyCode::Down, KeyCode::Enter])
        else {
            panic!("no order")
        };
        assert_eq!(cgroups, ["app.slice/front.service"]);
        assert_ne!(policy, "vtime");
        let weight =
            [KeyCode::Char('w'), KeyCode::Char('3'), KeyCode::Char('x'), KeyCode::Char('0')];
        press(&mut state, &weight);
        assert!(screen(&mut state, 100, 30).contains("30_"));
        let asked = press(&mut state, &[KeyCode::Enter]);
        assert!(
            matches!(asked, Some(Asked::Order(Change::Weight { weight: 30, .. }))),
            "{asked:?}"
        );
        let back = Change::Weight { cgroups: vec![], weight: 100 };
        state.done(Ok(("done".into(), back.clone())));
        assert!(screen(&mut state, 100, 30).contains("done"));
        let taken_back = Some(Asked::TakeBack(back.clone()));
        assert_eq!(press(&mut state, &[KeyCode::Char('u')]), taken_back);
        state.taken_back(Err("cannot: it is gone".into()));
        assert!(screen(&mut state, 100, 30).contains("it is gone"));
        // It can be tried again, and is done once.
        assert_eq!(press(&mut state, &[KeyCode::Char('u')]), taken_back);
        state.taken_back(Ok(("weight 100".into(), back)));
        assert!(screen(&mut state, 100, 30).contains("taken back: weight 100"));
        assert_eq!(press(&mut state, &[KeyCode::Char('u')]), None);
        assert_eq!(press(&mut state, &[KeyCode::Char('q')]), Some(Asked::Quit));
    }

    #[test]
    fn the_history_is_a_minute_and_only_of_those_that_are_there() {
        let mut state = State::default();
        for _ in 0..70 {
            state.take(look());
        }
        assert_eq!(state.history["1"].len(), super::super::state::HISTORY);
        let mut gone = look();
        gone.rows.pop();
        state.take(gone);
        assert!(!state.history.contains_key("1") && state.history.contains_key(""));
        assert_eq!(sparkline(&[0, 7, 14, 3], 3), "▄█▂");
        assert_eq!(cut("system.slice/nginx.service", 12), "..nx.service");
    }
}
