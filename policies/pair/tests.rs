//! What pair promises, run in the simulator from its own source.

use metasched_sim::metasched::{assign, replace_root, set_app, set_option};
use metasched_sim::observer::Observer;
use metasched_sim::task::TaskId;
use metasched_sim::trace::{Observed, What};
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, between, exactly, ms, options, policy, us};
use std::cell::RefCell;
use std::rc::Rc;

/// The default of `pair_batch_dur_ns` in options.h.
const BATCH: u64 = ms(20);
/// A slice that is used up is noticed at the next tick.
const TICK: u64 = ms(4);
/// Interrupts on their way, and what callbacks take.
const SOON: u64 = us(50);

/// Looks at which cgroups the CPUs of each pair run, whatever the policy says of it.
#[derive(Default)]
struct Watch {
    /// CPU and partner, by the lower one.
    pairs: Vec<(usize, usize)>,
    /// Of each task, by its number.
    cgroups: Vec<String>,
    running: Vec<Option<TaskId>>,
    last: u64,
    /// How long two CPUs of a pair ran different cgroups: in all, and at a stretch.
    mixed_ns: u64,
    longest_ns: u64,
    stretch: Vec<u64>,
    /// How long one was idle while its partner ran.
    half_ns: u64,
    /// How often a pair began with another cgroup than it ran before.
    switches: u64,
    before: Vec<String>,
    /// Cgroups that have the policy; all where there are none.
    only: Vec<String>,
    /// When it begins to look.
    from: u64,
}

impl Watch {
    fn of(machine: &Machine, pairs: &[(usize, usize)]) -> Rc<RefCell<Watch>> {
        Rc::new(RefCell::new(Watch {
            pairs: pairs.to_vec(),
            running: vec![None; machine.nr_cpus()],
            stretch: vec![0; pairs.len()],
            before: vec![String::new(); pairs.len()],
            ..Watch::default()
        }))
    }

    fn cgroup(&self, cpu: usize) -> Option<&str> {
        let cgroup = self.cgroups[self.running[cpu]?.0].as_str();
        (self.only.is_empty() || self.only.iter().any(|only| only == cgroup)).then_some(cgroup)
    }

    fn passes(&mut self, now: u64) {
        let for_ns = now - std::mem::replace(&mut self.last, now);
        if for_ns == 0 || now < self.from {
            return;
        }
        for i in 0..self.pairs.len() {
            let (a, b) = (self.cgroup(self.pairs[i].0), self.cgroup(self.pairs[i].1));
            let (mixed, half) = match (a, b) {
                (Some(a), Some(b)) => (a != b, false),
                (None, None) => (false, false),
                _ => (false, true),
            };
            if let Some(runs) = a.or(b).filter(|runs| *runs != self.before[i]) {
                self.before[i] = runs.to_owned();
                self.switches += 1;
            }
            self.half_ns += if half { for_ns } else { 0 };
            self.mixed_ns += if mixed { for_ns } else { 0 };
            self.stretch[i] = if mixed { self.stretch[i] + for_ns } else { 0 };
            self.longest_ns = self.longest_ns.max(self.stretch[i]);
        }
    }
}

impl Observer for Watch {
    fn born(&mut self, task: TaskId, _name: &str, cgroup: &str) {
        assert_eq!(task.0, self.cgroups.len());
        self.cgroups.push(cgroup.to_owned());
    }

    fn moved(&mut self, at: u64, task: TaskId, cgroup: &str) {
        self.passes(at);
        self.cgroups[task.0] = cgroup.to_owned();
    }

    fn observe(&mut self, event: &Observed) {
        self.passes(event.at);
        match (&event.what, event.task) {
            (What::Start, Some(task)) => self.running[event.cpu] = Some(task),
            (What::Stop { .. }, _) => self.running[event.cpu] = None,
            _ => {}
        }
    }
}

/// In the other half of the machine, where no core has two CPUs.
fn halves(cpus: usize) -> Vec<(usize, usize)> {
    (0..cpus / 2).map(|cpu| (cpu, cpu + cpus / 2)).collect()
}

fn hogs(run: Scenario, n: usize, cgroup: &'static str) -> Scenario {
    run.tasks(n, move |i| TaskSpec::hog(format!("{cgroup} {i}")).in_cgroup(cgroup))
}

fn sleepers(run: Scenario, n: usize, cgroup: &'static str) -> Scenario {
    run.tasks(n, move |i| {
        TaskSpec::named(format!("{cgroup} sleeper {i}"))
            .in_cgroup(cgroup)
            .run(between(us(100), ms(2)))
            .sleep(between(us(100), ms(6)))
            .for_ever()
    })
}

