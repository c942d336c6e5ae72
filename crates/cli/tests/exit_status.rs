//! Which exit status metasched has when it runs a command: docs/exit-status.md.

use std::process::{Command, Output};

use metasched_base::OURS_BESIDE_A_COMMAND;

fn metasched(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_metasched")).args(arguments).output().unwrap()
}

#[test]
fn beside_a_command_a_failure_of_ours_is_not_taken_for_the_commands() {
    for arguments in [
        &["exec", "--policy", "lavd", "--", "true"][..],
        &["exec", "--loud", "--", "true"],
        &["vm", "--cpus", "0", "--", "true"],
        &["vm", "--cpus", "many", "--", "true"],
        &["-v", "vm", "--env", "novalue", "--", "true"],
        &["record", "--buffer", "big", "--", "true"],
        &["profile", "qa", "--", "true"],
        &["profile", "--schedulers", "no-such-scheduler", "--", "true"],
        &["profile", "--export-json", "/no/such/folder/file", "--", "true"],
    ] {
        let output = metasched(arguments);
        let ours = Some(i32::from(OURS_BESIDE_A_COMMAND));
        assert_eq!(output.status.code(), ours, "{arguments:?}: {output:?}");
        assert!(!output.stderr.is_empty(), "{arguments:?}");
    }
    let output = metasched(&["--json", "vm", "--cpus", "0", "--", "true"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["exit_code"], &said["error"]["kind"]), (&125.into(), &"usage".into()));
}

#[test]
fn without_a_command_or_with_one_that_cannot_run_the_kind_of_failure_decides() {
    for (arguments, status) in [
        (&["vm", "--list-kernels", "--loud"][..], 2),
        (&["exec", "--policy", "fifo"], 2),
        (&["doctor", "--", "true"], 2),
        (&["profile", "--prepare", "true", "qa"], 2),
        (&["profile", "--", "no-such-program-of-anybody"], 127),
        (&["profile", "--", env!("CARGO_MANIFEST_DIR")], 126),
        (&["rules", "/no/such/file"], 3),
        (&["exec", "--help", "--", "true"], 0),
        (&["-v", "-v", "list"], 2),
        // Nobody is there to use a shell.
        (&["vm"], 2),
    ] {
        let output = metasched(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {output:?}");
    }
}
