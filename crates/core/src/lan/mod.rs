//! A bond of Ethernet links that needs nothing at the other end: what Linux's `bond0` is, without a clock or a device.
//!
//! The driver gives frames of the host and of the links with their times, and drains the polls:
//!
//! ```text
//! host -> handle_host -> selector -> poll_transmit -> links
//! links -> handle_link -> the host, or dropped with a reason
//! ```
//!
//! What it is: link selection ([`crate::select`]) over whole Ethernet frames, and what goes with it on a LAN: which frames
//! of which link count, LACP, ARP supervision, gratuitous ARP and unsolicited neighbour advertisements after a fail-over,
//! learning packets, and for `balance-alb` the balancing of what is received. Source: the kernel's bonding documentation, and
//! what the Linux 6.1 driver does.
//!
//! | who sends | from which address |
//! |---|---|
//! | the bond's traffic | the bond's own, on all links; it belongs to no device |
//! | `balance-tlb`, `balance-alb` on a link that is not the current one | that link's, so that no switch sees one address at two ports |
//! | `fail_over_mac=active` | the current link's, which its driver makes the device's own; the bond's changes with it |
//! | `fail_over_mac=follow` | the bond's, which the current link's device is given; the device that had it before gets that one's |
//! | LACPDUs, markers, ARP probes, learning packets | that link's; the current one's learning packets are from the bond's |
//!
//! | policy | what counts of what a link receives |
//! |---|---|
//! | `active-backup`, `balance-tlb` | all of the current link, nothing of the others |
//! | `balance-alb` | all of the current link; of the others what is for one station |
//! | `802.3ad` | what comes on links of the aggregator in use |
//! | all others | all; copies that `broadcast` makes arrive as copies, as on Linux |
//!
//! Departures from the driver: no link takes the bond's address (the driver puts the devices into promiscuous mode instead,
//! and the host's own stack takes no frame for a station that is not its device); the queue of a link is the device's, and
//! what is in it is reckoned from the link's rate, not asked for; frames that our own bond sent and that came back are
//! dropped; ARP supervision: see [`monitor`](self).
//!
//! Cost: a packet costs its selector and a few loads; no allocation in steady state. Invariants: a frame leaves on links that
//! the selector chose and that are usable; every frame that does not go on is counted under a reason.

pub mod frame;

mod addresses;
mod config;
mod flush;
mod monitor;
mod notify;
mod output;
mod receive;
mod stats;

pub use config::{Condition, Config, LinkConfig, USUAL_JITTER};
pub use output::{Event, Received, Transmit};
pub use stats::{LinkStats, Stats};

use crate::flow::ethernet;
use crate::lacp::{self, Lacp, PortLink};
use crate::options::OptionError;
use crate::packet::Packet;
use crate::select::active_backup::FailOverMac;
use crate::select::{Frame, Layer, LinkState, Links, Policy, Select, Selector, Settings};
use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Span, Time};
use crate::wire::mac::Mac;
use addresses::{Addresses, Changes};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::IpAddr;
use flush::Conversations;
use frame::{Arp, Header};
use monitor::Monitor;
use notify::Notifier;
use receive::Balancer;

/// The most that a link's queue is reckoned to hold: what a device's own queue does not take is lost, not waited for.
const QUEUE_TIME: Span = Span::from_secs(1);

#[derive(Clone, Debug)]
struct Member {
    config: LinkConfig,
    condition: Condition,
    stats: LinkStats,
}

/// A bond of Ethernet links.
#[derive(Debug)]
pub struct Lan<P> {
    config: Config,
    selector: Selector,
    links: Links,
    members: Vec<Option<Member>>,
    monitor: Monitor,
    /// Where the policy is 802.3ad.
    lacp: Option<Box<Lacp>>,
    notifier: Notifier,
    /// Where the policy is balance-alb.
    balancer: Option<Box<Balancer>>,
    /// Where flows move behind markers.
    conversations: Option<Box<Conversations<P>>>,
    /// The current link, where the policy has one.
    current: Option<ChannelId>,
    addresses: Addresses,
    promiscuous: bool,
    out: VecDeque<Transmit<P>>,
    events: VecDeque<Event>,
    stats: Stats,
}

