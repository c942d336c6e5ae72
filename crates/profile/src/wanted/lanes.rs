//! Every application on a lane of the policy that it prefers, by a plan, a file of rules, or what a
//! user says.

use std::path::Path;
use std::str::FromStr;

use metasched_base::{Error, Kind, Result, parse_pair};
use metasched_control::{Candidate, CandidateKind, Pattern, RuleApp, Rules, Why, resolve};
use metasched_experiment::Share;
use metasched_host::cgroup::Cgroup;
use metasched_loader::{DEFAULT_POLICY, LaneSpec, settings};

use super::file::{Named, RulesFile};
use super::shares::{PlannedShare, PlannedShares};

/// One `--cgroup APP=CGROUP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppCgroup {
    /// The application.
    pub app: String,
    /// The cgroup, as the user names it.
    pub cgroup: String,
}

impl FromStr for AppCgroup {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let (app, cgroup) =
            parse_pair(text, "the cgroup of a part", "--cgroup front=qa-front.service")?;
        Ok(Self { app, cgroup })
    }
}

/// Who goes where, and what holds for everybody else.
pub struct Wanted {
    /// The rules by which applications are found.
    pub rules: Rules,
    /// The policy of everybody else.
    pub default: String,
}

impl Wanted {
    /// What a file of rules says. The plan is asked for only if that leaves a policy open
    /// or `plan_given`.
    pub fn from_file(
        path: &str,
        default: Option<&str>,
        plan_given: bool,
        plan: impl FnOnce() -> Result<PlannedShares>,
        table: &[Candidate],
    ) -> Result<Self> {
        let file = RulesFile::read(path)?;
        let open = file.apps.iter().find(|app| app.policy.is_none());
        let plan = match open {
            Some(app) if !plan_given => Some(plan().map_err(|e| without_plan(app, &e))?),
            None if !plan_given => None,
            _ => Some(plan()?),
        };
        let why = Why::File(path.to_owned());
        let place = |app| place(app, plan.as_ref(), &why, table);
        let mut apps: Vec<RuleApp> = file.apps.into_iter().map(place).collect::<Result<_>>()?;
        if let Some((flagged, before)) = file.latency_aware {
            apps.insert(before, flagged);
        }
        let default = default.or(file.default.as_deref()).unwrap_or(DEFAULT_POLICY).to_owned();
        Ok(Self { rules: Rules::new(apps, file.attributes)?, default })
    }

    /// What the short form says: the applications are those of the plan.
    pub fn from_plan(
        plan: &PlannedShares,
        cgroups: &[AppCgroup],
        default: Option<&str>,
        table: &[Candidate],
    ) -> Result<Self> {
        let apps = name(Path::new("/"), plan, cgroups)?
            .into_iter()
            .map(|app| place(app, Some(plan), &Why::CommandLine, table))
            .collect::<Result<_>>()?;
        let default = default.unwrap_or(DEFAULT_POLICY).to_owned();
        Ok(Self { rules: Rules::new(apps, false)?, default })
    }
}

/// The applications of the plan, each with the cgroups that the command line gives it:
/// those that are there now, and what is made under their names later.
fn name(root: &Path, plan: &PlannedShares, cgroups: &[AppCgroup]) -> Result<Vec<Named>> {
    let known: Vec<&str> = plan.rows().iter().map(|planned| planned.app.as_str()).collect();
    // Parts that share a lane are one application here.
    let is_of = |c: &AppCgroup, app: &str| c.app == app || Share::parts_of(app).contains(&c.app);
    if let Some(stray) = cgroups.iter().find(|c| !known.iter().any(|app| is_of(c, app))) {
        return Err(Error::new(
            Kind::Usage,
            format!("use '--cgroup {}={}'", stray.app, stray.cgroup),
            "the plan has no such application",
        )
        .remedy(format!("it has {}", known.join(", "))));
    }
    let named = |app: &&str| {
        let own = cgroups.iter().filter(|c| is_of(c, app));
        let pattern = |own: &AppCgroup| pattern(root, &own.cgroup);
        Ok(Named {
            name: (*app).to_owned(),
            policy: None,
            weight: None,
            settings: Vec::new(),
            patterns: own.map(pattern).collect::<Result<_>>()?,
            place: "the command line".to_owned(),
        })
    };
    known.iter().map(named).collect()
}

