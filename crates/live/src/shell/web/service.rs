//! The page as the configuration wants it: served, or tried again until it can be.
//!
//! Nothing of it ends the daemon: an address that another program has, or that no interface has yet, is told of in the log and in the status, and
//! packets move meanwhile. It is tried again after 1 s, then 2, and so on up to 30 s, as gateways are.

use super::super::poller::{Poller, Token};
use super::{Order, Web};
use crate::config::Served;
use crate::status::{PageStatus, Status};
use fairspan_core::units::{Span, Time};
use std::net::SocketAddr;

/// How soon it is tried again at first, and how late at most.
const AGAIN: (Span, Span) = (Span::from_secs(1), Span::from_secs(30));

/// The page, or why there is none.
#[derive(Debug)]
pub(crate) struct Service {
    served: Served,
    address: SocketAddr,
    page: Result<Web, Absent>,
}

/// Why there is none, and when it is tried again.
#[derive(Debug)]
struct Absent {
    why: String,
    pause: Span,
    again: Time,
}

impl Service {
    /// Begins to serve at `address`, now or later.
    pub(crate) fn begin(now: Time, address: SocketAddr, served: Served, poller: &Poller) -> Service {
        let absent = Absent { why: String::new(), pause: Span::ZERO, again: now };
        let mut service = Service { served, address, page: Err(absent) };
        service.attempt(now, poller);
        service
    }

    fn attempt(&mut self, now: Time, poller: &Poller) {
        let Err(before) = &self.page else { return };
        match Web::open(now, self.address, &self.served, poller) {
            Ok(web) => {
                if !before.why.is_empty() {
                    tracing::info!(address = %self.address, "the page is served");
                }
                self.page = Ok(web);
            }
            Err(error) => {
                let pause = before.pause.times(2).clamp(AGAIN.0, AGAIN.1);
                self.page = Err(self.absent(error.to_string(), pause, now));
            }
        }
    }

    /// What is known of a page that there is not; the log tells of it once.
    fn absent(&self, why: String, pause: Span, now: Time) -> Absent {
        if !matches!(&self.page, Err(before) if before.why == why) {
            tracing::warn!(address = %self.address, why, "the page is not served; it is tried again");
        }
        Absent { why, pause, again: now + pause }
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
                self.page = Err(self.absent("its thread has ended".to_owned(), AGAIN.0, now));
            }
            Ok(web) => {
                let own = PageStatus { address: self.address.to_string(), served: true, problem: None };
                web.handle_timeout(now, || Status { web: Some(own), ..status() });
            }
            Err(absent) if absent.again <= now => self.attempt(now, poller),
            Err(_) => {}
        }
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
    pub(crate) fn status(&self) -> PageStatus {
        let problem = self.page.as_ref().err().map(|absent| absent.why.clone());
        PageStatus { address: self.address.to_string(), served: problem.is_none(), problem }
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
        assert_eq!(service.status(), PageStatus { address: address.to_string(), served: true, problem: None });
        let mut told = 0;
        service.handle_timeout(service.poll_timeout(), &poller, || {
            told += 1;
            Status::new("fs0", 1.0, 1400)
        });
        assert_eq!(told, 1);
    }
}
