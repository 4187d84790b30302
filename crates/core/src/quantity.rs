//! Quantities as people write them in configurations and on command lines: `100Mbit`, `25ms`, `64kB`.
//!
//! Powers of ten throughout: Mbit = 10^6 bits, kB = 1000 bytes. A number without a unit is refused, except zero.

use crate::units::{Bytes, Rate, Span};
use alloc::format;
use alloc::string::String;
use thiserror::Error;

/// Why a text is not a quantity.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// The text does not start with a number that is finite and not negative.
    #[error("`{text}` does not start with a number; write for example `{example}`")]
    NoNumber {
        /// What was given.
        text: String,
        /// What would be right.
        example: &'static str,
    },
    /// The number is below zero.
    #[error("`{text}` is negative; write for example `{example}`")]
    Negative {
        /// What was given.
        text: String,
        /// What would be right.
        example: &'static str,
    },
    /// The number does not fit.
    #[error("`{text}` is too large; write for example `{example}`")]
    TooLarge {
        /// What was given.
        text: String,
        /// What would be right.
        example: &'static str,
    },
    /// The unit is missing or unknown.
    #[error("`{text}` has no known unit (known: {known}); write for example `{example}`")]
    Unit {
        /// What was given.
        text: String,
        /// The units that are understood.
        known: &'static str,
        /// What would be right.
        example: &'static str,
    },
}

/// A rate such as `100Mbit`, `1.5Gbit`, `640kbit`, `9600bit` (per second; `/s` may follow).
pub fn parse_rate(text: &str) -> Result<Rate, QuantityError> {
    const UNITS: &[(&str, f64)] = &[("bit", 1.0), ("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)];
    let trimmed = text.trim();
    let trimmed = trimmed.strip_suffix("/s").unwrap_or(trimmed);
    scaled(trimmed, UNITS, "bit, kbit, Mbit, Gbit", "100Mbit").map(Rate::from_bits_per_sec)
}

/// A length of time such as `25ms`, `1.5s`, `300us`, `2min`.
pub fn parse_span(text: &str) -> Result<Span, QuantityError> {
    const UNITS: &[(&str, f64)] = &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)];
    scaled(text, UNITS, "ns, us, ms, s, min, h", "25ms").map(Span::from_nanos)
}

/// A number of bytes such as `64kB`, `2MB`, `1500B`.
pub fn parse_bytes(text: &str) -> Result<Bytes, QuantityError> {
    const UNITS: &[(&str, f64)] = &[("b", 1.0), ("kb", 1e3), ("mb", 1e6), ("gb", 1e9)];
    scaled(text, UNITS, "B, kB, MB, GB", "2MB").map(Bytes::new)
}

/// A length of time so that [`parse_span`] reads the same one: in the largest unit that divides it.
pub fn show_span(span: Span) -> String {
    let ns = span.as_nanos();
    let units = [("h", 3_600_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];
    match units.iter().find(|(_, unit)| ns.is_multiple_of(*unit)) {
        Some(_) if ns == 0 => "0ms".into(),
        Some((name, unit)) => format!("{}{name}", ns / unit),
        None => format!("{ns}ns"),
    }
}

/// A rate so that [`parse_rate`] reads the same one: in the largest unit that divides it.
pub fn exact_rate(rate: Rate) -> String {
    let bits = rate.as_bits_per_sec();
    let units = [("Gbit", 1_000_000_000), ("Mbit", 1_000_000), ("kbit", 1_000)];
    match units.iter().find(|(_, unit)| bits > 0 && bits.is_multiple_of(*unit)) {
        Some((name, unit)) => format!("{}{name}", bits / unit),
        None => format!("{bits}bit"),
    }
}

/// A rate for people: `100 Mbit/s`.
pub fn show_rate(rate: Rate) -> String {
    let bits = rate.as_bits_per_sec() as f64;
    let (value, unit) = match bits {
        b if b >= 1e9 => (b / 1e9, "Gbit/s"),
        b if b >= 1e6 => (b / 1e6, "Mbit/s"),
        b if b >= 1e3 => (b / 1e3, "kbit/s"),
        b => (b, "bit/s"),
    };
    format!("{} {unit}", libm::round(value * 1000.0) / 1000.0)
}

/// A length of time in picoseconds, such as `0.4ns`: for costs that are paid once a byte.
pub fn parse_picoseconds(text: &str) -> Result<u64, QuantityError> {
    const UNITS: &[(&str, f64)] = &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
    scaled(text, UNITS, "ps, ns, us, ms, s", "0.4ns")
}

/// Splits `1.5 Mbit` into the number's text and the unit.
pub fn split(text: &str) -> (&str, &str) {
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    (number, unit.trim())
}

fn scaled(text: &str, units: &[(&str, f64)], known: &'static str, example: &'static str) -> Result<u64, QuantityError> {
    if text.trim().starts_with('-') {
        return Err(QuantityError::Negative { text: text.into(), example });
    }
    let (number, unit) = split(text);
    let value: f64 = number.parse().map_err(|_| QuantityError::NoNumber { text: text.into(), example })?;
    if unit.is_empty() && value == 0.0 {
        return Ok(0);
    }
    let factor = units
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit))
        .map(|(_, factor)| *factor)
        .ok_or_else(|| QuantityError::Unit { text: text.into(), known, example })?;
    let scaled = value * factor;
    if scaled >= u64::MAX as f64 {
        return Err(QuantityError::TooLarge { text: text.into(), example });
    }
    Ok(libm::round(scaled) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn units_are_powers_of_ten_in_any_case() {
        assert_eq!(parse_rate("100Mbit"), Ok(Rate::from_mbit(100)));
        assert_eq!(parse_rate("1.5 gbit/s"), Ok(Rate::from_mbit(1500)));
        assert_eq!(parse_span("25ms"), Ok(Span::from_millis(25)));
        assert_eq!(parse_span("0"), Ok(Span::ZERO));
        assert_eq!(parse_bytes("2MB"), Ok(Bytes::new(2_000_000)));
    }

    #[test]
    fn a_missing_or_unknown_unit_is_refused_with_an_example() {
        for text in ["100", "100 furlongs", "10KiB"] {
            let error = parse_rate(text).unwrap_err();
            assert!(matches!(error, QuantityError::Unit { .. }), "{text}: {error}");
            assert!(error.to_string().contains("100Mbit"));
        }
        for text in ["", "ms", "1.2.3ms", "nan"] {
            assert!(matches!(parse_span(text), Err(QuantityError::NoNumber { .. })), "{text}");
        }
        assert!(matches!(parse_span("-5ms"), Err(QuantityError::Negative { .. })));
        assert!(matches!(parse_rate("99999999999999999999Gbit"), Err(QuantityError::TooLarge { .. })));
        assert!(matches!(parse_span("600000000000s"), Err(QuantityError::TooLarge { .. })));
        assert_eq!(parse_picoseconds("0.4ns"), Ok(400));
    }

    #[test]
    fn rates_are_shown_with_the_largest_unit_that_fits() {
        assert_eq!(show_rate(Rate::from_mbit(100)), "100 Mbit/s");
        assert_eq!(show_rate(Rate::from_bits_per_sec(1_500_000_000)), "1.5 Gbit/s");
        assert_eq!(show_rate(Rate::from_bits_per_sec(9600)), "9.6 kbit/s");
    }
}
