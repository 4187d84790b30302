//! Interfaces, addresses, routes and rules through rtnetlink, one request at a time.
//!
//! Synchronous: a request is a message and its acknowledgement, which the kernel gives at once. What the daemon
//! changes goes through a [`Guard`], which undoes it; what happens to links meanwhile comes from a [`Monitor`].
//! Sources: rtnetlink(7), RFC 3549, Linux `Documentation/userspace-api/netlink/intro.rst` (extended acknowledgements).

mod guard;
mod monitor;
pub(crate) mod nftables;

pub use guard::{Capture, Guard};
pub use monitor::{LinkChange, Monitor};

use crate::privilege::lacking;
use crate::system::system;
use ipnet::IpNet;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Marks routes and rules as the daemon's (`proto 250` to ip(8)), so that what a killed daemon left is told from
/// what other programs made.
pub const PROTOCOL: u8 = 250;

/// The main routing table.
pub const TABLE_MAIN: u32 = 254;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused.
    #[error(
        "cannot {action}: {}{}{}",
        io::Error::from_raw_os_error(*.errno),
        if .message.is_empty() { String::new() } else { format!(" ({message})") },
        lacking(&io::Error::from_raw_os_error(*.errno), "CAP_NET_ADMIN")
    )]
    Refused {
        /// What was tried, with the device's name.
        action: String,
        /// What the kernel said, as a number.
        errno: i32,
        /// And in its words, if it used any.
        message: String,
    },
    /// There is no such interface.
    #[error("there is no interface {name}")]
    NoInterface {
        /// The name.
        name: String,
    },
    /// The kernel's answer cannot be read.
    #[error("cannot {action}: the kernel's answer cannot be read: {detail}")]
    Decode {
        /// What was tried.
        action: String,
        /// What is wrong with the answer.
        detail: String,
    },
}

impl NetlinkError {
    /// The kernel's error number, if it refused.
    pub fn errno(&self) -> Option<i32> {
        match self {
            NetlinkError::Refused { errno, .. } => Some(*errno),
            _ => None,
        }
    }
}

/// A network interface as the kernel describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interface {
    /// Its index in this namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// It is switched on.
    pub up: bool,
    /// It is switched on and can carry packets: cable plugged, peer up.
    pub running: bool,
    /// It wants frames for other stations too, as a bridge makes its ports do.
    pub promiscuous: bool,
}

/// A route through a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The destinations; prefix length 0 is the default route.
    pub destination: IpNet,
    /// The interface that it leads through.
    pub device: String,
    /// The next hop; `None` for hosts on the link.
    pub gateway: Option<IpAddr>,
    /// The table that it stands in; [`TABLE_MAIN`] is the usual one.
    pub table: u32,
    /// The metric: of two equal routes the lower counts. `None` is the kernel's default (0, or 1024 with IPv6).
    pub metric: Option<u32>,
}

/// A rule that says which routing table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For IPv6, else for IPv4.
    pub is_v6: bool,
    /// Its place: lower ones are tried first.
    pub priority: u32,
    /// Applies to packets with this mark only.
    pub fwmark: Option<u32>,
    /// Applies to all packets but those.
    pub invert: bool,
    /// The table to look into.
    pub table: u32,
    /// Ignore what is found there if its prefix is this long or shorter: 0 ignores default routes.
    pub suppress_prefix_length: Option<u32>,
}

/// A connection to the kernel's network configuration, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Longest wait for an answer. The kernel gives it before the request's call returns, so one that is not there by then
/// was lost.
const PATIENCE: Duration = Duration::from_secs(5);

