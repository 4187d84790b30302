//! What of a configuration nobody may read elsewhere, text without it, and files that are too open for it.
//!
//! Every message about a configuration goes through [`veiled`]. What is hidden, with doubt resolved towards hiding:
//!
//! - the value of every setting whose name is that of a secret, or nearly, also where it goes on in the next lines;
//! - a key in groups;
//! - of what stands in the file, every run of eight characters of base64 and more that is not made of words and numbers;
//! - what is as long as a key, wherever it comes from.

use crate::folders;
use serde::Deserialize;
use serde::de::Deserializer;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use zeroize::Zeroizing;

/// What stands in a message where something is hidden.
const HIDDEN: &str = "[hidden]";
/// Names of settings that hold secrets, without what separates words.
const NAMES: [&str; 2] = ["privatekey", "presharedkey"];
/// In names that are no other setting's.
const PARTS: [&str; 5] = ["key", "psk", "secret", "password", "passphrase"];
/// How many letters may be wrong in a name.
const SLIPS: usize = 3;
/// The setting of an address whose path may be a secret, and how many letters may be wrong in that: `web_hosts` is none.
const HOOK: (&str, usize) = ("webhook", 2);
/// No more characters in a row of a secret's value are ever shown.
const SHOWN: usize = 5;
/// Runs that are shorter are shown.
const RUN: usize = 8;
/// Characters of a key of 32 bytes in base64, without what fills it up.
const KEY: usize = 43;
/// Stands for a key or a password that is not needed and that nobody has.
pub(super) const NO_KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// Who may read a file with a key in it, or put another in its place, beside its owner; and what would be right.
pub(super) fn exposure(file: &Path) -> Option<String> {
    let mode = |path: &Path| std::fs::metadata(path).map(|found| found.permissions().mode()).unwrap_or(0);
    let (own, around) = (mode(file) & 0o7777, mode(folders::of(file)) & 0o7777);
    if own & 0o077 != 0 {
        return Some(format!("others than its owner may use it (mode {own:04o}): `chmod 600` it"));
    }
    // Where the sticky bit is set, others may not replace it.
    let replaced = around & 0o022 != 0 && around & 0o1000 == 0;
    replaced.then(|| format!("others may replace it in its folder (mode {around:04o}): `chmod go-w` that"))
}

/// The value of a setting that may be a secret; wiped when dropped.
pub(super) struct Text(Zeroizing<String>);

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer).map(|text| Text(Zeroizing::new(text)))
    }
}

/// `message` about the file that holds `source`, without what is secret.
pub fn veiled(source: &str, message: &str) -> String {
    let text = message.as_bytes();
    let mut hide = vec![false; text.len()];
    for value in hidden_values(source) {
        hide_value(value, text, &mut hide);
    }
    let mut start = 0;
    while start < text.len() {
        let len = text[start..].iter().take_while(|c| in_run(**c)).count();
        let run = &text[start..start + len];
        let from_file = || run.windows(RUN).any(|part| contains(source.as_bytes(), part));
        if len >= RUN && !is_plain(run) && (len >= KEY || from_file()) {
            hide[start..start + len].fill(true);
        }
        start += len.max(1);
    }
    let mut shown = String::with_capacity(message.len());
    for (place, char) in message.char_indices() {
        if !hide[place] {
            shown.push(char);
        } else if place == 0 || !hide[place - 1] {
            shown.push_str(HIDDEN);
        }
    }
    shown
}

/// A line of the file as it may be shown: of a setting that may be a secret the name alone.
pub(super) fn excerpt(line: &str) -> &str {
    let line = line.trim();
    let hook = || names(line).find(|(name, _)| strsim::levenshtein(&plain_name(name), HOOK.0) <= HOOK.1);
    secret_value(line).or_else(hook).map_or(line, |(_, value)| &line[..line.len() - value.len()])
}

