//! Whole handshakes and packets with fixed keys, byte for byte, as `vectors/handshakes.json` keeps them for other
//! implementations. `vectors/read.py` is one: it shares no code with this one and computes every byte anew.
//!
//! `UPDATE_VECTORS=1` writes the file: a change of it is a change of the protocol.

use fairspan_core::units::{ChannelId, Span, Time};
use fairspan_live::secure::*;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

const BEGUN: u64 = 1_700_000_000_000_000_000;
const CHANNEL: u8 = 3;
/// The flag by which a packet asks for an empty one.
const ASK: u8 = 2;
const HELLOS: [&[u8]; 2] = [b"hello of the initiator", b"that of the responder"];

/// A seeded source that tells what was drawn from it.
struct Told(SeededEntropy, Arc<Mutex<Vec<Vec<u8>>>>);

impl Entropy for Told {
    fn fill(&mut self, out: &mut [u8]) {
        self.0.fill(out);
        self.1.lock().unwrap().push(out.to_vec());
    }
}

struct End {
    sessions: Sessions,
    private: [u8; 32],
    drawn: Arc<Mutex<Vec<Vec<u8>>>>,
    address: SocketAddr,
}

impl End {
    fn new(config: Config, seed: u8, now: Time) -> End {
        let private = std::array::from_fn(|n| seed.wrapping_mul(29).wrapping_add(n as u8 * 7));
        let drawn = Arc::default();
        let entropy = Told(SeededEntropy::new(seed.into()), Arc::clone(&drawn));
        let key = PrivateKey::from_bytes(private);
        let sessions = Sessions::new(config, key, Box::new(entropy), Past::forgotten(BEGUN), now).unwrap();
        End { sessions, private, drawn, address: SocketAddr::from(([192, 0, 2, seed], 4000 + u16::from(seed))) }
    }

    fn last_drawn(&self, len: usize) -> String {
        hex(self.drawn.lock().unwrap().iter().rfind(|drawn| drawn.len() == len).unwrap())
    }

    fn sent(&mut self) -> Vec<u8> {
        self.sessions.poll_transmit().expect("something to send").payload
    }

    fn handle(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) -> Received {
        self.sessions.handle_datagram(now, SocketId(0), from, datagram, &mut [0; 2048])
    }

