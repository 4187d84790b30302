//! Runs the parts of one divided world, on several threads or one after the other on this one: what comes out is the same.
//!
//! Threads meet once for each window of time ([`Part`] says what a window is). What goes from one to another in a window lies in one set
//! of boxes, and what goes in the next window in another, so nobody waits for a reader.

use crate::Error;
use fairspan_core::units::Time;
use fairspan_sim::model::Scenario;
use fairspan_sim::packet::Crossing;
use fairspan_sim::results::Captured;
use fairspan_sim::world::{Division, Part, World, WorldError};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often whoever watches is asked.
const LOOK: Duration = Duration::from_millis(20);
/// Events between two looks at whether to stop.
const SLICE: u64 = 10_000;
/// How often a thread looks whether the others have come before it lets somebody else have its core.
const SPINS: u32 = 5_000;
/// How long it leaves its core to others once it has looked twice as often.
const NAP: Duration = Duration::from_micros(50);

/// Who is told how far the run is: the packets that were recorded since, and the present. It says whether to go on.
pub(super) type Look<'a> = &'a mut dyn FnMut(Vec<Captured>, Time) -> Result<bool, Error>;

/// Where the parts' threads meet, and what they leave for one another.
struct Exchange {
    parts: usize,
    gate: Gate,
    boxes: [Boxes; 2],
}

/// What was left in one window.
struct Boxes {
    /// Of each part for each other one.
    crossings: Vec<Mutex<Vec<Crossing>>>,
    captured: Vec<Mutex<Vec<Captured>>>,
    /// When the next event of each part is, or of what it has left.
    next: Vec<AtomicU64>,
}

impl Boxes {
    fn new(parts: usize) -> Boxes {
        Boxes {
            crossings: (0..parts * parts).map(|_| Mutex::default()).collect(),
            captured: (0..parts).map(|_| Mutex::default()).collect(),
            next: (0..parts).map(|_| AtomicU64::new(u64::MAX)).collect(),
        }
    }
}

/// Takes what is in a box. Nobody panics with a box in hand.
fn take<T>(content: &Mutex<Vec<T>>) -> Vec<T> {
    std::mem::take(&mut *content.lock().unwrap_or_else(PoisonError::into_inner))
}

fn put<T>(content: &Mutex<Vec<T>>, what: Vec<T>) {
    *content.lock().unwrap_or_else(PoisonError::into_inner) = what;
}

/// Lets threads go on when all have come, or when one says that it is over.
struct Gate {
    threads: usize,
    waiting: AtomicUsize,
    round: AtomicUsize,
    stopped: AtomicBool,
}

impl Gate {
    /// Waits for all the others, and now and then asks meanwhile whether to stop: whether it goes on.
    fn wait(&self, ask: &mut dyn FnMut() -> Result<bool, Error>) -> Result<bool, Error> {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Relaxed);
            self.round.store(round.wrapping_add(1), Ordering::Release);
        } else {
            let mut spins = 0_u32;
            while self.round.load(Ordering::Acquire) == round {
                if self.stopped.load(Ordering::Acquire) || (spins > SPINS && !ask()?) {
                    return Ok(false);
                }
                spins = spins.saturating_add(1);
                if spins < SPINS {
                    std::hint::spin_loop();
                } else if spins < 2 * SPINS {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(NAP);
                }
            }
        }
        Ok(!self.stopped.load(Ordering::Acquire))
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }
}

/// Whoever watches, asked by one thread.
struct Watched<'a> {
    look: Option<Look<'a>>,
    last: Instant,
}

impl Watched<'_> {
    /// Whether to go on, as far as it is time to ask.
    fn ask(&mut self, now: Time) -> Result<bool, Error> {
        if self.look.is_some() && self.last.elapsed() >= LOOK { self.tell(Vec::new(), now) } else { Ok(true) }
    }

    /// Whether to go on after this.
    fn tell(&mut self, captured: Vec<Captured>, now: Time) -> Result<bool, Error> {
        self.last = Instant::now();
        self.look.as_mut().map_or(Ok(true), |look| look(captured, now))
    }
}

/// Ends the wait of the others where a thread ends by an error or a panic.
struct Leaves<'a>(&'a Gate, bool);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        if !self.1 {
            self.0.stop();
        }
    }
}

