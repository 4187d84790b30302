//! A named network namespace, compatible with `ip netns`.

use super::run;
use anyhow::{Context, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;

/// Where `ip netns` keeps its names.
const DIRECTORY: &str = "/run/netns";

/// A namespace called `fs-<pid>-<role>`; dropped, it is deleted with every interface in it.
#[derive(Debug)]
pub(crate) struct Namespace {
    name: String,
    file: File,
}

impl Namespace {
    /// Makes the namespace, with its loopback interface up.
    pub(crate) fn new(role: &str) -> Result<Namespace> {
        let name = format!("fs-{}-{role}", std::process::id());
        run("ip", &["netns", "add", &name])?;
        let path = Path::new(DIRECTORY).join(&name);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => {
                let _ = run("ip", &["netns", "del", &name]);
                return Err(error).with_context(|| format!("cannot open namespace {}", path.display()));
            }
        };
        let namespace = Namespace { name, file };
        namespace.ip(&["link", "set", "lo", "up"])?;
        Ok(namespace)
    }

    /// The name that `ip netns` shows.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` with `args` in the namespace.
    pub(crate) fn ip(&self, args: &[&str]) -> Result<String> {
        let mut all = vec!["-n", &self.name];
        all.extend_from_slice(args);
        run("ip", &all)
    }

    /// Runs `work` on a thread inside the namespace and returns what it returns.
    ///
    /// A socket stays in the namespace it was made in: make it here and use it from any thread.
    pub(crate) fn enter<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(self.file.as_fd(), Some(LinkNameSpaceType::Network))
                    .with_context(|| format!("cannot enter namespace {}", self.name))?;
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Deletes what killed runs left: namespaces of ours whose maker is gone, and the processes in them.
    pub(crate) fn remove_stale() {
        let Ok(entries) = fs::read_dir(DIRECTORY) else { return };
        for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
            let Some(maker) = maker(&name) else { continue };
            if Path::new("/proc").join(maker.to_string()).exists() {
                continue;
            }
            for pid in run("ip", &["netns", "pids", &name]).unwrap_or_default().split_whitespace() {
                let _ = Command::new("kill").args(["-KILL", pid]).status();
            }
            let _ = run("ip", &["netns", "del", &name]);
        }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if let Err(error) = run("ip", &["netns", "del", &self.name]) {
            eprintln!("fairspan: cannot remove namespace {}: {error:#}", self.name);
        }
    }
}

/// The process that made the namespace called `name`, if the name is one of ours.
fn maker(name: &str) -> Option<u32> {
    let (pid, role) = name.strip_prefix("fs-")?.split_once('-')?;
    (!role.is_empty()).then(|| pid.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_ours_have_a_maker() {
        assert_eq!(maker("fs-812-a"), Some(812));
        for foreign in ["fs-812", "fs-812-", "fs--a", "fs-x-a", "site-a", "", "fs-99999999999-a"] {
            assert_eq!(maker(foreign), None, "{foreign}");
        }
    }
}
