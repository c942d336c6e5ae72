//! The simulator beside what queueing theory says in closed forms: requests that arrive at random,
//! served in turn by one CPU or four, or all at once in small slices.
//!
//! L. Kleinrock, "Queueing Systems" I (M/M/1, Pollaczek-Khinchine) and II (processor sharing); A. K.
//! Erlang (1917) for who has to wait; J. D. C. Little (1961) for how many there are.

use metasched_scenario::requests::{Arrivals, Process};
use metasched_sim::metasched::set_option;
use metasched_sim::observer::Observer;
use metasched_sim::span::Span;
use metasched_sim::step::Step;
use metasched_sim::trace::{Observed, What};
use metasched_sim::{Machine, Outcome, Scenario, TaskSpec, exactly, ms, options, policy, us};
use std::cell::RefCell;
use std::rc::Rc;

/// Requests are served in so many threads, always more than there are requests.
const THREADS: usize = 120;
/// What is left of chance in a hundred thousand requests at the loads below.
const CLOSE: f64 = 0.03;

/// Requests with gaps of that mean, each of which takes so long.
fn served(machine: Machine, gap_ns: u64, service: Span) -> Scenario {
    policy("queueing", "fifo")
        .machine(machine)
        .arrivals("in", Arrivals::of(Process::Open { gap: Span::Exponential(gap_ns) }))
        .tasks(THREADS, move |i| {
            TaskSpec::named(format!("server {i}"))
                .in_group("server")
                .step(Step::Accept("in".into()))
                .run(service)
                .step(Step::End)
                .for_ever()
        })
        .waits_at_most(ms(60_000))
}

/// With slices of that length, which a tick has to notice.
fn with_slices(run: Scenario, slice_ns: u64) -> Scenario {
    let (option, value) = options::option("fifo", "slice_ns", &slice_ns.to_string()).unwrap();
    run.at(0, move |kernel| set_option(kernel, 0, option, value))
}

fn close(got: f64, wanted: f64, what: &str) {
    assert!((got / wanted - 1.0).abs() < CLOSE, "{what}: {got:.0}, by theory {wanted:.0}");
}

fn percentile(sorted: &[u64], q: f64) -> f64 {
    sorted[(sorted.len() as f64 * q) as usize] as f64
}

fn mean(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64 / values.len() as f64
}

