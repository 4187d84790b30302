//! The connections of [`load`](super::load) between two namespaces.

use super::load::{Clients, Plan, Results, Served, Server};
use crate::testbed::{Interrupt, Namespace};
use anyhow::{Context, Result};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often the one who watches is called.
const LOOK: Duration = Duration::from_millis(10);

/// Clients in one namespace, a server in another.
#[derive(Clone, Copy)]
pub(crate) struct Exchange<'a> {
    pub(crate) from: &'a Namespace,
    pub(crate) to: &'a Namespace,
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    pub(crate) plans: &'a [Plan],
    pub(crate) clients: Clients<'a>,
}

impl Exchange<'_> {
    /// Makes all connections. `watch` is given the time and all bytes that clients have received, every 10 ms, until
    /// they are over or it says that they shall end; `after` is called then, while the server still serves.
    pub(crate) fn run<T>(
        &self,
        interrupt: &Interrupt,
        mut watch: impl FnMut(Duration, u64) -> Result<bool>,
        after: impl FnOnce(Results) -> Result<T>,
    ) -> Result<(T, Served)> {
        let congestion = self.clients.congestion;
        let server = self.to.enter(|| {
            Server::listen(self.listen, congestion).with_context(|| format!("cannot listen at {}", self.listen))
        })?;
        let (received, enough, over) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| server.run(self.clients.checks, &over));
            let calling = scope.spawn(|| {
                let run = || self.clients.run(self.plans, &enough, &received).context("the clients failed");
                self.from.enter(run)
            });
            let begun = Instant::now();
            let watched = (|| {
                while !calling.is_finished() && watch(begun.elapsed(), received.load(Ordering::Relaxed))? {
                    interrupt.sleep(LOOK)?;
                }
                anyhow::Ok(())
            })();
            enough.store(true, Ordering::Relaxed);
            let called = calling.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let value = watched.and(called).and_then(after);
            over.store(true, Ordering::Relaxed);
            let served = serving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((value?, served.context("the server failed")?))
        })
    }
}
