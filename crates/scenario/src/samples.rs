//! How many calls of each function are under way, second by second: made up after a published trace, or
//! read from a file.

use crate::random::Random;
use crate::span::Span;

/// How long a sample holds, ns.
pub const SAMPLE_NS: u64 = 1_000_000_000;

/// The mean concurrency of each of twelve functions of the Azure trace of 2021, in thousandths: as
/// published for the first eight, and next to nothing for the rest.
const MEANS: [u64; 12] = [29_200, 4_900, 1_700, 740, 190, 130, 70, 30, 10, 5, 3, 1];
/// The published samples repeat after so many.
const SAMPLES: usize = 300;
/// Load comes in bursts: its level is log-normal, of a mean of 1 (in millionths), and changes after so
/// many seconds in the mean.
const MILLION: u64 = 1_000_000;
const LEVEL: Span = Span::LogNormal { median_ns: 782_705, sigma_thousandths: 700 };
const LEVEL_LASTS: Span = Span::Exponential(8 * SAMPLE_NS);
/// From which the trace follows.
const TRACE: u64 = 2021;
/// More calls of one function at a time are a slip of the pen.
const CALLS_MOST: u32 = 4_096;

/// The samples of the `number`-th function after the published trace, its mean times `scale_thousandths`:
/// the same each time.
pub fn made_up(number: u64, scale_thousandths: u64) -> Vec<u32> {
    let mut random = Random::new(TRACE + number);
    let mean = MEANS[number as usize % MEANS.len()] * scale_thousandths;
    let (mut level, mut left_ns) = (0, 0);
    let sample = |_| {
        if left_ns == 0 {
            level = LEVEL.draw(&mut random);
            left_ns = LEVEL_LASTS.draw(&mut random).max(1);
        }
        left_ns = left_ns.saturating_sub(SAMPLE_NS);
        poisson(mean * level / MILLION, &mut random)
    };
    (0..SAMPLES).map(sample).collect()
}

/// A Poisson number whose mean is in millionths, by adding up what lies between arrivals.
fn poisson(mean: u64, random: &mut Random) -> u32 {
    let mut gap = || Span::Exponential(MILLION).draw(random);
    let (mut passed, mut count) = (gap(), 0);
    while passed < mean && count < CALLS_MOST {
        passed += gap();
        count += 1;
    }
    count
}

/// What is wrong with a file of samples, and at which byte of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The byte.
    pub at: usize,
    /// What is wrong.
    pub cause: String,
    /// How to write it.
    pub remedy: String,
}

/// The samples of each function from a file: a column for each, a line for each second. The first line may
/// have names. A cell that is empty is a second without calls.
///
/// # Errors
/// What is wrong, where a line has more columns or fewer, or a cell is no such number.
pub fn read(text: &str) -> Result<Vec<Vec<u32>>, Wrong> {
    let wrong =
        |at, cause: String, remedy: &str| Err(Wrong { at, cause, remedy: remedy.to_owned() });
    let mut functions: Vec<Vec<u32>> = Vec::new();
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let cells: Vec<&str> =
            line.trim_end_matches(['\n', '\r']).split(',').map(str::trim).collect();
        let is_head = number == 0 && !cells.iter().any(|cell| cell.parse::<u32>().is_ok());
        if line.trim().is_empty() && cells.len() == 1 {
            let cause = "a line without samples".to_owned();
            return wrong(at, cause, "write 0 for a second without calls, or remove the line");
        }
        if functions.is_empty() {
            functions = vec![Vec::new(); cells.len()];
        }
        if cells.len() != functions.len() {
            let cause =
                format!("{} columns, where the first line has {}", cells.len(), functions.len());
            return wrong(at, cause, "write a column for each function, a line for each second");
        }
        if !is_head {
            for (function, cell) in functions.iter_mut().zip(cells) {
                match cell.parse() {
                    Ok(calls) if calls <= CALLS_MOST => function.push(calls),
                    _ if cell.is_empty() => function.push(0),
                    _ => {
                        let cause = format!("'{cell}' is no number of calls");
                        return wrong(at, cause, "write whole numbers up to 4096");
                    }
                }
            }
        }
        at += line.len();
    }
    if functions.iter().all(Vec::is_empty) {
        return wrong(0, "there are no samples".to_owned(), "write a column for each function");
    }
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_the_published_ones() {
        let mean = |number: u64, scale: u64| {
            // Of many that are alike.
            let samples: Vec<u32> =
                (0..40).flat_map(|group| made_up(12 * group + number, scale)).collect();
            samples.iter().map(|calls| f64::from(*calls)).sum::<f64>() / samples.len() as f64
        };
        for (number, published) in [(0, 29.2), (1, 4.9), (2, 1.7), (3, 0.74), (5, 0.13)] {
            let got = mean(number, 1_000);
            assert!((got / published - 1.0).abs() < 0.15, "{number}: {got}, not {published}");
        }
        assert!((mean(0, 100) / 2.92 - 1.0).abs() < 0.15);
        assert_eq!(made_up(0, 1_000), made_up(0, 1_000));
        assert_ne!(made_up(0, 1_000), made_up(12, 1_000));
        assert_eq!(made_up(3, 0), [0; SAMPLES]);
    }

    #[test]
    fn load_comes_in_bursts() {
        let samples = made_up(1, 1_000);
        let most = samples.iter().max().unwrap();
        assert!(*most > 12 && samples.contains(&0), "{most} at most, {samples:?}");
    }

    #[test]
    fn a_file_has_a_column_for_each_function_and_may_have_holes() {
        assert_eq!(read("a,b\n1,2\n,3\r\n4,0"), Ok(vec![vec![1, 0, 4], vec![2, 3, 0]]));
        assert_eq!(read("7"), Ok(vec![vec![7]]));
        for (text, at, cause) in [
            ("", 0, "no samples"),
            ("a,b\n", 0, "no samples"),
            ("1,2\n3\n", 4, "1 columns"),
            ("1,2\n3,x\n", 4, "'x' is no"),
            ("1,2\n3,-1\n", 4, "'-1' is no"),
            ("1\n5000\n", 2, "'5000' is no"),
            ("1\n\n2\n", 2, "without samples"),
        ] {
            let wrong = read(text).unwrap_err();
            assert!(wrong.cause.contains(cause), "{text:?}: {}", wrong.cause);
            assert_eq!(wrong.at, at, "{text:?}");
        }
    }
}
