//! The shell of every daemon: it waits, and drives a `Machine`, the role that the daemon has.
//!
//! | file | idea |
//! |---|---|
//! | `mod` | the loop, its own timers, control socket and metrics |
//! | `scrapes` | the metrics over HTTP |
//! | `endpoint`, `retry` | the metrics at an address that may come later; when what cannot be had is tried again |
//! | `web` | the page, with what was |
//! | `webhook` | alarms, to who is to know of them |
//! | `looks` | when both look at the daemon, and how long their ends are waited for |
//! | `machine` | what a role must be able to do |
//! | `reloads` | when the configuration is read again |
//! | `poller`, `slab` | waiting for descriptors, by tokens that are never taken for others |
//! | `error` | why a daemon does not start or ends, and whether a privilege is missing |
//!
//! One thread does all of it but the page and the webhook. The shell calls the machine once for each descriptor that is ready, never for each packet.

mod endpoint;
pub(crate) mod error;
mod looks;
pub(crate) mod machine;
pub(crate) mod poller;
mod reloads;
mod retry;
mod scrapes;
pub(crate) mod slab;
mod web;
mod webhook;

pub use error::DaemonError;

use crate::clock::{Clock, until};
use crate::config::{ConfigError, Served};
use crate::confinement::{Confinement, tell_refused};
use crate::control::{Control, Request, Taken};
use crate::events;
use crate::helper::{Answer, Helper};
use crate::lock::Lock;
use crate::netlink::Monitor;
use crate::notify::Manager;
use crate::reloaded::Reloaded;
use crate::status::Status;
use endpoint::Endpoint;
use fairspan_core::units::{Span, Time};
use machine::{Machine, Order, TimerName};
use poller::{Poller, Ready, Token, Turn};
use reloads::Reloads;
use rustix::event::epoll;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use web::Service;
use webhook::Webhook;

/// How often a machine tries again what failed.
const HOUSEKEEPING: Span = Span::from_secs(1);
/// Wait while a client of the control socket is being served.
const CLIENT_WAIT: Span = Span::from_millis(1);
/// Most events fetched at once.
const EVENTS: usize = 64;

/// What all daemons have, whatever their role.
#[derive(Debug)]
pub(crate) struct Shell {
    clock: Clock,
    poller: Poller,
    control: Control,
    control_token: Token,
    monitor: Monitor,
    monitor_token: Token,
    metrics: Option<Endpoint>,
    web: Option<Service>,
    webhook: Option<Webhook>,
    /// What the process gave up.
    confinement: Option<Confinement>,
    /// What keeps packets from leaving by other ways.
    lock: Option<Lock>,
    reloads: Reloads,
    manager: Manager,
    housekeeping: Time,
}

impl Shell {
    /// Opens the control socket and begins to follow the host's interfaces: no change after this is missed.
    ///
    /// # Errors
    /// What is refused; another daemon that has the control socket.
    pub(crate) fn open(control_socket: &Path) -> Result<Shell, DaemonError> {
        let clock = Clock::start();
        let control = Control::open(control_socket)?;
        let monitor = Monitor::open()?;
        let poller = Poller::new()?;
        Ok(Shell {
            control_token: poller.watch(control.as_fd(), Turn::Others)?,
            monitor_token: poller.watch(monitor.as_fd(), Turn::Others)?,
            housekeeping: clock.now() + HOUSEKEEPING,
            metrics: None,
            web: None,
            webhook: None,
            confinement: None,
            lock: None,
            reloads: Reloads::default(),
            manager: Manager::default(),
            clock,
            poller,
            control,
            monitor,
        })
    }

    /// Now, since the daemon began.
    pub(crate) fn now(&self) -> Time {
        self.clock.now()
    }

    /// For a machine, to wait for its descriptors.
    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    /// For status: what the process gave up, and what keeps packets from leaving by other ways. The latter is set again
    /// where another program removes it.
    pub(crate) fn tell(&mut self, confinement: Option<Confinement>, lock: Option<Lock>) {
        (self.confinement, self.lock) = (confinement, lock);
    }

    /// Whom to tell that the daemon is alive.
    pub(crate) fn obey(&mut self, manager: Manager) {
        self.manager = manager;
    }

    /// Serves metrics and the page from now on, where they are `served`, and brings alarms where they are wanted. What has an address that cannot be had is tried again.
    pub(crate) fn serve(&mut self, served: Served) {
        let now = self.now();
        if let Some(address) = served.metrics {
            self.metrics = Some(Endpoint::begin(now, address, &self.poller));
        }
        self.webhook = served.webhook.clone().map(|hook| Webhook::begin(now, hook));
        if let Some(address) = served.web {
            self.web = Some(Service::begin(now, address, served, &self.poller));
        }
    }

    /// Drives `machine` until `stop` becomes readable.
    ///
    /// # Errors
    /// What leaves the daemon without its purpose: its interface deleted by someone else.
    pub(crate) fn run(&mut self, machine: &mut dyn Machine, stop: BorrowedFd<'_>) -> Result<(), DaemonError> {
        let token = self.poller.watch(stop, Turn::Others)?;
        let ended = self.drive(machine, token);
        self.poller.unwatch(token, stop);
        self.manager.stopping();
        ended
    }

