use super::*;

fn sound_host() -> Host {
    Host {
        release: "7.2.13".into(),
        sched_ext: true,
        btf: true,
        privileged: true,
        ..Host::default()
    }
}

fn facts(stage: Stage, error: ErrorKind, log: &str) -> Facts {
    Facts { stage, error, log: log.into(), record: None, host: sound_host() }
}

#[test]
fn a_kernel_without_sched_ext_is_named_and_the_testbed_offered() {
    let verdict = unfit(&Host { sched_ext: false, ..sound_host() }).unwrap();
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.cause.contains("7.2.13 has no sched_ext"), "{}", verdict.cause);
    assert!(verdict.remedy.contains("metasched vm"), "{}", verdict.remedy);
}

#[test]
fn a_user_who_is_not_root_is_told_so_before_anything_is_tried() {
    let verdict = unfit(&Host { privileged: false, ..sound_host() }).unwrap();
    assert_eq!(verdict.kind, Kind::Denied);
    assert!(unfit(&sound_host()).is_none());
}

#[test]
fn unsound_btf_names_each_function_once() {
    let log = "libbpf: extern (func ksym) 'scx_bpf_create_dsq': func_proto [52] incompatible with vmlinux [1234]\n\
               libbpf: extern (func ksym) 'scx_bpf_kick_cpu': not found in kernel or module BTFs\n\
               libbpf: extern (func ksym) 'scx_bpf_create_dsq': func_proto [52] incompatible with vmlinux [1234]\n";
    let verdict = decide(&facts(Stage::Load, ErrorKind::InvalidInput, log));
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.cause.ends_with(": scx_bpf_create_dsq, scx_bpf_kick_cpu"), "{}", verdict.cause);
}

#[test]
fn a_weak_function_that_is_missing_is_named_before_the_verifiers_own_words() {
    let log = "libbpf: prog 'metasched_init': -- BEGIN PROG LOAD LOG --\n\
               ; err = scx_bpf_create_dsq(id, -1);\n\
               kfunc 'scx_bpf_create_dsq' is referenced but wasn't resolved\n\
               processed 3 insns\n-- END PROG LOAD LOG --\n";
    let verdict = decide(&facts(Stage::Load, ErrorKind::InvalidInput, log));
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.cause.contains("scx_bpf_create_dsq"), "{}", verdict.cause);
}

#[test]
fn a_rejection_by_the_verifier_shows_the_program_and_the_last_lines() {
    let log = "libbpf: prog 'metasched_enqueue': BPF program load failed: Permission denied\n\
               libbpf: prog 'metasched_enqueue': -- BEGIN PROG LOAD LOG --\n\
               0: R1=ctx() R10=fp0\n\
               41: (79) r1 = *(u64 *)(r0 +8)\n\
               R0 invalid mem access 'map_value_or_null'\n\
               processed 41 insns (limit 1000000) max_states_per_insn 0\n\
               -- END PROG LOAD LOG --\n";
    let verdict = decide(&facts(Stage::Load, ErrorKind::PermissionDenied, log));
    assert_eq!(verdict.kind, Kind::Failed);
    let first = verdict.cause.lines().next().unwrap();
    assert_eq!(
        first,
        "the verifier rejected 'metasched_enqueue': R0 invalid mem access 'map_value_or_null'"
    );
    assert!(verdict.cause.contains("41: (79)"), "{}", verdict.cause);
    assert!(!verdict.cause.contains("processed"), "{}", verdict.cause);
}

#[test]
fn an_attached_scheduler_is_named() {
    let mut facts = facts(Stage::Attach, ErrorKind::ResourceBusy, "libbpf: failed to attach");
    facts.host.attached = Some("bpfland_1.1.4".into());
    let verdict = decide(&facts);
    assert_eq!(verdict.kind, Kind::Busy);
    assert_eq!(
        verdict.error("load 'fifo'").to_string(),
        "cannot load 'fifo': 'bpfland_1.1.4' is already attached; stop it first"
    );
}

#[test]
fn isolated_cpus_are_the_cause_only_where_there_are_some() {
    let mut facts = facts(Stage::Attach, ErrorKind::InvalidInput, "libbpf: failed to attach");
    assert_eq!(decide(&facts).kind, Kind::Failed);
    facts.host.isolated = "2-3".into();
    let verdict = decide(&facts);
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.cause.contains("CPUs 2-3"), "{}", verdict.cause);
}

#[test]
fn a_kernel_built_without_the_class_is_told_from_one_that_lacks_functions() {
    let log = "libbpf: struct_ops init_kern: struct bpf_struct_ops_sched_ext_ops is not found in kernel BTF\n";
    let verdict = decide(&facts(Stage::Load, ErrorKind::Unsupported, log));
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.cause.contains("CONFIG_SCHED_CLASS_EXT"), "{}", verdict.cause);
}

#[test]
fn a_kernel_that_says_no_to_root_is_a_matter_of_permission() {
    let verdict = decide(&facts(Stage::Load, ErrorKind::PermissionDenied, "libbpf: failed"));
    assert_eq!(verdict.kind, Kind::Denied);
}

#[test]
fn an_unreadable_configuration_says_where_it_belongs() {
    let log = "libbpf: failed to open system Kconfig\n";
    let verdict = decide(&facts(Stage::Load, ErrorKind::NotFound, log));
    assert_eq!(verdict.kind, Kind::Unsupported);
    assert!(verdict.remedy.contains("/boot/config-7.2.13"), "{}", verdict.remedy);
}

#[test]
fn a_program_that_was_turned_out_as_it_started_says_why() {
    let mut facts = facts(Stage::Attach, ErrorKind::OutOfMemory, "libbpf: failed to attach");
    facts.record = Some(ExitRecord {
        kind: 1024,
        kind_name: "runtime error",
        reason: "runtime error".into(),
        message: "ops.init() failed (-12)".into(),
        dump: String::new(),
    });
    let verdict = decide(&facts);
    assert_eq!(verdict.kind, Kind::SchedulerExit);
    assert!(verdict.cause.contains("ops.init() failed (-12)"), "{}", verdict.cause);
}

#[test]
fn facts_about_the_host_are_read_below_a_root() {
    let root = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("proc/sys/kernel/osrelease", "7.3.4\n");
    write("sys/kernel/sched_ext/state", "enabled\n");
    write("sys/kernel/sched_ext/root/ops", "rusty\n");
    write("sys/devices/system/cpu/isolated", "\n");
    let host = Host::read(root.path());
    assert_eq!(host.release, "7.3.4");
    assert!(host.sched_ext && !host.btf && !host.jit_off);
    assert_eq!(host.attached.as_deref(), Some("rusty"));
    assert_eq!(host.isolated, "");
}
