//! Versions of kernels and packages, and which is newer.
//!
//! Debian's own order, which libraries for versions of programs do not have; `dpkg` has it, and is a
//! process for each pair.

use std::cmp::Ordering;

/// Compares two versions as Debian does (Debian Policy Manual, 5.6.12): stretches
/// of digits count as numbers, `~` sorts before everything, even before the end,
/// letters before other characters. An epoch (`1:`) counts first.
pub fn compare(a: &str, b: &str) -> Ordering {
    let epoch = |v: &str| -> (u64, String) {
        match v.split_once(':') {
            Some((epoch, rest)) if epoch.bytes().all(|c| c.is_ascii_digit()) => {
                (epoch.parse().unwrap_or(0), rest.to_owned())
            }
            _ => (0, v.to_owned()),
        }
    };
    let ((epoch_a, a), (epoch_b, b)) = (epoch(a), epoch(b));
    epoch_a.cmp(&epoch_b).then_with(|| compare_parts(a.as_bytes(), b.as_bytes()))
}

fn compare_parts(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while !a.is_empty() || !b.is_empty() {
        let text = |v: &[u8]| v.iter().take_while(|c| !c.is_ascii_digit()).count();
        let (text_a, text_b) = (text(a), text(b));
        for i in 0..text_a.max(text_b) {
            let weight = |v: &[u8], length: usize| if i < length { weight(v[i]) } else { 0 };
            let order = weight(a, text_a).cmp(&weight(b, text_b));
            if order.is_ne() {
                return order;
            }
        }
        (a, b) = (&a[text_a..], &b[text_b..]);
        let (number_a, rest_a) = leading_number(a);
        let (number_b, rest_b) = leading_number(b);
        let order = number_a.len().cmp(&number_b.len()).then(number_a.cmp(number_b));
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    Ordering::Equal
}

/// The end of a version weighs 0.
fn weight(character: u8) -> i32 {
    match character {
        b'~' => -1,
        c if c.is_ascii_alphabetic() => i32::from(c),
        c => i32::from(c) + 256,
    }
}

/// The digits that a version begins with, without leading zeros, and the rest.
fn leading_number(v: &[u8]) -> (&[u8], &[u8]) {
    let digits = v.iter().take_while(|c| c.is_ascii_digit()).count();
    let (number, rest) = v.split_at(digits);
    let zeros = number.iter().take_while(|c| **c == b'0').count();
    (&number[zeros..], rest)
}

/// Major and minor number of a kernel's release: `7.2.13+deb14-amd64` → (7, 2).
pub fn major_minor(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_sort_as_debian_sorts_them() {
        // Each is older than the next.
        let order = [
            "6.19.14+deb13-amd64",
            "7.0~rc1",
            "7.0",
            "7.0.13-1~bpo13+1",
            "7.0.13-1",
            "7.2.9+deb13-amd64",
            "7.2.12+deb13-amd64",
            "7.2.13+deb14-amd64",
            "7.3.4+deb13-amd64",
            "7.10.1+deb14-amd64",
            "1:0.1",
        ];
        for (i, a) in order.iter().enumerate() {
            for (j, b) in order.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a} and {b}");
            }
        }
        assert_eq!(compare("7.02", "7.2"), Ordering::Equal);
    }

    #[test]
    fn a_release_begins_with_its_numbers() {
        assert_eq!(major_minor("7.2.13+deb14-amd64"), Some((7, 2)));
        assert_eq!(major_minor("7.10-rc1"), Some((7, 10)));
        assert_eq!(major_minor("amd64"), None);
    }
}
