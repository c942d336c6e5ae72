use metasched_base::Result;
use metasched_control::{Candidate, Switcher};

use crate::manifest::Workload;
use crate::measure::{Observer, Options, Request, Summary, SwitcherExecutor, measure_subjects};
use crate::runner::Site;
use crate::{Store, Subject};

/// What `metasched profile` is to do.
#[derive(Clone, Debug)]
pub struct Profile {
    /// The workload.
    pub workload: Workload,
    /// The names of its forms; all of them where this is empty.
    pub forms: Vec<String>,
    /// Every candidate that can be put in force, the default scheduler among them.
    pub candidates: Vec<Candidate>,
    /// Under what to measure; the default scheduler is added where it is missing.
    pub subjects: Vec<Subject>,
    /// How.
    pub options: Options,
}

/// Measures a workload under subjects on this machine; see
/// [`measure_subjects`]. Afterwards the default scheduler is in force, or, once the
/// switcher is restored, what ran before.
pub fn profile(
    what: &Profile,
    site: &Site,
    switcher: &mut Switcher,
    store: &mut Store,
    observer: Observer,
) -> Result<Summary> {
    let request = Request {
        workload: &what.workload,
        forms: &what.forms,
        subjects: &what.subjects,
        options: &what.options,
    };
    let mut executor = SwitcherExecutor::new(switcher, &what.candidates);
    measure_subjects(&request, site, &mut executor, store, observer)
}

/// A seed where the user gave none: short enough to be typed again.
pub fn random_seed() -> u64 {
    u64::from(rand::random::<u32>() % 1_000_000)
}
