//! Interfaces and their addresses.

use super::request::{Netlink, NetlinkError, family_of};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{AfSpecInet6, AfSpecUnspec, In6AddrGenMode, LinkAttribute, LinkFlags, LinkMessage};
use std::net::IpAddr;

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

impl Netlink {
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
}

pub(super) fn interface_of(message: &RouteNetlinkMessage) -> Option<Interface> {
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
    IpNet::new(address_in(address)?, address.header.prefix_len).ok()
}

/// The address of this end in a message.
pub(super) fn address_in(address: &AddressMessage) -> Option<IpAddr> {
    let find = |local: bool| {
        address.attributes.iter().find_map(|attribute| match attribute {
            AddressAttribute::Local(ip) if local => Some(*ip),
            AddressAttribute::Address(ip) if !local => Some(*ip),
            _ => None,
        })
    };
    find(true).or_else(|| find(false))
}
