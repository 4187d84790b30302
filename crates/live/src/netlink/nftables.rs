//! Tables of packet rules (nf_tables), through nfnetlink.
//!
//! By hand: what is needed is four kinds of messages and a dozen expressions, written and never read. The libraries that
//! have them are a generated file of 20,000 lines, run the program `nft`, need a C library, or are under the GPL.
//! Source: Linux `include/uapi/linux/netfilter/nf_tables.h` and `nfnetlink.h`. Numbers are big-endian there, but for those
//! that are compared with the host's own: marks, and the state of a connection.

use super::request::{NetlinkError, PATIENCE, kernel_message, messages, refused};
use ipnet::IpNet;
use netlink_packet_core::{NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_DUMP, NLM_F_MULTIPART, NLM_F_REQUEST};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::net::IpAddr;

/// The subsystem of nf_tables, in the upper byte of a message's type.
const NFTABLES: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = NFTABLES << 8;
const GET_TABLE: u16 = NFTABLES << 8 | 1;
const DELETE_TABLE: u16 = NFTABLES << 8 | 2;
const NEW_CHAIN: u16 = NFTABLES << 8 | 3;
const NEW_RULE: u16 = NFTABLES << 8 | 6;
/// netlink's own: an acknowledgement or an error, and the end of a list.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// IPv4 and IPv6 in one table.
const FAMILY_INET: u8 = 1;
const FAMILY_V4: u8 = 2;
const FAMILY_V6: u8 = 10;
const NESTED: u16 = 0x8000;
/// The one register that values are loaded into.
const REGISTER: u32 = 1;

/// A device's name is compared with its zeros.
const DEVICE_NAME: usize = 16;

/// Where a chain sees packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hook {
    /// What this host forwards.
    Forward = 2,
    /// What this host makes, when its route was looked up first.
    Output = 3,
    /// Whatever leaves, when it is settled by which device.
    Postrouting = 4,
}

/// What a chain is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Whether packets pass.
    Filter,
    /// Where connections lead, and where from. Only a connection's first packet is seen.
    Nat,
}

/// One rule: packets that have all of this, and what becomes of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketRule {
    expressions: Vec<u8>,
}

impl PacketRule {
    pub(crate) fn new() -> PacketRule {
        PacketRule::default()
    }

    /// It leaves by this device, there or not.
    pub(crate) fn leaves_by(self, device: &str) -> PacketRule {
        let mut name = [0; DEVICE_NAME];
        name.iter_mut().zip(device.bytes()).for_each(|(to, from)| *to = from);
        self.meta(7).equals(&name)
    }

    /// It has this firewall mark.
    pub(crate) fn marked(self, mark: u32) -> PacketRule {
        self.meta(3).equals(&mark.to_ne_bytes())
    }

    /// It is of this protocol above IP.
    pub(crate) fn protocol(self, protocol: u8) -> PacketRule {
        self.meta(16).equals(&[protocol])
    }

    /// It is IPv6, or IPv4.
    pub(crate) fn version(self, is_v6: bool) -> PacketRule {
        self.meta(15).equals(&[if is_v6 { FAMILY_V6 } else { FAMILY_V4 }])
    }

