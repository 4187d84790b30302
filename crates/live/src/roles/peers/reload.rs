//! Another configuration for the daemon that runs: what differs is changed, and nothing else is touched.
//!
//! All of the file or nothing: where one setting needs a restart, nothing is changed, so that a running daemon always is as one file
//! says. Peers are known by their keys, channels by their names; a channel of another name that leads the same way was renamed. A
//! channel keeps its number as long as it is there, and a new one has the number of its place in the file, if that is free.

use super::peer::PeerState;
use super::side::Side;
use super::told::{goes_on, leads_alike, listed};
use super::{Peers, names};
use crate::config::{self, Channel, ChannelKind, Config, paired};
use crate::confinement::Needs;
use crate::reloaded::Reloaded;
use crate::roles::network::Reached;
use crate::secure;
use fairspan_core::units::{ChannelId, Time};

/// What is to become of the channels of a peer.
#[derive(Debug, Default)]
struct Plan {
    /// These are removed; with `true` at once, as others take their numbers.
    removed: Vec<(ChannelId, bool)>,
    /// These go on, with the settings of that place in the file.
    kept: Vec<(ChannelId, usize)>,
    /// These begin.
    added: Vec<(ChannelId, usize)>,
}

impl Plan {
    fn of(peer: &PeerState, after: &[Channel]) -> Plan {
        let configured = |(id, channel): (ChannelId, &'_ super::peer::ChannelState)| {
            let config = channel.configured.as_deref().filter(|_| channel.leaving.is_none())?;
            Some((id, config.clone()))
        };
        let mut before: Vec<(ChannelId, Channel)> = peer.channels().filter_map(configured).collect();
        let (mut plan, mut left) = (Plan::default(), Vec::new());
        for (place, channel) in after.iter().enumerate() {
            match before.iter().position(|(_, known)| known.name == channel.name) {
                Some(at) => plan.keep(before.remove(at), place, channel),
                None => left.push(place),
            }
        }
        // Of what is left, what leads the same way has another name now.
        let renamed = |known: &Channel, place: usize| leads_alike(known, &after[place]);
        left.retain(|place| match before.iter().position(|(_, known)| renamed(known, *place)) {
            Some(at) => {
                plan.kept.push((before.remove(at).0, *place));
                false
            }
            None => true,
        });
        plan.removed.extend(before.into_iter().map(|(id, _)| (id, false)));
        for place in left {
            let is_there = |id: ChannelId, leaves: bool| {
                peer.channel(id).is_some_and(|channel| channel.leaving.is_some() == leaves)
                    && !plan.removed.contains(&(id, true))
            };
            let is_new = |id: ChannelId| plan.added.iter().any(|(other, _)| *other == id);
            let taken = |id: ChannelId| is_new(id) || is_there(id, false);
            let free = |id: ChannelId| !taken(id) && !is_there(id, true);
            let mut places = std::iter::once(place).chain(0..ChannelId::LIMIT).map(|place| ChannelId(place as u8));
            // A plain one needs its place's number. With all numbers taken, one of those that leave has to go at once.
            let first = places.clone().find(|id| if is_plain(&after[place]) { !taken(*id) } else { free(*id) });
            let free = first.or_else(|| places.find(|id| !taken(*id))).or_else(|| {
                let going = plan.removed.iter_mut().find(|(_, at_once)| !*at_once)?;
                going.1 = true;
                Some(going.0)
            });
            plan.added.extend(free.map(|id| (id, place)));
        }
        plan
    }

    fn keep(&mut self, (id, known): (ChannelId, Channel), place: usize, channel: &Channel) {
        match goes_on(&known, channel) {
            true => self.kept.push((id, place)),
            false => {
                self.removed.push((id, true));
                self.added.push((id, place));
            }
        }
    }

    /// Whether a plain Ethernet channel would have another number than its place, by which the other end knows it.
    fn misnumbers(&self, after: &[Channel]) -> bool {
        let numbered = self.kept.iter().chain(&self.added);
        numbered.into_iter().any(|(id, place)| is_plain(&after[*place]) && id.index() != *place)
    }
}

/// Whether the other end knows a channel by its number alone.
fn is_plain(channel: &Channel) -> bool {
    matches!(channel.kind, ChannelKind::Ethernet { secure: false, .. })
}

