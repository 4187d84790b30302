//! What people write in place of a file of links, and what would be right.

/// What is wrong with `text`, which the parser of TOML refuses by `error`, and its line; `None` where the parser's own words say it.
/// `of_direction` tells whether a direction of a link has a setting of that name.
pub(super) fn in_words(
    text: &str,
    error: &toml::de::Error,
    of_direction: impl Fn(&str) -> bool,
) -> Option<(usize, String)> {
    let heads = [
        (
            "[Interface]",
            "this is how WireGuard's own files begin: here each link is a section `[[link]]` with `a` and `b`",
        ),
        ("[interface]", "this is a daemon's configuration: here each link is a section `[[link]]` with `a` and `b`"),
        ("[link]", "write `[[link]]`, with two brackets on each side: there may be several links"),
    ];
    for (line, head) in text.lines().enumerate() {
        let head = head.split('#').next().unwrap_or_default().trim();
        if let Some((_, right)) = heads.iter().find(|(wrong, _)| *wrong == head) {
            return Some((line + 1, (*right).to_owned()));
        }
    }
    let start = error.span()?.start;
    let line = text.get(..start)?.matches('\n').count() + 1;
    let unknown = error.message().strip_prefix("unknown field `").and_then(|rest| rest.split('`').next());
    let misplaced = unknown.filter(|name| of_direction(name))?;
    let value =
        text.lines().nth(line - 1).and_then(|line| line.split_once('=')).map_or("…", |(_, value)| value.trim());
    let problem = format!(
        "`{misplaced}` belongs to the directions of a link: below its `[[link]]`, write `both = {{ {misplaced} = {value} }}`, or \
         `forward` or `backward` in place of `both`"
    );
    Some((line, problem))
}

#[cfg(test)]
mod tests {
    use super::super::EmulateConfig;

    /// Each row: a file, the line that the error names, and what it says is right.
    #[test]
    fn what_is_written_in_place_of_a_file_of_links_is_told_what_would_be_right() {
        let rows = [
            (
                "# wg0\n[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\n",
                2,
                "WireGuard's own files begin",
            ),
            ("[interface]\nname = \"fs0\"\n[[peer]]\n", 1, "a daemon's configuration"),
            ("[link] # the only one\na = \"va\"\nb = \"vb\"\n", 1, "write `[[link]]`, with two brackets"),
            (
                "[[link]]\na = \"va\"\nb = \"vb\"\ndelay = \"5ms\"\n",
                4,
                "write `both = { delay = \"5ms\" }`, or `forward`",
            ),
            (
                "rate = \"10Mbit\"\n[[link]]\na = \"va\"\nb = \"vb\"\n",
                1,
                "below its `[[link]]`, write `both = { rate = \"10Mbit\" }`",
            ),
            (
                "seed = 7\n\n[[link]]\nduring-outage = \"hold\"\na = \"va\"\nb = \"vb\"\n",
                4,
                "`during-outage` belongs to the",
            ),
        ];
        for (text, line, right) in rows {
            let error = EmulateConfig::parse(text).expect_err(text).to_string();
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(right), "{text}: {error}");
            assert!(!error.contains("yAnz5"), "{error}");
        }
        for (text, said) in [
            ("[[link]]\na = \"va\"\nb = \"vb\"\nspeed = 5\n", "unknown field `speed`"),
            ("[[link]]\na = \"va\"\n", "`b`"),
        ] {
            let error = EmulateConfig::parse(text).expect_err(text).to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
