//! Order: theorem 4.1 without loss, theorems 5.1 and B.5 after it.

use super::network::{Channel, Delivered, Network, Source};
use super::{MAX, number, packet, random_lengths, random_quanta, set_of, told};
use crate::claims::evidence::{Cell, Evidence};
use crate::claims::{Answer, Bench};
use fairspan_core::causal::{Causal, Grr, LoadSharer, Resequencer, Rfq, Rr, Srr};
use fairspan_core::rng::Rng;
use fairspan_core::stripe::{Config, MarkerPlace};
use fairspan_core::units::{ChannelId, Span, Time};
use std::collections::VecDeque;

/// Theorem 4.1: every discipline as a resequencer, and the stripe's own ends over channels with any delays.
pub(crate) fn fifo(bench: &mut Bench) -> anyhow::Result<Answer> {
    let mut packets = 0;
    let disciplines = bench.cases(2000, |_, rng| {
        let set = set_of(&random_quanta(rng))?;
        let length = 1 + rng.below(400) as usize;
        let lengths = random_lengths(rng, length);
        packets += 4 * lengths.len();
        let seed = rng.next_u64();
        resequences(Srr::new(&set).map_err(|e| e.to_string())?, &lengths, rng).map_err(|e| format!("SRR: {e}"))?;
        resequences(Rr::new(&set).map_err(|e| e.to_string())?, &lengths, rng).map_err(|e| format!("RR: {e}"))?;
        resequences(Grr::new(&set).map_err(|e| e.to_string())?, &lengths, rng).map_err(|e| format!("GRR: {e}"))?;
        resequences(Rfq::new(&set, seed).map_err(|e| e.to_string())?, &lengths, rng).map_err(|e| format!("RFQ: {e}"))
    });
    let mut striped = 0;
    let stripes = bench.cases(500, |_, rng| lossless(rng).map(|n| striped += n));
    let outcome = disciplines.and_then(|d| Ok((d, stripes?))).map(|(d, s)| {
        format!(
            "{d} random streams by SRR, RR, GRR and RFQ, arriving in any interleaving ({packets} packets), and {s} over \
             two stripe ends with delays of 0 to 50 ms and jitter ({striped} packets): all in order, none missing"
        )
    });
    Ok(told(outcome))
}

/// Channels run at unlike and changing speeds; each keeps its own order.
fn resequences<C: Causal + Clone>(discipline: C, lengths: &[usize], rng: &mut Rng) -> Result<(), String> {
    let mut sharer = LoadSharer::new(discipline.clone());
    let mut resequencer: Resequencer<C, Vec<u8>> = Resequencer::new(discipline);
    let mut channels: Vec<VecDeque<Vec<u8>>> = vec![VecDeque::new(); ChannelId::LIMIT];
    for (i, &len) in lengths.iter().enumerate() {
        let packet = packet(i as u64, len);
        channels[sharer.assign(&packet).index()].push_back(packet);
    }
    let mut expected = 0;
    let mut busy: Vec<usize> = (0..channels.len()).filter(|&i| !channels[i].is_empty()).collect();
    while !busy.is_empty() {
        // A burst of one channel, of any length.
        let pick = rng.below(busy.len() as u64) as usize;
        let channel = busy[pick];
        for _ in 0..=rng.below(20) {
            let Some(packet) = channels[channel].pop_front() else { break };
            resequencer.handle(ChannelId(channel as u8), packet).map_err(|_| "no such channel")?;
            while let Some((_, packet)) = resequencer.poll() {
                if number(&packet) != expected {
                    return Err(format!("packet {} came out in place of {expected}", number(&packet)));
                }
                expected += 1;
            }
        }
        if channels[channel].is_empty() {
            busy.swap_remove(pick);
        }
    }
    if expected == lengths.len() as u64 { Ok(()) } else { Err(format!("{expected} of {} came out", lengths.len())) }
}

fn random_channels(count: usize, jitter: Span, rng: &mut Rng) -> Vec<Channel> {
    (0..count)
        .map(|_| {
            let mut channel = Channel::new(Span::from_micros(rng.below(50_000)));
            channel.jitter = jitter;
            channel
        })
        .collect()
}