/// The first line, from 0, with a key where no setting for keys is.
pub(super) fn misplaced_key(source: &str) -> Option<usize> {
    let holds_key = |line: &str| {
        let code = before_comment(line);
        let keys = ["private_key", "preshared_key", "public_key", "proxy_password", "web_password"];
        !names(code).any(|(name, _)| keys.contains(&name)) && code.split(['"', '\'']).any(is_or_holds_key)
    };
    source.lines().position(holds_key)
}

/// Whether a secret is written in the file itself.
pub(super) fn has_key(source: &str) -> bool {
    let own = |line: &str| {
        names(line).any(|(name, value)| match name {
            "private_key" | "preshared_key" | "proxy_password" | "web_password" => true,
            _ => name == HOOK.0 && has_secret_path(before_comment(value)),
        })
    };
    source.lines().any(|line| !line.trim_start().starts_with('#') && own(line))
}

/// Whether the path of an address looks like a secret, and not like words: who knows `/hooks/T0aZ9xQ41kWb` may call there.
fn has_secret_path(address: &str) -> bool {
    let path = address.split_once("//").and_then(|(_, rest)| rest.split_once(['/', '?'])).map_or("", |(_, path)| path);
    path.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word.len() >= RUN && !is_plain(word.as_bytes()))
}

/// The value of a setting, where it is or ends in a key of 32 bytes.
fn is_or_holds_key(value: &str) -> bool {
    let is_base64 = |text: &[u8]| text.iter().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/'));
    let bytes = value.trim().as_bytes();
    let padded = bytes.windows(KEY + 1).any(|part| part[KEY] == b'=' && is_base64(&part[..KEY]));
    padded
        || (bytes.len() == KEY && is_base64(bytes) && !is_plain(bytes))
        || (bytes.len() == 64 && bytes.iter().all(u8::is_ascii_hexdigit))
}

/// What stands in `source` for secrets, by the names of settings and by looks.
fn hidden_values(source: &str) -> Vec<&str> {
    let mut values = Vec::new();
    let mut goes_on = false;
    for line in source.lines().map(str::trim) {
        if let Some((name, value)) = secret_value(line) {
            let value = before_comment(value);
            let is_path =
                name.ends_with("file") && value.split(|c| !in_run(c as u8)).all(|run| is_plain(run.as_bytes()));
            values.extend((!is_path).then_some(value));
            goes_on = !is_path;
        } else if goes_on && !begins_setting(line) {
            values.push(line);
        } else {
            goes_on = false;
            let value = line.split_once('=').map_or(line, |(_, value)| value);
            let value = before_comment(value);
            if !line.starts_with("public_key") && is_key_in_groups(value) {
                values.push(value);
            }
        }
    }
    values
}

/// A line, or the end of one, without its comment. A `#` between quotes begins none.
fn before_comment(text: &str) -> &str {
    let mut quote = None;
    let begins = |c: char| {
        match quote {
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && c == '#'
    };
    text.find(begins).map_or(text, |end| &text[..end])
}

/// The name of a setting that may be a secret, and what follows it.
fn secret_value(line: &str) -> Option<(&str, &str)> {
    names(line).find(|(name, _)| is_secret_name(name))
}

/// Every name in a line, or what looks like one, with what follows it.
fn names(line: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        let start = rest.find(|c: char| c.is_ascii_alphanumeric())?;
        let from = &rest[start..];
        let end = from.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')).unwrap_or(from.len());
        rest = &from[end..];
        Some((&from[..end], rest))
    })
}

/// Without what separates words.
fn plain_name(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase()
}

fn is_secret_name(name: &str) -> bool {
    let name = plain_name(name);
    let name = name.strip_suffix("file").unwrap_or(&name);
    let parted = PARTS.iter().any(|part| name.contains(part));
    name != "publickey" && (parted || NAMES.iter().any(|secret| strsim::levenshtein(name, secret) <= SLIPS))
}

