//! The shell, with a machine that only writes down what is asked of it.

use super::poller::Interest;
use super::*;
use crate::config::Webhook as Hook;
use crate::control::{Request, ask};
use crate::netlink::LinkChange;
use rustix::event::{EventfdFlags, eventfd};
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use zeroize::Zeroizing;

/// What the machine was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asked {
    Readable(&'static str),
    Writable(&'static str),
    Timer(&'static str),
}

/// Descriptors and timers by name; what was asked of it, and how many of those make it stop.
struct Fake {
    order: Order,
    poller: Poller,
    watched: Vec<(&'static str, Token, OwnedFd)>,
    timers: Vec<(Time, TimerName)>,
    asked: Vec<Asked>,
    drained: usize,
    /// How often it was asked what there is to tell.
    reports: Cell<usize>,
    /// As soon as the first descriptor is readable, the last one is closed, and another takes its slot.
    replaces: bool,
    enough: usize,
    stop: OwnedFd,
}

impl Fake {
    fn new(shell: &Shell, order: Order, enough: usize) -> Fake {
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
        let poller = shell.poller().clone();
        let (watched, timers) = (Vec::new(), Vec::new());
        Fake {
            order,
            poller,
            watched,
            timers,
            asked: Vec::new(),
            drained: 0,
            reports: Cell::new(0),
            replaces: false,
            enough,
            stop,
        }
    }

    /// A descriptor that is readable.
    fn watch(&mut self, name: &'static str, turn: Turn) {
        let fd = eventfd(1, EventfdFlags::CLOEXEC).expect("an eventfd");
        self.watched.push((name, self.poller.watch(fd.as_fd(), turn).expect("watched"), fd));
    }

    fn ask(&mut self, asked: Asked) {
        self.asked.push(asked);
        if self.asked.len() >= self.enough {
            rustix::io::write(&self.stop, &1u64.to_ne_bytes()).expect("stopped");
        }
    }

    fn name(&self, token: Token) -> &'static str {
        self.watched.iter().find(|(_, of, _)| *of == token).expect("no token is stale").0
    }

    /// Runs the shell until the machine has been asked enough.
    fn run(mut self, shell: &mut Shell) -> Fake {
        let stop = self.stop.try_clone().expect("a copy");
        shell.run(&mut self, stop.as_fd()).expect("it stops in order");
        self
    }
}

impl Machine for Fake {
    fn order(&self) -> Order {
        self.order
    }

    fn handle_readable(&mut self, _now: Time, token: Token) -> Result<(), DaemonError> {
        let name = self.name(token);
        self.ask(Asked::Readable(name));
        let number = self.watched.iter().position(|(_, of, _)| *of == token).expect("it is watched");
        if self.replaces {
            self.replaces = false;
            let (_, closed, fd) = self.watched.pop().expect("the last one");
            drop(fd);
            self.poller.forget(closed);
            self.watch("new", Turn::Others);
            assert_eq!(self.watched.last().expect("the new one").1.slot(), closed.slot());
        }
        // It has been read.
        rustix::io::read(&self.watched[number].2, &mut [0; 8]).expect("read");
        Ok(())
    }

    fn handle_writable(&mut self, _now: Time, token: Token) {
        let (name, _, fd) = self.watched.iter().find(|(_, of, _)| *of == token).expect("no token is stale");
        self.poller.set_interest(token, fd.as_fd(), Interest::Read).expect("changed");
        self.ask(Asked::Writable(name));
    }

    fn handle_link_change(&mut self, _now: Time, _change: LinkChange) -> Result<(), DaemonError> {
        Ok(())
    }

    fn handle_timeout(&mut self, now: Time) {
        self.timers.sort_by_key(|(due, _)| *due);
        while let Some((_, name)) = self.timers.first().copied().filter(|(due, _)| *due <= now) {
            self.timers.remove(0);
            self.ask(Asked::Timer(name.0));
        }
    }

    fn handle_housekeeping(&mut self, _now: Time) {}

    fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        self.timers.iter().copied().min_by_key(|(due, _)| *due)
    }

    fn drain(&mut self, _now: Time) -> Result<(), DaemonError> {
        self.drained += 1;
        Ok(())
    }

    fn interface(&self) -> &str {
        "fake0"
    }

    fn mtu(&self) -> usize {
        1400
    }

    fn report(&self, _: Time, status: &mut Status) {
        self.reports.set(self.reports.get() + 1);
        status.counters.insert("drained".into(), self.drained as u64);
    }
}

fn shell() -> (Shell, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    let socket = directory.path().join("fake0.sock");
    (Shell::open(&socket).expect("a shell"), socket, directory)
}

#[test]
fn timers_are_handled_in_the_order_in_which_they_are_due_and_a_stop_ends_it() {
    let (mut shell, _, _directory) = shell();
    let mut fake = Fake::new(&shell, Order::TimersFirst, 3);
    let now = shell.now();
    for (millis, name) in [(30, "last"), (10, "first"), (20, "second")] {
        fake.timers.push((now + Span::from_millis(millis), TimerName(name)));
    }
    assert_eq!(shell.next_timeout(now, &fake).1, TimerName("first"));
    let fake = fake.run(&mut shell);
    assert_eq!(fake.asked, ["first", "second", "last"].map(Asked::Timer));
    assert_eq!(shell.next_timeout(shell.now(), &fake).1, TimerName("housekeeping"));
    assert!(fake.drained >= 1);
}

#[test]
fn links_come_before_the_host_and_timers_when_the_machine_wants_them() {
    for (order, timer_at) in [(Order::TimersFirst, 0), (Order::InputFirst, 3)] {
        let (mut shell, _, _directory) = shell();
        let mut fake = Fake::new(&shell, order, 4);
        fake.watch("host", Turn::Others);
        fake.watch("one link", Turn::Links);
        fake.watch("another link", Turn::Links);
        fake.timers.push((shell.now(), TimerName("due")));
        let mut asked = fake.run(&mut shell).asked;
        assert_eq!(asked.remove(timer_at), Asked::Timer("due"), "{order:?}");
        assert_eq!(asked[2], Asked::Readable("host"));
    }
}

#[test]
fn an_event_of_a_descriptor_that_was_closed_meanwhile_reaches_nobody() {
    let (mut shell, _, _directory) = shell();
    let mut fake = Fake::new(&shell, Order::TimersFirst, 2);
    fake.watch("link", Turn::Links);
    fake.watch("old", Turn::Others);
    fake.replaces = true;
    // Both are ready at once; the first one closes the other.
    let fake = fake.run(&mut shell);
    assert_eq!(fake.asked, ["link", "new"].map(Asked::Readable));
}

#[test]
fn room_is_told_where_it_was_asked_for() {
    let (mut shell, _, _directory) = shell();
    let mut fake = Fake::new(&shell, Order::TimersFirst, 2);
    fake.watch("link", Turn::Links);
    let (_, token, fd) = &fake.watched[0];
    fake.poller.set_interest(*token, fd.as_fd(), Interest::ReadAndWrite).expect("changed");
    let fake = fake.run(&mut shell);
    assert_eq!(fake.asked, [Asked::Writable("link"), Asked::Readable("link")]);
}

#[test]
fn a_client_is_answered_while_nothing_else_happens() {
    let (mut shell, socket, _directory) = shell();
    let fake = Fake::new(&shell, Order::InputFirst, usize::MAX);
    let stop = fake.stop.try_clone().expect("a copy");
    let client = std::thread::spawn(move || {
        let answer = ask(&socket, &Request::Status);
        rustix::io::write(&stop, &1u64.to_ne_bytes()).expect("stopped");
        answer
    });
    fake.run(&mut shell);
    let answer = client.join().expect("the client").expect("an answer");
    let status: Status = serde_json::from_str(&answer).expect("a status");
    assert_eq!((status.interface.as_str(), status.mtu), ("fake0", 1400));
    assert!(status.counters["drained"] >= 1);
}

#[test]
fn page_and_webhook_share_the_status_of_each_second_also_where_the_page_began_later() {
    let (mut shell, _, directory) = shell();
    let mut fake = Fake::new(&shell, Order::TimersFirst, 1);
    let address = "127.0.0.1:0".parse().expect("an address");
    // Nobody is called: port 0 is none.
    let hook = Hook { address, path: Zeroizing::new("/".into()), password: None };
    let served = || Served {
        metrics: None,
        web: Some(address),
        password: None,
        hosts: Vec::new(),
        may_control: false,
        history: directory.path().join("fs0.history"),
        webhook: None,
    };
    let at = Time::from_millis;
    shell.webhook = Some(Webhook::begin(at(10_250), hook));
    let mut asked = |shell: &mut Shell, ms: u64| {
        // The page's thread takes what it was told before it is told again.
        while shell.web.as_ref().is_some_and(|web| !web.is_idle()) {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        fake.reports.set(0);
        shell.handle_timeouts(at(ms), &mut fake);
        fake.reports.get()
    };
    // The webhook begins, then the page; both look at each full second, and once a second.
    assert_eq!(asked(&mut shell, 10_250), 1);
    shell.web = Some(Service::begin(at(10_600), address, served(), &shell.poller));
    for (ms, wanted) in [(10_600, 1), (10_999, 0), (11_003, 1), (11_500, 0), (12_000, 1), (14_700, 1), (15_000, 1)] {
        assert_eq!(asked(&mut shell, ms), wanted, "at {ms} ms");
    }
}
