//! The file that says which cgroups belong to which application: from TOML to rules, and
//! everything that can be wrong is told with its line.

use std::collections::BTreeMap;

use metasched_base::{Error, Kind, Place, Result, ResultExt};
use metasched_control::{LATENCY_AWARE, LATENCY_AWARE_POLICY, Pattern, RuleApp};
use metasched_loader::{LaneSpec, Setting, settings};
use serde::Deserialize;
use toml::Spanned;

const ATTEMPT: &str = "read the rules";

/// An application that the user names, and what he says of it.
#[derive(Debug, PartialEq)]
pub(super) struct Named {
    pub(super) name: String,
    /// Its policy; `None`: what it prefers by the plan.
    pub(super) policy: Option<String>,
    /// Its lane's weight; `None`: its share by the plan, where there is one.
    pub(super) weight: Option<u32>,
    /// Options of its policy.
    pub(super) settings: Vec<Setting>,
    /// What its cgroups are known by.
    pub(super) patterns: Vec<Pattern>,
    /// Where the user does that: the file and the line, or the command line.
    pub(super) place: String,
}

impl Named {
    /// What is done with it, for errors.
    pub(super) fn attempt(&self) -> String {
        format!("put '{}' on a lane, as {} says", self.name, self.place)
    }
}

/// What the file says.
#[derive(Debug, PartialEq)]
pub(super) struct RulesFile {
    /// The policy of everything else, if it says so.
    pub(super) default: Option<String>,
    /// Whether cgroups may ask for a policy themselves.
    pub(super) attributes: bool,
    /// Its applications, in their order.
    pub(super) apps: Vec<Named>,
    /// What it says of cgroups that are flagged latency-aware, and how many applications stand before that.
    pub(super) latency_aware: Option<(RuleApp, usize)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    default: Option<Spanned<String>>,
    #[serde(default)]
    attributes: bool,
    #[serde(default)]
    app: Vec<RawApp>,
    #[serde(rename = "latency-aware")]
    latency_aware: Option<Spanned<RawFlagged>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFlagged {
    #[serde(default)]
    options: RawOptions,
    #[serde(default)]
    cgroups: Vec<Spanned<String>>,
    #[serde(default)]
    units: Vec<Spanned<String>>,
    #[serde(default)]
    commands: Vec<Spanned<String>>,
}

type RawOptions = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApp {
    name: Spanned<String>,
    policy: Option<Spanned<String>>,
    weight: Option<Spanned<u32>>,
    #[serde(default)]
    options: RawOptions,
    #[serde(default)]
    cgroups: Vec<Spanned<String>>,
    #[serde(default)]
    units: Vec<Spanned<String>>,
    #[serde(default)]
    commands: Vec<Spanned<String>>,
}

impl RulesFile {
    /// Reads and checks the file.
    ///
    /// # Errors
    /// `BadInput`, with the line.
    pub(super) fn read(path: &str) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .attempt(Kind::BadInput, || format!("{ATTEMPT} '{path}'"))?;
        Self::parse(Place { path, text: &text })
    }

    fn parse(place: Place) -> Result<Self> {
        let raw: RawFile = place.toml(ATTEMPT, "correct that line; see docs/lanes.md")?;
        if let Some(policy) = &raw.default {
            at(&place, policy, LaneSpec::of(policy.get_ref()).check())?;
        }
        let flagged_at = raw.latency_aware.as_ref().map(|flagged| flagged.span().start);
        let mut before = 0;
        let mut apps: Vec<Named> = Vec::new();
        for raw in raw.app {
            let name = raw.name.get_ref();
            if name == LATENCY_AWARE {
                let cause = format!("'{name}' is the application of all cgroups that are flagged");
                return Err(place
                    .error(ATTEMPT, raw.name.span().start, cause)
                    .remedy("give it another name, or write [latency-aware] in place of [[app]]"));
            }
            before += usize::from(flagged_at.is_some_and(|at| raw.name.span().start < at));
            if let Some(same) = apps.iter().find(|app| app.name == *name) {
                let cause = format!("'{name}' is the application of {} already", same.place);
                return Err(place
                    .error(ATTEMPT, raw.name.span().start, cause)
                    .remedy("give it another name, or put their rules together"));
            }
            apps.push(app(&place, raw)?);
        }
        let flagged = raw.latency_aware.map(Spanned::into_inner);
        let latency_aware =
            flagged.map(|raw| flagged_app(&place, raw).map(|app| (app, before))).transpose()?;
        if apps.is_empty() && latency_aware.is_none() && !raw.attributes {
            return Err(place
                .error(ATTEMPT, place.text.len(), "it has no application")
                .remedy("add an [[app]], [latency-aware], or attributes = true"));
        }
        let default = raw.default.map(Spanned::into_inner);
        Ok(Self { default, attributes: raw.attributes, apps, latency_aware })
    }
}

