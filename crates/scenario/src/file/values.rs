//! Values as scenario files write them: durations, spans and their distributions, sets of
//! CPUs, quotas, nice values.

use crate::cpu_mask::{CpuMask, MAX_CPUS};
use crate::span::Span;
use metasched_base::{nearest, parse_duration};

/// What is wrong with a value, and how to write it.
#[derive(Debug)]
pub(super) struct Wrong {
    pub cause: String,
    pub remedy: String,
}

pub(super) fn wrong(cause: impl Into<String>, remedy: impl Into<String>) -> Wrong {
    Wrong { cause: cause.into(), remedy: remedy.into() }
}

type Result<T> = std::result::Result<T, Wrong>;

/// Longer than any run: keeps sums of times from overflowing.
const LONGEST_NS: u64 = 1_000_000_000_000_000;

/// The distributions, as their names are written.
const DISTRIBUTIONS: [&str; 3] = ["exp", "lognormal", "pareto"];

/// `10ms`, in ns.
pub(super) fn duration_ns(text: &str) -> Result<u64> {
    let read =
        parse_duration(text).map_err(|e| wrong(format!("'{text}': {}", e.cause), e.remedy))?;
    match u64::try_from(read.as_nanos()) {
        Ok(ns) if ns <= LONGEST_NS => Ok(ns),
        _ => Err(wrong(format!("'{text}' is too long"), "write at most 11days")),
    }
}

/// `10ms`, `2ms..5ms`, `exp(3ms)`, `lognormal(3ms, 0.5)` or `pareto(1ms, 1.5)`.
pub(super) fn span(text: &str) -> Result<Span> {
    let text = text.trim();
    if let Some((name, rest)) = text.split_once('(') {
        let arguments = rest.strip_suffix(')').ok_or_else(|| {
            wrong(format!("'{text}' has no closing parenthesis"), "write it like exp(3ms)")
        })?;
        return distribution(name.trim(), &arguments.split(',').map(str::trim).collect::<Vec<_>>());
    }
    let Some((low, high)) = text.split_once("..") else {
        return Ok(Span::Exactly(duration_ns(text)?));
    };
    let (low_ns, high_ns) = (duration_ns(low)?, duration_ns(high)?);
    if low_ns > high_ns {
        return Err(wrong(
            format!("'{text}' ends before it begins"),
            "write the shorter one first",
        ));
    }
    Ok(Span::Between(low_ns, high_ns))
}

fn distribution(name: &str, arguments: &[&str]) -> Result<Span> {
    match (name, arguments) {
        ("exp", [mean]) => Ok(Span::Exponential(duration_ns(mean)?)),
        ("lognormal", [median, sigma]) => Ok(Span::LogNormal {
            median_ns: duration_ns(median)?,
            sigma_thousandths: thousandths(sigma)?,
        }),
        ("pareto", [least, shape]) => match thousandths(shape)? {
            0 => Err(wrong("a Pareto distribution of shape 0 has no end", "write 1.5, or so")),
            shape_thousandths => {
                Ok(Span::Pareto { least_ns: duration_ns(least)?, shape_thousandths })
            }
        },
        _ if DISTRIBUTIONS.contains(&name) => Err(wrong(
            format!("'{name}' with {} arguments means nothing", arguments.len()),
            "write exp(MEAN), lognormal(MEDIAN, SIGMA) or pareto(LEAST, SHAPE)",
        )),
        _ => Err(wrong(
            format!("there is no distribution '{name}'"),
            match nearest(name, DISTRIBUTIONS) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("there are {}", DISTRIBUTIONS.join(", ")),
            },
        )),
    }
}

/// `1.5`, in thousandths.
fn thousandths(text: &str) -> Result<u32> {
    let no = || wrong(format!("'{text}' is no number"), "write up to three decimals, as 1.5");
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 3 || !decimals.bytes().all(|b| b.is_ascii_digit()) {
        return Err(no());
    }
    let whole: u32 = whole.parse().map_err(|_| no())?;
    let decimals: u32 = format!("{decimals:0<3}").parse().map_err(|_| no())?;
    let all = whole.checked_mul(1_000).and_then(|whole| whole.checked_add(decimals));
    all.filter(|all| *all <= 100_000)
        .ok_or_else(|| wrong(format!("{text} is too much"), "write at most 100"))
}

/// `0-3,8`.
pub(super) fn cpus(text: &str) -> Result<CpuMask> {
    let no = |part: &str| wrong(format!("'{part}' is no set of CPUs"), "write it like \"0-3,8\"");
    let mut mask = CpuMask::EMPTY;
    for part in text.split(',').map(str::trim) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| no(part));
        let (first, last) = (number(first)?, number(last)?);
        if last >= MAX_CPUS {
            return Err(wrong(
                format!("there is no CPU {last}"),
                format!("a machine has at most {MAX_CPUS} CPUs, the first one is 0"),
            ));
        }
        if first > last {
            return Err(no(part));
        }
        (first..=last).for_each(|cpu| mask.set(cpu));
    }
    Ok(mask)
}

