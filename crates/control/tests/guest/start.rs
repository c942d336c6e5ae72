//! What a start loads.

use metasched_base::Kind;
use metasched_host::cgroup::Cgroup;

use crate::machine::{Machine, status};
use crate::support::Run;

fn ok(arguments: &[&str]) -> String {
    let (code, said) = Run::start(arguments).finish();
    assert_eq!(code, Some(0), "{arguments:?}: {said}");
    said
}

#[test]
#[ignore = "needs a kernel with sched_ext: make test-guest"]
fn a_policy_that_was_not_loaded_is_refused_with_how_to_load_it() {
    let _machine = Machine::take();
    let bad_input = Some(i32::from(Kind::BadInput.exit_code()));
    let (code, said) = Run::start(&["start", "vtime", "--policies", "lavd"]).finish();
    assert_eq!(code, bad_input, "{said}");
    ok(&["start", "vtime", "--policies", "vtime"]);
    let view: serde_json::Value = serde_json::from_str(&ok(&["--json", "status"])).unwrap();
    assert_eq!(view["keeper"]["policies"], serde_json::json!(["vtime"]));
    let cgroup = Cgroup::create("metasched-test/a").unwrap();
    for refused in [&["assign", "metasched-test/a", "fifo"][..], &["switch", "fifo"]] {
        let (code, said) = Run::start(refused).finish();
        assert_eq!(code, bad_input, "{said}");
        assert!(said.contains("metasched start vtime --policies vtime,fifo"), "{said}");
    }
    ok(&["assign", "metasched-test/a", "vtime"]);
    ok(&["unassign", "--all"]);
    ok(&["stop"]);
    ok(&["start", "vtime"]);
    ok(&["switch", "fifo"]);
    ok(&["stop"]);
    cgroup.remove().unwrap();
    Cgroup::open(std::path::Path::new("/sys/fs/cgroup/metasched-test")).unwrap().remove().unwrap();
    assert!(status().is_default());
}
