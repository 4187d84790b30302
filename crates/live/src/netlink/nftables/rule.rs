//! What a rule asks of a packet, and what it does with it.

use crate::netlink::encode::{attribute, nested, number, text};
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The IP versions, as netfilter numbers them.
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const TCP: u8 = 6;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// The register that values are loaded into, and one more for an expression of two.
const REGISTER: u32 = 1;
const SECOND: u32 = 2;

/// A device's name is compared with its zeros.
const DEVICE_NAME: usize = 16;

/// How a kernel queues packets to a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Queueing {
    /// By nf_tables' own expression (CONFIG_NFT_QUEUE).
    #[default]
    Native,
    /// By the target NFQUEUE of iptables, which nf_tables can use (CONFIG_NFT_COMPAT).
    Target,
}

/// One rule: packets that have all of this, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub struct PacketRule {
    expressions: Vec<u8>,
    /// It ends with being queued, for which there are two ways.
    queue: Option<u16>,
}

impl PacketRule {
    /// All packets, and nothing is done with them.
    pub fn new() -> PacketRule {
        PacketRule::default()
    }

    /// It leaves by this device, there or not.
    pub fn leaves_by(self, device: &str) -> PacketRule {
        self.meta(7).equals(&device_name(device))
    }

    /// It arrived by this device, there or not.
    pub fn arrives_by(self, device: &str) -> PacketRule {
        self.meta(6).equals(&device_name(device))
    }

    /// It did not arrive by this device.
    pub fn not_arriving_by(self, device: &str) -> PacketRule {
        self.meta(6).differs(&device_name(device))
    }

    /// It goes to an address of this host, or does not.
    pub fn to_this_host(self, so: bool) -> PacketRule {
        const LOCAL: [u8; 4] = 2u32.to_ne_bytes();
        let loaded = self.fib(fib::DESTINATION, fib::ADDRESS_TYPE);
        if so { loaded.equals(&LOCAL) } else { loaded.differs(&LOCAL) }
    }

    /// The route of its destination, by its mark, leads out by this device. Of routes with several next hops the first counts.
    pub fn routed_by(self, device: &str) -> PacketRule {
        self.fib(fib::DESTINATION | fib::MARK, fib::DEVICE_NAME).equals(&device_name(device))
    }

    /// It is TCP of a connection that a socket of this host has under another host's address (`IP_TRANSPARENT`), also while it is being
    /// set up. A socket that listens on all addresses would catch what goes to its port on any host.
    pub fn has_transparent_socket(self) -> PacketRule {
        self.protocol(TCP).socket(0).equals(&[1])
    }

    /// It is of a socket with this mark. One that a caller is still setting up tells none, and one that is over neither.
    pub fn socket_is_marked(self, mark: u32) -> PacketRule {
        self.socket(1).equals(&mark.to_ne_bytes())
    }

    /// It is of a socket that tells a mark, whichever it is.
    pub fn socket_tells_mark(self) -> PacketRule {
        self.socket(1).masked(&[0; 4]).equals(&[0; 4])
    }

    /// It is an ICMP error about a packet that such a socket has sent.
    pub fn tells_of_transparent_socket(self, is_v6: bool) -> PacketRule {
        self.version(is_v6).protocol(if is_v6 { ICMPV6 } else { ICMP }).socket(0).equals(&[1])
    }

    /// It is a TCP segment that opens a connection: SYN, and none of ACK, RST and FIN.
    pub fn tcp_syn(self) -> PacketRule {
        self.protocol(TCP).transport_header(13, 1).masked(&[0x17]).equals(&[0x02])
    }

    /// It is the answer to one: SYN and ACK, and neither RST nor FIN.
    pub fn tcp_answer(self) -> PacketRule {
        self.protocol(TCP).transport_header(13, 1).masked(&[0x17]).equals(&[0x12])
    }

    /// It is a TCP segment that refuses another one outside a connection: RST, and none of ACK, SYN and FIN.
    pub fn tcp_refusal(self) -> PacketRule {
        self.protocol(TCP).transport_header(13, 1).masked(&[0x17]).equals(&[0x04])
    }

    /// It has this many bytes at most, from its IP header on.
    pub fn not_longer_than(self, bytes: u32) -> PacketRule {
        let loaded = self.meta(0).expression("byteorder", |data| {
            for (kind, value) in [(1, REGISTER), (2, REGISTER), (3, 1), (4, 4), (5, 4)] {
                number(data, kind, value);
            }
        });
        loaded.compared(3, &bytes.to_be_bytes())
    }

