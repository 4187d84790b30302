//! Flows that send little and steadily go before others.
//!
//! What it is: in mode `reliable`, packets of a flow bucket of which little is sent are treated as prompt ones
//! ([`express`](super::express)) although nobody marked them: calls, games, terminals, the acknowledgements of a download. They pass the
//! host queue, go by the channel that brings them first, and do not wait for the slower channels' delay.
//!
//! | a bucket | goes first |
//! |---|---|
//! | of which more than [`DEPTH`] waits in a meter that drains at [`RATE`] | not until the meter is empty, and [`STEADY`] longer |
//! | that sent nothing for [`IDLE`] | at once, packets of up to [`SHORT`] bytes that are not TCP; otherwise after [`STEADY`] |
//! | any other | yes |
//!
//! A transfer's first packets are many and close together. If they went by the fastest channel and the rest by all, TCP would take the
//! change for a queue and end its slow start (HyStart, RFC 9406); that is what `STEADY` is for. All such flows together have at most half of what
//! the channels carry, where that is known: behind it they go as others do, so nobody starves others by many small flows.
//!
//! Source: ours; that flows with little go first is RFC 8290's idea. Cost: O(1) a packet. Memory: 16 bytes for each flow bucket.
//! Invariant: a bucket of which a packet waits in the host queue does not go first, since numbers are given as packets leave.

use crate::units::{Bytes, Rate, Span, Time};
use alloc::vec;
use alloc::vec::Vec;

/// What a flow may send for ever and go first.
const RATE: Rate = Rate::from_bits_per_sec(500_000);
/// What it may send at once beyond that.
const DEPTH: u64 = 6_000;
/// For how long a flow is to have sent little.
const STEADY: Span = Span::from_secs(1);
/// After so long without a packet it is another flow.
const IDLE: Span = Span::from_secs(3);
/// The longest packet of a flow that goes first at once.
const SHORT: usize = 300;
/// What all such flows may send at once beyond their share.
const BURST: Span = Span::from_millis(20);

/// What a flow bucket sent lately.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// When its meter is empty, if nothing more is sent.
    empty: Time,
    /// From when on it has sent little for long enough.
    steady: Time,
}

/// The meters of all flow buckets.
#[derive(Debug)]
pub(super) struct Sparse {
    flows: Vec<Flow>,
    /// When what all of them sent first will have left at their share of the rate.
    busy: Time,
    /// Half of the rate of all channels, where it is known.
    share: Option<Rate>,
}

impl Sparse {
    /// Meters for so many flow buckets; none: no flow goes first.
    pub(super) fn new(buckets: usize) -> Sparse {
        Sparse { flows: vec![Flow::default(); buckets], busy: Time::ZERO, share: None }
    }

    /// The channels carry `rate` together from now on, or it is not known.
    pub(super) fn set_rate(&mut self, rate: Option<Rate>) {
        self.share = rate.map(|rate| Rate::from_bits_per_sec((rate.as_bits_per_sec() / 2).max(1_000)));
    }

    /// Whether the rate of all channels is known.
    #[inline]
    pub(super) fn knows_rate(&self) -> bool {
        self.share.is_some()
    }

    /// A packet of `size` bytes comes of `bucket`, which is TCP's or not. Whether it may go first.
    #[inline]
    pub(super) fn on_packet(&mut self, now: Time, bucket: u16, size: usize, tcp: bool) -> bool {
        let Some(flow) = self.flows.get_mut(usize::from(bucket)) else { return false };
        let depth = RATE.transmit_time(Bytes::new(DEPTH));
        let is_new = flow.empty == Time::ZERO || now.since(flow.empty) >= IDLE;
        let empty = flow.empty.max(now) + RATE.transmit_time(Bytes::new(size as u64));
        // It fills no further than twice, so that nobody waits for what was sent long ago.
        flow.empty = empty.min(now + depth + depth);
        if is_new {
            flow.steady = now + STEADY;
        }
        if empty > now + depth {
            flow.steady = flow.empty + STEADY;
            return false;
        }
        // A short datagram of a flow that has only begun is part of none that grows.
        flow.steady <= now || !tcp && size <= SHORT && flow.steady <= now + STEADY
    }

    /// Whether all that go first leave room for one of `size` bytes, which is counted then.
    #[inline]
    pub(super) fn admit(&mut self, now: Time, size: usize) -> bool {
        let Some(share) = self.share else { return true };
        let busy = self.busy.max(now) + share.transmit_time(Bytes::new(size as u64));
        if busy > now + BURST + share.transmit_time(Bytes::new(1_500)) {
            return false;
        }
        self.busy = busy;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets of `size` bytes, `gap` ms apart from `from` on, until `to`: how many go first.
    fn go_first(sparse: &mut Sparse, tcp: bool, size: usize, gap: u64, from: u64, to: u64) -> (usize, usize) {
        let times: Vec<u64> = (from..to).step_by(gap as usize).collect();
        let first = times.iter().filter(|at| sparse.on_packet(Time::from_millis(**at), 3, size, tcp)).count();
        (first, times.len())
    }

    #[test]
    fn a_call_goes_first_from_its_first_packet_and_a_terminal_once_it_is_steady() {
        let mut sparse = Sparse::new(8);
        assert_eq!(go_first(&mut sparse, false, 200, 20, 10_000, 20_000), (500, 500));
        let mut sparse = Sparse::new(8);
        let (first, all) = go_first(&mut sparse, true, 100, 50, 10_000, 20_000);
        assert_eq!((first, all), (180, 200), "all but those of the first second");
    }

    #[test]
    fn a_transfer_never_goes_first_until_it_has_sent_little_for_long() {
        let mut sparse = Sparse::new(8);
        let (first, _) = go_first(&mut sparse, true, 1500, 1, 10_000, 12_000);
        assert_eq!(first, 0);
        // Its meter is full: 12 kB, that leave in 0.2 s; and a second more.
        let (first, all) = go_first(&mut sparse, true, 100, 50, 12_000, 30_000);
        assert!((all - 26..=all - 24).contains(&first), "{first} of {all}");
    }

    #[test]
    fn a_datagram_flow_of_long_packets_is_to_be_steady_first() {
        let mut sparse = Sparse::new(8);
        let (first, all) = go_first(&mut sparse, false, 1200, 40, 10_000, 14_000);
        assert_eq!((first, all), (75, 100), "240 kbit/s of packets of 1200 bytes");
        assert_eq!(
            go_first(&mut sparse, false, 1200, 10, 14_000, 20_000).0,
            9,
            "960 kbit/s: as many as its depth holds"
        );
    }

    #[test]
    fn many_small_flows_have_half_of_the_rate_and_an_unknown_bucket_nothing() {
        let mut sparse = Sparse::new(8);
        sparse.set_rate(Some(Rate::from_mbit(8)));
        let sent: usize = (0..10_000u64).filter(|us| sparse.admit(Time::from_nanos(us * 100_000), 200)).count() * 200;
        assert!((500_000..=512_000).contains(&sent), "4 Mbit/s for a second: {sent} bytes");
        assert!(!sparse.on_packet(Time::from_millis(9), 8, 100, false));
        sparse.set_rate(None);
        assert!((0..1000).all(|_| sparse.admit(Time::ZERO, 1500)));
    }
}
