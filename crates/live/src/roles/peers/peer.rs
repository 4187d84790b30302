//! One peer: its bond, and what carries each channel.

use super::fallback::Fallback;
use super::recording::Recording;
use crate::config;
use crate::pool::PacketBuf;
use crate::roles::hello::{Hello, Listed};
use crate::secure::{Entropy, OsEntropy, PathId, PeerId};
use crate::shell::DaemonError;
use crate::sockets::outbox::Outbox;
use crate::sockets::{Carrier, Room};
use fairspan_core::bond::{ChannelConfig, ChannelReport, Codepoint, Link, Mode, Scheduler, Transmit};
use fairspan_core::flow::matching::{List, Name};
use fairspan_core::record::Recorder;
use fairspan_core::select::Settings;
use fairspan_core::units::{ChannelId, Rate, Span, Time};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// How long nothing is said again of who cuts packets into fragments.
const CUTS_TOLD: Span = Span::from_secs(10);

/// A peer and its bond.
pub(super) struct PeerState {
    pub(super) name: String,
    pub(super) id: Option<PeerId>,
    pub(super) mode: Mode,
    pub(super) policy: Settings,
    pub(super) scheduler: Scheduler,
    /// Which sealed channels the peer is told of.
    pub(super) listed: Listed,
    /// Which ones the peer has told of, and its process.
    pub(super) told: Option<(u64, Listed)>,
    /// The channels that cost money: those that the configuration names, those of which the peer says so, and those that have carried what they may.
    metered: [Vec<Name>; 4],
    /// What sealing adds at most.
    seal: usize,
    /// What the peer said that it uses, where it differs from ours and has been told to a person.
    pub(super) differs: Option<(Mode, Scheduler)>,
    /// Whether we cut packets into fragments, and the peer says that it does.
    cuts: Option<[bool; 2]>,
    /// When a person was last told that this has changed.
    cuts_told: Option<Time>,
    /// Read freely; every input goes through the methods here, which remember that there may be output.
    pub(super) bond: Recorder<PacketBuf, Recording>,
    channels: Vec<Option<ChannelState>>,
    dirty: bool,
}

/// One channel of a peer.
pub(super) struct ChannelState {
    pub(super) name: String,
    pub(super) carrier: Carrier,
    pub(super) rate: Option<Rate>,
    pub(super) connected: bool,
    /// Its socket or interface failed: the link is tried again every second.
    pub(super) failed: bool,
    /// The peer is silent: the sessions go on trying and tell when it is back.
    pub(super) lost: bool,
    /// As the configuration has it, so that what the peer says of its settings does not count.
    pub(super) configured: Option<Box<config::Channel>>,
    /// It was taken out of the configuration.
    pub(super) leaving: Option<Leaving>,
    follows_device: bool,
    link_mtu: usize,
    settings: ChannelConfig,
    /// Our address that the peer last sent to: what to answer from where a socket is bound to all.
    pub(super) local: Option<IpAddr>,
    /// That address is gone, and the peer does not know another one yet.
    pub(super) moved: bool,
    pub(super) outbox: Outbox,
    /// Bytes that its link carried in both directions, from the outer IP header on, since that was last asked.
    pub(super) carried: u64,
    /// How it goes over TCP while no UDP gets through.
    pub(super) fallback: Option<Box<Fallback>>,
    /// The bond was told that nothing more leaves for now.
    pub(super) blocked: bool,
}

/// How far a channel has come that is to be removed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    /// When that was wanted.
    pub(super) since: Time,
    /// What is under way has arrived by then; `None` while it is still used.
    pub(super) until: Option<Time>,
}

/// What the peer or the configuration says of a channel that joins.
pub(super) struct Joining {
    pub(super) name: String,
    pub(super) rate: Option<Rate>,
    pub(super) priority: u8,
    pub(super) weight: u32,
    pub(super) framing: u16,
    /// The link's MTU, outer IP header included.
    pub(super) mtu: usize,
    pub(super) configured: Option<Box<config::Channel>>,
    /// The MTU is that of the interface, also when it changes.
    pub(super) follows_device: bool,
}

impl ChannelState {
    /// What the link carries of each frame beyond its bytes.
    pub(super) fn overhead(&self) -> usize {
        self.settings.overhead
    }