    /// It is a TCP segment with an acknowledgment, and neither begins nor ends anything: of SYN, FIN and RST it has none.
    pub fn tcp_ack(self) -> PacketRule {
        self.protocol(TCP).transport_header(13, 1).masked(&[0x17]).equals(&[0x10])
    }

    /// It has this firewall mark.
    pub fn marked(self, mark: u32) -> PacketRule {
        self.meta(3).equals(&mark.to_ne_bytes())
    }

    /// It has any firewall mark but 0.
    pub fn marked_at_all(self) -> PacketRule {
        self.meta(3).differs(&[0; 4])
    }

    /// It is of this protocol above IP.
    pub fn protocol(self, protocol: u8) -> PacketRule {
        self.meta(16).equals(&[protocol])
    }

    /// It is IPv6, or IPv4.
    pub fn version(self, is_v6: bool) -> PacketRule {
        self.meta(15).equals(&[if is_v6 { FAMILY_V6 } else { FAMILY_V4 }])
    }

    /// It goes to one of these addresses.
    pub fn towards(self, net: IpNet) -> PacketRule {
        let rule = self.version(net.addr().is_ipv6());
        match net {
            IpNet::V4(net) => {
                rule.network_header(16, 4).masked(&net.netmask().octets()).equals(&net.network().octets())
            }
            IpNet::V6(net) => {
                rule.network_header(24, 16).masked(&net.netmask().octets()).equals(&net.network().octets())
            }
        }
    }

    /// It comes from one of these addresses.
    pub fn from(self, net: IpNet) -> PacketRule {
        let rule = self.version(net.addr().is_ipv6());
        match net {
            IpNet::V4(net) => {
                rule.network_header(12, 4).masked(&net.netmask().octets()).equals(&net.network().octets())
            }
            IpNet::V6(net) => {
                rule.network_header(8, 16).masked(&net.netmask().octets()).equals(&net.network().octets())
            }
        }
    }

    /// It goes to one of the addresses of this set of its table ([`Transaction::addresses`](super::Transaction::addresses)).
    pub fn towards_one_of(self, set: &str, is_v6: bool) -> PacketRule {
        let (at, length) = if is_v6 { (24, 16) } else { (16, 4) };
        self.version(is_v6).network_header(at, length).found_in(set)
    }

    /// It comes from one of them.
    pub fn from_one_of(self, set: &str, is_v6: bool) -> PacketRule {
        let (at, length) = if is_v6 { (8, 16) } else { (12, 4) };
        self.version(is_v6).network_header(at, length).found_in(set)
    }

    /// It has these ports, of UDP or TCP.
    pub fn ports(self, source: u16, destination: u16) -> PacketRule {
        let [[s0, s1], [d0, d1]] = [source.to_be_bytes(), destination.to_be_bytes()];
        self.transport_header(0, 4).equals(&[s0, s1, d0, d1])
    }

    /// It goes to this port, of UDP or TCP.
    pub fn towards_port(self, port: u16) -> PacketRule {
        self.transport_header(2, 2).equals(&port.to_be_bytes())
    }

    /// It comes from this port, of UDP or TCP.
    pub fn from_port(self, port: u16) -> PacketRule {
        self.transport_header(0, 2).equals(&port.to_be_bytes())
    }

    /// It is this message of ICMPv6.
    pub fn icmpv6(self, kind: u8) -> PacketRule {
        self.version(true).protocol(58).transport_header(0, 1).equals(&[kind])
    }

    /// No router passes it on, nor did one.
    pub fn of_the_link(self) -> PacketRule {
        self.version(true).network_header(7, 1).equals(&[255])
    }

    /// Its connection was led elsewhere.
    pub fn redirected(self) -> PacketRule {
        const DESTINATION_CHANGED: [u8; 4] = 32u32.to_ne_bytes();
        let loaded = self.expression("ct", |data| {
            number(data, 2, 2);
            number(data, 1, REGISTER);
        });
        loaded.masked(&DESTINATION_CHANGED).equals(&DESTINATION_CHANGED)
    }

