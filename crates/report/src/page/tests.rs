use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use metasched_experiment::{Objective, PlanOptions, plan};
use metasched_profile::{Declared, Store, analyse};

use super::*;
use crate::made_up::{declared, full_store, key, pair_store, profile_only};

fn options() -> PlanOptions {
    PlanOptions { objective: Some(Objective::Throughput), ..PlanOptions::default() }
}

fn of(store: &Store) -> String {
    let bench =
        r#"{"bench": "switch <b>", "lane": {"first_run_us": 1400}, "ratio_swap_over_lane": 1700}"#;
    let analysis = analyse(store, None, declared).unwrap();
    page(
        &analysis,
        &plan(&analysis.measured(), options()).unwrap(),
        &[Bench::parse("x", bench).unwrap()],
    )
}

/// The page of a full store; made once for all tests, which read it only.
fn full_page(rounds: u32) -> String {
    static PAGES: Mutex<BTreeMap<u32, String>> = Mutex::new(BTreeMap::new());
    let mut pages = PAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let page = pages.entry(rounds).or_insert_with(|| {
        let folder = crate::made_up::folder();
        of(&full_store(&folder.path().join("store.db"), rounds))
    });
    page.clone()
}

/// Follows the tags of a document; gives the ids. Panics where a tag is closed that
/// is not open, or left open: what a browser would silently mend.
fn well_formed(page: &str) -> BTreeSet<String> {
    const VOID: [&str; 2] = ["meta", "!DOCTYPE"];
    let mut open: Vec<&str> = Vec::new();
    let mut ids = BTreeSet::new();
    let mut rest = page;
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        assert!(!tag.contains('<'), "a stray < before: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing tags match");
            continue;
        }
        let name = tag.split_whitespace().next().unwrap();
        if let Some(id) = tag.split("id=\"").nth(1).and_then(|t| t.split('"').next()) {
            assert!(ids.insert(id.to_owned()), "the id '{id}' occurs twice");
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes are closed: {tag}");
        if name == "style" {
            rest = &rest[rest.find("</style>").expect("the style ends")..];
        }
        if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "all tags are closed");
    ids
}

#[test]
fn the_page_is_well_formed_and_every_chart_is_labelled() {
    let page = full_page(4);
    let ids = well_formed(&page);
    let charts = page.matches("<svg ").count();
    // Single schedulers, turns, lanes; of three forms waits, those of what loads them, and runs; switching.
    assert_eq!(charts, 2 + 2 + 2 + 3 * 3 + 1);
    for reference in page.split("aria-labelledby=\"").skip(1) {
        for id in reference.split('"').next().unwrap().split(' ') {
            assert!(ids.contains(id), "'{id}' is referred to and not there");
        }
    }
}

/// The page of a made-up pair.
fn pair_page(rounds: u32) -> String {
    let folder = crate::made_up::folder();
    of(&pair_store(&folder.path().join("store.db"), rounds))
}

#[test]
fn the_page_begins_with_the_question_and_the_answer() {
    for (page, question) in [
        (full_page(4), "Which scheduler should run qa?"),
        (pair_page(4), "Which scheduler should run service beside job?"),
    ] {
        assert!(page.contains(&format!("<title>{question}</title>")));
        assert!(page.contains(&format!("<h1>{question}</h1>\n<p class=\"answer\"><b>")));
    }
    let answer = pair_page(4).split("<p class=\"answer\">").nth(1).unwrap().to_owned();
    assert!(answer.starts_with("<b>Run scx_bpfland</b>: "), "{}", &answer[..200]);
    let few = pair_page(1);
    assert!(few.contains("<b>Not enough was measured to say</b>"));
}

