//! Many TCP connections at once, one thread at each end, and every byte of them checked.
//!
//! A client says what is to come in a head of 24 bytes: the stream's number, how many bytes it will send, and how many it
//! wants. Both ends then send at the same time, each the bytes of [`pattern`], and end their direction. So each end knows
//! what it has to receive, to the last byte.

mod clients;
mod ends;
mod pattern;
mod server;

pub(crate) use clients::{Clients, Ending, Fate, Plan, Record, Results};
pub(crate) use server::{Served, Server};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process have as many sockets as `count` connections take, both ends of each.
///
/// # Errors
/// They are more than the system lets it have.
pub(crate) fn allow_sockets(count: usize) -> std::io::Result<()> {
    let needed = 2 * count as u64 + 200;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|now| now >= needed) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|most| most.max(needed));
    Ok(setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    /// Any user may set it.
    const RENO: &str = "reno";
    const CLIENTS: Clients<'_> =
        Clients { congestion: RENO, opening: 10, checks: true, patience: Duration::from_secs(60) };

    fn plan(to: SocketAddr, up: u64, down: u64, ending: Ending) -> Plan {
        Plan { to, from: None, up, down, ending }
    }

    fn exchange(plans: &dyn Fn(SocketAddr) -> Vec<Plan>, clients: Clients<'_>) -> (Results, Served, u64) {
        let server = Server::listen("127.0.0.1:0".parse().unwrap(), RENO).unwrap();
        let plans = plans(server.address().unwrap());
        let (received, stop, over) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(clients.checks, &over));
            let mut results = clients.run(&plans, &stop, &received).unwrap();
            results.silent.clear();
            over.store(true, Ordering::Relaxed);
            (results, serving.join().unwrap().unwrap(), received.load(Ordering::Relaxed))
        })
    }

    #[test]
    fn both_ends_count_what_was_exact_and_all_kinds_of_what_was_not() {
        let plans = |to| {
            let mut plans: Vec<Plan> =
                (0..40).map(|n| plan(to, n * 10_007, (39 - n) * 100_003, Ending::Orderly)).collect();
            plans.push(plan(to, 1 << 30, 1 << 30, Ending::Reset(100_000)));
            plans.push(plan(to, 1 << 30, 10, Ending::HalfClosed(100_000)));
            plans.push(plan(to, 1 << 30, 1 << 30, Ending::Silent(100_000)));
            plans
        };
        let (results, served, received) = exchange(&plans, CLIENTS);
        let (ordinary, others) = results.records.split_at(40);
        assert!(ordinary.iter().all(|record| record.fate == Fate::Exact), "{:?}", results.failure());
        assert!(others.iter().all(|record| record.fate == Fate::Abandoned), "{others:?}");
        assert_eq!((served.exact, served.wrong, served.cut + served.open), (40, 0, 3), "{served:?}");
        assert!(received >= 39 * 40 / 2 * 100_003);
        for (n, record) in ordinary.iter().enumerate().take(39) {
            assert_eq!(record.received, (39 - n as u64) * 100_003);
            assert!(record.connected <= record.first && record.first <= record.last && record.last.is_some());
        }
    }

    #[test]
    fn what_is_not_looked_at_is_counted_alike() {
        let (results, served, received) =
            exchange(&|to| vec![plan(to, 5_000_000, 7_000_000, Ending::Orderly)], Clients { checks: false, ..CLIENTS });
        assert_eq!((&results.records[0].fate, served.exact, received), (&Fate::Exact, 1, 7_000_000));
    }

    /// Takes one connection, reads the head, answers and closes; what the client makes of it.
    fn answered(down: u64, answer: &[u8]) -> Fate {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let plans = [plan(listener.local_addr().unwrap(), 0, down, Ending::Orderly)];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.read_exact(&mut [0; ends::HEAD]).unwrap();
                stream.write_all(answer).unwrap();
            });
            let results = CLIENTS.run(&plans, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
            results.records[0].fate.clone()
        })
    }

    #[test]
    fn a_client_notices_other_bytes_fewer_and_more() {
        let right = &pattern::from(ends::downward(0), 0)[..1000];
        assert_eq!(answered(1000, right), Fate::Exact);
        assert_eq!(answered(1001, right), Fate::Failed("ended after 1000 bytes of 1001".to_owned()));
        assert_eq!(answered(999, right), Fate::Wrong);
        let mut changed = right.to_vec();
        changed[999] ^= 128;
        assert_eq!(answered(1000, &changed), Fate::Wrong);
    }

    #[test]
    fn nobody_there_is_a_failure_and_a_server_that_says_nothing_leaves_it_open() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let clients = Clients { patience: Duration::from_millis(50), ..CLIENTS };
        let run = || clients.run(&[plan(to, 0, 1, Ending::Orderly)], &AtomicBool::new(false), &AtomicU64::new(0));
        assert_eq!(run().unwrap().records[0].fate, Fate::Open);
        drop(listener);
        assert!(matches!(run().unwrap().records[0].fate, Fate::Failed(_)));
    }
}
