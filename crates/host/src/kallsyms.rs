//! Where the kernel has its symbols.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// The addresses of those symbols, in their order, 0 for one that is not there or is not told (see
/// `kptr_restrict` in sysctl(7)). It reads until all are found: half a second in an emulator.
///
/// # Errors
/// Those of reading `/proc/kallsyms`.
pub fn addresses<const N: usize>(names: [&str; N]) -> io::Result<[u64; N]> {
    addresses_in(BufReader::with_capacity(64 << 10, File::open("/proc/kallsyms")?), names)
}

/// A line is `ADDRESS TYPE NAME`, with `[MODULE]` behind it for a module's: the kernel's own come
/// first.
fn addresses_in<const N: usize>(
    mut symbols: impl BufRead,
    names: [&str; N],
) -> io::Result<[u64; N]> {
    let mut addresses = [0; N];
    let mut missing = N;
    let mut line = String::new();
    while missing > 0 && symbols.read_line(&mut line)? > 0 {
        let mut words = line.split_ascii_whitespace();
        if let (Some(address), Some(_), Some(name), None) =
            (words.next(), words.next(), words.next(), words.next())
            && let Some(at) = names.iter().position(|wanted| *wanted == name)
        {
            addresses[at] = u64::from_str_radix(address, 16).unwrap_or(0);
            missing -= 1;
        }
        line.clear();
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYMBOLS: &str = "\
ffffffff81000000 T _text
ffffffff8354dda0 D __cpu_active_mask_of_another
ffffffff8354dda8 D __cpu_active_mask
ffffffff8354e9a0 D __cpu_online_mask
ffffffffc0000000 d late\t[module]
";

    #[test]
    fn each_symbol_is_found_by_its_whole_name() {
        let found = addresses_in(SYMBOLS.as_bytes(), ["__cpu_online_mask", "__cpu_active_mask"]);
        assert_eq!(found.unwrap(), [0xffff_ffff_8354_e9a0, 0xffff_ffff_8354_dda8]);
    }

    #[test]
    fn a_symbol_that_is_not_there_or_a_modules_is_at_0() {
        let found = addresses_in(SYMBOLS.as_bytes(), ["_text", "missing", "late"]);
        assert_eq!(found.unwrap(), [0xffff_ffff_8100_0000, 0, 0]);
    }

    #[test]
    fn reading_ends_with_the_last_one_that_is_wanted() {
        let mut rest = SYMBOLS.as_bytes();
        addresses_in(&mut rest, ["_text"]).unwrap();
        assert!(rest.starts_with(b"ffffffff8354dda0"));
    }
}
