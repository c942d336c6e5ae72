use std::fs;

use metasched_base::Kind;

use super::*;

const GOOD: &str = r#"schema = 1
name = "qa"
summary = "questions"
[param.encoder]
default = "auto"
choices = ["auto", "lsa", "minilm"]
auto = { emulated = "lsa", native = "minilm" }
help = "which encoder"
[param.layout]
default = "split"
choices = ["split", "one"]
[param.chunks]
default = 5000
[prepare]
command = ["bash", "prepare.sh"]
timeout_s = 10
[form.zeta]
summary = "written first"
parts = ["alpha"]
[form.zeta.process.web]
command = ["bash", "web.sh"]
env = { BACK = "$METASCHED_RUN/back.sock" }
ready = { http = "http://127.0.0.1:8099/ready", timeout_s = 12.5 }
stop = "SIGINT"
[form.zeta.process.back]
command = ["bash", "back.sh"]
cgroup = "store"
when = { layout = "split" }
ready = { file = "${METASCHED_RUN}/back.sock" }
[form.zeta.load]
command = ["bash", "load.sh"]
reads = "metrics"
[form.alpha]
summary = "a command"
unit = "runs"
[form.alpha.process.main]
command = ["true"]
"#;

fn write(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(FILE_NAME), text).unwrap();
    folder
}

fn read(text: &str) -> Result<Manifest> {
    Manifest::read(write(text).path())
}

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

#[test]
fn a_manifest_is_read_in_the_order_in_which_it_was_written() {
    let manifest = read(GOOD).unwrap();
    let forms: Vec<&str> = manifest.forms.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(forms, ["zeta", "alpha"]);
    let processes = &manifest.forms[0].processes;
    let names: Vec<&str> = processes.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["web", "back"]);
    assert_eq!((processes[0].cgroup.as_str(), processes[1].cgroup.as_str()), ("web", "store"));
    assert_eq!(processes[0].stop, Signal::SIGINT);
    let ready = processes[0].ready.as_ref().unwrap();
    assert_eq!(ready.probe, Probe::Http("http://127.0.0.1:8099/ready".into()));
    assert_eq!(ready.timeout, Duration::from_millis(12_500));
    assert_eq!(manifest.params["chunks"].default, "5000");
    assert_eq!(manifest.forms[0].parts, ["alpha"]);
    assert_eq!(manifest.prepare.unwrap().timeout, Duration::from_secs(10));
}

#[test]
fn a_form_without_a_load_is_a_command_whose_run_time_counts() {
    let manifest = read(GOOD).unwrap();
    let form = manifest.form("alpha").unwrap();
    assert!(form.processes.is_empty());
    assert_eq!(
        (form.load.command.as_slice(), form.load.reads),
        (&["true".into()][..], Reader::Elapsed)
    );
}