/// Runs a divided world to its end: the world of all its parts, or `None` where `look` said so half-way.
///
/// # Errors
/// What cannot be run; what `look` could not do.
pub(super) fn run(
    scenario: &Arc<Scenario>,
    division: &Arc<Division>,
    threads: usize,
    look: Look<'_>,
) -> Result<Option<World>, Error> {
    let parts = division.count() as usize;
    let threads = threads.clamp(1, parts);
    let gate =
        Gate { threads, waiting: AtomicUsize::new(0), round: AtomicUsize::new(0), stopped: AtomicBool::new(false) };
    let exchange = Exchange { parts, gate, boxes: [Boxes::new(parts), Boxes::new(parts)] };
    let mut all = std::thread::scope(|scope| {
        let exchange = &exchange;
        // Whatever happens here, nobody waits for this thread.
        let mut leaves = Leaves(&exchange.gate, false);
        let mut helpers = Vec::new();
        for thread in 1..threads {
            let run = move || exchange.run(scenario, division, thread, threads, None);
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(helper) => helpers.push(helper),
                Err(error) => {
                    return Err(Error::Input(format!("no thread could be started: {error}; `--jobs 1` needs none")));
                }
            }
        }
        let mut all = vec![exchange.run(scenario, division, 0, threads, Some(look))];
        leaves.1 = true;
        for helper in helpers {
            all.push(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        all.into_iter().collect::<Result<Vec<_>, Error>>()
    })?
    .into_iter()
    .collect::<Option<Vec<_>>>()
    .map(|lists| lists.into_iter().flatten().collect::<Vec<_>>());
    if let Some(all) = &mut all {
        all.sort_by_key(|(number, _)| *number);
    }
    Ok(all.and_then(|all| Part::join(all.into_iter().map(|(_, part)| part).collect())))
}

impl Exchange {
    /// Runs every `threads`th part from this one on; `None` where it was told to stop.
    fn run(
        &self,
        scenario: &Arc<Scenario>,
        division: &Arc<Division>,
        thread: usize,
        threads: usize,
        look: Option<Look<'_>>,
    ) -> Result<Option<Vec<(usize, Part)>>, Error> {
        let mut leaves = Leaves(&self.gate, false);
        let make = |number: usize| Ok((number, Part::new(scenario.clone(), division, number as u32)?));
        let parts = (thread..self.parts).step_by(threads).map(make).collect::<Result<Vec<_>, WorldError>>();
        let mut parts = parts.map_err(|error| Error::Input(error.to_string()))?;
        let (mut watch, mut now) = (Watched { look, last: Instant::now() }, Time::ZERO);
        let mut lists: Vec<Vec<Crossing>> = (0..self.parts).map(|_| Vec::new()).collect();
        for window in 0_usize.. {
            let boxes = &self.boxes[window % 2];
            parts.iter_mut().for_each(|(number, part)| self.leave(boxes, *number, part, &mut lists));
            if !self.gate.wait(&mut || watch.ask(now))? {
                return Ok(None);
            }
            let first = boxes.next.iter().map(|next| next.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX);
            let first = (first < u64::MAX).then(|| Time::from_nanos(first));
            now = first.unwrap_or_else(|| parts[0].1.end());
            if thread == 0 {
                let mut captured: Vec<Captured> = boxes.captured.iter().flat_map(take).collect();
                captured.sort_by_key(|captured| captured.at);
                let goes_on =
                    if captured.is_empty() && first.is_some() { watch.ask(now) } else { watch.tell(captured, now) };
                // What is complete is kept.
                if !goes_on? && first.is_some() {
                    return Ok(None);
                }
            }
            let Some(first) = first else { break };
            for (number, part) in &mut parts {
                for from in 0..self.parts {
                    take(&boxes.crossings[from * self.parts + *number]).into_iter().for_each(|it| part.receive(it));
                }
            }
            for (_, part) in &mut parts {
                let until = part.window(first);
                while !part.advance_some(until, SLICE) {
                    if self.gate.stopped.load(Ordering::Relaxed) || !watch.ask(now)? {
                        return Ok(None);
                    }
                }
            }
        }
        parts.iter_mut().for_each(|(_, part)| part.advance(part.end()));
        leaves.1 = true;
        Ok(Some(parts))
    }

    /// A part leaves what it has for others, and says when it goes on.
    fn leave(&self, boxes: &Boxes, number: usize, part: &mut Part, lists: &mut [Vec<Crossing>]) {
        let mut next = part.next_event().map_or(u64::MAX, |time| time.as_nanos());
        let end = part.end();
        part.take_crossings(&mut |to, crossing| {
            // What comes after the end still has to be counted as under way.
            next = next.min(crossing.due.min(end).as_nanos());
            lists[to as usize].push(crossing);
        });
        for (to, list) in lists.iter_mut().enumerate().filter(|(_, list)| !list.is_empty()) {
            put(&boxes.crossings[number * self.parts + to], std::mem::take(list));
        }
        let captured = part.take_captured();
        if !captured.is_empty() {
            put(&boxes.captured[number], captured);
        }
        boxes.next[number].store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_sim::scenario::File;

    const TREE: &str = "duration = \"400us\"\npartitions = 4\necmp = true\n[[graph]]\nname = \"dc\"\nshape = \"fat-tree\"\nk = 4\n\
        rate = \"10Gbit\"\ndelay = \"1us\"\n[[flow]]\ncount = 16\nname = \"f#\"\nfrom = \"dc-h#\"\nto = \"dc-h#+7%16\"\n\
        kind = \"ftp\"\nstart = \"0s\"\nspread = \"10us\"\n[metrics]\ncapture = [\"dc-h0:e0\", \"dc-h9:e4\", \"dc-a0:c0\"]\n";

    fn tree_of(text: &str) -> (Arc<Scenario>, Arc<Division>) {
        let file = File::parse("tree.toml", text, &mut |_| Err("no files".into())).expect("a scenario");
        let scenario = Arc::new(file.run(0).expect("a run").expect("that can be built").scenario);
        let division = Arc::new(Division::new(&scenario));
        assert_eq!(division.count(), 4);
        (scenario, division)
    }

    fn tree() -> (Arc<Scenario>, Arc<Division>) {
        tree_of(TREE)
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bytes() {
        let (scenario, division) = tree();
        let on = |threads| {
            let mut captured = Vec::new();
            let mut look = |some: Vec<Captured>, _| {
                captured.extend(some);
                Ok(true)
            };
            let world = run(&scenario, &division, threads, &mut look).expect("it runs").expect("to its end");
            (world.finish().expect("packets are conserved"), captured)
        };
        let (results, captured) = on(1);
        assert!(results.flows.iter().all(|flow| flow.received > 10), "{:?}", results.flows);
        assert!(captured.len() > 100 && captured.is_sorted_by_key(|captured| captured.at));
        for threads in [2, 3, 4, 9] {
            assert_eq!(on(threads), (results.clone(), captured.clone()), "{threads} threads");
        }
    }

    #[test]
    fn whoever_looks_stops_all_threads_or_ends_the_run_with_an_error() {
        let (scenario, division) = tree();
        for threads in [1, 4] {
            let mut looks = 0;
            let mut stop = |_: Vec<Captured>, _| {
                looks += 1;
                Ok(looks < 3)
            };
            assert!(run(&scenario, &division, threads, &mut stop).expect("no error").is_none());
            assert_eq!(looks, 3);
            let mut fail = |_: Vec<Captured>, _| Err(Error::Input("full".into()));
            assert!(
                run(&scenario, &division, threads, &mut fail).is_err_and(|error| error.to_string().contains("full"))
            );
        }
    }

    #[test]
    fn whoever_looks_sees_the_end_and_what_is_complete_is_kept() {
        // Nothing happens any more long before the end, so whoever hears of the end hears that all is done.
        let datagrams = "kind = \"constant\"\nrate = \"1Gbit\"\nsize = \"500B\"\nstop = \"100us\"";
        let (text, _) = TREE.split_once("[metrics]").expect("captures are at its end");
        let (quiet, division) = tree_of(&text.replace("kind = \"ftp\"", datagrams));
        let (end, mut seen) = (Time::ZERO + quiet.duration, Vec::new());
        let mut look = |_: Vec<Captured>, now: Time| {
            seen.push(now);
            Ok(now < end)
        };
        assert!(run(&quiet, &division, 2, &mut look).expect("it runs").is_some());
        assert_eq!(seen.last(), Some(&end));
    }

    #[test]
    fn what_cannot_be_built_is_told_once_and_nobody_waits() {
        let (scenario, division) = tree();
        let mut wrong = (*scenario).clone();
        wrong.flows[3].path.pop();
        let told = run(&Arc::new(wrong), &division, 4, &mut |_, _| Ok(true));
        assert!(told.is_err_and(|error| error.to_string().contains("f3")));
    }
}
