//! What the parser of TOML finds wrong, in words that say what would be right.

use super::{ConfigError, Reader, secret};
use std::ops::Range;

/// What belongs where a value is of another kind: as the parser calls it, and as people write it.
const KINDS: [(&str, &str); 6] = [
    ("a string", "text between quotation marks, as in `\"eth1\"`"),
    ("a sequence", "a list between square brackets, as in `[\"10.77.0.2/24\"]`"),
    ("a boolean", "`true` or `false`, without quotation marks"),
    ("u8", "a whole number of at most 255, without quotation marks"),
    ("u16", "a whole number of at most 65535, without quotation marks"),
    ("u32", "a whole number of at most 4294967295, without quotation marks"),
];

impl Reader<'_> {
    /// What keeps the file from being read as settings.
    pub(super) fn ungrammatical(&self, error: &toml::de::Error) -> ConfigError {
        if let Some(error) = self.of_wireguard().or_else(|| self.wrong_brackets()) {
            return error;
        }
        if error.message() == "missing field `interface`" {
            let problem = "there is no [interface]: begin with the line `[interface]`, and write its settings below it, such \
                           as `name = \"fs0\"`";
            return self.error(0..0, "", problem);
        }
        let problem = in_words(error.message()) + &self.snippet(error.span());
        self.error(error.span().unwrap_or(0..0), "", problem)
    }

    /// The first head of a section as WireGuard's own files have it.
    fn of_wireguard(&self) -> Option<ConfigError> {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let right = match line.split('#').next().unwrap_or_default().trim() {
                "[Interface]" => "[interface]",
                "[Peer]" => "[[peer]]",
                _ => {
                    start += line.len();
                    continue;
                }
            };
            let problem = format!(
                "this is how WireGuard's own files are written: here the section is `{right}`, and settings are written \
                 as in `listen_port = 51900` and `allowed_ips = [\"10.77.0.2/32\"]`; keys can stay as they are, between \
                 quotation marks"
            );
            return Some(self.error(start..start, "", problem));
        }
        None
    }

    fn snippet(&self, span: Option<Range<usize>>) -> String {
        let line = span.and_then(|s| {
            let start = self.text.get(..s.start)?.rfind('\n').map_or(0, |n| n + 1);
            self.text.get(start..)?.lines().next()
        });
        line.map(|l| format!(" (in `{}`)", secret::excerpt(l))).unwrap_or_default()
    }
}

/// The parser's message; of a value of the wrong kind with the right one.
fn in_words(message: &str) -> String {
    let of_kind = message.starts_with("invalid type: ") || message.starts_with("invalid value: ");
    let right =
        of_kind.then(|| KINDS.iter().find_map(|(kind, right)| Some((message.strip_suffix(kind)?, right)))).flatten();
    match right.and_then(|(found, right)| Some((found.strip_suffix(", expected ")?, right))) {
        Some((found, right)) => format!("{found}: write {right}"),
        None => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use std::path::Path;

    /// Each row: a file, the line that the error names, and what it says is right.
    #[test]
    fn a_value_of_the_wrong_kind_and_a_file_of_another_program_are_told_what_would_be_right() {
        let wireguard = "[Interface]\nPrivateKey = yAnz5TF+lXXJte14tji3zlMNq+hd2rYUIgJBgB3fBmk=\n[Peer]\n";
        let rows = [
            ("", 1, "begin with the line `[interface]`"),
            ("# only a comment\n[[peer]]\n", 1, "such as `name = \"fs0\"`"),
            (
                "[interface]\nname = 5\n",
                2,
                "integer `5`: write text between quotation marks, as in `\"eth1\"` (in `name = 5`)",
            ),
            ("[interface]\naddress = \"10.77.0.2/24\"\n", 2, "write a list between square brackets"),
            (
                "[interface]\nlisten_port = \"51900\"\n",
                2,
                "string \"51900\": write a whole number of at most 65535, without",
            ),
            (
                "[interface]\nlisten_port = 70000\n",
                2,
                "integer `70000`: write a whole number of at most 65535, without",
            ),
            ("[interface]\nfwmark = \"1\"\n", 2, "write a whole number of at most 4294967295"),
            ("[interface]\nlock = \"yes\"\n", 2, "string \"yes\": write `true` or `false`, without quotation marks"),
            (wireguard, 1, "here the section is `[interface]`"),
            ("# a file\n[interface]\nname = \"fs0\"\n[Peer] # the hub\n", 4, "here the section is `[[peer]]`"),
        ];
        for (text, line, right) in rows {
            let error = Config::parse(Path::new("fs0.toml"), text).expect_err(text);
            assert_eq!(error.line, line, "{text}: {error}");
            assert!(error.problem.contains(right), "{text}: {error}");
            assert!(!error.problem.contains("[hidden]"), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_without_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("fs0.toml");
        let error = Config::load(&missing).expect_err("it is not there");
        assert_eq!(error.line, 0);
        assert!(
            error.to_string().starts_with(&format!("{}: cannot be read: No such file", missing.display())),
            "{error}"
        );
        std::fs::write(&missing, b"\xff\xfe").unwrap();
        let error = Config::load(&missing).expect_err("it is no text").to_string();
        assert_eq!(error, format!("{}: cannot be read: it is not text in UTF-8", missing.display()));
    }

    #[test]
    fn what_a_key_is_is_said_once() {
        let text = "[interface]\nname = \"fs0\"\nprivate_key = \"abc\"\n[[peer]]\n";
        let error = Config::parse(Path::new("fs0.toml"), text).expect_err("it is no key").to_string();
        assert_eq!(error.matches("44 characters").count(), 1, "{error}");
    }
}
