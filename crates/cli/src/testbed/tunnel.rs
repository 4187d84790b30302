//! A Fairspan tunnel between two namespaces: two daemons of this very program.

use super::{Interrupt, Namespace, Process};
use crate::measure::ping::Ping;
use anyhow::{Context, Result, bail};
use fairspan_core::quantity::exact_rate;
use fairspan_core::units::Rate;
use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write as _};
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The tunnel address of the end that connects.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The tunnel address of the end that listens.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
/// The port of the end that listens.
pub(crate) const PORT: u16 = 51900;
/// How long a tunnel may take to carry its first packet: a busy machine takes its time.
const READY: Duration = Duration::from_secs(120);

/// One UDP channel, as the connecting end configures it.
#[derive(Clone, Debug)]
pub(crate) struct Channel<'a> {
    /// What it is called; also the interface it leaves by.
    pub(crate) device: &'a str,
    /// The far end's address on that link.
    pub(crate) endpoint: Ipv4Addr,
    /// Where the far end is called, if not at its own port.
    pub(crate) port: Option<u16>,
    /// The rate of the link, both ways; unpaced if not given.
    pub(crate) rate: Option<Rate>,
}

/// What the channels between two ports are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ChannelKind {
    /// Encrypted, in UDP datagrams.
    Udp,
    /// Ethernet frames in the clear.
    Ethernet,
}

/// Two ports, and what joins them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports<'a> {
    /// What both are called.
    pub(crate) device: &'a str,
    pub(crate) channels: &'a [Channel<'a>],
    pub(crate) kind: ChannelKind,
    pub(crate) mode: Mode,
    /// The setting `equalize`; its default if not given.
    pub(crate) equalize: Option<&'a str>,
}

/// How packets are spread over the channels and put in order again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    /// The setting `mode`.
    pub(crate) mode: &'static str,
    /// The setting `scheduler`; its default if not given.
    pub(crate) scheduler: Option<&'static str>,
}

/// Surplus round robin by bytes, in order within every flow, nothing lost: the default over UDP.
pub(crate) const RELIABLE: Mode = Mode { mode: "reliable", scheduler: None };
/// Packets in turn, delivered as they come.
pub(crate) const ROUND_ROBIN: Mode = Mode { mode: "plain", scheduler: Some("rr") };

/// A running pair of daemons; dropped, both end.
#[derive(Debug)]
pub(crate) struct Tunnel {
    near: Process,
    far: Process,
    /// The control sockets of the two.
    sockets: [PathBuf; 2],
}

