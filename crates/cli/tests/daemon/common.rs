//! Daemons in network namespaces for one test, all gone at its end.
#![allow(unreachable_pub)]

pub(crate) use crate::child;
use crate::privilege::may_make_namespaces;
use fairspan_live::control;
use fairspan_live::secure::{OsEntropy, PrivateKey};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a test waits for something that should be there in a moment.
pub const PATIENCE: Duration = Duration::from_secs(120);

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Some namespaces, of names that no other test and no other process has, and a directory.
pub struct Lab {
    prefix: String,
    namespaces: Vec<String>,
    directory: tempfile::TempDir,
}

impl Lab {
    /// Makes the namespaces, or says that the test is skipped.
    pub fn new(names: &[&str]) -> Option<Lab> {
        if !may_make_namespaces() {
            return None;
        }
        let prefix = format!("fs-{}-d{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut lab = Lab { prefix, namespaces: Vec::new(), directory: tempfile::tempdir().expect("a directory") };
        for name in names {
            let namespace = lab.name(name);
            ip(&["netns", "add", &namespace]);
            lab.namespaces.push(namespace);
            lab.ip(name, &["link", "set", "lo", "up"]);
        }
        Some(lab)
    }

    pub fn name(&self, namespace: &str) -> String {
        format!("{}-{namespace}", self.prefix)
    }

    pub fn path(&self, file: &str) -> PathBuf {
        self.directory.path().join(file)
    }

    /// Joins two namespaces by a veth pair, both ends up, each with an address if one is given.
    pub fn cable(&self, a: (&str, &str, &str), b: (&str, &str, &str)) {
        let (na, nb) = (self.name(a.0), self.name(b.0));
        ip(&["link", "add", a.1, "netns", &na, "type", "veth", "peer", "name", b.1, "netns", &nb]);
        for (namespace, device, address) in [a, b] {
            self.ip(namespace, &["link", "set", device, "addrgenmode", "none"]);
            if !address.is_empty() {
                self.ip(namespace, &["address", "add", address, "dev", device, "nodad"]);
            }
            self.ip(namespace, &["link", "set", device, "up"]);
        }
        // The kernel reports the carrier a moment later, on a busy machine much later. Until then it sends nothing.
        for (namespace, device, _) in [a, b] {
            let end = Instant::now() + PATIENCE;
            while !self.ip(namespace, &["-o", "link", "show", "dev", device]).contains(" state UP ") {
                assert!(Instant::now() < end, "{device} in {namespace} has no carrier");
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// `ip -n NAMESPACE ARGS`; gives its output.
    pub fn ip(&self, namespace: &str, args: &[&str]) -> String {
        ip(&[&["-n", &self.name(namespace)], args].concat())
    }

    /// Runs `job` on a thread inside a namespace.
    pub fn inside<R: Send + 'static>(
        &self,
        namespace: &str,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let path = format!("/run/netns/{}", self.name(namespace));
        std::thread::spawn(move || {
            let file = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("namespace");
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("entered");
            job()
        })
    }

    /// Runs `job` inside a namespace and waits for it.
    pub fn run<R: Send + 'static>(&self, namespace: &str, job: impl FnOnce() -> R + Send + 'static) -> R {
        self.inside(namespace, job).join().expect("the job ended well")
    }

    /// A UDP socket in a namespace.
    pub fn udp(&self, namespace: &str, local: &str) -> UdpSocket {
        let local: SocketAddr = local.parse().expect("an address");
        self.run(namespace, move || {
            let socket = bound(local, UdpSocket::bind);
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a timeout");
            // For a reader that has to wait for a processor.
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20).expect("a buffer");
            socket
        })
    }

    /// A TCP socket in a namespace that listens at `local`.
    pub fn listen(&self, namespace: &str, local: impl ToString) -> TcpListener {
        let local: SocketAddr = local.to_string().parse().expect("an address");
        self.run(namespace, move || bound(local, TcpListener::bind))
    }

    /// `fairspan ARGS` in a namespace, to its end.
    pub fn fairspan(&self, namespace: &str, args: &[&str]) -> Output {
        let mut command = Command::new("ip");
        child::output(command.args(["netns", "exec", &self.name(namespace), env!("CARGO_BIN_EXE_fairspan")]).args(args))
    }

    /// Writes a configuration; gives its path. `SOCKET` in it becomes the control socket's path.
    pub fn config(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(&format!("{name}.toml"));
        std::fs::write(&path, text.replace("SOCKET", &self.path(&format!("{name}.sock")).display().to_string()))
            .expect("written");
        // It may hold a key.
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("a mode");
        path
    }

    /// Starts a daemon by `fairspan up`, and does not wait for it.
    pub fn start(&self, namespace: &str, name: &str, config: &str) -> Daemon {
        self.start_by(&["up"], namespace, name, config)
    }

    /// Starts a daemon by `fairspan COMMAND`, and does not wait for it.
    pub fn start_by(&self, command: &[&str], namespace: &str, name: &str, config: &str) -> Daemon {
        self.start_with(command, &[], namespace, name, config)
    }

    /// The same, with these variables in its environment.
    pub fn start_with(
        &self,
        command: &[&str],
        variables: &[(&str, &str)],
        namespace: &str,
        name: &str,
        config: &str,
    ) -> Daemon {
        let config = self.config(name, config);
        let mut up = Command::new("ip");
        up.args(["netns", "exec", &self.name(namespace), env!("CARGO_BIN_EXE_fairspan")]).args(command).arg(config);
        self.spawn(up, variables, name)
    }

    /// Starts a daemon by `fairspan up` once a shell has done `first`, of which mounts are seen by nobody else.
    pub fn start_after(&self, first: &str, namespace: &str, name: &str, config: &str) -> Daemon {
        let config = self.config(name, config);
        let mut up = Command::new("ip");
        up.args(["netns", "exec", &self.name(namespace), "sh", "-ec"]);
        up.arg(format!("{first}; exec '{}' up '{}'", env!("CARGO_BIN_EXE_fairspan"), config.display()));
        self.spawn(up, &[], name)
    }

    fn spawn(&self, mut up: Command, variables: &[(&str, &str)], name: &str) -> Daemon {
        let log = self.path(&format!("{name}.log"));
        let output = File::options().create(true).append(true).open(&log).expect("the log");
        up.env("STATE_DIRECTORY", self.path("state")).envs(variables.iter().copied());
        up.stdin(Stdio::null()).stdout(output.try_clone().expect("a copy")).stderr(output);
        let child = up.spawn().expect("`ip netns exec`");
        Daemon { name: name.into(), child, log, socket: self.path(&format!("{name}.sock")) }
    }

    /// Starts a daemon and waits until it answers.
    pub fn daemon(&self, namespace: &str, name: &str, config: &str) -> Daemon {
        let mut daemon = self.start(namespace, name, config);
        daemon.wait_answer();
        daemon
    }

    /// Sends `megabytes` over one TCP connection and compares every byte.
    pub fn transfer(&self, from: &str, to: &str, target: &str, megabytes: usize) {
        let target: SocketAddr = target.parse().expect("an address");
        let listener = self.listen(to, target);
        let sender = self.inside(from, move || {
            let mut stream = TcpStream::connect_timeout(&target, PATIENCE).expect("connected");
            stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
            for n in 0..megabytes as u64 {
                stream.write_all(&pattern(n)).expect("written");
            }
            stream.shutdown(std::net::Shutdown::Write).expect("ended");
            let mut rest = Vec::new();
            stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
            stream.read_to_end(&mut rest).expect("the far end closes");
        });
        let mut stream = accept(&listener);
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut piece = vec![0; 1_000_000];
        for n in 0..megabytes as u64 {
            stream.read_exact(&mut piece).expect("read");
            assert!(piece == pattern(n), "megabyte {n} is another");
        }
        assert_eq!(stream.read(&mut piece).expect("the end"), 0);
        drop(stream);
        sender.join().expect("sent");
    }

    /// Answers every UDP datagram at `local` until the test ends.
    pub fn echo(&self, namespace: &str, local: &str) {
        let socket = self.udp(namespace, local);
        socket.set_read_timeout(Some(2 * PATIENCE)).expect("a timeout");
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while let Ok((len, from)) = socket.recv_from(&mut buffer) {
                let _ = socket.send_to(&buffer[..len], from);
            }
        });
    }

    /// Sends a datagram again and again until it is received, the first of all at this socket; from whom it came.
    pub fn until_received(&self, sender: &UdpSocket, content: &[u8], receiver: &UdpSocket) -> SocketAddr {
        let target = receiver.local_addr().expect("an address");
        let mut buffer = [0; 64];
        let end = Instant::now() + PATIENCE;
        while Instant::now() < end {
            sender.send_to(content, target).expect("sent");
            if let Ok((len, from)) = receiver.recv_from(&mut buffer) {
                assert_eq!(&buffer[..len], content, "from {from}");
                return from;
            }
        }
        panic!("nothing is received at {target}");
    }

    /// How long it takes until a datagram to `target` (an [`echo`](Self::echo)) comes back.
    pub fn until_answered(&self, namespace: &str, local: &str, target: &str) -> Option<Duration> {
        let socket = self.udp(namespace, local);
        socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let begin = Instant::now();
        let mut buffer = [0; 64];
        while begin.elapsed() < PATIENCE {
            let _ = socket.send_to(b"are you there?", target);
            if socket.recv_from(&mut buffer).is_ok() {
                return Some(begin.elapsed());
            }
        }
        None
    }

    /// Everything of a daemon's that a namespace could be left with: interfaces, routes, rules.
    pub fn traces(&self, namespace: &str) -> String {
        let mut traces = String::new();
        for link in self.ip(namespace, &["-brief", "link"]).lines() {
            traces.push_str(link.split_whitespace().next().unwrap_or(link));
            traces.push('\n');
        }
        for args in [
            &["route", "show", "table", "all"][..],
            &["-6", "route", "show", "table", "all"],
            &["rule"],
            &["-6", "rule"],
        ] {
            let text = self.ip(namespace, args);
            for line in text.lines().filter(|line| !line.contains("fe80") && !line.contains("ff00::/8")) {
                traces.push_str(line.trim_end().trim_end_matches(" linkdown"));
                traces.push('\n');
            }
        }
        traces
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for namespace in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

/// The next connection, if one comes soon.
pub fn accept(listener: &TcpListener) -> TcpStream {
    listener.set_nonblocking(true).expect("non-blocking");
    let end = Instant::now() + PATIENCE;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("blocking");
                return stream;
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => panic!("nobody connects: {e}"),
        }
    }
}