fn watched(
    run: Scenario,
    machine: Machine,
    pairs: &[(usize, usize)],
) -> (Outcome, Rc<RefCell<Watch>>) {
    let watch = Watch::of(&machine, pairs);
    let outcome = run.machine(machine).read_by(&watch).pass();
    (outcome, watch)
}

fn longest_wait(outcome: &Outcome, name: &str) -> u64 {
    let of = outcome.all().filter(|(who, _)| who.starts_with(name));
    of.map(|(_, figures)| figures.longest_wait_ns).max().unwrap()
}

fn ran(outcome: &Outcome, name: &str) -> u64 {
    outcome.all().filter(|(who, _)| who.starts_with(name)).map(|(_, f)| f.ran_ns).sum()
}

/// Three cgroups of hogs and sleepers.
fn tenants(name: &str) -> Scenario {
    let run = hogs(hogs(hogs(policy(name, "pair"), 3, "a"), 5, "b"), 1, "c");
    sleepers(sleepers(run, 3, "b"), 3, "c").run_for(ms(2_000))
}

#[test]
pub(crate) fn two_cpus_of_a_pair_never_run_tasks_of_different_cgroups() {
    for cpus in [2, 4, 8] {
        let (_, watch) = watched(tenants("halves"), Machine::cpus(cpus), &halves(cpus));
        let watch = watch.borrow();
        assert_eq!(watch.mixed_ns, 0, "{cpus} CPUs: {} at a stretch", watch.longest_ns);
        assert!(watch.switches > 60, "{} switches show nothing", watch.switches);
    }
}

/// Pairs of the other kind would not do: they show that the siblings are meant.
#[test]
pub(crate) fn siblings_of_a_core_are_a_pair() {
    let machine = Machine::new(8, 1, 1, true).unwrap();
    let cores: Vec<_> = (0..8)
        .filter(|cpu| machine.core_of(*cpu).start == *cpu)
        .map(|cpu| (cpu, cpu + 1))
        .collect();
    assert_eq!(cores.len(), 4);
    let (_, watch) = watched(tenants("cores"), machine.clone(), &cores);
    assert_eq!(watch.borrow().mixed_ns, 0);
    let (_, watch) = watched(tenants("cores"), machine, &halves(8));
    assert!(watch.borrow().mixed_ns > ms(100));
}

#[test]
pub(crate) fn each_cgroup_has_its_turn_of_a_batch_however_many_tasks_it_has() {
    let run = hogs(hogs(hogs(policy("turns", "pair"), 2, "a"), 30, "b"), 2, "c");
    let (outcome, watch) =
        watched(run.waits_at_most(ms(10_000)).run_for(ms(6_000)), Machine::cpus(2), &halves(2));
    for cgroup in ["a", "b", "c"] {
        let ran = ran(&outcome, cgroup);
        assert!(ran.abs_diff(ms(4_000)) < ms(200), "{cgroup} ran {ran}");
    }
    // Until both others have had a batch, or two, each as late as a tick notices it.
    let longest = longest_wait(&outcome, "a").max(longest_wait(&outcome, "c"));
    assert!((2 * BATCH..=4 * (BATCH + TICK) + SOON).contains(&longest), "{longest}");
    let watch = watch.borrow();
    let batches = ms(6_000) / (BATCH + TICK);
    assert!(watch.switches >= batches / 2 && watch.switches <= ms(6_000) / BATCH + 5, "{}", watch.switches);
    assert_eq!(watch.mixed_ns, 0);
}

#[test]
fn the_option_says_how_long_a_batch_is() {
    let longest = |batch: u64| {
        let (option, value) =
            options::option("pair", "pair_batch_dur_ns", &batch.to_string()).unwrap();
        let run = hogs(hogs(policy("batches", "pair"), 2, "a"), 2, "b");
        let run = run.at(0, move |kernel| set_option(kernel, 0, option, value));
        let (outcome, _) = watched(run.run_for(ms(3_000)), Machine::cpus(2), &halves(2));
        longest_wait(&outcome, "a")
    };
    for batch in [ms(5), ms(60)] {
        let longest = longest(batch);
        assert!(longest >= batch && longest <= 2 * (batch + TICK) + SOON, "{longest} with {batch}");
    }
}

