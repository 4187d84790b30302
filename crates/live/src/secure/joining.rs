//! How a site that was invited makes its key known to the hub: one question and one answer.
//!
//! What it is: `Noise_IKpsk2_25519_ChaChaPoly_BLAKE2s` once more (`noise`), under a prologue of its own, so that no message
//! of it passes for one of a session's handshake. The pre-shared key follows from the invitation's secret. After the answer the
//! handshake's keys are thrown away.
//!
//! | kind | layout |
//! |---|---|
//! | 7 question | kind 1, version 1, zero 2, index 4, Noise message 1, mac1 16, mac2 16 |
//! | 8 answer | kind 1, version 1, zero 2, index 4, Noise message 2 |
//!
//! | Noise payload | layout |
//! |---|---|
//! | of the question | what is wanted 1 (0 to look, 1 to join), zero 1, the invitation's number 16, proof 16, zeros to any length |
//! | of the answer | verdict 1, IP version 1, port 2, address 16: where the question came from; the hub's clock 8, seconds since 1970 |
//!
//! Everything follows from the secret S by keyed BLAKE2s under a label: the invitation's number, the key of the proof, and the pre-shared
//! key, which both ends go on using for their sessions. The proof is a mac of both public keys and what is wanted. So a question shows
//! that who knows S vouches for this key of the site's, and only the hub reads that. The answer shows that it is the hub's, who knows S too.
//!
//! - **Once.** The first key that joins is the invitation's. The same key gets the same answer again, as the answer may be lost; so a
//!   recorded question changes nothing. Another key is told that the invitation was used.
//! - **Strangers meet silence.** Without the hub's public key there is no mac1; without S no proof. Neither gets an answer.
//! - **Cost.** Questions are computed by the daemon's own thread, two agreements each: `PER_SECOND` of them, and beyond these only of
//!   senders who prove their address (`cookie`), `PROVEN_PER_SECOND` in all and `NETWORK_PER_SECOND` of one network. An answer is
//!   shorter than its question.

use super::aead::TAG_LEN;
use super::cookie::{Admission, Bucket, Gate, Mac, MacKeys, keyed};
use super::entropy::Entropy;
use super::keys::{KEY_LEN, PresharedKey, PrivateKey, PublicKey};
use super::noise::{Initiator, Responder};
use super::wire::{
    HANDSHAKE_HEADER_LEN, JOIN_ANSWER, JOIN_QUESTION, MAC_LEN, Message, VERSION, decode, handshake_header,
};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use fairspan_core::units::Time;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Questions a second that are computed for anybody who knows the hub's public key.
const PER_SECOND: u32 = 10;
/// Questions a second that are computed for those who have proven their address.
const PROVEN_PER_SECOND: u32 = 50;
/// The same for one network: a /24 of IPv4, a /48 of IPv6.
const NETWORK_PER_SECOND: u32 = 10;
/// Networks of which that is counted at once.
const NETWORKS_MAX: usize = 64;
/// Shortest payload of a question: without zeros behind.
const QUESTION_MIN: usize = 2 + 16 + 16;
const ANSWER_LEN: usize = 1 + 1 + 2 + 16 + 8;
/// What a question has beside its payload.
const QUESTION_HEAD: usize = HANDSHAKE_HEADER_LEN + KEY_LEN + KEY_LEN + TAG_LEN + TAG_LEN + 2 * MAC_LEN;
/// Shortest question.
pub const SHORTEST: usize = QUESTION_HEAD + QUESTION_MIN;
/// Longest question: what an Ethernet link carries.
pub const LONGEST: usize = 1500;
const PROLOGUE: &[u8; 16] = b"fairspan joining";

/// What follows from an invitation's secret.
#[derive(Clone)]
pub struct Derived {
    number: Mac,
    proof: Zeroizing<[u8; KEY_LEN]>,
    psk: PresharedKey,
}

/// Nothing of it is shown but the number.
impl fmt::Debug for Derived {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Derived({})", self.number())
    }
}

