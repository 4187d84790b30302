//! Recordings of former runs: what a new one may replace.

use fairspan_core::record::MAGIC;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What stands in the way of a recording in a new file that replaces an older recording.
pub(crate) fn obstacle(path: &Path) -> Option<&'static str> {
    let found = std::fs::symlink_metadata(path).ok()?;
    if found.is_symlink() {
        return Some("a symbolic link");
    }
    let mut begin = Vec::new();
    let read = |file: File| file.take(MAGIC.len() as u64).read_to_end(&mut begin).is_ok();
    // An empty one is what a daemon leaves that was killed at once.
    let is_older = found.is_file() && File::open(path).is_ok_and(read) && (begin.is_empty() || begin == MAGIC);
    (!is_older).then_some("no recording")
}
