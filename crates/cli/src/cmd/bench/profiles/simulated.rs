//! The same pairs in the simulator: each transfer is a scenario as `fairspan sim` runs them, made here.

use super::pairs::Pair;
use super::report::{Measured, Run};
use super::transfer::{DOWNLOAD, SOCKET_BUFFER, Told, WARM_UP};
use crate::cmd::bench::scenario;
use crate::simulation;
use crate::testbed::{Interrupt, Interrupted};
use anyhow::{Context, Result, anyhow};
use fairspan_core::bond::Bond;
use fairspan_core::link::Loss;
use fairspan_core::units::{Span, Time};
use fairspan_sim::results::Results;
use fairspan_sim::scenario::File;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long the bond has been up when the connection begins.
const IDLE: Duration = Duration::from_secs(10);
/// Most bytes that TCP's sockets buffer.
const BUFFER: u64 = SOCKET_BUFFER;

/// What is the same for all transfers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// The bond's mode.
    pub(super) mode: &'static str,
    /// The congestion control of the connections, as the kernel calls it.
    pub(super) cc: &'static str,
    /// Whether its channels have the paths' rates.
    pub(super) configured: bool,
    /// How long counts, after the warm-up.
    pub(super) duration: Duration,
}

/// Over what a transfer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Plain TCP over the path of this place.
    Alone(usize),
    /// A bond of both.
    Bond,
}

/// All runs of all pairs, one for each seed, on all cores: of each pair in the order of the seeds.
pub(super) fn measure(
    pairs: &[Pair],
    settings: Settings,
    seeds: &[u64],
    interrupt: &Interrupt,
    tell: impl Fn(&Pair, Told, &Run) + Sync,
) -> Result<Vec<Vec<Run>>> {
    let jobs: Vec<(usize, usize)> =
        (0..pairs.len()).flat_map(|pair| (0..seeds.len()).map(move |seed| (pair, seed))).collect();
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Run>)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(&(pair, seed)) = jobs.get(place) else { break };
                    let found = run(&pairs[pair], settings, seeds[seed], interrupt)
                        .with_context(|| format!("profile {}, seed {}", pairs[pair].name, seeds[seed]));
                    match &found {
                        Ok(found) => tell(&pairs[pair], Told { run: seed + 1, runs: seeds.len() }, found),
                        // Nobody else begins anything.
                        Err(_) => next.store(jobs.len(), Ordering::Relaxed),
                    }
                    if let Ok(mut results) = results.lock() {
                        results.push((place, found));
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().map_err(|_| anyhow!("a simulation panicked"))?;
    results.sort_by_key(|(place, _)| *place);
    let mut all: Vec<Vec<Run>> = pairs.iter().map(|_| Vec::new()).collect();
    for (place, found) in results {
        all[jobs[place].0].push(found?);
    }
    Ok(all)
}

/// Each path alone, then the bond of both.
fn run(pair: &Pair, settings: Settings, seed: u64, interrupt: &Interrupt) -> Result<Run> {
    let measured = |way| measured(pair, way, settings, seed, interrupt);
    let alone = [measured(Way::Alone(0))?, measured(Way::Alone(1))?];
    let file = transfer(pair, Way::Bond, settings, false)?;
    let scenario = file.run(0).context("a scenario has a run")?.map_err(simulation::bad_input)?.scenario;
    let config = scenario.bonds.first().context("the scenario has a bond")?.config.clone();
    let mtu = Bond::<Vec<u8>>::new(config, Time::ZERO, 1)?.mtu();
    Ok(Run {
        alone,
        bond: measured(Way::Bond)?,
        mtu: u32::try_from(mtu)?,
        ping_idle_ms: None,
        ping_loaded_ms: None,
        call: None,
    })
}

/// A transfer without end, and another one of 20 MiB that begins in the same way.
fn measured(pair: &Pair, way: Way, settings: Settings, seed: u64, interrupt: &Interrupt) -> Result<Measured> {
    let results = |download| -> Result<Results> {
        let mut file = transfer(pair, way, settings, download)?;
        file.set_seeds(vec![seed]);
        // Runs are spread over the cores.
        let options = simulation::Options { jobs: 1, ..simulation::Options::default() };
        let batch = simulation::run(&file, &options, interrupt)?;
        if batch.interrupted {
            return Err(Interrupted.into());
        }
        Ok(batch.finished.into_iter().next().context("a scenario has a run")?.results)
    };
    let mbit = results(false)?.goodput / 1e6;
    let downloads = results(true)?.flows.into_iter().next().and_then(|flow| flow.transfers);
    let download_s = downloads.filter(|transfers| transfers.completed > 0).map(|transfers| transfers.duration.max);
    Ok(Measured { mbit, download_s })
}