/// Whether a line is a table's head, a comment, or a setting of a plain name.
fn begins_setting(line: &str) -> bool {
    let name = line.split('=').next().unwrap_or_default().trim_end();
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '.' | '-');
    let head = line.starts_with('[') && line.trim_end().ends_with(']') && !line.contains(['"', '\'', '=']);
    head || line.starts_with('#') || (line.contains('=') && !name.is_empty() && name.chars().all(is_name))
}

fn is_key_in_groups(value: &str) -> bool {
    let apart = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | '[' | ']' | ':' | '-');
    let joined: Vec<u8> = value.chars().filter(|c| !apart(*c)).map(|c| u8::try_from(c).unwrap_or(b'?')).collect();
    matches!(joined.len(), KEY | 44 | 64) && joined.iter().all(|c| in_run(*c)) && !is_plain(&joined)
}

/// Hides what `text` has in common with a value: more than [`SHOWN`] characters in a row, and each part of it as a whole.
fn hide_value(value: &str, text: &[u8], hide: &mut [bool]) {
    let value = value.trim_matches([' ', '=', ':', '"', '\'']).as_bytes();
    for part in value.split(|c| c.is_ascii_whitespace() || b"\"'=,[]{}:".contains(c)).filter(|part| part.len() > 2) {
        for start in 0..text.len() {
            if text[start..].starts_with(part) {
                hide[start..start + part.len()].fill(true);
            }
        }
    }
    for (start, part) in text.windows(SHOWN + 1).enumerate() {
        if contains(value, part) {
            hide[start..start + part.len()].fill(true);
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// What base64 is written with, in both alphabets; hexadecimal is among it.
fn in_run(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'=' | b'-' | b'_')
}

/// Made of words and numbers: `xmit_hash_policy=layer3+4`, `/etc/fairspan/site`, `100Mbit`.
fn is_plain(run: &[u8]) -> bool {
    run.split(|c| !c.is_ascii_alphanumeric()).all(|word| {
        let mut rest = word;
        let mut skip = |of: fn(&u8) -> bool| {
            let len = rest.iter().take_while(|c| of(c)).count();
            rest = &rest[len..];
            len
        };
        skip(u8::is_ascii_digit);
        let capitals = skip(u8::is_ascii_uppercase);
        if capitals < 2 {
            skip(u8::is_ascii_lowercase);
        }
        skip(u8::is_ascii_digit);
        rest.is_empty()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "yK3nW8vQ1zT5bR7mX2cF9hJ4dL6pS0aG+uE/iOkNwZ0=";

    /// Eight characters in a row of `secret` are in `text`.
    fn leaks(secret: &str, text: &str) -> bool {
        secret.as_bytes().windows(8).any(|part| contains(text.as_bytes(), part))
    }

    #[test]
    fn a_secret_is_hidden_whatever_its_setting_is_called_and_wherever_it_stands() {
        for line in [
            format!("private_key = {SECRET}"),
            format!("privat_kee = \"{SECRET}\""),
            format!("interface.private_key: {SECRET}"),
            format!("interface = {{ name = \"fs0\", psk = '{SECRET}' }}"),
            format!("private_key = \"\"\"\n{SECRET}\n\"\"\""),
            format!("private_key = [\n\"{}\",\n\"{}\"]", &SECRET[..20], &SECRET[20..]),
            format!("name = \"{SECRET}\""),
            format!("mtu = \"{}\"", &SECRET[..30]),
            format!("mtu = \"{}\"", &SECRET[3..14]),
            format!("name = {SECRET}{SECRET}"),
            SECRET.to_owned(),
            format!("{SECRET} = 5"),
        ] {
            let message =
                format!("unknown field `{line}`, in `{}`; {}", &line[..line.len() / 2], line.replace(' ', ""));
            let shown = veiled(&line, &message);
            assert!(!leaks(SECRET, &shown), "{line}: {shown}");
            assert!(shown.contains(HIDDEN) && shown.starts_with("unknown field `"), "{shown}");
        }
    }

    #[test]
    fn short_and_wordy_secrets_are_hidden_by_their_settings_name() {
        for (line, secret) in [
            ("psk = \"hunter2\"", "hunter2"),
            ("proxy_password = \"hunter2\"", "hunter2"),
            ("preshared_key = correct-horse # of 2024", "correct-horse"),
            ("preshared_key = \"hunter#2gather\" # of 2024", "hunter#2gather"),
            ("preshared_key = \"\"\"\n\nhunter\"\"\"", "hunter"),
        ] {
            let shown = veiled(line, &format!("invalid value: {secret}, expected a key"));
            assert_eq!(shown, "invalid value: [hidden], expected a key");
        }
        let groups: Vec<&str> = SECRET.as_bytes().chunks(4).map(|g| std::str::from_utf8(g).unwrap()).collect();
        let line = format!("name = \"{}\"", groups.join(" "));
        let shown = veiled(&line, &format!("wrong: {line}"));
        assert!(groups.iter().all(|group| !shown.contains(group.trim_end_matches('='))), "{shown}");
    }

    #[test]
    fn what_is_no_secret_stays() {
        let source = "private_key_file = \"/etc/fairspan/site.key\"\nname = \"Site-A-Gateway1\"\nallowed_ips = [\"2001:db8::/32\", \"10.77.0.2/24\"]\n\
                      control_socket = \"/run/fairspan/site7.sock\"\npolicy = \"balance-xor:xmit_hash_policy=layer3+4\"";
        for message in [source, "a key is 44 characters of base64 (as `fairspan keygen` and `wg genkey` print it)"] {
            assert_eq!(veiled(source, message), message);
        }
        assert_eq!(excerpt("  rate = 100"), "rate = 100");
        assert_eq!(excerpt("  private_key_file = secret.key"), "private_key_file");
        assert_eq!(excerpt("web_hosts = [\"hub.example.net\"]"), "web_hosts = [\"hub.example.net\"]");
        for name in ["webhook", "web_hook", "webhok"] {
            assert_eq!(excerpt(&format!("{name} = \"http://192.0.2.5/horse")), name);
        }
    }

    #[test]
    fn a_secret_in_the_file_is_one_by_its_setting_and_in_a_webhooks_path_by_its_looks() {
        for (line, wanted) in [
            ("private_key = \"x\"", true),
            ("web_password = \"two words\"", true),
            ("# private_key = \"x\"", false),
            ("private_key_file = \"site.key\"", false),
            ("webhook = \"http://192.0.2.5:8080/hooks/T0aZ9xQ41kWb\"", true),
            ("webhook = \"http://192.0.2.5/?token=9fQ2mR7xB1\"", true),
            ("webhook = \"http://192.0.2.5:8080/alarms/fairspan2\"", false),
            ("webhook = \"http://[2001:db8::5]:8080/\"", false),
            ("webhook = \"http://192.0.2.5/a\" # as T0aZ9xQ41kWb in http://x/T0aZ9xQ41kWb", false),
            ("web = \"http://192.0.2.5/T0aZ9xQ41kWb\"", false),
        ] {
            assert_eq!(has_key(line), wanted, "{line}");
        }
    }

    #[test]
    fn a_key_is_misplaced_in_a_setting_of_another_kind_alone() {
        for line in [format!("name = \"{SECRET}\""), format!("private_key_file = \"/etc/{SECRET}\""), "a0".repeat(32)] {
            assert_eq!(misplaced_key(&format!("[interface]\n{line}")), Some(1), "{line}");
        }
        for line in [
            format!("private_key = \"{SECRET}\""),
            format!("public_key = '{SECRET}'"),
            format!("proxy_password = \"{SECRET}\""),
            format!("mtu = 1400 # {SECRET}"),
            "record = \"/var/lib/fairspan/recordings/of/the/site/x\"".into(),
        ] {
            assert_eq!(misplaced_key(&line), None, "{line}");
        }
    }
}
