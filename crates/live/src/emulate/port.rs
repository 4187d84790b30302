//! One end of a link: a packet socket on a device, perhaps in another network namespace, with the device's
//! segmentation offloads off while the port exists.

use crate::sys::packet::{self, PacketSocket, VNET_HEADER};
use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::ffi::{CStr, CString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;

/// Where a port is: a device, in this process' network namespace or in another.
///
/// Written `DEV` or `NETNS:DEV`; the namespace is a name (under `/run/netns`) or a path with a slash in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortName {
    /// The namespace; this process' own when `None`.
    pub namespace: Option<String>,
    /// The device.
    pub device: String,
}

impl FromStr for PortName {
    type Err = PortError;

    fn from_str(text: &str) -> Result<PortName, PortError> {
        let (namespace, device) = match text.rsplit_once(':') {
            Some((namespace, device)) => (Some(namespace.to_owned()), device),
            None => (None, text),
        };
        let valid = (1..16).contains(&device.len()) && !device.contains(['/', '\0', ' ']);
        if !valid || namespace.as_deref() == Some("") {
            return Err(PortError::Name { text: text.into() });
        }
        Ok(PortName { namespace, device: device.into() })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}:{}", self.device),
            None => f.write_str(&self.device),
        }
    }
}

/// Why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The text names no device.
    #[error("`{text}` names no device: write DEV or NETNS:DEV, with a device name of 1 to 15 characters")]
    Name {
        /// What was given.
        text: String,
    },
    /// There is no such device.
    #[error("{port}: no such device; `ip link` lists those that exist")]
    NoDevice {
        /// The port.
        port: PortName,
    },
    /// The device carries no Ethernet frames to anybody else.
    #[error(
        "{port}: no Ethernet device, and a link joins those alone (`lo` leads to this host itself): name another, such as one end of a pair \
         (`ip link add port type veth peer name host`)"
    )]
    NoEthernet {
        /// The port.
        port: PortName,
    },
    /// There is no such namespace.
    #[error("{port}: no such network namespace; `ip netns` lists those with a name")]
    NoNamespace {
        /// The port.
        port: PortName,
    },
    /// CAP_NET_RAW and CAP_NET_ADMIN in the port's namespace (CAP_SYS_ADMIN to enter it) are missing.
    #[error("{port}: not permitted; run as root, or with CAP_NET_RAW, CAP_NET_ADMIN and CAP_SYS_ADMIN")]
    Privileges {
        /// The port.
        port: PortName,
    },
    /// The system refused something else.
    #[error("{port}: {step}: {error}")]
    System {
        /// The port.
        port: PortName,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

/// A port in use.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: PortName,
    pub(super) socket: PacketSocket,
    /// Longest frame that the device's MTU allows, VLAN tag aside.
    pub(super) longest: usize,
    pub(super) offloads: Result<(), String>,
    _restore: Option<Restore>,
}

const ETHERNET: usize = 14;
const VLAN_TAG: usize = 4;

impl Port {
    pub(super) fn open(name: &PortName, slots: usize) -> Result<Port, PortError> {
        let owned = name.clone();
        in_namespace(name, move || Port::open_here(&owned, slots))
    }

    fn open_here(name: &PortName, slots: usize) -> Result<Port, PortError> {
        let (probe, device) = probe(name)?;
        let facts =
            packet::device(probe.as_fd(), &device).map_err(|error| failed(name, "asking for its MTU", error))?;
        if !facts.ethernet {
            return Err(PortError::NoEthernet { port: name.clone() });
        }
        let longest = facts.mtu + ETHERNET;
        let options = packet::Options {
            promiscuous: true,
            vnet_header: true,
            ether_types: &[],
            slots,
            frame: VNET_HEADER + longest + VLAN_TAG,
            buffer: 16 << 20,
        };
        let socket =
            PacketSocket::open(&device, &options).map_err(|error| failed(name, "opening a packet socket", error))?;
        let (offloads, restore) = match switch_off(probe.as_fd(), &device) {
            Ok((mask, before)) => (Ok(()), Some(Restore { socket: probe, device, mask, before })),
            Err(error) => (Err(error.to_string()), None),
        };
        Ok(Port { name: name.clone(), socket, longest, offloads, _restore: restore })
    }
}

