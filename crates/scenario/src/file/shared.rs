//! What tasks share, from a file: devices, pipes, locks, barriers, and requests that arrive.

use super::groups::Groups;
use super::read::{MANY, Reader};
use super::steps::Kind;
use super::values::{self, Wrong, duration_ns, wrong};
use super::{ATTEMPT, raw};
use crate::requests::{Arrivals, Process};
use crate::shared::{BarrierSpec, DeviceSpec, SharedSpec};
use crate::span::Span;
use metasched_base::{Place, Result};
use std::collections::BTreeMap;
use std::path::Path;
use toml::Spanned;

/// Messages in a pipe: as many pages as Linux gives a pipe.
const PIPE_HOLDS: u64 = 16;
/// How long a number of clients stays.
const SAMPLE_NS: u64 = 1_000_000_000;
/// Operations that a device works on at a time.
const DEVICE_DEPTH: u64 = 1;

impl Reader<'_> {
    /// All of it; `declared` gets the names of each kind.
    pub fn shared(
        &self,
        file: &raw::File,
        groups: &Groups,
        declared: &mut BTreeMap<Kind, Vec<(usize, String)>>,
    ) -> Result<SharedSpec> {
        let mut shared = SharedSpec::default();
        for kind in [Kind::Device, Kind::Pipe, Kind::Lock, Kind::Barrier, Kind::Arrivals] {
            declared.insert(kind, Vec::new());
        }
        let mut named = |kind: Kind, name: &raw::Text| -> Result<String> {
            let all = declared.entry(kind).or_default();
            all.push(self.name(name, all)?);
            Ok(name.get_ref().clone())
        };
        for device in &file.device {
            let name = named(Kind::Device, &device.name)?;
            let depth = self.number(&device.depth, DEVICE_DEPTH, MANY)?;
            let service = self.text(&device.time, values::span)?;
            let device = DeviceSpec { depth: depth as usize, service };
            shared.devices.insert(name.into(), device);
        }
        for pipe in &file.pipe {
            let name = named(Kind::Pipe, &pipe.name)?;
            let holds = self.number(&pipe.holds, PIPE_HOLDS, MANY)? as usize;
            shared.pipes.insert(name.into(), holds);
        }
        for lock in &file.lock {
            shared.locks.insert(named(Kind::Lock, &lock.name)?.into());
        }
        for barrier in &file.barrier {
            let name = named(Kind::Barrier, &barrier.name)?;
            let parties = match (&barrier.parties, groups.parties(&name)) {
                (None, None) => {
                    let cause = format!("tasks that are forked wait at '{name}'");
                    let remedy = "say how many have to come: parties = 4";
                    return Err(self.wrong(barrier.name.span().start, wrong(cause, remedy)));
                }
                (parties, users) => self.number(parties, users.unwrap_or(1), MANY)?,
            };
            let spin_ns = match &barrier.spin {
                None => 0,
                Some(spin) => match spin.get_ref() {
                    raw::Spin::Always(false) => 0,
                    raw::Spin::Always(true) => u64::MAX,
                    raw::Spin::For(text) => {
                        duration_ns(text).map_err(|e| self.wrong(spin.span().start, e))?
                    }
                },
            };
            let barrier = BarrierSpec { parties: parties as usize, spin_ns };
            shared.barriers.insert(name.into(), barrier);
        }
        for arrivals in &file.arrivals {
            let name = named(Kind::Arrivals, &arrivals.get_ref().name)?;
            shared.arrivals.insert(name.into(), self.arrivals(arrivals.get_ref())?);
        }
        Ok(shared)
    }

    fn arrivals(&self, raw: &raw::Arrivals) -> Result<Arrivals> {
        let at = raw.name.span().start;
        let span = |text: &raw::Text| self.text(text, values::span);
        let gap = match (&raw.rate, &raw.every) {
            (Some(rate), None) => {
                let gap_ns = 1e9 / *rate.get_ref();
                if !(1.0..=1e12).contains(&gap_ns) {
                    let cause = format!("{} a second is no rate", rate.get_ref());
                    let remedy = "write requests per second, as 250 or 0.5";
                    return Err(self.wrong(rate.span().start, wrong(cause, remedy)));
                }
                Some(Span::Exponential(gap_ns as u64))
            }
            (None, Some(every)) => Some(span(every)?),
            (None, None) => None,
            (Some(_), Some(every)) => {
                let both =
                    wrong("requests come at a rate, or every so often", "remove one of them");
                return Err(self.wrong(every.span().start, both));
            }
        };
        let recorded = match (&raw.at, &raw.list) {
            (None, None) => None,
            (Some(times), None) => Some(self.recorded(times)?),
            (None, Some(path)) => Some(self.recorded_in(path)?),
            (Some(_), Some(path)) => {
                let both = wrong("times are here or in a file", "remove one of them");
                return Err(self.wrong(path.span().start, both));
            }
        };
        let clients =
            raw.clients.as_ref().map(|clients| self.clients(clients, &raw.think, &raw.sample));
        if let (Some(sample), None | Some(Ok(Process::Closed { .. }))) = (&raw.sample, &clients) {
            let cause = "a sample is of clients whose number changes";
            let remedy = "remove it, or write a list: clients = [3, 0, 12]";
            return Err(self.wrong(sample.span().start, wrong(cause, remedy)));
        }
        let process = match (gap, &raw.on, &raw.off, clients, &raw.think, recorded) {
            (Some(gap), None, None, None, None, None) => Process::Open { gap },
            (Some(gap), Some(on), Some(off), None, None, None) => {
                Process::Bursts { gap, on: span(on)?, off: span(off)? }
            }
            (None, None, None, Some(clients), _, None) => clients?,
            (None, None, None, None, None, Some(times)) => Process::Recorded(times.into()),
            _ => {
                let cause =
                    format!("it does not say, or says twice, how '{}' arrive", raw.name.get_ref());
                let remedy = "write one of: rate; every; either with on and off; clients, and \
                              think; at = [...]; list = \"times.txt\"";
                return Err(self.wrong(at, wrong(cause, remedy)));
            }
        };
        let from_ns = self.duration(&raw.from, 0)?;
        let until_ns = self.duration(&raw.until, u64::MAX)?;
        Ok(Arrivals { process, from_ns, until_ns })
    }

    /// A closed loop.
    fn clients(
        &self,
        clients: &Spanned<raw::Clients>,
        think: &Option<raw::Text>,
        sample: &Option<raw::Text>,
    ) -> Result<Process> {
        let at = clients.span().start;
        let think =
            think.as_ref().map_or(Ok(Span::Exactly(0)), |text| self.text(text, values::span))?;
        let samples = match clients.get_ref() {
            raw::Clients::Always(number) => {
                let clients = self.number(&Some(Spanned::new(at..at, *number)), 1, MANY)?;
                return Ok(Process::Closed { clients, think });
            }
            raw::Clients::Samples(samples) => samples,
        };
        let within = |sample: &i64| {
            let sample = Some(Spanned::new(at..at, *sample));
            self.number(&sample, 0, 0..=*MANY.end()).map(|clients| clients as u32)
        };
        let clients = samples.iter().map(within).collect::<Result<Vec<u32>>>()?;
        if clients.is_empty() {
            let remedy = "write how many clients there are in each sample";
            return Err(self.wrong(at, wrong("there are no samples", remedy)));
        }
        let sample_ns = self.duration(sample, SAMPLE_NS)?;
        if sample_ns == 0 {
            let start = sample.as_ref().map_or(at, |sample| sample.span().start);
            return Err(self.wrong(start, wrong("a sample of no time", "write \"1s\"")));
        }
        Ok(Process::Sampled { clients: clients.into(), sample_ns, think })
    }

    fn recorded(&self, times: &[raw::Text]) -> Result<Vec<u64>> {
        let mut list = Vec::new();
        for time in times {
            let at_ns = self.text(time, duration_ns)?;
            if list.last().is_some_and(|before| *before > at_ns) {
                return Err(self.wrong(time.span().start, unsorted()));
            }
            list.push(at_ns);
        }
        Ok(list)
    }

    /// Times from a file beside the scenario, one a line.
    fn recorded_in(&self, path: &raw::Text) -> Result<Vec<u64>> {
        let beside = Path::new(self.place.path).parent().unwrap_or(Path::new(""));
        let beside = beside.join(path.get_ref()).to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&beside).map_err(|e| {
            let remedy = "write its path from where the scenario is";
            self.wrong(path.span().start, wrong(format!("'{beside}': {e}"), remedy))
        })?;
        let place = Place { path: &beside, text: &text };
        let (mut list, mut offset) = (Vec::new(), 0);
        for line in text.split_inclusive('\n') {
            let at_ns = duration_ns(line).and_then(|at_ns| match list.last() {
                Some(before) if *before > at_ns => Err(unsorted()),
                _ => Ok(at_ns),
            });
            list.push(at_ns.map_err(|e| place.error(ATTEMPT, offset, e.cause).remedy(e.remedy))?);
            offset += line.len();
        }
        Ok(list)
    }
}

fn unsorted() -> Wrong {
    wrong("a recorded time comes before the one above", "sort them")
}