    /// Whether what becomes of a socket of the channel's is the channel's matter: of two ways only one is in use.
    pub(super) fn is_on(&self, socket: usize) -> bool {
        self.fallback.is_none() || self.carrier.socket() == socket
    }
}

impl Drop for PeerState {
    fn drop(&mut self) {
        if let Some(recording) = self.bond.finish() {
            recording.finish();
        }
    }
}

impl PeerState {
    pub(super) fn new(
        now: Time,
        config: &config::Peer,
        seal: usize,
        recording: Option<Recording>,
    ) -> Result<PeerState, DaemonError> {
        let seed = random_seed();
        let bond = Recorder::new(config.bond.clone(), now, seed, recording)
            .map_err(|e| DaemonError::Setting { peer: config.name.clone(), problem: e.to_string() })?;
        Ok(PeerState {
            name: config.name.clone(),
            id: None,
            mode: config.bond.mode,
            policy: config.bond.policy.clone(),
            scheduler: config.bond.scheduler,
            listed: Listed::default(),
            told: None,
            metered: [config.bond.metered.0.clone(), Vec::new(), Vec::new(), Vec::new()],
            seal,
            differs: None,
            cuts: None,
            cuts_told: None,
            bond,
            channels: Vec::new(),
            dirty: true,
        })
    }

    /// A channel joins the bond, down, or changes what carries it and its settings.
    pub(super) fn join(
        &mut self,
        now: Time,
        id: ChannelId,
        joining: Joining,
        carrier: Carrier,
    ) -> Result<(), DaemonError> {
        let mut settings = ChannelConfig::default();
        settings.name.clone_from(&joining.name);
        settings.rate = joining.rate;
        settings.priority = joining.priority.into();
        settings.weight = joining.weight;
        settings.mtu = carrier.mtu(joining.mtu);
        settings.framing = joining.framing.into();
        settings.overhead = carrier.overhead(self.seal);
        settings.raw = matches!(carrier, Carrier::Plain { .. });
        self.dirty = true;
        self.bond.join(now, id, settings.clone()).map_err(|e| DaemonError::Setting {
            peer: self.name.clone(),
            problem: format!("channel {}: {e}", joining.name),
        })?;
        if self.channels.len() <= id.index() {
            self.channels.resize_with(id.index() + 1, || None);
        }
        // The bond goes on knowing that the socket takes nothing, and what waits for it is still to go.
        let before = self.channels[id.index()].take().map(|before| (before.blocked, before.outbox));
        let (blocked, outbox) = before.unwrap_or_default();
        self.channels[id.index()] = Some(ChannelState {
            name: joining.name,
            carrier,
            rate: joining.rate,
            connected: false,
            failed: false,
            lost: false,
            configured: joining.configured,
            leaving: None,
            follows_device: joining.follows_device,
            link_mtu: joining.mtu,
            settings,
            local: None,
            moved: false,
            outbox,
            carried: 0,
            fallback: None,
            blocked,
        });
        Ok(())
    }

    pub(super) fn set_link(&mut self, now: Time, id: ChannelId, state: Link) {
        if let Some(channel) = self.channel_mut(id) {
            channel.connected = state == Link::Up;
        }
        self.dirty = true;
        self.bond.set_link(now, id, state);
    }

    /// Nothing new goes by a channel, and the peer is told so.
    pub(super) fn leave(&mut self, now: Time, id: ChannelId) {
        self.dirty = true;
        self.bond.set_link(now, id, Link::Leaving);
    }

    /// A channel is no more.
    pub(super) fn remove(&mut self, now: Time, id: ChannelId) -> Option<ChannelState> {
        let removed = self.channels.get_mut(id.index())?.take()?;
        self.dirty = true;
        self.bond.set_link(now, id, Link::Removed);
        Some(removed)
    }

    /// Other settings of the bond: those that a running one takes.
    pub(super) fn reconfigure(&mut self, now: Time, config: &config::Peer) -> Result<(), DaemonError> {
        self.dirty = true;
        self.metered[0].clone_from(&config.bond.metered.0);
        let mut settings = config.bond.clone();
        settings.metered = self.metered();
        let changed = self.bond.reconfigure(now, &settings);
        changed.map_err(|e| DaemonError::Setting { peer: config.name.clone(), problem: e.to_string() })
    }