impl<P: Packet> Lan<P> {
    /// A bond over `links`, numbered from 0; all are without carrier until [`Lan::set_link`] says otherwise.
    ///
    /// # Errors
    /// The policy's settings cannot work, or not with these links.
    pub fn new(mut config: Config, links: Vec<LinkConfig>, seed: u64) -> Result<Lan<P>, OptionError> {
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        config.settings.resolve(&names)?;
        let down = Condition { carrier: false, rate: None, full_duplex: true };
        let macs: Vec<Mac> = links.iter().take(ChannelId::LIMIT).map(|link| link.mac).collect();
        let monitor = Monitor::new(config.settings.supervision, config.arp_targets.clone(), macs.iter().copied());
        let rule = match &config.settings.policy {
            Policy::ActiveBackup(backup) => backup.fail_over_mac,
            _ => FailOverMac::None,
        };
        let addresses = Addresses::new(rule, config.mac, macs);
        let lacp = match &config.settings.policy {
            Policy::Ieee8023ad(ad) => Some(Box::new(Lacp::new(ad, config.mac))),
            _ => None,
        };
        let members = links.into_iter().take(ChannelId::LIMIT);
        let members: Vec<_> =
            members.map(|config| Some(Member { config, condition: down, stats: LinkStats::default() })).collect();
        let mut views = Links::default();
        for (n, member) in members.iter().enumerate() {
            views.set(ChannelId(n as u8), state_of(member.as_ref(), false));
        }
        let selector = Selector::new(&config.settings, &views, seed)?;
        let balancer = matches!(config.settings.policy, Policy::BalanceAlb(_)).then(Box::default);
        let notifier = Notifier::new(&config);
        let flush = config.settings.flush.filter(|_| lacp.is_some());
        let conversations = flush.map(|flush| Box::new(Conversations::new(flush, seed)));
        Ok(Lan {
            config,
            selector,
            links: views,
            members,
            monitor,
            lacp,
            notifier,
            balancer,
            conversations,
            current: None,
            addresses,
            promiscuous: false,
            out: VecDeque::with_capacity(256),
            events: VecDeque::new(),
            stats: Stats::default(),
        })
    }

    /// The bond's address now.
    pub fn mac(&self) -> Mac {
        self.addresses.bond()
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.config.settings
    }

    /// The link that a policy with one current link uses.
    pub fn current(&self) -> Option<ChannelId> {
        self.current
    }

    /// The links as the selector sees them.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// LACP as it stands, where the policy is 802.3ad.
    pub fn lacp(&self) -> Option<&Lacp> {
        self.lacp.as_deref()
    }

    /// The counters of the bond.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The counters of `link`.
    pub fn link_stats(&self, link: ChannelId) -> Option<&LinkStats> {
        self.members.get(link.index())?.as_ref().map(|member| &member.stats)
    }

    /// What moving behind markers counted, where `flush` is set.
    pub fn flush(&self) -> Option<&crate::select::flush::Counters> {
        self.conversations.as_ref().map(|conversations| conversations.counters())
    }

    /// How many clients `balance-alb` has told `link`'s address.
    pub fn clients(&self, link: ChannelId) -> u64 {
        self.balancer.as_ref().map_or(0, |balancer| balancer.clients(link))
    }

    /// Whether the host wants frames for other stations too, as a bridge does.
    pub fn set_promiscuous(&mut self, promiscuous: bool) {
        self.promiscuous = promiscuous;
    }

    /// The host's addresses on the bond: what a fail-over announces.
    pub fn set_addresses(&mut self, addresses: &[IpAddr]) {
        self.notifier.set_addresses(addresses);
    }

    /// How `link`'s device is now.
    pub fn set_link(&mut self, now: Time, link: ChannelId, condition: Condition) {
        let Some(Some(member)) = self.members.get_mut(link.index()) else { return };
        if member.condition == condition {
            return;
        }
        member.condition = condition;
        self.monitor.set_carrier(now, link, condition.carrier);
        self.refresh(now);
    }

