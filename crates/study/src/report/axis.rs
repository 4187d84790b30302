//! What stands along an axis: a quantity, and the unit in which it is drawn. And which lines are drawn where there are too many.

use super::text::{scale, steps};

/// An axis's label, and what values are divided by.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scaled {
    pub(super) factor: f64,
    pub(super) label: String,
}

/// The axis of values of up to `most` in `unit`: `told` is what the file calls it, `quantity` what it is else. A unit that the
/// file names is the one that is drawn; no unit stands there twice.
pub(super) fn scaled(told: &str, quantity: &str, unit: &str, most: f64) -> Scaled {
    let last = told.rsplit(|c: char| c.is_whitespace() || "([,".contains(c)).find(|word| !word.is_empty());
    let last = last.unwrap_or_default().trim_end_matches([')', ']']);
    let named = steps(unit).iter().find(|(_, name)| *name == last);
    // The bare unit of the results says no more than the unit that suits the values.
    if let Some((factor, _)) = named.filter(|_| told != unit) {
        return Scaled { factor: *factor, label: told.to_owned() };
    }
    let (factor, drawn) = scale(unit, most);
    let label = match (told, quantity) {
        ("", quantity) => quantity,
        (told, _) if told == unit => "",
        (told, _) => told,
    };
    let label = match (label.is_empty(), drawn.is_empty()) {
        (_, true) => label.to_owned(),
        (true, false) => drawn.to_owned(),
        (false, false) => format!("{label} ({drawn})"),
    };
    Scaled { factor, label }
}

/// What metrics or series measure, where all measure the same: the last part of their names.
pub(super) fn quantity<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let last = |text: &'a str| {
        let plain = !text.contains(' ') || !text.contains(['(', '*', '/', '+', '-']);
        if plain { text.rsplit('.').next().unwrap_or(text) } else { "" }
    };
    let mut found: Vec<&str> = texts.map(last).collect();
    found.dedup();
    match found[..] {
        [one] => one.trim_end_matches(')').to_owned(),
        _ => String::new(),
    }
}

/// Places of `most` of the values, in their order: the least, the greatest, and evenly by rank between them.
pub(super) fn spread_out(values: &[f64], most: usize) -> Vec<usize> {
    let mut ranked: Vec<usize> = (0..values.len()).collect();
    ranked.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    if values.len() > most {
        let last = most.saturating_sub(1).max(1);
        ranked = (0..most).map(|n| ranked[n * (values.len() - 1) / last]).collect();
    }
    ranked.sort_unstable();
    ranked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_the_label_names_is_drawn_and_none_stands_there_twice() {
        let of = |told, unit, most| scaled(told, "goodput", unit, most);
        let is = |label: &str, factor| Scaled { factor, label: label.to_owned() };
        assert_eq!(of("Throughput (Mbit/s)", "bit/s", 5e4), is("Throughput (Mbit/s)", 1e6));
        assert_eq!(of("Throughput, kbit/s", "bit/s", 5e9), is("Throughput, kbit/s", 1e3));
        assert_eq!(of("Mbit/s", "bit/s", 5e4), is("Mbit/s", 1e6));
        assert_eq!(of("bit/s", "bit/s", 5e6), is("Mbit/s", 1e6));
        assert_eq!(of("rate", "bit/s", 5e6), is("rate (Mbit/s)", 1e6));
        assert_eq!(of("the flow's", "s", 0.5), is("the flow's (ms)", 1e-3));
        assert_eq!(of("", "bit/s", 5e6), is("goodput (Mbit/s)", 1e6));
        assert_eq!(scaled("", "", "bytes", 1e4), is("kB", 1e3));
        assert_eq!(scaled("Jain's index", "jain", "", 1.0), is("Jain's index", 1.0));
    }

    #[test]
    fn a_quantity_is_what_all_lines_have_in_common() {
        assert_eq!(quantity(["flow.a.goodput", "flow.b.goodput", "goodput"].into_iter()), "goodput");
        assert_eq!(quantity(["flow.a.goodput", "flow.a.throughput"].into_iter()), "");
        assert_eq!(quantity(["sum(flow.tcp*.throughput)"].into_iter()), "throughput");
        assert_eq!(quantity(["link.a.packets / link.b.packets"].into_iter()), "");
    }

    #[test]
    fn of_many_lines_the_extremes_and_those_between_are_chosen_whatever_their_order() {
        let values: Vec<f64> = (0..100).map(|n| f64::from((n * 37) % 100)).collect();
        let chosen = spread_out(&values, 8);
        let mut found: Vec<f64> = chosen.iter().map(|&place| values[place]).collect();
        assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
        found.sort_by(f64::total_cmp);
        assert_eq!(found, [0.0, 14.0, 28.0, 42.0, 56.0, 70.0, 84.0, 99.0]);
        assert_eq!(spread_out(&[5.0, 1.0], 8), [0, 1]);
        assert_eq!(spread_out(&[], 8), Vec::<usize>::new());
    }
}
