//! How many threads a region gets, by the pages that were read: pure.
//!
//! The published formula (seed 004, Chhaya-Shailesh, Lozi and Lawall) is
//! `threads = clamp(previous - phantoms + idle, 1, n)`, at the start of each region.
//!
//! By it several programs that share a host rest at any division of its CPUs. So CPUs that are owed
//! to this one by its fair share count like idle ones, and CPUs that it owes like phantoms, if the
//! host tells.

use crate::page::{Alone, Page};

/// How much later than by two windows a page may come before it counts as standing still, ns. The
/// timer of the host's writer may expire a tick late, and the writer may wait for another tick
/// until it gets a CPU of a full host: two ticks of 4 ms, the longest that distributions have.
pub const MARGIN_NS: u64 = 8_000_000;

/// Clocks that are steered differ by up to 500 millionths (Linux's bound for NTP). A guest's may be
/// steered one way and its host's the other, which is this part of the time.
const STEERING: u64 = 1000;

/// The last page that was read, and how long ago it was written.
#[derive(Clone, Copy, Debug)]
struct Seen {
    windows: u64,
    window_ns: u64,
    ended_ns: u64,
    /// When it was written at the latest, ns of our own clock.
    at_ns: u64,
}

impl Seen {
    fn of(page: &Page, at_ns: u64) -> Seen {
        Seen { windows: page.windows, window_ns: page.window_ns, ended_ns: page.ended_ns, at_ns }
    }

    fn stands_still(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.at_ns) > 2 * self.window_ns + MARGIN_NS
    }
}

/// Follows a page over time, and says how many threads regions get.
#[derive(Debug, Default)]
pub struct Follower {
    seen: Option<Seen>,
    /// What the newest window says is to be changed, if no region has begun since: idle and owed
    /// CPUs less phantoms and those that are owing, in whole CPUs.
    correction: Option<f64>,
    /// How many threads have room by the windows so far; nothing while alone.
    room: Option<f64>,
    /// What the last region had, before it was rounded.
    had: Option<f64>,
    /// How many windows were used.
    windows: u64,
    /// Why this goes, or last went, on alone.
    why: Option<Alone>,
}

impl Follower {
    /// One that has seen nothing yet.
    #[must_use]
    pub fn new() -> Follower {
        Follower::default()
    }

    /// Takes what was read of the page, and after that the time, ns of our own monotonic clock.
    ///
    /// A page is followed only after it was seen to change: what the first look finds may have
    /// been left behind by a host that is gone.
    pub fn look(&mut self, read: Result<Page, Alone>, now_ns: u64) {
        match self.fresh(read, now_ns) {
            Ok(None) => {}
            Ok(Some(page)) => {
                let more = f64::from(page.idle_cpus_milli) + f64::from(page.owed_cpus_milli);
                let fewer = f64::from(page.phantoms_milli) + f64::from(page.owing_cpus_milli);
                let milli = more - fewer;
                self.correction = Some((milli / 1000.0).round());
                self.windows += 1;
            }
            Err(why) => {
                self.correction = None;
                self.room = None;
                self.why = Some(why);
            }
        }
    }

    /// The page, if it tells of a window that was not seen yet and ended just now.
    fn fresh(&mut self, read: Result<Page, Alone>, now_ns: u64) -> Result<Option<Page>, Alone> {
        let page = match (read, self.seen) {
            (Ok(page), Some(seen)) if page.windows != seen.windows => page,
            // Nothing new.
            (Ok(_) | Err(Alone::Busy), Some(seen)) if seen.stands_still(now_ns) => {
                return Err(Alone::Still);
            }
            (Ok(_) | Err(Alone::Busy), Some(_)) => return Ok(None),
            (Ok(page), None) => {
                self.seen = Some(Seen::of(&page, now_ns));
                return Err(Alone::NotYet);
            }
            (Err(why), _) => {
                self.seen = None;
                return Err(why);
            }
        };
        let Some(before) = self.seen.replace(Seen::of(&page, now_ns)) else {
            return Err(Alone::NotYet);
        };
        if page.windows < before.windows || page.ended_ns <= before.ended_ns {
            return Err(Alone::Anew);
        }
        // A region may begin long after the last one, and the page may have changed since and
        // stopped then. The clocks do not compare, but differences do: this window was written as
        // much later than the one before as the host says, so that it is at least so old.
        let passed_ns = page.ended_ns - before.ended_ns;
        let steered_ns = passed_ns.saturating_add(passed_ns / STEERING);
        let seen = Seen::of(&page, before.at_ns.saturating_add(steered_ns).min(now_ns));
        if seen.stands_still(now_ns) {
            return Err(Alone::Still);
        }
        self.seen = Some(seen);
        Ok(Some(page))
    }

