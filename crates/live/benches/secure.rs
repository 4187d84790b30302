//! What the session layer adds to the bare AEAD, for a packet of 1400 bytes (head of 16 bytes included).

use aws_lc_rs::aead::{AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use fairspan_core::units::{ChannelId, Time};
use fairspan_live::secure::*;
use std::net::SocketAddr;

const HEAD: [u8; 16] = [1; 16];
const BODY: [u8; 1384] = [2; 1384];
const LEN: usize = HEAD.len() + BODY.len();
const CIPHERS: [Cipher; 2] = [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305];

fn main() {
    divan::main();
}

fn key(cipher: Cipher) -> LessSafeKey {
    let algorithm = if cipher == Cipher::Aes256Gcm { &AES_256_GCM } else { &CHACHA20_POLY1305 };
    LessSafeKey::new(UnboundKey::new(algorithm, &[7; 32]).unwrap())
}

fn nonce(counter: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&counter.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

struct Pair {
    left: Sessions,
    right: Sessions,
    path: PathId,
    from: SocketAddr,
}

const NOW: Time = Time::from_millis(1);

fn pair(cipher: Cipher) -> Pair {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let mut config = Config::default();
    config.cipher = CipherChoice::Only(cipher);
    config.reject_after_packets = 1 << 40;
    config.reject_after_bytes = u64::MAX;
    let [mut left, mut right] = [0, 1].map(|end: usize| {
        let past = Past::forgotten(0);
        Sessions::new(config.clone(), keys[end].clone(), Box::new(SeededEntropy::new(end as u64)), past, NOW).unwrap()
    });
    let peer = left.add_peer(PeerConfig::new(keys[1].public_key())).unwrap();
    right.add_peer(PeerConfig::new(keys[0].public_key())).unwrap();
    let [from, to] = ["192.0.2.1:1", "192.0.2.2:2"].map(|text| text.parse::<SocketAddr>().unwrap());
    let path = left.connect(NOW, peer, ChannelId(0), SocketId(0), to, vec![]).unwrap();
    for _ in 0..2 {
        while let Some(sent) = left.poll_transmit() {
            right.handle_datagram(NOW, SocketId(0), from, &sent.payload, &mut [0; 64]);
        }
        while let Some(sent) = right.poll_transmit() {
            left.handle_datagram(NOW, SocketId(0), to, &sent.payload, &mut [0; 64]);
        }
    }
    Pair { left, right, path, from }
}

#[divan::bench(args = CIPHERS)]
fn seal_bare(bencher: Bencher<'_, '_>, cipher: Cipher) {
    let key = key(cipher);
    let mut buffer = [0; LEN];
    let mut counter = 0;
    bencher.counter(BytesCount::new(LEN)).bench_local(|| {
        counter += 1;
        key.seal_in_place_separate_tag(nonce(counter), Aad::from([0; DATA_HEADER_LEN]), black_box(&mut buffer)).unwrap()
    });
}

#[divan::bench(args = CIPHERS)]
fn seal_session(bencher: Bencher<'_, '_>, cipher: Cipher) {
    let mut pair = pair(cipher);
    let mut buffer = [0; LEN + OVERHEAD];
    bencher.counter(BytesCount::new(LEN)).bench_local(|| {
        pair.left.seal(NOW, pair.path, 0, black_box(&HEAD), black_box(&BODY), black_box(&mut buffer)).unwrap()
    });
}

#[divan::bench(args = CIPHERS)]
fn open_bare(bencher: Bencher<'_, '_>, cipher: Cipher) {
    let key = key(cipher);
    let mut sealed = [0; LEN];
    let tag = key.seal_in_place_separate_tag(nonce(1), Aad::from([0; DATA_HEADER_LEN]), &mut sealed).unwrap();
    let mut out = [0; LEN];
    bencher.counter(BytesCount::new(LEN)).bench_local(|| {
        let aad = Aad::from([0; DATA_HEADER_LEN]);
        key.open_separate_gather(nonce(1), aad, black_box(&sealed), tag.as_ref(), black_box(&mut out)).unwrap();
    });
}

#[divan::bench(args = CIPHERS)]
fn open_session(bencher: Bencher<'_, '_>, cipher: Cipher) {
    let Pair { mut left, mut right, path, from } = pair(cipher);
    let mut out = [0; LEN + OVERHEAD];
    bencher
        .counter(BytesCount::new(LEN))
        .with_inputs(|| {
            let mut datagram = [0; LEN + OVERHEAD];
            left.seal(NOW, path, 0, &HEAD, &BODY, &mut datagram).unwrap();
            datagram
        })
        .bench_local_refs(|datagram| {
            let received = right.handle_datagram(NOW, SocketId(0), from, black_box(datagram), black_box(&mut out));
            assert!(matches!(received, Received::Data(_)));
        });
}

#[divan::bench]
fn handshake(bencher: Bencher<'_, '_>) {
    bencher.bench_local(|| pair(Cipher::Aes256Gcm));
}