fn lossless(rng: &mut Rng) -> Result<u64, String> {
    let quanta = random_quanta(rng);
    let jitter = Span::from_micros(rng.below(30_000));
    let channels = random_channels(quanta.len(), jitter, rng);
    let mut network = Network::new(&set_of(&quanta)?, channels, Config::default(), rng.next_u64())?;
    network.run_for(Span::from_millis(400));
    if !network.is_established() {
        return Err("the ends found no agreement in 400 ms".to_owned());
    }
    let gap = Span::from_micros(20 + rng.below(400));
    network.offer(Source::Every(gap), |rng| 8 + rng.below(MAX - 7) as usize);
    network.run_for(gap.times(500));
    network.stop();
    // The slowest channel and its jitter.
    network.run_for(Span::from_millis(500));
    let in_order = is_in_order(network.delivered.iter().map(|packet| packet.number));
    if !in_order || network.delivered.len() != network.sent.len() || network.sent.is_empty() {
        let first = network.delivered.iter().zip(0..).find(|(packet, n)| packet.number != *n);
        return Err(format!(
            "{} of {} packets came out, the first one wrong is {first:?}",
            network.delivered.len(),
            network.sent.len()
        ));
    }
    Ok(network.sent.len() as u64)
}

/// Theorems 5.1 and B.5: loss of 1 to 80 % of data and markers, and then none.
pub(crate) fn recovery(bench: &mut Bench) -> anyhow::Result<Answer> {
    let (mut latest, mut lost) = (0.0_f64, 0);
    let outcome = bench.cases(600, |_, rng| {
        let found = recovers(rng, Config::default().marker_interval)?;
        latest = latest.max(found.share_of_bound);
        lost += found.lost;
        Ok(())
    });
    let answer = told(outcome.map(|cases| {
        format!(
            "{cases} stripes over 2 to 64 channels that lost 1 to 80 % of data and markers ({lost} packets): all in \
             order within a marker period and the slowest channel's delay of the last loss; the latest after {:.0} % \
             of that",
            100.0 * latest
        )
    }));
    Ok(Answer { sensitivity: vec![by_interval(bench)], ..answer })
}

/// What becomes of it with other intervals between markers.
fn by_interval(bench: &Bench) -> Evidence {
    let columns = ["stripes in order again in time", "the latest after so much of that time, %", "and after, ms"];
    let of = "a marker on every channel at least so often; the paper names no interval";
    let mut table = Evidence::new(of, &columns);
    let usual = Config::default().marker_interval;
    for interval in [5, 10, 20, 50, 100].map(Span::from_millis) {
        let (mut share, mut last) = (0.0_f64, 0.0_f64);
        let in_time = bench.share(60, |rng| {
            let found = recovers(rng, interval);
            if let Ok(found) = &found {
                (share, last) = (share.max(found.share_of_bound), last.max(found.last_wrong.as_secs_f64()));
            }
            found.is_ok()
        });
        let cells = [in_time, 100.0 * share, 1e3 * last].map(Cell::exact);
        table.line(format!("{} ms", interval.as_nanos() / 1_000_000), interval == usual, cells.to_vec());
    }
    table
}

/// Of the four channels of `by_rounds`.
const QUANTA: [u64; 4] = [MAX; 4];

/// Four channels whose ends agree, with markers by rounds alone.
fn by_rounds(rng: &mut Rng, rounds: u32, place: MarkerPlace) -> Result<Network, String> {
    let channels = QUANTA.iter().map(|_| Channel::new(Span::from_micros(rng.below(5_000)))).collect();
    let mut config = Config::default();
    (config.marker_rounds, config.marker_place) = (rounds, place);
    // Longer than a run: no marker goes for another reason.
    (config.marker_interval, config.idle_gap) = (Span::from_secs(60), Span::from_secs(60));
    let mut network = Network::new(&set_of(&QUANTA)?, channels, config, rng.next_u64())?;
    network.run_for(Span::from_millis(400));
    if !network.is_established() {
        return Err("the ends found no agreement in 400 ms without loss".to_owned());
    }
    Ok(network)
}

/// Bytes that go while each channel sends a marker, where markers go every `rounds` rounds: those rounds, and one more, because a
/// channel may begin with less than a packet of credit, or of debt, and no packet is longer than a quantum.
fn marker_period(rounds: u32, quanta: &[u64]) -> u64 {
    (u64::from(rounds) + 1) * quanta.iter().sum::<u64>()
}

