//! Whether tests may make network namespaces, links and TUN interfaces: being root does not say so, as in a container.
#![allow(dead_code, unreachable_pub)]

use std::process::Command;
use std::sync::OnceLock;

/// Tries it, once in this process; says that the test is skipped, and what was refused, where it may not.
pub fn may_make_namespaces() -> bool {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let refused = REFUSED.get_or_init(refused);
    if let Some(refused) = refused {
        println!("skipped: needs root{refused}");
    }
    refused.is_none()
}

/// Whether a system setting can be written, which a container may forbid; says that the test is skipped where not.
pub fn may_write(setting: &str) -> bool {
    let value = std::fs::read_to_string(setting).unwrap_or_default();
    let writable = std::fs::write(setting, value.trim());
    if let Err(error) = &writable {
        println!("skipped: needs to write {setting} ({error})");
    }
    writable.is_ok()
}

/// What stands in the way, behind "needs root".
fn refused() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some(String::new());
    }
    let name = format!("fs-{}-probe", std::process::id());
    let steps: [&[&str]; 4] = [
        &["netns", "add", &name],
        &["netns", "exec", &name, "true"],
        &["-n", &name, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
        &["-n", &name, "tuntap", "add", "dev", "probe2", "mode", "tun"],
    ];
    let refused = steps.iter().find_map(|step| {
        let output = Command::new("ip").args(*step).output().expect("the `ip` command (package iproute2)");
        let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
        let step = step.join(" ").replace(&name, "NAME");
        (!output.status.success()).then(|| format!(" with all its rights: `ip {step}` was refused ({said})"))
    });
    if refused.as_deref().is_none_or(|refused| !refused.contains("`ip netns add")) {
        let _ = Command::new("ip").args(["netns", "del", &name]).status();
    }
    refused
}