impl Tunnel {
    /// Starts both ends and waits until packets get through. Configurations and logs go to `directory`.
    pub(crate) fn start(
        interrupt: &Interrupt,
        near: &Namespace,
        far: &Namespace,
        channels: &[Channel<'_>],
        mode: Mode,
        directory: &Path,
    ) -> Result<Tunnel> {
        Tunnel::start_with(interrupt, [near, far], channels, (mode, ""), directory)
    }

    /// The same, with `more` settings in `[interface]` of the end that connects.
    pub(crate) fn start_with(
        interrupt: &Interrupt,
        [near, far]: [&Namespace; 2],
        channels: &[Channel<'_>],
        (mode, more): (Mode, &str),
        directory: &Path,
    ) -> Result<Tunnel> {
        let (near_key, far_key) = (KeyPair::new()?, KeyPair::new()?);
        let near_config = near_config(channels, (mode, more), &near_key, &far_key, directory);
        let far_config = far_config(mode, &far_key, &near_key, directory);
        let far_end = daemon(far, "the listening end", &far_config, &directory.join("far"))?;
        let near_end = daemon(near, "the connecting end", &near_config, &directory.join("near"))?;
        let sockets = [directory.join("near.sock"), directory.join("far.sock")];
        let mut tunnel = Tunnel { near: near_end, far: far_end, sockets };
        tunnel.wait_until_ready(interrupt, near)?;
        Ok(tunnel)
    }

    /// Joins a device of the one namespace with that of the other, and waits until all channels are up.
    pub(crate) fn join_ports(
        interrupt: &Interrupt,
        ends: [&Namespace; 2],
        ports: &Ports<'_>,
        directory: &Path,
    ) -> Result<Tunnel> {
        let Ports { device, channels, kind, mode, equalize } = *ports;
        let keys = [KeyPair::new()?, KeyPair::new()?];
        let config = |own: usize, name: &str| {
            let what = format!("kind = \"port\"\ndevice = \"{device}\"\n");
            let mut text = interface_section(&what, (own == 1).then_some(PORT), &keys[own], &directory.join(name));
            text.push_str(&peer_section(["far", "near"][own], None, mode, &keys[1 - own]));
            if let Some(equalize) = equalize {
                let _ = writeln!(text, "equalize = \"{equalize}\"");
            }
            match kind {
                ChannelKind::Udp if own == 1 => {}
                ChannelKind::Udp => text.extend(channels.iter().map(channel_section)),
                ChannelKind::Ethernet => text.extend(channels.iter().map(ethernet_section)),
            }
            text
        };
        let (near_config, far_config) = (config(0, "near.sock"), config(1, "far.sock"));
        let far = daemon(ends[1], "the listening end", &far_config, &directory.join("far"))?;
        let near = daemon(ends[0], "the connecting end", &near_config, &directory.join("near"))?;
        let sockets = [directory.join("near.sock"), directory.join("far.sock")];
        let mut tunnel = Tunnel { near, far, sockets };
        tunnel.wait_for_channels(interrupt, channels.len())?;
        Ok(tunnel)
    }

    /// The control socket of the end that connects.
    pub(crate) fn near_socket(&self) -> &Path {
        &self.sockets[0]
    }

    /// The numbers of the two processes.
    pub(crate) fn ids(&self) -> [u32; 2] {
        [self.near.id(), self.far.id()]
    }

    /// Waits until both ends say that `count` channels are up.
    pub(crate) fn wait_for_channels(&mut self, interrupt: &Interrupt, count: usize) -> Result<()> {
        let end = Instant::now() + READY;
        loop {
            interrupt.check()?;
            self.check()?;
            let up: Vec<usize> = self.sockets.iter().map(|socket| channels_up(socket).unwrap_or(0)).collect();
            if up.iter().all(|&up| up >= count) {
                return Ok(());
            }
            if Instant::now() > end {
                bail!("of {count} channels only {up:?} (connecting end, listening end) came up");
            }
            interrupt.sleep(Duration::from_millis(50))?;
        }
    }

    /// An error if either daemon is no longer there.
    pub(crate) fn check(&mut self) -> Result<()> {
        self.near.check()?;
        self.far.check()
    }

    /// The largest packet that the tunnel takes, as the interface of the end that connects says.
    pub(crate) fn mtu(&self, near: &Namespace) -> Result<u32> {
        let said = near.ip(&["-o", "link", "show", "fs0"])?;
        let mut words = said.split_whitespace().skip_while(|word| *word != "mtu");
        words.nth(1).and_then(|mtu| mtu.parse().ok()).with_context(|| format!("no MTU in `{said}`"))
    }

    /// Ends both daemons; an error unless both end in order.
    pub(crate) fn stop(mut self) -> Result<()> {
        self.check()?;
        for end in [&mut self.near, &mut self.far] {
            match end.stop() {
                Some(status) if status.success() => {}
                Some(status) => bail!("a daemon ended with {status} when asked to stop: {}", end.log()),
                None => bail!("a daemon did not end when asked to and was killed: {}", end.log()),
            }
        }
        Ok(())
    }

    fn wait_until_ready(&mut self, interrupt: &Interrupt, near: &Namespace) -> Result<()> {
        let end = Instant::now() + READY;
        let mut ping = Ping::new(near, FAR)?;
        while Instant::now() < end {
            interrupt.check()?;
            self.check()?;
            if ping.once(Duration::from_millis(300))?.is_some() {
                return Ok(());
            }
            interrupt.sleep(Duration::from_millis(20))?;
        }
        bail!(
            "no packet got through the tunnel within {} s\nconnecting end: {}\nlistening end: {}",
            READY.as_secs(),
            self.near.log().trim(),
            self.far.log().trim()
        );
    }
}

/// How many channels the daemon behind a control socket says are up.
pub(crate) fn channels_up(socket: &Path) -> Option<usize> {
    let mut stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(b"{\"command\":\"status\"}\n").ok()?;
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).ok()?;
    let status: serde_json::Value = serde_json::from_str(&answer).ok()?;
    let channels = status.pointer("/peers/0/channels")?.as_array()?;
    Some(channels.iter().filter(|channel| channel["state"] == "up").count())
}

/// The configuration of the end that connects.
fn near_config(
    channels: &[Channel<'_>],
    (mode, more): (Mode, &str),
    own: &KeyPair,
    peer: &KeyPair,
    directory: &Path,
) -> String {
    let mut text = interface(NEAR, None, own, &directory.join("near.sock")) + more;
    text.push_str(&peer_section("far", Some(FAR), mode, peer));
    text.extend(channels.iter().map(channel_section));
    text
}

fn channel_section(channel: &Channel<'_>) -> String {
    let (name, to, port) = (channel.device, channel.endpoint, channel.port.unwrap_or(PORT));
    format!("\n[[peer.channel]]\nname = \"{name}\"\nkind = \"udp\"\ndevice = \"{name}\"\nendpoint = \"{to}:{port}\"\n")
        + &rates(channel)
}

fn ethernet_section(channel: &Channel<'_>) -> String {
    let name = channel.device;
    format!("\n[[peer.channel]]\nname = \"{name}\"\nkind = \"ethernet\"\ndevice = \"{name}\"\n") + &rates(channel)
}

fn rates(channel: &Channel<'_>) -> String {
    let rate = channel.rate.map(exact_rate);
    rate.map_or_else(String::new, |rate| format!("rate = \"{rate}\"\npeer_rate = \"{rate}\"\n"))
}

/// The configuration of the end that listens: it learns the channels from the handshakes.
fn far_config(mode: Mode, own: &KeyPair, peer: &KeyPair, directory: &Path) -> String {
    interface(FAR, Some(PORT), own, &directory.join("far.sock")) + &peer_section("near", Some(NEAR), mode, peer)
}

fn interface(address: Ipv4Addr, port: Option<u16>, key: &KeyPair, socket: &Path) -> String {
    interface_section(&format!("name = \"fs0\"\naddress = [\"{address}/24\"]\n"), port, key, socket)
}

fn interface_section(what: &str, port: Option<u16>, key: &KeyPair, socket: &Path) -> String {
    let mut text = format!(
        "[interface]\n{what}private_key = \"{}\"\ncontrol_socket = \"{}\"\nstate_dir = \"{}\"\n",
        key.private,
        socket.display(),
        socket.with_extension("state").display()
    );
    if let Some(port) = port {
        let _ = writeln!(text, "listen_port = {port}");
    }
    text
}

/// `address`: all that is behind the peer; a port's peer has all frames.
fn peer_section(name: &str, address: Option<Ipv4Addr>, mode: Mode, key: &KeyPair) -> String {
    let mut text =
        format!("\n[[peer]]\nname = \"{name}\"\npublic_key = \"{}\"\nmode = \"{}\"\n", key.public, mode.mode);
    if let Some(address) = address {
        let _ = writeln!(text, "allowed_ips = [\"{address}/32\"]");
    }
    if let Some(scheduler) = mode.scheduler {
        let _ = writeln!(text, "scheduler = \"{scheduler}\"");
    }
    text
}

/// Starts `fairspan up` on a configuration that only its owner can read.
pub(crate) fn daemon(namespace: &Namespace, what: &str, config: &str, base: &Path) -> Result<Process> {
    let path = base.with_extension("toml");
    write_private(&path, config)?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("up").arg(&path);
    Process::start(namespace, what, command, &base.with_extension("log"))
}

/// Writes `text` to a file with mode 0600.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// A Curve25519 key pair in base64, as `fairspan keygen` and `wg genkey` print them.
#[derive(Clone)]
pub(crate) struct KeyPair {
    pub(crate) private: String,
    pub(crate) public: String,
}

impl KeyPair {
    /// A new one, made by this program's own commands.
    pub(crate) fn new() -> Result<KeyPair> {
        let private = own_command("keygen", "")?;
        let public = own_command("pubkey", &private)?;
        Ok(KeyPair { private, public })
    }
}

/// Runs a command of this program with `input`, and returns the line it prints.
fn own_command(command: &str, input: &str) -> Result<String> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run `fairspan {command}`"))?;
    if let Some(mut pipe) = child.stdin.take() {
        // A command that reads nothing may have closed it already.
        let _ = writeln!(pipe, "{input}");
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("`fairspan {command}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