    fn described(&self, index: u32, ephemeral: &str, hello: &[u8]) -> String {
        let (private, instance) = (hex(&self.private), self.sessions.instance());
        format!(
            r#"{{"private": "{private}", "ephemeral": "{ephemeral}", "instance": "{instance:016x}", "index": "{index:08x}", "hello": "{}", "address": "{}"}}"#,
            hex(hello),
            self.address,
        )
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A data datagram, and what is in it.
fn packet(from: &str, datagram: &[u8], flags: u8, text: &[u8], peer_index: u32) -> String {
    let Ok(Message::Data { receiver, counter, ciphertext, .. }) = decode(datagram) else {
        panic!("no data: {datagram:x?}")
    };
    assert_eq!(receiver, peer_index as u16, "the low half");
    format!(
        "      {{\"from\": \"{from}\", \"flags\": {flags}, \"padding\": {}, \"counter\": {counter}, \"text\": \"{}\", \"datagram\": \"{}\"}}",
        ciphertext.len() - text.len() - 1,
        hex(text),
        hex(datagram),
    )
}

/// One handshake, packets both ways, and what is told to a replay; under load also what leads to the cookie.
fn vector(
    number: u8,
    cipher: CipherChoice,
    capabilities: u8,
    psk: Option<[u8; 32]>,
    loaded: bool,
    padding: bool,
) -> String {
    let began = Time::from_millis(1000);
    let mut now = began;
    let config = |rate: u32| {
        let mut config = Config::default();
        (config.cipher, config.handshakes_per_second, config.padding) = (cipher, rate, padding);
        config
    };
    let mut a = End::new(config(100), 2 * number, now);
    let mut b = End::new(config(if loaded { 1 } else { 100 }), 2 * number + 1, now);
    let peer_of = |other: &End, hello: &[u8]| {
        let mut peer = PeerConfig::new(other.sessions.public_key());
        (peer.preshared_key, peer.hello) = (psk.map(PresharedKey::from_bytes), hello.to_vec());
        peer
    };
    let b_at_a = a.sessions.add_peer(peer_of(&b, b"")).unwrap();
    b.sessions.add_peer(peer_of(&a, HELLOS[1])).unwrap();
    let (at_a, at_b) = (a.address, b.address);
    let path = a.sessions.connect(now, b_at_a, ChannelId(CHANNEL), SocketId(0), at_b, HELLOS[0].to_vec()).unwrap();
    a.sessions.handle_timeout(now);
    let mut initiation = a.sent();
    let mut load = String::new();
    if loaded {
        // The one handshake of this second; its answer is lost.
        b.handle(now, at_a, &initiation);
        b.sent();
        now = a.sessions.poll_timeout().unwrap();
        a.sessions.handle_timeout(now);
        let challenged = a.sent();
        assert_eq!(b.handle(now, at_a, &challenged), Received::Dropped(DropReason::CookieDemanded));
        let (reply, nonce) = (b.sent(), b.last_drawn(16));
        let secret = hex(b.drawn.lock().unwrap().iter().find(|drawn| drawn.len() == 32).unwrap());
        now += Span::from_millis(10);
        a.handle(now, at_b, &reply);
        a.sessions.handle_timeout(now);
        initiation = a.sent();
        load = format!(
            "    \"challenged\": \"{}\",\n    \"cookie_secret\": \"{secret}\",\n    \"cookie_nonce\": \"{nonce}\",\n    \"cookie_reply\": \"{}\",\n",
            hex(&challenged),
            hex(&reply),
        );
    }
    let stamp = BEGUN + now.since(began).as_nanos();
    let ephemeral_a = a.last_drawn(32);
    let Ok(Message::Initiation { sender, .. }) = decode(&initiation) else { panic!("no initiation") };
    assert_eq!(b.handle(now, at_a, &initiation), Received::Control);
    let ephemeral_b = b.last_drawn(32);
    let response = b.sent();
    assert_eq!(a.handle(now, at_b, &response), Received::Control);
    let index_b = u32::from_str_radix(&b.last_drawn(4), 16).unwrap();
    // What the initiator asks, and what it is answered.
    let asked = a.sent();
    let mut packets = vec![packet("initiator", &asked, ASK, b"", index_b)];
    b.handle(now, at_a, &asked);
    packets.push(packet("responder", &b.sent(), 0, b"", sender));
    let mut out = [0; 2048];
    for text in [&b"first"[..], &[0x5a; 1400], b""] {
        let len = a.sessions.seal(now, path, FLAG_CHECKSUM_PARTIAL, &[], text, &mut out).unwrap();
        packets.push(packet("initiator", &out[..len], FLAG_CHECKSUM_PARTIAL, text, index_b));
        let received = b.handle(now, at_a, &out[..len]);
        let Received::Data(data) = received else {
            assert_eq!((received, text), (Received::Control, &b""[..]));
            continue;
        };
        let len = b.sessions.seal(now, data.path, 0, b"back: ", text, &mut out).unwrap();
        packets.push(packet("responder", &out[..len], 0, &[b"back: ", text].concat(), sender));
        assert!(matches!(a.handle(now, at_b, &out[..len]), Received::Data(_)));
    }
    // The same initiation again, when nothing came for a while.
    while b.sessions.poll_transmit().is_some() {}
    now += Span::from_secs(11);
    assert_eq!(b.handle(now, at_a, &initiation), Received::Dropped(DropReason::ReplayedInitiation));
    let (behind, nonce) = (b.sent(), b.last_drawn(16));
    format!(
        "  {{\n    \"preshared_key\": {},\n    \"initiator\": {},\n    \"responder\": {},\n    \"channel\": {CHANNEL},\n    \"capabilities\": {capabilities},\n    \"stamp\": \"{stamp:016x}\",\n{load}    \"initiation\": \"{}\",\n    \"response\": \"{}\",\n    \"behind_nonce\": \"{nonce}\",\n    \"behind\": \"{}\",\n    \"packets\": [\n{}\n    ]\n  }}",
        psk.map_or("null".into(), |psk| format!("\"{}\"", hex(&psk))),
        a.described(sender, &ephemeral_a, HELLOS[0]),
        b.described(index_b, &ephemeral_b, HELLOS[1]),
        hex(&initiation),
        hex(&response),
        hex(&behind),
        packets.join(",\n"),
    )
}

#[test]
fn handshakes_and_packets_are_those_that_other_implementations_read() {
    if !has_aes_hardware() {
        println!("skipped: the vectors say that both ends have hardware for AES, which this one has not");
        return;
    }
    let psk = Some(std::array::from_fn(|n| 0xf0 ^ n as u8));
    // Capabilities: 1 takes ChaCha20-Poly1305, 2 takes AES-256-GCM, 4 has hardware for it.
    let vectors = [
        vector(1, CipherChoice::Auto, 7, None, false, false),
        vector(2, CipherChoice::Only(Cipher::ChaCha20Poly1305), 5, psk, false, false),
        vector(3, CipherChoice::Only(Cipher::Aes256Gcm), 6, psk, false, true),
        vector(4, CipherChoice::Auto, 7, None, true, true),
    ];
    let text = format!("[\n{}\n]\n", vectors.join(",\n"));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/handshakes.json");
    if std::env::var_os("UPDATE_VECTORS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&file).unwrap();
    let differs = kept.lines().zip(text.lines()).find(|(kept, made)| kept != made);
    assert!(kept == text, "{} is not what is made now; the first line that differs: {differs:?}", file.display());
}