/// What the cgroups of an application are known by.
fn patterns(
    place: &Place,
    cgroups: Vec<Spanned<String>>,
    units: Vec<Spanned<String>>,
    commands: Vec<Spanned<String>>,
) -> Result<Vec<Pattern>> {
    let mut patterns = Vec::new();
    for (texts, kind) in [
        (cgroups, Pattern::Cgroups as fn(String) -> Pattern),
        (units, |text| Pattern::Units(unit(text))),
        (commands, Pattern::Commands),
    ] {
        for text in texts {
            let pattern = kind(text.get_ref().clone());
            at(place, &text, pattern.check())?;
            patterns.push(pattern);
        }
    }
    Ok(patterns)
}

/// Options, which are checked where the policy is known.
fn given(place: &Place, policy: Option<&str>, options: RawOptions) -> Result<Vec<Setting>> {
    // That there is no such policy is told of the policy.
    let policy = policy.filter(|policy| LaneSpec::of(policy).check().is_ok());
    let read = |(option, value)| {
        let setting = setting(place, &option, &value)?;
        if let Some(policy) = policy {
            let checked = settings(policy, std::slice::from_ref(&setting))
                .and_then(|options| LaneSpec { options, ..LaneSpec::of(policy) }.check());
            at(place, &value, checked)?;
        }
        Ok(setting)
    };
    options.into_iter().map(read).collect()
}

/// What is said of cgroups that are flagged latency-aware. They may all be flagged by hand.
fn flagged_app(place: &Place, raw: RawFlagged) -> Result<RuleApp> {
    let policy = LATENCY_AWARE_POLICY;
    let options = settings(policy, &given(place, Some(policy), raw.options)?)?;
    let lane = LaneSpec { options, ..LaneSpec::of(policy) };
    let patterns = patterns(place, raw.cgroups, raw.units, raw.commands)?;
    Ok(RuleApp::latency_aware(lane, patterns))
}

fn app(place: &Place, raw: RawApp) -> Result<Named> {
    let patterns = patterns(place, raw.cgroups, raw.units, raw.commands)?;
    let start = raw.name.span().start;
    let name = raw.name.into_inner();
    if patterns.is_empty() {
        return Err(place
            .error(ATTEMPT, start, format!("no cgroup can belong to '{name}'"))
            .remedy("say which do: cgroups = [...], units = [...] or commands = [...]"));
    }
    let policy = raw.policy.as_ref().map(|policy| policy.get_ref().as_str());
    let settings = given(place, policy, raw.options)?;
    if let Some(policy) = &raw.policy {
        at(place, policy, LaneSpec::of(policy.get_ref()).check())?;
    }
    if let Some(weight) = &raw.weight {
        at(place, weight, metasched_loader::check_weight(*weight.get_ref()))?;
    }
    Ok(Named {
        name,
        policy: raw.policy.map(Spanned::into_inner),
        weight: raw.weight.map(Spanned::into_inner),
        settings,
        patterns,
        place: place.line(start),
    })
}

/// The same failure, with the line of what it is about.
fn at<T, V>(place: &Place, of: &Spanned<V>, done: Result<T>) -> Result<T> {
    done.map_err(|e| {
        let cause = format!("cannot {}: {}", e.attempt, e.cause);
        Error { remedy: e.remedy, ..place.error(ATTEMPT, of.span().start, cause) }
    })
}

fn setting(
    place: &Place,
    option: &Spanned<String>,
    value: &Spanned<toml::Value>,
) -> Result<Setting> {
    let text = match value.get_ref() {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(number) => number.to_string(),
        other => {
            let cause = format!("an option is a string or a number, not a {}", other.type_str());
            return Err(place
                .error(ATTEMPT, value.span().start, cause)
                .remedy("write it like slice = \"5ms\""));
        }
    };
    at(place, value, format!("{}={text}", option.get_ref()).parse())
}