impl Derived {
    /// What follows from this secret.
    pub fn of(secret: &[u8; 16]) -> Derived {
        let from = |label: &[u8]| Zeroizing::new(keyed(secret, &[label]));
        let number = from(b"fairspan invitation number");
        Derived {
            number: std::array::from_fn(|n| number[n]),
            proof: from(b"fairspan invitation proof"),
            psk: PresharedKey::from_bytes(*from(b"fairspan invitation preshared key")),
        }
    }

    /// The pre-shared key of the site's and the hub's sessions.
    pub fn preshared_key(&self) -> &PresharedKey {
        &self.psk
    }

    /// By which an invitation is known without its secret, in hexadecimal.
    pub fn number(&self) -> String {
        self.number.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn prove(&self, site: &PublicKey, hub: &PublicKey, wanted: u8) -> Mac {
        let mac = keyed(&*self.proof, &[site.as_bytes(), hub.as_bytes(), &[wanted]]);
        std::array::from_fn(|n| mac[n])
    }
}

fn prologue(index: u32) -> [u8; 21] {
    let mut prologue = [0; 21];
    prologue[..16].copy_from_slice(PROLOGUE);
    prologue[16] = VERSION;
    prologue[17..].copy_from_slice(&index.to_be_bytes());
    prologue
}

/// What a site wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To know how the invitation stands.
    Look,
    /// To be a peer from now on.
    Join,
}

impl Wanted {
    fn code(self) -> u8 {
        match self {
            Wanted::Look => 0,
            Wanted::Join => 1,
        }
    }
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The invitation is good and nobody has used it.
    Open,
    /// The site is a peer: its key is known, and kept.
    Joined,
    /// Another key has used it.
    Used,
    /// Its time is over.
    Expired,
    /// The key is that of another peer, or of the hub.
    KeyTaken,
    /// The hub cannot keep the key: it has nowhere to write.
    NotKept,
}

impl Verdict {
    const ALL: [Verdict; 6] =
        [Verdict::Open, Verdict::Joined, Verdict::Used, Verdict::Expired, Verdict::KeyTaken, Verdict::NotKept];

    fn code(self) -> u8 {
        Verdict::ALL.iter().position(|verdict| *verdict == self).unwrap_or_default() as u8
    }
}

/// The hub's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of the wish.
    pub verdict: Verdict,
    /// From where the hub saw the question come.
    pub seen: SocketAddr,
    /// The hub's clock, in seconds since 1970.
    pub clock: u64,
}

impl Answer {
    fn encode(&self) -> [u8; ANSWER_LEN] {
        let mut out = [0; ANSWER_LEN];
        out[0] = self.verdict.code();
        out[2..4].copy_from_slice(&self.seen.port().to_be_bytes());
        match self.seen.ip() {
            IpAddr::V4(address) => {
                out[1] = 4;
                out[4..8].copy_from_slice(&address.octets());
            }
            IpAddr::V6(address) => {
                out[1] = 6;
                out[4..20].copy_from_slice(&address.octets());
            }
        }
        out[20..].copy_from_slice(&self.clock.to_be_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Option<Answer> {
        let bytes: &[u8; ANSWER_LEN] = bytes.try_into().ok()?;
        let [verdict, version, p0, p1, address @ ..] = bytes;
        let (address, clock) = address.split_first_chunk::<16>()?;
        let ip = match version {
            4 => IpAddr::from(Ipv4Addr::from(*address.first_chunk::<4>()?)),
            6 => IpAddr::from(Ipv6Addr::from(*address)),
            _ => return None,
        };
        Some(Answer {
            verdict: *Verdict::ALL.get(usize::from(*verdict))?,
            seen: SocketAddr::new(ip, u16::from_be_bytes([*p0, *p1])),
            clock: u64::from_be_bytes(clock.try_into().ok()?),
        })
    }
}

/// A site that asks a hub.
pub struct Caller {
    private: PrivateKey,
    hub: PublicKey,
    macs: MacKeys,
    derived: Derived,
}

/// A question on its way.
pub struct Question {
    /// What to send.
    pub datagram: Vec<u8>,
    initiator: Arc<Initiator>,
    macs: MacKeys,
    index: u32,
    mac1: Mac,
}

/// What came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The hub's answer.
    Answer(Answer),
    /// The hub is under load: ask again with this.
    Cookie([u8; MAC_LEN]),
    /// The hub is of another version of the protocol.
    OtherVersion(u8),
}

impl Caller {
    /// A site with this key, which was invited with this secret by the hub with that public key.
    pub fn new(private: PrivateKey, hub: PublicKey, secret: &[u8; 16]) -> Caller {
        Caller { private, hub, macs: MacKeys::new(&hub), derived: Derived::of(secret) }
    }

