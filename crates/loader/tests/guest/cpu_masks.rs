//! Where the kernel has its sets of CPUs.

use libbpf_rs::query::MapInfoIter;
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use metasched_host::kallsyms;

use crate::support::load;

#[test]
#[ignore = "needs a kernel with sched_ext: run by make test-guest"]
fn the_program_is_told_where_the_sets_of_cpus_are() {
    let _program = load("fifo");
    let id = MapInfoIter::default().find(|map| map.name == "cpu_masks").expect("it has the map").id;
    let map = MapHandle::from_map_id(id).unwrap();
    let told = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let [online, active] = kallsyms::addresses(["__cpu_online_mask", "__cpu_active_mask"]).unwrap();
    assert!(online != 0 && active != 0, "this kernel tells no addresses");
    assert_eq!(told, [online.to_ne_bytes(), active.to_ne_bytes()].concat());
}