    /// How many threads a region gets that would have `n`: 1 to `n`. `starters` is how many threads
    /// of the process start outermost regions.
    ///
    /// A window is used once, by the first region that begins after it. The published runtime had
    /// regions about as long as a window. With many regions within one window the same phantoms
    /// would be taken off again and again, down to one thread; the later ones get what the first
    /// one got.
    ///
    /// A window counts in whole CPUs: what is less than half of one changes nothing. Daemons and
    /// the kernel's own threads make a few hundredths of a phantom on any host. If these added up,
    /// a program would run for a part of the time with a thread less than it has CPUs, which on a
    /// host of two CPUs is half of them.
    ///
    /// What is remembered is bounded by what the last region could have: 36 CPUs that are idle while
    /// a region of four runs make room for 40, and a later region of 40 gets that.
    ///
    /// Where several threads start regions, each of these follows the same number, and a phantom is
    /// of all of them together. So each takes its part of the correction: all of it by each would
    /// be several times too much, and the numbers would swing. Their parts are fractions, and add up.
    pub fn threads(&mut self, n: u32, starters: u32) -> u32 {
        let n = n.max(1);
        let most = f64::from(n);
        if let Some(correction) = self.correction.take() {
            let had = self.had.unwrap_or(most);
            self.room = Some((had + correction / f64::from(starters.max(1))).max(1.0));
        }
        let had = self.room.unwrap_or(most).min(most);
        self.had = Some(had);
        whole(had, n)
    }

    /// How many threads have room, for who cannot ask [`Follower::threads`]; infinite while alone.
    #[must_use]
    pub fn room(&self) -> f64 {
        self.room.unwrap_or(f64::INFINITY)
    }

    /// Whether the page tells nothing that could be followed.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.room.is_none() && self.correction.is_none()
    }

    /// How many windows were used.
    #[must_use]
    pub fn windows(&self) -> u64 {
        self.windows
    }

    /// Why regions start as without this library, or did so last.
    #[must_use]
    pub fn why(&self) -> Option<Alone> {
        self.why
    }

    /// How long a window is to be, ns, if a page was read.
    #[must_use]
    pub fn window_ns(&self) -> Option<u64> {
        self.seen.map(|seen| seen.window_ns)
    }
}

