//! Every combination of few rules, few cgroups and what users say, against a second statement of
//! what they mean.

use exhaustigen::Gen;
use metasched_host::cgroup::{Node, Tree};

use super::*;

/// The cgroups, each before those below it.
const PATHS: [&str; 5] = ["a", "a/b", "a/b/c", "a/b/c/b", "d"];
/// A cgroup, and the command that runs in it.
const COMMAND: (&str, &str) = ("a/b/c", "db");

/// Which lane a cgroup is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Default,
    Hand,
    App(usize),
}

/// A pattern, with the places in [`PATHS`] of what it matches.
fn patterns() -> [(Pattern, &'static [usize]); 6] {
    let cgroups = |glob: &str| Pattern::Cgroups(glob.to_owned());
    [
        (cgroups("a"), &[0]),
        (cgroups("a/*"), &[1]),
        (cgroups("{a/b/**,d}"), &[2, 3, 4]),
        (cgroups("**"), &[0, 1, 2, 3, 4]),
        (Pattern::Units("b".to_owned()), &[1, 3]),
        (Pattern::Commands(COMMAND.1.to_owned()), &[2]),
    ]
}

/// What is to hold, cgroup by cgroup, looked up from each of them.
struct Meant {
    /// The application whose rule is the first that matches that very cgroup.
    own: [Option<usize>; PATHS.len()],
    standing: [Standing; PATHS.len()],
    has_lane: [bool; 2],
}

impl Meant {
    fn above(at: usize) -> Option<usize> {
        let (above, _) = PATHS[at].rsplit_once('/')?;
        PATHS.iter().position(|path| *path == above)
    }

    /// Whether a user's word further up stands against an application, or a rule by which it stays
    /// where it is. The nearest cgroup whose rule is in force ends that, also where it gets the same
    /// from above.
    fn overruled(&self, at: usize, app: usize) -> bool {
        let Some(above) = Self::above(at) else { return false };
        match (self.standing[above], self.own[above]) {
            (Standing::Assigned | Standing::Flagged, own) => own == Some(app),
            (_, None) => self.overruled(above, app),
            (Standing::Unassigned, Some(own)) => own == app,
            (Standing::Free, _) if self.placed_by_rule(above) => false,
            (Standing::Free, Some(own)) if !self.has_lane[own] => own == app,
            (Standing::Free, Some(_)) => self.overruled(above, app),
        }
    }

    fn placed_by_rule(&self, at: usize) -> bool {
        let by_rule = |app| self.has_lane[app] && !self.overruled(at, app);
        self.standing[at] == Standing::Free && self.own[at].is_some_and(by_rule)
    }

    fn on(&self, at: usize) -> On {
        match self.own[at] {
            _ if self.standing[at] == Standing::Assigned => On::Hand,
            Some(app) if self.placed_by_rule(at) => On::App(app),
            _ => Self::above(at).map_or(On::Default, |above| self.on(above)),
        }
    }

    /// What has to be assigned: what does not get the same from above.
    fn assigned(&self, at: usize) -> bool {
        let above = Self::above(at).map_or(On::Default, |above| self.on(above));
        self.placed_by_rule(at) && above != self.on(at)
    }
}

#[test]
fn every_small_hierarchy_is_placed_as_it_is_meant() {
    let (patterns, mut compared, mut assigned) = (patterns(), 0, 0);
    let commands = Commands::from([(COMMAND.0.to_owned(), [COMMAND.1.to_owned()].into())]);
    let mut tree = Tree::default();
    for (id, path) in PATHS.iter().enumerate() {
        tree.insert(path, Node { id: id as u64, attributes: BTreeMap::new() });
    }
    let mut rules = Gen::new();
    while !rules.done() {
        let chosen = [0, 1].map(|_| rules.pick(&patterns).clone());
        let has_lane = [0, 1].map(|_| rules.flip());
        let app = |at: usize| RuleApp {
            name: format!("app{at}"),
            lane: has_lane[at].then(|| LaneSpec::of("fifo")),
            why: Why::CommandLine,
            share: None,
            patterns: vec![chosen[at].0.clone()],
        };
        let rules = Rules::new(vec![app(0), app(1)], false).unwrap();
        let first = |at: usize| (0..2).find(|app| chosen[*app].1.contains(&at));
        let mut said = Gen::new();
        while !said.done() {
            let standing = PATHS
                .map(|_| *said.pick(&[Standing::Free, Standing::Assigned, Standing::Unassigned]));
            let own = std::array::from_fn(first);
            let meant = Meant { own, standing, has_lane };
            let placement = rules.place(&tree, &commands, |_, id| standing[id as usize]);
            for (at, path) in PATHS.iter().enumerate() {
                let found = placement.cgroups.get(path).map(|placed| placed.app.name.as_str());
                let due = meant.assigned(at).then(|| own[at].map(|app| &*rules.apps[app].name));
                let about = || format!("{path} of {chosen:?}, lanes {has_lane:?}, {standing:?}");
                assert_eq!(found, due.flatten(), "{}", about());
                assigned += usize::from(found.is_some());
                compared += 1;
            }
        }
    }
    // Two rules of six, with a lane or without, and three things that users say of each cgroup.
    assert_eq!(compared, (6 * 6 * 2 * 2) * 3usize.pow(5) * PATHS.len());
    // One in twelve is: a user has said something of two in three.
    assert!(assigned > compared / 20, "only {assigned} of {compared} are on lanes");
}

/// A chain of cgroups, what attributes say of each, and what a user said.
#[test]
fn every_small_chain_of_flags_is_placed_as_it_is_meant() {
    const CHAIN: [&str; 3] = ["a", "a/b", "a/b/c"];
    const SAID: [Standing; 4] =
        [Standing::Free, Standing::Assigned, Standing::Flagged, Standing::Unassigned];
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum On {
        Default,
        Hand,
        Fifo,
        Flagged,
    }
    let rules = Rules::new(Vec::new(), true).unwrap();
    let marks: [&[(&'static str, &str)]; 4] =
        [&[], &[(FLAG, "1")], &[(FLAG, "0")], &[(ATTRIBUTE, "fifo"), (FLAG, "1")]];
    let (mut all, mut compared) = (Gen::new(), 0);
    while !all.done() {
        let chosen = CHAIN.map(|_| (all.pick(&marks), *all.pick(&SAID)));
        let mut tree = Tree::default();
        for (id, path) in CHAIN.iter().enumerate() {
            let marks = chosen[id].0.iter().map(|(name, value)| (*name, (*value).to_owned()));
            tree.insert(path, Node { id: id as u64, attributes: marks.collect() });
        }
        let placement = rules.place(&tree, &Commands::new(), |_, id| chosen[id as usize].1);
        // Who goes along, and against which mark a user's word further up still stands.
        let (mut on, mut against) = (On::Default, None);
        for (at, (marks, standing)) in chosen.iter().enumerate() {
            let own = match **marks {
                [] => None,
                [(_, "0")] => Some(On::Default),
                [_] => Some(On::Flagged),
                _ => Some(On::Fifo),
            };
            let above = on;
            let mut placed = false;
            match (standing, own) {
                (Standing::Assigned, _) => (on, against) = (On::Hand, own),
                (Standing::Flagged, _) => (on, against) = (On::Flagged, own),
                (Standing::Unassigned, _) => against = own.or(against),
                (Standing::Free, None) => {}
                (Standing::Free, Some(own)) if against == Some(own) => {}
                // Only below a flagged cgroup there is something to be taken out of.
                (Standing::Free, Some(On::Default)) if above != On::Flagged => {}
                (Standing::Free, Some(own)) => {
                    placed = above != own;
                    (on, against) = (own, None);
                }
            }
            let found = placement.cgroups.get(CHAIN[at]).map(|placed| placed.app.name.as_str());
            let due = placed.then_some(match on {
                On::Flagged => LATENCY_AWARE,
                On::Fifo => "policy:fifo",
                _ => "not latency-aware",
            });
            assert_eq!(found, due, "{} of {chosen:?}", CHAIN[at]);
            compared += 1;
        }
    }
    assert_eq!(compared, (marks.len() * SAID.len()).pow(3) * CHAIN.len());
}