    /// The address that `link` sends from, where it does not send from the bond's, is `mac` from now on: another device came.
    pub fn set_link_address(&mut self, now: Time, link: ChannelId, mac: Mac) {
        let known = self.addresses.link(link);
        if known.is_none() || known == Some(mac) && (self.current == Some(link) || !self.addresses.is_shared(link)) {
            return;
        }
        let changes = self.addresses.set(link, mac, self.current);
        self.monitor.set_mac(now, link, mac);
        if self.tell_addresses(now, changes) {
            self.notifier.on_fail_over(now);
        }
        self.follow_clients(now);
        self.refresh(now);
    }

    /// A frame that the host sends.
    pub fn handle_host(&mut self, now: Time, mut frame: P) {
        let len = frame.size();
        self.stats.host_packets += 1;
        self.stats.host_bytes += len.as_u64();
        if frame.bytes().len() < ethernet::HEADER {
            self.stats.host_malformed += 1;
            return;
        }
        if let Some(balancer) = &mut self.balancer
            && let Some((link, mac)) = balancer.handle_host(now, frame.bytes_mut(), self.addresses.bond(), &self.links)
            && self.links.usable().contains(link)
        {
            return self.send(now, LinkSet::only(link), (mac != self.addresses.bond()).then_some(mac), frame);
        }
        self.route(now, frame);
        self.pump(now);
    }

    /// Lets the policy choose where a frame goes.
    fn route(&mut self, now: Time, frame: P) {
        let len = frame.size();
        let view = Frame { bytes: frame.bytes(), len: len.as_u64() as usize, layer: Layer::Ethernet };
        let links = self.selector.select(now, &view, &self.links);
        let links = links & self.links.usable();
        if links.is_empty() {
            self.stats.host_no_link += 1;
            return;
        }
        let source = self.source_on(links);
        let (links, frame) = match (&mut self.conversations, links.first().filter(|_| links.len() == 1)) {
            (Some(conversations), Some(link)) => {
                let (flow, cost) = (conversations.flow(frame.bytes()), frame.footprint());
                match conversations.place(now, flow, link, cost, frame) {
                    Ok(Some((link, frame))) => {
                        conversations.on_sent(flow, link);
                        (LinkSet::only(link), frame)
                    }
                    Ok(None) => return,
                    Err(_) => {
                        self.stats.host_not_held += 1;
                        return;
                    }
                }
            }
            _ => (links, frame),
        };
        self.send(now, links, source, frame);
    }

    /// Sends what is held no longer, and the markers that are due.
    fn pump(&mut self, now: Time) {
        while let Some(conversations) = &mut self.conversations {
            if let Some((link, flow, frame)) = conversations.poll_release() {
                conversations.on_sent(flow, link);
                self.send(now, LinkSet::only(link), None, frame);
            } else if let Some(frame) = conversations.poll_again() {
                self.route(now, frame);
            } else {
                break;
            }
        }
        if let (Some(conversations), Some(lacp)) = (&mut self.conversations, &mut self.lacp)
            && conversations.mark(now, lacp)
        {
            self.send_lacp();
        }
    }

    fn send_lacp(&mut self) {
        while let Some(sent) = self.lacp.as_mut().and_then(|lacp| lacp.poll_transmit()) {
            self.send_own(sent.port, &sent.frame);
        }
    }