    /// Other settings of a configured channel, which goes on. `mtu` is the link's.
    pub(super) fn change(&mut self, now: Time, id: ChannelId, config: &config::Channel, mtu: usize) {
        let Some(channel) = self.channel_mut(id) else { return };
        channel.name.clone_from(&config.name);
        channel.rate = config.rate;
        channel.follows_device = config.follows_device();
        channel.link_mtu = mtu;
        channel.configured = Some(Box::new(config.clone()));
        let mtu = channel.carrier.mtu(mtu);
        let settings = &mut channel.settings;
        settings.name.clone_from(&config.name);
        (settings.rate, settings.weight, settings.mtu) = (config.rate, config.weight, mtu);
        (settings.priority, settings.framing) = (config.priority.into(), config.overhead.into());
        self.rejoin(now, id);
    }

    /// The peer says whether a channel that it opens costs it money.
    pub(super) fn hear_of_cost(&mut self, now: Time, name: &str, metered: bool) {
        let told = &mut self.metered[1];
        told.retain(|other| other.0 != name);
        if metered {
            told.push(Name(name.to_owned()));
        }
        self.follow_cost(now);
    }

    /// These channels have carried what they may. Whether that is news.
    pub(super) fn set_spent(&mut self, now: Time, spent: Vec<Name>) -> bool {
        let before = std::mem::replace(&mut self.metered[2], spent);
        let now_spent = &self.metered[2];
        for name in now_spent.iter().filter(|name| !before.contains(name)) {
            tracing::warn!(peer = self.name, channel = name.0, "the channel has carried its quota: others carry all");
        }
        for name in before.iter().filter(|name| !now_spent.contains(name)) {
            tracing::info!(peer = self.name, channel = name.0, "the channel has quota left");
        }
        let is_news = before != *now_spent;
        if is_news {
            self.follow_cost(now);
        }
        is_news
    }

    /// Somebody takes a channel out, or in again. Whether that is news.
    pub(super) fn take_out(&mut self, now: Time, name: &str, out: bool) -> bool {
        let taken = &mut self.metered[3];
        let was = taken.iter().any(|taken| taken.0 == name);
        if was == out {
            return false;
        }
        taken.retain(|taken| taken.0 != name);
        if out {
            taken.push(Name(name.to_owned()));
            tracing::warn!(peer = self.name, channel = name, "channel taken out: others carry all");
        } else {
            tracing::info!(peer = self.name, channel = name, "channel taken in again");
        }
        self.follow_cost(now);
        true
    }

    /// Whether somebody took the channel out; `None` where that is not possible.
    pub(super) fn is_taken_out(&self, name: &str) -> Option<bool> {
        let can = !matches!(self.mode, Mode::Stripe | Mode::Flow);
        can.then(|| self.metered[3].iter().any(|taken| taken.0 == name))
    }

    /// Has the bond use channels by what they cost.
    fn follow_cost(&mut self, now: Time) {
        let mut settings = self.bond.config().clone();
        settings.metered = self.metered();
        if settings.metered == self.bond.config().metered {
            return;
        }
        self.dirty = true;
        if let Err(error) = self.bond.reconfigure(now, &settings) {
            tracing::warn!(peer = self.name, %error, "cannot follow what channels cost");
        }
    }

    /// The channels that cost money.
    fn metered(&self) -> List<Name> {
        let mut all: Vec<Name> = self.metered.concat();
        let mut seen = BTreeSet::new();
        all.retain(|name| seen.insert(name.0.clone()));
        List(all)
    }

    /// The link failed: nothing is sent on the channel until it works again.
    pub(super) fn fail(&mut self, now: Time, id: ChannelId) {
        let Some(channel) = self.channel_mut(id) else { return };
        channel.failed = true;
        // It may be our address that is gone.
        channel.local = None;
        if channel.connected {
            self.set_link(now, id, Link::Down);
        }
    }

    /// Whether any channel reaches the peer.
    pub(super) fn is_up(&self) -> bool {
        self.channels().any(|(_, channel)| channel.connected)
    }

    /// The channels whose link failed, as a set of bits.
    pub(super) fn failed(&self) -> u64 {
        self.channels().filter(|(_, channel)| channel.failed).fold(0, |set, (id, _)| set | 1 << id.index())
    }

