//! Where each setting of a configuration stands, for what is found out about it when it has been read.

use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The settings of a file by their paths, such as `peer.0.channel.1.device`.
pub(super) struct Places<'a>(Option<Spanned<DeTable<'a>>>);

impl<'a> Places<'a> {
    pub(super) fn new(text: &'a str) -> Places<'a> {
        Places(DeTable::parse(text).ok())
    }

    /// Where the setting stands, or what is around it where it has its default.
    pub(super) fn of(&self, path: &str) -> Range<usize> {
        let mut steps = path.split('.');
        let first = self.0.as_ref().zip(steps.next()).and_then(|(root, step)| root.get_ref().get(step));
        let Some(mut at) = first else { return 0..0 };
        for step in steps {
            let next = match (at.get_ref(), step.parse::<usize>()) {
                (DeValue::Array(list), Ok(number)) => list.get(number),
                (DeValue::Table(table), _) => table.get(step),
                _ => None,
            };
            let Some(next) = next else { break };
            at = next;
        }
        at.span()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_found_where_it_stands_and_its_default_where_it_could_stand() {
        let text = "# a file\n[interface]\nname = \"fs0\"\n[[peer]]\nname = \"a\"\n[[peer]]\nname = \"b\"\nallowed_ips = [\n  \"10.0.0.1/32\",\n  \
                    \"10.0.0.2/32\",\n]\n[[peer.channel]]\ndevice = \"eth0\"\n";
        let places = Places::new(text);
        let line = |path: &str| text[..places.of(path).start].matches('\n').count() + 1;
        for (path, stands) in [
            ("interface.name", 3),
            ("interface.state_dir", 2),
            ("peer.1.name", 7),
            ("peer.1.allowed_ips.1", 10),
            ("peer.1.channel.0.device", 13),
            ("peer.1.channel.0.source", 12),
            ("peer.7.name", 4),
            ("ring.east", 1),
        ] {
            assert_eq!(line(path), stands, "{path}");
        }
        assert_eq!(Places::new("a = ").of("a"), 0..0);
    }
}
