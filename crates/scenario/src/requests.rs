//! Requests, and how they arrive. A request's time counts from its arrival, whether or not
//! anybody is there to take it: a server that falls behind cannot hide it.

use crate::random::Random;
use crate::span::Span;
use std::collections::BTreeSet;
use std::sync::Arc;

/// How requests arrive.
#[derive(Clone, Debug)]
pub enum Process {
    /// So many clients, each of which thinks, sends a request, and waits for the answer.
    Closed {
        /// How many.
        clients: u64,
        /// From an answer to the next request; before the first one too.
        think: Span,
    },
    /// As [`Process::Closed`], with as many clients as the present sample says; the samples are
    /// repeated. A client that is one too many goes when its request is answered.
    Sampled {
        /// How many, from one sample to the next; at least one sample.
        clients: Arc<[u32]>,
        /// How long each sample holds, ns; at least 1.
        sample_ns: u64,
        /// As there.
        think: Span,
    },
    /// Whatever becomes of those before: one after such a gap. Exponential gaps make it a
    /// Poisson process.
    Open {
        /// From one to the next.
        gap: Span,
    },
    /// As [`Process::Open`], with pauses.
    Bursts {
        /// From one to the next, within a burst.
        gap: Span,
        /// How long a burst lasts.
        on: Span,
        /// How long the pause lasts.
        off: Span,
    },
    /// At these times, ns since the process begins, in ascending order.
    Recorded(Arc<[u64]>),
}

/// Requests that arrive, and the queue in which they wait.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// How they arrive.
    pub process: Process,
    /// When the process begins, ns.
    pub from_ns: u64,
    /// None arrives then or later, ns.
    pub until_ns: u64,
}

impl Arrivals {
    /// From the beginning of the run to its end.
    pub fn of(process: Process) -> Self {
        Arrivals { process, from_ns: 0, until_ns: u64::MAX }
    }
}

/// An arrival process as it goes on.
#[derive(Clone, Debug)]
pub struct Arriving {
    arrivals: Arrivals,
    burst_until: u64,
    arrived: u64,
    /// The clients of a [`Process::Sampled`], by their numbers: the n-th is there in the samples that
    /// are higher than n. Those that think or wait for an answer; and all others, by when they come back.
    inside: BTreeSet<u32>,
    away: BTreeSet<(u64, u32)>,
}

impl Arriving {
    /// Nobody has come yet.
    pub fn of(arrivals: Arrivals) -> Self {
        Arriving {
            arrivals,
            burst_until: 0,
            arrived: 0,
            inside: BTreeSet::new(),
            away: BTreeSet::new(),
        }
    }

    /// How many have come.
    pub fn arrived(&self) -> u64 {
        self.arrived
    }

    /// When the first requests arrive.
    pub fn first(&mut self, random: &mut Random) -> Vec<u64> {
        let from = self.arrivals.from_ns;
        let first = match &self.arrivals.process {
            Process::Closed { clients, think } => {
                (0..*clients).map(|_| from + think.draw(random)).collect()
            }
            Process::Sampled { clients, sample_ns, think } => {
                let most = clients.iter().copied().max().unwrap_or(0);
                let (inside, away): (Vec<u32>, Vec<u32>) = (0..most).partition(|n| *n < clients[0]);
                let back = |n: u32| Some((from + first_above(clients, *sample_ns, n, 0)?, n));
                self.away = away.into_iter().filter_map(back).collect();
                let thinking = inside.iter().map(|_| from + think.draw(random));
                let first = thinking.chain(self.away.iter().map(|(at, _)| *at)).collect();
                self.inside = inside.into_iter().collect();
                first
            }
            Process::Open { gap } => vec![from + gap.draw(random)],
            Process::Bursts { gap, on, .. } => {
                self.burst_until = from + on.draw(random);
                vec![from + gap.draw(random)]
            }
            Process::Recorded(times) => times.first().map(|at| from + at).into_iter().collect(),
        };
        self.within(first)
    }

    /// A request arrives; when the next one does, unless that depends on an answer.
    pub fn arrive(&mut self, now: u64, random: &mut Random) -> Vec<u64> {
        self.arrived += 1;
        let next = match &self.arrivals.process {
            Process::Closed { .. } => None,
            Process::Sampled { .. } => {
                if let Some((at, number)) = self.away.first().copied().filter(|(at, _)| *at <= now)
                {
                    self.away.remove(&(at, number));
                    self.inside.insert(number);
                }
                None
            }
            Process::Open { gap } => Some(now + gap.draw(random).max(1)),
            Process::Bursts { gap, on, off } => {
                let mut next = now + gap.draw(random).max(1);
                if next > self.burst_until {
                    next = self.burst_until.max(now) + off.draw(random).max(1);
                    self.burst_until = next + on.draw(random);
                }
                Some(next)
            }
            Process::Recorded(times) => {
                times.get(self.arrived as usize).map(|at| self.arrivals.from_ns + at)
            }
        };
        self.within(next.into_iter().collect())
    }

    /// A request is answered; when its client sends another.
    pub fn answer(&mut self, now: u64, random: &mut Random) -> Vec<u64> {
        let next = match &self.arrivals.process {
            Process::Closed { think, .. } => Some(now + think.draw(random)),
            Process::Sampled { clients, sample_ns, think } => {
                let next = now + think.draw(random);
                let passed = next.saturating_sub(self.arrivals.from_ns);
                let there = clients[(passed / sample_ns) as usize % clients.len()];
                // Clients are all alike: it is the last one that goes.
                match self.inside.last().copied().filter(|number| *number >= there) {
                    None => Some(next),
                    Some(number) => {
                        self.inside.remove(&number);
                        let back = first_above(clients, *sample_ns, number, passed);
                        let back = back.map(|at| self.arrivals.from_ns + at);
                        self.away.extend(back.map(|at| (at, number)));
                        back
                    }
                }
            }
            _ => None,
        };
        self.within(next.into_iter().collect())
    }

