//! Mutates the corpora at random, for people without a fuzzer: `random SECONDS [SEED] [TARGET]`, the seconds for each
//! target. A panic leaves the input in `crash-TARGET`.

use fairspan_core::rng::Rng;
use std::fs;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::{Duration, Instant};

fn mutate(rng: &mut Rng, corpus: &[Vec<u8>]) -> Vec<u8> {
    let pick = |rng: &mut Rng| corpus[rng.below(corpus.len() as u64) as usize].clone();
    let mut data = pick(rng);
    for _ in 0..1 + rng.below(8) {
        let at = rng.below(data.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 if at < data.len() => data[at] ^= 1 << rng.below(8),
            1 if at < data.len() => data[at] = rng.next_u64() as u8,
            2 => data.truncate(at),
            3 => data.insert(at, rng.next_u64() as u8),
            4 => {
                let other = pick(rng);
                let from = rng.below(other.len() as u64 + 1) as usize;
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            _ => {
                let more: Vec<u8> = (0..rng.below(64)).map(|_| rng.next_u64() as u8).collect();
                data.splice(at..at, more);
            }
        }
    }
    data.truncate(4096);
    data
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(5);
    let seed: u64 = args.next().and_then(|a| a.parse().ok()).unwrap_or(1);
    let only = args.next();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    for (name, target) in fairspan_fuzz::TARGETS {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let files = fs::read_dir(root.join(name)).expect("a corpus");
        let mut corpus: Vec<Vec<u8>> = files.map(|f| fs::read(f.expect("a file").path()).expect("its bytes")).collect();
        corpus.sort();
        let (mut rng, start, mut runs) = (Rng::new(seed), Instant::now(), 0u64);
        while start.elapsed() < Duration::from_secs(seconds) {
            let data = mutate(&mut rng, &corpus);
            if catch_unwind(|| target(&data)).is_err() {
                fs::write(format!("crash-{name}"), &data).expect("to write the input");
                panic!("{name} failed after {runs} runs with seed {seed}: see crash-{name}");
            }
            runs += 1;
        }
        println!("{name}: {runs} runs in {seconds} s, seed {seed}");
    }
}