    fn drive(&mut self, machine: &mut dyn Machine, stop: Token) -> Result<(), DaemonError> {
        let mut events = Vec::with_capacity(EVENTS);
        machine.drain(self.clock.now())?;
        while !self.turn(machine, &mut events, stop)? {}
        Ok(())
    }

    /// Sleeps until there is something to do, and does it; true when it is time to stop.
    fn turn(
        &mut self,
        machine: &mut dyn Machine,
        events: &mut Vec<epoll::Event>,
        stop: Token,
    ) -> Result<bool, DaemonError> {
        let asleep = self.clock.now();
        let (next, timer) = self.next_timeout(asleep, machine);
        self.poller.wait(events, &until(asleep, next))?;
        let now = self.clock.now();
        if events.is_empty() {
            tracing::trace!(%timer, "woken");
        }
        let timers_first = machine.order() == Order::TimersFirst;
        if timers_first {
            self.handle_timeouts(now, machine);
        }
        if self.handle_events(now, machine, events, stop)? {
            return Ok(true);
        }
        if !timers_first {
            self.handle_timeouts(now, machine);
        }
        if self.control.is_busy() {
            self.serve_control(machine);
        }
        machine.drain(now)?;
        while let Some(host) = machine.poll_lookup() {
            self.reloads.ask_addresses(&host);
        }
        Ok(false)
    }

    /// One turn of the loop, of a host in memory, which never sleeps; when the next one is due at the latest.
    #[cfg(test)]
    pub(crate) fn turn_once(&mut self, machine: &mut dyn Machine) -> Result<Span, DaemonError> {
        let nobody = Token::from_u64(u64::MAX);
        self.turn(machine, &mut Vec::with_capacity(EVENTS), nobody)?;
        let now = self.clock.now();
        Ok(self.next_timeout(now, machine).0.since(now))
    }

    /// What `fairspan status` would show.
    pub(crate) fn status(&self, machine: &dyn Machine) -> Status {
        let Shell { clock, confinement, lock, web, metrics, webhook, .. } = self;
        let shared = (confinement.as_ref(), lock.as_ref(), web.as_ref(), metrics.as_ref(), webhook.as_ref());
        status(*clock, shared, machine)
    }

    /// When to be awake at the latest, and why.
    fn next_timeout(&self, now: Time, machine: &dyn Machine) -> (Time, TimerName) {
        let client = self.control.is_busy().then(|| (now + CLIENT_WAIT, TimerName("client")));
        let scraper = self.metrics.as_ref().and_then(Endpoint::poll_timeout);
        let page = self.web.as_ref().map(|web| (web.poll_timeout(), TimerName("page")));
        let alarms = self.webhook.as_ref().map(|webhook| (webhook.poll_timeout(), TimerName("webhook")));
        let alive = self.manager.poll_timeout().map(|due| (due, TimerName("watchdog")));
        let timers = [machine.poll_timeout(), client, scraper, page, alarms, alive].into_iter().flatten();
        timers.fold(
            (self.housekeeping, TimerName("housekeeping")),
            |first, timer| {
                if timer.0 < first.0 { timer } else { first }
            },
        )
    }

    fn handle_timeouts(&mut self, now: Time, machine: &mut dyn Machine) {
        machine.handle_timeout(now);
        if self.housekeeping <= now {
            self.housekeeping = now + HOUSEKEEPING;
            machine.handle_housekeeping(now);
            tell_refused();
            if let Some(lock) = &self.lock {
                lock.keep();
            }
        }
        self.manager.handle_timeout(now);
        if let Some(metrics) = &mut self.metrics {
            metrics.handle_timeout(now, &self.poller);
        }
        let Shell { clock, poller, confinement, lock, metrics, web, webhook, .. } = self;
        // What the webhook looked at does for the page.
        let mut looked_at = None;
        if let Some(webhook) = webhook {
            let shared = (confinement.as_ref(), lock.as_ref(), web.as_ref(), metrics.as_ref(), None);
            webhook.handle_timeout(now, || &*looked_at.insert(status(*clock, shared, machine)));
        }
        let Some(web) = web else { return };
        let shared = (confinement.as_ref(), lock.as_ref(), None, metrics.as_ref(), webhook.as_ref());
        web.handle_timeout(now, poller, || match looked_at {
            Some(status) => Status { webhook: webhook.as_ref().map(Webhook::status), ..status },
            None => status(*clock, shared, machine),
        });
    }

