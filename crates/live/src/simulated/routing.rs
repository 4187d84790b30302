//! The host's network as rtnetlink shows it: interfaces, addresses, routes and rules, by the messages themselves.

use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage};
use netlink_packet_route::rule::RuleMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::io::Errno;
use std::collections::VecDeque;

/// An interface.
#[derive(Clone, Debug)]
pub(super) struct Interface {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) mtu: u32,
    pub(super) up: bool,
}

/// What the kernel keeps. Addresses and routes go with their interface; rules stay until someone removes them.
#[derive(Debug, Default)]
pub(super) struct Routing {
    /// Of links: what is there, with the link's number.
    pub(super) links: Vec<(usize, Interface)>,
    /// The daemon's own.
    pub(super) tun: Option<Interface>,
    next_index: u32,
    /// What whoever follows the interfaces has not read yet.
    pub(super) news: VecDeque<Vec<u8>>,
    pub(super) addresses: Vec<AddressMessage>,
    pub(super) routes: Vec<RouteMessage>,
    pub(super) rules: Vec<RuleMessage>,
}

impl Routing {
    /// A link's interface appears: with an index that no other had.
    pub(super) fn add_link(&mut self, link: usize, name: String) {
        let interface = self.make(name, true);
        self.tell(&interface);
        self.links.push((link, interface));
    }

    /// The daemon's interface appears, switched off.
    pub(super) fn add_tun(&mut self, name: String) -> Result<(), Errno> {
        if self.tun.is_some() {
            return Err(Errno::BUSY);
        }
        let interface = self.make(name, false);
        self.tell(&interface);
        self.tun = Some(interface);
        Ok(())
    }

    fn make(&mut self, name: String, up: bool) -> Interface {
        self.next_index += 1;
        Interface { index: self.next_index, name, mtu: 1500, up }
    }

    /// The interface of a link, while there is one.
    pub(super) fn link(&self, link: usize) -> Option<&Interface> {
        self.links.iter().find(|(number, _)| *number == link).map(|(_, interface)| interface)
    }

    /// Changes it, and tells.
    pub(super) fn change_link(&mut self, link: usize, change: impl FnOnce(&mut Interface)) {
        let Some((_, interface)) = self.links.iter_mut().find(|(number, _)| *number == link) else { return };
        change(interface);
        let now = interface.clone();
        self.tell(&now);
    }

    pub(super) fn remove_link(&mut self, link: usize) {
        if let Some(place) = self.links.iter().position(|(number, _)| *number == link) {
            let (_, interface) = self.links.remove(place);
            self.forget(&interface);
        }
    }

    pub(super) fn remove_tun(&mut self) {
        if let Some(interface) = self.tun.take() {
            self.forget(&interface);
        }
    }

    fn tell(&mut self, interface: &Interface) {
        self.news.push_back(bytes_of(0, interface.message()));
    }

    fn forget(&mut self, interface: &Interface) {
        let index = interface.index;
        if let RouteNetlinkMessage::NewLink(link) = interface.message() {
            self.news.push_back(bytes_of(0, RouteNetlinkMessage::DelLink(link)));
        }
        self.addresses.retain(|address| address.header.index != index);
        self.routes.retain(|route| !leaves_by(route, index));
    }

    fn forget_ipv6(&mut self, index: u32) {
        let six = AddressFamily::Inet6;
        self.addresses.retain(|address| address.header.index != index || address.header.family != six);
        self.routes.retain(|route| !leaves_by(route, index) || route.header.address_family != six);
    }

    /// Of the daemon's interface alone: it leaves the links as they are.
    fn set_link(&mut self, link: &LinkMessage) -> Result<(), Errno> {
        let tun = self.tun.as_mut().filter(|tun| tun.index == link.header.index).ok_or(Errno::NODEV)?;
        if link.header.change_mask.contains(LinkFlags::Up) {
            tun.up = link.header.flags.contains(LinkFlags::Up);
        }
        let mtu = link.attributes.iter().find_map(|attribute| match attribute {
            LinkAttribute::Mtu(mtu) => Some(*mtu),
            _ => None,
        });
        if mtu.is_some_and(|mtu| !(68..=65_535).contains(&mtu)) {
            return Err(Errno::INVAL);
        }
        tun.mtu = mtu.unwrap_or(tun.mtu);
        let now = tun.clone();
        self.tell(&now);
        if now.mtu < 1280 {
            self.forget_ipv6(now.index);
        }
        Ok(())
    }
}

fn leaves_by(route: &RouteMessage, index: u32) -> bool {
    route.attributes.contains(&RouteAttribute::Oif(index))
}

impl Interface {
    fn message(&self) -> RouteNetlinkMessage {
        let mut link = LinkMessage::default();
        link.header.index = self.index;
        if self.up {
            link.header.flags = LinkFlags::Up | LinkFlags::Running;
        }
        link.attributes = vec![LinkAttribute::IfName(self.name.clone()), LinkAttribute::Mtu(self.mtu)];
        RouteNetlinkMessage::NewLink(link)
    }
}

