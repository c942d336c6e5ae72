//! Logarithms and powers of two in whole numbers. What the mathematics library of a
//! machine gives may differ in its last bit from that of another, and a run must not.

/// ln 2 and its inverse, in units of 2^-32.
pub(crate) const LN_2: u128 = 0xb172_17f8;
pub(crate) const LOG2_E: i128 = 0x1_7154_7653;

/// 2^(1/2), 2^(1/4), ... 2^(2^-32), in units of 2^-62: each is the root of the one before.
const ROOTS: [u64; 32] = {
    let mut roots = [0; 32];
    let (mut root, mut i) = (2u128 << 62, 0);
    while i < 32 {
        root = (root << 62).isqrt();
        roots[i] = root as u64;
        i += 1;
    }
    roots
};

/// -log2(x / 2^64) in units of 2^-32, of an `x` that is not 0: from next to 0 up to 64.
pub(crate) fn bits_below_one(x: u64) -> u64 {
    let zeros = x.leading_zeros();
    let mut mantissa = u128::from(x << zeros);
    let mut log = 0;
    // Squaring doubles the logarithm: each overflow is its next binary digit.
    for digit in (0..32).rev() {
        mantissa = (mantissa * mantissa) >> 63;
        if mantissa >> 64 != 0 {
            mantissa >>= 1;
            log |= 1 << digit;
        }
    }
    (u64::from(zeros + 1) << 32) - log
}

/// `value` times 2^(`exponent` / 2^32), rounded down; at most `most`.
pub(crate) fn times_power_of_two(value: u64, exponent: i64, most: u64) -> u64 {
    let (whole, fraction) = (exponent >> 32, exponent as u32);
    if whole >= 64 {
        return if value == 0 { 0 } else { most };
    }
    let mut power = 1u128 << 62;
    for (i, root) in ROOTS.iter().enumerate() {
        if fraction >> (31 - i) & 1 == 1 {
            power = (power * u128::from(*root)) >> 62;
        }
    }
    let product = u128::from(value) * power;
    let result = match 62 - whole {
        right @ 0.. => product.checked_shr(right as u32).unwrap_or(0),
        // The product is below 2^127, so a shift to the left may lose its first digits.
        _ if product.leading_zeros() < (whole - 62) as u32 => u128::MAX,
        left => product << -left,
    };
    result.min(most.into()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: i64 = 1 << 32;

    #[test]
    fn logarithms_of_powers_of_two_are_exact_and_others_near() {
        assert_eq!(bits_below_one(1), 64 << 32);
        assert_eq!(bits_below_one(1 << 63), 1 << 32);
        for x in [3, 1_000_003, u64::MAX / 3, u64::MAX] {
            let wanted = 64.0 - (x as f64).log2();
            let got = bits_below_one(x) as f64 / ONE as f64;
            assert!((got - wanted).abs() < 1e-6, "{x}: {got}, not {wanted}");
        }
    }

    #[test]
    fn powers_of_two_are_exact_and_those_between_near() {
        assert_eq!(times_power_of_two(1_000, 3 * ONE, u64::MAX), 8_000);
        assert_eq!(times_power_of_two(8_000, -3 * ONE, u64::MAX), 1_000);
        for exponent in [ONE / 2, ONE / 3, -ONE / 7, 5 * ONE + 12_345] {
            let wanted = 1e12 * (exponent as f64 / ONE as f64).exp2();
            let got = times_power_of_two(1_000_000_000_000, exponent, u64::MAX) as f64;
            assert!((got / wanted - 1.0).abs() < 1e-8, "{exponent}: {got}, not {wanted}");
        }
    }

    #[test]
    fn a_result_that_is_out_of_range_is_the_most_or_nothing() {
        assert_eq!(times_power_of_two(1, 64 * ONE, 77), 77);
        assert_eq!(times_power_of_two(u64::MAX, 63 * ONE, 77), 77);
        assert_eq!(times_power_of_two(0, 64 * ONE, 77), 0);
        assert_eq!(times_power_of_two(u64::MAX, -200 * ONE, 77), 0);
    }
}