    /// A frame that `link` received.
    pub fn handle_link(&mut self, now: Time, link: ChannelId, bytes: &[u8]) -> Received {
        let Some(Some(member)) = self.members.get_mut(link.index()) else { return Received::Dropped };
        let stats = &mut member.stats;
        stats.received_packets += 1;
        stats.received_bytes += bytes.len() as u64;
        let Some(header) = Header::parse(bytes) else {
            stats.received_malformed += 1;
            return Received::Dropped;
        };
        if let Some(lacp) = &mut self.lacp
            && lacp::is_slow_protocol(bytes)
        {
            stats.received_lacp += 1;
            stats.received_lacp_malformed += u64::from(lacp.handle_pdu(now, link, bytes).is_err());
            self.follow_lacp(now);
            return Received::Consumed;
        }
        self.hear(now, link, header.ether_type == ethernet::ARP);
        if self.is_own(header.source) {
            return self.drop_as(link, |stats| &mut stats.received_own);
        }
        if frame::is_link_local(header.destination) {
            return self.drop_as(link, |stats| &mut stats.received_link_local);
        }
        if self.monitor.is_prober(header.destination)
            && let Some(arp) = Arp::parse(bytes)
            && arp.operation == Arp::REPLY
        {
            self.monitor.on_answer(now, header.destination, arp.sender_ip);
            self.refresh(now);
            // A probe has no sender. Where the link has the bond's address, other answers are the host's.
            if arp.target_ip.is_unspecified() || header.destination != self.addresses.bond() {
                self.stats.arp_answers += 1;
                return Received::Consumed;
            }
        }
        let for_one = !frame::is_group(header.destination);
        let to_link = for_one && self.addresses.is_link(header.destination);
        let to_bond = header.destination == self.addresses.bond();
        if for_one && !to_bond && !to_link && !self.promiscuous {
            return self.drop_as(link, |stats| &mut stats.received_other_station);
        }
        if !self.listens(link, for_one) {
            return self.drop_as(link, |stats| &mut stats.received_inactive);
        }
        if let Some(balancer) = &mut self.balancer {
            balancer.handle_link(now, bytes);
        }
        self.stats.delivered_packets += 1;
        self.stats.delivered_bytes += bytes.len() as u64;
        Received::Deliver { destination: (to_link && !to_bond).then_some(self.addresses.bond()) }
    }