/// The rule for a cgroup as a user names it. A path may be of one that is yet to be made,
/// such as a service's that is not started; a single name must be of one that is there.
fn pattern(root: &Path, cgroup: &str) -> Result<Pattern> {
    let path = match Cgroup::find(root, cgroup) {
        Ok(found) => found.name(),
        Err(_) if cgroup.contains('/') => {
            cgroup.trim_start_matches("/sys/fs/cgroup").trim_matches('/').to_owned()
        }
        Err(error) => return Err(error),
    };
    let pattern = Pattern::exactly(&path);
    pattern.check()?;
    Ok(pattern)
}

/// That an application's policy is left to a plan which nobody gave, and the store has none.
fn without_plan(app: &Named, error: &Error) -> Error {
    let Error { kind, attempt, cause, remedy, .. } = error;
    let cause = format!("it has no policy there, and none by a plan: cannot {attempt}: {cause}");
    Error::new(*kind, app.attempt(), cause)
        .remedy(format!("write a policy = \"...\" for it; or {remedy}"))
}

/// Where an application goes: by what the user says of it, else by the plan.
fn place(
    app: Named,
    plan: Option<&PlannedShares>,
    why: &Why,
    table: &[Candidate],
) -> Result<RuleApp> {
    let rows = plan.map_or(&[][..], PlannedShares::rows);
    let planned = rows.iter().find(|planned| planned.app == app.name);
    let attempt = || app.attempt();
    let share = planned.map(|planned| planned.share).filter(|_| app.weight.is_none());
    let (lane, why) = match (&app.policy, planned) {
        (Some(policy), _) => (Some(LaneSpec::of(policy)), why.clone()),
        (None, Some(planned)) => (preferred(planned, table, attempt)?, planned.why.clone()),
        (None, None) => {
            let known: Vec<&str> = rows.iter().map(|planned| planned.app.as_str()).collect();
            return Err(Error::new(
                Kind::BadInput,
                attempt(),
                format!("it has no policy, and the plan knows only {}", known.join(", ")),
            )
            .remedy("write a policy = \"...\" for it, or measure it"));
        }
    };
    let weight = app.weight.or_else(|| plan?.lane_weight(&app.name));
    let lane = lane
        .map(|mut lane| -> Result<LaneSpec> {
            if !app.settings.is_empty() {
                lane.options.extend(settings(&lane.policy, &app.settings)?);
            }
            Ok(LaneSpec { weight, ..lane })
        })
        .transpose()?;
    if lane.is_some() && app.patterns.is_empty() {
        return Err(Error::new(Kind::Usage, attempt(), "its cgroup is not known")
            .remedy(format!("name it: --cgroup {}=CGROUP", app.name)));
    }
    Ok(RuleApp { name: app.name, lane, why, share, patterns: app.patterns })
}