    /// It goes to one of these addresses.
    pub(crate) fn towards(self, net: IpNet) -> PacketRule {
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

    /// It has these ports, of UDP or TCP.
    pub(crate) fn ports(self, source: u16, destination: u16) -> PacketRule {
        let [[s0, s1], [d0, d1]] = [source.to_be_bytes(), destination.to_be_bytes()];
        self.transport_header(0, 4).equals(&[s0, s1, d0, d1])
    }

    /// It goes to this port, of UDP or TCP.
    pub(crate) fn towards_port(self, port: u16) -> PacketRule {
        self.transport_header(2, 2).equals(&port.to_be_bytes())
    }

    /// It is this message of ICMPv6.
    pub(crate) fn icmpv6(self, kind: u8) -> PacketRule {
        self.version(true).protocol(58).transport_header(0, 1).equals(&[kind])
    }

    /// No router passes it on, nor did one.
    pub(crate) fn of_the_link(self) -> PacketRule {
        self.version(true).network_header(7, 1).equals(&[255])
    }

    /// Its connection was led elsewhere.
    pub(crate) fn redirected(self) -> PacketRule {
        const DESTINATION_CHANGED: [u8; 4] = 32u32.to_ne_bytes();
        let loaded = self.expression("ct", |data| {
            number(data, 2, 2);
            number(data, 1, REGISTER);
        });
        loaded.masked(&DESTINATION_CHANGED).equals(&DESTINATION_CHANGED)
    }

    /// Its connection is led to this address, and to the same port.
    pub(crate) fn redirect(self, to: IpAddr) -> PacketRule {
        let (family, address) = match to {
            IpAddr::V4(v4) => (FAMILY_V4, v4.octets().to_vec()),
            IpAddr::V6(v6) => (FAMILY_V6, v6.octets().to_vec()),
        };
        let loaded = self.expression("immediate", |data| {
            number(data, 1, REGISTER);
            nested(data, 2, |data| attribute(data, 1, &address));
        });
        loaded.expression("nat", |data| {
            for (kind, value) in [(1, 1), (2, family.into()), (3, REGISTER)] {
                number(data, kind, value);
            }
        })
    }

    /// Its connection comes from an address of the device that it leaves by.
    pub(crate) fn masquerade(self) -> PacketRule {
        self.expression("masq", |_| {})
    }

    /// It passes this hook.
    pub(crate) fn accept(self) -> PacketRule {
        self.verdict(1, None)
    }

    /// It is dropped.
    pub(crate) fn drop(self) -> PacketRule {
        self.verdict(0, None)
    }

    /// The rules of a chain are tried next, and then those behind this one.
    pub(crate) fn jump(self, chain: &str) -> PacketRule {
        self.verdict(-3, Some(chain))
    }

    /// It goes back to the chain from which the jump was.
    pub(crate) fn go_back(self) -> PacketRule {
        self.verdict(-5, None)
    }

    /// It is dropped, and its sender told that an administrator forbids it.
    pub(crate) fn reject(self) -> PacketRule {
        self.expression("reject", |data| {
            number(data, 1, 2);
            attribute(data, 2, &[3]);
        })
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

    fn masked(self, mask: &[u8]) -> PacketRule {
        self.expression("bitwise", |data| {
            for (kind, value) in [(1, REGISTER), (2, REGISTER), (3, mask.len() as u32)] {
                number(data, kind, value);
            }
            nested(data, 4, |value| attribute(value, 1, mask));
            nested(data, 5, |value| attribute(value, 1, &vec![0; mask.len()]));
        })
    }

    fn equals(self, value: &[u8]) -> PacketRule {
        self.expression("cmp", |data| {
            number(data, 1, REGISTER);
            number(data, 2, 0);
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

/// Changes of one table that the kernel makes all at once, or none of.
#[derive(Debug)]
pub(crate) struct Transaction {
    table: String,
    bytes: Vec<u8>,
    sequence: u32,
}

impl Transaction {
    /// No changes yet.
    pub(crate) fn of(table: &str) -> Transaction {
        let mut transaction = Transaction { table: table.to_owned(), bytes: Vec::new(), sequence: 0 };
        transaction.edge(BATCH_BEGIN);
        transaction
    }

    /// The table is there.
    pub(crate) fn create(&mut self) {
        self.push(NEW_TABLE, NLM_F_CREATE, |_| {});
    }

    /// The table goes, with all in it; it has to be there.
    pub(crate) fn delete(&mut self) {
        self.push(DELETE_TABLE, 0, |_| {});
    }

    /// A chain that other chains jump to.
    pub(crate) fn chain(&mut self, name: &str) {
        self.push(NEW_CHAIN, NLM_F_CREATE, |chain| text(chain, 3, name));
    }

    /// A chain that sees packets; those that no rule settles pass.
    pub(crate) fn base_chain(&mut self, name: &str, kind: Kind, hook: Hook, priority: i32) {
        self.push(NEW_CHAIN, NLM_F_CREATE, |chain| {
            text(chain, 3, name);
            nested(chain, 4, |at| {
                number(at, 1, hook as u32);
                attribute(at, 2, &priority.to_be_bytes());
            });
            text(chain, 7, if kind == Kind::Nat { "nat" } else { "filter" });
        });
    }

    /// A rule behind those that its chain has.
    pub(crate) fn rule(&mut self, chain: &str, rule: &PacketRule) {
        self.push(NEW_RULE, NLM_F_CREATE | NLM_F_APPEND, |message| {
            text(message, 2, chain);
            nested(message, 4, |list| list.extend(&rule.expressions));
        });
    }

    /// Makes the changes.
    ///
    /// # Errors
    /// What the kernel says of the first that it refuses; then it made none.
    pub(crate) fn commit(mut self, action: &str) -> Result<(), NetlinkError> {
        let last = self.sequence;
        self.edge(BATCH_END);
        ask(&self.bytes, last, action).map(|_| ())
    }

    fn push(&mut self, kind: u16, flags: u16, fill: impl FnOnce(&mut Vec<u8>)) {
        self.sequence += 1;
        message(&mut self.bytes, kind, NLM_F_REQUEST | NLM_F_ACK | flags, self.sequence, |body| {
            body.extend([FAMILY_INET, 0, 0, 0]);
            text(body, 1, &self.table);
            fill(body);
        });
    }

    fn edge(&mut self, kind: u16) {
        message(&mut self.bytes, kind, NLM_F_REQUEST, 0, |body| body.extend([0, 0, 0, NFTABLES as u8]));
    }
}

/// The tables of both IP versions, or the one of this name alone if it is there.
///
/// # Errors
/// What the kernel says; one without nf_tables refuses.
pub(crate) fn tables(name: Option<&str>) -> Result<Vec<String>, NetlinkError> {
    const SEQUENCE: u32 = 1;
    let mut bytes = Vec::new();
    let flags = NLM_F_REQUEST | if name.is_some() { 0 } else { NLM_F_DUMP };
    message(&mut bytes, GET_TABLE, flags, SEQUENCE, |body| {
        body.extend([FAMILY_INET, 0, 0, 0]);
        if let Some(name) = name {
            text(body, 1, name);
        }
    });
    match ask(&bytes, SEQUENCE, "look for tables of packet rules") {
        Err(error) if name.is_some() && error.errno() == Some(libc::ENOENT) => Ok(Vec::new()),
        other => other,
    }
}

/// Sends requests, and reads the names of tables that come, up to the answer of request `last`.
fn ask(requests: &[u8], last: u32, action: &str) -> Result<Vec<String>, NetlinkError> {
    let open = || {
        let mut socket = Socket::new(NETLINK_NETFILTER)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        // As for rtnetlink: older kernels say less.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_ext_ack(true);
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        socket.send(requests, 0)?;
        Ok(socket)
    };
    let socket = open().map_err(|error: io::Error| refused(action, &error))?;
    let (mut names, mut buffer) = (Vec::new(), Vec::with_capacity(64 << 10));
    loop {
        buffer.clear();
        match socket.recv(&mut buffer, 0) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(refused(action, &error)),
            Ok(_) => {}
        }
        for bytes in messages(&buffer) {
            let (Some([k0, k1]), Some(sequence)) = (field::<2>(bytes, 4), field(bytes, 8)) else { continue };
            match u16::from_ne_bytes([k0, k1]) {
                ERROR => match field(bytes, 16).map_or(0, i32::from_ne_bytes) {
                    0 if u32::from_ne_bytes(sequence) == last => return Ok(names),
                    0 => {}
                    code => {
                        let (action, errno) = (action.to_owned(), code.wrapping_neg());
                        return Err(NetlinkError::Refused { action, errno, message: kernel_message(bytes) });
                    }
                },
                DONE => return Ok(names),
                NEW_TABLE => {
                    names.extend(table_name(bytes));
                    // One that was asked for by its name comes alone.
                    let flags = field(bytes, 6).map_or(0, u16::from_ne_bytes);
                    if flags & NLM_F_MULTIPART == 0 {
                        return Ok(names);
                    }
                }
                _ => {}
            }
        }
    }
}

/// Some bytes of a message.
fn field<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
    message.get(at..)?.first_chunk().copied()
}

/// The name in a table's message: its attribute 1, behind the two headers.
fn table_name(message: &[u8]) -> Option<String> {
    let mut attributes = message.get(20..)?;
    while let Some(&[l0, l1, k0, k1]) = attributes.first_chunk() {
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = attributes.get(4..length)?;
        if u16::from_ne_bytes([k0, k1]) == 1 {
            return Some(String::from_utf8_lossy(value).trim_end_matches('\0').to_owned());
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
    None
}

/// A message: its length, kind, flags and number, and what `fill` puts behind.
fn message(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend([0; 4]);
    fill(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

fn nested(out: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 2]);
    out.extend((kind | NESTED).to_ne_bytes());
    fill(out);
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_ne_bytes());
}

fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend((value.len() as u16 + 4).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

fn number(out: &mut Vec<u8>, kind: u16, value: u32) {
    attribute(out, kind, &value.to_be_bytes());
}

fn text(out: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(out, kind, &[value.as_bytes(), &[0]].concat());
}
