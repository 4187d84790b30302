//! A connection to the kernel's network configuration: a request, and its answers.

use crate::privilege::lacking;
use crate::system::system;
use netlink_packet_core::{NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Marks routes and rules as the daemon's (`proto 250` to ip(8)), so that what a killed daemon left is told from
/// what other programs made.
pub const PROTOCOL: u8 = 250;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused.
    #[error(
        "cannot {action}: {}{}{}",
        io::Error::from_raw_os_error(*.errno),
        if .message.is_empty() { String::new() } else { format!(" ({message})") },
        self.remedy()
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

    /// What helps, where that is known, to be said behind it.
    fn remedy(&self) -> String {
        match self {
            NetlinkError::Refused { errno, .. } if self.lacks_privilege() => {
                lacking(&io::Error::from_raw_os_error(*errno), "CAP_NET_ADMIN")
            }
            NetlinkError::Refused { message, .. } if message.contains("IPv6 is disabled") => {
                ": `sysctl -w net.ipv6.conf.default.disable_ipv6=0`, or leave addresses and networks of IPv6 out"
                    .to_owned()
            }
            _ => String::new(),
        }
    }

    /// Whether a privilege is missing. It is not where the kernel denies access and says why, as to an interface without IPv6.
    pub fn lacks_privilege(&self) -> bool {
        match self {
            NetlinkError::Refused { errno, message, .. } => {
                *errno == libc::EPERM || (*errno == libc::EACCES && message.is_empty())
            }
            _ => false,
        }
    }
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
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

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

    pub(super) fn change(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        action: &str,
    ) -> Result<(), NetlinkError> {
        self.request(message, flags | NLM_F_ACK, action).map(|_| ())
    }

    /// Sends one request and collects its answers, up to the acknowledgement or the end of the list.
    pub(super) fn request(
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

/// Of which IP version an address is.
pub(super) fn family_of(ip: IpAddr) -> AddressFamily {
    if ip.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 }
}

/// The netlink messages of one datagram.
pub(super) fn messages(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
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
pub(super) fn kernel_message(error: &[u8]) -> String {
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

pub(super) fn refused(action: &str, error: &io::Error) -> NetlinkError {
    NetlinkError::Refused {
        action: action.to_owned(),
        errno: error.raw_os_error().unwrap_or(libc::EIO),
        message: String::new(),
    }
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
        let denied = |message: &str| NetlinkError::Refused {
            action: "add address fd77::1/64 to interface fs0".to_owned(),
            errno: libc::EACCES,
            message: message.to_owned(),
        };
        let told = denied("IPv6 is disabled on this device");
        let helps = "(IPv6 is disabled on this device): `sysctl -w net.ipv6.conf.default.disable_ipv6=0`, or leave addresses and networks of IPv6 out";
        assert!(!told.lacks_privilege() && told.to_string().ends_with(helps), "{told}");
        assert!(denied("").lacks_privilege());
    }
}
