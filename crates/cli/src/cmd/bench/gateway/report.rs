//! What `bench gateway` found: the JSON document and the tables.

use super::abandoned;
use super::bed::{CONGESTION, GATEWAY_CONGESTION, RECEIVE_BUFFER, SEND_BUFFER};
use super::beside::Course;
use super::far::{Download, Long, Way};
use super::many::{self, WARM_UP};
use crate::measure::median;
use crate::report::text::{row, table};
use serde::Serialize;
use std::fmt::Write as _;

/// The document that `fairspan bench gateway --json` prints.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Report {
    runs: u32,
    ip: u8,
    congestion: &'static str,
    gateway_congestion: &'static str,
    tcp_rmem: &'static str,
    tcp_wmem: &'static str,
    pub(super) downloads: Vec<Downloads>,
    pub(super) beside: Vec<Besides>,
    pub(super) many: Option<Many>,
    pub(super) abandoned: Vec<abandoned::Found>,
}

/// The median of the runs, the least and the most of them, and how many there were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Spread {
    median: f64,
    min: f64,
    max: f64,
    runs: usize,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Spread> {
        let values: Vec<f64> = values.collect();
        let least = values.iter().copied().reduce(f64::min)?;
        let most = values.iter().copied().reduce(f64::max)?;
        let median = rounded(median(&values)?);
        Some(Spread { median, min: rounded(least), max: rounded(most), runs: values.len() })
    }

    /// The cells median, min, max.
    fn cells(spread: Option<Spread>, digits: usize) -> [String; 3] {
        let cell = |value: fn(Spread) -> f64| spread.map_or("-".to_owned(), |one| format!("{:.digits$}", value(one)));
        [cell(|one| one.median), cell(|one| one.min), cell(|one| one.max)]
    }
}

/// The long link.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Link {
    rate_mbit: f64,
    round_trip_ms: f64,
    loss: f64,
}

impl Link {
    fn of(link: &Long) -> Link {
        Link { rate_mbit: link.mbit(), round_trip_ms: link.round_trip.as_nanos() as f64 / 1e6, loss: link.loss }
    }
}

/// Downloads of one size over one link.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Downloads {
    link: Link,
    megabytes: u32,
    ways: Vec<Downloaded>,
}

#[derive(Debug, PartialEq, Serialize)]
struct Downloaded {
    way: &'static str,
    seconds: Option<Spread>,
    first_byte_s: Option<Spread>,
    mbit: Option<Spread>,
    /// Application data from the first byte to the last, of the link's rate.
    of_link: Option<f64>,
    /// How many times faster than unsplit, by the medians of `seconds`.
    faster: Option<f64>,
}

impl Downloads {
    pub(super) fn new(link: &Long, megabytes: u32, ways: &[Way], found: &[Vec<Download>]) -> Downloads {
        let each = |runs: &[Download], value: fn(&Download) -> f64| Spread::of(runs.iter().map(value));
        let seconds: Vec<_> = found.iter().map(|runs| each(runs, |run| run.seconds)).collect();
        let unsplit = ways.iter().position(|way| *way == Way::Unsplit).and_then(|index| *seconds.get(index)?);
        let ways = ways.iter().zip(found).zip(&seconds).map(|((way, runs), seconds)| {
            let mbit = each(runs, |run| run.mbit);
            Downloaded {
                way: way.name(),
                seconds: *seconds,
                first_byte_s: each(runs, |run| run.first_s),
                mbit,
                of_link: mbit.map(|mbit| rounded(mbit.median / link.mbit())),
                faster: unsplit.zip(*seconds).map(|(unsplit, own)| rounded(unsplit.median / own.median)),
            }
        });
        Downloads { link: Link::of(link), megabytes, ways: ways.collect() }
    }
}

/// TCP beside UDP over one link.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Besides {
    link: Link,
    seconds: u32,
    ways: Vec<BesideWay>,
}

#[derive(Debug, PartialEq, Serialize)]
struct BesideWay {
    way: &'static str,
    /// TCP's part of what the link can carry of application data, over the last half of the time.
    share: Option<Spread>,
    /// Seconds from the first SYN until a second with 90 % of half the link was over; of the runs in which it came.
    fair_after_s: Option<Spread>,
    /// Mbit/s of each second since the first SYN: medians of the runs.
    mbit: Vec<f64>,
    udp_offered_mbit: Option<Spread>,
    udp_came_mbit: Option<Spread>,
}

impl Besides {
    pub(super) fn new(link: &Long, seconds: u32, ways: &[Way], found: &[Vec<Course>]) -> Besides {
        let ways = ways.iter().zip(found).map(|(way, runs)| {
            let longest = runs.iter().map(|run| run.mbit.len()).max().unwrap_or(0);
            let second = |at: usize| runs.iter().filter_map(|run| run.mbit.get(at).copied()).collect::<Vec<_>>();
            BesideWay {
                way: way.name(),
                share: Spread::of(runs.iter().map(|run| run.share)),
                fair_after_s: Spread::of(runs.iter().filter_map(|run| run.fair_after_s)),
                mbit: (0..longest).filter_map(|at| median(&second(at)).map(rounded)).collect(),
                udp_offered_mbit: Spread::of(runs.iter().map(|run| run.udp.offered / 1e6)),
                udp_came_mbit: Spread::of(runs.iter().map(|run| run.udp.came / 1e6)),
            }
        });
        Besides { link: Link::of(link), seconds, ways: ways.collect() }
    }
}

