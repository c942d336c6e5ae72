//! Lanes and cgroups in the places of those that have gone, where only the kernel says what it
//! forgot and what it kept.

use std::fs;
use std::time::Duration;

use crate::lanes::Assigned;
use crate::load::Hog;
use crate::support::{Group, assert_alive, load, load_all, settles, wait_until};

/// The kernel forgets what a timer calls when it is stopped, and a lane's was as the lane was
/// freed: under central in that place, whose tasks run until its timer says so, who waited did so
/// until the watchdog ended us.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn a_lane_in_the_place_of_another_ends_runs_by_its_timer() {
    let mut program = load_all("fifo");
    let hogs: Vec<Hog> = (0..5).map(|_| Hog::start(&[], 0)).collect();
    program.replace_root("vtime").unwrap();
    wait_until("the first lane is freed", || program.lanes().unwrap().len() == 1);
    program.replace_root("central").unwrap();
    let root = program.lanes().unwrap().into_iter().find(|lane| lane.is_root()).unwrap();
    assert_eq!(root.index, 0, "the first lane's place was not used again");
    wait_until("the others are freed", || program.lanes().unwrap().len() == 1);
    let before: Vec<Duration> = hogs.iter().map(Hog::ran).collect();
    wait_until("each hog runs again", || {
        hogs.iter()
            .zip(&before)
            .all(|(hog, before)| hog.ran() > *before + Duration::from_millis(50))
    });
    assert_alive(&program);
}

/// Tasks that are there already knew the cgroup above theirs as their own, for good.
#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn cgroups_whose_controller_comes_late_have_their_weights() {
    let program = load("fair");
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu").unwrap();
    let above = Group::new("metasched-late");
    let of = |name: &str| Assigned::beside(&format!("metasched-late/{name}"), 3);
    let (light, heavy) = (of("light"), of("heavy"));
    std::thread::sleep(Duration::from_millis(500));
    fs::write(above.file("cgroup.subtree_control"), "+cpu").unwrap();
    fs::write(light.group.file("cpu.weight"), "25").unwrap();
    std::thread::sleep(Duration::from_secs(1));
    let before = (light.ran(), heavy.ran());
    settles("CPU time by weight, 4 : 1", Duration::from_secs(2), || {
        let ratio = (heavy.ran() - before.1) / (light.ran() - before.0);
        println!("{ratio:.2} : 1");
        (ratio / 4.0 - 1.0).abs() < 0.15
    });
    assert_alive(&program);
}
