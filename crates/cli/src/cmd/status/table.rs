//! The look of tables and counters.

use comfy_table::{Table, presets};
use fairspan_live::status::Counters;

/// An empty table.
pub(super) fn table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header);
    table
}

/// The counters that are not zero, on as few lines as they need.
pub(super) fn show_counters(title: &str, counters: &Counters) {
    let shown: Vec<String> = counters.iter().filter(|(_, n)| **n > 0).map(|(name, n)| format!("{name} {n}")).collect();
    if !shown.is_empty() {
        println!("{title}: {}", shown.join(", "));
    }
}