/// Many downloads at once.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Many {
    connections: usize,
    seconds: u32,
    ways: Vec<ManyWay>,
}

#[derive(Debug, PartialEq, Serialize)]
struct ManyWay {
    way: &'static str,
    gbit_s: Option<Spread>,
    /// The fewest connections of all runs that received anything.
    served: usize,
    process_cpu_s_gb: Option<Spread>,
    machine_cpu_s_gb: Option<Spread>,
    peak_mb: Option<Spread>,
    of_haproxy: Option<f64>,
}

impl Many {
    pub(super) fn new(connections: usize, seconds: u32, ways: &[many::Way], found: &[Vec<many::Found>]) -> Many {
        let rates: Vec<_> = found.iter().map(|runs| Spread::of(runs.iter().map(|run| run.gbit_s))).collect();
        let haproxy = ways.iter().position(|way| *way == many::Way::Haproxy).and_then(|index| *rates.get(index)?);
        let ways = ways.iter().zip(found).zip(&rates).map(|((way, runs), gbit_s)| ManyWay {
            way: way.name(),
            gbit_s: *gbit_s,
            served: runs.iter().map(|run| run.served).min().unwrap_or(0),
            process_cpu_s_gb: Spread::of(runs.iter().filter_map(|run| run.process_s_gb)),
            machine_cpu_s_gb: Spread::of(runs.iter().map(|run| run.machine_s_gb)),
            peak_mb: Spread::of(runs.iter().filter_map(|run| run.peak_mb)),
            of_haproxy: haproxy.zip(*gbit_s).map(|(haproxy, own)| rounded(own.median / haproxy.median)),
        });
        Many { connections, seconds, ways: ways.collect() }
    }
}

impl Report {
    pub(super) fn new(runs: u32, v6: bool) -> Report {
        Report {
            runs,
            ip: if v6 { 6 } else { 4 },
            congestion: CONGESTION,
            gateway_congestion: GATEWAY_CONGESTION,
            tcp_rmem: RECEIVE_BUFFER,
            tcp_wmem: SEND_BUFFER,
            downloads: Vec::new(),
            beside: Vec::new(),
            many: None,
            abandoned: Vec::new(),
        }
    }

    /// The tables, for people.
    pub(super) fn table(&self) -> String {
        let mut text = String::new();
        if !self.downloads.is_empty() {
            text += &downloads(&self.downloads);
        }
        if !self.beside.is_empty() {
            text += &beside(&self.beside);
        }
        if let Some(found) = &self.many {
            text += &many(found);
        }
        if !self.abandoned.is_empty() {
            text += &abandoned(&self.abandoned);
        }
        let _ = writeln!(
            text,
            "{} interleaved run(s) of each way; medians, min and max of the runs. TCP over IPv{}; ends: {}, tcp_rmem {}, \
             tcp_wmem {}; gateways:\n{} where nothing else is said. Nothing is remembered of former connections (tcp_no_metrics_save).",
            self.runs, self.ip, self.congestion, self.tcp_rmem, self.tcp_wmem, self.gateway_congestion
        );
        text
    }
}

fn head(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
}

fn downloads(found: &[Downloads]) -> String {
    let names = ["", "MB", "loss", "seconds", "min", "max", "times\nfaster", "first\nbyte s", "Mbit/s", "min", "max"];
    let mut rows = table(&head(&[&names[..], &["of link"]].concat()));
    for size in found {
        for way in &size.ways {
            let mut cells = vec![way.way.to_owned(), size.megabytes.to_string(), percent(Some(size.link.loss))];
            cells.extend(Spread::cells(way.seconds, 2));
            cells.push(way.faster.map_or("-".to_owned(), |faster| format!("{faster:.2}")));
            cells.extend(Spread::cells(way.first_byte_s, 2).into_iter().take(1));
            cells.extend(Spread::cells(way.mbit, 1));
            cells.push(percent(way.of_link));
            rows.add_row(row(&cells));
        }
    }
    let link = found.first().map(|size| size.link);
    let link = link.map_or_else(String::new, |link| format!("{} Mbit/s, {} ms", link.rate_mbit, link.round_trip_ms));
    format!(
        "{rows}\n\nOne download over a link of {link} round trip (Ethernet headers included: TCP fills at most 95.6 % of it), the \
         first\nof a new connection: nothing is warm. Seconds: from the first SYN to the last byte. Mbit/s: from the first byte to the\n\
         last. Every byte is compared. Gateways: rate 98 % of the link's (93 % below a bond's headers), bbr, initial_window the product of rate and round trip.\n\n"
    )
}

