use super::*;
use metasched_host::cgroup::{Node, Tree};

fn app(name: &str, policy: Option<&str>, patterns: &[Pattern]) -> RuleApp {
    RuleApp {
        name: name.to_owned(),
        lane: policy.map(LaneSpec::of),
        why: Why::File("app.toml".to_owned()),
        share: None,
        patterns: patterns.to_vec(),
    }
}

fn cgroups(glob: &str) -> Pattern {
    Pattern::Cgroups(glob.to_owned())
}

fn units(glob: &str) -> Pattern {
    Pattern::Units(glob.to_owned())
}

/// A tree of these paths, each followed by '=' and the policy that its attribute names, or by ':' and
/// its flag, if it has one; their ids count from 1.
fn tree(paths: &[&str]) -> Tree {
    let mut tree = Tree::default();
    for (id, text) in (1..).zip(paths) {
        let (text, flag) =
            text.split_once(':').map_or((*text, None), |(p, f)| (p, Some((FLAG, f))));
        let policy = text.split_once('=').map(|(_, policy)| (ATTRIBUTE, policy));
        let path = text.split('=').next().unwrap();
        let said = policy.into_iter().chain(flag);
        let attributes = said.map(|(name, value)| (name, value.to_owned())).collect();
        tree.insert(path, Node { id, attributes });
    }
    tree
}

/// What is assigned, as `path: application`.
fn placed(rules: &Rules, tree: &Tree) -> Vec<String> {
    placed_beside(rules, tree, &Commands::new(), |_| Standing::Free)
}

fn placed_beside(
    rules: &Rules,
    tree: &Tree,
    commands: &Commands,
    standing: impl Fn(&str) -> Standing,
) -> Vec<String> {
    let placement = rules.place(tree, commands, |path, _| standing(path));
    placement.cgroups.iter().map(|(path, p)| format!("{path}: {}", p.app.name)).collect()
}

#[test]
fn globs_are_of_whole_paths_and_a_star_stays_between_slashes() {
    let tree =
        tree(&["k", "k/a", "k/a/front", "k/front", "k/front/x", "kx", "s", "s/qa-1.service"]);
    for (glob, matched) in [
        ("k/**/front", vec!["k/a/front: x", "k/front: x"]),
        ("k/*", vec!["k/a: x", "k/front: x"]),
        ("k*", vec!["k: x", "kx: x"]),
        ("s/qa-[0-9].service", vec!["s/qa-1.service: x"]),
        ("{s,kx}", vec!["kx: x", "s: x"]),
        ("front", vec![]),
    ] {
        let rules = Rules::new(vec![app("x", Some("fifo"), &[cgroups(glob)])], false).unwrap();
        assert_eq!(placed(&rules, &tree), matched, "{glob}");
    }
}

#[test]
fn a_unit_is_found_wherever_it_is_and_its_escapes_are_letters() {
    let tree =
        tree(&["a", "a/b.slice", "a/b.slice/n.service", r"dev-disk\x2dby.swap", "n.service"]);
    let rules = Rules::new(
        vec![app("x", Some("fifo"), &[units("n.*"), units(r"dev-disk\x2dby.swap")])],
        false,
    )
    .unwrap();
    assert_eq!(
        placed(&rules, &tree),
        ["a/b.slice/n.service: x", r"dev-disk\x2dby.swap: x", "n.service: x"]
    );
}

#[test]
fn what_gets_the_same_from_above_is_not_assigned_and_the_nearest_rule_counts() {
    let tree = tree(&["a", "a/b", "a/b/c", "a/b/c/d"]);
    let rules = Rules::new(
        vec![
            app("x", Some("fifo"), &[cgroups("a"), cgroups("a/b/c/**")]),
            app("y", Some("vtime"), &[cgroups("a/b/c")]),
        ],
        false,
    )
    .unwrap();
    assert_eq!(placed(&rules, &tree), ["a: x", "a/b/c: y", "a/b/c/d: x"]);
    let rules = Rules::new(vec![app("x", Some("fifo"), &[cgroups("a/**")])], false).unwrap();
    assert_eq!(placed(&rules, &tree), ["a/b: x"]);
}

