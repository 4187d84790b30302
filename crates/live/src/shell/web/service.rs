//! The page as the configuration wants it: served, or tried again until it can be.
//!
//! Nothing of it ends the daemon: an address that another program has, or that no interface has yet, is told of in the log and in the status, and
//! packets move meanwhile. It is tried again after 1 s, then 2, and so on up to 30 s, as gateways are.

use super::super::poller::{Poller, Token};
use super::super::retry;
use super::{Order, Web};
use crate::config::Served;
use crate::status::{EndpointStatus, Status};
use fairspan_core::units::{Span, Time};
use std::net::SocketAddr;

/// What is said where the page ended by itself.
const ENDED: &str = "its thread has ended";
/// A page that holds for so long is well.
const HOLDS: Span = Span::from_secs(60);

/// The page, or why there is none.
#[derive(Debug)]
pub(crate) struct Service {
    served: Served,
    address: SocketAddr,
    page: Result<Web, Absent>,
    /// How long it was waited last, until a page has held.
    pause: Span,
    /// When the page was begun.
    begun: Time,
    /// What the log was told of last, until a page has held.
    told: String,
}

/// Why there is none, and when it is tried again.
#[derive(Debug)]
struct Absent {
    why: String,
    again: Time,
}

impl Service {
    /// Begins to serve at `address`, now or later.
    pub(crate) fn begin(now: Time, address: SocketAddr, served: Served, poller: &Poller) -> Service {
        let page = Err(Absent { why: String::new(), again: now });
        let mut service = Service { served, address, page, pause: Span::ZERO, begun: now, told: String::new() };
        service.attempt(now, poller);
        service
    }

    fn attempt(&mut self, now: Time, poller: &Poller) {
        match Web::open(now, self.address, &self.served, poller) {
            Ok(web) => {
                // One that ended before may do so again: of that page the log is told when it has held.
                if !self.told.is_empty() && self.told != ENDED {
                    tracing::info!(address = %self.address, "the page is served");
                }
                (self.page, self.begun) = (Ok(web), now);
            }
            Err(error) => self.fail(now, error.to_string()),
        }
    }

    /// There is no page, and it is tried again, each time later; the log tells of a reason once.
    fn fail(&mut self, now: Time, why: String) {
        if self.told != why {
            tracing::warn!(address = %self.address, why, "the page is not served; it is tried again");
            self.told.clone_from(&why);
        }
        self.pause = retry::longer(self.pause);
        self.page = Err(Absent { why, again: now + self.pause });
    }

    /// Forgets what went wrong before, if the page has held.
    fn settle(&mut self, now: Time) {
        if self.pause > Span::ZERO && now.since(self.begun) >= HOLDS {
            if self.told == ENDED {
                tracing::info!(address = %self.address, "the page is served");
            }
            self.pause = Span::ZERO;
            self.told.clear();
        }
    }

    /// When it has something to do at the latest.
    pub(crate) fn poll_timeout(&self) -> Time {
        match &self.page {
            Ok(web) => web.poll_timeout(),
            Err(absent) => absent.again,
        }
    }

    /// Tells the page what there is to tell, or tries again to have one.
    pub(crate) fn handle_timeout(&mut self, now: Time, poller: &Poller, status: impl FnOnce() -> Status) {
        match &mut self.page {
            Ok(web) if web.has_ended() => {
                poller.forget(web.ordering);
                self.settle(now);
                self.fail(now, ENDED.to_owned());
            }
            Ok(web) => {
                let address = self.address;
                web.handle_timeout(now, || {
                    let own = EndpointStatus { address: address.to_string(), served: true, problem: None };
                    Status { web: Some(own), ..status() }
                });
                self.settle(now);
            }
            Err(absent) if absent.again <= now => self.attempt(now, poller),
            Err(_) => {}
        }
    }

    /// Whether its thread has taken all that it was told.
    #[cfg(test)]
    pub(crate) fn is_idle(&self) -> bool {
        self.page.as_ref().is_ok_and(|web| web.waiting.load(std::sync::atomic::Ordering::Acquire) == 0)
    }

    /// Whether `token` tells that somebody wants something.
    pub(crate) fn is(&self, token: Token) -> bool {
        self.page.as_ref().is_ok_and(|web| web.is(token))
    }

    /// Does what is wanted.
    pub(crate) fn handle_orders(&self, order: impl FnMut(&Order) -> Result<(), String>) {
        if let Ok(web) = &self.page {
            web.handle_orders(order);
        }
    }

    /// What there is to tell of it.
    pub(crate) fn status(&self) -> EndpointStatus {
        let problem = self.page.as_ref().err().map(|absent| absent.why.clone());
        EndpointStatus { address: self.address.to_string(), served: problem.is_none(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::served;
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_address_that_another_program_has_is_tried_again_at_growing_intervals_and_then_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let poller = Poller::new().expect("epoll");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = other.local_addr().expect("bound");
        let mut service = Service::begin(Time::ZERO, address, served(&folder, None), &poller);
        let problem = service.status().problem.expect("a reason");
        assert!(problem.contains("in use") && !service.status().served, "{problem}");
        let mut pauses = Vec::new();
        let mut now = Time::ZERO;
        for _ in 0..8 {
            let due = service.poll_timeout();
            pauses.push(due.since(now).as_nanos() / 1_000_000_000);
            // Before that nothing is tried.
            service.handle_timeout(now, &poller, || unreachable!("there is no page"));
            assert_eq!(service.poll_timeout(), due);
            now = due;
            service.handle_timeout(now, &poller, || unreachable!("there is no page"));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        drop(other);
        now = service.poll_timeout();
        service.handle_timeout(now, &poller, || unreachable!("it has just begun"));
        assert_eq!(service.status(), EndpointStatus { address: address.to_string(), served: true, problem: None });
        let mut told = 0;
        service.handle_timeout(service.poll_timeout(), &poller, || {
            told += 1;
            Status::new("fs0", 1.0, 1400)
        });
        assert_eq!(told, 1);
    }

    #[test]
    fn a_page_that_ends_by_itself_is_begun_anew_at_growing_intervals_until_one_has_held() {
        let folder = tempfile::tempdir().expect("a folder");
        let poller = Poller::new().expect("epoll");
        let mut now = Time::from_millis(1000);
        let address = "127.0.0.1:0".parse().expect("an address");
        let mut service = Service::begin(now, address, served(&folder, None), &poller);
        let end = |service: &mut Service, now: Time| {
            let web = service.page.as_mut().expect("served");
            web.samples = None;
            web.wake();
            while !web.has_ended() {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            service.handle_timeout(now, &poller, || unreachable!("it has ended"));
            assert_eq!(service.status().problem.as_deref(), Some(ENDED));
            service.poll_timeout().since(now).as_nanos() / 1_000_000_000
        };
        let mut pauses = Vec::new();
        for _ in 0..4 {
            pauses.push(end(&mut service, now));
            now = service.poll_timeout();
            service.attempt(now, &poller);
        }
        assert_eq!((&pauses[..], &*service.told), (&[1, 2, 4, 8][..], ENDED));
        now += HOLDS;
        assert_eq!(end(&mut service, now), 1, "it had held");
    }
}
