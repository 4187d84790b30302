//! The metrics as the configuration wants them: served, or tried again until they can be.
//!
//! An address that another program has, or that no interface has yet, costs the metrics alone, as that of the page does.

use super::machine::TimerName;
use super::poller::{Poller, Ready};
use super::retry;
use super::scrapes::Scrapes;
use crate::status::{EndpointStatus, Status};
use fairspan_core::units::{Span, Time};
use std::net::SocketAddr;

/// The metrics, or why there are none.
#[derive(Debug)]
pub(super) struct Endpoint {
    address: SocketAddr,
    scrapes: Result<Scrapes, Absent>,
}

/// Why there are none, when that is tried again, and how long was waited for it.
#[derive(Debug)]
struct Absent {
    why: String,
    again: Time,
    pause: Span,
}

impl Endpoint {
    /// Begins to serve at `address`, now or later.
    pub(super) fn begin(now: Time, address: SocketAddr, poller: &Poller) -> Endpoint {
        let never = Absent { why: String::new(), again: now, pause: Span::ZERO };
        let mut endpoint = Endpoint { address, scrapes: Err(never) };
        endpoint.attempt(now, poller);
        endpoint
    }

    /// Tries to have the address; the log tells of a reason once.
    fn attempt(&mut self, now: Time, poller: &Poller) {
        let Err(absent) = &mut self.scrapes else { return };
        match Scrapes::open(self.address, poller) {
            Ok(scrapes) => {
                if !absent.why.is_empty() {
                    tracing::info!(address = %self.address, "the metrics are served");
                }
                self.scrapes = Ok(scrapes);
            }
            Err(error) => {
                let why = error.to_string();
                if absent.why != why {
                    tracing::warn!(address = %self.address, why, "the metrics are not served; it is tried again");
                }
                let pause = retry::longer(absent.pause);
                *absent = Absent { why, again: now + pause, pause };
            }
        }
    }

    /// When it has something to do.
    pub(super) fn poll_timeout(&self) -> Option<(Time, TimerName)> {
        match &self.scrapes {
            Ok(scrapes) => scrapes.poll_timeout(),
            Err(absent) => Some((absent.again, TimerName("metrics"))),
        }
    }

    /// Ends clients whose time is up, or tries again to have the address.
    pub(super) fn handle_timeout(&mut self, now: Time, poller: &Poller) {
        match &mut self.scrapes {
            Ok(scrapes) => scrapes.handle_timeout(now),
            Err(absent) if absent.again <= now => self.attempt(now, poller),
            Err(_) => {}
        }
    }

    /// Goes on with what is ready, if it belongs here. False: it is something else.
    pub(super) fn handle(&mut self, now: Time, ready: Ready, status: impl FnOnce() -> Status) -> bool {
        self.scrapes.as_mut().is_ok_and(|scrapes| scrapes.handle(now, ready, status))
    }

    /// What there is to tell of it.
    pub(super) fn status(&self) -> EndpointStatus {
        let problem = self.scrapes.as_ref().err().map(|absent| absent.why.clone());
        EndpointStatus { address: self.address.to_string(), served: problem.is_none(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn metrics_whose_address_another_program_has_are_tried_again_at_growing_intervals_and_then_served() {
        let poller = Poller::new().expect("epoll");
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = other.local_addr().expect("bound");
        let mut endpoint = Endpoint::begin(Time::ZERO, address, &poller);
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let (due, _) = endpoint.poll_timeout().expect("it is tried again");
            pauses.push(due.since(now).as_nanos() / 1_000_000_000);
            // Before that nothing is tried.
            endpoint.handle_timeout(now, &poller);
            assert_eq!(endpoint.poll_timeout().map(|(at, _)| at), Some(due));
            now = due;
            endpoint.handle_timeout(now, &poller);
            let problem = endpoint.status().problem.expect("a reason");
            assert!(problem.contains("in use") && !endpoint.status().served, "{problem}");
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        drop(other);
        now += Span::from_secs(30);
        endpoint.handle_timeout(now, &poller);
        let status = EndpointStatus { address: address.to_string(), served: true, problem: None };
        assert_eq!((endpoint.status(), endpoint.poll_timeout().is_none()), (status, true));
        TcpListener::bind(address).expect_err("the endpoint has it");
    }
}