impl Netlink {
    /// Connects.
    ///
    /// # Errors
    /// What the kernel says; a kernel without rtnetlink, or no descriptor left.
    pub fn open() -> Result<Netlink, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_ROUTE)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // Older kernels lack these two; only the kernel's words are missing then.
            let _ = socket.set_cap_ack(true);
            let _ = socket.set_ext_ack(true);
            set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| refused("open a netlink socket", &error))?;
        Ok(Netlink { socket, sequence: 0, buffer: Vec::with_capacity(64 << 10) })
    }

    /// The interface named `name`.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says.
    pub fn interface(&mut self, name: &str) -> Result<Interface, NetlinkError> {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.to_owned()));
        let action = format!("query interface {name}");
        match self.request(RouteNetlinkMessage::GetLink(message), 0, &action) {
            Ok(answers) => answers
                .iter()
                .find_map(interface_of)
                .ok_or(NetlinkError::Decode { action, detail: "it describes no interface".to_owned() }),
            Err(error) if error.errno() == Some(libc::ENODEV) => {
                Err(NetlinkError::NoInterface { name: name.to_owned() })
            }
            Err(error) => Err(error),
        }
    }

    /// All interfaces of the namespace.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn interfaces(&mut self) -> Result<Vec<Interface>, NetlinkError> {
        let message = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.request(message, NLM_F_DUMP, "list the interfaces")?;
        Ok(answers.iter().filter_map(interface_of).collect())
    }

    /// Switches an interface on or off.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says.
    pub fn set_up(&mut self, name: &str, up: bool) -> Result<(), NetlinkError> {
        let mut message = self.link_message(name)?;
        message.header.change_mask = LinkFlags::Up;
        message.header.flags = if up { LinkFlags::Up } else { LinkFlags::empty() };
        let action = format!("switch interface {name} {}", if up { "on" } else { "off" });
        self.change(RouteNetlinkMessage::SetLink(message), 0, &action)
    }

    /// Sets an interface's MTU.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says of the MTU.
    pub fn set_mtu(&mut self, name: &str, mtu: u32) -> Result<(), NetlinkError> {
        let mut message = self.link_message(name)?;
        message.attributes.push(LinkAttribute::Mtu(mtu));
        let action = format!("set the MTU of interface {name} to {mtu}");
        self.change(RouteNetlinkMessage::SetLink(message), 0, &action)
    }

    /// Sets an interface's Ethernet address.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`EBUSY`: this device's is set only while it is off).
    pub fn set_address(&mut self, name: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
        let mut message = self.link_message(name)?;
        message.attributes.push(LinkAttribute::Address(mac.to_vec()));
        let action = format!("set the Ethernet address of interface {name}");
        self.change(RouteNetlinkMessage::SetLink(message), 0, &action)
    }

    /// Keeps the kernel from giving an interface an IPv6 link-local address of its own, and thereby from talking
    /// (router solicitations, listener reports) on it.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says; one without IPv6 refuses.
    pub(crate) fn disable_link_local(&mut self, name: &str) -> Result<(), NetlinkError> {
        let mut message = self.link_message(name)?;
        let mode = AfSpecInet6::AddrGenMode(In6AddrGenMode::None);
        message.attributes.push(LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet6(vec![mode])]));
        let action = format!("switch link-local addresses of interface {name} off");
        self.change(RouteNetlinkMessage::SetLink(message), 0, &action)
    }

    /// Deletes an interface.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says.
    pub fn delete_interface(&mut self, name: &str) -> Result<(), NetlinkError> {
        let message = self.link_message(name)?;
        self.change(RouteNetlinkMessage::DelLink(message), 0, &format!("delete interface {name}"))
    }

    /// Gives an interface an address; the prefix becomes a route.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`EEXIST`: it has the address).
    pub fn add_address(&mut self, name: &str, address: IpNet) -> Result<(), NetlinkError> {
        let message = self.address_message(name, address)?;
        let action = format!("add address {address} to interface {name}");
        self.change(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, &action)
    }

    /// Takes an address from an interface.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`EADDRNOTAVAIL`: it has no such address).
    pub(crate) fn remove_address(&mut self, name: &str, address: IpNet) -> Result<(), NetlinkError> {
        let message = self.address_message(name, address)?;
        let action = format!("remove address {address} from interface {name}");
        self.change(RouteNetlinkMessage::DelAddress(message), 0, &action)
    }

    /// The addresses of an interface.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says.
    pub fn addresses(&mut self, name: &str) -> Result<Vec<IpNet>, NetlinkError> {
        let index = self.interface(name)?.index;
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let answers = self.request(message, NLM_F_DUMP, &format!("list the addresses of interface {name}"))?;
        Ok(answers.iter().filter_map(|answer| address_of(answer, index)).collect())
    }

    /// Adds a route.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`EEXIST`: there is one; `ENETUNREACH`: the gateway
    /// cannot be reached, or the interface is off).
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = self.route_message(route)?;
        let action = format!("add {}", describe_route(route));
        self.change(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL, &action)
    }

    /// Removes a route that [`add_route`](Netlink::add_route) added.
    ///
    /// # Errors
    /// [`NetlinkError::NoInterface`], or what the kernel says (`ESRCH`: there is none).
    pub(crate) fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let message = self.route_message(route)?;
        let action = format!("remove {}", describe_route(route));
        self.change(RouteNetlinkMessage::DelRoute(message), 0, &action)
    }

    /// The unicast routes of one table, IPv4 and IPv6, that lead through one device.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn routes(&mut self, table: u32) -> Result<Vec<Route>, NetlinkError> {
        let names: Vec<_> = self.interfaces()?.into_iter().map(|interface| (interface.index, interface.name)).collect();
        let mut routes = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RouteMessage::default();
            message.header.address_family = family;
            let message = RouteNetlinkMessage::GetRoute(message);
            let answers = self.request(message, NLM_F_DUMP, "list the routes")?;
            routes.extend(answers.iter().filter_map(|answer| route_of(answer, &names)));
        }
        routes.retain(|route| route.table == table);
        Ok(routes)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// What the kernel says (`EEXIST`: there is one).
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let action = format!("add {}", describe_rule(rule));
        self.change(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE | NLM_F_EXCL, &action)
    }

    /// Removes a rule that [`add_rule`](Netlink::add_rule) added.
    ///
    /// # Errors
    /// What the kernel says (`ENOENT`: there is none).
    pub(crate) fn remove_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let action = format!("remove {}", describe_rule(rule));
        self.change(RouteNetlinkMessage::DelRule(rule_message(rule)), 0, &action)
    }

    /// The rules of both families that carry our [`PROTOCOL`], those that a killed daemon left among them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn own_rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        let mut rules = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            match self.request(RouteNetlinkMessage::GetRule(message), NLM_F_DUMP, "list the routing rules") {
                Ok(answers) => rules.extend(answers.iter().filter_map(own_rule_of)),
                // The kernel has no rules for this family: then there are none of ours.
                Err(error) if matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }

    fn link_message(&mut self, name: &str) -> Result<LinkMessage, NetlinkError> {
        let mut message = LinkMessage::default();
        message.header.index = self.interface(name)?.index;
        Ok(message)
    }

    fn address_message(&mut self, name: &str, address: IpNet) -> Result<AddressMessage, NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.index = self.interface(name)?.index;
        message.header.family = family_of(address.addr());
        message.header.prefix_len = address.prefix_len();
        message.header.scope = AddressScope::Universe;
        message.attributes.push(AddressAttribute::Local(address.addr()));
        message.attributes.push(AddressAttribute::Address(address.addr()));
        if let IpNet::V6(_) = address {
            // No duplicate address detection: nobody else answers on our links, and it would delay the start.
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        Ok(message)
    }

    fn route_message(&mut self, route: &Route) -> Result<RouteMessage, NetlinkError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family_of(route.destination.addr());
        message.header.destination_prefix_length = route.destination.prefix_len();
        message.header.protocol = RouteProtocol::Other(PROTOCOL);
        message.header.kind = RouteType::Unicast;
        let on_link = route.gateway.is_none() && route.destination.addr().is_ipv4();
        message.header.scope = if on_link { RouteScope::Link } else { RouteScope::Universe };
        message.attributes.push(RouteAttribute::Table(route.table));
        message.attributes.push(RouteAttribute::Oif(self.interface(&route.device)?.index));
        if route.destination.prefix_len() > 0 {
            message.attributes.push(RouteAttribute::Destination(route.destination.network().into()));
        }
        if let Some(gateway) = route.gateway {
            message.attributes.push(RouteAttribute::Gateway(gateway.into()));
        }
        if let Some(metric) = route.metric {
            message.attributes.push(RouteAttribute::Priority(metric));
        }
        Ok(message)
    }

    fn change(&mut self, message: RouteNetlinkMessage, flags: u16, action: &str) -> Result<(), NetlinkError> {
        self.request(message, flags | NLM_F_ACK, action).map(|_| ())
    }

    /// Sends one request and collects its answers, up to the acknowledgement or the end of the list.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        action: &str,
    ) -> Result<Vec<RouteNetlinkMessage>, NetlinkError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut packet = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        packet.finalize();
        let mut bytes = vec![0; packet.buffer_len()];
        packet.serialize(&mut bytes);
        system().send_netlink(&self.socket, &bytes).map_err(|error| refused(action, &error))?;

        let mut answers = Vec::new();
        loop {
            self.buffer.clear();
            match system().receive_netlink(&self.socket, &mut self.buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused(action, &error)),
                Ok(_) => {}
            }
            if self.read_answers(flags, action, &mut answers)? {
                return Ok(answers);
            }
        }
    }

    /// Reads the messages of one datagram. True when the answer is complete.
    fn read_answers(
        &self,
        flags: u16,
        action: &str,
        answers: &mut Vec<RouteNetlinkMessage>,
    ) -> Result<bool, NetlinkError> {
        for bytes in messages(&self.buffer) {
            let decode_error = |detail: String| NetlinkError::Decode { action: action.to_owned(), detail };
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
                .map_err(|error| decode_error(error.to_string()))?;
            if message.header.sequence_number != self.sequence {
                // The rest of an answer whose reading was given up.
                continue;
            }
            match message.payload {
                NetlinkPayload::Error(error) => match error.code {
                    None => return Ok(true),
                    Some(code) => {
                        let (action, errno) = (action.to_owned(), code.get().wrapping_neg());
                        return Err(NetlinkError::Refused { action, errno, message: kernel_message(bytes) });
                    }
                },
                NetlinkPayload::Done(_) => return Ok(true),
                NetlinkPayload::InnerMessage(inner) => {
                    answers.push(inner);
                    if flags & (NLM_F_DUMP | NLM_F_ACK) == 0 {
                        return Ok(true);
                    }
                }
                NetlinkPayload::Overrun(_) => return Err(decode_error("messages were lost".to_owned())),
                _ => {}
            }
        }
        Ok(false)
    }
}

