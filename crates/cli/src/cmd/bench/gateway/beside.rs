//! One TCP connection beside UDP that offers twice what the link carries.

use super::bed::{Bed, CONGESTION};
use super::far::Long;
use crate::measure::datagrams::{Datagrams, Flowed};
use crate::measure::exchange::Exchange;
use crate::measure::load::{Clients, Ending, Fate, Plan};
use crate::testbed::Interrupt;
use anyhow::{Result, bail};
use std::net::SocketAddr;
use std::time::Duration;

/// How long UDP is alone before TCP begins, and does not count.
const HEAD_START: Duration = Duration::from_secs(2);
/// The time between two looks at what was received.
const STEP: f64 = 0.1;
/// A rate is that of so many steps.
const STEPS: usize = 10;
/// TCP has its fair share when it has so much of it.
const NEARLY: f64 = 0.9;
/// Where the datagrams go.
const PORT: u16 = 5002;
/// Of a full Ethernet frame's 1514 bytes, those that TCP with timestamps carries.
const PAYLOAD: f64 = 1448.0 / 1514.0;

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    /// TCP's application data, Mbit/s, of each second from the first SYN on.
    pub(super) mbit: Vec<f64>,
    /// From the first SYN until the first second with 90 % of TCP's fair share was over.
    pub(super) fair_after_s: Option<f64>,
    /// TCP's part of what the link carries, over the last half of the time.
    pub(super) share: f64,
    pub(super) udp: Flowed,
}

/// Measures for `seconds`, both from the server to the client.
pub(super) fn measure(interrupt: &Interrupt, bed: &Bed, link: &Long, seconds: u32) -> Result<Course> {
    let to = bed.server_address()?;
    let plan = Plan { to, from: None, up: 0, down: 1 << 50, ending: Ending::Orderly };
    let span = Duration::from_secs(u64::from(seconds));
    let clients = Clients { congestion: CONGESTION, opening: 1, checks: true, patience: 2 * span };
    let exchange = Exchange { from: &bed.client, to: &bed.server, listen: to, plans: &[plan], clients };
    let target = SocketAddr::new(bed.client_address(false)?, PORT);
    let rate = 2 * link.rate.as_bits_per_sec();
    let datagrams = Datagrams { from: &bed.server, to: &bed.client, target, rate };
    let mut at = vec![0];
    let (_, udp) = datagrams.beside(|| {
        interrupt.sleep(HEAD_START)?;
        let watch = |time: Duration, received: u64| {
            // One look that comes late stands for those it missed.
            while time.as_secs_f64() >= at.len() as f64 * STEP {
                at.push(received);
            }
            Ok(time < span)
        };
        exchange.run(interrupt, watch, |results| match results.records.first().map(|record| &record.fate) {
            Some(Fate::Open) => Ok(()),
            fate => bail!("TCP did not last beside UDP: {fate:?}"),
        })
    })?;
    let carried = link.mbit() * PAYLOAD;
    let half = at.len() / 2;
    let late = (at[at.len() - 1] - at[half]) as f64 * 8.0 / 1e6 / ((at.len() - 1 - half).max(1) as f64 * STEP);
    let mbit: Vec<f64> = at.windows(STEPS + 1).map(mbit).collect();
    let fair = mbit.iter().position(|&rate| rate >= NEARLY * carried / 2.0);
    let fair_after_s = fair.map(|first| (first + STEPS) as f64 * STEP);
    Ok(Course { mbit: mbit.into_iter().step_by(STEPS).collect(), fair_after_s, share: late / carried, udp })
}

/// From the first to the last of some looks.
fn mbit(span: &[u64]) -> f64 {
    let bytes = span.last().copied().unwrap_or_default() - span.first().copied().unwrap_or_default();
    bytes as f64 * 8.0 / 1e6 / ((span.len() - 1).max(1) as f64 * STEP)
}
