//! Who has joined by an invitation: kept between the runs of a hub, so that a used invitation stays used.
//!
//! There is a small file for each private key, beside the others in `state_dir`. It is written before a site is told that it has joined, on
//! the daemon's own thread: that is once for each invitation, and only for a site that has shown its secret.
//!
//! | line | meaning |
//! |---|---|
//! | `fairspan joined 1` | what the file is |
//! | `joined NUMBER KEY SECONDS` | the invitation of this number was used by the site with this key, at that time since 1970 |

use crate::config::{Config, Interface};
use crate::secure::PublicKey;
use crate::state_file;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

const TITLE: &str = "fairspan joined 1";

/// Who has joined, by the invitation's number: the site's key, and when.
type Known = BTreeMap<String, (PublicKey, u64)>;

/// Who has joined.
#[derive(Debug, Default)]
pub(crate) struct Joined {
    /// `None` where nothing can be kept: there is no key, or what is there cannot be read.
    file: Option<PathBuf>,
    known: Known,
}

impl Joined {
    /// Finds who has joined a hub with the key of this interface. Where what was kept cannot be read, nobody joins: else what was used
    /// could be used again.
    pub(crate) fn open(interface: &Interface) -> Joined {
        let Some(key) = &interface.private_key else { return Joined::default() };
        let name: String = key.public_key().as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let file = interface.state_dir.join(format!("{name}.joined"));
        match read(&file) {
            Ok(known) => Joined { file: Some(file), known },
            Err(error) => {
                tracing::warn!(file = %file.display(), %error, "who has joined by an invitation is lost: nobody joins until this is mended");
                Joined::default()
            }
        }
    }

    /// Gives the invited peers of a configuration the keys by which they have joined.
    pub(crate) fn resolve(&self, config: &mut Config) {
        for place in 0..config.peers.len() {
            let Some(invited) = &config.peers[place].invited else { continue };
            let key = self.known.get(&invited.derived.number()).map(|(key, _)| *key);
            if let Some(other) = config.peers.iter().find(|other| key.is_some() && other.public_key == key) {
                let name = &config.peers[place].name;
                tracing::warn!(peer = name, "the key by which it joined is that of peer {}, which has it", other.name);
                continue;
            }
            config.peers[place].public_key = key;
        }
    }

    /// Whether what was kept could not be read, so that nobody knows who has joined.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.file.is_none()
    }

    /// Keeps that a site has joined.
    ///
    /// # Errors
    /// What the system says; then it has not.
    pub(crate) fn keep(&mut self, number: &str, key: PublicKey, clock: u64) -> io::Result<()> {
        let file = self.file.as_ref().ok_or_else(|| state_file::foreign("what was kept there cannot be read"))?;
        // Another daemon with this key may have heard of others.
        let mut known = read(file)?;
        if known.get(number).is_some_and(|(other, _)| *other != key) {
            return Err(state_file::foreign("another daemon with this key has let another site join by it"));
        }
        known.insert(number.to_owned(), (key, clock));
        let line = |(number, (key, clock)): (&String, &(PublicKey, u64))| format!("joined {number} {key} {clock}\n");
        let text: String = std::iter::once(format!("{TITLE}\n")).chain(known.iter().map(line)).collect();
        state_file::replace(file, &text)?;
        self.known = known;
        Ok(())
    }
}

fn read(file: &Path) -> io::Result<Known> {
    let Some(text) = state_file::read(file)? else { return Ok(Known::new()) };
    parse(&text).ok_or_else(|| state_file::foreign("this is no list of who has joined"))
}

fn parse(text: &str) -> Option<Known> {
    let mut lines = text.strip_suffix('\n')?.lines();
    if lines.next()? != TITLE {
        return None;
    }
    let entry = |line: &str| {
        let mut parts = line.strip_prefix("joined ")?.splitn(3, ' ');
        Some((parts.next()?.to_owned(), (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?)))
    };
    lines.map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secure::PrivateKey;

    fn key(byte: u8) -> PublicKey {
        PrivateKey::from_bytes([byte; 32]).public_key()
    }

    fn joined(file: &Path) -> Joined {
        Joined { file: Some(file.to_owned()), known: read(file).expect("readable") }
    }

    #[test]
    fn who_has_joined_is_known_to_the_next_process_and_to_a_second_one_with_the_key() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kept");
        let (mut first, mut second) = (joined(&file), joined(&file));
        first.keep("aa", key(1), 5).expect("kept");
        second.keep("bb", key(2), 6).expect("kept");
        assert_eq!(joined(&file).known, [("aa".to_owned(), (key(1), 5)), ("bb".to_owned(), (key(2), 6))].into());
        // What another process has given away is not given twice.
        assert!(second.keep("aa", key(3), 7).is_err());
        first.keep("aa", key(1), 8).expect("the same again");
        assert_eq!(read(&file).expect("readable")["aa"].0, key(1));
    }

    #[test]
    fn where_what_was_kept_cannot_be_read_nobody_joins() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("kept");
        let mut before = joined(&file);
        before.keep("aa", key(1), 5).expect("kept");
        let text = std::fs::read_to_string(&file).expect("written");
        for cut in 1..text.len() {
            std::fs::write(&file, &text[..cut]).expect("written");
            let whole_line = text[..cut].ends_with('\n') && cut > TITLE.len();
            assert_eq!(read(&file).is_ok(), whole_line, "cut at {cut}");
        }
        std::fs::write(&file, "hello\n").expect("written");
        assert!(before.keep("bb", key(2), 6).is_err());
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), "hello\n");
        let nowhere = folder.path().join("no/such/folder");
        assert!(joined(&nowhere).keep("aa", key(1), 5).is_err());
    }
}
