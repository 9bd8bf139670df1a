//! Means that are rounded once, sums that are compensated, and when a number is an integer.
//!
//! `results.json` was first written by Python's `statistics.mean` and `sum`; these functions give
//! the same numbers, and integers where Python gives integers.

use num_rational::BigRational;
use num_traits::{FromPrimitive, ToPrimitive, Zero};
use serde_json::{Number, Value};

/// The share `count / n` of a whole: the integers 0 and 1 where it is nothing or all, else a
/// float.
///
/// # Panics
/// When `n` is 0: there is no share of nothing.
pub fn share(count: usize, n: usize) -> Value {
    assert!(n > 0 && count <= n, "a share of {count} in {n}");
    match count {
        0 => Value::from(0),
        _ if count == n => Value::from(1),
        _ => Value::from(quotient(count as i64, n)),
    }
}

/// `numerator / n`, rounded once.
pub fn quotient(numerator: i64, n: usize) -> f64 {
    // Both are exact as floats (below 2^53), so the division is the only rounding.
    numerator as f64 / n as f64
}

/// The mean of the numbers, rounded once; `None` of none. An integer where all are integers and
/// so is their mean.
pub fn mean(numbers: &[Number]) -> Option<Number> {
    if numbers.is_empty() {
        return None;
    }
    let mut sum = BigRational::zero();
    for number in numbers {
        sum += exact(number)?;
    }
    let mean = sum / BigRational::from_usize(numbers.len())?;
    if mean.is_integer() && numbers.iter().all(|number| !number.is_f64()) {
        return mean.to_i64().map(Number::from);
    }
    Number::from_f64(mean.to_f64()?)
}

/// The sum of the numbers: exact for integers, compensated (Neumaier) once a float is among
/// them; `None` where any is unknown, or there are none.
pub fn total(numbers: &[Option<Number>]) -> Option<Number> {
    if numbers.is_empty() {
        return None;
    }
    let known: Vec<&Number> = numbers.iter().map(Option::as_ref).collect::<Option<_>>()?;
    let integers: Option<i128> = known.iter().map(|number| integer(number)).sum();
    if let Some(sum) = integers {
        return i64::try_from(sum)
            .map(Number::from)
            .ok()
            .or_else(|| Number::from_f64(sum as f64));
    }
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in known.iter().map(|number| number.as_f64()) {
        let value = value?;
        let next = sum + value;
        lost += if sum.abs() >= value.abs() {
            (sum - next) + value
        } else {
            (value - next) + sum
        };
        sum = next;
    }
    Number::from_f64(sum + lost)
}

fn integer(number: &Number) -> Option<i128> {
    number
        .as_i64()
        .map(i128::from)
        .or_else(|| number.as_u64().map(i128::from))
}

fn exact(number: &Number) -> Option<BigRational> {
    match integer(number) {
        Some(integer) => BigRational::from_i128(integer),
        None => BigRational::from_float(number.as_f64()?),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn floats(values: &[f64]) -> Vec<Number> {
        values.iter().filter_map(|&v| Number::from_f64(v)).collect()
    }

    #[test]
    fn shares_of_nothing_and_all_are_integers() {
        assert_eq!(share(0, 3), json!(0));
        assert_eq!(share(3, 3), json!(1));
        assert_eq!(share(2, 3), json!(0.6666666666666666));
    }

    #[test]
    fn means_and_sums_agree_with_pythons_on_recorded_cases() {
        // Means by statistics.mean, sums of integers by sum, sums with floats by math.fsum.
        #[derive(serde::Deserialize)]
        struct Case {
            numbers: Vec<Number>,
            mean: Number,
            sum: Number,
        }
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../tests/data/means.json")).expect("fixture");
        assert!(cases.len() > 300);
        for case in cases {
            assert_eq!(mean(&case.numbers), Some(case.mean), "{:?}", case.numbers);
            let known: Vec<_> = case.numbers.iter().cloned().map(Some).collect();
            let total = total(&known).expect("all known");
            assert_eq!(total.is_f64(), case.sum.is_f64(), "{:?}", case.numbers);
            let parts = case.numbers.iter().filter_map(Number::as_f64);
            let size: f64 = parts.map(f64::abs).sum();
            let error = total
                .as_f64()
                .zip(case.sum.as_f64())
                .map(|(a, b)| (a - b).abs());
            assert!(error <= Some(1e-15 * size), "{:?}: {total}", case.numbers);
        }
    }

    #[test]
    fn an_unknown_part_makes_the_sum_unknown() {
        assert_eq!(total(&[Some(Number::from(1)), None]), None);
        assert_eq!(total(&[]), None);
        assert_eq!(mean(&[]), None);
    }

    proptest! {
        #[test]
        fn a_mean_lies_between_its_ends(values in prop::collection::vec(-1e9..1e9f64, 1..20)) {
            let mean = mean(&floats(&values)).and_then(|m| m.as_f64()).expect("finite");
            let low = values.iter().copied().fold(f64::INFINITY, f64::min);
            let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            prop_assert!((low..=high).contains(&mean));
        }
    }
}
