//! What is left of a handshake in the memory of its process.

use fairspan_core::units::{ChannelId, Time};
use fairspan_live::secure::*;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// So that what the test itself remembers is not found.
const MASK: u8 = 0xa5;

/// Notes the keys that it gives, masked.
struct Noting(SeededEntropy, Arc<Mutex<Vec<[u8; 32]>>>);

impl Entropy for Noting {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
        if out.len() == 32 {
            let mut noted = self.1.lock().unwrap();
            noted.push([0; 32]);
            noted
                .last_mut()
                .unwrap()
                .iter_mut()
                .zip(out.iter())
                .for_each(|(noted, byte)| *noted = black_box(*byte ^ MASK));
        }
    }
}

/// How often the middle of the masked `key` stands anywhere in the memory that this process can write.
fn found(key: &[u8; 32]) -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let memory = File::open("/proc/self/mem").unwrap();
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split_once(' ').unwrap().0;
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        // What was read is masked at once: it lies in memory that is read later.
        let mut page = [0; 4096 + 16];
        for at in (start..end).step_by(4096) {
            let read = memory.read_at(&mut page[..(end - at).min(4096 + 16) as usize], at).unwrap_or(0);
            page[..read].iter_mut().for_each(|byte| *byte ^= MASK);
            // A freed block's first bytes are the allocator's, and a private key's outer bytes are not as drawn.
            found +=
                page[..read].windows(14).enumerate().filter(|(n, part)| *n < 4096 && **part == key[17..31]).count();
        }
    }
    found
}

/// Two ends agree on keys three times, each by steps that lie in lists as those of a daemon's thread do; gives the ends, and
/// the ephemeral keys of all but the last agreement.
fn agree(noted: &Arc<Mutex<Vec<[u8; 32]>>>) -> Vec<Sessions> {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let mut now = Time::from_millis(1000);
    let mut ends: Vec<Sessions> = (0..2)
        .map(|n| {
            let entropy = Noting(SeededEntropy::new(40 + n as u64), noted.clone());
            let past = Past::forgotten(5);
            let mut end = Sessions::new(Config::default(), keys[n].clone(), Box::new(entropy), past, now).unwrap();
            end.add_peer(PeerConfig::new(keys[1 - n].public_key())).unwrap();
            end.offload();
            end
        })
        .collect();
    // The secrets behind cookies live as long as the sessions.
    noted.lock().unwrap().clear();
    let mut entropy = Noting(SeededEntropy::new(50), noted.clone());
    let addresses = ["192.0.2.1:5".parse().unwrap(), "192.0.2.2:5".parse().unwrap()];
    let peer = ends[0].peer(keys[1].public_key()).unwrap();
    ends[0].connect(now, peer, ChannelId(0), SocketId(0), addresses[1], Vec::new()).unwrap();
    let (mut todo, mut done) = (VecDeque::new(), Vec::new());
    for _ in 0..4000 {
        for from in 0..2 {
            while let Some(sent) = ends[from].poll_transmit() {
                ends[1 - from].handle_datagram(now, SocketId(0), addresses[from], &sent.payload, &mut [0; 2048]);
            }
            ends[from].handle_timeout(now);
            for _ in 0..2 {
                todo.extend(std::iter::from_fn(|| ends[from].poll_work()));
                done.extend(todo.drain(..).map(|work: Work| work.run(&mut entropy)));
                done.drain(..).for_each(|done| ends[from].handle_done(now, done));
            }
        }
        now += fairspan_core::units::Span::from_millis(100);
    }
    ends
}

/// What one test reads of the memory is not to be what another holds there for a moment.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

#[test]
fn no_private_or_preshared_key_is_left_in_memory_when_it_is_dropped() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let noted = Arc::new(Mutex::new(Vec::new()));
    let theirs = noted.clone();
    let made = thread::spawn(move || {
        let above = black_box([0_u8; 1 << 16]);
        let mut entropy = Noting(SeededEntropy::new(60), theirs);
        let private: Vec<_> = (0..4).map(|_| Box::new(PrivateKey::generate(&mut entropy))).collect();
        let preshared: Vec<_> = (0..4).map(|_| Box::new(PresharedKey::generate(&mut entropy))).collect();
        drop((black_box(private), black_box(preshared)));
        black_box(&above);
    });
    made.join().unwrap();
    let left: Vec<usize> = noted.lock().unwrap().iter().map(found).collect();
    assert_eq!(left, [0; 8]);
}

#[test]
fn no_ephemeral_key_of_a_handshake_is_left_in_memory_when_it_is_over() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let noted = Arc::new(Mutex::new(Vec::new()));
    let theirs = noted.clone();
    // On a stack of its own, which the system takes back but for its upper end.
    let ends = thread::spawn(move || {
        let above = black_box([0_u8; 1 << 16]);
        let ends = agree(&theirs);
        black_box(&above);
        ends
    });
    let ends = ends.join().unwrap();
    assert!(ends.iter().all(|end| end.stats().handshakes >= 3), "no handshakes");
    let noted = std::mem::take(&mut *noted.lock().unwrap());
    assert!(noted.len() >= 6, "{}", noted.len());
    let left: Vec<usize> = noted.iter().map(found).collect();
    assert!(left.iter().all(|found| *found == 0), "{left:?}");
    // What is there is found.
    let plain: Vec<u8> = noted[0].iter().map(|byte| byte ^ MASK).collect();
    assert!(found(&noted[0]) > 0);
    black_box(plain);
}
