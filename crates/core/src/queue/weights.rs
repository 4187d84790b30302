//! Weights of classes, as a setting.

use super::discipline::MOST_WEIGHT;
use crate::options::{Field, OptionError, Value};
use alloc::string::ToString;
use core::fmt;
use core::str::FromStr;

/// How many classes there are; the last is the most urgent.
pub const CLASSES: usize = 8;

/// The weight of each class, 1 to [`MOST_WEIGHT`]. As text: those of classes 0 to 7 with strokes between, such as
/// `1-1-1-1-2-4-1-1`. By default 1 each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weights([u16; CLASSES]);

impl Weights {
    /// The same for all.
    pub const EQUAL: Weights = Weights([1; CLASSES]);

    /// These; `None`: one is out of range.
    pub fn new(weights: [u16; CLASSES]) -> Option<Weights> {
        weights.iter().all(|weight| (1..=MOST_WEIGHT).contains(&u32::from(*weight))).then_some(Weights(weights))
    }

    /// That of `class`; 1 where there is none such.
    #[inline]
    pub fn of(&self, class: u32) -> u32 {
        self.0.get(class as usize).map_or(1, |weight| u32::from(*weight))
    }
}

impl fmt::Display for Weights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (class, weight) in self.0.iter().enumerate() {
            let stroke = if class > 0 { "-" } else { "" };
            write!(f, "{stroke}{weight}")?;
        }
        Ok(())
    }
}

impl FromStr for Weights {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Weights, OptionError> {
        let wrong = || {
            OptionError::Value {
            option: "weights",
            value: text.into(),
            expected: "write eight whole numbers from 1 to 1024 with strokes between, such as `1-1-1-1-2-4-1-1`: those of classes 0 to 7".into(),
        }
        };
        let mut parts = text.split('-');
        let mut weights = [0; CLASSES];
        for weight in &mut weights {
            let part = parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
            *weight = part.and_then(|part| part.parse().ok()).ok_or_else(wrong)?;
        }
        Weights::new(weights).filter(|_| parts.next().is_none()).ok_or_else(wrong)
    }
}

impl Field for Weights {
    fn value(&self) -> Value {
        Value::Text(self.to_string())
    }

    fn take(&mut self, value: Value) {
        if let Value::Text(text) = value
            && let Ok(weights) = text.parse()
        {
            *self = weights;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_written_as_they_are_read_and_what_is_none_is_refused() {
        let text = "1-2-3-4-5-6-7-1024";
        let weights: Weights = text.parse().unwrap();
        assert_eq!((weights.to_string().as_str(), weights.of(7), weights.of(0), weights.of(8)), (text, 1024, 1, 1));
        for wrong in
            ["", "1", "1-1-1-1-1-1-1", "1-1-1-1-1-1-1-1-1", "0-1-1-1-1-1-1-1", "1-1-1-1-1-1-1-1025", "1-1-1-1-1-1-1-+1"]
        {
            assert!(wrong.parse::<Weights>().is_err(), "{wrong}");
        }
    }
}
