//! An invitation: all that a site has to know of a hub to join it, in one word that goes into a URL, a message or a QR code.
//!
//! What it is: the text `fairspan1` or `fairspan2`, where the number is the format's, and behind it these bytes in base64 for URLs (RFC 4648,
//! section 5), without padding. All numbers are in network order. The second format is that of a hub which listens for TCP too; other hubs
//! go on with the first, which older programs read.
//!
//! | bytes | meaning |
//! |---|---|
//! | 2 | how many bytes there are, these and the checksum among them; below 1024, so that no digit follows the format's number |
//! | 32 | the hub's public key |
//! | 16 | the secret by which the site shows that it was invited |
//! | 4 | when it expires, in seconds since 1970 |
//! | 1, n, n, 1 | the inner network: 4 or 6, the hub's address in it, the site's, the length of the prefix |
//! | 1, … | how many further networks lie behind the hub, and of each 4 or 6, the address and the length of the prefix |
//! | 1, … | at how many places the hub is called, and of each 4 or 6 with the address, or 0 with a name behind its length, and the port in 2 |
//! | 1, … | the site's name behind its length |
//! | 2 | in format 2: the TCP port, at each of the places |
//! | 4 | CRC-32C of all before it |
//!
//! Departures: none; it is ours. White space between the characters does not count, as mail programs break lines. The checksum is against
//! slips of the pen: the secret alone is what nobody can make up.
//!
//! Invariants: what decodes encodes to the same text, and no text makes the decoder panic or take more memory than the text has.

use crate::ring::checksum::Crc32c;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::num::NonZeroU16;
use thiserror::Error;

/// What each invitation begins with, before the number of its format.
pub const NAME: &str = "fairspan";
/// The newest format.
pub const VERSION: u32 = 2;
/// Bytes of the secret.
pub const SECRET_LEN: usize = 16;
/// Most bytes of an invitation.
pub const LONGEST: usize = 1023;
/// Most places at which a hub is called.
pub const PLACES_MAX: usize = 4;
/// Most networks behind a hub.
pub const NETWORKS_MAX: usize = 16;
/// Most bytes of a site's name.
pub const SITE_MAX: usize = 64;
/// Most bytes of the name of a host (RFC 1035).
const HOST_MAX: usize = 253;
const CHECKSUM_LEN: usize = 4;

/// All that a site has to know of a hub.
#[derive(Clone, PartialEq, Eq)]
pub struct Invitation {
    /// The hub's public key.
    pub hub_key: [u8; 32],
    /// By which the site shows that it was invited, once.
    pub secret: [u8; SECRET_LEN],
    /// When it expires, in seconds since 1970.
    pub expires: u32,
    /// The hub's address in the inner network.
    pub hub: IpAddr,
    /// The site's address in the inner network, of the same IP version.
    pub site: IpAddr,
    /// The prefix length of the inner network.
    pub prefix: u8,
    /// What else lies behind the hub; a prefix of length 0 is everything.
    pub networks: Vec<(IpAddr, u8)>,
    /// Where the hub is called, 1 to [`PLACES_MAX`].
    pub places: Vec<Place>,
    /// What the hub calls the site.
    pub name: String,
    /// The TCP port at which the hub listens too, at each of its places.
    pub tcp_port: Option<NonZeroU16>,
}

/// A place at which a hub is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its host.
    pub host: Host,
    /// Its UDP port.
    pub port: u16,
}

/// A host, as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// By its address.
    Address(IpAddr),
    /// By its name.
    Name(String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(address)) => write!(f, "[{address}]:{}", self.port),
            Host::Address(address) => write!(f, "{address}:{}", self.port),
            Host::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// The secret is not shown.
impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invitation")
            .field("expires", &self.expires)
            .field("hub", &self.hub)
            .field("site", &self.site)
            .field("prefix", &self.prefix)
            .field("networks", &self.networks)
            .field("places", &self.places)
            .field("name", &self.name)
            .field("tcp_port", &self.tcp_port)
            .finish_non_exhaustive()
    }
}