    /// Does what is due. Calling it early or late does no harm.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.monitor.poll_timeout().is_some_and(|due| due <= now) {
            let mut probes = Vec::new();
            self.monitor.handle_timeout(now, |link, mac, target| probes.push((link, Arp::probe(mac, target))));
            self.stats.arp_probes += probes.len() as u64;
            for (link, probe) in probes {
                self.send_own(link, &probe);
            }
            self.refresh(now);
        }
        if let Some(lacp) = self.lacp.as_mut().filter(|lacp| lacp.poll_timeout().is_some_and(|due| due <= now)) {
            lacp.handle_timeout(now);
            self.follow_lacp(now);
        }
        if self.selector.poll_timeout().is_some_and(|due| due <= now) {
            self.selector.handle_timeout(now, &self.links);
            if self.selector.current() != self.current {
                self.follow_current(now);
                self.follow_clients(now);
            }
        }
        if self.notifier.announcement_due(now)
            && let Some(link) = self.current
        {
            for frame in self.notifier.announce(now, self.addresses.bond()) {
                self.stats.announcements += 1;
                self.send_own(link, &frame);
            }
            if let Some(balancer) = &mut self.balancer {
                self.notifier.addresses().iter().for_each(|ours| balancer.after_announcement(now, *ours));
            }
        }
        let usable = self.links.usable();
        if let Some(conversations) = &mut self.conversations
            && conversations.poll_timeout(usable).is_some_and(|due| due <= now)
        {
            conversations.handle_timeout(now);
            self.pump(now);
        }
        let updates = self.balancer.as_mut().map(|balancer| balancer.handle_timeout(now)).unwrap_or_default();
        for (link, update) in updates {
            self.stats.client_updates += 1;
            self.send_own(link, &update);
        }
        if self.notifier.learning_due(now) {
            self.notifier.on_learning(now);
            self.teach(now);
        }
    }

    /// When [`Lan::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Time> {
        let lacp = self.lacp.as_ref().and_then(|lacp| lacp.poll_timeout());
        let balancer = self.balancer.as_ref().and_then(|balancer| balancer.poll_timeout());
        let flush = self.conversations.as_ref().and_then(|flows| flows.poll_timeout(self.links.usable()));
        [self.monitor.poll_timeout(), self.selector.poll_timeout(), self.notifier.poll_timeout(), lacp, balancer, flush]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next frame to send.
    pub fn poll_transmit(&mut self) -> Option<Transmit<P>> {
        self.out.pop_front()
    }

    /// What happened meanwhile.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn drop_as(&mut self, link: ChannelId, counter: impl FnOnce(&mut LinkStats) -> &mut u64) -> Received {
        if let Some(Some(member)) = self.members.get_mut(link.index()) {
            *counter(&mut member.stats) += 1;
        }
        Received::Dropped
    }

    fn send(&mut self, now: Time, links: LinkSet, source: Option<Mac>, frame: P) {
        let len = frame.size();
        for link in links.iter() {
            self.charge(now, link, len);
            if let Some(Some(member)) = self.members.get_mut(link.index()) {
                member.stats.sent_packets += 1;
                member.stats.sent_bytes += len.as_u64();
            }
        }
        self.out.push_back(Transmit { links, source, frame });
    }

    /// Whether a frame from `source` was sent by this bond.
    fn is_own(&self, source: Mac) -> bool {
        source == self.addresses.bond() || self.addresses.is_link(source)
    }

    /// `link` received a frame: that it works, where `arp_validate` lets such a frame say so.
    fn hear(&mut self, now: Time, link: ChannelId, is_arp: bool) {
        let one = has_current(&self.config.settings.policy);
        let active = !one || self.current.is_none_or(|current| current == link);
        if self.monitor.on_frame(now, link, is_arp, active) {
            self.refresh(now);
        }
    }

    /// Whether what `link` receives counts: `for_one`, what is for one station.
    fn listens(&self, link: ChannelId, for_one: bool) -> bool {
        match self.config.settings.policy {
            Policy::ActiveBackup(_) | Policy::BalanceTlb(_) => self.current == Some(link),
            Policy::BalanceAlb(_) => for_one || self.current == Some(link),
            Policy::Ieee8023ad(_) => self.lacp.as_ref().is_none_or(|lacp| lacp.collecting().contains(link)),
            _ => true,
        }
    }

    /// The address that a frame of the host leaves from on `links`, where it is not the bond's.
    fn source_on(&self, links: LinkSet) -> Option<Mac> {
        match self.config.settings.policy {
            Policy::BalanceTlb(_) | Policy::BalanceAlb(_) if links.len() == 1 => {
                let link = links.first().filter(|link| Some(*link) != self.current)?;
                self.addresses.link(link)
            }
            _ => None,
        }
    }

    /// Reckons with `len` more bytes in `link`'s queue.
    fn charge(&mut self, now: Time, link: ChannelId, len: Bytes) {
        let Some(state) = self.links.get(link) else { return };
        let Some(rate) = state.rate else { return };
        let free = state.free.max(now) + rate.transmit_time(len);
        let free = free.min(now + QUEUE_TIME);
        self.links.set_backlog(link, rate.bytes_in(free.since(now)), free);
    }

    /// Sends a frame of the bond's own on `link`.
    fn send_own(&mut self, link: ChannelId, bytes: &[u8]) {
        let Some(Some(member)) = self.members.get_mut(link.index()) else { return };
        let Some(frame) = P::from_bytes(bytes) else { return };
        member.stats.sent_control += 1;
        self.out.push_back(Transmit { links: LinkSet::only(link), source: None, frame });
    }

    /// Learning packets on every usable link: the switch is to know where the addresses are.
    fn teach(&mut self, _now: Time) {
        for link in self.links.usable().iter() {
            let mac = if self.current == Some(link) { Some(self.addresses.bond()) } else { self.addresses.link(link) };
            let Some(mac) = mac else { continue };
            self.stats.learning_packets += 1;
            self.send_own(link, &frame::learning(mac));
        }
    }

    /// Brings LACP's ports and the selector's view up to date with what the monitor says.
    fn refresh(&mut self, now: Time) {
        let usable = self.monitor.usable();
        if let Some(lacp) = &mut self.lacp {
            for (n, member) in self.members.iter().enumerate() {
                let link = ChannelId(n as u8);
                let (Some(member), Some(mac)) = (member, self.addresses.link(link)) else { continue };
                let Condition { rate, full_duplex, .. } = member.condition;
                lacp.set_port(now, link, PortLink { up: usable.contains(link), rate, full_duplex, mac });
            }
            self.follow_lacp(now);
        } else {
            self.set_usable(now, usable);
        }
    }

    /// Sends what LACP has to say, and uses the links that it says.
    fn follow_lacp(&mut self, now: Time) {
        let Some(lacp) = &mut self.lacp else { return };
        let mut markers = Vec::new();
        while let Some(event) = lacp.poll_event() {
            self.events.extend(match event {
                lacp::Event::Partner { port, system } => Some(Event::Partner { link: port, system }),
                lacp::Event::Aggregator(number) => Some(Event::Aggregator { number }),
                lacp::Event::Loopback { port } => Some(Event::Loopback { link: port }),
                lacp::Event::Churned { port, partner } => Some(Event::Churned { link: port, partner }),
                lacp::Event::MarkerAnswered { port, transaction } => {
                    markers.push((port, transaction, true));
                    None
                }
                lacp::Event::MarkerLost { port, transaction } => {
                    markers.push((port, transaction, false));
                    None
                }
                _ => None,
            });
        }
        let distributing = lacp.distributing();
        self.send_lacp();
        if let Selector::Ieee8023ad(selector) = &mut self.selector {
            // LACP counts `min_links` over the ports that are up, the selector alone would over those that distribute.
            selector.set_distributing(distributing);
        }
        self.set_usable(now, distributing);
        if let Some(conversations) = &mut self.conversations {
            for (link, transaction, answered) in markers {
                conversations.on_marker(now, link, transaction, answered);
            }
        }
        self.pump(now);
    }

    /// The selector is to use these links.
    fn set_usable(&mut self, now: Time, usable: LinkSet) {
        let mut changed = false;
        for n in 0..self.members.len() {
            let link = ChannelId(n as u8);
            let usable = usable.contains(link);
            let before = self.links.get(link).copied().unwrap_or_default();
            let state =
                LinkState { backlog: before.backlog, free: before.free, ..state_of(self.members[n].as_ref(), usable) };
            if state == before {
                continue;
            }
            changed = true;
            self.links.set(link, state);
            if state.usable == before.usable {
                continue;
            }
            if let Some(member) = &mut self.members[n] {
                *if usable { &mut member.stats.ups } else { &mut member.stats.downs } += 1;
            }
            self.events.push_back(if usable { Event::LinkUp { link } } else { Event::LinkDown { link } });
        }
        if changed {
            self.selector.on_links(now, &self.links);
            self.follow_current(now);
            self.follow_clients(now);
            if let Some(conversations) = &mut self.conversations {
                conversations.on_links(now, self.links.usable());
            }
        }
    }

    /// Receive balancing is to know the links and our address on each.
    fn follow_clients(&mut self, now: Time) {
        let macs = (0..self.members.len()).map(|n| {
            let other = Some(ChannelId(n as u8)).filter(|link| self.current != Some(*link));
            other.and_then(|link| self.addresses.link(link)).unwrap_or(self.addresses.bond())
        });
        let macs = macs.collect();
        if let Some(balancer) = &mut self.balancer {
            balancer.on_links(now, &self.links, macs);
        }
    }

    /// Notices a fail-over, and tells of it.
    fn follow_current(&mut self, now: Time) {
        let current = self.selector.current();
        if current == self.current {
            return;
        }
        let first = self.current.is_none() && self.stats.fail_overs == 0;
        self.current = current;
        self.events.push_back(Event::Current { link: current });
        let Some(link) = current else { return };
        if !first {
            self.stats.fail_overs += 1;
        }
        let changes = self.addresses.take_over(link);
        self.tell_addresses(now, changes);
        self.notifier.on_fail_over(now);
    }

    /// Tells the driver which addresses changed, and probes from them. Whether the bond's did, or the current link's.
    fn tell_addresses(&mut self, now: Time, changes: Changes) -> bool {
        let current = changes.links.iter().any(|(link, _)| self.current == Some(*link));
        for (link, mac) in changes.links {
            self.monitor.set_mac(now, link, mac);
            self.events.push_back(Event::LinkAddress { link, mac });
        }
        if changes.bond {
            self.events.push_back(Event::Address { mac: self.addresses.bond() });
        }
        changes.bond || current
    }
}

fn state_of(member: Option<&Member>, usable: bool) -> LinkState {
    let Some(member) = member else { return LinkState { member: false, usable: false, ..LinkState::default() } };
    LinkState {
        member: true,
        usable,
        rate: member.condition.rate,
        full_duplex: member.condition.full_duplex,
        weight: member.config.weight,
        priority: member.config.priority,
        delay: Some(member.config.delay),
        jitter: member.config.jitter,
        ..LinkState::default()
    }
}

/// Whether the policy has one current link.
fn has_current(policy: &Policy) -> bool {
    matches!(policy, Policy::ActiveBackup(_) | Policy::BalanceTlb(_) | Policy::BalanceAlb(_))
}
