//! The test-bed: network namespaces, the cables between them and the processes in them, all gone again at the end.
//!
//! `demo`, `bench tunnel` and the namespace tests build their networks from these parts. Everything made here is owned
//! by a value whose `Drop` takes it away, so an error, a panic and a Ctrl-C (see [`Interrupt`]) leave nothing behind.
//! What a `kill -9` leaves is removed by the next run: names carry the process number of their maker.
//!
//! The kernel is driven through `ip` (iproute2) and `ethtool`; a test-bed that a person can repeat by hand with the
//! same commands is worth more than a fast one.

pub(crate) mod emulator;
mod interrupt;
mod namespace;
pub(crate) mod paths;
mod privilege;
mod process;
pub(crate) mod relay;
pub(crate) mod tunnel;
mod veth;

pub(crate) use interrupt::{Interrupt, Interrupted};
pub(crate) use namespace::Namespace;
pub(crate) use privilege::{enter_user_namespace_if_needed, require};
pub(crate) use process::Process;
pub(crate) use veth::{End, cable, offloads_off};

use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Runs `program` with `args`; its error output becomes the error.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String> {
    let output =
        Command::new(program).args(args).stdin(Stdio::null()).output().with_context(|| {
            format!("cannot run `{program}`: is it installed? (`make setup` installs what is missing)")
        })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{program} {}` failed: {}", args.join(" "), said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Where `make rivals` puts what it builds (scripts/rivals.sh).
pub(crate) fn rivals_folder() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share/fairspan/rivals/bin"))
}

/// A command that is also looked for among the rivals that `make rivals` installed, and where Debian keeps
/// administrators' programs, which users do not have on their path.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", search_path());
    command
}

/// Whether `program` is found on the search path.
pub(crate) fn installed(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|directory| directory.join(program).is_file())
}

fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(rivals) = rivals_folder() {
        path.push(":");
        path.push(rivals);
    }
    path.push(":/usr/local/sbin:/usr/sbin:/sbin");
    path
}

#[cfg(test)]
mod tests {
    //! On real kernels: in namespaces of their own, skipped without root.

    use super::*;
    use crate::measure::flood::Flood;
    use crate::measure::reads::Reads;
    use crate::measure::reorder::Watch;
    use crate::measure::tcp::{Transfer, Transport, has_mptcp};
    use crate::measure::{interface, ping::Ping};
    use fairspan_core::units::{Rate, Span};
    use fairspan_live::emulate::{Forwarder, Limit, PortName, Profile};
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// What was refused, found out once: tests run at the same time.
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();

    /// Root with all its rights, or a visible note that the test did nothing.
    macro_rules! needs_root {
        () => {
            if let Some(refused) = REFUSED.get_or_init(refused) {
                println!("skipped: needs root{refused}");
                return;
            }
        };
    }

    fn refused() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some(String::new());
        }
        require("this test", &[]).err().map(|error| format!(" with all its rights: {error:#}"))
    }

    const FAR: Ipv4Addr = Ipv4Addr::new(10, 98, 0, 2);

    fn bed(role: &str) -> (Namespace, Namespace) {
        let near = Namespace::new(&format!("{role}-n")).unwrap();
        let far = Namespace::new(&format!("{role}-f")).unwrap();
        cable(
            End { namespace: &near, device: "wire0", address: Some("10.98.0.1/24") },
            End { namespace: &far, device: "wire0", address: Some("10.98.0.2/24") },
        )
        .unwrap();
        (near, far)
    }

    fn namespaces() -> String {
        run("ip", &["netns", "list"]).unwrap()
    }

    #[test]
    fn a_transfer_counts_what_the_receiver_read_and_crossed_the_cable() {
        needs_root!();
        let (near, far) = bed("tcp");
        let interrupt = Interrupt::install().unwrap();
        for (port, transport) in [(5001, Transport::Tcp), (5002, Transport::Mptcp)] {
            if transport == Transport::Mptcp && !has_mptcp(&near) {
                println!("skipped: this kernel has no MPTCP");
                continue;
            }
            // A busy machine reads nothing in so short a time.
            let (goodput, _, crossed) = (1..=20)
                .map(|tenths| {
                    let before = interface::received(&far, &["wire0"]).unwrap()[0];
                    let watch = Watch::start(&far, port).unwrap();
                    let transfer = Transfer {
                        from: &near,
                        to: &far,
                        source: None,
                        target: SocketAddr::new(FAR.into(), port),
                        transport,
                        congestion: "cubic",
                        warm_up: Duration::from_millis(100) * tenths,
                        duration: Duration::from_millis(400),
                        download: None,
                    };
                    let goodput = transfer.run(&interrupt, |_| ()).unwrap();
                    let seen = watch.stop();
                    (goodput, seen, interface::received(&far, &["wire0"]).unwrap()[0] - before)
                })
                .find(|(goodput, seen, _)| goodput.bytes > 0 && goodput.bytes < goodput.total && seen.units > 0)
                .expect("something is read before the time that counts, and in it, and seen");
            assert!(goodput.elapsed >= Duration::from_millis(400));
            // What the application read crossed the cable, with at least 40 bytes of header a packet.
            assert!(crossed > goodput.total, "{crossed} bytes crossed, {goodput:?}");
        }
    }

    #[test]
    fn over_an_emulated_link_goodput_and_round_trip_are_its_own_and_the_watch_sees_every_byte() {
        needs_root!();
        let (near, far) = (Namespace::new("emu-n").unwrap(), Namespace::new("emu-f").unwrap());
        let middle = Namespace::new("emu-m").unwrap();
        for (namespace, address, port) in [(&near, "10.98.0.1/24", "left"), (&far, "10.98.0.2/24", "right")] {
            let end = End { namespace, device: "wire0", address: Some(address) };
            cable(end, End { namespace: &middle, device: port, address: None }).unwrap();
            offloads_off(namespace, "wire0").unwrap();
        }
        let mut profile = Profile::new(Rate::from_mbit(20), Span::from_millis(5));
        profile.queue = Limit::Bytes(100_000);
        let profiles = [profile.clone(), profile];
        let line = emulator::Line { name: "line", ends: ["left", "right"], profiles };
        let _emulator = emulator::start(&middle, [line]).unwrap();
        let interrupt = Interrupt::install().unwrap();
        let trips = Ping::new(&near, FAR).unwrap().series(&interrupt, 5, Duration::from_millis(10)).unwrap();
        let trip = crate::measure::median(&trips).unwrap();
        // Never sooner than twice the delay; how much later, depends on the machine.
        assert!(trip >= 10_000.0, "{trips:?} us");

        let watch = Watch::start(&far, 5001).unwrap();
        let transfer = Transfer {
            from: &near,
            to: &far,
            source: None,
            target: SocketAddr::new(FAR.into(), 5001),
            transport: Transport::Tcp,
            congestion: "cubic",
            warm_up: Duration::from_millis(500),
            duration: Duration::from_millis(1500),
            download: None,
        };
        let began = Instant::now();
        let goodput = transfer.run(&interrupt, |_| ()).unwrap();
        let took = began.elapsed();
        let seen = watch.stop();
        // No more than the link carries in the time, whatever the machine does; how much less, depends on it.
        let most = 20e6 / 8.0 * took.as_secs_f64();
        assert!(goodput.bytes > 0 && goodput.total as f64 <= most, "{goodput:?} in {took:?}");
        assert_eq!(seen.reordered, 0, "{seen:?}");
        assert!(seen.bytes >= goodput.total, "{seen:?} {goodput:?}");
    }

    #[test]
    fn an_echo_comes_back_and_a_missing_host_is_no_error() {
        needs_root!();
        let (near, _far) = bed("ping");
        let mut ping = Ping::new(&near, FAR).unwrap();
        // On a busy machine the first may take longer: it waits for the far kernel's address.
        assert!((0..10).any(|_| ping.once(Duration::from_secs(1)).unwrap().is_some()));
        let mut nobody = Ping::new(&near, Ipv4Addr::new(10, 98, 0, 77)).unwrap();
        assert_eq!(nobody.once(Duration::from_millis(100)).unwrap(), None);
        let mut no_route = Ping::new(&near, Ipv4Addr::new(192, 0, 2, 1)).unwrap();
        assert_eq!(no_route.once(Duration::from_millis(100)).unwrap(), None);
    }

    #[test]
    fn a_panic_leaves_no_namespace_behind() {
        needs_root!();
        let name = format!("fs-{}-panic", std::process::id());
        let caught = std::panic::catch_unwind(|| {
            let _namespace = Namespace::new("panic").unwrap();
            assert!(namespaces().contains("-panic"));
            panic!("on purpose");
        });
        assert!(caught.is_err());
        assert!(!namespaces().contains(&name), "{}", namespaces());
    }

    #[test]
    fn what_a_killed_run_left_is_removed_and_what_runs_is_kept() {
        needs_root!();
        let mut gone = Command::new("true").spawn().unwrap();
        let dead = gone.id();
        gone.wait().unwrap();
        let stale = format!("fs-{dead}-stale");
        run("ip", &["netns", "add", &stale]).unwrap();
        let mut left_over = Command::new("ip").args(["netns", "exec", &stale, "sleep", "300"]).spawn().unwrap();
        let alive = Namespace::new("alive").unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        // Others that clean up may be faster.
        let begins = || run("ip", &["netns", "pids", &stale]).is_ok_and(|pids| pids.trim().is_empty());
        while begins() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        Namespace::remove_stale();
        assert!(!namespaces().contains(&stale));
        assert!(namespaces().contains(alive.name()));
        assert!(!left_over.wait().unwrap().success());
    }

    /// Runs `work` over a forwarder that stands still for a second and a half, from before the end of what is sent on.
    fn over_a_way_that_stands_still<T: Send>(
        role: &str,
        work: impl Fn(&Namespace, &Namespace, &Interrupt) -> T + Sync,
    ) -> T {
        let [left, right, middle] = ["l", "r", "m"].map(|end| Namespace::new(&format!("{role}-{end}")).unwrap());
        let ports = [(&left, "left"), (&right, "right")].map(|(namespace, port)| {
            let end = End { namespace, device: "wire0", address: None };
            cable(end, End { namespace: &middle, device: port, address: None }).unwrap();
            PortName { namespace: Some(middle.name().to_owned()), device: port.to_owned() }
        });
        let mut forwarder = Forwarder::open(&ports[0], &ports[1]).unwrap();
        let interrupt = Interrupt::install().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let forwarding = scope.spawn(|| {
                forwarder.run(&stop).unwrap();
                std::thread::sleep(Duration::from_millis(1500));
                stop.store(false, Ordering::Relaxed);
                forwarder.run(&stop).unwrap();
            });
            let working = scope.spawn(|| work(&left, &right, &interrupt));
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::Relaxed);
            let found = working.join().unwrap();
            while !forwarding.is_finished() {
                stop.store(true, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(10));
            }
            found
        })
    }

    /// Whether `lost` gives 0 once in three tries: a machine that has no time for the kernel's own queues loses frames.
    fn loses_none(lost: impl Fn(usize) -> u64) -> bool {
        (0..3).any(|attempt| lost(attempt) == 0)
    }

    #[test]
    fn frames_that_stand_still_while_a_flood_ends_are_late_and_not_lost() {
        needs_root!();
        let lost = |attempt: usize| {
            let found = over_a_way_that_stands_still(&format!("fl{attempt}"), |left, right, interrupt| {
                let (warm_up, duration) = (Duration::from_millis(50), Duration::from_millis(350));
                let flood = Flood { left, right, device: "wire0", cores: [0, 0], warm_up, duration };
                flood.run(1, interrupt, || Ok([0.0, 0.0])).unwrap()
            });
            assert!(found.sent > 0 && found.twice + found.out_of_order + found.damaged == 0, "{found:?}");
            found.sent - found.received
        };
        assert!(loses_none(lost));
    }

    #[test]
    fn frames_that_stand_still_while_reads_end_are_late_and_not_lost() {
        needs_root!();
        let lost = |attempt: usize| {
            let found = over_a_way_that_stands_still(&format!("rd{attempt}"), |left, right, interrupt| {
                let (warm_up, duration) = (Duration::from_millis(50), Duration::from_millis(350));
                let reads = Reads { left, right, device: "wire0", tags: 16, parts: 2, warm_up, duration };
                reads.run(1, interrupt).unwrap()
            });
            assert!(found.outward.sent > 0);
            [found.outward, found.inward].map(|way| way.sent - way.received).iter().sum()
        };
        assert!(loses_none(lost));
    }

    #[test]
    fn a_child_that_ignores_the_request_to_end_is_killed() {
        needs_root!();
        let namespace = Namespace::new("child").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' TERM; echo ready; while :; do sleep 1; done"]);
        let mut child = Process::start(&namespace, "stubborn", command, &directory.path().join("log")).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while child.log() != "ready\n" && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        child.check().unwrap();
        assert_eq!(child.stop(), None);
        assert!(child.check().unwrap_err().to_string().contains("stubborn ended early"));
    }
}
