//! What a segment costs in TCP: both ends of a connection over a link of 2 Mbit/s with a buffer of 25,000 bytes, without
//! an event queue. An item is a data segment, its ACK included.

use divan::Bencher;
use divan::counter::ItemsCount;
use fairspan_core::units::{Span, Time};
use fairspan_sim::tcp::segment::Segment;
use fairspan_sim::tcp::{Config, Connection};
use std::collections::VecDeque;

fn main() {
    divan::main();
}

/// Runs for `seconds` of simulated time; gives the data segments sent.
fn transfer(config: &Config, seconds: u64) -> u64 {
    let rate_ns = 4000;
    let mut now = Time::ZERO;
    let mut sender = Connection::new(config, now, 1);
    let mut receiver = Connection::new(config, now, 2);
    receiver.listen(now);
    sender.open(now);
    sender.write(now, u64::MAX);
    let mut there: VecDeque<(Time, Segment)> = VecDeque::new();
    let mut back: VecDeque<(Time, Segment)> = VecDeque::new();
    let (mut free, mut timer) = (now, Time::ZERO);
    let end = Time::from_millis(seconds * 1000);
    loop {
        while let Some(segment) = sender.poll_transmit(now) {
            sender.write(now, u64::MAX);
            let size = u64::from(segment.length + sender.header_length(&segment));
            let start = free.max(now);
            if start.since(now).as_nanos() / rate_ns + size <= 25_000 {
                free = start + Span::from_nanos(size * rate_ns);
                there.push_back((free + Span::from_millis(10), segment));
            }
        }
        while let Some(segment) = receiver.poll_transmit(now) {
            back.push_back((now + Span::from_millis(10), segment));
        }
        if timer <= now {
            sender.handle_timeout(now);
            receiver.handle_timeout(now);
        }
        timer = sender.poll_timeout().unwrap_or(Time::MAX).min(receiver.poll_timeout().unwrap_or(Time::MAX));
        let next = |queue: &VecDeque<(Time, Segment)>| queue.front().map_or(Time::MAX, |(at, _)| *at);
        let (a, b) = (next(&there), next(&back));
        now = now.max(a.min(b).min(timer));
        if now > end {
            return sender.stats().data_segments_sent;
        }
        if a <= now {
            let (_, segment) = there.pop_front().unwrap();
            receiver.handle_segment(now, &segment);
            receiver.read(now, u64::MAX);
        }
        if b <= now {
            let (_, segment) = back.pop_front().unwrap();
            sender.handle_segment(now, &segment);
        }
    }
}

#[divan::bench(args = ["ns2-1999", "rfc", "linux"])]
fn bulk(bencher: Bencher, preset: &str) {
    let config = Config::preset(preset).unwrap();
    let segments = transfer(&config, 500);
    bencher.counter(ItemsCount::new(segments)).bench(|| transfer(&config, 500));
}

#[divan::bench(args = ["reno", "newreno", "sack", "rack"])]
fn detection(bencher: Bencher, loss: &str) {
    let mut config = Config::default();
    config.set("loss", loss).unwrap();
    let segments = transfer(&config, 500);
    bencher.counter(ItemsCount::new(segments)).bench(|| transfer(&config, 500));
}