/// Runs `job` in the namespace of `port`: on a thread of its own that enters it and ends there. Sockets opened there
/// stay in that namespace.
fn in_namespace<R: Send + 'static>(
    port: &PortName,
    job: impl FnOnce() -> Result<R, PortError> + Send + 'static,
) -> Result<R, PortError> {
    let Some(namespace) = &port.namespace else { return job() };
    let path =
        if namespace.contains('/') { PathBuf::from(namespace) } else { PathBuf::from("/run/netns").join(namespace) };
    let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|_| PortError::NoNamespace { port: port.clone() })?;
    let port = port.clone();
    let thread = std::thread::spawn(move || {
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| failed(&port, "entering the namespace", error.into()))?;
        job()
    });
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn probe(port: &PortName) -> Result<(OwnedFd, CString), PortError> {
    let device = CString::new(port.device.as_str()).map_err(|_| PortError::Name { text: port.to_string() })?;
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)
        .map_err(|error| failed(port, "opening a socket", error.into()))?;
    Ok((socket, device))
}

fn failed(port: &PortName, step: &'static str, error: io::Error) -> PortError {
    let port = port.clone();
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => PortError::Privileges { port },
        Some(libc::ENODEV | libc::ENXIO) => PortError::NoDevice { port },
        _ => PortError::System { port, step, error },
    }
}

/// A device's features as they were, put back on drop.
#[derive(Debug)]
struct Restore {
    socket: OwnedFd,
    device: CString,
    mask: Vec<u32>,
    before: Vec<u32>,
}

impl Drop for Restore {
    fn drop(&mut self) {
        // The device may be gone by now; then there is nothing to put back.
        let _ = packet::set_features(self.socket.as_fd(), &self.device, &self.mask, &self.before);
    }
}

/// Switches off everything that makes a device carry more than one wire frame as one; gives the features that this
/// concerns, and which were active, as 32-bit blocks.
fn switch_off(socket: BorrowedFd<'_>, device: &CStr) -> io::Result<(Vec<u32>, Vec<u32>)> {
    let names = packet::feature_names(socket, device)?;
    let before = packet::features(socket, device, names.len())?;
    let mut mask = vec![0u32; before.len()];
    for (bit, name) in names.iter().enumerate() {
        if joins_frames(name) {
            mask[bit / 32] |= 1 << (bit % 32);
        }
    }
    packet::set_features(socket, device, &mask, &vec![0; mask.len()])?;
    Ok((mask, before))
}

fn joins_frames(feature: &str) -> bool {
    (feature.starts_with("tx-") && feature.contains("segmentation"))
        || matches!(
            feature,
            "tx-gso-list" | "rx-gro" | "rx-gro-hw" | "rx-lro" | "rx-gro-list" | "rx-udp-gro-forwarding"
        )
}

/// Switches off the segmentation and aggregation offloads of a device, as on the end hosts' side of an emulated
/// link: what they send must reach the emulator as the frames that a wire would carry. They stay off.
///
/// # Errors
/// [`PortError`] when there is no such device or the caller lacks CAP_NET_ADMIN in its namespace.
pub fn switch_offloads_off(port: &PortName) -> Result<(), PortError> {
    let owned = port.clone();
    in_namespace(port, move || {
        let (socket, device) = probe(&owned)?;
        switch_off(socket.as_fd(), &device)
            .map_err(|error| failed(&owned, "switching segmentation offloads off", error))?;
        Ok(())
    })
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_device_or_a_namespace_and_a_device() {
        let name: PortName = "blue:veth0".parse().expect("valid");
        assert_eq!((name.namespace.as_deref(), name.device.as_str()), (Some("blue"), "veth0"));
        assert_eq!(name.to_string(), "blue:veth0");
        let name: PortName = "/proc/1/ns/net:eth0".parse().expect("valid");
        assert_eq!(name.namespace.as_deref(), Some("/proc/1/ns/net"));
        assert_eq!("eth0".parse::<PortName>().expect("valid").namespace, None);
        for bad in ["", ":eth0", "ns:", "a-name-that-is-too-long", "a b"] {
            assert!(matches!(bad.parse::<PortName>(), Err(PortError::Name { .. })), "{bad:?}");
        }
    }

    #[test]
    fn offloads_that_join_frames_are_recognised_and_checksums_are_left_alone() {
        for feature in ["tx-tcp-segmentation", "tx-udp-segmentation", "tx-generic-segmentation", "rx-gro"] {
            assert!(joins_frames(feature), "{feature}");
        }
        for feature in ["tx-checksum-ip-generic", "rx-checksum", "tx-scatter-gather", "highdma"] {
            assert!(!joins_frames(feature), "{feature}");
        }
    }
}