    /// A question of `len` bytes, or the shortest if that is longer; `cookie` is what the hub gave to this address. `None` where the
    /// hub's key is nobody's.
    pub fn ask(
        &self,
        entropy: &mut dyn Entropy,
        wanted: Wanted,
        len: usize,
        cookie: Option<&[u8; MAC_LEN]>,
    ) -> Option<Question> {
        let mut index = [0; 4];
        entropy.fill(&mut index);
        let index = u32::from_be_bytes(index);
        let mut payload = vec![wanted.code(), 0];
        payload.extend_from_slice(&self.derived.number);
        payload.extend_from_slice(&self.derived.prove(&self.private.public_key(), &self.hub, wanted.code()));
        payload.resize(QUESTION_MIN + len.min(LONGEST).saturating_sub(SHORTEST), 0);
        let mut datagram = handshake_header(JOIN_QUESTION, index).to_vec();
        let psk = Some(&self.derived.psk);
        let initiator =
            Initiator::begin(entropy, &self.private, &self.hub, psk, &prologue(index), &payload, &mut datagram).ok()?;
        let mac1 = self.macs.append(&mut datagram, cookie);
        Some(Question { datagram, initiator, macs: self.macs.clone(), index, mac1 })
    }
}

impl Question {
    /// What a datagram says to this question; `None` if it is no reply to it.
    pub fn read(&self, datagram: &[u8]) -> Option<Reply> {
        match decode(datagram) {
            Ok(Message::CookieReply { receiver, nonce, sealed }) if receiver == self.index => {
                return self.macs.open_cookie(nonce, sealed, &self.mac1).map(Reply::Cookie);
            }
            Ok(Message::VersionReply { version, receiver, .. }) if receiver == self.index => {
                let is_genuine = self.macs.check_version_reply(datagram, &self.mac1);
                return is_genuine.then_some(Reply::OtherVersion(version));
            }
            _ => {}
        }
        let (header, noise) = datagram.split_first_chunk::<HANDSHAKE_HEADER_LEN>()?;
        if *header != handshake_header(JOIN_ANSWER, self.index) {
            return None;
        }
        let (payload, _) = self.initiator.finish(noise).ok()?;
        Answer::decode(&payload).map(Reply::Answer)
    }
}

/// Somebody who was invited.
#[derive(Clone)]
pub struct Guest {
    /// What follows from the secret.
    pub derived: Derived,
    /// When the invitation expires, in seconds since 1970.
    pub expires: u64,
    /// Who has used it.
    pub key: Option<PublicKey>,
}

/// A guest that wants to be a peer, and may.
pub struct Wish {
    /// Which guest, by its place.
    pub guest: usize,
    /// Its key.
    pub key: PublicKey,
    asked: Asked,
}

struct Asked {
    responder: Box<Responder>,
    index: u32,
    from: SocketAddr,
    clock: u64,
}

/// What to do with a question.
pub enum Heard {
    /// Nothing.
    Dropped,
    /// Send this back.
    Reply(Vec<u8>),
    /// Keep the key, and then [settle](Desk::settle) it.
    Wish(Box<Wish>),
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinStats {
    /// Questions that were answered, of whatever verdict.
    pub answered: u64,
    /// Sites that joined.
    pub joined: u64,
    /// Questions for invitations that were used by another key, expired, or could not be kept.
    pub refused: u64,
    /// Demands to prove an address, sent.
    pub challenged: u64,
    /// Questions dropped: of no right form, or made without this end's public key.
    pub malformed: u64,
    /// Questions dropped: they do not show that anybody was invited.
    pub uninvited: u64,
    /// Questions dropped: more than are computed.
    pub limited: u64,
}

impl JoinStats {
    /// Every counter by its name in metrics and status.
    pub fn each(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("answered", self.answered),
            ("joined", self.joined),
            ("refused", self.refused),
            ("challenged", self.challenged),
            ("dropped_malformed", self.malformed),
            ("dropped_uninvited", self.uninvited),
            ("dropped_limited", self.limited),
        ]
        .into_iter()
    }
}

/// Whether a datagram is a question.
pub fn is_question(datagram: &[u8]) -> bool {
    datagram.first() == Some(&JOIN_QUESTION)
}

/// The hub's end: it answers its guests.
pub struct Desk {
    private: PrivateKey,
    public: PublicKey,
    macs: MacKeys,
    gate: Gate,
    entropy: Box<dyn Entropy>,
    proven: Bucket,
    networks: Vec<(IpAddr, Bucket)>,
    stats: JoinStats,
    guests: Vec<Guest>,
}

impl Desk {
    /// No guests yet.
    pub fn new(private: PrivateKey, mut entropy: Box<dyn Entropy>, now: Time) -> Desk {
        let public = private.public_key();
        let macs = MacKeys::new(&public);
        let gate = Gate::new(macs.clone(), &mut *entropy, now);
        Desk {
            private,
            public,
            macs,
            gate,
            entropy,
            proven: Bucket::FULL,
            networks: Vec::new(),
            stats: JoinStats::default(),
            guests: Vec::new(),
        }
    }