fn bytes_of(sequence: u32, message: RouteNetlinkMessage) -> Vec<u8> {
    let mut header = NetlinkHeader::default();
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// An acknowledgement, a refusal, or the end of a list.
fn verdict(sequence: u32, ends_list: bool, errno: Option<Errno>) -> Vec<u8> {
    const NLMSG_ERROR: u16 = 2;
    const NLMSG_DONE: u16 = 3;
    let mut bytes = Vec::with_capacity(36);
    let body = if ends_list { 4 } else { 20 };
    bytes.extend_from_slice(&(16 + body as u32).to_ne_bytes());
    bytes.extend_from_slice(&(if ends_list { NLMSG_DONE } else { NLMSG_ERROR }).to_ne_bytes());
    bytes.extend_from_slice(&0u16.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0u32.to_ne_bytes());
    bytes.extend_from_slice(&errno.map_or(0, |errno| -errno.raw_os_error()).to_ne_bytes());
    bytes.resize(16 + body, 0);
    bytes
}

/// Does what a request asks; its answers, each a datagram.
pub(super) fn answer(routing: &mut Routing, request: &[u8]) -> Vec<Vec<u8>> {
    let Ok(request) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(request) else {
        return vec![verdict(0, false, Some(Errno::INVAL))];
    };
    let (sequence, flags) = (request.header.sequence_number, request.header.flags);
    let NetlinkPayload::InnerMessage(message) = request.payload else {
        return vec![verdict(sequence, false, Some(Errno::OPNOTSUPP))];
    };
    match act(routing, message, flags & NLM_F_DUMP == NLM_F_DUMP) {
        Err(errno) => vec![verdict(sequence, false, Some(errno))],
        Ok(found) => {
            let mut answers: Vec<_> = found.into_iter().map(|message| bytes_of(sequence, message)).collect();
            if flags & NLM_F_DUMP == NLM_F_DUMP {
                answers.push(verdict(sequence, true, None));
            } else if flags & NLM_F_ACK != 0 {
                answers.push(verdict(sequence, false, None));
            }
            answers
        }
    }
}

fn act(routing: &mut Routing, message: RouteNetlinkMessage, dump: bool) -> Result<Vec<RouteNetlinkMessage>, Errno> {
    let mut interfaces = routing.links.iter().map(|(_, interface)| interface).chain(&routing.tun);
    match message {
        RouteNetlinkMessage::GetLink(_) if dump => Ok(interfaces.map(Interface::message).collect()),
        RouteNetlinkMessage::GetLink(link) => {
            let named = |attribute: &LinkAttribute| match attribute {
                LinkAttribute::IfName(name) => Some(name.clone()),
                _ => None,
            };
            let name = link.attributes.iter().find_map(named).ok_or(Errno::INVAL)?;
            let found = interfaces.find(|interface| interface.name == name);
            Ok(vec![found.ok_or(Errno::NODEV)?.message()])
        }
        RouteNetlinkMessage::SetLink(link) => routing.set_link(&link).map(|()| Vec::new()),
        RouteNetlinkMessage::NewAddress(address) => add(&mut routing.addresses, address),
        RouteNetlinkMessage::DelAddress(address) => remove(&mut routing.addresses, &address, Errno::ADDRNOTAVAIL),
        RouteNetlinkMessage::GetAddress(_) => {
            Ok(routing.addresses.iter().cloned().map(RouteNetlinkMessage::NewAddress).collect())
        }
        RouteNetlinkMessage::GetRoute(asked) => {
            let family = asked.header.address_family;
            let of_family = routing.routes.iter().filter(|route| route.header.address_family == family);
            Ok(of_family.cloned().map(RouteNetlinkMessage::NewRoute).collect())
        }
        RouteNetlinkMessage::NewRoute(route) => add(&mut routing.routes, route),
        RouteNetlinkMessage::DelRoute(route) => remove(&mut routing.routes, &route, Errno::SRCH),
        RouteNetlinkMessage::NewRule(rule) => add(&mut routing.rules, rule),
        RouteNetlinkMessage::DelRule(rule) => remove(&mut routing.rules, &rule, Errno::NOENT),
        RouteNetlinkMessage::GetRule(asked) => {
            let of_family = routing.rules.iter().filter(|rule| rule.header.family == asked.header.family);
            Ok(of_family.cloned().map(RouteNetlinkMessage::NewRule).collect())
        }
        _ => Err(Errno::OPNOTSUPP),
    }
}

fn add<T: PartialEq>(entries: &mut Vec<T>, entry: T) -> Result<Vec<RouteNetlinkMessage>, Errno> {
    if entries.contains(&entry) {
        return Err(Errno::EXIST);
    }
    entries.push(entry);
    Ok(Vec::new())
}

fn remove<T: PartialEq>(entries: &mut Vec<T>, entry: &T, missing: Errno) -> Result<Vec<RouteNetlinkMessage>, Errno> {
    let place = entries.iter().position(|other| other == entry).ok_or(missing)?;
    entries.remove(place);
    Ok(Vec::new())
}
