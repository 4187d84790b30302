//! The tunnels that stand beside ours, configured as their manuals say.
//!
//! wireguard-go and boringtun-cli are set up through WireGuard's cross-platform configuration socket (no `wg` needed),
//! with the MTU that wg-quick would give a 1500-byte link. boringtun runs one thread: with more it reorders packets and
//! one connection gets slower. openvpn runs point to point in TLS mode with AES-256-GCM and certificates pinned by
//! fingerprint; its default `mssfix` keeps packets within the link.

use crate::testbed::tunnel::{FAR, KeyPair, NEAR, write_private};
use crate::testbed::{Interrupt, Namespace, Process, command, installed, run};
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A tunnel of another project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rival {
    /// The reference implementation of WireGuard in user space.
    WireguardGo,
    /// Cloudflare's, in Rust.
    Boringtun,
    /// TLS, AES-256-GCM, UDP, in user space.
    Openvpn,
}

/// All of them, in the order of the table.
pub(crate) const RIVALS: [Rival; 3] = [Rival::WireguardGo, Rival::Boringtun, Rival::Openvpn];

/// UDP port of the listening end.
const PORT: u16 = 51821;
/// Where both WireGuards put their configuration sockets.
const SOCKETS: &str = "/var/run/wireguard";
/// WireGuard's MTU on a 1500-byte link.
const MTU: &str = "1420";

/// A rival at work; dropped, it ends.
#[derive(Debug)]
pub(crate) struct Running {
    ends: Vec<Process>,
    sockets: Vec<PathBuf>,
}

/// The cable between the ends, and the far end's address on it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wire<'a> {
    pub(crate) near: &'a Namespace,
    pub(crate) far: &'a Namespace,
    pub(crate) far_address: Ipv4Addr,
}

impl Rival {
    /// The name of the program, of the JSON key and of the table's row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Rival::WireguardGo => "wireguard-go",
            Rival::Boringtun => "boringtun-cli",
            Rival::Openvpn => "openvpn",
        }
    }

    /// Whether its program is there.
    pub(crate) fn is_installed(self) -> bool {
        installed(self.name())
    }

    /// Starts both ends with the addresses [`NEAR`] and [`FAR`]. Packets may take a moment to get through.
    pub(crate) fn start(self, interrupt: &Interrupt, wire: Wire<'_>, directory: &Path) -> Result<Running> {
        match self {
            Rival::WireguardGo | Rival::Boringtun => self.start_wireguard(interrupt, wire, directory),
            Rival::Openvpn => start_openvpn(wire, directory),
        }
    }

    fn start_wireguard(self, interrupt: &Interrupt, wire: Wire<'_>, directory: &Path) -> Result<Running> {
        let (near_key, far_key) = (KeyPair::new()?, KeyPair::new()?);
        let mut running = Running { ends: Vec::new(), sockets: Vec::new() };
        let ends = [
            ("n", wire.near, NEAR, &near_key, &far_key, Some(wire.far_address)),
            ("f", wire.far, FAR, &far_key, &near_key, None),
        ];
        for (suffix, namespace, address, own, peer, endpoint) in ends {
            // The sockets of all namespaces lie in one directory, so the names must differ.
            let device = format!("fs{}{suffix}", std::process::id());
            let socket = Path::new(SOCKETS).join(format!("{device}.sock"));
            running.sockets.push(socket.clone());
            let mut program = command(self.name());
            match self {
                Rival::WireguardGo => program.args(["-f", &device]).env("LOG_LEVEL", "error"),
                _ => program.args(["--foreground", "--disable-drop-privileges", "--threads", "1", &device]),
            };
            let log = directory.join(format!("{}-{suffix}.log", self.name()));
            running.ends.push(Process::start(namespace, self.name(), program, &log)?);
            let request = configuration(own, peer, endpoint)?;
            running.configure(interrupt, &socket, &request)?;
            namespace.ip(&["address", "add", &format!("{address}/24"), "dev", &device])?;
            namespace.ip(&["link", "set", &device, "mtu", MTU, "up"])?;
        }
        Ok(running)
    }
}

impl Running {
    /// An error if one of its processes is no longer there.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.ends.iter_mut().try_for_each(Process::check)
    }

    /// What its processes printed.
    pub(crate) fn log(&self) -> String {
        self.ends.iter().map(Process::log).collect::<Vec<_>>().join("\n")
    }

    /// Sends a configuration as soon as the socket is there.
    fn configure(&mut self, interrupt: &Interrupt, socket: &Path, request: &str) -> Result<()> {
        let end = Instant::now() + Duration::from_secs(5);
        let mut stream = loop {
            interrupt.check()?;
            self.check()?;
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > end => {
                    return Err(error).with_context(|| format!("no configuration socket {}", socket.display()));
                }
                Err(_) => interrupt.sleep(Duration::from_millis(20))?,
            }
        };
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer)?;
        if answer.trim() != "errno=0" {
            bail!("the configuration was refused: {}", answer.trim());
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.ends.clear();
        for socket in &self.sockets {
            // Usually its owner removed it.
            let _ = fs::remove_file(socket);
        }
    }
}

