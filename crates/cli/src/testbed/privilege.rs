//! Who may build a test-bed: root, or anyone the kernel lets have a user namespace.

use super::run;
use crate::exit::NoPrivilege;
use anyhow::{Result, bail};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Set in the re-executed process, so that a user namespace which turns out useless is not entered for ever.
const ENTERED: &str = "FAIRSPAN_USER_NAMESPACE";

/// Returns at once for root. Otherwise re-executes this program as root of a new user namespace with a network and a
/// mount namespace of its own (so the host's network is neither seen nor touched), or says what stands in the way.
///
/// Must run before the first thread starts and before anything is printed: the program begins again.
pub(crate) fn enter_user_namespace_if_needed(what: &str) -> Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let refused = |why: String| {
        NoPrivilege(format!(
            "`{what}` needs root: it makes network namespaces, virtual links and TUN interfaces. An unprivileged user \
             namespace was tried instead, but {why}. Run it as root (`sudo`)."
        ))
    };
    if std::env::var_os(ENTERED).is_some() {
        return Err(refused("it gave no root rights".into()).into());
    }
    // `/run` becomes an empty file system of the namespace's own, for `ip netns` and for sockets.
    let flags = ["--user", "--map-root-user", "--net", "--mount", "--"];
    let probe = Command::new("unshare")
        .args(flags)
        .args(["sh", "-c", "mount -t tmpfs tmpfs /run && ip link set lo up && test -w /dev/net/tun"])
        .stdin(Stdio::null())
        .output();
    match probe {
        Err(error) => return Err(refused(format!("`unshare` (util-linux) cannot be run: {error}")).into()),
        Ok(output) if !output.status.success() => {
            let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
            return Err(refused(if said.is_empty() {
                "this user may not write to /dev/net/tun (`chmod 666 /dev/net/tun` would allow it)".into()
            } else {
                format!(
                    "the kernel refused it ({said}; see the sysctls user.max_user_namespaces, \
                     kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns)"
                )
            })
            .into());
        }
        Ok(_) => {}
    }
    let program = std::env::current_exe()?;
    let error = Command::new("unshare")
        .args(flags)
        .args(["sh", "-c", "mount -t tmpfs tmpfs /run && exec \"$0\" \"$@\""])
        .arg(program)
        .args(std::env::args_os().skip(1))
        .env(ENTERED, "1")
        .exec();
    Err(refused(format!("`unshare` cannot be run: {error}")).into())
}

/// How often this process has looked: tests do so at the same time.
static LOOKS: AtomicU32 = AtomicU32::new(0);

/// Checks that the tools are there and that namespaces can be made, before anything is built.
pub(crate) fn require(what: &str, tools: &[(&str, &str)]) -> Result<()> {
    for (tool, package) in tools {
        if !super::installed(tool) {
            bail!("`{what}` needs `{tool}` (Debian package {package}): `make setup` installs it");
        }
    }
    let probe = format!("fs-{}-probe{}", std::process::id(), LOOKS.fetch_add(1, Ordering::Relaxed));
    if let Err(error) = run("ip", &["netns", "add", &probe]) {
        return Err(NoPrivilege(format!(
            "`{what}` cannot make a network namespace here (CAP_SYS_ADMIN and CAP_NET_ADMIN are needed): {error:#}"
        ))
        .into());
    }
    run("ip", &["netns", "del", &probe])?;
    if !std::path::Path::new("/dev/net/tun").exists() {
        return Err(NoPrivilege(format!(
            "`{what}` needs /dev/net/tun, which this machine (or container) does not offer"
        ))
        .into());
    }
    Ok(())
}
