//! A process that decides for the sketch of rustland; started by a test, which passes on what it
//! needs.

#[path = "../../sim/faults/policies/rustland/half.rs"]
mod half;

use metasched_faulty::{UserDriver, UserFiles};
use metasched_userhalf::Halves;

fn main() {
    let halves = Halves::new(|_| Some(Box::<half::Rustland>::default()));
    let run = || -> metasched_base::Result<()> {
        let mut driver = UserDriver::new(UserFiles::inherited()?, halves)?;
        loop {
            driver.serve()?;
        }
    };
    if let Err(error) = run() {
        eprintln!("rustland: {error}");
        std::process::exit(i32::from(error.kind.exit_code()));
    }
}