    /// Hands over what is ready; true when it is time to stop.
    fn handle_events(
        &mut self,
        now: Time,
        machine: &mut dyn Machine,
        events: &[epoll::Event],
        stop: Token,
    ) -> Result<bool, DaemonError> {
        for turn in [Turn::Links, Turn::Others] {
            for ready in events.iter().map(Ready::from) {
                if self.poller.turn(ready.token) != Some(turn) {
                    continue;
                }
                match ready.token {
                    token if token == stop => return Ok(true),
                    token if token == self.monitor_token => self.follow_interfaces(now, machine)?,
                    token if token == self.control_token => self.serve_control(machine),
                    token if self.reloads.is(token) => self.follow_reloads(now, machine, token),
                    token if self.web.as_ref().is_some_and(|web| web.is(token)) => self.follow_orders(now, machine),
                    _ if self.serve_scrapes(now, machine, ready) => {}
                    token => {
                        if ready.writable {
                            machine.handle_writable(now, token);
                        }
                        if ready.readable && self.poller.turn(token).is_some() {
                            machine.handle_readable(now, token)?;
                        }
                    }
                }
            }
        }
        Ok(false)
    }

    fn follow_interfaces(&mut self, now: Time, machine: &mut dyn Machine) -> Result<(), DaemonError> {
        loop {
            match self.monitor.poll() {
                Ok(Some(change)) => machine.handle_link_change(now, change)?,
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "changes of interfaces are not followed");
                    return Ok(());
                }
            }
        }
    }

    /// Whether what is ready was of a client of the metrics.
    fn serve_scrapes(&mut self, now: Time, machine: &dyn Machine, ready: Ready) -> bool {
        let Shell { clock, confinement, lock, metrics, web, webhook, .. } = self;
        // Who is served knows that.
        let shared = (confinement.as_ref(), lock.as_ref(), web.as_ref(), None, webhook.as_ref());
        metrics.as_mut().is_some_and(|metrics| metrics.handle(now, ready, || status(*clock, shared, machine)))
    }

    /// Does what is wanted by the page.
    fn follow_orders(&mut self, now: Time, machine: &mut dyn Machine) {
        if let Some(web) = &self.web {
            web.handle_orders(|order| machine.take_out(now, &order.of, &order.name, order.out));
        }
    }

    fn serve_control(&mut self, machine: &mut dyn Machine) {
        let Shell { clock, confinement, lock, control, reloads, web, metrics, webhook, .. } = self;
        let mut unread = None;
        control.serve(|request| match request {
            Request::Status => {
                let shared = (confinement.as_ref(), lock.as_ref(), web.as_ref(), metrics.as_ref(), webhook.as_ref());
                let status = status(*clock, shared, machine);
                Some(serde_json::to_string(&status).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}")))
            }
            Request::Reload => {
                unread = reloads.begin();
                None
            }
            Request::TakeOut { peer, channel } => Some(taken(machine.take_out(clock.now(), &peer, &channel, true))),
            Request::TakeIn { peer, channel } => Some(taken(machine.take_out(clock.now(), &peer, &channel, false))),
        });
        if let Some(reloaded) = unread {
            self.tell_reloaded(&reloaded);
        }
    }

    /// Where the file is to be read from again, and by which descriptor a person asks for it, as SIGHUP does.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn follow(&mut self, helper: Helper, asked: UnixStream) -> Result<(), DaemonError> {
        self.reloads.follow(helper, asked, &self.poller).map_err(|errno| DaemonError::Poll(errno.into()))
    }

    fn follow_reloads(&mut self, now: Time, machine: &mut dyn Machine, token: Token) {
        while let Some(read) = self.reloads.poll(token) {
            let read = match read {
                Ok(Answer::Addresses(host, found)) => {
                    machine.handle_addresses(now, &host, found);
                    continue;
                }
                read => read,
            };
            let reloaded = self.reloads.complete(read, |config| machine.reload(now, config));
            self.tell_reloaded(&reloaded);
        }
    }

    /// Tells all who wait, and the log, what became of a reload.
    fn tell_reloaded(&mut self, reloaded: &Reloaded) {
        for line in reloaded.lines() {
            match reloaded.ok {
                true => tracing::info!("reload: {line}"),
                false => tracing::warn!("reload: {line}"),
            }
        }
        for notice in &reloaded.notices {
            tracing::warn!("{}", ConfigError::from(notice));
        }
        if self.reloads.is_done() {
            self.control.answer_waiting(&serde_json::to_string(reloaded).unwrap_or_default());
        }
    }
}

/// What became of the wish to take a channel out or in.
fn taken(done: Result<(), String>) -> String {
    let taken = Taken { ok: done.is_ok(), problem: done.err() };
    serde_json::to_string(&taken).unwrap_or_default()
}

/// What tells of itself beside the machine.
type Shared<'a> =
    (Option<&'a Confinement>, Option<&'a Lock>, Option<&'a Service>, Option<&'a Endpoint>, Option<&'a Webhook>);

/// Everything that a daemon has to tell, now.
fn status(clock: Clock, (confinement, lock, web, metrics, webhook): Shared<'_>, machine: &dyn Machine) -> Status {
    let now = clock.now();
    let mut status = Status::new(machine.interface(), now.as_secs_f64(), machine.mtu());
    status.confinement = confinement.map(Confinement::now);
    status.lock = lock.and_then(Lock::status);
    status.web = web.map(Service::status);
    status.metrics = metrics.map(Endpoint::status);
    status.webhook = webhook.map(Webhook::status);
    machine.report(now, &mut status);
    status.events = events::recent();
    status
}

#[cfg(test)]
mod tests;
