//! The whole daemon in the simulator's time: two to five daemons of `fairspan up` on hosts in memory, one thread, no clock.
//!
//! What runs is what ships: shell, role, bonds, sessions, sockets, offload and the requests to the kernel. What stands in
//! for the kernel ([`System`](crate::system::System)) is a host in memory, and between the hosts are links that lose,
//! double, delay, corrupt, replay and forge. A seed draws all of it, and what happens follows from the seed alone.
//!
//! | file | idea |
//! |---|---|
//! | `scene` | what a seed draws: hosts, links, settings, how much goes wrong |
//! | `host`, `routing` | a host in the kernel's place; its interfaces, addresses, routes and rules |
//! | `kept` | what a host keeps of one process for the next |
//! | `network` | links, address translation, an adversary who has heard everything |
//! | `traffic` | what the hosts send, and the judge of what arrives |
//! | `trouble` | what goes wrong with links, hosts and processes, and how it ends |
//! | `failures` | links, interfaces, addresses and processes that fail one by one: what the hosts see of it, and when all is well |
//! | `refused` | what the kernel refuses of another configuration |
//! | `world` | the order of everything |
//! | `sabotage` | what is done wrong on purpose, to see that it is found |
//! | `proof` | memory at each step; that all goes well again, and when |
//! | `telling` | what is printed of a seed that someone looks at |
//! | `seeds.txt` | seeds that once broke a promise, each with the reason |
//!
//! A fault is one thing that goes wrong: a datagram lost, doubled, delayed, corrupted, replayed or forged; a system call
//! that fails; a way that is cut; an interface, an address, a process that comes or goes.

mod failures;
mod host;
mod kept;
mod network;
mod proof;
mod refused;
mod routing;
mod sabotage;
mod scene;
mod telling;
mod traffic;
mod trouble;
mod world;

use sabotage::Sabotage;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use traffic::{Violation, What};
use world::{Outcome, World};

/// Faults that one run of the tests makes, unless `FAIRSPAN_FAULTS` says otherwise.
const FAULTS: u64 = 1_000_000;
/// Threads that the seeds are shared among.
const THREADS: u64 = 2;

/// The number that an environment variable holds.
fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.replace('_', "").parse().expect("a number"))
}

fn run(seed: u64, sabotage: Option<Sabotage>) -> Result<Outcome, Violation> {
    World::new(seed, sabotage).run()
}

/// Runs a seed and prints what happens.
fn show(seed: u64) -> Result<Outcome, Violation> {
    let mut world = World::new(seed, None);
    world.tells = true;
    world.run()
}

/// Runs a seed, and says how to run it again when a promise is broken.
fn hold(seed: u64) -> Result<Outcome, String> {
    run(seed, None).map_err(|violation| {
        format!(
            "seed {seed}: {violation:?}\n  again: FAIRSPAN_SEED={seed} cargo test -p fairspan-live --lib \
             simulated::no_fault_breaks -- --nocapture"
        )
    })
}

/// The seeds of the corpus.
fn corpus() -> impl Iterator<Item = u64> {
    let lines = include_str!("seeds.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.split_whitespace().next().and_then(|seed| seed.parse().ok()).expect("a seed, then why"))
}

#[test]
fn no_fault_breaks_a_promise() {
    if let Some(seed) = number_of("FAIRSPAN_SEED") {
        let outcome = show(seed).unwrap_or_else(|violation| panic!("{violation:?}"));
        println!("{outcome:?}");
        return;
    }
    let wanted = number_of("FAIRSPAN_FAULTS").unwrap_or(FAULTS);
    let first = number_of("FAIRSPAN_FIRST_SEED").unwrap_or(1);
    let (next, faults, broken) = (AtomicU64::new(first), AtomicU64::new(0), Mutex::new(Vec::new()));
    let (delivered, virtual_time, oldest) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        while faults.load(Ordering::Relaxed) < wanted && broken.lock().expect("no panic").len() < 10 {
            match hold(next.fetch_add(1, Ordering::Relaxed)) {
                Ok(outcome) => {
                    faults.fetch_add(outcome.faults, Ordering::Relaxed);
                    delivered.fetch_add(outcome.delivered, Ordering::Relaxed);
                    virtual_time.fetch_add(outcome.virtual_time, Ordering::Relaxed);
                    oldest.fetch_max(outcome.oldest, Ordering::Relaxed);
                }
                Err(error) => broken.lock().expect("no panic").push(error),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(work);
        }
    });
    println!(
        "{} faults in {} seeds from {first}, {} packets delivered, {} s of virtual time, the oldest packet {} ms",
        faults.into_inner(),
        next.into_inner() - first,
        delivered.into_inner(),
        virtual_time.into_inner() / 1_000_000_000,
        oldest.into_inner() / 1_000_000,
    );
    let broken = broken.into_inner().expect("no panic");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn seeds_that_once_broke_a_promise_hold() {
    let broken: Vec<String> = corpus().filter_map(|seed| hold(seed).err()).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn a_seed_replays_exactly() {
    for seed in 1..=6 {
        let [one, other] = [run(seed, None), run(seed, None)].map(|outcome| outcome.expect("it holds"));
        assert_eq!(one, other, "seed {seed}");
    }
    assert_eq!(show(3), run(3, None), "looking at it changes nothing");
    assert_ne!(run(1, None).expect("it holds").log, run(2, None).expect("it holds").log);
}

/// What is done wrong on purpose is found, as what it is, by one of the first seeds.
#[test]
fn every_promise_that_is_broken_on_purpose_is_seen_to_be() {
    for (sabotage, what) in [
        (Sabotage::Invents, What::NeverSent),
        (Sabotage::Alters, What::NeverSent),
        (Sabotage::Doubles, What::Twice),
        (Sabotage::Delays, What::Order),
        (Sabotage::Parts, What::Stuck),
        (Sabotage::Hoards, What::Memory),
        (Sabotage::Blocks, What::Blocked),
        (Sabotage::Litters, What::Leftover),
        (Sabotage::Keeps, What::Stale),
        (Sabotage::Panics, What::Ended),
        (Sabotage::Ends, What::Ended),
        (Sabotage::Spins, What::Spins),
    ] {
        let found = (1..=20).find_map(|seed| run(seed, Some(sabotage)).err());
        assert_eq!(found.map(|violation| violation.what), Some(what), "{sabotage:?}");
    }
}