    /// Tells a person, once, when what the peer's heartbeats say of fragments does not fit our settings. They are in the clear where the channels
    /// are, and then there is no hello.
    pub(super) fn compare_fragments(&mut self, now: Time) {
        // A hello that told of another mode has been told to a person.
        let is_told = self.differs.is_some_and(|(mode, _)| mode != self.mode);
        if let Some(theirs) = self.bond.peer_joins()
            && !is_told
        {
            self.tell_of_fragments(now, theirs);
        }
    }

    /// Tells a person when we cut packets and the peer does not, or the other way round, and when that is over.
    fn tell_of_fragments(&mut self, now: Time, theirs: bool) {
        let ours = self.bond.config().fragment_delay.is_some();
        let is_new = self.cuts != Some([ours, theirs]);
        let is_odd = |[ours, theirs]: [bool; 2]| ours != theirs;
        let was_odd = self.cuts.is_some_and(is_odd);
        if is_new && (is_odd([ours, theirs]) || was_odd) {
            // Whoever forges heartbeats in the clear does not fill the log.
            if self.cuts_told.is_some_and(|told| now < told + CUTS_TOLD) {
                return;
            }
            self.cuts_told = Some(now);
            let word = |set| if set { "set" } else { "not set" };
            if ours == theirs {
                tracing::info!(peer = self.name, both = word(ours), "`fragment_delay` is the same on both ends again");
            } else {
                tracing::warn!(
                    peer = self.name,
                    ours = word(ours),
                    theirs = word(theirs),
                    "packets get through in both directions only where both ends set `fragment_delay`, or none does"
                );
            }
        }
        self.cuts = Some([ours, theirs]);
    }

    /// Tells a person, once, when the peer's hello does not fit our settings.
    pub(super) fn compare(&mut self, now: Time, hello: &Hello) {
        let (Some(mode), Some(scheduler)) = (hello.mode, hello.scheduler) else { return };
        match mode == self.mode {
            true => self.tell_of_fragments(now, hello.cuts),
            // That is told below, and says more.
            false => self.cuts = None,
        }
        let differs = Some((mode, scheduler)).filter(|theirs| *theirs != (self.mode, self.scheduler));
        if self.differs == differs {
            return;
        }
        self.differs = differs;
        let stripe = self.mode == Mode::Stripe || mode == Mode::Stripe;
        match differs {
            Some(_) if mode != self.mode && stripe => tracing::warn!(
                peer = self.name,
                ours = %self.mode,
                theirs = %mode,
                "mode stripe works only where both ends use it: nothing gets through until `mode` is the same on both"
            ),
            Some(_) => tracing::info!(
                peer = self.name,
                ours = %format_args!("{}, {}", self.mode, self.scheduler),
                theirs = %format_args!("{mode}, {scheduler}"),
                "the peer spreads packets in another way than this end"
            ),
            None => tracing::info!(peer = self.name, "the peer's mode and scheduler are ours again"),
        }
    }

    pub(super) fn handle_host(&mut self, now: Time, packet: PacketBuf) {
        self.dirty = true;
        self.bond.handle_host(now, packet);
    }

    pub(super) fn handle_channel(&mut self, now: Time, id: ChannelId, codepoint: Codepoint, frame: PacketBuf, tos: u8) {
        self.dirty = true;
        if let Some(channel) = self.channel_mut(id) {
            channel.carried += (frame.as_slice().len() + channel.overhead()) as u64;
        }
        self.bond.handle_channel(now, id, codepoint, frame, tos);
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        if self.bond.poll_timeout().is_some_and(|(due, _)| due <= now) {
            self.dirty = true;
            self.bond.handle_timeout(now);
        }
    }

    /// Says that nothing more leaves on a channel for now, or that it does again.
    pub(super) fn set_blocked(&mut self, now: Time, id: ChannelId, blocked: bool) {
        let Some(channel) = self.channel_mut(id) else { return };
        if channel.blocked != blocked {
            channel.blocked = blocked;
            self.dirty = true;
            self.bond.set_blocked(now, id, blocked);
        }
    }

    pub(super) fn report_path_mtu(&mut self, now: Time, id: ChannelId, mtu: usize) {
        let report = ChannelReport { path_mtu: Some(mtu), ..ChannelReport::default() };
        self.dirty = true;
        self.bond.report(now, id, report);
    }