/// The netlink messages of one datagram.
fn messages(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
        if length < 16 {
            return None;
        }
        let message = rest.get(..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    })
}

/// The kernel's own words in an error message: its attribute 1 (NLMSGERR_ATTR_MSG), after the message's header, the
/// error number and the request's header.
fn kernel_message(error: &[u8]) -> String {
    let mut attributes = error.get(16 + 4 + 16..).unwrap_or_default();
    while let Some(&[l0, l1, k0, k1]) = attributes.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let Some(value) = attributes.get(4..length) else { break };
        if u16::from_ne_bytes([k0, k1]) & 0x3fff == 1 {
            return String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    String::new()
}

fn refused(action: &str, error: &io::Error) -> NetlinkError {
    NetlinkError::Refused {
        action: action.to_owned(),
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        message: String::new(),
    }
}

fn interface_of(message: &RouteNetlinkMessage) -> Option<Interface> {
    let (RouteNetlinkMessage::NewLink(link) | RouteNetlinkMessage::DelLink(link)) = message else { return None };
    let flags = link.header.flags;
    let mut interface = Interface {
        index: link.header.index,
        name: String::new(),
        mac: None,
        mtu: 0,
        up: flags.contains(LinkFlags::Up),
        running: flags.contains(LinkFlags::Up | LinkFlags::Running),
        promiscuous: flags.contains(LinkFlags::Promisc),
    };
    for attribute in &link.attributes {
        match attribute {
            LinkAttribute::IfName(name) => interface.name.clone_from(name),
            LinkAttribute::Mtu(mtu) => interface.mtu = *mtu,
            LinkAttribute::Address(mac) => interface.mac = mac.as_slice().try_into().ok(),
            _ => {}
        }
    }
    Some(interface)
}

fn address_of(message: &RouteNetlinkMessage, index: u32) -> Option<IpNet> {
    let RouteNetlinkMessage::NewAddress(address) = message else { return None };
    if address.header.index != index {
        return None;
    }
    let find = |local: bool| {
        address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(ip) if local => Some(*ip),
            AddressAttribute::Address(ip) if !local => Some(*ip),
            _ => None,
        })
    };
    IpNet::new(find(true).or_else(|| find(false))?, address.header.prefix_len).ok()
}