/// Lets a marker of each channel of `by_rounds` arrive, which goes every `rounds` rounds, while packets do every `gap`: how long
/// that took.
fn settle(network: &mut Network, rounds: u32, gap: Span) -> Span {
    let began = network.now;
    let sent = |network: &Network| network.bytes.iter().sum::<u64>();
    let until = sent(network) + marker_period(rounds, &QUANTA);
    while sent(network) < until {
        network.run_for(gap);
    }
    let slowest = network.channels.iter().map(|channel| channel.delay).max().unwrap_or(Span::ZERO);
    let good = allowed(network.now.since(began), slowest);
    network.run_for(slowest);
    good
}

/// How long after `since` the last of these packets came behind one with a higher number.
fn last_wrong(delivered: &[Delivered], since: Time) -> Span {
    let (mut highest, mut last) = (0, since);
    for packet in delivered {
        if packet.number < highest {
            last = packet.at.max(since);
        }
        highest = highest.max(packet.number);
    }
    last.since(since)
}

/// Loss of `loss` of data and markers on four channels, which then stops: how many seconds later the last packet came out
/// of order. Markers go by rounds alone.
pub(super) fn resynchronise(rng: &mut Rng, loss: f64, rounds: u32, place: MarkerPlace) -> Result<f64, String> {
    let mut network = by_rounds(rng, rounds, place)?;
    network.channels.iter_mut().for_each(|channel| channel.loss = loss);
    let gap = Span::from_micros(200);
    network.offer(Source::Every(gap), |rng| 8 + rng.below(MAX - 7) as usize);
    network.run_for(gap.times(400 + rng.below(600)));
    network.channels.iter_mut().for_each(|channel| channel.loss = 0.0);
    let stopped = network.now;
    let good = settle(&mut network, rounds, gap);
    // What comes out of order later is seen for ten times as long.
    network.run_for(good.times(10));
    let late = last_wrong(&network.delivered, stopped);
    if is_late(late, good) {
        return Err(format!(
            "loss {loss}, markers every {rounds} rounds: out of order {:.1} ms after the loss, more than {:.1} ms",
            1e3 * late.as_secs_f64(),
            1e3 * good.as_secs_f64()
        ));
    }
    Ok(late.as_secs_f64())
}

/// What came of packets that were sent while loss lasted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lasting {
    /// Packets that were not lost.
    pub(super) crossed: u64,
    /// Those that came out.
    pub(super) delivered: u64,
    /// And came out behind a later one.
    pub(super) wrong: u64,
}

/// Loss of `loss` of data and markers on four channels for a thousand packets. The ends found each other before it: how long that takes
/// under loss is another question. Markers go by rounds alone.
pub(super) fn lasting(rng: &mut Rng, loss: f64, rounds: u32, place: MarkerPlace) -> Result<Lasting, String> {
    let mut network = by_rounds(rng, rounds, place)?;
    network.channels.iter_mut().for_each(|channel| channel.loss = loss);
    let gap = Span::from_micros(200);
    network.offer(Source::Every(gap), |rng| 8 + rng.below(MAX - 7) as usize);
    network.run_for(gap.times(1000));
    network.stop();
    let (sent, crossed) = (network.sent.len() as u64, network.channels.iter().map(|channel| channel.crossed).sum());
    // What waits comes out with markers that are not lost.
    network.channels.iter_mut().for_each(|channel| channel.loss = 0.0);
    network.offer(Source::Every(gap), |rng| 8 + rng.below(MAX - 7) as usize);
    settle(&mut network, rounds, gap);
    let mut found = Lasting { crossed, ..Lasting::default() };
    let mut highest = 0;
    for packet in network.delivered.iter().filter(|packet| packet.number < sent) {
        found.delivered += 1;
        found.wrong += u64::from(packet.number < highest);
        highest = highest.max(packet.number);
    }
    Ok(found)
}

/// Whether these are all numbers from 0 on.
fn is_in_order(numbers: impl Iterator<Item = u64>) -> bool {
    numbers.zip(0..).all(|(number, n)| number == n)
}

/// How long after the last loss packets may come out of order: the sender's markers of one period, and their way.
fn allowed(period: Span, slowest: Span) -> Span {
    period + slowest
}

/// Whether the last packet out of order came later than that.
fn is_late(last_wrong: Span, allowed: Span) -> bool {
    last_wrong > allowed
}

struct Recovery {
    lost: u64,
    /// How long after the last loss that was.
    last_wrong: Span,
    /// When the last packet came out of order or went missing, as a share of what the theorem allows.
    share_of_bound: f64,
}