/// A megabyte that no other has.
fn pattern(n: u64) -> Vec<u8> {
    let mut rng = fairspan_core::rng::Rng::new(n + 1);
    let mut bytes = Vec::with_capacity(1_000_000);
    while bytes.len() < 1_000_000 {
        bytes.extend(rng.next_u64().to_le_bytes());
    }
    bytes.truncate(1_000_000);
    bytes
}

fn ip(args: &[&str]) -> String {
    let output = Command::new("ip").args(args).output().expect("the `ip` command (package iproute2)");
    assert!(output.status.success(), "ip {}: {}", args.join(" "), String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `bind` makes at `local`. A process that another test is just starting may still have the socket that was here before.
fn bound<S>(local: SocketAddr, bind: impl Fn(SocketAddr) -> std::io::Result<S>) -> S {
    let end = Instant::now() + PATIENCE;
    loop {
        match bind(local) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            made => return made.unwrap_or_else(|error| panic!("{local}: {error}")),
        }
    }
}

/// A running daemon; dropped, it is killed.
pub struct Daemon {
    name: String,
    child: Child,
    log: PathBuf,
    pub socket: PathBuf,
}

impl Daemon {
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn try_status(&self) -> Option<Value> {
        // As `fairspan status --json` does, without a process for each of many looks.
        let answer = control::ask(&self.socket, &control::Request::Status).ok()?;
        serde_json::from_str(&answer).ok()
    }

    /// Waits until it answers.
    pub fn wait_answer(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.try_status().is_none() {
            assert!(self.child.try_wait().expect("a status").is_none(), "{} ended: {}", self.name, self.log());
            assert!(Instant::now() < end, "{} does not answer: {}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its status.
    pub fn status(&self) -> Value {
        // On a busy machine it may take longer than who asks waits for.
        (0..6)
            .find_map(|_| self.try_status())
            .unwrap_or_else(|| panic!("{} does not answer: {}", self.name, self.log()))
    }

    /// One of the daemon's own counters.
    pub fn counter(&self, name: &str) -> u64 {
        let status = self.status();
        status["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {status}"))
    }

    /// One of the first peer's counters.
    pub fn peer_counter(&self, name: &str) -> u64 {
        let status = self.status();
        status["peers"][0]["counters"][name].as_u64().unwrap_or_else(|| panic!("no counter {name} in {status}"))
    }

    /// Channels of all peers that are up.
    pub fn channels_up(&self) -> usize {
        channels(&self.status()).filter(|channel| channel["state"] == "up").count()
    }

    /// The state of a channel by name.
    pub fn state(&self, channel: &str) -> String {
        let status = self.status();
        let found = channels(&status).find(|c| c["name"] == channel);
        found.map_or_else(String::new, |c| c["state"].as_str().unwrap_or_default().to_owned())
    }

    /// Waits until `holds`; gives how long that took.
    pub fn wait(&self, what: &str, mut holds: impl FnMut(&Daemon) -> bool) -> Duration {
        let begin = Instant::now();
        while !holds(self) {
            if begin.elapsed() >= PATIENCE {
                let status = self.try_status().unwrap_or_default();
                panic!("{}: {what}: in vain\n{status}\n{}", self.name, self.log());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        begin.elapsed()
    }

    pub fn wait_up(&self, channels: usize) {
        self.wait(&format!("{channels} channels up"), |d| d.channels_up() == channels);
    }

    pub fn wait_log(&self, words: &str) {
        self.wait(&format!("`{words}` in the log"), |d| d.log().contains(words));
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process");
        kill_process(pid, signal).expect("signalled");
    }

    /// Waits for its end.
    pub fn ended(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("a status") {
                return status;
            }
            assert!(Instant::now() < end, "{} does not end: {}", self.name, self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it with SIGTERM; it must end in order.
    pub fn stop(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.ended().code(), Some(0), "{}", self.log());
        assert!(!self.socket.exists(), "the control socket is gone");
        self.assert_allowed();
    }

    /// Nothing that it did was refused as something that no such daemon does.
    fn assert_allowed(&self) {
        assert!(!self.log().contains("a system call was refused"), "{}", self.log());
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.signal(Signal::KILL);
        self.ended();
        self.assert_allowed();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {}\n{}", self.name, self.log());
        }
    }
}

fn channels(status: &Value) -> impl Iterator<Item = &Value> {
    status["peers"].as_array().into_iter().flatten().flat_map(|p| p["channels"].as_array().into_iter().flatten())
}

/// A key and its public half, as text.
pub fn keys() -> (String, String) {
    let key = PrivateKey::generate(&mut OsEntropy::new());
    (key.to_base64().to_string(), key.public_key().to_string())
}

/// `[interface]` of a daemon whose control socket and memory are in the lab's directory.
pub fn interface(name: &str, address: &str, key: &str, more: &str) -> String {
    let key = if key.is_empty() { String::new() } else { format!("private_key = \"{key}\"\n") };
    format!(
        "[interface]\nname = \"{name}\"\naddress = {address}\ncontrol_socket = \"SOCKET\"\nstate_dir = \"SOCKET.state\"\n{key}{more}\n"
    )
}

/// A `[[peer]]` without channels.
pub fn peer(name: &str, public: &str, allowed: &str, more: &str) -> String {
    let public = if public.is_empty() { String::new() } else { format!("public_key = \"{public}\"\n") };
    format!("[[peer]]\nname = \"{name}\"\n{public}allowed_ips = {allowed}\n{more}\n")
}

/// For a peer: each channel carries an equal share, however fast it was found to be.
pub const EQUAL_SHARES: &str = "measure_rates = false\n";

/// A `[[peer.channel]]` over UDP.
pub fn udp(name: &str, device: &str, endpoint: &str) -> String {
    format!("[[peer.channel]]\nname = \"{name}\"\nkind = \"udp\"\ndevice = \"{device}\"\nendpoint = \"{endpoint}\"\n")
}

/// A `[[peer.channel]]` over Ethernet.
pub fn ethernet(name: &str, device: &str, more: &str) -> String {
    format!("[[peer.channel]]\nname = \"{name}\"\nkind = \"ethernet\"\ndevice = \"{device}\"\n{more}\n")
}

/// A site with two UDP channels and the hub that it calls, in namespaces `site` and `hub`, joined by `eth0` and `eth1`.
pub struct Pair {
    pub lab: Lab,
    pub site_key: (String, String),
    pub hub_key: (String, String),
}

impl Pair {
    pub fn new() -> Option<Pair> {
        let lab = Lab::new(&["site", "hub"])?;
        lab.cable(("site", "eth0", "192.168.1.2/24"), ("hub", "eth0", "192.168.1.1/24"));
        lab.cable(("site", "eth1", "192.168.2.2/24"), ("hub", "eth1", "192.168.2.1/24"));
        Some(Pair { lab, site_key: keys(), hub_key: keys() })
    }

    /// With equal shares, so that both channels carry traffic whatever a busy machine makes of their rates.
    pub fn site_config(&self, interface_more: &str, peer_more: &str) -> String {
        interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &self.site_key.0, interface_more)
            + &peer("hub", &self.hub_key.1, "[\"10.77.0.1/32\", \"fd77::1/128\"]", peer_more)
            + &udp("one", "eth0", "192.168.1.1:51900")
            + &udp("two", "eth1", "192.168.2.1:51900")
    }

    pub fn hub_config(&self, interface_more: &str, peer_more: &str) -> String {
        let more = format!("listen_port = 51900\n{interface_more}");
        interface("fs0", "[\"10.77.0.1/24\", \"fd77::1/64\"]", &self.hub_key.0, &more)
            + &peer("site", &self.site_key.1, "[\"10.77.0.2/32\", \"fd77::2/128\"]", peer_more)
    }

    /// Both daemons, with both channels up.
    pub fn start(&self) -> (Daemon, Daemon) {
        self.start_with("")
    }

    /// The same with more settings for the peer, at both ends.
    pub fn start_with(&self, peer_more: &str) -> (Daemon, Daemon) {
        let hub = self.lab.daemon("hub", "hub", &self.hub_config("", peer_more));
        let site = self.lab.daemon("site", "site", &self.site_config("", peer_more));
        site.wait_up(2);
        hub.wait_up(2);
        (site, hub)
    }
}

/// The address behind an IP, for tests that compare text.
pub fn ip_of(text: &str) -> IpAddr {
    text.parse().expect("an address")
}