impl Peers {
    /// See [`Machine::reload`](crate::shell::machine::Machine::reload).
    pub(super) fn take_over(&mut self, now: Time, mut after: Config) -> Reloaded {
        self.guests.joined.resolve(&mut after);
        let mut restart = self.config.needing_restart(&after);
        restart.extend(self.needs.lacks(&Needs::of(&after)).map(str::to_owned));
        let pairs = paired(&self.config.peers, &after.peers);
        for (peer, before) in after.peers.iter_mut().zip(&pairs) {
            let Some(before) = before.map(|before| &self.peers[before]) else { continue };
            peer.channels.iter_mut().for_each(|channel| names::resolve_as(before, channel));
        }
        for (peer, before) in after.peers.iter().zip(&pairs) {
            let Some(before) = before.map(|before| &self.peers[before]) else { continue };
            if Plan::of(before, &peer.channels).misnumbers(&peer.channels) {
                restart.insert("peer.channel (plain Ethernet channels are known by their places in the file)".into());
            }
        }
        if !restart.is_empty() {
            return Reloaded::needing_restart(restart);
        }
        let mut done = Reloaded { ok: true, ..Reloaded::default() };
        if let Err(problem) = self.exchange_peers(now, &after, &pairs, &mut done) {
            return Reloaded::impossible(problem);
        }
        let before = std::mem::replace(&mut self.config, after);
        for (number, known) in pairs.iter().enumerate() {
            match known {
                Some(known) => self.change_peer(now, number, &before.peers[*known], &mut done),
                None => {
                    if let Err(error) = self.open_peer(now, number) {
                        done.failed.push(error.to_string());
                    }
                    self.transport.sockets.watch_new();
                }
            }
        }
        self.guests.follow(&self.config);
        self.change_host(&before, &mut done);
        self.follow_domains(&mut done);
        if let Some(Err(error)) = self.masquerade.as_mut().map(|masquerade| masquerade.follow(&self.config)) {
            done.failed.push(error.to_string());
        }
        self.fit_mtu();
        self.follow_leaving(now);
        self.follow_names(now);
        self.follow_quotas(now);
        self.lookups.ask_anew(now);
        done.ok = done.failed.is_empty();
        done
    }

    /// Removes the peers that are gone, makes the new ones, and puts all into the order of the file.
    fn exchange_peers(
        &mut self,
        now: Time,
        after: &Config,
        pairs: &[Option<usize>],
        done: &mut Reloaded,
    ) -> Result<(), String> {
        // What may fail comes first.
        let seal = secure::overhead(after.interface.padding);
        let mut made = Vec::new();
        for peer in after.peers.iter().zip(pairs).filter_map(|(peer, known)| known.is_none().then_some(peer)) {
            match Peers::make_peer(now, peer, &mut self.transport, (seal, None)) {
                Ok(state) => made.push(state),
                Err(error) => {
                    for id in made.iter().filter_map(|peer: &PeerState| peer.id) {
                        self.transport.sessions.iter_mut().for_each(|sessions| sessions.remove_peer(id));
                    }
                    return Err(error.to_string());
                }
            }
        }
        for number in (0..self.peers.len()).filter(|number| !pairs.contains(&Some(*number))) {
            for id in (0..ChannelId::LIMIT).map(|id| ChannelId(id as u8)) {
                self.remove_channel(now, number, id);
            }
            if let (Some(id), Some(sessions)) = (self.peers[number].id, &mut self.transport.sessions) {
                sessions.remove_peer(id);
            }
            done.changed.push(format!("peer {}: removed", self.peers[number].name));
        }
        let mut before: Vec<Option<PeerState>> = std::mem::take(&mut self.peers).into_iter().map(Some).collect();
        let mut made = made.into_iter();
        for (peer, known) in after.peers.iter().zip(pairs) {
            match known {
                Some(known) => self.peers.extend(before[*known].take()),
                None => {
                    self.peers.extend(made.next());
                    done.changed.push(format!("peer {}: added", peer.name));
                }
            }
        }
        let place = |former: usize| pairs.iter().position(|known| *known == Some(former));
        self.paths.renumber(|(peer, id)| Some((place(peer)?, id)));
        for socket in self.transport.sockets.iter_mut() {
            socket.renumber(|peer| place(peer).unwrap_or(peer));
        }
        Ok(())
    }

