//! The same recordings in the simulator: each is a scenario as `fairspan sim` runs them, made here.

use super::folder::{BUFFER, CONNECTS, LEAD, Recording};
use super::report::{Found, Settings, tell};
use crate::cmd::bench::scenario;
use crate::measure::median;
use crate::simulation;
use crate::testbed::{Interrupt, Interrupted};
use anyhow::{Context, Result, anyhow};
use fairspan_core::bond::Bond;
use fairspan_core::link::{Capacity, Series};
use fairspan_core::units::{Span, Time};
use fairspan_sim::scenario::File;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All recordings, on all cores.
pub(super) fn measure(
    recordings: &[Recording],
    settings: Settings,
    seeds: &[u64],
    interrupt: &Interrupt,
) -> Result<Vec<Found>> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<(usize, Result<Found>)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(recordings.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let place = next.fetch_add(1, Ordering::Relaxed);
                    let Some(recording) = recordings.get(place) else { break };
                    let found = one(recording, settings, seeds, interrupt);
                    if let Ok(found) = &found {
                        tell(recording, found);
                    }
                    let failed = found.is_err();
                    if let Ok(mut results) = results.lock() {
                        results.push((place, found));
                    }
                    if failed {
                        // Nobody else begins anything.
                        next.store(recordings.len(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let mut results = results.into_inner().map_err(|_| anyhow!("a simulation panicked"))?;
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, found)| found).collect()
}

fn one(recording: &Recording, settings: Settings, seeds: &[u64], interrupt: &Interrupt) -> Result<Found> {
    let mut file = drive(recording, settings)?;
    file.set_seeds(seeds.to_vec());
    let run = file.run(0).context("a scenario has a run")?.map_err(simulation::bad_input)?;
    let config = run.scenario.bonds.first().context("the scenario has a bond")?.config.clone();
    let mtu = Bond::<Vec<u8>>::new(config, Time::ZERO, 1)?.mtu();
    // Recordings are spread over the cores.
    let options = simulation::Options { jobs: 1, ..simulation::Options::default() };
    let batch = simulation::run(&file, &options, interrupt)?;
    if batch.interrupted {
        return Err(Interrupted.into());
    }
    let mbit: Vec<f64> = batch.finished.iter().map(|run| run.results.goodput / 1e6).collect();
    Ok(Found::new(median(&mbit).context("a scenario has a run")?, settings.mode, mtu, None))
}

/// The scenario of a recording, with a file for each link.
fn drive(recording: &Recording, settings: Settings) -> Result<File> {
    let (mut text, mut channels) = (String::new(), Vec::new());
    let mut files = Vec::new();
    let _ = write!(
        text,
        "duration = \"{}\"\nwarm_up = \"{}\"\n\n[[node]]\nname = [\"near\", \"far\"]\n",
        span(LEAD + recording.length),
        span(LEAD)
    );
    for (number, link) in recording.links.iter().enumerate() {
        let profile = link.profile(LEAD);
        let Capacity::Series(series) = &profile.capacity else { continue };
        files.push(csv(series));
        let delay = span(profile.delay);
        let _ = write!(
            text,
            "\n[[link]]\nname = \"link{number}\"\nfrom = \"near\"\nto = \"far\"\nseries = \"{number}\"\ndelay = \"{delay}\"\n\
             framing = \"14B\"\n"
        );
        channels.push(scenario::channel(&format!("link{number}"), None));
    }
    let Settings { cc, mode, .. } = settings;
    let law = scenario::law(cc);
    text.push_str(&scenario::bond(mode, &channels));
    let _ = write!(
        text,
        "\n[[flow]]\nname = \"tcp\"\nfrom = \"near\"\nto = \"far\"\nvia = \"bond\"\nkind = \"ftp\"\nstart = \"{}\"\n\
         tcp = {{ preset = \"linux\", congestion = \"{law}\", send_buffer = \"{BUFFER}B\", receive_buffer_maximum = \"{BUFFER}B\" }}\n",
        span(CONNECTS)
    );
    let mut read = |name: &str| {
        let place = name.parse::<usize>().map_err(|error| error.to_string())?;
        files.get(place).map(|text| text.clone().into_bytes()).ok_or_else(|| "there is no such link".to_owned())
    };
    Ok(File::parse_with(&recording.name, &text, &[], &mut read).map_err(simulation::bad_input)?)
}

fn csv(series: &Series) -> String {
    let mut text = String::from("s,mbit\n");
    for (start, rate) in series.steps() {
        let _ = writeln!(text, "{:.9},{:.6}", start.as_secs_f64(), rate.as_bits_per_sec() as f64 / 1e6);
    }
    text
}

fn span(span: Span) -> String {
    format!("{}ns", span.as_nanos())
}
