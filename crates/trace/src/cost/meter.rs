//! The clock, the counter and the heap by which costs are measured, and what a quantity of each packet is told as.

/// What measures.
pub trait Meter {
    /// Nanoseconds since some moment.
    fn now(&mut self) -> u64;
    /// Nanoseconds for which a processor was ours, since some moment.
    fn processor(&mut self) -> u64;
    /// Instructions since some moment; `None`: the machine does not count them.
    fn instructions(&mut self) -> Option<u64>;
    /// Bytes of the heap that are held, and the most that were since this was asked last. Only differences mean anything.
    fn heap(&mut self) -> (i64, i64);
}

/// A quantity of each packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// On average.
    pub mean: f64,
    /// What half of them do not exceed.
    pub median: f64,
    /// What 99 of 100 do not exceed.
    pub p99: f64,
    /// The largest.
    pub worst: f64,
}

impl Spread {
    /// Of `values`, which it orders; `less` is taken off each.
    pub(super) fn of(mean: f64, values: &mut [u32], less: f64) -> Spread {
        let mut percentile = |share: f64| {
            let place = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
            if values.is_empty() { 0.0 } else { (f64::from(*values.select_nth_unstable(place).1) - less).max(0.0) }
        };
        Spread { mean, median: percentile(0.5), p99: percentile(0.99), worst: percentile(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_there() {
        let mut values: Vec<u32> = (1..=200).rev().collect();
        let spread = Spread::of(0.0, &mut values, 1.0);
        assert_eq!((spread.median, spread.p99, spread.worst), (99.0, 197.0, 199.0));
        assert_eq!(Spread::of(0.0, &mut [], 1.0).worst, 0.0);
    }
}