/// Why a text is no invitation, or why there cannot be one. None shows any of the text.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvitationError {
    /// It begins otherwise.
    #[error("this is no invitation: one begins with `{NAME}` and a number, and `fairspan invite` prints it")]
    Other,
    /// It is of another format.
    #[error(
        "the invitation is of version {0}, and this program reads versions 1 to {VERSION}: run the same release on both ends"
    )]
    Version(String),
    /// Its end is missing.
    #[error("the invitation is cut: its last {0} characters are missing")]
    Cut(usize),
    /// So little of it is there that nobody can say how much is missing.
    #[error("the invitation is cut: nearly all of it is missing")]
    Stub,
    /// Something stands behind it.
    #[error("the invitation has {0} characters too many behind its end")]
    Longer(usize),
    /// A character stands there that no invitation has.
    #[error("the invitation was altered: character {0} is one that none has")]
    Character(usize),
    /// Its checksum says so.
    #[error("the invitation was altered: its checksum is wrong")]
    Altered,
    /// Whole, and yet it makes no sense.
    #[error("the invitation makes no sense ({0}): it is of another program")]
    Content(&'static str),
    /// An invitation with so much in it would be too long.
    #[error("the invitation would have {0} bytes, and has room for {LONGEST}: name fewer networks or shorter names")]
    TooLong(usize),
}

impl Invitation {
    /// The word.
    ///
    /// # Errors
    /// [`InvitationError::Content`] or [`InvitationError::TooLong`], where [`decode`](Self::decode) would not take it.
    pub fn encode(&self) -> Result<String, InvitationError> {
        let mut bytes = alloc::vec![0; 2];
        bytes.extend_from_slice(&self.hub_key);
        bytes.extend_from_slice(&self.secret);
        bytes.extend_from_slice(&self.expires.to_be_bytes());
        put_address(&mut bytes, self.hub);
        put_octets(&mut bytes, self.site);
        bytes.push(self.prefix);
        bytes.push(self.networks.len() as u8);
        for (address, prefix) in &self.networks {
            put_address(&mut bytes, *address);
            bytes.push(*prefix);
        }
        bytes.push(self.places.len() as u8);
        for place in &self.places {
            match &place.host {
                Host::Address(address) => put_address(&mut bytes, *address),
                Host::Name(name) => {
                    bytes.push(0);
                    put_text(&mut bytes, name);
                }
            }
            bytes.extend_from_slice(&place.port.to_be_bytes());
        }
        put_text(&mut bytes, &self.name);
        bytes.extend(self.tcp_port.iter().flat_map(|port| port.get().to_be_bytes()));
        let len = bytes.len() + CHECKSUM_LEN;
        self.check()?;
        if len > LONGEST {
            return Err(InvitationError::TooLong(len));
        }
        bytes[..2].copy_from_slice(&(len as u16).to_be_bytes());
        let sum = Crc32c::new().with(&bytes).sum();
        bytes.extend_from_slice(&sum.to_be_bytes());
        let version = if self.tcp_port.is_some() { 2 } else { 1 };
        let mut text = NAME.to_string() + &version.to_string();
        URL_SAFE_NO_PAD.encode_string(&bytes, &mut text);
        Ok(text)
    }

    /// Reads the word.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn decode(text: &str) -> Result<Invitation, InvitationError> {
        let word: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let versioned = word.strip_prefix(NAME).ok_or(InvitationError::Other)?;
        let digits = versioned.bytes().take_while(u8::is_ascii_digit).count();
        let (number, body) = versioned.split_at(digits);
        if number.is_empty() {
            return Err(if body.is_empty() { InvitationError::Stub } else { InvitationError::Other });
        }
        let Some(version) = (1..=VERSION).find(|version| number == version.to_string()) else {
            return Err(InvitationError::Version(number.chars().take(10).collect()));
        };
        let first = NAME.len() + number.len();
        let strange = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if let Some(place) = body.chars().position(strange) {
            return Err(InvitationError::Character(first + place + 1));
        }
        Invitation::from_bytes(version, &whole(body)?)
    }

    /// Reads the bytes behind `fairspan` and the number of the format, which is one of those that are known; checksum and all.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn from_bytes(version: u32, bytes: &[u8]) -> Result<Invitation, InvitationError> {
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM_LEN>().ok_or(InvitationError::Altered)?;
        if Crc32c::new().with(content).sum().to_be_bytes() != *sum {
            return Err(InvitationError::Altered);
        }
        let (len, content) = content.split_first_chunk::<2>().ok_or(InvitationError::Altered)?;
        if usize::from(u16::from_be_bytes(*len)) != bytes.len() || bytes.len() > LONGEST {
            return Err(InvitationError::Content("its length"));
        }
        let mut rest = Bytes(content);
        let invitation = rest.invitation(version).ok_or(InvitationError::Content("it ends too early"))?;
        if !rest.0.is_empty() {
            return Err(InvitationError::Content("something is left over"));
        }
        invitation.check()?;
        Ok(invitation)
    }

    /// Whether each part of it can be.
    fn check(&self) -> Result<(), InvitationError> {
        let in_prefix = |(address, prefix): &(IpAddr, u8)| usize::from(*prefix) <= bits(*address);
        let is_name = |text: &str, most: usize| {
            (1..=most).contains(&text.len()) && !text.chars().any(|c| c.is_control() || c.is_whitespace())
        };
        let host_is_right = |place: &Place| match &place.host {
            Host::Address(address) => !address.is_unspecified() && !address.is_multicast(),
            Host::Name(name) => is_name(name, HOST_MAX) && name.is_ascii(),
        };
        let rules = [
            (self.hub.is_ipv4() == self.site.is_ipv4(), "its inner addresses are of two IP versions"),
            (self.hub != self.site, "hub and site have one address"),
            (in_prefix(&(self.hub, self.prefix)), "the length of its prefix"),
            (self.networks.len() <= NETWORKS_MAX, "too many networks"),
            (self.networks.iter().all(in_prefix), "the length of a prefix"),
            ((1..=PLACES_MAX).contains(&self.places.len()), "how many places it names"),
            (self.places.iter().all(host_is_right), "a place that nobody can call"),
            (self.places.iter().all(|place| place.port != 0), "a port that nobody can call"),
            (is_name(&self.name, SITE_MAX), "the site's name"),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(InvitationError::Content(what)),
            None => Ok(()),
        }
    }
}

