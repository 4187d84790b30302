//! The user that a daemon runs as, and the capabilities that stay with it.

use super::held::{ConfinementError, Held, Holds};
use super::own::{Folder, folders_of};
use crate::config::Config;
use crate::{folders, user};
use rustix::fs::{Access, Mode, OFlags, access, fchown, fstat, open};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Uid, geteuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use std::io;

/// Links, addresses, routes, rules, marks, devices; and packet sockets.
const KEPT: CapabilitySet = CapabilitySet::NET_ADMIN.union(CapabilitySet::NET_RAW);
/// Ports below this one need a capability.
const PRIVILEGED_PORTS: u16 = 1024;

/// Becomes the user of the configuration, and gives up all capabilities but those that a daemon uses as long as it runs.
pub(super) fn reduce(config: &Config) -> Result<(Held, Held), ConfinementError> {
    let interface = &config.interface;
    let user = match &interface.user {
        Some(name) => Some((name, user::find(name).ok_or_else(|| ConfinementError::NoUser(name.clone()))?)),
        None => None,
    };
    if let Some((_, (uid, gid))) = user {
        for folder in folders_of(interface) {
            give(&folder, uid, gid)
                .map_err(|source| ConfinementError::Folder { path: folder.path.to_owned(), source })?;
        }
    }
    let addresses = [interface.metrics, interface.web, config.gateway.as_ref().and_then(|gateway| gateway.proxy)];
    let listens = addresses.map(|address| address.map(|address| address.port()));
    let ports = listens.into_iter().chain([interface.listen_port, interface.listen_tcp_port]);
    let privileged = ports.flatten().any(|port| (1..PRIVILEGED_PORTS).contains(&port));
    // Callers, in whose names a gateway calls, may have such ports.
    let calls = config.splits() && config.gateway.as_ref().is_none_or(|gateway| gateway.transparent);
    // The socket of a port may be opened again while the daemon runs.
    let kept = if privileged || calls { KEPT | CapabilitySet::NET_BIND_SERVICE } else { KEPT };
    // No program that is run gains anything; this one runs none.
    set_no_new_privs(true).map_err(|error| refused(error.into()))?;
    let bounded = if interface.confine.capabilities { bound(kept) } else { Ok(()) };
    if let Some((name, (uid, gid))) = user {
        become_user(uid, gid).map_err(|errno| ConfinementError::User { user: name.clone(), source: errno.into() })?;
        for Folder { path, setting, .. } in folders_of(interface) {
            access(path, Access::WRITE_OK | Access::EXEC_OK).map_err(|errno| ConfinementError::NotTheirs {
                user: name.clone(),
                setting,
                path: path.to_owned(),
                reason: errno.into(),
            })?;
        }
    }
    let user = match user {
        Some((name, (uid, _))) => Held::new(Holds::On, format!("{name} ({uid})")),
        None if geteuid().is_root() => Held::new(Holds::Off, "root; interface.user names another"),
        None => Held::new(Holds::On, format!("{}", geteuid().as_raw())),
    };
    let before = capabilities(None).map_err(|error| refused(error.into()))?.permitted;
    let held = if interface.confine.capabilities { before & kept } else { before };
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: held, permitted: held, inheritable })
        .map_err(|error| refused(error.into()))?;
    if !interface.confine.capabilities {
        return Ok((user, Held::unwanted()));
    }
    // Older kernels have none.
    let _ = clear_ambient_capability_set();
    Ok((user, told(held, bounded)))
}

/// What stays, as status tells it.
fn told(held: CapabilitySet, bounded: Result<(), Errno>) -> Held {
    let names: Vec<String> = held.iter_names().map(|(name, _)| format!("CAP_{name}")).collect();
    let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    match bounded {
        Ok(()) => Held::new(Holds::On, names),
        Err(_) => Held::new(Holds::Partial, format!("{names}; the bounding set stays, as CAP_SETPCAP is missing")),
    }
}

/// Takes all but `kept` out of the bounding set.
fn bound(kept: CapabilitySet) -> Result<(), Errno> {
    for one in (0..64).map(|number| CapabilitySet::from_bits_retain(1 << number)) {
        match capability_is_in_bounding_set(one) {
            Ok(true) if !kept.contains(one) => remove_capability_from_bounding_set(one)?,
            Ok(_) => {}
            // The kernel knows no more.
            Err(_) => break,
        }
    }
    Ok(())
}

/// Becomes a user, keeps the capabilities, and stays a process that nobody looks into.
fn become_user(uid: u32, gid: u32) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    set_keep_capabilities(true)?;
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    set_thread_res_uid(uid, uid, uid)?;
    // With the user the kernel changes this too, to what `fs.suid_dumpable` says.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// Makes a folder where there is none. Gives it to the user if it was made here, or is for daemons alone and root's; but
/// nothing that a link leads to.
fn give(folder: &Folder<'_>, uid: u32, gid: u32) -> io::Result<()> {
    let is_new = folders::make(folder.path, folder.mode)?;
    if !is_new && !folder.is_default {
        return Ok(());
    }
    let opened = match open(folder.path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(()),
        opened => opened?,
    };
    if fstat(&opened)?.st_uid == geteuid().as_raw() {
        fchown(&opened, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))?;
    }
    Ok(())
}

fn refused(error: io::Error) -> ConfinementError {
    ConfinementError::Refused { what: "capabilities", problem: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_given_away_if_it_was_made_here_or_is_for_daemons_alone_and_no_link() {
        use std::os::unix::fs::MetadataExt as _;
        if !geteuid().is_root() {
            println!("skipped: only root gives folders away");
            return;
        }
        let around = tempfile::tempdir().expect("a folder");
        let place = |name: &str| around.path().join(name);
        let owner = |name: &str| std::fs::metadata(place(name)).expect("there").uid();
        for name in ["theirs", "default", "behind"] {
            std::fs::create_dir(place(name)).expect("made");
        }
        std::os::unix::fs::symlink(place("behind"), place("link")).expect("a link");
        let user = 65_534;
        for (name, is_default) in [("theirs", false), ("default", true), ("link", true), ("new", false)] {
            let path = place(name);
            give(&Folder { path: &path, mode: 0o700, setting: "state_dir", is_default }, user, user).expect(name);
        }
        let owners = ["theirs", "default", "behind", "new"].map(owner);
        assert_eq!(owners, [0, user, 0, user]);
    }
}