/// Of two cgroups with a task each, one CPU runs it and the other is idle all the time.
#[test]
fn a_cpu_is_idle_rather_than_run_another_cgroup() {
    let run = hogs(hogs(policy("one each", "pair"), 1, "a"), 1, "b");
    let (outcome, watch) = watched(run.run_for(ms(2_000)), Machine::cpus(2), &halves(2));
    let watch = watch.borrow();
    assert_eq!(watch.mixed_ns, 0);
    assert!(watch.half_ns > ms(1_990), "{}", watch.half_ns);
    for cgroup in ["a", "b"] {
        assert!(ran(&outcome, cgroup).abs_diff(ms(1_000)) < ms(50), "{}", ran(&outcome, cgroup));
    }
}

#[test]
fn one_cgroup_alone_has_all_cpus() {
    let run = sleepers(hogs(policy("one cgroup", "pair"), 6, "a"), 2, "a");
    let (outcome, watch) = watched(run.run_for(ms(1_000)), Machine::cpus(4), &halves(4));
    assert!(watch.borrow().half_ns < ms(2), "{}", watch.borrow().half_ns);
    assert!(ran(&outcome, "a") > ms(3_990), "{}", ran(&outcome, "a"));
    // First in, first out: eight tasks on four CPUs.
    assert!(longest_wait(&outcome, "a") <= 2 * (BATCH + TICK), "{}", longest_wait(&outcome, "a"));
}

#[test]
fn who_wakes_runs_beside_its_own_cgroup_or_on_a_pair_that_is_idle() {
    let run = hogs(hogs(policy("beside its own", "pair"), 1, "a"), 1, "b");
    let run = run.tasks(2, |i| {
        let cgroup = ["a", "b"][i];
        TaskSpec::named(format!("sleeper of {cgroup}"))
            .in_cgroup(cgroup)
            .run(exactly(us(300)))
            .sleep(exactly(ms(2)))
            .for_ever()
    });
    let (outcome, watch) = watched(run.run_for(ms(2_000)), Machine::cpus(6), &halves(6));
    assert_eq!(watch.borrow().mixed_ns, 0);
    assert!(longest_wait(&outcome, "sleeper") <= SOON, "{}", longest_wait(&outcome, "sleeper"));
}

/// A hundred that may run on CPU 0 only stand before those of others; of one cgroup all may run on
/// CPU 1 only, which alone cannot begin while CPU 0 does.
#[test]
fn pinned_tasks_of_every_cgroup_have_their_turn() {
    let run = policy("pinned", "pair")
        .tasks(100, |i| {
            TaskSpec::named(format!("a {i}")).in_cgroup("a").only_on([0]).run(exactly(ms(5))).for_ever()
        })
        .task(TaskSpec::hog("b").in_cgroup("b").only_on([1]))
        .task(TaskSpec::hog("c").in_cgroup("c").only_on([1]))
        .task(TaskSpec::hog("d").in_cgroup("d"));
    let run = run.waits_at_most(ms(10_000)).run_for(ms(4_000));
    let (outcome, watch) = watched(run, Machine::cpus(2), &halves(2));
    assert_eq!(watch.borrow().mixed_ns, 0);
    for name in ["b", "c", "d"] {
        assert!(ran(&outcome, name) > ms(700), "{name} ran {}", ran(&outcome, name));
        assert!(longest_wait(&outcome, name) <= ms(400), "{name}: {}", longest_wait(&outcome, name));
    }
}

/// Of eight CPUs two cgroups may use two, so that they run less than others all the time. A third,
/// which may use the same two and comes later, has its turn beside them.
#[test]
fn a_cgroup_that_cannot_catch_up_leaves_others_their_turn() {
    let mut run = hogs(hogs(policy("bound", "pair"), 8, "a"), 8, "b");
    for (cgroup, arrives) in [("bound", 0), ("beside", 0), ("late", ms(6_000))] {
        run = run.tasks(2, move |i| {
            let hog = TaskSpec::hog(format!("{cgroup} {i}")).arrives(arrives);
            hog.in_cgroup(cgroup).only_on([0, 4])
        });
    }
    let run = run.waits_at_most(ms(10_000)).run_for(ms(12_000));
    let (outcome, _) = watched(run, Machine::cpus(8), &halves(8));
    for (name, figures) in outcome.all() {
        let longest = figures.longest_wait_ns;
        assert!(longest <= 32 * (BATCH + TICK), "{name} waited {longest}");
        assert!(figures.ran_ns > ms(1_000), "{name} ran {}", figures.ran_ns);
    }
}

