//! Numbers and names as people read them.

/// A number with four significant digits at most, without exponent for what people read.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value.is_finite() { "0".to_owned() } else { "-".to_owned() };
    }
    let magnitude = value.abs().log10().floor();
    if !(-6.0..15.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let digits = (3.0 - magnitude).clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The name of `names` that is spelt most like `wanted`.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> &'a str {
    names.min_by_key(|name| strsim::levenshtein(wanted, name)).unwrap_or("")
}

/// Text for HTML and SVG.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_shown_and_no_empty_decimals() {
        let shown: Vec<String> =
            [0.0, 0.123_456, 12.0, 18.345_6, 622.0, 1_927_345.0, -0.05, 4e-9, f64::NAN].map(short).into();
        assert_eq!(shown, ["0", "0.1235", "12", "18.35", "622", "1927345", "-0.05", "4.000e-9", "-"]);
    }

    #[test]
    fn the_nearest_name_is_the_one_spelt_alike() {
        assert_eq!(
            nearest("striping.fig5", ["striping.fifo", "striping.fig15", "rings.x"].into_iter()),
            "striping.fig15"
        );
    }
}
