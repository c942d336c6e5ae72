use std::collections::BTreeSet;

/// The CPUs of a list as the kernel writes it: `0-3,8`.
pub fn parse_cpu_list(text: &str) -> Option<BTreeSet<u32>> {
    let mut cpus = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

/// The list as the kernel writes it.
pub fn format_cpu_list(cpus: &BTreeSet<u32>) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let range = |(first, last): (u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_as_the_kernel_writes_them() {
        for (text, cpus) in
            [("0-2,8", &[0, 1, 2, 8][..]), ("0", &[0]), ("", &[]), ("3,5-6", &[3, 5, 6])]
        {
            let read = parse_cpu_list(&format!("{text}\n")).unwrap();
            assert_eq!(read, cpus.iter().copied().collect());
            assert_eq!(format_cpu_list(&read), text);
        }
        assert_eq!(parse_cpu_list("a-b"), None);
    }
}