/// The bytes behind the number of the format, all of them and no more.
fn whole(body: &str) -> Result<Vec<u8>, InvitationError> {
    // The length is in the first three characters.
    let head = body.get(..4).ok_or(InvitationError::Stub)?;
    let head = URL_SAFE_NO_PAD.decode(head).map_err(|_| InvitationError::Altered)?;
    let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
    if !(CHECKSUM_LEN + 2..=LONGEST).contains(&len) {
        return Err(InvitationError::Altered);
    }
    let wanted = (len * 4).div_ceil(3);
    if body.len() < wanted {
        return Err(InvitationError::Cut(wanted - body.len()));
    }
    if body.len() > wanted {
        return Err(InvitationError::Longer(body.len() - wanted));
    }
    URL_SAFE_NO_PAD.decode(body).map_err(|_| InvitationError::Altered)
}

fn bits(address: IpAddr) -> usize {
    if address.is_ipv4() { 32 } else { 128 }
}

fn put_address(out: &mut Vec<u8>, address: IpAddr) {
    out.push(if address.is_ipv4() { 4 } else { 6 });
    put_octets(out, address);
}

fn put_octets(out: &mut Vec<u8>, address: IpAddr) {
    match address {
        IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
        IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    // What is longer is refused before it is used.
    out.push(text.len().min(255) as u8);
    out.extend_from_slice(text.as_bytes());
}

/// What is still to be read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn invitation(&mut self, version: u32) -> Option<Invitation> {
        let (hub_key, secret) = (self.take()?, self.take()?);
        let expires = u32::from_be_bytes(self.take()?);
        let hub = self.address()?;
        let site = self.octets(hub.is_ipv4())?;
        let prefix = self.byte()?;
        let networks = (0..self.byte()?).map(|_| Some((self.address()?, self.byte()?))).collect::<Option<_>>()?;
        let places = (0..self.byte()?).map(|_| self.place()).collect::<Option<_>>()?;
        let name = self.text()?;
        let tcp_port = match version {
            1 => None,
            _ => Some(NonZeroU16::new(u16::from_be_bytes(self.take()?))?),
        };
        Some(Invitation { hub_key, secret, expires, hub, site, prefix, networks, places, name, tcp_port })
    }

    fn place(&mut self) -> Option<Place> {
        let host = match self.byte()? {
            0 => Host::Name(self.text()?),
            version @ (4 | 6) => Host::Address(self.octets(version == 4)?),
            _ => return None,
        };
        Some(Place { host, port: u16::from_be_bytes(self.take()?) })
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.byte()? {
            version @ (4 | 6) => self.octets(version == 4),
            _ => None,
        }
    }

    fn octets(&mut self, is_v4: bool) -> Option<IpAddr> {
        Some(match is_v4 {
            true => Ipv4Addr::from(self.take::<4>()?).into(),
            false => Ipv6Addr::from(self.take::<16>()?).into(),
        })
    }

    fn text(&mut self) -> Option<String> {
        let len = usize::from(self.byte()?);
        let (text, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        core::str::from_utf8(text).ok().map(ToString::to_string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    fn sample() -> Invitation {
        Invitation {
            hub_key: core::array::from_fn(|n| n as u8),
            secret: [7; SECRET_LEN],
            expires: 1_800_000_000,
            hub: "10.77.0.1".parse().unwrap(),
            site: "10.77.0.2".parse().unwrap(),
            prefix: 24,
            networks: alloc::vec![("0.0.0.0".parse().unwrap(), 0)],
            places: alloc::vec![
                Place { host: Host::Address("203.0.113.1".parse().unwrap()), port: 51900 },
                Place { host: Host::Address("2001:db8::1".parse().unwrap()), port: 51900 },
                Place { host: Host::Name("hub.example.net".into()), port: 443 },
            ],
            name: "site1".into(),
            tcp_port: None,
        }
    }

    fn with_tcp() -> Invitation {
        Invitation { tcp_port: NonZeroU16::new(443), ..sample() }
    }

    #[test]
    fn an_invitation_is_one_word_that_goes_into_a_url_and_reads_as_what_was_written() {
        let text = sample().encode().unwrap();
        assert!(text.starts_with("fairspan1A") && text.len() < 180, "{text}");
        assert!(text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'_'), "{text}");
        assert_eq!(Invitation::decode(&text), Ok(sample()));
        let broken = text.as_bytes().chunks(60).map(|line| core::str::from_utf8(line).unwrap());
        let broken = broken.fold(String::new(), |all, line| all + "  " + line + "\r\n");
        assert_eq!(Invitation::decode(&broken), Ok(sample()), "as a mail program breaks it");
    }

    #[test]
    fn the_format_is_what_the_table_says() {
        let least = Invitation {
            networks: Vec::new(),
            places: alloc::vec![Place { host: Host::Address("203.0.113.1".parse().unwrap()), port: 51900 }],
            ..sample()
        };
        let text = least.encode().unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&text["fairspan1".len()..]).unwrap();
        let mut wanted = alloc::vec![0, 87];
        wanted.extend(0..32);
        wanted.extend([7; 16]);
        wanted.extend(1_800_000_000_u32.to_be_bytes());
        wanted.extend([4, 10, 77, 0, 1, 10, 77, 0, 2, 24, 0]);
        wanted.extend([1, 4, 203, 0, 113, 1, 0xca, 0xbc]);
        wanted.extend(b"\x05site1");
        let sum = Crc32c::new().with(&wanted).sum();
        wanted.extend(sum.to_be_bytes());
        wanted[1] = bytes[1];
        assert_eq!(usize::from(bytes[1]), bytes.len());
        let sum = Crc32c::new().with(&wanted[..wanted.len() - 4]).sum();
        let at = wanted.len() - 4;
        wanted[at..].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(bytes, wanted);
        // A hub that listens for TCP has the second format, with the port before the checksum.
        let text = Invitation { tcp_port: NonZeroU16::new(443), ..least }.encode().unwrap();
        let second = URL_SAFE_NO_PAD.decode(text.strip_prefix("fairspan2").unwrap()).unwrap();
        assert_eq!(second[2..second.len() - 6], wanted[2..wanted.len() - 4]);
        assert_eq!(second[second.len() - 6..second.len() - 4], 443_u16.to_be_bytes());
    }

    #[test]
    fn one_with_a_tcp_port_reads_as_what_was_written_and_neither_format_passes_for_the_other() {
        let (first, second) = (sample().encode().unwrap(), with_tcp().encode().unwrap());
        assert_eq!(Invitation::decode(&second), Ok(with_tcp()));
        let content = |text: String| matches!(Invitation::decode(&text), Err(InvitationError::Content(_)));
        assert!(content(first.replace("fairspan1", "fairspan2")));
        assert!(content(second.replace("fairspan2", "fairspan1")));
        // Port 0 is none.
        let mut bytes = URL_SAFE_NO_PAD.decode(&second["fairspan2".len()..]).unwrap();
        let end = bytes.len() - 4;
        bytes[end - 2..end].fill(0);
        let sum = Crc32c::new().with(&bytes[..end]).sum();
        bytes[end..].copy_from_slice(&sum.to_be_bytes());
        assert!(content(format!("fairspan2{}", URL_SAFE_NO_PAD.encode(bytes))));
    }

    #[test]
    fn one_that_is_cut_altered_or_of_another_version_is_refused_in_words_that_say_which() {
        let text = sample().encode().unwrap();
        for end in "fairspan1".len()..text.len() {
            let error = Invitation::decode(&text[..end]).unwrap_err();
            let missing = text.len() - end;
            match end - "fairspan1".len() {
                0..4 => assert_eq!(error, InvitationError::Stub, "{end}"),
                _ => assert_eq!(error, InvitationError::Cut(missing), "{end}"),
            }
            assert!(error.to_string().contains("is cut"));
        }
        // Each character exchanged for another one of the alphabet.
        for place in "fairspan1".len()..text.len() {
            let other = if text.as_bytes()[place] == b'x' { "y" } else { "x" };
            let altered = format!("{}{other}{}", &text[..place], &text[place + 1..]);
            assert!(Invitation::decode(&altered).is_err(), "{place}");
        }
        let swapped = format!("{}{}{}{}", &text[..40], &text[41..42], &text[40..41], &text[42..]);
        assert!(swapped == text || Invitation::decode(&swapped) == Err(InvitationError::Altered));
        assert_eq!(
            Invitation::decode(&format!("{}.{}", &text[..20], &text[21..])),
            Err(InvitationError::Character(21))
        );
        assert_eq!(Invitation::decode(&format!("{text}abc")), Err(InvitationError::Longer(3)));
        let other = text.replace("fairspan1", "fairspan27");
        assert_eq!(Invitation::decode(&other), Err(InvitationError::Version("27".into())));
        for number in ["0", "3", "01", "12"] {
            let other = text.replace("fairspan1", &format!("fairspan{number}"));
            assert_eq!(Invitation::decode(&other), Err(InvitationError::Version(number.into())));
        }
        for nothing in ["", "fair", "hello", "https://example.net/", "FAIRSPAN1abc", "fairspanabc"] {
            assert_eq!(Invitation::decode(nothing), Err(InvitationError::Other), "{nothing}");
        }
        assert_eq!(Invitation::decode("fairspan"), Err(InvitationError::Stub));
    }

    #[test]
    fn what_could_not_be_read_is_not_written() {
        let wrong = |change: &dyn Fn(&mut Invitation)| {
            let mut invitation = sample();
            change(&mut invitation);
            invitation.encode().unwrap_err()
        };
        let content = |error| matches!(error, InvitationError::Content(_));
        assert!(content(wrong(&|i| i.site = i.hub)));
        assert!(content(wrong(&|i| i.site = "fd00::2".parse().unwrap())));
        assert!(content(wrong(&|i| i.prefix = 33)));
        assert!(content(wrong(&|i| i.places.clear())));
        assert!(content(wrong(&|i| i.places[0].port = 0)));
        assert!(content(wrong(&|i| i.places[0].host = Host::Name("a b".into()))));
        assert!(content(wrong(&|i| i.places[0].host = Host::Name("x".repeat(254)))));
        assert!(content(wrong(&|i| i.name = "a\nb".into())));
        assert!(content(wrong(&|i| i.name.clear())));
        let long = |i: &mut Invitation| {
            i.networks = alloc::vec![("2001:db8::".parse().unwrap(), 32); NETWORKS_MAX];
            i.places = alloc::vec![Place { host: Host::Name("x".repeat(253)), port: 1 }; PLACES_MAX];
        };
        assert!(matches!(wrong(&long), InvitationError::TooLong(_)));
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", sample()).contains("7, 7"));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_reads_as_what_encodes_to_the_same(text in "(fairspan[12])?[A-Za-z0-9_-]{0,200}") {
            if let Ok(invitation) = Invitation::decode(&text) {
                prop_assert_eq!(invitation.encode(), Ok(text));
            }
        }

        #[test]
        fn any_content_with_a_right_checksum_is_refused_or_encodes_to_the_same(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..300),
            version in 1..=VERSION,
        ) {
            let len = bytes.len() + 4;
            bytes[..2].copy_from_slice(&(len as u16).to_be_bytes());
            let sum = Crc32c::new().with(&bytes).sum();
            bytes.extend(sum.to_be_bytes());
            let text = format!("fairspan{version}{}", URL_SAFE_NO_PAD.encode(&bytes));
            if let Ok(invitation) = Invitation::decode(&text) {
                prop_assert_eq!(invitation.encode(), Ok(text));
            }
        }
    }
}