/// What systemd would take for the unit's name: one without a type is a service.
fn unit(name: String) -> String {
    const TYPES: &[&str] = &["service", "slice", "scope", "socket", "mount", "swap"];
    let has_type = name.rsplit_once('.').is_some_and(|(_, kind)| TYPES.contains(&kind));
    let is_other = name.contains(['*', '?', '[', '{', '/']);
    if has_type || is_other || name.is_empty() { name } else { format!("{name}.service") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RulesFile> {
        RulesFile::parse(Place { path: "app.toml", text })
    }

    #[test]
    fn the_file_says_who_is_where() {
        let file = parse(
            r#"
            default = "vtime"
            [[app]]
            name = "front"
            policy = "fifo"
            weight = 300
            options = { slice = "5ms" }
            cgroups = ["system.slice/qa-*.service", "kubepods.slice/**/front"]
            units = ["nginx", "batch.slice", "qa-*"]
            commands = ["mongod"]
            [[app]]
            name = "back"
            cgroups = ["back"]
            "#,
        )
        .unwrap();
        assert_eq!(file.default.as_deref(), Some("vtime"));
        assert!(!file.attributes);
        let [front, back] = &file.apps[..] else { panic!("{file:?}") };
        assert_eq!((front.policy.as_deref(), front.weight), (Some("fifo"), Some(300)));
        assert_eq!(front.settings, ["slice=5ms".parse().unwrap()]);
        let rules: Vec<String> = front.patterns.iter().map(ToString::to_string).collect();
        assert_eq!(
            rules,
            [
                r#"cgroups = "system.slice/qa-*.service""#,
                r#"cgroups = "kubepods.slice/**/front""#,
                r#"units = "nginx.service""#,
                r#"units = "batch.slice""#,
                r#"units = "qa-*""#,
                r#"commands = "mongod""#,
            ]
        );
        assert_eq!((back.policy.as_ref(), back.place.as_str()), (None, "app.toml:12"));
    }

    #[test]
    fn flagged_cgroups_are_one_application_that_counts_where_it_stands() {
        let app = |name: &str| format!("[[app]]\nname = \"{name}\"\ncgroups = [\"a\"]\n");
        let flagged =
            "[latency-aware]\ncgroups = [\"k\"]\nunits = [\"n\"]\noptions = { slice = \"3ms\" }\n";
        for (text, place) in [
            (format!("{flagged}{}{}", app("x"), app("y")), 0),
            (format!("{}{flagged}{}", app("x"), app("y")), 1),
            (format!("{}{}{flagged}", app("x"), app("y")), 2),
        ] {
            let (said, before) = parse(&text).unwrap().latency_aware.unwrap();
            assert_eq!((said.name.as_str(), before), ("latency-aware", place));
            assert_eq!(said.lane.unwrap().options["slice_ns"], 3_000_000);
            assert_eq!(said.patterns[1], Pattern::Units("n.service".to_owned()));
        }
        let (alone, _) = parse("[latency-aware]").unwrap().latency_aware.unwrap();
        assert!(alone.patterns.is_empty() && alone.lane.is_some());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_to_do() {
        let app = |line: &str| format!("[[app]]\nname = \"x\"\ncgroups = [\"a\"]\n{line}\n");
        for (text, line, said) in [
            (app("polcy = \"fifo\""), 4, "unknown field `polcy`"),
            (app("policy = \"lavd\""), 4, "choose one of fifo, vtime"),
            (app("weight = 0"), 4, "1 to 10000"),
            (app("weight = -1"), 4, "invalid value"),
            (app("policy = \"fifo\"\noptions = { quantum = 1 }"), 5, "it has slice_ns"),
            (app("policy = \"fifo\"\noptions = { slice = 1 }"), 5, "out of range"),
            (app("options = { slice = true }"), 4, "a string or a number"),
            (app("units = [\"a/b\"]"), 4, "write 'b'"),
            (app("commands = [\n\"x\",\n\"\"]"), 6, "it is empty"),
            (app("[[app]]\nname = \"x\"\ncgroups = [\"b\"]"), 5, "of app.toml:2 already"),
            (app("[[app]]\nname = \"y\""), 5, "no cgroup can belong to 'y'"),
            (app("[[app]]\nname = \"latency-aware\""), 5, "of all cgroups that are flagged"),
            ("[latency-aware]\nweight = 3".to_owned(), 2, "unknown field `weight`"),
            ("[latency-aware]\noptions = { quantum = 1 }".to_owned(), 2, "it has slice_ns"),
            ("[latency-aware]\ncgroups = [\"/a\"]".to_owned(), 2, "absolute"),
            ("default = \"eevdf\"".to_owned(), 1, "choose one of fifo, vtime"),
            ("[[app]]\nname = \"x\"\ncgroups = [\"/a\"]".to_owned(), 3, "absolute"),
            ("[[app]]\nname = \"x\"\ncgroups = [\"a/..\"]".to_owned(), 3, "plain path"),
            ("[[app]]\nname = \"x\"\ncgroups = [\"a[\"]".to_owned(), 3, "unclosed"),
            ("default = \"vtime\"\n".to_owned(), 2, "attributes = true"),
            ("app = 3".to_owned(), 1, "invalid type"),
        ] {
            let e = parse(&text).unwrap_err();
            assert_eq!(e.kind, Kind::BadInput, "{e}");
            assert!(e.to_string().contains(said), "{text}: {e}");
            assert!(e.to_string().contains(&format!("app.toml:{line}: ")), "{text}: {e}");
            assert!(!e.remedy.is_empty(), "{e}");
        }
        let e = RulesFile::read("/no/such/file").unwrap_err();
        assert!(e.to_string().contains("/no/such/file"), "{e}");
    }
}