#[test]
fn of_rules_that_match_the_very_same_cgroup_the_first_counts() {
    let tree = tree(&["a", "n.service=fifo"]);
    let commands = Commands::from([("a".to_owned(), ["db".to_owned()].into())]);
    let both = [
        app("x", Some("fifo"), &[Pattern::Commands("d?".to_owned())]),
        app("y", Some("fifo"), &[cgroups("a"), units("n.service")]),
    ];
    let rules = Rules::new(both.to_vec(), true).unwrap();
    let said = placed_beside(&rules, &tree, &commands, |_| Standing::Free);
    assert_eq!(said, ["a: x", "n.service: y"], "attributes come last");
    let [x, y] = both;
    let rules = Rules::new(vec![y, x], true).unwrap();
    assert_eq!(placed(&rules, &tree), ["a: y", "n.service: y"]);
}

#[test]
fn attributes_make_an_application_for_each_policy_where_they_count() {
    let tree = tree(&["a=fifo", "b=vtime", "c=fifo", "c/d=fifo", "e=lavd"]);
    let rules = Rules::new(Vec::new(), true).unwrap();
    assert_eq!(placed(&rules, &tree), ["a: policy:fifo", "b: policy:vtime", "c: policy:fifo"]);
    let placement = rules.place(&tree, &Commands::new(), |_, _| Standing::Free);
    assert_eq!(placement.unknown, [Unknown { path: "e", attribute: ATTRIBUTE, value: "lavd" }]);
    let rules = Rules::new(Vec::new(), false).unwrap();
    assert!(rules.attributes().is_empty() && placed(&rules, &tree).is_empty());
}

#[test]
fn a_flag_is_inherited_and_taken_back_below_and_all_flagged_ones_share_a_lane() {
    let tree = tree(&[
        "a:1",
        "a/in",
        "a/in/again:YES",
        "a/out:0",
        "a/out/below",
        "a/out/below/back:true",
        "b:yes",
        "b/n.service=fifo:1",
        "c:0",
        "d=lags",
        "e:maybe",
        "f=lavd:1",
        "k",
        "k/pod:0",
        "l:",
    ]);
    let said = |flagged: RuleApp, attributes| {
        let rules = Rules::new(vec![app("x", Some("vtime"), &[units("c")]), flagged], attributes);
        let rules = rules.unwrap();
        let placement = rules.place(&tree, &Commands::new(), |_, _| Standing::Free);
        let unknown: Vec<_> = placement.unknown.iter().map(|u| (u.path, u.value)).collect();
        let unknown = unknown.into_iter().map(|(p, v)| format!("{p} {v}")).collect::<Vec<_>>();
        (placed(&rules, &tree), unknown)
    };
    let by_file = |patterns: &[Pattern]| {
        RuleApp::latency_aware(LaneSpec::of(LATENCY_AWARE_POLICY), patterns.to_vec())
    };
    let (on, unknown) = said(by_file(&[cgroups("k")]), true);
    assert_eq!(
        on,
        [
            "a: latency-aware",
            "a/out: not latency-aware",
            "a/out/below/back: latency-aware",
            "b: latency-aware",
            "b/n.service: policy:fifo",
            "c: x",
            "d: latency-aware",
            "f: latency-aware",
            "k: latency-aware",
            "k/pod: not latency-aware",
        ]
    );
    assert_eq!(unknown, ["e maybe", "f lavd", "l "]);
    // What the file says of that very cgroup goes before its own flag.
    let (on, _) = said(by_file(&[cgroups("k/**"), cgroups("k")]), true);
    assert!(!on.contains(&"k/pod: not latency-aware".to_owned()), "{on:?}");
    let (on, unknown) = said(by_file(&[]), false);
    assert_eq!((on, unknown), (vec!["c: x".to_owned()], vec![]), "whoever sets them");
}

