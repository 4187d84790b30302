//! The folders in which a daemon writes.

use crate::config::{CONTROL_FOLDER, Interface};
use crate::folders;
use rustix::process::geteuid;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// A folder in which a daemon writes as long as it runs.
pub(crate) struct Folder<'a> {
    pub(crate) path: &'a Path,
    /// Who may use it once it is made.
    pub(crate) mode: u32,
    /// The setting that names it.
    pub(crate) setting: &'static str,
    /// It is for daemons alone.
    pub(crate) is_default: bool,
}

impl Folder<'_> {
    /// Whether the daemon gives it to its user although it was there before: it is for daemons alone, still of who starts them, and no
    /// link.
    pub(crate) fn is_given(&self) -> bool {
        let found = std::fs::symlink_metadata(self.path);
        self.is_default && found.is_ok_and(|found| found.is_dir() && found.uid() == geteuid().as_raw())
    }
}

/// The folders of a daemon; with nothing encrypted and no page there is nothing to keep.
pub(crate) fn folders_of(interface: &Interface) -> Vec<Folder<'_>> {
    let control = folders::of(&interface.control_socket);
    let control = Folder {
        path: control,
        mode: 0o755,
        setting: "control_socket",
        is_default: control == Path::new(CONTROL_FOLDER),
    };
    let state = interface.state_dir.as_path();
    let state = Folder { path: state, mode: 0o700, setting: "state_dir", is_default: state == folders::state() };
    let state = (interface.private_key.is_some() || interface.web.is_some()).then_some(state);
    std::iter::once(control).chain(state).collect()
}
