//! The page in a browser: Chromium, without a window, lays it out at the width of a phone and of a
//! desk, light and dark. `browser.js` says what is looked for.

use std::process::Command;

use metasched_experiment::PlanOptions;
use metasched_profile::{Store, analyse, planned};
use metasched_report::page;
use serde::Deserialize;

#[path = "../../profile/tests/support/made_up.rs"]
mod made_up;

use made_up::{PAIR, declared, full_store, pair_store};

/// A phone's width and a desk's, in pixels.
const WIDTHS: [u32; 2] = [400, 1400];
/// A theme takes Chromium two seconds on an idle machine. One that hangs must not hold up the rest.
const LONGEST_S: &str = "50";

/// What was found on a page at one width.
#[derive(Debug, Deserialize)]
struct Look {
    page: String,
    width: u32,
    dark: bool,
    texts: usize,
    figures: usize,
    faults: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Theme {
    Light,
    Dark,
}

impl Theme {
    /// As Chromium's engine numbers them.
    fn setting(self) -> &'static str {
        match self {
            Theme::Dark => "--blink-settings=preferredColorScheme=0",
            Theme::Light => "--blink-settings=preferredColorScheme=1",
        }
    }
}

/// A document with each page in a frame of each width: a window may not be as narrow as a phone.
fn frames(pages: &[(&str, String)]) -> String {
    let mut body = String::new();
    for (name, page) in pages {
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        for width in WIDTHS {
            body += &format!(
                "<iframe data-page=\"{name}\" width=\"{width}\" height=\"2000\" \
                 style=\"border: 0\" srcdoc=\"{page}\"></iframe>\n"
            );
        }
    }
    let script = include_str!("browser.js");
    format!(
        "<!DOCTYPE html>\n<meta charset=\"utf-8\">\n<body>\n{body}<script>\n{script}</script>\n"
    )
}

/// Has Chromium lay the pages out, and gives what the script found on them.
fn look(pages: &[(&str, String)], theme: Theme) -> Vec<Look> {
    let folder = made_up::folder();
    let file = folder.path().join("frames.html");
    std::fs::write(&file, frames(pages)).unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", LONGEST_S, "chromium", "--headless", "--no-sandbox"])
        .args(["--disable-gpu", "--hide-scrollbars", theme.setting(), "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("'timeout', of coreutils");
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(127) => {
            panic!("cannot look at the page: there is no 'chromium'; run 'sudo make deps'")
        }
        Some(124) => panic!("Chromium took more than {LONGEST_S} s:\n{said}"),
        _ => panic!("Chromium failed, {}:\n{said}", output.status),
    }
    let document = String::from_utf8_lossy(&output.stdout);
    let findings = document
        .split_once("<pre id=\"findings\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"))
        .unwrap_or_else(|| panic!("the script left nothing in the document:\n{said}"));
    let json = findings.0.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let looks: Vec<Look> = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
    assert_eq!(looks.len(), pages.len() * WIDTHS.len());
    // A look at another width or in another theme would say nothing.
    for (i, look) in looks.iter().enumerate() {
        assert_eq!(look.width, WIDTHS[i % WIDTHS.len()], "{}", look.page);
        assert_eq!(look.dark, theme == Theme::Dark, "{}", look.page);
    }
    looks
}

fn page_of(store: &Store, workload: &str) -> String {
    let analysis = analyse(store, Some(workload), declared).unwrap();
    page(&analysis, &planned(&analysis, PlanOptions::default()).unwrap(), &[])
}

#[test]
fn the_page_can_be_read_on_a_phone_and_on_a_desk_light_and_dark() {
    let folder = made_up::folder();
    let path = folder.path().join("store.db");
    drop(full_store(&path, 4));
    let store = pair_store(&path, 4);
    let scarce = pair_store(&folder.path().join("scarce.db"), 1);
    let pages = [
        ("of parts", page_of(&store, "qa")),
        ("of a pair", page_of(&store, PAIR)),
        ("of one round", page_of(&scarce, PAIR)),
    ];
    let mut faults = Vec::new();
    for theme in [Theme::Light, Theme::Dark] {
        for look in look(&pages, theme) {
            let at = format!("{}, {} px, {theme:?}", look.page, look.width);
            assert!(look.texts > 100 && look.figures >= 4, "{at}: it has seen little: {look:?}");
            faults.extend(look.faults.iter().map(|fault| format!("{at}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_cannot_be_read_is_found() {
    let sound = "<p>sound</p><figure><details><table><tbody><tr><td>1</td></tr></tbody></table>\
                 </details></figure>";
    let broken = [
        ("overflow", "<p style=\"width: 2000px\">wide</p>"),
        ("contrast", "<p style=\"color: #999; background: #aaa\">faint</p>"),
        ("contrast", "<svg><text y=\"20\" opacity=\"0.5\">faint</text></svg>"),
        (
            "cut",
            "<figure><svg width=\"50\" height=\"20\"><text y=\"9\">far too long</text></svg></figure>",
        ),
        ("reference", "<a href=\"#nowhere\">a link</a>"),
        ("reference", "<p aria-labelledby=\"nobody\">a name</p>"),
        ("reference", "<p id=\"same\">one</p><p id=\"same\">another</p>"),
        ("table", "<figure><figcaption>a chart alone</figcaption></figure>"),
    ];
    let document = |body: &str| {
        format!("<!DOCTYPE html><style>body {{ background: #fff; color: #000 }}</style>{body}")
    };
    let mut pages = vec![("sound", document(sound))];
    pages.extend(broken.map(|(fault, body)| (fault, document(body))));
    for look in look(&pages, Theme::Light) {
        match look.page.as_str() {
            "sound" => assert_eq!(look.faults, [""; 0]),
            fault => assert!(
                look.faults.iter().any(|found| found.starts_with(&format!("{fault}: "))),
                "{fault} at {} px: {:?}",
                look.width,
                look.faults
            ),
        }
    }
}
