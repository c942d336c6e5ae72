//! Tells the tests where the simulator's build has put what it compiled natively, and how.

fn main() {
    for (name, said) in [("SIM_OUT", "OUT"), ("SIM_COMPILER", "COMPILER"), ("SIM_FLAGS", "FLAGS")] {
        let value = std::env::var(format!("DEP_METASCHED_SIM_{said}"));
        println!("cargo::rustc-env={name}={}", value.expect("crates/sim says it"));
    }
}
