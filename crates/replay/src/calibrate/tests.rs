use super::*;
use std::path::PathBuf;

fn measured(ns: f64) -> Option<Measured> {
    Some(Measured { median_ns: ns, low_ns: ns - 10.0, high_ns: ns + 10.0, repeats: 30 })
}

fn calibration() -> Calibration {
    let machine = HostFacts {
        cpu_model: "A CPU".to_owned(),
        cpus: 2,
        smt: false,
        llcs: 1,
        nodes: 1,
        memory_bytes: 0,
        hypervisor: None,
        emulated: false,
        kernel_release: "7.2.0".to_owned(),
        os: String::new(),
    };
    Calibration {
        machine,
        scheduler: "fifo".to_owned(),
        hz: Some(1000),
        call: measured(410.4),
        wake: measured(900.0),
        switch: measured(1_900.0),
        tell: measured(5_000.0),
        sleep: measured(6_000.0),
        timer: None,
        tick_late: measured(3_000.0),
        ticks: Some(Lateness { jitter_ns: 700, strays: 90, stray_ns: 5_000 }),
        ipi_ns: Some((1_500, 7_000)),
        own_ns: Some((800, 900)),
        migrations: vec![(Sharing::Llc, measured(2_000.0).unwrap())],
        kernel_threads: vec![KernelThread {
            name: "kworker/1:2".to_owned(),
            cpu: Some(1),
            every_ns: 500_000_000,
            run_ns: 210_000,
        }],
        notes: vec!["timer: nobody slept".to_owned()],
    }
}

#[test]
fn what_is_written_is_a_machine_that_scenarios_take() {
    let calibration = calibration();
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("machine.toml");
    let text = calibration.to_toml();
    std::fs::write(&path, &text).unwrap();
    let read = MachineSpec::load(&path).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(read, calibration.spec().unwrap());
    assert_eq!((read.hz, read.cpus, read.costs.call_ns), (1000, 2, 410));
    assert_eq!((read.costs.ipi_least_ns, read.costs.ipi_most_ns), (1_500, 7_000));
    assert_eq!((read.costs.own_least_ns, read.costs.own_most_ns), (800, 900));
    assert_eq!((read.costs.tell_ns, read.costs.sleep_ns), (5_000, 6_000));
    let Costs { tick_jitter_ns, tick_strays, tick_stray_ns, .. } = read.costs;
    assert_eq!((tick_jitter_ns, tick_strays, tick_stray_ns), (700, 90, 5_000));
    assert_eq!(read.costs.migration_llc_ns, 2_000);
    assert!(text.contains("# Not measured: timer: nobody slept."), "{text}");
}

#[test]
fn what_an_older_calibration_does_not_tell_was_not_measured() {
    let mut older = serde_json::to_value(calibration()).unwrap();
    let told = older.as_object_mut().unwrap();
    assert!(told.remove("ticks").is_some() && told.remove("kernel_threads").is_some());
    let read: Calibration = serde_json::from_value(older).unwrap();
    assert_eq!((read.ticks, read.kernel_threads), (None, Vec::new()));
    assert_eq!(read.hz, Some(1000));
}

#[test]
fn costs_of_this_machine_are_of_an_order_that_machines_have() {
    // Far apart: this runs beside other tests.
    let seen = calibrate("whatever", &Interrupt::default()).unwrap();
    let between = |what: &str, measured: Option<Measured>, low: f64, high: f64| {
        let measured = measured.unwrap_or_else(|| panic!("{what} was not measured"));
        let Measured { median_ns, low_ns, high_ns, .. } = measured;
        assert!((low..=high).contains(&median_ns), "{what}: {measured:?}");
        assert!(low_ns <= median_ns && median_ns <= high_ns, "{what}: {measured:?}");
    };
    between("a call", seen.call, 20.0, 100_000.0);
    between("a wake-up", seen.wake, 0.0, 1_000_000.0);
    between("a switch", seen.switch, 0.0, 10_000_000.0);
    // Traced where that is to be had; otherwise it is said that it was not.
    assert_ne!(
        seen.ipi_ns.is_some(),
        seen.notes.iter().any(|n| n.starts_with("ipi: ")),
        "{seen:?}"
    );
    assert_eq!(seen.migrations.is_empty(), seen.machine.cpus == 1, "{seen:?}");
}

#[test]
fn an_interrupted_calibration_says_so() {
    let interrupt = Interrupt::default();
    interrupt.raise();
    assert_eq!(calibrate("whatever", &interrupt).unwrap_err().kind, Kind::Interrupted);
}
