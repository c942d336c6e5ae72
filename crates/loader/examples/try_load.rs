//! Loads a policy, changes to others if more are named, and shows the lanes, and how many
//! instructions of each kernel program the verifier went through.
//!
//! `try_load POLICY [POLICY...] [--hold SECONDS]`

use std::time::{Duration, Instant};

use metasched_loader::{LoadOptions, Program};

fn main() {
    if let Err(error) = run() {
        eprintln!("try_load: {error}");
        std::process::exit(i32::from(error.kind.exit_code()));
    }
}

fn run() -> metasched_base::Result<()> {
    let mut policies: Vec<String> = std::env::args().skip(1).collect();
    let mut hold = Duration::from_secs(1);
    if let Some(at) = policies.iter().position(|a| a == "--hold") {
        let seconds = policies.get(at + 1).and_then(|s| s.parse().ok()).unwrap_or(1.0);
        hold = Duration::from_secs_f64(seconds);
        policies.truncate(at);
    }
    let first = policies.first().map_or("fifo", String::as_str);
    let start = Instant::now();
    let mut program = Program::load(&LoadOptions::policy(first))?;
    println!("loaded {first} in {:?}", start.elapsed());
    for info in libbpf_rs::query::ProgInfoIter::default() {
        println!("{}: {} instructions verified", info.name.to_string_lossy(), info.verified_insns);
    }
    for policy in policies.iter().skip(1) {
        std::thread::sleep(hold);
        let change = program.replace_root(policy)?;
        std::thread::sleep(Duration::from_millis(20));
        let first_run = program.first_run_ns(change.generation).map(|at| at - change.at_ns);
        println!("{policy}: write {} ns, first run after {first_run:?} ns", change.write_ns);
    }
    std::thread::sleep(hold);
    for lane in program.lanes()? {
        println!("{}", serde_json::to_string(&lane).expect("plain data"));
    }
    match program.exited() {
        Some(record) => println!("ended: {record:?}"),
        None => program.unload()?,
    }
    Ok(())
}