fn recovers(rng: &mut Rng, period: Span) -> Result<Recovery, String> {
    let quanta = random_quanta(rng);
    let jitter = Span::from_micros(rng.below(10_000));
    let channels = random_channels(quanta.len(), jitter, rng);
    let slowest = channels.iter().map(|channel| channel.delay).max().unwrap_or(Span::ZERO) + jitter;
    let mut config = Config::default();
    config.marker_interval = period;
    let mut network = Network::new(&set_of(&quanta)?, channels, config, rng.next_u64())?;
    network.run_for(Span::from_millis(400));
    if !network.is_established() {
        return Err("the ends found no agreement in 400 ms without loss".to_owned());
    }
    let loss = 0.01 + 0.79 * rng.unit();
    network.channels.iter_mut().for_each(|channel| channel.loss = loss);
    let gap = Span::from_micros(200);
    network.offer(Source::Every(gap), |rng| 8 + rng.below(MAX - 7) as usize);
    network.run_for(gap.times(400 + rng.below(600)));
    // Loss stops: what was sent until now may be missing or come late, what follows only for a while.
    network.channels.iter_mut().for_each(|channel| channel.loss = 0.0);
    let (stopped, before) = (network.now, network.sent.len() as u64);
    network.run_for(Span::from_millis(200));
    network.stop();
    network.run_for(Span::from_millis(500));
    let lost = network.sent.len() as u64 - network.delivered.len() as u64;
    let good = allowed(period, slowest);
    let last_wrong = last_wrong(&network.delivered, stopped);
    // Sent after the loss, nothing may be missing.
    let whole = network.delivered.iter().filter(|packet| packet.number >= before).count() as u64;
    if whole != network.sent.len() as u64 - before {
        return Err(format!(
            "{whole} of the {} packets sent without loss came out",
            network.sent.len() as u64 - before
        ));
    }
    if is_late(last_wrong, good) {
        return Err(format!(
            "loss {loss:.2} ended; a packet still came out of order {:.1} ms later, more than {:.1} ms",
            1e3 * last_wrong.as_secs_f64(),
            1e3 * good.as_secs_f64()
        ));
    }
    Ok(Recovery { lost, last_wrong, share_of_bound: last_wrong.as_secs_f64() / good.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_that_of_numbers_and_is_back_a_marker_period_and_the_slowest_way_after_the_loss() {
        assert!(is_in_order([0, 1, 2].into_iter()));
        for wrong in [[0, 2, 1], [1, 2, 3], [0, 1, 1], [0, 2, 3]] {
            assert!(!is_in_order(wrong.into_iter()), "{wrong:?}");
        }
        let good = allowed(Span::from_millis(10), Span::from_millis(25));
        assert!(!is_late(Span::from_millis(35), good) && is_late(Span::from_nanos(35_000_001), good));
    }

    #[test]
    fn the_last_packet_out_of_order_counts_from_the_end_of_the_loss() {
        let at = |(number, ms)| Delivered { number, sent: Time::ZERO, at: Time::from_millis(ms) };
        let wrong = |packets: &[(u64, u64)]| {
            last_wrong(&packets.iter().copied().map(at).collect::<Vec<_>>(), Time::from_millis(10))
        };
        assert_eq!(wrong(&[(0, 11), (1, 12), (3, 13), (4, 14)]), Span::ZERO, "a gap is no disorder");
        assert_eq!(wrong(&[(1, 8), (0, 9), (2, 12)]), Span::ZERO, "before the loss ended");
        assert_eq!(wrong(&[(1, 11), (0, 12), (3, 13), (2, 14), (4, 20)]), Span::from_millis(4));
    }

    /// The sum of the quanta is 6000 bytes.
    #[test]
    fn a_marker_period_is_its_rounds_and_one_more_and_ends_with_the_slowest_channel() {
        assert_eq!([1, 4, 16].map(|rounds| marker_period(rounds, &QUANTA)), [12_000, 30_000, 102_000]);
        let mut network = by_rounds(&mut Rng::new(3), 4, MarkerPlace::End).unwrap();
        network.channels.iter_mut().for_each(|channel| channel.delay = Span::from_millis(2));
        network.channels[1].delay = Span::from_millis(7);
        let gap = Span::from_micros(100);
        network.offer(Source::Every(gap), |_| 600);
        let began = network.now;
        // Fifty packets, the first at once.
        let good = settle(&mut network, 4, gap);
        assert_eq!(good, Span::from_micros(4900 + 7000), "{:?}", network.bytes);
        assert_eq!(network.now.since(began), good);
    }
}