    /// Whether there was input since this was last asked, so that there may be output.
    pub(super) fn take_dirty(&mut self) -> bool {
        std::mem::take(&mut self.dirty)
    }

    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<Transmit<PacketBuf>> {
        self.bond.poll_transmit(now)
    }

    pub(super) fn poll_deliver(&mut self) -> Option<PacketBuf> {
        self.bond.poll_deliver()
    }

    pub(super) fn channel(&self, id: ChannelId) -> Option<&ChannelState> {
        self.channels.get(id.index())?.as_ref()
    }

    pub(super) fn channel_mut(&mut self, id: ChannelId) -> Option<&mut ChannelState> {
        self.channels.get_mut(id.index())?.as_mut()
    }

    pub(super) fn channels_mut(&mut self) -> impl Iterator<Item = &mut ChannelState> {
        self.channels.iter_mut().flatten()
    }

    pub(super) fn channels(&self) -> impl Iterator<Item = (ChannelId, &ChannelState)> {
        self.channels.iter().enumerate().filter_map(|(n, c)| Some((ChannelId(n as u8), c.as_ref()?)))
    }

    /// The channels that wait for a socket, as far as there is `room` for them.
    pub(super) fn blocked_on(&self, socket: usize, room: Room) -> Vec<ChannelId> {
        let has_room = |carrier: Carrier| match room {
            Room::Connection(remote) => carrier.remote() == Some(remote),
            Room::Socket | Room::Call => true,
        };
        let waits =
            |channel: &ChannelState| channel.blocked && channel.carrier.socket() == socket && has_room(channel.carrier);
        self.channels().filter(|(_, channel)| waits(channel)).map(|(id, _)| id).collect()
    }

    /// The channel's name, or its number.
    pub(super) fn channel_name(&self, id: ChannelId) -> String {
        self.channel(id).map_or_else(|| id.to_string(), |c| c.name.clone())
    }

    /// The peer is reached elsewhere from now on. True when a channel that was blocked has another socket, or another connection of the same one, now.
    pub(super) fn move_path(&mut self, now: Time, path: PathId, to: Carrier) -> bool {
        let mut unsettled = false;
        for number in 0..self.channels.len() {
            let Some(channel) = &mut self.channels[number] else { continue };
            if channel.carrier.path() != Some(path) {
                continue;
            }
            let (before, overhead) = (channel.carrier, channel.carrier.overhead(self.seal));
            channel.carrier = to;
            channel.local = None;
            // A port that listens has a connection for each remote.
            unsettled |= channel.blocked && (to.socket(), to.remote()) != (before.socket(), before.remote());
            if to.overhead(self.seal) != overhead {
                // From IPv4 to IPv6, from UDP to TCP, or back: less or more fits.
                channel.settings.overhead = to.overhead(self.seal);
                channel.settings.mtu = to.mtu(channel.link_mtu);
                self.rejoin(now, ChannelId(number as u8));
            }
        }
        unsettled
    }

    /// The interface that a channel leaves by has this MTU now.
    pub(super) fn set_device_mtu(&mut self, now: Time, id: ChannelId, mtu: usize) {
        if let Some(channel) = self.channel_mut(id)
            && channel.follows_device
            && channel.link_mtu != mtu
        {
            channel.link_mtu = mtu;
            channel.settings.mtu = channel.carrier.mtu(mtu);
            self.rejoin(now, id);
        }
    }

    /// Gives the bond a channel's settings anew.
    fn rejoin(&mut self, now: Time, id: ChannelId) {
        let Some(settings) = self.channel(id).map(|channel| channel.settings.clone()) else { return };
        self.dirty = true;
        if let Err(error) = self.bond.join(now, id, settings) {
            tracing::warn!(peer = self.name, channel = self.channel_name(id), %error, "cannot follow the change");
        }
    }
}