fn route_of(message: &RouteNetlinkMessage, names: &[(u32, String)]) -> Option<Route> {
    let RouteNetlinkMessage::NewRoute(route) = message else { return None };
    if route.header.kind != RouteType::Unicast {
        return None;
    }
    let any: IpAddr = match route.header.address_family {
        AddressFamily::Inet => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let (mut destination, mut gateway, mut device, mut metric) = (any, None, None, None);
    let mut table = u32::from(route.header.table);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => destination = ip_of(address)?,
            RouteAttribute::Gateway(address) => gateway = ip_of(address),
            RouteAttribute::Oif(index) => device = names.iter().find(|(i, _)| i == index),
            RouteAttribute::Table(number) => table = *number,
            RouteAttribute::Priority(number) => metric = Some(*number),
            _ => {}
        }
    }
    let destination = IpNet::new(destination, route.header.destination_prefix_length).ok()?;
    Some(Route { destination, device: device?.1.clone(), gateway, table, metric })
}

fn ip_of(address: &netlink_packet_route::route::RouteAddress) -> Option<IpAddr> {
    use netlink_packet_route::route::RouteAddress;
    match address {
        RouteAddress::Inet(ip) => Some((*ip).into()),
        RouteAddress::Inet6(ip) => Some((*ip).into()),
        _ => None,
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = RuleAction::ToTable;
    message.header.flags = if rule.invert { RuleFlags::Invert } else { RuleFlags::empty() };
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::Table(rule.table));
    message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
    if let Some(mark) = rule.fwmark {
        message.attributes.push(RuleAttribute::FwMark(mark));
        message.attributes.push(RuleAttribute::FwMask(u32::MAX));
    }
    if let Some(length) = rule.suppress_prefix_length {
        message.attributes.push(RuleAttribute::SuppressPrefixLen(length));
    }
    message
}