/// The whole number of threads for which there is room: 1 to `n`.
#[must_use]
pub fn whole(room: f64, n: u32) -> u32 {
    // A cast saturates, and there is no NaN: rooms are sums of thousandths.
    (room.round() as u32).clamp(1, n.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::HEAD_BYTES;
    use crate::page::tests::{a_page, bytes_of};
    use metasched_stats::{Claim, FairShares, Had};
    use rand::{Rng, RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    const WINDOW_NS: u64 = 4_000_000;

    /// A host that writes a page each window, and a guest whose clock is another.
    struct Both {
        follower: Follower,
        page: Page,
        now_ns: u64,
    }

    impl Both {
        /// The page was seen once.
        fn new() -> Both {
            let page = Page {
                phantoms_milli: 0,
                idle_cpus_milli: 0,
                owed_cpus_milli: 0,
                owing_cpus_milli: 0,
                vcpus: 36,
                cpus: 36,
                ..a_page()
            };
            let mut both = Both { follower: Follower::new(), page, now_ns: 77 };
            both.look();
            assert_eq!(both.follower.why(), Some(Alone::NotYet));
            both
        }

        fn look(&mut self) {
            self.follower.look(Ok(self.page), self.now_ns);
        }

        /// Time passes, and the host writes what it found in it.
        fn window(&mut self, phantoms_milli: u32, idle_cpus_milli: u32) {
            self.now_ns += WINDOW_NS;
            self.page = Page {
                windows: self.page.windows + 1,
                began_ns: self.page.ended_ns,
                ended_ns: self.page.ended_ns + WINDOW_NS,
                phantoms_milli,
                idle_cpus_milli,
                ..self.page
            };
        }

        fn region(&mut self, n: u32) -> u32 {
            self.look();
            self.follower.threads(n, 1)
        }

        fn after(&mut self, phantoms_milli: u32, idle_cpus_milli: u32) -> u32 {
            self.window(phantoms_milli, idle_cpus_milli);
            self.region(36)
        }
    }

    #[test]
    fn threads_follow_phantoms_and_idle_cpus() {
        let mut both = Both::new();
        assert_eq!(both.region(36), 36, "a page that may have been left behind is not followed");
        assert_eq!(both.after(12_000, 0), 24);
        assert_eq!(both.after(6_000, 1_000), 19);
        assert_eq!(both.after(0, 0), 19);
        assert_eq!(both.after(0, 5_000), 24);
        assert_eq!(both.after(0, 30_000), 36);
        assert_eq!(both.after(36_000, 0), 1);
        assert_eq!(both.after(36_000, 0), 1);
        assert_eq!(both.after(0, 2_000), 3);
        assert_eq!(both.follower.windows(), 8);
    }

    #[test]
    fn the_first_region_already_goes_by_a_window_if_the_page_changed_before() {
        assert_eq!(Both::new().after(12_000, 0), 24);
    }

    #[test]
    fn what_daemons_take_of_a_host_does_not_add_up_to_a_thread() {
        let mut both = Both::new();
        for (phantoms_milli, idle_cpus_milli) in [(400, 0), (0, 400), (490, 0), (1_000, 510)] {
            let threads: Vec<u32> =
                (0..100).map(|_| both.after(phantoms_milli, idle_cpus_milli)).collect();
            assert_eq!(threads, [36; 100], "{phantoms_milli} {idle_cpus_milli}");
        }
        assert_eq!(both.after(510, 0), 35);
        assert_eq!(both.after(0, 510), 36);
    }

    #[test]
    fn parts_of_a_correction_add_up_where_several_threads_start_regions() {
        let mut both = Both::new();
        let threads: Vec<u32> = (0..4)
            .map(|_| {
                both.window(1_000, 0);
                both.look();
                both.follower.threads(36, 4)
            })
            .collect();
        // A quarter each.
        assert_eq!(threads, [36, 36, 35, 35]);
    }

    #[test]
    fn owed_cpus_count_like_idle_ones_and_owing_ones_like_phantoms() {
        let mut both = Both::new();
        assert_eq!(both.after(30_000, 0), 6);
        for (phantoms_milli, idle_cpus_milli, owed_cpus_milli, threads) in
            [(0, 0, 4_000, 10), (3_000, 0, 3_000, 10), (500, 2_000, 2_500, 14), (0, 0, 490, 14)]
        {
            both.window(phantoms_milli, idle_cpus_milli);
            both.page.owed_cpus_milli = owed_cpus_milli;
            assert_eq!(both.region(36), threads);
        }
        both.window(1_000, 0);
        (both.page.owed_cpus_milli, both.page.owing_cpus_milli) = (0, 3_000);
        assert_eq!(both.region(36), 10);
    }

    /// From whatever start, on a host that gives each thread as much: a machine that has a thread
    /// more has more of the CPUs, too.
    #[test]
    fn programs_that_share_a_host_come_to_their_fair_shares_and_rest() {
        const WINDOWS: usize = 60;
        let mut random = ChaCha8Rng::seed_from_u64(7);
        for _ in 0..200 {
            let cpus = random.random_range(4..64_u32);
            let count = random.random_range(1..5);
            let most: Vec<u32> = (0..count).map(|_| random.random_range(1..=cpus)).collect();
            // Some want fewer threads than there are virtual CPUs, of which the host knows nothing.
            let wanted: Vec<u32> = most.iter().map(|most| random.random_range(1..=*most)).collect();
            let claims = most.iter().map(|most| Claim {
                cpus: (0..cpus).collect(),
                weight: f64::from(random.random_range(1..4_u32)),
                most: f64::from(*most),
            });
            let shares = FairShares::of(claims.collect());
            let mut followers: Vec<Both> = most.iter().map(|_| Both::new()).collect();
            // They have any number of threads when they begin to share.
            let mut threads: Vec<u32> = wanted
                .iter()
                .zip(&mut followers)
                .map(|(wanted, both)| both.follower.threads(random.random_range(1..=*wanted), 1))
                .collect();
            let mut seen = Vec::new();
            for _ in 0..WINDOWS {
                let all: u32 = threads.iter().sum();
                let each = f64::from(cpus).min(f64::from(all)) / f64::from(all);
                let idle = f64::from(cpus.saturating_sub(all));
                let had: Vec<Had> = threads
                    .iter()
                    .map(|threads| {
                        let used = f64::from(*threads) * each;
                        Had { used, idle, phantoms: f64::from(*threads) - used }
                    })
                    .collect();
                let debts = shares.debts(&had);
                let milli = |cpus: f64| (cpus * 1000.0).round() as u32;
                for (at, both) in followers.iter_mut().enumerate() {
                    both.page.cpus = cpus;
                    both.window(milli(had[at].phantoms), milli(idle));
                    both.page.owed_cpus_milli = milli(debts[at].owed);
                    both.page.owing_cpus_milli = milli(debts[at].owing);
                    // Regions are of any length: some see no window, some only the last of several.
                    if random.random_range(0..4) > 0 {
                        threads[at] = both.region(wanted[at]);
                    }
                }
                seen.push(threads.clone());
            }
            let last = &seen[WINDOWS - 10..];
            let what = format!("{wanted:?} of {most:?} on {cpus}");
            assert!(last.iter().all(|now| *now == last[0]), "{what}: {seen:?}");
            // What one of them does not want the others have.
            let all: u32 = last[0].iter().sum();
            assert!(all >= cpus.min(wanted.iter().sum()), "{what}: {:?}", last[0]);
            let full = Had { idle: f64::from(cpus), ..Had::default() };
            let fair = shares.fair(&vec![full; count]);
            for (at, threads) in last[0].iter().enumerate() {
                let least = fair[at].min(wanted[at].into()) - 1.0;
                assert!(f64::from(*threads) > least, "{what}: {:?}, not {fair:?}", last[0]);
            }
        }
    }

    #[test]
    fn a_window_is_used_once() {
        let mut both = Both::new();
        both.window(12_000, 0);
        let threads: Vec<u32> = (0..10).map(|_| both.region(36)).collect();
        assert_eq!(threads, [24; 10]);
        assert_eq!(both.follower.windows(), 1);
    }

    #[test]
    fn what_comes_next_is_reckoned_from_what_the_last_region_had() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        assert_eq!(both.region(4), 4);
        assert_eq!(both.region(36), 24, "the same window");
        assert_eq!(both.region(4), 4);
        // Of 24 CPUs that were ours four are used now, so 20 are idle.
        assert_eq!(both.after(0, 20_000), 24);
        assert_eq!(both.region(4), 4);
        assert_eq!(both.after(0, 0), 4, "somebody else has taken the 20");
    }

    #[test]
    fn a_page_that_stands_still_is_left() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        both.now_ns += 2 * WINDOW_NS + MARGIN_NS;
        assert_eq!(both.region(36), 24);
        both.now_ns += 1;
        assert_eq!(both.region(36), 36);
        assert_eq!(both.follower.why(), Some(Alone::Still));
        assert!(both.follower.is_alone());
    }

    #[test]
    fn a_page_that_stopped_between_two_regions_is_left() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        for _ in 0..100 {
            both.window(1_000, 0);
        }
        both.now_ns += 2 * WINDOW_NS + MARGIN_NS;
        // Of each 1,000 ns of the host's clock one may be its steering.
        both.now_ns += 100 * WINDOW_NS / STEERING + 1;
        assert_eq!(both.region(36), 36);
        assert_eq!(both.follower.why(), Some(Alone::Still));
    }

    #[test]
    fn a_page_that_went_on_between_two_regions_is_followed() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        for _ in 0..1_000_000 {
            both.window(1_000, 0);
        }
        // More than an hour, in which our clock went 500 millionths faster than the host's.
        both.now_ns += 1_000_000 * WINDOW_NS / 2000;
        assert_eq!(both.region(36), 23);
    }

    #[test]
    fn a_guest_that_was_paused_goes_on() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        let now_ns = both.now_ns;
        for _ in 0..1000 {
            both.window(1_000, 0);
        }
        // Its clock stood meanwhile.
        both.now_ns = now_ns + 1;
        assert_eq!(both.region(36), 23);
        assert_eq!(both.after(1_000, 0), 22);
    }

    #[test]
    fn a_host_that_comes_back_is_followed_again() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        both.now_ns += 1_000_000_000;
        assert_eq!(both.region(36), 36);
        // The daemon was started anew, and counts from 1.
        both.page.windows = 1;
        assert_eq!(both.region(36), 36);
        assert_eq!(both.follower.why(), Some(Alone::Anew));
        assert_eq!(both.after(6_000, 0), 30);
    }

    #[test]
    fn a_daemon_that_was_stopped_is_followed_again() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        both.now_ns += 1_000_000_000;
        assert_eq!(both.region(36), 36);
        both.page.ended_ns += 1_000_000_000;
        assert_eq!(both.after(6_000, 0), 30);
    }

    #[test]
    fn a_page_that_is_gone_is_followed_again_only_after_it_changed() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        both.follower.look(Err(Alone::Short), both.now_ns);
        assert_eq!(both.follower.threads(36, 1), 36);
        assert_eq!(both.region(36), 36);
        assert_eq!(both.after(6_000, 0), 30);
    }

    #[test]
    fn a_page_that_is_being_written_changes_nothing_until_it_stands_still() {
        let mut both = Both::new();
        assert_eq!(both.after(12_000, 0), 24);
        both.follower.look(Err(Alone::Busy), both.now_ns + 1);
        assert_eq!(both.follower.threads(36, 1), 24);
        both.follower.look(Err(Alone::Busy), both.now_ns + 2 * WINDOW_NS + MARGIN_NS + 1);
        assert_eq!(both.follower.threads(36, 1), 36);
    }

    /// Four threads run regions on 16 CPUs, each of up to 16. With all of the correction taken by
    /// each, the numbers would swing between 16 and 1.
    #[test]
    fn several_threads_that_start_regions_come_to_rest() {
        let mut both = Both::new();
        let (mut each, starters, cpus) = (16_u32, 4_u32, 16_u32);
        let mut last = Vec::new();
        for _ in 0..20 {
            let (all, cpus) = (each * starters, cpus * 1000);
            both.window(
                (all * 1000).saturating_sub(cpus).min(36_000),
                cpus.saturating_sub(all * 1000),
            );
            both.look();
            each = (0..starters).map(|_| both.follower.threads(16, starters)).last().unwrap();
            last.push(each);
        }
        assert_eq!(last[15..], [4; 5], "{last:?}");
    }

    /// Pages of random bytes, pages with random numbers, and pages that look right, at random
    /// times.
    #[test]
    fn no_page_makes_a_number_that_cannot_be() {
        let mut random = ChaCha8Rng::seed_from_u64(16);
        let mut follower = Follower::new();
        let (mut page, mut now_ns) = (a_page(), 0_u64);
        let (mut alone, mut fewer) = (0, 0);
        for _ in 0..10_000 {
            let mut head = bytes_of(&page);
            match random.random_range(0..8) {
                0 => random.fill_bytes(&mut head),
                1 => random.fill_bytes(&mut head[16..]),
                2 => {
                    let at = random.random_range(0..HEAD_BYTES);
                    head[at] = random.random();
                }
                _ => {
                    page.windows += 1;
                    page.ended_ns += WINDOW_NS;
                    page.phantoms_milli = random.random_range(0..=8_000);
                    page.idle_cpus_milli = random.random_range(0..=4_000);
                    page.owed_cpus_milli = random.random_range(0..=4_000);
                    page.owing_cpus_milli = random.random_range(0..=4_000);
                    head = bytes_of(&page);
                }
            }
            let read = Page::read(|offset, to| {
                to.copy_from_slice(&head[offset..offset + to.len()]);
                Ok(())
            });
            now_ns = if random.random_range(0..100) == 0 {
                random.random()
            } else {
                now_ns.saturating_add(random.random_range(0..2 * WINDOW_NS))
            };
            follower.look(read, now_ns);
            let n = random.random_range(1..=64);
            let threads = follower.threads(n, random.random_range(0..4));
            assert!((1..=n).contains(&threads), "{threads} of {n}");
            alone += u32::from(follower.is_alone());
            fewer += u32::from(threads < n);
        }
        assert!(alone > 1_000 && fewer > 1_000, "{alone} alone, {fewer} with fewer threads");
    }
}