    /// Its connection is led to this address, and to the same port.
    pub fn redirect(self, to: IpAddr) -> PacketRule {
        let (family, address) = match to {
            IpAddr::V4(v4) => (FAMILY_V4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (FAMILY_V6, v6.octets().to_vec()),
        };
        self.immediate(&address).expression("nat", |data| {
            for (kind, value) in [(1, 1), (2, family.into()), (3, REGISTER)] {
                number(data, kind, value);
            }
        })
    }

    /// Its connection comes from an address of the device that it leaves by.
    pub fn masquerade(self) -> PacketRule {
        self.expression("masq", |_| {})
    }

    /// It has this mark from here on.
    pub fn set_mark(self, mark: u32) -> PacketRule {
        self.immediate(&mark.to_ne_bytes()).expression("meta", |data| {
            number(data, 2, 3);
            number(data, 3, REGISTER);
        })
    }

    /// It goes to the socket of this host that has its connection, or else to that which listens on this port of the loopback
    /// address with `IP_TRANSPARENT`; where there is none, the rule ends here. For TCP or UDP, before routing: a route of kind
    /// local has to bring it there.
    pub fn to_proxy(self, is_v6: bool, port: u16) -> PacketRule {
        let (family, address) = if is_v6 {
            (FAMILY_V6, Ipv6Addr::LOCALHOST.octets().to_vec())
        } else {
            (FAMILY_V4, Ipv4Addr::LOCALHOST.octets().to_vec())
        };
        let loaded = self.version(is_v6).load(REGISTER, &address).load(SECOND, &port.to_be_bytes());
        loaded.expression("tproxy", |data| {
            number(data, 1, family.into());
            number(data, 2, REGISTER);
            number(data, 3, SECOND);
        })
    }

    /// The kernel does not follow its connection, where it has not begun to: in a chain before connection tracking (-200).
    pub fn untracked(self) -> PacketRule {
        self.expression("notrack", |_| {})
    }

    /// It waits for what the process at this queue says; where there is none, it passes this hook. This ends the rule.
    pub fn queue(mut self, number: u16) -> PacketRule {
        self.queue = Some(number);
        self
    }

    /// It gets the mark "congestion experienced" (RFC 3168), for packets of one IP version that are capable of it.
    pub fn set_ce(self, is_v6: bool) -> PacketRule {
        let rule = self.version(is_v6);
        if is_v6 {
            rule.network_header(1, 1).changed(&[0xcf], &[0x30]).write_network_header(1, 1, None)
        } else {
            // The checksum is one of 16 bits.
            rule.network_header(0, 2).changed(&[0xff, 0xfc], &[0, 3]).write_network_header(0, 2, Some(10))
        }
    }

    /// It passes this hook.
    pub fn accept(self) -> PacketRule {
        self.verdict(1, None)
    }

    /// It is dropped.
    pub fn drop(self) -> PacketRule {
        self.verdict(0, None)
    }

    /// The rules of a chain are tried next, and then those behind this one.
    pub fn jump(self, chain: &str) -> PacketRule {
        self.verdict(-3, Some(chain))
    }

    /// It goes back to the chain from which the jump was.
    pub fn go_back(self) -> PacketRule {
        self.verdict(-5, None)
    }

    /// It is dropped, and its sender told that an administrator forbids it.
    pub fn reject(self) -> PacketRule {
        self.expression("reject", |data| {
            number(data, 1, 2);
            attribute(data, 2, &[3]);
        })
    }

    /// It is dropped, and its sender's connection is refused, for TCP.
    pub fn reset(self) -> PacketRule {
        self.expression("reject", |data| number(data, 1, 1))
    }

    /// All of it, for a kernel that queues packets in this way.
    pub(super) fn expressions(&self, queueing: Queueing) -> Vec<u8> {
        let Some(to) = self.queue else { return self.expressions.clone() };
        let mut rule = PacketRule { queue: None, ..self.clone() };
        rule = match queueing {
            Queueing::Native => rule.expression("queue", |data| {
                // The number, how many there are, and to pass where nobody listens.
                for (kind, value) in [(1, to), (2, 1), (3, 1)] {
                    attribute(data, kind, &value.to_be_bytes());
                }
            }),
            Queueing::Target => rule.expression("target", |data| {
                // The same three in the host's order (struct xt_NFQ_info_v3), filled up to 8 bytes.
                let info = [to, 1, 1, 0].map(u16::to_ne_bytes).concat();
                text(data, 1, "NFQUEUE");
                number(data, 2, 3);
                attribute(data, 3, &info);
            }),
        };
        rule.expressions
    }

    fn meta(self, key: u32) -> PacketRule {
        self.expression("meta", |data| {
            number(data, 2, key);
            number(data, 1, REGISTER);
        })
    }

    fn network_header(self, offset: u32, len: u32) -> PacketRule {
        self.payload(1, offset, len)
    }

    fn transport_header(self, offset: u32, len: u32) -> PacketRule {
        self.payload(2, offset, len)
    }

    fn payload(self, base: u32, offset: u32, len: u32) -> PacketRule {
        self.expression("payload", |data| {
            for (kind, value) in [(1, REGISTER), (2, base), (3, offset), (4, len)] {
                number(data, kind, value);
            }
        })
    }

    /// Writes what was loaded, changed by now, back; `checksum` is where the header has one of its own.
    fn write_network_header(self, offset: u32, len: u32, checksum: Option<u32>) -> PacketRule {
        self.expression("payload", |data| {
            for (kind, value) in [(5, REGISTER), (2, 1), (3, offset), (4, len)] {
                number(data, kind, value);
            }
            if let Some(at) = checksum {
                number(data, 6, 1);
                number(data, 7, at);
            }
        })
    }

    fn immediate(self, value: &[u8]) -> PacketRule {
        self.load(REGISTER, value)
    }

    fn load(self, register: u32, value: &[u8]) -> PacketRule {
        self.expression("immediate", |data| {
            number(data, 1, register);
            nested(data, 2, |data| attribute(data, 1, value));
        })
    }

    fn fib(self, flags: u32, result: u32) -> PacketRule {
        self.expression("fib", |data| {
            for (kind, value) in [(1, REGISTER), (2, result), (3, flags)] {
                number(data, kind, value);
            }
        })
    }

    fn socket(self, key: u32) -> PacketRule {
        self.expression("socket", |data| {
            number(data, 1, key);
            number(data, 2, REGISTER);
        })
    }

    fn masked(self, mask: &[u8]) -> PacketRule {
        self.changed(mask, &vec![0; mask.len()])
    }

    /// Of what was loaded, only the bits of `kept` stay, and those of `flipped` are turned over then.
    fn changed(self, kept: &[u8], flipped: &[u8]) -> PacketRule {
        self.expression("bitwise", |data| {
            for (kind, value) in [(1, REGISTER), (2, REGISTER), (3, kept.len() as u32)] {
                number(data, kind, value);
            }
            nested(data, 4, |value| attribute(value, 1, kept));
            nested(data, 5, |value| attribute(value, 1, flipped));
        })
    }

    fn found_in(self, set: &str) -> PacketRule {
        self.expression("lookup", |data| {
            text(data, 1, set);
            number(data, 2, REGISTER);
        })
    }

    fn equals(self, value: &[u8]) -> PacketRule {
        self.compared(0, value)
    }

    fn differs(self, value: &[u8]) -> PacketRule {
        self.compared(1, value)
    }

    fn compared(self, how: u32, value: &[u8]) -> PacketRule {
        self.expression("cmp", |data| {
            number(data, 1, REGISTER);
            number(data, 2, how);
            nested(data, 3, |data| attribute(data, 1, value));
        })
    }

    fn verdict(self, code: i32, chain: Option<&str>) -> PacketRule {
        self.expression("immediate", |data| {
            number(data, 1, 0);
            nested(data, 2, |data| {
                nested(data, 2, |verdict| {
                    attribute(verdict, 1, &code.to_be_bytes());
                    if let Some(chain) = chain {
                        text(verdict, 2, chain);
                    }
                });
            });
        })
    }

    fn expression(mut self, name: &str, data: impl FnOnce(&mut Vec<u8>)) -> PacketRule {
        nested(&mut self.expressions, 1, |expression| {
            text(expression, 1, name);
            nested(expression, 2, data);
        });
        self
    }
}

/// What is asked of the routing tables (NFTA_FIB_F_*, NFT_FIB_RESULT_*).
mod fib {
    pub(super) const DESTINATION: u32 = 2;
    pub(super) const MARK: u32 = 4;
    pub(super) const DEVICE_NAME: u32 = 2;
    pub(super) const ADDRESS_TYPE: u32 = 3;
}

fn device_name(device: &str) -> [u8; DEVICE_NAME] {
    let mut name = [0; DEVICE_NAME];
    name.iter_mut().zip(device.bytes()).for_each(|(to, from)| *to = from);
    name
}
