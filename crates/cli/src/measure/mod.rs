//! What is measured, and how: bulk TCP, reads and floods of Ethernet frames, idle round trips, reordering (RFC 4737), processor
//! time, whole processes.

pub(crate) mod call;
pub(crate) mod cpu;
pub(crate) mod datagrams;
pub(crate) mod exchange;
pub(crate) mod flood;
pub(crate) mod frames;
pub(crate) mod interface;
pub(crate) mod load;
pub(crate) mod memory;
pub(crate) mod ping;
pub(crate) mod process;
pub(crate) mod reads;
pub(crate) mod reorder;
pub(crate) mod sequence;
pub(crate) mod tcp;

/// The median of `values`; of an even number, the mean of the two in the middle. `None` of none.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => sorted.get(middle).copied(),
        _ => Some((sorted.get(middle - 1)? + sorted.get(middle)?) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn the_median_is_the_middle_value() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