    fn within(&self, times: Vec<u64>) -> Vec<u64> {
        times.into_iter().filter(|at| *at < self.arrivals.until_ns).collect()
    }
}

/// The beginning of the first sample after `passed_ns` that is higher than `number`, ns since the first
/// one began; none if no sample is.
fn first_above(clients: &[u32], sample_ns: u64, number: u32, passed_ns: u64) -> Option<u64> {
    let next = passed_ns / sample_ns + 1;
    let samples = next..next + clients.len() as u64;
    let is_there = |sample: &u64| clients[*sample as usize % clients.len()] > number;
    samples
        .map(|sample| (sample, sample * sample_ns))
        .find(|(sample, _)| is_there(sample))
        .map(|(_, at)| at)
}

/// When requests arrive, ns, one after the other.
pub struct Times {
    arriving: Arriving,
    random: Random,
    next: Option<u64>,
}

impl Arrivals {
    /// When they arrive; none where that depends on their answers, as with
    /// [`Process::Closed`].
    pub fn times(&self, seed: u64) -> Option<Times> {
        if matches!(self.process, Process::Closed { .. } | Process::Sampled { .. }) {
            return None;
        }
        let (mut arriving, mut random) = (Arriving::of(self.clone()), Random::new(seed));
        let next = arriving.first(&mut random).first().copied();
        Some(Times { arriving, random, next })
    }
}

impl Iterator for Times {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let at = self.next?;
        self.next = self.arriving.arrive(at, &mut self.random).first().copied();
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The times of the first `n` requests.
    fn times(arrivals: Arrivals, n: usize) -> Vec<u64> {
        arrivals.times(3).expect("no answer is waited for").take(n).collect()
    }

    #[test]
    fn a_recorded_list_arrives_as_recorded() {
        let list = Arrivals { from_ns: 100, ..Arrivals::of(Process::Recorded([0, 5, 5].into())) };
        assert_eq!(times(list, 9), [100, 105, 105]);
    }

    #[test]
    fn bursts_have_pauses_between_them() {
        let [gap, on, off] = [10, 100, 1_000].map(Span::Exactly);
        let seen = times(Arrivals::of(Process::Bursts { gap, on, off }), 1_000);
        let gaps: Vec<u64> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert!(gaps.iter().all(|gap| [10, 1_000].contains(gap)), "{gaps:?}");
        let pauses = gaps.iter().filter(|gap| **gap == 1_000).count();
        assert!((85..=95).contains(&pauses), "{pauses} pauses in 1000 requests, 11 to a burst");
    }

    #[test]
    fn a_closed_loop_waits_for_its_answers() {
        let think = Span::Exactly(50);
        let mut arriving = Arriving::of(Arrivals::of(Process::Closed { clients: 3, think }));
        let mut random = Random::new(1);
        assert_eq!(arriving.first(&mut random), [50, 50, 50]);
        assert!(arriving.arrive(50, &mut random).is_empty());
        assert_eq!(arriving.answer(70, &mut random), [120]);
    }

    /// Answers each request after a time, and counts those that are under way in each sample.
    #[test]
    fn as_many_clients_are_there_as_the_sample_says() {
        let clients: Arc<[u32]> = [2, 0, 3, 1].into();
        let think = Span::Exactly(10);
        let process = Process::Sampled { clients: clients.clone(), sample_ns: 1_000, think };
        let mut arriving = Arriving::of(Arrivals { from_ns: 500, ..Arrivals::of(process) });
        let mut random = Random::new(1);
        // What happens, by when; answers are those that are due.
        let mut due: BTreeSet<(u64, u64, bool)> = BTreeSet::new();
        let mut names = 0..;
        let mut name = || names.next().unwrap();
        for at in arriving.first(&mut random) {
            due.insert((at, name(), false));
        }
        let mut under_way = 0;
        let mut most = vec![0; 12];
        while let Some((at, _, answered)) = due.pop_first().filter(|(at, ..)| *at < 12_500) {
            let next = match answered {
                false => {
                    under_way += 1;
                    due.insert((at + 30, name(), true));
                    arriving.arrive(at, &mut random)
                }
                true => {
                    under_way -= 1;
                    arriving.answer(at, &mut random)
                }
            };
            due.extend(next.into_iter().map(|at| (at, name(), false)));
            // A request that was under way at the end of a sample is answered.
            let passed = at - 500;
            if passed % 1_000 > 40 {
                let most = &mut most[(passed / 1_000) as usize];
                *most = under_way.max(*most);
            }
        }
        assert_eq!(most, clients.repeat(3));
        let none = Arrivals::of(Process::Sampled { clients: [0].into(), sample_ns: 1, think });
        assert!(Arriving::of(none).first(&mut random).is_empty());
    }

    #[test]
    fn none_arrives_after_the_end() {
        let gap = Span::Exactly(10);
        let until = Arrivals { until_ns: 50, ..Arrivals::of(Process::Open { gap }) };
        assert_eq!(times(until, 9), [10, 20, 30, 40]);
    }
}
