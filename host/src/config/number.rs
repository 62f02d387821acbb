//! Range checks for numbers in settings, for `#[serde(deserialize_with = "…")]`.
//!
//! Users often write zero to turn something off, but the code may interpret zero differently. A
//! setting for which zero makes no sense therefore rejects it, with the line in the error.

use std::fmt::Display;

use serde::de::{Deserialize, Deserializer, Error};

/// Reads a number from `MIN` to `MAX`.
///
/// For example:
///
/// ```text
/// within::<1, 60>    5     ->  5
/// within::<1, 60>    0     ->  error: 0 is out of range; write a number from 1 to 60
/// ```
///
/// # Errors
/// The value is not a number or is out of range.
pub fn within<'de, const MIN: u64, const MAX: u64, N, D>(deserializer: D) -> Result<N, D::Error>
where
    N: Deserialize<'de> + Copy + Display + TryInto<u64>,
    D: Deserializer<'de>,
{
    let number = N::deserialize(deserializer)?;
    check_number_range::<MIN, MAX, N>(number).map_err(D::Error::custom)
}

/// Reads an optional number from `MIN` to `MAX`.
///
/// # Errors
/// Same as [`within`].
pub fn within_if_set<'de, const MIN: u64, const MAX: u64, N, D>(
    deserializer: D,
) -> Result<Option<N>, D::Error>
where
    N: Deserialize<'de> + Copy + Display + TryInto<u64>,
    D: Deserializer<'de>,
{
    let number = Option::<N>::deserialize(deserializer)?;
    let checked = number.map(check_number_range::<MIN, MAX, N>).transpose();
    checked.map_err(D::Error::custom)
}

/// Maximum value of settings that are amounts of US dollars.
const MAX_CONFIGURABLE_DOLLARS: f64 = 1_000_000.0;

/// Reads an amount of US dollars that is more than zero.
///
/// # Errors
/// The value is not a number or is out of range.
pub fn dollars<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let dollars = f64::deserialize(deserializer)?;
    if dollars > 0.0 && dollars <= MAX_CONFIGURABLE_DOLLARS {
        return Ok(dollars);
    }
    let text = format!(
        "{dollars} is out of range; write an amount above 0 and up to {MAX_CONFIGURABLE_DOLLARS}"
    );
    Err(D::Error::custom(text))
}

/// Reads an amount like [`dollars`], for a field that may be absent.
///
/// # Errors
/// The value is not a number or is out of range.
pub fn dollars_if_set<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    dollars(deserializer).map(Some)
}

fn check_number_range<const MIN: u64, const MAX: u64, N>(number: N) -> Result<N, String>
where
    N: Copy + Display + TryInto<u64>,
{
    let as_u64 = number.try_into();
    let is_within = as_u64.is_ok_and(|number| (MIN..=MAX).contains(&number));
    is_within
        .then_some(number)
        .ok_or_else(|| format!("{number} is out of range; write a number from {MIN} to {MAX}"))
}