#[test]
fn what_is_recommended_is_a_row_of_the_heat_map() {
    for (page, name) in
        [(pair_page(4), "scx_bpfland"), (full_page(4), "delta-benefit, lanes side by side")]
    {
        let mark = format!("<th scope=\"row\">{name}<span>recommended</span></th>");
        assert_eq!(page.matches(&mark).count(), 1, "{name}");
        assert_eq!(page.matches("<span>recommended</span>").count(), 1, "{name}");
    }
}

#[test]
fn each_of_a_pair_is_drawn_under_each_scheduler_turns_and_lanes() {
    let page = pair_page(4);
    well_formed(&page);
    let section = page.split("<h2>Each of the two, while both run</h2>").nth(1).unwrap();
    let section = section.split("</section>").next().unwrap();
    assert_eq!(section.matches("<svg ").count(), 2);
    let after = |what: &str| section.find(what).unwrap_or_else(|| panic!("'{what}' is missing"));
    assert!(after(">service<") < after(">job<"), "in the order of the name");
    for contender in ["fifo", "scx_bpfland", "round-robin 1800ms lane", "delta-benefit lanes"] {
        // In the table of either figure, for either side.
        let cell = format!("<td>{contender}</td>");
        assert_eq!(section.matches(&cell).count(), 4, "{contender}");
    }
    assert!(!full_page(4).contains("while both run"), "a workload that is no pair has none");
}

#[test]
fn every_chart_has_a_table_behind_it() {
    for page in [full_page(4), full_page(1), pair_page(3)] {
        assert_eq!(page.matches("<svg ").count(), page.matches("<figure>").count());
        for figure in page.split("<figure>").skip(1) {
            let figure = figure.split("</figure>").next().unwrap();
            let (_, table) = figure.split_once("</svg>").expect("a chart");
            assert!(table.contains("<details>") && table.contains("<tr><th scope=\"row\">"));
        }
    }
}

#[test]
fn the_waits_say_of_which_form_and_scheduler_they_are() {
    let page = full_page(4);
    for form in ["front", "back", "full"] {
        let (_, figure) = page.split_once(&format!("Run-queue latency, {form}")).unwrap();
        let table = figure.split("<table>").nth(1).unwrap().split("</table>").next().unwrap();
        for scheduler in ["eevdf", "fifo", "vtime", "scx_rustland"] {
            assert!(table.contains(&format!("<th scope=\"col\">{scheduler}</th>")), "{form}");
        }
    }
}

#[test]
fn the_runs_say_how_they_ended_and_how_many_were_short() {
    let page = full_page(4);
    let (_, section) = page.split_once("<h2>Time on a CPU</h2>").unwrap();
    let table = section.split("<table>").nth(1).unwrap().split("</table>").next().unwrap();
    // Of a thousand 900 slept, and these are the short ones.
    let rows = table.matches("<th scope=\"row\">").count();
    assert_eq!(table.matches("90.0 %").count(), 2 * rows, "{table}");
    assert!(table.contains("shorter than 1\u{a0}ms"), "{table}");
    assert!(page.contains("Run-queue latency of what loads front"));
}