fn own_rule_of(message: &RouteNetlinkMessage) -> Option<Rule> {
    let RouteNetlinkMessage::NewRule(message) = message else { return None };
    let mut rule = Rule {
        is_v6: message.header.family == AddressFamily::Inet6,
        priority: 0,
        fwmark: None,
        invert: message.header.flags.contains(RuleFlags::Invert),
        table: u32::from(message.header.table),
        suppress_prefix_length: None,
    };
    let mut own = false;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(mark) => rule.fwmark = Some(*mark),
            RuleAttribute::Table(table) => rule.table = *table,
            // The kernel says -1 for none.
            RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            RuleAttribute::SuppressPrefixLen(length) => rule.suppress_prefix_length = Some(*length),
            RuleAttribute::Protocol(protocol) => own = u8::from(*protocol) == PROTOCOL,
            _ => {}
        }
    }
    own.then_some(rule)
}

fn family_of(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

fn describe_route(route: &Route) -> String {
    let via = route.gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
    format!("route {}{via} dev {} table {}", route.destination, route.device, route.table)
}

fn describe_rule(rule: &Rule) -> String {
    let not = if rule.invert { "not " } else { "" };
    let mark = rule.fwmark.map(|mark| format!("fwmark {mark:#x} ")).unwrap_or_default();
    let suppress =
        rule.suppress_prefix_length.map(|length| format!(" suppress_prefixlength {length}")).unwrap_or_default();
    let family = if rule.is_v6 { "IPv6" } else { "IPv4" };
    format!("{family} rule {}: {not}{mark}lookup {}{suppress}", rule.priority, rule.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_is_cut_into_its_messages_and_nonsense_ends_it() {
        let mut datagram = Vec::new();
        datagram.extend(17u32.to_ne_bytes());
        datagram.extend([1; 16]);
        datagram.extend(16u32.to_ne_bytes());
        datagram.extend([2; 12]);
        let lengths: Vec<_> = messages(&datagram).map(<[u8]>::len).collect();
        assert_eq!(lengths, [17, 16]);
        for bad in [0u32, 15, 4000, u32::MAX] {
            datagram[..4].copy_from_slice(&bad.to_ne_bytes());
            assert_eq!(messages(&datagram).count(), 0, "length {bad}");
        }
    }

    #[test]
    fn the_kernels_words_are_found_and_nonsense_gives_none() {
        let mut error = vec![0; 36];
        error.extend([8, 0, 2, 0, 9, 9, 9, 9]);
        error.extend([9, 0, 1, 0, b'b', b'a', b'd', b'!', 0, 0, 0, 0]);
        assert_eq!(kernel_message(&error), "bad!");
        for cut in 0..error.len() - 3 {
            let _ = kernel_message(&error[..cut]);
        }
        error[36] = 0;
        assert_eq!(kernel_message(&error), "");
    }

    #[test]
    fn an_error_says_what_was_tried_what_the_kernel_said_and_what_helps() {
        let error = NetlinkError::Refused {
            action: "add address 10.0.0.1/24 to interface fs0".to_owned(),
            errno: libc::EPERM,
            message: "no way".to_owned(),
        };
        let helps = lacking(&io::Error::from_raw_os_error(libc::EPERM), "CAP_NET_ADMIN");
        assert_eq!(
            error.to_string(),
            "cannot add address 10.0.0.1/24 to interface fs0: Operation not permitted (os error 1) (no way)".to_owned()
                + &helps
        );
        assert!(helps.contains("CAP_NET_ADMIN"), "{helps}");
    }
}
