//! A share of one, exact in millionths.

use alloc::format;
use core::fmt;

/// A share of one, in millionths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share(u32);

impl Share {
    /// All.
    pub const ONE: Share = Share(1_000_000);

    /// `n` millionths.
    pub const fn from_millionths(n: u32) -> Share {
        Share(n)
    }

    /// In millionths.
    pub const fn millionths(self) -> u32 {
        self.0
    }

    /// As a number.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 1e6
    }

    /// From a decimal number of at most six places.
    pub fn parse(text: &str) -> Option<Share> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        if part.len() > 6 || !part.bytes().all(|byte| byte.is_ascii_digit()) || whole.starts_with('+') {
            return None;
        }
        let part: u32 = format!("{part:0<6}").parse().ok()?;
        whole.parse::<u32>().ok()?.checked_mul(1_000_000)?.checked_add(part).map(Share)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let digits = format!("{part:06}");
        match digits.trim_end_matches('0') {
            "" => write!(f, "{whole}"),
            digits => write!(f, "{whole}.{digits}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn shares_are_decimal_numbers_of_six_places() {
        for (text, millionths) in [("0", 0), ("1", 1_000_000), ("0.0003", 300), ("0.95", 950_000), ("0.000001", 1)] {
            let share = Share::parse(text).unwrap();
            assert_eq!((share.millionths(), share.to_string()), (millionths, text.to_string()));
        }
        for text in ["", ".", "-1", "+1", "0.0000001", "1e-3", "0.+1", "99999", "nan"] {
            assert_eq!(Share::parse(text), None, "{text}");
        }
    }
}