#[test]
fn every_mistake_is_told_with_its_line_and_a_remedy() {
    // What is replaced, by what, and words of the message, which names the line.
    let cases = [
        ("summary = \"questions\"", "sumary = \"questions\"", "did you mean 'summary'?"),
        ("command = [\"bash\", \"web.sh\"]", "comand = [\"bash\"]", "did you mean 'command'?"),
        ("command = [\"bash\", \"web.sh\"]\n", "", "missing field `command`"),
        ("command = [\"bash\", \"web.sh\"]", "command = []", "the command is empty"),
        ("command = [\"bash\", \"web.sh\"]", "command = \"web.sh\"", "expected a sequence"),
        ("when = { layout = \"split\" }", "when = { lay = \"split\" }", "encoder, layout"),
        ("when = { layout = \"split\" }", "when = { layout = \"spilt\" }", "split, one"),
        ("reads = \"metrics\"", "reads = \"metric\"", "did you mean 'metrics'?"),
        ("default = \"split\"", "default = \"both\"", "the choices are split, one"),
        ("native = \"minilm\"", "native = \"mini\"", "not among the choices"),
        ("native = \"minilm\"", "native = \"auto\"", "cannot stand for itself"),
        ("default = 5000", "default = [1]", "one value"),
        ("timeout_s = 10\n", "timeout_s = 0\n", "not a usable time"),
        ("SIGINT", "SIGNIT", "there is no signal"),
        ("http://127", "127", "not an http address"),
        ("$METASCHED_RUN/", "$METASCHED_RUNS/", "METASCHED_RUNS"),
        ("ready = { file =", "ready = { http = \"http://x\", file =", "exactly one"),
        ("cgroup = \"store\"", "cgroup = \"../x\"", "cannot name a cgroup"),
        ("schema = 1", "schema = 2", "schema = 1"),
        ("name = \"qa\"", "name = \"q a\"", "cannot name a workload"),
        ("parts = [\"alpha\"]", "parts = [\"zeta\"]", "not another form"),
        ("parts = [\"alpha\"]", "parts = [\"beta\"]", "the forms are alpha, zeta"),
        ("[param.encoder]", "uses = [\"nothing\"]\n[param.encoder]", "there is no folder"),
        ("[param.encoder]", "uses = [\"../x\"]\n[param.encoder]", "cannot name a folder"),
        ("[prepare]", "[prepare", "correct that line"),
    ];
    assert!(read(GOOD).is_ok());
    for (old, new, words) in cases {
        let at = GOOD.find(old).expect(old);
        // Of what is missing, the line of its table is named.
        let missing = usize::from(words.starts_with("missing"));
        let line = 1 + GOOD[..at].matches('\n').count() - missing;
        let e = read(&GOOD.replacen(old, new, 1)).expect_err(new);
        let text = e.to_string();
        assert_eq!(e.kind, Kind::BadInput, "{text}");
        assert!(text.contains(&format!("manifest.toml:{line}:")), "line {line}: {text}");
        assert!(text.contains(words), "'{words}': {text}");
        assert!(!e.remedy.is_empty(), "{text}");
    }
}

#[test]
fn a_form_with_processes_but_no_load_is_refused() {
    let start = GOOD.find("[form.zeta.load]").unwrap();
    let end = GOOD.find("[form.alpha]").unwrap();
    let e = read(&format!("{}{}", &GOOD[..start], &GOOD[end..])).unwrap_err();
    assert!(e.to_string().contains("[form.zeta.load]"), "{e}");
    let none = GOOD.find("[form.zeta]").unwrap();
    assert!(read(&GOOD[..none]).unwrap_err().to_string().contains("there is no form"));
}

#[test]
fn auto_is_resolved_by_the_machine_and_a_setting_wins() {
    let folder = write(GOOD);
    let manifest = Manifest::read(folder.path()).unwrap();
    let encoder = |settings: &[(&str, &str)], emulated| {
        let w = Workload::resolve(manifest.clone(), &set(settings), emulated).unwrap();
        (w.params["encoder"].clone(), w.hash)
    };
    let (emulated, native) = (encoder(&[], true), encoder(&[], false));
    assert_eq!((emulated.0.as_str(), native.0.as_str()), ("lsa", "minilm"));
    assert_eq!(encoder(&[("encoder", "lsa")], false), emulated);
    assert_eq!(encoder(&[("encoder", "auto")], false), native);
    assert_ne!(emulated.1, native.1);
}

#[test]
fn unknown_parameters_and_values_are_refused_with_what_there_is() {
    let folder = write(GOOD);
    let resolve = |name, value| {
        let manifest = Manifest::read(folder.path()).unwrap();
        Workload::resolve(manifest, &set(&[(name, value)]), true).unwrap_err()
    };
    assert!(resolve("encodr", "lsa").remedy.contains("'encoder'"));
    assert!(resolve("zzz", "1").remedy.contains("chunks, encoder, layout"));
    assert!(resolve("encoder", "x").remedy.contains("auto, lsa, minilm"));
    assert_eq!(parse_setting("encoder").unwrap_err().kind, Kind::Usage);
    assert_eq!(parse_setting("a=b=c").unwrap(), ("a".into(), "b=c".into()));
}