#[test]
fn what_a_user_said_by_hand_goes_before_rules_and_takes_along_what_is_below() {
    let tree = tree(&["a", "a/b", "a/b/c", "a/b/d", "a/e"]);
    let rules = Rules::new(
        vec![
            app("x", Some("fifo"), &[cgroups("a/**")]),
            app("y", Some("fifo"), &[cgroups("nothing")]),
        ],
        false,
    )
    .unwrap();
    for standing in [Standing::Assigned, Standing::Unassigned] {
        let said = placed_beside(&rules, &tree, &Commands::new(), |path| {
            if path == "a/b" { standing } else { Standing::Free }
        });
        assert_eq!(said, ["a/e: x"]);
    }
    // Where no rule is overruled, those below stay in force.
    let said = placed_beside(&rules, &tree, &Commands::new(), |path| {
        if path == "a" { Standing::Assigned } else { Standing::Free }
    });
    assert_eq!(said, ["a/b: x", "a/e: x"]);
}

/// Below a cgroup that a rule gives to the application further up a rule of the other one counts again,
/// as it would if a third application had that cgroup.
#[test]
fn what_a_user_said_ends_where_a_rule_of_another_application_is_in_force() {
    let tree = tree(&["a", "a/b", "a/b/c", "a/b/c/b", "a/b/b"]);
    let app_0 = app("app0", Some("fifo"), &[cgroups("a/**/b")]);
    let app_1 = app("app1", Some("vtime"), &[cgroups("**")]);
    let rules = Rules::new(vec![app_0, app_1], false).unwrap();
    let unassigned = |those: &'static [&str]| {
        placed_beside(&rules, &tree, &Commands::new(), |path| match those.contains(&path) {
            true => Standing::Unassigned,
            false => Standing::Free,
        })
    };
    assert_eq!(unassigned(&["a/b"]), ["a: app1", "a/b/c/b: app0"]);
    assert_eq!(unassigned(&["a/b", "a/b/c/b"]), ["a: app1"]);
}

#[test]
fn who_is_to_be_on_the_default_lane_is_left_there() {
    let tree = tree(&["a", "a/b", "c"]);
    let rules = Rules::new(
        vec![app("x", None, &[cgroups("a")]), app("y", Some("fifo"), &[cgroups("**")])],
        false,
    )
    .unwrap();
    assert_eq!(placed(&rules, &tree), ["a/b: y", "c: y"]);
}

#[test]
fn what_cannot_be_a_rule_is_refused_with_what_to_write() {
    for (pattern, said) in [
        (cgroups(""), "it is empty"),
        (cgroups("/sys/fs/cgroup/a/b"), "below /sys/fs/cgroup: 'a/b'"),
        (cgroups("/a"), "absolute"),
        (cgroups("a/../b"), "plain path"),
        (cgroups("a//b"), "plain path"),
        (cgroups("a["), "unclosed"),
        (units("a/n.service"), "write 'n.service'"),
        (Pattern::Commands("/usr/bin/db".to_owned()), "write 'db'"),
    ] {
        let e = Rules::new(vec![app("x", Some("fifo"), &[pattern])], false).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert!(e.to_string().contains(said), "{e}");
    }
}

#[test]
fn what_cannot_be_an_application_is_refused() {
    let good = app("x", Some("fifo"), &[cgroups("a")]);
    let named = |name: &str| RuleApp { name: name.to_owned(), ..good.clone() };
    let many = (0..=APPS).map(|n| named(&n.to_string())).collect();
    for (apps, said) in [
        (vec![good.clone(), good.clone()], "another application of that name"),
        (vec![app("x", Some("fifo"), &[])], "no cgroup can belong to it"),
        (vec![app("x", Some("lavd"), &[cgroups("a")])], "fifo, vtime"),
        (vec![named("policy:fifo")], "cannot be a name"),
        (vec![named(LATENCY_AWARE)], "another application of that name"),
        (many, "at most 63"),
    ] {
        let e = Rules::new(apps, false).unwrap_err();
        assert_eq!(e.kind, Kind::BadInput);
        assert!(e.to_string().contains(said), "{e}");
    }
}