/// The time at which a tail function, which only falls, has come down to `chance`.
fn when(tail: impl Fn(f64) -> f64, chance: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if tail(middle) > chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// M/M/1: responses are exponential.
#[test]
fn one_cpu_in_turn_answers_as_a_queue_of_one_server_does() {
    let (gap, service) = (us(1_000), us(600));
    let run = served(Machine::cpus(1), gap, Span::Exponential(service));
    let outcome = with_slices(run, ms(1_000)).run_for(ms(400_000)).pass();
    let responses = outcome.responses_ns("server");
    let mean_by_theory = 1.0 / (1.0 / service as f64 - 1.0 / gap as f64);
    close(mean(&responses), mean_by_theory, "mean");
    close(percentile(&responses, 0.5), mean_by_theory * 2f64.ln(), "p50");
    close(percentile(&responses, 0.99), mean_by_theory * 100f64.ln(), "p99");
}

/// M/M/4: how many wait at all is Erlang's C; those who do wait exponentially.
#[test]
fn four_cpus_in_turn_answer_as_a_queue_of_four_servers_does() {
    let (gap, service, servers) = (us(250), us(600), 4);
    let run = served(Machine::cpus(servers), gap, Span::Exponential(service));
    let outcome = with_slices(run, ms(1_000)).run_for(ms(100_000)).pass();
    let (arrive, serve) = (1.0 / gap as f64, 1.0 / service as f64);
    let waits = erlang_c(servers, arrive / serve);
    let drain = servers as f64 * serve - arrive;
    let all = outcome.waits_ns("server");
    let waited = all.iter().filter(|ns| **ns > us(5)).count();
    close(1e6 * waited as f64 / all.len() as f64, 1e6 * waits, "waiting, in millionths");
    let tail = |t: f64| {
        let alone = (-serve * t).exp();
        let behind = (drain * alone - serve * (-drain * t).exp()) / (drain - serve);
        (1.0 - waits) * alone + waits * behind
    };
    let responses = outcome.responses_ns("server");
    close(percentile(&responses, 0.5), when(tail, 0.5), "p50");
    close(percentile(&responses, 0.99), when(tail, 0.01), "p99");
    close(mean(&responses), 1.0 / serve + waits / drain, "mean");
}

/// The chance that one that arrives finds all servers busy, at that load.
fn erlang_c(servers: usize, load: f64) -> f64 {
    let (mut term, mut idle) = (1.0, 0.0);
    for k in 0..servers {
        idle += term;
        term *= load / (k + 1) as f64;
    }
    let busy = term * servers as f64 / (servers as f64 - load);
    busy / (idle + busy)
}

/// M/D/1: in turn, the mean wait is half that of M/M/1 (Pollaczek-Khinchine). With slices much
/// shorter than a request it is processor sharing, whose mean response does not ask how the
/// service is distributed.
#[test]
fn short_slices_share_the_processor() {
    let (gap, service) = (ms(100), ms(60));
    let load = service as f64 / gap as f64;
    let in_turn_by_theory = service as f64 * (1.0 + load / (2.0 * (1.0 - load)));
    let shared_by_theory = service as f64 / (1.0 - load);
    let machine = || Machine::cpus(1).hz(1_000).unwrap();
    let run = |slice| {
        let run = with_slices(served(machine(), gap, exactly(service)), slice);
        let outcome: Outcome = run.run_for(ms(10_000_000)).pass();
        mean(&outcome.responses_ns("server"))
    };
    close(run(ms(1_000)), in_turn_by_theory, "in turn");
    close(run(us(100)), shared_by_theory, "shared");
}

/// M/M/1 with a finite source: of `n` that think and want to be served, the last finds no more before
/// it than the others.
#[test]
fn few_customers_are_served_as_a_finite_source_is() {
    let (n, think, service) = (5, ms(10), ms(2));
    let run = policy("a finite source", "fifo").tasks(n, move |i| {
        TaskSpec::named(format!("customer {i}"))
            .sleep(Span::Exponential(think))
            .run(Span::Exponential(service))
            .for_ever()
    });
    let until = ms(400_000);
    let outcome = with_slices(run, ms(1_000)).run_for(until).pass();
    let ratio = service as f64 / think as f64;
    let (mut term, mut all) = (1.0, 1.0);
    for k in 0..n {
        term *= (n - k) as f64 * ratio;
        all += term;
    }
    let ran: u64 = outcome.all().map(|(_, figures)| figures.ran_ns).sum();
    close(ran as f64, until as f64 * (1.0 - 1.0 / all), "CPU time");
}

/// How many tasks want to run, summed over time.
#[derive(Default)]
struct Present {
    tasks: u64,
    last: u64,
    task_ns: u64,
}

impl Observer for Present {
    fn observe(&mut self, event: &Observed) {
        self.task_ns += self.tasks * (event.at - self.last);
        self.last = event.at;
        match event.what {
            What::Wake => self.tasks += 1,
            What::Sleep => self.tasks -= 1,
            _ => {}
        }
    }
}

/// Little's law: those who are there are those who come, times how long they stay; whatever the
/// policy makes of it.
#[test]
fn as_many_are_there_as_come_times_how_long_they_stay() {
    for slice in [us(100), ms(1_000)] {
        let present = Rc::new(RefCell::new(Present::default()));
        let run = policy("there", "fifo").cpus(3).tasks(12, |i| {
            TaskSpec::named(format!("customer {i}"))
                .sleep(Span::Exponential(ms(5)))
                .run(Span::LogNormal { median_ns: ms(2), sigma_thousandths: 1_200 })
                .for_ever()
        });
        let outcome = with_slices(run, slice).read_by(&present).run_for(ms(20_000)).pass();
        let stay: u64 = outcome.all().map(|(_, figures)| figures.ran_ns + figures.waited_ns).sum();
        let waited: u64 = outcome.all().map(|(_, figures)| figures.waited_ns).sum();
        assert!(waited > ms(10_000), "{waited} ns say nothing");
        close(present.borrow().task_ns as f64, stay as f64, "task times time");
    }
}