#[test]
fn a_process_starts_only_when_its_condition_holds() {
    let folder = write(GOOD);
    let names = |layout| -> Vec<String> {
        let manifest = Manifest::read(folder.path()).unwrap();
        let workload = Workload::resolve(manifest, &set(&[("layout", layout)]), true).unwrap();
        let form = workload.manifest.form("zeta").unwrap();
        workload.processes(form).map(|p| p.name.clone()).collect()
    };
    assert_eq!(names("split"), ["web", "back"]);
    assert_eq!(names("one"), ["web"]);
}

#[test]
fn what_is_prepared_depends_only_on_the_parameters_that_are_named() {
    let resolve = |params: &str, settings: &[(&str, &str)]| {
        let folder = write(&GOOD.replacen("[prepare]\n", &format!("[prepare]\n{params}\n"), 1));
        let manifest = Manifest::read(folder.path())?;
        Workload::resolve(manifest, &set(settings), true)
    };
    let of = |params: &str, settings: &[(&str, &str)]| resolve(params, settings).unwrap();
    let layouts = |params: &str| [("layout", "one"), ("layout", "split")].map(|s| of(params, &[s]));
    let prepare = |workload: &Workload| {
        let variables = workload.param_variables(true);
        variables.map(|(name, _)| name).collect::<Vec<_>>()
    };
    for (params, same) in [("", false), ("params = [\"encoder\"]", true), ("params = []", true)] {
        let [one, split] = layouts(params);
        assert_ne!(one.hash, split.hash, "{params}");
        assert_eq!(one.prepared_hash == split.prepared_hash, same, "{params}");
        assert_eq!(one.param_variables(false).count(), 3);
    }
    let [one, _] = layouts("params = [\"encoder\"]");
    assert_eq!(prepare(&one), ["METASCHED_PARAM_ENCODER"]);
    let other = of("params = [\"encoder\"]", &[("encoder", "minilm")]);
    assert_ne!(other.prepared_hash, one.prepared_hash);
    assert_eq!(prepare(&of("", &[])).len(), 3);
    let said = resolve("params = [\"encodr\"]", &[]).unwrap_err().to_string();
    assert!(said.contains("there is no parameter 'encodr'") && said.contains("layout"), "{said}");
}

#[test]
fn the_hash_follows_every_file_but_not_what_runs_leave_behind() {
    let folder = write(GOOD);
    let hash = || {
        let manifest = Manifest::read(folder.path()).unwrap();
        Workload::resolve(manifest, &[], true).unwrap().hash
    };
    let first = hash();
    fs::create_dir_all(folder.path().join("__pycache__")).unwrap();
    fs::write(folder.path().join("__pycache__/x"), "1").unwrap();
    assert_eq!(hash(), first);
    fs::create_dir_all(folder.path().join("lib")).unwrap();
    fs::write(folder.path().join("lib/a.py"), "1").unwrap();
    let second = hash();
    assert_ne!(second, first);
    fs::write(folder.path().join("lib/a.py"), "2").unwrap();
    assert_ne!(hash(), second);
}

#[test]
fn the_hash_follows_the_folders_that_a_workload_uses() {
    let root = tempfile::tempdir().unwrap();
    let own = root.path().join("qa");
    for folder in ["qa", "common", "other"] {
        fs::create_dir(root.path().join(folder)).unwrap();
        fs::write(root.path().join(folder).join("x.sh"), "1").unwrap();
    }
    fs::write(own.join(FILE_NAME), format!("uses = [\"common\"]\n{GOOD}")).unwrap();
    let hash = || Workload::resolve(Manifest::read(&own).unwrap(), &[], true).unwrap().hash;
    let first = hash();
    fs::write(root.path().join("other/x.sh"), "2").unwrap();
    assert_eq!(hash(), first);
    fs::write(root.path().join("common/x.sh"), "2").unwrap();
    assert_ne!(hash(), first);
}
