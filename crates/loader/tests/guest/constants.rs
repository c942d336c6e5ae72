//! Constants of enums: as our header writes them and as the kernel's BTF has them.

use std::collections::BTreeMap;

/// From `bpftool btf dump ... format raw`: lines of `'NAME' val=NUMBER`.
pub fn of_btf_dump(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("\t'")) {
        let mut parts = line.split('\'');
        let name = parts.nth(1).unwrap_or_default();
        let value = parts.next().and_then(|rest| rest.strip_prefix(" val="));
        if let Some(value) = value.and_then(number) {
            all.insert(name.to_string(), value);
        }
    }
    all
}

/// From a header: lines of `NAME = EXPRESSION,` where the expression is a number,
/// a name, or such joined with `<<` and `|`.
pub fn of_header(text: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for line in text.lines() {
        let Some((name, expression)) = line.trim().split_once(" = ") else { continue };
        let Some(expression) = expression.strip_suffix(',') else { continue };
        if name.chars().all(|c| c.is_ascii_uppercase() || c == '_') {
            let value = expression.split('|').map(|part| shifted(part, &all)).sum();
            all.insert(name.to_string(), value);
        }
    }
    all
}

fn shifted(part: &str, known: &BTreeMap<String, u64>) -> u64 {
    let term = |text: &str| {
        let text = text.trim();
        number(text).or_else(|| known.get(text).copied()).unwrap_or_else(|| panic!("{text}"))
    };
    match part.split_once("<<") {
        Some((value, by)) => term(value) << term(by),
        None => term(part),
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim().trim_end_matches("ULL");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).ok();
    }
    text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(|n| n as u64))
}

#[test]
fn shifts_unions_and_suffixes_are_understood() {
    let all = of_header("\tA = 1ULL << 63,\n\tB = A | 2,\n\tC = 0x20,\n\tD = 20000000ULL,\n");
    assert_eq!(all["A"], 1 << 63);
    assert_eq!(all["B"], (1 << 63) | 2);
    assert_eq!(all["C"], 32);
    assert_eq!(all["D"], 20_000_000);
    let btf = of_btf_dump("[5] ENUM64 'e'\n\t'A' val=9223372036854775808ULL\n\t'N' val=-1\n");
    assert_eq!(btf["A"], 1 << 63);
    assert_eq!(btf["N"], u64::MAX);
}