#[test]
fn an_odd_cpu_is_alone_and_so_is_one_alone_in_the_machine() {
    for cpus in [1, 3, 5] {
        let (outcome, watch) = watched(tenants("odd"), Machine::cpus(cpus), &halves(cpus));
        assert_eq!(watch.borrow().mixed_ns, 0, "{cpus}");
        for (name, figures) in outcome.all() {
            assert!(figures.ran_ns > ms(2), "{name} ran {} on {cpus}", figures.ran_ns);
        }
    }
    // Alone it is idle for nobody.
    let run = hogs(hogs(policy("one CPU", "pair"), 1, "a"), 1, "b").run_for(ms(1_000)).pass();
    assert!(ran(&run, "") > ms(999));
}

#[test]
fn a_cpu_whose_partner_is_off_line_is_alone() {
    let run = hogs(hogs(policy("a partner goes", "pair"), 1, "a"), 1, "b")
        .at(ms(500), |kernel| {
            kernel.cpu_off(1);
        })
        .at(ms(1_000), |kernel| {
            kernel.cpu_on(1);
        });
    let (outcome, watch) = watched(run.run_for(ms(1_500)), Machine::cpus(2), &halves(2));
    assert_eq!(watch.borrow().mixed_ns, 0);
    assert!(ran(&outcome, "") > ms(1_498), "{}", ran(&outcome, ""));
    assert!(longest_wait(&outcome, "") <= BATCH + TICK + SOON);
    for cgroup in ["a", "b"] {
        assert!(ran(&outcome, cgroup).abs_diff(ms(750)) < ms(50));
    }
}

/// A task gives way to a higher class, and comes back unchosen when its partner runs another cgroup.
#[test]
fn who_comes_back_from_a_higher_class_beside_another_cgroup_goes_at_once() {
    let mut run = hogs(hogs(policy("a higher class", "pair"), 2, "a"), 2, "b");
    for i in 0..20 {
        run = run.at(ms(37 * (i + 1)), move |kernel| kernel.take_cpu(i as usize % 2, ms(13)));
    }
    let (outcome, watch) = watched(run.run_for(ms(1_000)), Machine::cpus(2), &halves(2));
    let watch = watch.borrow();
    assert!(watch.longest_ns <= SOON, "{} at a stretch", watch.longest_ns);
    assert!(watch.mixed_ns > 0, "nobody came back so");
    assert!(longest_wait(&outcome, "") <= 3 * (BATCH + TICK), "{}", longest_wait(&outcome, ""));
}

/// Tasks change their cgroup while they run, while they wait and while they sleep.
#[test]
pub(crate) fn who_changes_its_cgroup_runs_with_the_new_one() {
    let mut run = tenants("moves");
    for i in 0..200 {
        run = run.at(ms(10 + 9 * i), move |kernel| {
            let task = kernel.task_named(["a 0", "b 3", "c 0", "b sleeper 1"][i as usize % 4]);
            let to = ["a", "b", "c"][(i / 4) as usize % 3];
            assert!(kernel.attach_to_cgroup(&[task], to));
        });
    }
    let (outcome, watch) = watched(run, Machine::cpus(4), &halves(4));
    let watch = watch.borrow();
    assert!(watch.longest_ns <= SOON, "{} at a stretch", watch.longest_ns);
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(10), "{name} ran {}", figures.ran_ns);
    }
}

/// One task goes from cgroup to cgroup while it waits in a crowd: those that it leaves are no worse off.
#[test]
pub(crate) fn who_leaves_a_cgroup_while_it_waits_costs_that_no_turn() {
    let run = hogs(hogs(hogs(policy("a guest", "pair"), 2, "a"), 100, "b"), 2, "c");
    let mut run = hogs(run, 1, "d");
    for i in 0..600 {
        run = run.at(ms(10 + 10 * i), move |kernel| {
            let guest = kernel.task_named("d 0");
            assert!(kernel.attach_to_cgroup(&[guest], ["c", "d"][i as usize % 2]));
        });
    }
    let run = run.waits_at_most(ms(10_000)).run_for(ms(6_000));
    let (outcome, _) = watched(run, Machine::cpus(2), &halves(2));
    let (a, c) = (ran(&outcome, "a"), ran(&outcome, "c"));
    assert!(c > a * 7 / 10, "those who were left ran {c}, others {a}");
}