/// The `set` operation of WireGuard's cross-platform interface.
fn configuration(own: &KeyPair, peer: &KeyPair, endpoint: Option<Ipv4Addr>) -> Result<String> {
    let mut text = format!("set=1\nprivate_key={}\n", hexadecimal(&own.private)?);
    if endpoint.is_none() {
        text.push_str(&format!("listen_port={PORT}\n"));
    }
    text.push_str(&format!("public_key={}\nallowed_ip=10.77.0.0/24\n", hexadecimal(&peer.public)?));
    if let Some(endpoint) = endpoint {
        text.push_str(&format!("endpoint={endpoint}:{PORT}\n"));
    }
    text.push('\n');
    Ok(text)
}

/// A key in base64 as the configuration socket wants it.
fn hexadecimal(key: &str) -> Result<String> {
    let bytes = STANDARD.decode(key).context("a key that is not base64")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn start_openvpn(wire: Wire<'_>, directory: &Path) -> Result<Running> {
    let mut running = Running { ends: Vec::new(), sockets: Vec::new() };
    let near = Certificate::new(directory, "near")?;
    let far = Certificate::new(directory, "far")?;
    let ends = [
        (wire.far, FAR, NEAR, &far, &near, vec!["--tls-server", "--dh", "none", "--lport"], None),
        (wire.near, NEAR, FAR, &near, &far, vec!["--tls-client", "--nobind", "--remote"], Some(wire.far_address)),
    ];
    for (namespace, own_address, peer_address, own, peer, role, remote) in ends {
        let mut program = command("openvpn");
        program.args(["--dev", "tun0", "--proto", "udp4", "--data-ciphers", "AES-256-GCM", "--cipher", "AES-256-GCM"]);
        program.args(["--ifconfig", &own_address.to_string(), &peer_address.to_string()]);
        program.arg("--cert").arg(&own.certificate).arg("--key").arg(&own.key);
        program.args(["--peer-fingerprint", &peer.fingerprint, "--fast-io", "--txqueuelen", "1000"]);
        program.args(role);
        if let Some(remote) = remote {
            program.arg(remote.to_string());
        }
        program.arg(PORT.to_string());
        let log = directory.join(format!("openvpn-{own_address}.log"));
        running.ends.push(Process::start(namespace, "openvpn", program, &log)?);
    }
    Ok(running)
}

/// A self-signed certificate and its fingerprint.
#[derive(Debug)]
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
    fingerprint: String,
}

impl Certificate {
    fn new(directory: &Path, name: &str) -> Result<Certificate> {
        let certificate = directory.join(format!("openvpn-{name}.crt"));
        let key = directory.join(format!("openvpn-{name}.key"));
        write_private(&key, "")?;
        let (certificate_path, key_path) = (certificate.display().to_string(), key.display().to_string());
        let request =
            ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
        let subject = format!("/CN={name}");
        let files = ["-subj", &subject, "-keyout", &key_path, "-out", &certificate_path];
        run("openssl", &[&request[..], &files[..]].concat())?;
        let printed = run("openssl", &["x509", "-in", &certificate_path, "-noout", "-fingerprint", "-sha256"])?;
        let (_, fingerprint) = printed.trim().split_once('=').context("openssl printed no fingerprint")?;
        Ok(Certificate { certificate, key, fingerprint: fingerprint.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_what_the_interface_asks_for() {
        let own = KeyPair { private: STANDARD.encode([1; 32]), public: String::new() };
        let peer = KeyPair { private: String::new(), public: STANDARD.encode([0xab; 32]) };
        let (own_hex, peer_hex) = ("01".repeat(32), "ab".repeat(32));
        assert_eq!(
            configuration(&own, &peer, None).unwrap(),
            format!(
                "set=1\nprivate_key={own_hex}\nlisten_port=51821\npublic_key={peer_hex}\nallowed_ip=10.77.0.0/24\n\n"
            )
        );
        let calling = configuration(&own, &peer, Some(Ipv4Addr::new(192, 0, 2, 1))).unwrap();
        assert!(calling.ends_with("endpoint=192.0.2.1:51821\n\n") && !calling.contains("listen_port"));
    }
}
