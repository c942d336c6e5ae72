//! Independent pieces of work on as many CPUs as this machine has.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use metasched_base::{Interrupt, Result};

/// Does all of them; the results are in the order of the jobs, whatever was done first.
///
/// # Errors
/// When it is interrupted.
pub fn each<J: Sync, T: Send>(
    jobs: &[J],
    interrupt: &Interrupt,
    work: impl Fn(&J) -> T + Sync,
    finished: &mut dyn FnMut(),
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let mut results: Vec<Option<T>> = jobs.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for _ in 0..workers {
            let (send, next, work) = (send.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= jobs.len() || interrupt.is_raised() {
                        break;
                    }
                    if send.send((at, work(&jobs[at]))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(send);
        for (at, result) in receive {
            results[at] = Some(result);
            finished();
        }
    });
    interrupt.check("the simulation")?;
    Ok(results.into_iter().map(|result| result.expect("each job sends its result")).collect())
}
