//! A ring over bonds: what a link carries follows from what the bond beneath it carries now.
//!
//! A thread asks the bond's daemon for its status at its control socket and tells the ring's daemon when the answer changes.
//! The ring's overhead over a bond (80 bytes by default) counts what the bond adds to each packet, so the sum of its channels'
//! rates is the capacity, less a hundredth for the bond's own messages.

use crate::config::BondOf;
use crate::control::{self, Request};
use crate::status::{PeerStatus, State, Status};
use fairspan_core::bond::Mode;
use fairspan_core::units::Rate;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How often the bond's daemon is asked.
const INTERVAL: Duration = Duration::from_millis(50);
/// The part of a bond's rate that the ring uses.
const USED: f64 = 0.99;

/// The ring's end.
#[derive(Debug)]
pub(super) struct Follower {
    changes: UnixStream,
}

impl Follower {
    /// Begins to follow a bond. `unpaced` is the capacity where one of its channels has no rate, and the most in any case.
    ///
    /// # Errors
    /// What the system says to another thread.
    pub(super) fn start(bond: BondOf, unpaced: Rate) -> io::Result<Follower> {
        let (changes, teller) = UnixStream::pair()?;
        changes.set_nonblocking(true)?;
        std::thread::Builder::new().name("capacity".into()).spawn(move || follow(&bond, unpaced, teller))?;
        Ok(Follower { changes })
    }

    /// The newest capacity, if there is one that was not told; zero while the bond carries nothing.
    pub(super) fn poll(&mut self) -> Option<Rate> {
        let mut newest = None;
        let mut bytes = [0; 8];
        // Each is written at once, so none is read in part.
        while let Ok(8) = self.changes.read(&mut bytes) {
            newest = Some(Rate::from_bits_per_sec(u64::from_be_bytes(bytes)));
        }
        newest
    }
}