/// What is written to `cpu.max`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMax {
    /// Run time in each period, us; none is "max".
    pub quota_us: Option<u64>,
    /// The period, us.
    pub period_us: u64,
}

/// `40ms/100ms` or `max`; the period is 100 ms if left out.
pub(super) fn quota(text: &str) -> Result<CpuMax> {
    const PERIOD_US: u64 = 100_000;
    if text.trim() == "max" {
        return Ok(CpuMax { quota_us: None, period_us: PERIOD_US });
    }
    let (quota, period) = text.split_once('/').unwrap_or((text, "100ms"));
    let [quota_us, period_us] = [duration_ns(quota)? / 1_000, duration_ns(period)? / 1_000];
    // What the kernel allows.
    if quota_us < 1_000 || !(1_000..=1_000_000).contains(&period_us) {
        return Err(wrong(
            format!("'{text}' is no quota"),
            "write at least 1ms in a period of 1ms to 1s, as 40ms/100ms, or max",
        ));
    }
    Ok(CpuMax { quota_us: Some(quota_us), period_us })
}

/// The kernel's weights of nice values, from -20 to 19 (sched_prio_to_weight).
const NICE: [u32; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916, 9548, 7620, 6100, 4904,
    3906, 3121, 2501, 1991, 1586, 1277, 1024, 820, 655, 526, 423, 335, 272, 215, 172, 137, 110, 87,
    70, 56, 45, 36, 29, 23, 18, 15,
];

/// The weight that sched_ext gives a task of that nice value.
pub(super) fn weight_of_nice(nice: i64) -> Result<u32> {
    let weight = usize::try_from(nice + 20).ok().and_then(|at| NICE.get(at));
    let weight =
        weight.ok_or_else(|| wrong(format!("there is no nice value {nice}"), "write -20 to 19"))?;
    Ok(((weight * 100 + 512) / 1024).clamp(1, 10_000))
}

/// The nice value of the tasks that sched_ext gives that weight, the highest if there are
/// several; none where no nice value has it.
pub fn nice_of_weight(weight: u32) -> Option<i64> {
    (-20..=19).rev().find(|nice| weight_of_nice(*nice).is_ok_and(|known| known == weight))
}

/// A weight of a task or a cgroup.
pub(super) fn weight(weight: i64) -> Result<u32> {
    u32::try_from(weight)
        .ok()
        .filter(|weight| (1..=10_000).contains(weight))
        .ok_or_else(|| wrong(format!("{weight} is no weight"), "write 1 to 10000; 100 is usual"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_as_they_are_written() {
        const MS: u64 = 1_000_000;
        for (text, wanted) in [
            ("10ms", Span::Exactly(10 * MS)),
            (" 2ms..5ms ", Span::Between(2 * MS, 5 * MS)),
            ("exp(3ms)", Span::Exponential(3 * MS)),
            ("lognormal(3ms, 0.25)", Span::LogNormal { median_ns: 3 * MS, sigma_thousandths: 250 }),
            ("pareto(1ms,1.5)", Span::Pareto { least_ns: MS, shape_thousandths: 1_500 }),
        ] {
            assert_eq!(span(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_refused_with_what_to_write() {
        for (text, said) in [
            ("10", "1800ms"),
            ("5ms..2ms", "the shorter one first"),
            ("exp(3ms", "like exp(3ms)"),
            ("exponent(3ms)", "there are exp, lognormal, pareto"),
            ("lognormall(3ms, 1)", "did you mean 'lognormal'?"),
            ("exp(1ms, 2)", "exp(MEAN)"),
            ("pareto(1ms, 0)", "1.5"),
            ("pareto(1ms, x)", "three decimals"),
            ("lognormal(1ms, 200)", "at most 100"),
            ("90000days", "at most 11days"),
        ] {
            let wrong = span(text).unwrap_err();
            assert!(wrong.remedy.contains(said), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn sets_of_cpus_are_read_and_checked() {
        assert_eq!(cpus("0-2, 8").unwrap(), [0, 1, 2, 8].into_iter().collect());
        for text in ["", "3-1", "a", "0-9999"] {
            assert!(cpus(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quotas_are_read_and_checked() {
        let read = |text: &str| quota(text).map(|q| (q.quota_us, q.period_us));
        assert_eq!(read("40ms/100ms").unwrap(), (Some(40_000), 100_000));
        assert_eq!(read("10ms").unwrap(), (Some(10_000), 100_000));
        assert_eq!(read("max").unwrap().0, None);
        for text in ["10us/100ms", "10ms/2s", "10ms/", "half"] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn nice_values_have_the_weights_that_sched_ext_gives_them() {
        for (nice, weight) in [(0, 100), (-20, 8_668), (19, 1), (1, 80), (-1, 125)] {
            assert_eq!(weight_of_nice(nice).unwrap(), weight, "nice {nice}");
        }
        assert!(weight_of_nice(20).is_err() && weight_of_nice(-21).is_err());
        assert!(weight(0).is_err() && weight(10_001).is_err() && weight(-1).is_err());
    }
}