/// What waits may run on CPU 1 only, which a higher class has. CPU 0 waits for it for 5 ms, once.
#[test]
pub(crate) fn a_cpu_does_not_wait_for_a_partner_that_a_higher_class_has() {
    let mut run = policy("a partner is taken", "pair")
        .task(TaskSpec::hog("a").in_cgroup("a").only_on([0]))
        .tasks(4, |i| TaskSpec::hog(format!("b {i}")).in_cgroup("b").only_on([1]));
    for i in 0..4 {
        run = run.at(ms(1_000 * (i + 1) + 7 * i), |kernel| kernel.take_cpu(1, ms(500)));
    }
    let run = run.waits_at_most(ms(2_000)).run_for(ms(6_000));
    let (outcome, _) = watched(run, Machine::cpus(2), &halves(2));
    // One of the two CPUs runs, but for a moment each time.
    let ran = ran(&outcome, "");
    assert!(ran >= ms(6_000 - 4 * (5 + 4)), "both ran {ran}");
}

/// Each lane keeps its own cgroups apart; that of another lane may run on the partner.
#[test]
fn two_lanes_keep_their_own_cgroups_apart() {
    let mut run = policy("two lanes", "fifo");
    for cgroup in ["x/a", "x/b", "y/a", "y/b"] {
        run = sleepers(hogs(run, 3, cgroup), 2, cgroup);
    }
    let run = run.at(0, |kernel| {
        set_app(kernel, 1, "pair", 100);
        set_app(kernel, 2, "pair", 100);
        assign(kernel, "x", 1);
        assign(kernel, "y", 2);
    });
    let machine = Machine::cpus(4);
    let watches = ["x", "y"].map(|lane| {
        let watch = Watch::of(&machine, &halves(4));
        watch.borrow_mut().only = vec![format!("{lane}/a"), format!("{lane}/b")];
        // They begin in the root lane: a task's first run, which waits for its turn, is still one of that.
        watch.borrow_mut().from = ms(200);
        watch
    });
    let run = run.machine(machine).read_by(&watches[0]).read_by(&watches[1]);
    let outcome = run.run_for(ms(3_000)).pass();
    for watch in &watches {
        let watch = watch.borrow();
        assert!(watch.longest_ns <= SOON, "{} at a stretch", watch.longest_ns);
        assert!(watch.switches > 60, "{}", watch.switches);
    }
    for cgroup in ["x/a", "x/b", "y/a", "y/b"] {
        assert!(ran(&outcome, cgroup) > ms(2_000), "{cgroup} ran {}", ran(&outcome, cgroup));
    }
}

/// Another lane has CPU 2 most of the time, since this one has three others. Each time that this one comes
/// there, CPU 0 runs the other cgroup; it stops, and nobody is on CPU 2 any more to begin. So a task that
/// may run there only waited for as long as that went on.
#[test]
pub(crate) fn who_is_bound_to_a_cpu_that_another_lane_mostly_has_has_its_turn() {
    let mut run = policy("another lane is there", "pair");
    for (name, cgroup, cpu) in
        [("a", "a", 0), ("a 1", "a", 1), ("a 3", "a", 3), ("b", "b", 2), ("other", "other", 2)]
    {
        run = run.task(TaskSpec::hog(name).in_cgroup(cgroup).only_on([cpu]));
    }
    let run = run.at(0, |kernel| {
        set_app(kernel, 1, "vtime", 100);
        assign(kernel, "other", 1);
    });
    let machine = Machine::cpus(4);
    let watch = Watch::of(&machine, &halves(4));
    watch.borrow_mut().only = ["a", "b"].map(str::to_owned).into();
    let run = run.machine(machine).read_by(&watch).waits_at_most(ms(10_000));
    let outcome = run.run_for(ms(8_000)).pass();
    let (longest_ns, waited_ns) = (watch.borrow().longest_ns, longest_wait(&outcome, "b"));
    assert!(longest_ns <= SOON, "{longest_ns} at a stretch");
    assert!(waited_ns <= ms(300), "b waited {waited_ns}");
    // CPU 2 comes back by rotation alone, for 2 ms each 64 ms.
    for (name, least) in [("a", ms(4_000)), ("b", ms(100)), ("other", ms(6_000))] {
        assert!(ran(&outcome, name) >= least, "{name} ran {}", ran(&outcome, name));
    }
}

#[test]
fn a_lane_that_is_replaced_drains() {
    let run = tenants("replaced")
        .at(ms(400), |kernel| replace_root(kernel, "fifo"))
        .at(ms(800), |kernel| replace_root(kernel, "pair"));
    let (outcome, watch) = watched(run, Machine::cpus(4), &halves(4));
    assert!(watch.borrow().mixed_ns > ms(50), "fifo does not care");
    for (name, figures) in outcome.all() {
        assert!(figures.ran_ns > ms(20), "{name} ran {}", figures.ran_ns);
    }
}