/// Unpredictable and new at each start: the bond's epoch and hash key come from it.
pub(super) fn random_seed() -> u64 {
    let mut bytes = [0; 8];
    OsEntropy::new().fill(&mut bytes);
    u64::from_ne_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use fairspan_core::path::State;
    use std::net::SocketAddr;
    use std::path::Path;

    fn a_peer() -> PeerState {
        let text = "[interface]\nname = \"fs0\"\n[[peer]]\n[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth0\"\n";
        let config = Config::parse(Path::new("test.toml"), text).expect("a configuration");
        PeerState::new(Time::ZERO, &config.peers[0], crate::secure::OVERHEAD, None).expect("a peer")
    }

    #[test]
    fn who_cuts_packets_is_told_when_it_differs_and_when_it_fits_again_and_not_more_often_than_every_ten_seconds() {
        let mut peer = a_peer();
        let mut tell = |ms, theirs| {
            peer.tell_of_fragments(Time::from_millis(ms), theirs);
            (peer.cuts, peer.cuts_told.map(|told| told.as_nanos() / 1_000_000))
        };
        assert_eq!(tell(0, false), (Some([false, false]), None), "nothing to tell");
        assert_eq!(tell(1000, true), (Some([false, true]), Some(1000)));
        assert_eq!(tell(5000, true), (Some([false, true]), Some(1000)), "once");
        assert_eq!(tell(10_999, false), (Some([false, true]), Some(1000)), "later");
        assert_eq!(tell(11_000, false), (Some([false, false]), Some(11_000)));
        assert_eq!(tell(30_000, false), (Some([false, false]), Some(11_000)));
    }

    fn join(peer: &mut PeerState, id: u8, carrier: Carrier) {
        let joining = Joining {
            name: format!("channel{id}"),
            rate: None,
            priority: 0,
            weight: 1,
            framing: 14,
            mtu: 1500,
            configured: None,
            follows_device: false,
        };
        peer.join(Time::ZERO, ChannelId(id), joining, carrier).expect("it joins");
        peer.set_link(Time::ZERO, ChannelId(id), Link::Up);
    }

    #[test]
    fn only_what_waits_for_a_connection_is_tried_when_there_is_room_in_it() {
        let mut peer = a_peer();
        let address = |host| SocketAddr::from(([192, 0, 2, host], 443));
        for (id, (socket, host)) in [(1, 1), (1, 2), (2, 1), (1, 3)].into_iter().enumerate() {
            let path = crate::secure::PathId::default();
            join(&mut peer, id as u8, Carrier::Sealed { path, socket, remote: address(host), stream: true });
            peer.set_blocked(Time::ZERO, ChannelId(id as u8), host != 3);
        }
        let ids = |ids: &[u8]| ids.iter().map(|id| ChannelId(*id)).collect::<Vec<_>>();
        assert_eq!(peer.blocked_on(1, Room::Connection(address(2))), ids(&[1]));
        assert_eq!(peer.blocked_on(1, Room::Connection(address(3))), ids(&[]));
        assert_eq!((peer.blocked_on(1, Room::Socket), peer.blocked_on(2, Room::Call)), (ids(&[0, 1]), ids(&[2])));
    }

    #[test]
    fn what_waited_for_a_socket_or_a_connection_is_tried_where_the_peer_is_now() {
        let (mut peer, path) = (a_peer(), crate::secure::PathId::default());
        let at = |socket, host| {
            let remote = SocketAddr::from(([192, 0, 2, host], 443));
            Carrier::Sealed { path, socket, remote, stream: true }
        };
        join(&mut peer, 0, at(1, 1));
        assert!(!peer.move_path(Time::ZERO, path, at(1, 2)), "nothing waits");
        peer.set_blocked(Time::ZERO, ChannelId(0), true);
        assert!(!peer.move_path(Time::ZERO, path, at(1, 2)), "nothing has changed");
        assert!(peer.move_path(Time::ZERO, path, at(1, 3)), "another connection of a port");
        assert!(peer.move_path(Time::ZERO, path, at(2, 3)), "another socket");
    }

    #[test]
    fn a_channel_that_joins_anew_while_its_socket_is_full_is_used_once_there_is_room() {
        let (mut now, id) = (Time::ZERO, ChannelId(0));
        let mut peer = a_peer();
        join(&mut peer, 0, Carrier::Plain { socket: 0 });
        peer.set_blocked(now, id, true);
        // The peer restarts, and opens its channel again.
        join(&mut peer, 0, Carrier::Plain { socket: 0 });
        assert!(peer.channel(id).is_some_and(|channel| channel.blocked), "what waits is tried again");
        peer.set_blocked(now, id, false);
        now += Span::from_millis(500);
        peer.handle_timeout(now);
        let path = peer.bond.channel_path(now, id).expect("it joined");
        assert_eq!(path.state, State::Up);
    }
}
