//! Network namespaces for one test, removed at its end.
#![allow(dead_code, unreachable_pub)]

#[path = "../privilege/mod.rs"]
mod privilege;

use privilege::may_make_namespaces;
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Some namespaces, of names that no other test and no other process has.
pub struct Lab {
    prefix: String,
    namespaces: Vec<String>,
}

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Lab {
    /// Makes the namespaces, or says that the test is skipped.
    pub fn new(names: &[&str]) -> Option<Lab> {
        if !may_make_namespaces() {
            return None;
        }
        let prefix = format!("fs-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut lab = Lab { prefix, namespaces: Vec::new() };
        for name in names {
            let namespace = lab.name(name);
            ip(&["netns", "add", &namespace]);
            lab.namespaces.push(namespace);
        }
        Some(lab)
    }

    /// The full name of a namespace.
    pub fn name(&self, namespace: &str) -> String {
        format!("{}-{namespace}", self.prefix)
    }

    /// The name of a device there, as the emulator takes it.
    pub fn port(&self, namespace: &str, device: &str) -> String {
        format!("{}:{device}", self.name(namespace))
    }

    /// Joins two namespaces by a veth pair, both ends up, without IPv6 and its chatter.
    pub fn veth(&self, a: (&str, &str), b: (&str, &str)) {
        let (na, nb) = (self.name(a.0), self.name(b.0));
        ip(&["link", "add", a.1, "netns", &na, "type", "veth", "peer", "name", b.1, "netns", &nb]);
        for (namespace, device) in [(&na, a.1), (&nb, b.1)] {
            ip(&["-n", namespace, "link", "set", device, "addrgenmode", "none"]);
            ip(&["-n", namespace, "link", "set", device, "up"]);
        }
        // The kernel reports the carrier a moment later, on a busy machine much later. Until then it sends nothing.
        for (namespace, device) in [(&na, a.1), (&nb, b.1)] {
            let end = Instant::now() + Duration::from_secs(60);
            while !is_running(namespace, device) {
                assert!(Instant::now() < end, "{device} in {namespace} has no carrier");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// `ip -n NAMESPACE ARGS`.
    pub fn ip(&self, namespace: &str, args: &[&str]) {
        ip(&[&["-n", &self.name(namespace)], args].concat());
    }

    /// Runs `job` on a thread inside a namespace.
    pub fn inside<R: Send + 'static>(
        &self,
        namespace: &str,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> std::thread::JoinHandle<R> {
        let path = format!("/run/netns/{}", self.name(namespace));
        std::thread::spawn(move || {
            let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("namespace");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
            job()
        })
    }

    /// Runs `job` inside a namespace and waits for it.
    pub fn run<R: Send + 'static>(&self, namespace: &str, job: impl FnOnce() -> R + Send + 'static) -> R {
        self.inside(namespace, job).join().expect("the job ended well")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

/// Whether a device is up and has a carrier.
fn is_running(namespace: &str, device: &str) -> bool {
    ip(&["-n", namespace, "-o", "link", "show", "dev", device]).contains(" state UP ")
}

/// What `ip ARGS` prints.
fn ip(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output().expect("the `ip` command (package iproute2)");
    assert!(output.status.success(), "ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}
