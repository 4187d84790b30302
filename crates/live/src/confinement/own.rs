//! The folders in which a daemon writes.

use crate::config::{CONTROL_FOLDER, Interface};
use crate::folders;
use std::path::Path;

/// A folder in which a daemon writes as long as it runs.
pub(super) struct Folder<'a> {
    pub(super) path: &'a Path,
    /// Who may use it once it is made.
    pub(super) mode: u32,
    /// The setting that names it.
    pub(super) setting: &'static str,
    /// It is for daemons alone.
    pub(super) is_default: bool,
}

/// The folders of a daemon; with nothing encrypted there is nothing to keep.
pub(super) fn folders_of(interface: &Interface) -> Vec<Folder<'_>> {
    let control = folders::of(&interface.control_socket);
    let control = Folder {
        path: control,
        mode: 0o755,
        setting: "control_socket",
        is_default: control == Path::new(CONTROL_FOLDER),
    };
    let state = interface.state_dir.as_path();
    let state = Folder { path: state, mode: 0o700, setting: "state_dir", is_default: state == folders::state() };
    let state = interface.private_key.is_some().then_some(state);
    std::iter::once(control).chain(state).collect()
}