fn beside(found: &[Besides]) -> String {
    let names =
        ["", "ms", "of link", "min", "max", "fair\nafter s", "min", "max", "of runs", "UDP Mbit/s\noffered", "came"];
    let mut rows = table(&head(&names));
    for link in found {
        for way in &link.ways {
            let mut cells = vec![way.way.to_owned(), format!("{:.0}", link.link.round_trip_ms)];
            let share = way.share.map(|share| [share.median, share.min, share.max]);
            cells.extend((0..3).map(|at| percent(share.map(|share| share[at]))));
            cells.extend(Spread::cells(way.fair_after_s, 1));
            let all = way.share.map_or(0, |share| share.runs);
            cells.push(format!("{}/{all}", way.fair_after_s.map_or(0, |fair| fair.runs)));
            for udp in [way.udp_offered_mbit, way.udp_came_mbit] {
                cells.extend(Spread::cells(udp, 1).into_iter().take(1));
            }
            rows.add_row(row(&cells));
        }
    }
    let mut text = format!("{rows}\n\n");
    for link in found {
        for way in &link.ways {
            let rates: Vec<String> = way.mbit.iter().map(|rate| format!("{rate:.0}")).collect();
            let _ =
                writeln!(text, "{:.0} ms, {}: Mbit/s by second {}", link.link.round_trip_ms, way.way, rates.join(" "));
        }
    }
    let seconds = found.first().map_or(0, |link| link.seconds);
    let _ = writeln!(
        text,
        "\nOne TCP download beside UDP of 1200-byte datagrams that offers twice the link, both from the server, for {seconds} s after 2 s of UDP\n\
         alone. Of link: TCP's application data in the last half of the time, of the most that TCP could carry. Fair after: from the first \
         SYN\nuntil the first second with 90 % of half of that was over, in so many of the runs.\n"
    );
    text
}

fn many(found: &Many) -> String {
    let names = ["", "Gbit/s", "min", "max", "of haproxy", "CPU s/GB\nprocess", "machine", "peak MB", "served"];
    let mut rows = table(&head(&names));
    for way in &found.ways {
        let mut cells = vec![way.way.to_owned()];
        cells.extend(Spread::cells(way.gbit_s, 2));
        cells.push(percent(way.of_haproxy));
        for (spread, digits) in [(way.process_cpu_s_gb, 3), (way.machine_cpu_s_gb, 3), (way.peak_mb, 1)] {
            cells.extend(Spread::cells(spread, digits).into_iter().take(1));
        }
        cells.push(way.served.to_string());
        rows.add_row(row(&cells));
    }
    format!(
        "{rows}\n\n{} downloads at once through one gateway over veth pairs, no emulator, for {} s after {} s that do not count. Gbit/s: \
         application data\nof all. CPU: processor time per 10^9 bytes of it, of the gateway's process, and of the whole machine, ends included. \
         Peak MB:\nthe process's memory (VmHWM), without the kernel's buffers. haproxy: one thread, mode tcp, option splice-auto. Served: \
         connections\nthat received anything, the fewest of the runs.\n\n",
        found.connections,
        found.seconds,
        WARM_UP.as_secs()
    )
}

fn abandoned(found: &[abandoned::Found]) -> String {
    let names = [
        "run",
        "exact",
        "reset",
        "half\nclosed",
        "silent",
        "wrong",
        "failed",
        "sockets\nbefore",
        "at end",
        "left",
        "cleared s",
        "MB\nbefore",
        "peak",
        "after",
        "left in\nkernel",
    ];
    let mut rows = table(&head(&names));
    for (run, one) in found.iter().enumerate() {
        let mut cells = vec![(run + 1).to_string()];
        let counts = [one.exact, one.reset, one.half_closed, one.silent, one.wrong, one.failed];
        cells.extend(counts.map(|count| count.to_string()));
        cells.extend([one.sockets_before, one.sockets_at_end, one.sockets_left].map(|count| count.to_string()));
        cells.push(one.cleared_s.map_or("never".to_owned(), |seconds| format!("{seconds:.1}")));
        let memory = [one.memory_before_mb, one.memory_peak_mb, one.memory_after_mb];
        cells.extend(memory.map(|megabytes| format!("{megabytes:.1}")));
        cells.push(one.left_in_kernel.len().to_string());
        rows.add_row(row(&cells));
    }
    let failures: Vec<String> = found.iter().filter_map(|one| one.failure.clone()).collect();
    let mut text = format!(
        "{rows}\n\n{} connections in each run, each of up to 100 kB both ways, half of them abandoned at a random byte: by a reset, by an early \
         end\nof one direction, or by falling silent, which nobody is told of. Cleared: until no more sockets were left than before \
         (TIME-WAIT is\nnone). Left in kernel: tables of packet rules, rules and routes, when the gateway has ended.\n",
        found.first().map_or(0, |one| one.connections)
    );
    if let Some(failure) = failures.first() {
        let _ = writeln!(text, "The first that failed: {failure}");
    }
    text.push('\n');
    text
}

/// Three decimals.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