/// The lane that the plan has for an application; `None` for the default scheduler,
/// which cannot be a lane: who prefers it is told to be on the default one.
fn preferred(
    planned: &PlannedShare,
    table: &[Candidate],
    attempt: impl Fn() -> String,
) -> Result<Option<LaneSpec>> {
    let candidate = resolve(table, &planned.scheduler)?;
    match candidate.kind {
        CandidateKind::Policy => Ok(Some(candidate.lane())),
        CandidateKind::Default => Ok(None),
        CandidateKind::External => Err(Error::new(
            Kind::BadInput,
            attempt(),
            format!("it prefers '{}', which is no policy of ours", candidate.name),
        )
        .remedy("have the schedulers take turns: --mode turns; or name another: --turn")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metasched_control::EEVDF;

    fn policy(name: &str, kind: CandidateKind) -> Candidate {
        Candidate { name: name.to_owned(), kind, ..Candidate::eevdf("") }
    }

    fn table() -> Vec<Candidate> {
        vec![
            Candidate::eevdf(""),
            policy("fifo", CandidateKind::Policy),
            policy("vtime", CandidateKind::Policy),
            policy("scx_x", CandidateKind::External),
        ]
    }

    fn plan(turns: &[&str]) -> PlannedShares {
        let turns: Vec<_> = turns.iter().map(|turn| turn.parse().unwrap()).collect();
        PlannedShares::from_turns(&turns).unwrap()
    }

    fn cgroups(named: &[&str]) -> Vec<AppCgroup> {
        named.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Where the applications of the short form go; `a`, `b` and `c` are there.
    fn placed(plan: &PlannedShares, named: &[&str]) -> Result<Vec<RuleApp>> {
        let root = tempfile::tempdir().unwrap();
        for cgroup in ["", "a", "b", "c"] {
            let folder = root.path().join("sys/fs/cgroup").join(cgroup);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cgroup.controllers"), "cpu\n").unwrap();
        }
        let apps = name(root.path(), plan, &cgroups(named))?;
        apps.into_iter().map(|app| place(app, Some(plan), &Why::CommandLine, &table())).collect()
    }

    fn weight(app: &RuleApp) -> Option<u32> {
        app.lane.as_ref().and_then(|lane| lane.weight)
    }

    #[test]
    fn shares_become_weights_around_a_hundred() {
        let plan = plan(&["front=fifo:0.8", "back=vtime:0.2"]);
        let apps = placed(&plan, &["front=a", "back=b", "back=c"]).unwrap();
        assert_eq!((weight(&apps[0]), weight(&apps[1])), (Some(160), Some(40)));
        assert_eq!(apps[1].patterns, [Pattern::exactly("b"), Pattern::exactly("c")]);
        assert_eq!((&apps[0].why, apps[0].share), (&Why::CommandLine, Some(0.8)));
    }

    #[test]
    fn parts_that_share_a_lane_bring_the_cgroups_of_each_and_weigh_together() {
        // Regression: no rule could have the name of such a lane.
        let lane = |parts: &[&str], scheduler: &str, weight| Share {
            parts: parts.iter().map(|part| (*part).to_owned()).collect(),
            scheduler: scheduler.to_owned(),
            weight,
        };
        let contender = metasched_experiment::Contender::Lanes {
            strategy: Some(metasched_experiment::Strategy::RoundRobin),
            default: "fair".to_owned(),
            lanes: vec![lane(&["front", "back"], "fifo", 0.67), lane(&["batch"], "vtime", 0.33)],
        };
        let plan = PlannedShares::recommended(&contender, "qa", Some("plan.json")).unwrap();
        let apps = placed(&plan, &["front=a", "back=b", "batch=c"]).unwrap();
        assert_eq!(apps[0].patterns, [Pattern::exactly("a"), Pattern::exactly("b")]);
        assert_eq!((weight(&apps[0]), weight(&apps[1])), (Some(201), Some(99)));
        // Regression: such a lane was told to be by the plan of the store.
        let by_file = |why: &Why| matches!(why, Why::Preferred(by) if by.plan.is_some());
        assert!(by_file(&apps[0].why), "{:?}", apps[0].why);
        Rules::new(apps, false).unwrap();
    }

    #[test]
    fn who_prefers_the_default_scheduler_is_on_the_default_lane() {
        let plan = plan(&[&format!("front={EEVDF}"), "back=vtime"]);
        let apps = placed(&plan, &["back=b"]).unwrap();
        assert_eq!((apps[0].lane.as_ref(), weight(&apps[1])), (None, Some(100)));
        Rules::new(apps, false).unwrap();
    }

    #[test]
    fn what_cannot_be_placed_is_told_with_what_to_do() {
        let e = placed(&plan(&["front=scx_x"]), &[]).unwrap_err();
        assert!(e.to_string().contains("--mode turns"), "{e}");
        let e = placed(&plan(&["front=fifo"]), &[]).unwrap_err();
        assert!(e.to_string().contains("--cgroup front=CGROUP"), "{e}");
        let e = placed(&plan(&["front=fifo"]), &["back=b"]).unwrap_err();
        assert!(e.to_string().contains("it has front"), "{e}");
        let e = placed(&plan(&["front=fifo"]), &["front=d"]).unwrap_err();
        assert!(e.to_string().contains("the cgroup 'd'"), "{e}");
        assert!("front".parse::<AppCgroup>().is_err());
        assert!(placed(&plan(&["front=fifo"]), &["front=a/../d"]).is_err());
    }

    #[test]
    fn a_path_may_be_of_a_cgroup_that_is_made_later() {
        for path in ["a/later", "/sys/fs/cgroup/a/later/"] {
            let apps = placed(&plan(&["front=fifo"]), &[&format!("front={path}")]).unwrap();
            assert_eq!(apps[0].patterns, [Pattern::exactly("a/later")]);
        }
    }

    #[test]
    fn what_a_file_leaves_open_is_as_the_plan_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("app.toml");
        let wanted = |apps: &str, given: bool, turns: &[&str]| {
            std::fs::write(&path, format!("default = \"fifo\"\n{apps}")).unwrap();
            let path = path.to_str().unwrap();
            let mut asked = false;
            let plan = || {
                asked = true;
                Ok(plan(turns))
            };
            let wanted = Wanted::from_file(path, None, given, plan, &table());
            wanted.map(|wanted| (asked, wanted))
        };
        let app = |more: &str| format!("[[app]]\nname = \"front\"\ncgroups = [\"a\"]\n{more}\n");

        let (asked, said) = wanted(&app("policy = \"fifo\""), false, &["front=vtime"]).unwrap();
        assert_eq!((asked, said.default.as_str()), (false, "fifo"));
        let front = &said.rules.apps()[0];
        assert_eq!((weight(front), front.share), (None, None), "cpu.weight");
        assert!(matches!(&front.why, Why::File(file) if file.ends_with("app.toml")));

        let turns = ["front=vtime:3", "back=fifo:1"];
        let (_, said) = wanted(&app("policy = \"fifo\""), true, &turns).unwrap();
        let front = &said.rules.apps()[0];
        assert_eq!((weight(front), front.share), (Some(150), Some(0.75)));
        assert_eq!(front.lane.as_ref().unwrap().policy, "fifo");

        let (asked, said) = wanted(&app("weight = 7"), false, &turns).unwrap();
        let front = &said.rules.apps()[0];
        assert_eq!((asked, weight(front), front.share), (true, Some(7), None));
        assert_eq!(front.lane.as_ref().unwrap().policy, "vtime");

        let e = wanted(&app(""), false, &["back=fifo"]).err().unwrap();
        assert!(e.to_string().contains("app.toml:3") && e.to_string().contains("only back"), "{e}");
        let e = wanted(&app("options = { quantum = 1 }"), false, &turns).err().unwrap();
        assert!(e.to_string().contains("no such option"), "{e}");

        std::fs::write(&path, app("")).unwrap();
        let none = || Err(Error::new(Kind::BadInput, "find it", "there is none").remedy("measure"));
        let wanted = Wanted::from_file(path.to_str().unwrap(), None, false, none, &table());
        let said = wanted.err().unwrap().to_string();
        assert!(said.starts_with("cannot put 'front' on a lane, as ") && said.contains(":2 says"));
        assert!(said.ends_with(
            "cannot find it: there is none; write a policy = \"...\" for it; or measure"
        ));
    }
}