    /// Who is invited, from now on.
    pub fn invite(&mut self, guests: Vec<Guest>) {
        self.guests = guests;
    }

    /// The guests, in their order.
    pub fn guests(&self) -> &[Guest] {
        &self.guests
    }

    /// The counters.
    pub fn stats(&self) -> &JoinStats {
        &self.stats
    }

    /// Takes a question; `clock` is the time in seconds since 1970.
    pub fn handle(&mut self, now: Time, clock: u64, from: SocketAddr, datagram: &[u8]) -> Heard {
        let dropped = |count: &mut u64| {
            *count += 1;
            Heard::Dropped
        };
        let Some(([_, version, zeros @ .., i0, i1, i2, i3], _)) = datagram.split_first_chunk::<HANDSHAKE_HEADER_LEN>()
        else {
            return dropped(&mut self.stats.malformed);
        };
        let index = u32::from_be_bytes([*i0, *i1, *i2, *i3]);
        let fits = (SHORTEST..=LONGEST).contains(&datagram.len()) && is_question(datagram);
        let Some(mac1) = fits.then(|| self.macs.check(datagram)).flatten() else {
            return dropped(&mut self.stats.malformed);
        };
        match self.gate.admit(now, &mut *self.entropy, PER_SECOND, from, index, datagram, &mac1) {
            Admission::Challenge(reply) => {
                self.stats.challenged += 1;
                return Heard::Reply(reply);
            }
            Admission::Proceed if super::cookie::claims_proof(datagram) && !self.has_turn(now, from.ip()) => {
                return dropped(&mut self.stats.limited);
            }
            Admission::Proceed => {}
        }
        if *version != VERSION {
            return Heard::Reply(self.macs.version_reply(index, &mac1));
        }
        if *zeros != [0, 0] {
            return dropped(&mut self.stats.malformed);
        }
        let noise = &datagram[HANDSHAKE_HEADER_LEN..datagram.len() - 2 * MAC_LEN];
        let Ok(responder) = Responder::accept(&mut *self.entropy, &self.private, &prologue(index), noise) else {
            return dropped(&mut self.stats.malformed);
        };
        let site = responder.remote;
        let Some((guest, wanted)) = self.guest_of(&site, &responder.payload) else {
            return dropped(&mut self.stats.uninvited);
        };
        let asked = Asked { responder, index, from, clock };
        let invited = &self.guests[guest];
        let verdict = match invited.key {
            Some(key) if key == site => Verdict::Joined,
            Some(_) => Verdict::Used,
            None if clock >= invited.expires => Verdict::Expired,
            None if site == self.public || self.guests.iter().any(|other| other.key == Some(site)) => Verdict::KeyTaken,
            None if wanted == Wanted::Look => Verdict::Open,
            None => return Heard::Wish(Box::new(Wish { guest, key: site, asked })),
        };
        self.answer(guest, asked, verdict).map_or(Heard::Dropped, Heard::Reply)
    }