/// One TCP connection over both paths or one of them: without end, or a `download`.
fn transfer(pair: &Pair, way: Way, settings: Settings, download: bool) -> Result<File> {
    let start = if way == Way::Bond { IDLE } else { Duration::ZERO };
    // As long as a measurement waits for a download that is late.
    let length = (WARM_UP + settings.duration) * if download { 2 } else { 1 };
    let warm_up = if download { Duration::ZERO } else { start + WARM_UP };
    let mut text = format!(
        "duration = \"{}ms\"\nwarm_up = \"{}ms\"\n\n[[node]]\nname = [\"near\", \"far\"]\n",
        (start + length).as_millis(),
        warm_up.as_millis()
    );
    let mut channels = Vec::new();
    for (number, line) in [pair.a, pair.b].iter().enumerate() {
        let profile = line.profile();
        let loss = if let Loss::Independent(share) = profile.loss { share } else { 0.0 };
        let rate = line.rate().as_bits_per_sec();
        let _ = write!(
            text,
            "\n[[link]]\nname = \"path{number}\"\nfrom = \"near\"\nto = \"far\"\nrate = \"{rate}bit\"\ndelay = \"{}\"\n\
             jitter = \"{}\"\nreorder = {}\nloss = {loss:?}\nframing = \"14B\"\n",
            span(profile.delay),
            span(profile.jitter),
            profile.reorder
        );
        let rate = settings.configured.then(|| line.rate());
        channels.push(scenario::channel(&format!("path{number}"), rate));
    }
    let via = match way {
        Way::Alone(number) => format!("path{number}"),
        Way::Bond => {
            text.push_str(&scenario::bond(settings.mode, &channels));
            "bond".to_owned()
        }
    };
    let law = scenario::law(settings.cc);
    let bytes = if download { format!("bytes = \"{DOWNLOAD}B\"\n") } else { String::new() };
    let _ = write!(
        text,
        "\n[[flow]]\nname = \"tcp\"\nfrom = \"near\"\nto = \"far\"\nvia = \"{via}\"\nkind = \"ftp\"\nstart = \"{}ms\"\n{bytes}\
         tcp = {{ preset = \"linux\", congestion = \"{law}\", send_buffer = \"{BUFFER}B\", receive_buffer_maximum = \"{BUFFER}B\" }}\n",
        start.as_millis()
    );
    let mut read = |_: &str| Err("no file belongs to it".to_owned());
    Ok(File::parse_with(&pair.name, &text, &[], &mut read).map_err(simulation::bad_input)?)
}

fn span(span: Span) -> String {
    format!("{}ns", span.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIR: &str = "name = \"small\"\na = { rate_mbit = 8, delay_ms = 5 }\n\
        b = { rate_mbit = 4, delay_ms = 10, jitter_ms = 2, loss = 0.001, reorders = true }";

    #[test]
    fn a_simulated_bond_has_the_pairs_links_and_no_rate_where_it_measures_them() {
        let pair: Pair = toml::from_str(PAIR).unwrap();
        for configured in [true, false] {
            let settings = Settings { mode: "reliable", cc: "cubic", configured, duration: Duration::from_secs(1) };
            let file = transfer(&pair, Way::Bond, settings, false).unwrap();
            let scenario = file.run(0).unwrap().unwrap().scenario;
            let config = &scenario.bonds[0].config;
            let rates: Vec<bool> = config.channels.iter().map(|channel| channel.rate.is_some()).collect();
            assert_eq!(rates, [configured; 2]);
            let expected = [pair.a.profile(), pair.b.profile()];
            for (link, expected) in [&scenario.links[0], &scenario.links[2]].iter().zip(expected) {
                assert_eq!((&link.profile.loss, link.profile.delay), (&expected.loss, expected.delay));
                assert_eq!((link.profile.jitter, link.profile.reorder), (expected.jitter, expected.reorder));
                assert_eq!((&link.profile.capacity, link.profile.queue), (&expected.capacity, expected.queue));
            }
            assert_eq!((scenario.warm_up, scenario.duration), (Span::from_secs(15), Span::from_secs(16)));
        }
    }

    #[test]
    fn a_transfer_over_one_link_has_nearly_all_of_it_and_a_download_that_does_not_end_has_no_time() {
        let pair: Pair = toml::from_str(PAIR).unwrap();
        let settings = Settings { mode: "reliable", cc: "cubic", configured: false, duration: Duration::from_secs(1) };
        let interrupt = Interrupt::install().unwrap();
        let found = measured(&pair, Way::Alone(0), settings, 1, &interrupt).unwrap();
        // Of 1514 bytes 1448 are data.
        assert!((7.5..=7.66).contains(&found.mbit), "{found:?}");
        // 20 MiB take 22 s at that rate, and 12 s are waited for.
        assert_eq!(found.download_s, None);
    }
}