#[test]
fn the_page_needs_nothing_from_elsewhere_and_runs_no_script() {
    let page = full_page(4).to_lowercase();
    for forbidden in ["http://", "https://", "<script", "<link", "<img", "url(", "@import", "src="]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn every_scheduler_form_strategy_and_fact_is_on_the_page() {
    let page = full_page(4);
    for wanted in [
        "fifo",
        "vtime",
        "scx_bpfland",
        "scx_rustland",
        "full (the whole)",
        "round-robin",
        "delta-benefit",
        "by lane",
        "by process swap",
        "7.2.13-test",
        "0123456789ab",
        "encoder",
        "lsa",
        "emulated in software",
        "At a glance",
        "no difference shown",
        "metasched profile qa --rounds 6",
        "swap to scx_rusty",
        "lane first run",
        "replace a lane",
        "prefers-color-scheme: dark",
        "best single scheduler:",
        "Runs that failed",
        "without any observation",
    ] {
        assert!(page.contains(wanted), "'{wanted}' is missing");
    }
}

#[test]
fn nothing_that_was_measured_or_given_is_taken_for_markup() {
    let page = full_page(4);
    assert!(page.contains("Made-up CPU &lt;with &amp; brackets&gt;"));
    assert!(page.contains("see &lt;its log&gt;"));
    assert!(page.contains("switch &lt;b&gt;"));
}

#[test]
fn no_coordinate_or_figure_is_infinite_however_few_rounds_there_are() {
    for rounds in [1, 2] {
        let page = full_page(rounds);
        well_formed(&page);
        for word in ["NaN", ">inf", "\"inf", "-inf", " inf", "None", "Some("] {
            assert!(!page.contains(word), "'{word}' with {rounds} rounds");
        }
    }
}

#[test]
fn all_that_is_drawn_lies_within_its_chart() {
    let page = full_page(4);
    for chart in page.split("<svg ").skip(1) {
        let chart = chart.split("</svg>").next().unwrap();
        let height: f64 = chart
            .split("viewBox=\"0 0 400 ")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        for (attribute, limit) in [
            ("x", 400.0),
            ("x1", 400.0),
            ("x2", 400.0),
            ("cx", 400.0),
            ("y", height),
            ("cy", height),
        ] {
            for value in chart.split(&format!(" {attribute}=\"")).skip(1) {
                let value: f64 = value.split('"').next().unwrap().parse().unwrap();
                assert!((-0.01..=limit).contains(&value), "{attribute}={value} of {limit}");
            }
        }
    }
}

#[test]
fn the_same_store_gives_the_same_page() {
    let folder = crate::made_up::folder();
    let path = folder.path().join("store.db");
    for make in [full_store, pair_store] {
        let store = make(&path, 3);
        assert!(of(&store) == of(&store));
    }
}

#[test]
fn what_was_not_measured_is_said_to_be_so() {
    let folder = crate::made_up::folder();
    let mut store = Store::open(folder.path().join("store.db")).unwrap();
    profile_only(&mut store, 3);
    let page = of(&store);
    well_formed(&page);
    assert!(page.contains("Metaschedulers: not measured"), "no tuning yet");
    // A workload of one form, with the default scheduler alone and nothing traced.
    let mut store = Store::open(folder.path().join("other.db")).unwrap();
    let session = store.begin_session("boot", 1, "metasched profile").unwrap();
    let mut writer = crate::made_up::Writer {
        store: &mut store,
        session,
        noise: crate::made_up::Noise::new(1),
        duration_s: 20.0,
    };
    let default = crate::made_up::scheduler("eevdf");
    writer.run("front", 1, &default, metasched_profile::RunKind::Measured, 1.0, 1.0);
    assert!(store.series_id(&key("front")).is_ok());
    let analysis = analyse(&store, None, |_| Declared::default()).unwrap();
    let page = super::page(&analysis, &plan(&analysis.measured(), options()).unwrap(), &[]);
    well_formed(&page);
    for what in ["No scheduler but the default", "Run-queue latency", "Switching", "Metaschedulers"]
    {
        assert!(page.contains(&format!("{what}: not measured")), "{what}");
    }
}

#[test]
fn cpu_time_and_switches_stand_in_a_table_for_each_form_with_the_change_to_eevdf() {
    let page = full_page(8);
    let from = page.find("<h2>CPU time and switches</h2>").expect("the section");
    let section = &page[from..from + page[from..].find("</section>").unwrap()];
    assert_eq!(section.matches("<table>").count(), 3, "{section}");
    // Made up: 30 s of CPU time in 20 s, 12 of them in user space.
    assert!(section.contains("1.50") && section.contains("40.0 %"), "{section}");
    let row = &section[section.find("scx_bpfland").expect("a row")..];
    assert!(
        row[..row.find("</tr>").unwrap()].contains(" to "),
        "the change has an interval: {row}"
    );
}