    /// Ends a wish: with [`Verdict::Joined`] the key is the guest's from now on. What to send back.
    pub fn settle(&mut self, wish: Wish, verdict: Verdict) -> Option<Vec<u8>> {
        if verdict == Verdict::Joined {
            self.guests.get_mut(wish.guest)?.key = Some(wish.key);
            self.stats.joined += 1;
        }
        self.answer(wish.guest, wish.asked, verdict)
    }

    fn answer(&mut self, guest: usize, mut asked: Asked, verdict: Verdict) -> Option<Vec<u8>> {
        match verdict {
            Verdict::Open | Verdict::Joined => {}
            _ => self.stats.refused += 1,
        }
        self.stats.answered += 1;
        let answer = Answer { verdict, seen: asked.from, clock: asked.clock };
        let mut out = handshake_header(JOIN_ANSWER, asked.index).to_vec();
        let psk = self.guests.get(guest)?.derived.psk.clone();
        asked.responder.answer(Some(&psk), &answer.encode(), &mut out).ok()?;
        Some(out)
    }

    /// Whose question it is, and what is wanted.
    fn guest_of(&self, site: &PublicKey, payload: &[u8]) -> Option<(usize, Wanted)> {
        let ([code, zero], rest) = payload.split_first_chunk::<2>()?;
        let (number, rest) = rest.split_first_chunk::<MAC_LEN>()?;
        let (proof, padding) = rest.split_first_chunk::<MAC_LEN>()?;
        let wanted = [Wanted::Look, Wanted::Join].into_iter().find(|wanted| wanted.code() == *code)?;
        if *zero != 0 || padding.iter().any(|byte| *byte != 0) {
            return None;
        }
        let guest = self.guests.iter().position(|guest| guest.derived.number == *number)?;
        let right = self.guests[guest].derived.prove(site, &self.public, *code);
        verify_slices_are_equal(&right, proof).ok()?;
        Some((guest, wanted))
    }

    /// Whether one who has proven his address has his turn: so many a second of his network, and of all.
    fn has_turn(&mut self, now: Time, address: IpAddr) -> bool {
        let network = network_of(address);
        let place = match self.networks.iter().position(|(known, _)| *known == network) {
            Some(place) => place,
            None => {
                if self.networks.len() >= NETWORKS_MAX {
                    // Who asks no more is forgotten first.
                    self.networks.retain(|(_, bucket)| !bucket.is_full(now));
                }
                if self.networks.len() >= NETWORKS_MAX {
                    return false;
                }
                self.networks.push((network, Bucket::FULL));
                self.networks.len() - 1
            }
        };
        let (_, bucket) = &mut self.networks[place];
        bucket.take(now, NETWORK_PER_SECOND, 2 * NETWORK_PER_SECOND)
            && self.proven.take(now, PROVEN_PER_SECOND, PROVEN_PER_SECOND)
    }
}

/// The /24 or /48 of an address.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => Ipv4Addr::from(u32::from(address) & !0xff).into(),
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 80 << 80).into(),
    }
}

#[cfg(test)]
mod tests;
