//! A connection to netfilter (nfnetlink): requests, and their answers.
//!
//! Source: Linux `include/uapi/linux/netfilter/nfnetlink.h`.

use super::encode::{DONE, ERROR, field};
use super::request::{NetlinkError, PATIENCE, kernel_message, messages, refused};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_NETFILTER};
use rustix::net::sockopt::{
    Timeout, set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, set_socket_timeout,
};
use std::io;

/// For the rules of some thousand networks, in bytes.
const BUFFER: usize = 8 << 20;

/// A connection, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(super) struct Netfilter {
    pub(super) socket: Socket,
    buffer: Vec<u8>,
}

impl Netfilter {
    /// Connects; `action` is what for.
    ///
    /// # Errors
    /// What the kernel says, such as one without netfilter.
    pub(super) fn open(action: &str) -> Result<Netfilter, NetlinkError> {
        let open = || {
            let mut socket = Socket::new(NETLINK_NETFILTER)?;
            socket.bind_auto()?;
            socket.connect(&SocketAddr::new(0, 0))?;
            // As for rtnetlink: older kernels say less.
            let _ = socket.set_cap_ack(true);
            let _ = socket.set_ext_ack(true);
            set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
            // A table goes in one piece, and each of its rules is answered. As root beyond what the system allows everybody.
            let sizes = [set_socket_send_buffer_size_force, set_socket_recv_buffer_size_force];
            for set in sizes {
                let _ = set(&socket, BUFFER);
            }
            Ok(socket)
        };
        let socket = open().map_err(|error: io::Error| refused(action, &error))?;
        Ok(Netfilter { socket, buffer: Vec::with_capacity(64 << 10) })
    }

    /// Sends requests, and reads up to the answer of request `last` or the end of a list; `each` gets all that is no answer,
    /// and says whether it was the last of them.
    ///
    /// # Errors
    /// What the kernel says of the first request that it refuses.
    pub(super) fn ask(
        &mut self,
        requests: &[u8],
        last: u32,
        action: &str,
        mut each: impl FnMut(u16, &[u8]) -> bool,
    ) -> Result<(), NetlinkError> {
        self.forget_old_answers();
        self.socket.send(requests, 0).map_err(|error| refused(action, &error))?;
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, 0) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(refused(action, &error)),
                Ok(_) => {}
            }
            for bytes in messages(&self.buffer) {
                let (Some(kind), Some(sequence)) = (field(bytes, 4), field(bytes, 8)) else { continue };
                match u16::from_ne_bytes(kind) {
                    ERROR => match field(bytes, 16).map_or(0, i32::from_ne_bytes) {
                        0 if u32::from_ne_bytes(sequence) == last => return Ok(()),
                        0 => {}
                        code => {
                            let (action, errno) = (action.to_owned(), code.wrapping_neg());
                            return Err(NetlinkError::Refused { action, errno, message: kernel_message(bytes) });
                        }
                    },
                    DONE => return Ok(()),
                    kind if each(kind, bytes) => return Ok(()),
                    _ => {}
                }
            }
        }
    }

    /// Answers come before a request's call returns. What is left is of requests behind one that failed.
    fn forget_old_answers(&mut self) {
        loop {
            self.buffer.clear();
            match self.socket.recv(&mut self.buffer, libc::MSG_DONTWAIT) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return,
                _ => {}
            }
        }
    }
}