impl AsFd for Follower {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

/// Asks and tells until the ring's daemon ends.
fn follow(bond: &BondOf, unpaced: Rate, mut teller: UnixStream) {
    let mut told = None;
    loop {
        let answer = control::ask(&bond.socket, &Request::Status);
        let status = answer.ok().and_then(|answer| serde_json::from_str::<Status>(&answer).ok());
        let rate = status.map_or(0, |status| capacity(&status, bond.peer.as_deref(), unpaced).as_bits_per_sec());
        if told != Some(rate) {
            if teller.write_all(&rate.to_be_bytes()).is_err() {
                return;
            }
            told = Some(rate);
        }
        if is_closed(&mut teller) {
            return;
        }
        std::thread::sleep(INTERVAL);
    }
}

/// Whether the other end is gone: it never says anything.
fn is_closed(teller: &mut UnixStream) -> bool {
    let closed = teller.set_nonblocking(true).is_err() || matches!(teller.read(&mut [0]), Ok(0));
    closed || teller.set_nonblocking(false).is_err()
}

/// What a bond carries now, at most `unpaced`.
fn capacity(status: &Status, peer: Option<&str>, unpaced: Rate) -> Rate {
    let mbit = match (&status.bond, peer, status.peers.as_slice()) {
        (Some(bond), ..) => sum(bond.links.iter().filter(|link| link.state == State::Up).map(|link| link.rate_mbit)),
        (None, Some(name), peers) => peers.iter().find(|peer| peer.name == name).map_or(Some(0.0), peer_mbit),
        (None, None, [peer]) => peer_mbit(peer),
        // Several, and nobody said which.
        (None, None, _) => Some(0.0),
    };
    mbit.map_or(unpaced, |mbit| Rate::from_bits_per_sec((mbit * 1e6 * USED) as u64).min(unpaced))
}

/// What the bond with a peer carries, in Mbit/s; `None` where one of its channels has no rate.
fn peer_mbit(peer: &PeerStatus) -> Option<f64> {
    let rates = peer.channels.iter().filter(|channel| channel.state == State::Up).map(|channel| channel.rate_mbit);
    match peer.mode {
        // Which channel it is, or how many copies there are, the status does not tell: the least is safe.
        Mode::Backup | Mode::Duplicate => rates.reduce(|least, rate| Some(least?.min(rate?))).unwrap_or(Some(0.0)),
        _ => sum(rates),
    }
}

fn sum(rates: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    rates.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{ChannelStatus, Counters};
    use fairspan_core::bond::Scheduler;
    use std::time::Instant;

    fn peer(mode: Mode, channels: &[(State, Option<f64>)]) -> PeerStatus {
        let channel = |(state, rate): &(State, Option<f64>)| ChannelStatus {
            number: 0,
            name: "dsl".into(),
            kind: "udp".into(),
            state: *state,
            reason: None,
            remote: None,
            rate_mbit: *rate,
            rtt_ms: None,
            quota: None,
            taken_out: None,
            queued_packets: None,
            queued_bytes: None,
            path: None,
            counters: Counters::new(),
        };
        PeerStatus {
            name: "hub".into(),
            mode,
            policy: None,
            scheduler: Scheduler::Srr,
            peer_mode: None,
            peer_scheduler: None,
            up: true,
            mtu: 1400,
            counters: Counters::new(),
            channels: channels.iter().map(channel).collect(),
            queue: None,
            classes: vec![],
            split: None,
            explained: vec![],
        }
    }

    fn status(peers: Vec<PeerStatus>) -> Status {
        Status { peers, ..Status::new("fs0", 1.5, 1400) }
    }

    fn mbit(status: &Status, peer: Option<&str>) -> f64 {
        capacity(status, peer, Rate::from_mbit(100)).as_bits_per_sec() as f64 / 1e6
    }

    #[test]
    fn the_usable_channels_count_and_the_bond_keeps_a_hundredth_for_itself() {
        let channels = [(State::Up, Some(30.0)), (State::Down, Some(500.0)), (State::Up, Some(20.0))];
        assert_eq!(mbit(&status(vec![peer(Mode::Ordered, &channels)]), None), 49.5);
        assert_eq!(mbit(&status(vec![peer(Mode::Backup, &channels)]), None), 19.8);
        assert_eq!(mbit(&status(vec![peer(Mode::Ordered, &[(State::Down, Some(30.0))])]), None), 0.0);
        assert_eq!(
            mbit(&status(vec![peer(Mode::Ordered, &[(State::Up, Some(700.0))])]), None),
            100.0,
            "no more than is configured"
        );
        assert_eq!(
            mbit(&status(vec![peer(Mode::Ordered, &[(State::Up, Some(30.0)), (State::Up, None)])]), None),
            100.0,
            "not paced"
        );
    }

    #[test]
    fn a_peer_is_named_where_there_are_several() {
        let mut other = peer(Mode::Ordered, &[(State::Up, Some(10.0))]);
        other.name = "site".into();
        let status = status(vec![peer(Mode::Ordered, &[(State::Up, Some(30.0))]), other]);
        assert_eq!(mbit(&status, None), 0.0);
        assert_eq!(mbit(&status, Some("site")), 9.9);
        assert_eq!(mbit(&status, Some("nobody")), 0.0);
    }

    #[test]
    fn a_change_is_told_once_and_a_daemon_that_is_gone_carries_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("fs0.sock");
        let mut control = control::Control::open(&socket).unwrap();
        let mut follower = Follower::start(BondOf { socket, peer: None }, Rate::from_mbit(100)).unwrap();
        let end = Instant::now() + Duration::from_secs(30);
        let mut told = Vec::new();
        let mut answer = |control: &mut control::Control, mbit: f64, told: &mut Vec<u64>| {
            let text = serde_json::to_string(&status(vec![peer(Mode::Ordered, &[(State::Up, Some(mbit))])])).unwrap();
            let before = told.len();
            while told.len() == before {
                assert!(Instant::now() < end, "told {told:?}");
                control.serve(|_| Some(text.clone()));
                told.extend(follower.poll().map(|rate| rate.as_bits_per_sec()));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        answer(&mut control, 10.0, &mut told);
        answer(&mut control, 20.0, &mut told);
        drop(control);
        while told.len() < 3 {
            assert!(Instant::now() < end, "told {told:?}");
            told.extend(follower.poll().map(|rate| rate.as_bits_per_sec()));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(told, [9_900_000, 19_800_000, 0]);
    }
}