    /// Changes what differs in a peer that stays.
    fn change_peer(&mut self, now: Time, number: usize, before: &config::Peer, done: &mut Reloaded) {
        // Only to be looked at, while the peer's state changes.
        let after = &self.config.peers[number];
        let (name, channels) = (after.name.clone(), after.channels.clone());
        let mut settings: Vec<&str> = before.bond.differences(&after.bond).map(|(name, _)| name).collect();
        if !settings.is_empty()
            && let Err(error) = self.peers[number].reconfigure(now, after)
        {
            done.failed.push(error.to_string());
        }
        if before.name != name {
            self.peers[number].name.clone_from(&name);
            settings.push("name");
        }
        if before.allowed_ips != after.allowed_ips {
            settings.push("allowed_ips");
        }
        if !settings.is_empty() {
            done.changed.push(format!("peer {name}: {}", settings.join(", ")));
        }
        let plan = Plan::of(&self.peers[number], &channels);
        for (id, at_once) in &plan.removed {
            let channel = self.peers[number].channel_name(*id);
            done.changed.push(format!("peer {name}: channel {channel}: removed"));
            match at_once {
                true => self.remove_channel(now, number, *id),
                false => self.leave_channel(now, number, *id),
            }
        }
        for (id, place) in &plan.kept {
            let (channel, known) = (&channels[*place], self.peers[number].channel(*id));
            let Some(known) = known.and_then(|known| known.configured.clone()).filter(|known| **known != *channel)
            else {
                continue;
            };
            let differs = differences(&known, channel).join(", ");
            match self.change_channel(now, number, *id, channel) {
                Ok(()) => done.changed.push(format!("peer {name}: channel {}: {differs}", known.name)),
                Err(error) => done.failed.push(error.to_string()),
            }
        }
        // Those that begin tell of all from their first call on.
        let numbered = plan.kept.iter().chain(&plan.added).map(|(id, place)| (*id, &channels[*place]));
        self.peers[number].list(listed(numbered));
        for (id, place) in &plan.added {
            let channel = &channels[*place];
            match self.open_channel(now, number, *id, channel) {
                Ok(()) => done.changed.push(format!("peer {name}: channel {}: added", channel.name)),
                Err(error) => done.failed.push(error.to_string()),
            }
        }
        self.transport.sockets.watch_new();
        self.tell_channels(now, number);
    }

    /// Changes what differs in the interface and in what is reached by it.
    fn change_host(&mut self, before: &Config, done: &mut Reloaded) {
        let after = &self.config;
        for (setting, differs) in [
            ("address", before.interface.addresses != after.interface.addresses),
            ("mtu", before.interface.mtu != after.interface.mtu),
        ] {
            if differs {
                done.changed.push(format!("interface: {setting}"));
            }
        }
        let Side::Host(host) = &mut self.side else { return };
        let (before, after) = (Reached::of(before), Reached::of(after));
        let (changed, failed) = host.change(&after);
        if changed && before.nets == after.nets && before.interface.addresses == after.interface.addresses {
            done.changed.push("interface: what the system had refused before".into());
        }
        done.failed.extend(failed.iter().map(ToString::to_string));
    }
}

/// The settings in which two channels differ.
fn differences(before: &Channel, after: &Channel) -> Vec<&'static str> {
    let ends = |channel: &Channel| match channel.kind.ends() {
        Some((endpoint, source)) => (Some(endpoint), source),
        None => (None, None),
    };
    let ((endpoint, source), (other_endpoint, other_source)) = (ends(before), ends(after));
    let settings = [
        ("name", before.name != after.name),
        ("device", before.device != after.device),
        ("endpoint", endpoint != other_endpoint || before.host != after.host),
        ("source", source != other_source),
        ("rate", before.rate != after.rate),
        ("peer_rate", before.peer_rate != after.peer_rate),
        ("priority", before.priority != after.priority),
        ("weight", before.weight != after.weight),
        ("mtu", before.mtu != after.mtu),
        ("overhead", before.overhead != after.overhead),
        ("quota", before.quota.map(|quota| quota.bytes) != after.quota.map(|quota| quota.bytes)),
        ("quota_day", before.quota.map(|quota| quota.day) != after.quota.map(|quota| quota.day)),
    ];
    settings.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name).collect()
}
