//! Which system calls a daemon of each role may make once it is confined, and that the log names those it may not. Each daemon is
//! this program again, as what is given up is given up for the whole process.

mod privilege;

use fairspan_live::config::Config;
use fairspan_live::confinement::{self, Holds};
use fairspan_live::roles::{Daemon, Role};
use fairspan_live::secure::{OsEntropy, PrivateKey};
use privilege::may_make_namespaces;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, ErrorKind};
use std::net::{TcpListener, UdpSocket};
use std::os::fd::AsFd as _;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// Which role a daemon is to have.
const ROLE: &str = "FAIRSPAN_TEST_ROLE";
const ITSELF: &str = "what_a_role_does_not_do_is_refused_and_told_by_name_and_what_it_does_works";

const PEERS: &str = "[[peer]]\npublic_key = \"PEER\"\nallowed_ips = [\"10.77.0.1/32\"]\n\
                     [[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.1:51900\"\n";
const SPLIT: &str = "[[peer]]\npublic_key = \"PEER\"\nallowed_ips = [\"10.77.0.1/32\"]\n[peer.split]\n\
                     [[peer.channel]]\nkind = \"udp\"\nendpoint = \"192.0.2.1:51900\"\n";
const FRAMES: &str = "[[peer]]\nallowed_ips = [\"10.77.0.1/32\"]\n[[peer.channel]]\nkind = \"ethernet\"\ndevice = \"eth0\"\nmtu = 1500\n";
const BOND: &str = "[bond]\npolicy = \"active-backup\"\n[[bond.link]]\ndevice = \"eth0\"\n";
const SHAPE: &str = "[shape]\na = \"eth0\"\nb = \"eth1\"\nrate = \"10Mbit\"\n";
const GATEWAY: &str = "[gateway]\nlong = \"eth0\"\n";
const PROXY: &str = "[gateway]\nlong = \"eth0\"\ntransparent = false\nproxy = \"127.0.0.1:82\"\n";
const RING: &str = "[ring]\nnode = 1\nnodes = 2\nrate = \"100Mbit\"\n\
                    [ring.east]\nkind = \"udp\"\npublic_key = \"PEER\"\nendpoint = \"192.0.2.1:51900\"\n";

/// A role, its configuration, whether it has a key, and which of the things below it does.
const ROLES: [(&str, Role, &str, bool, &[&str]); 8] = [
    ("peers", Role::Peers, PEERS, true, &KEYED),
    ("split", Role::Peers, SPLIT, true, &KEYED_SPLITS),
    ("frames", Role::Peers, FRAMES, false, &["frames", "a file on disk"]),
    ("bond", Role::EthernetBond, BOND, false, &["frames"]),
    ("shape", Role::Shaper, SHAPE, false, &["frames"]),
    ("gateway", Role::Gateway, GATEWAY, false, &SPLITS),
    ("proxy", Role::Gateway, PROXY, false, &SPLITS),
    ("ring", Role::Ring, RING, true, &KEYED),
];

/// What one with a key does.
const KEYED: [&str; 7] =
    ["a thread", "an event", "UDP", "a datagram", "a file on disk", "more descriptors", "more memory"];
/// What one with a key does that splits for a peer.
const KEYED_SPLITS: [&str; 12] = [
    "a thread",
    "an event",
    "UDP",
    "a datagram",
    "a file on disk",
    "more descriptors",
    "more memory",
    "TCP",
    "what waits",
    "a pipe",
    "bytes through it",
    "a port below 1024",
];
/// What a gateway does.
const SPLITS: [&str; 6] = ["TCP", "what waits", "a pipe", "bytes through it", "more descriptors", "a port below 1024"];

/// What one may do and another may not.
fn things(file: &File, limits: &[Rlimit; 2]) -> [(&'static str, io::Result<()>); 20] {
    let raw = |domain, kind| socket2::Socket::new(domain, kind, None).map(drop);
    let datagram = recvmsg(file, &mut [], &mut RecvAncillaryBuffer::default(), RecvFlags::empty());
    let program = memmap2::MmapMut::map_anon(4096).and_then(|memory| memory.make_exec()).map(drop);
    [
        ("a program", Command::new("true").status().map(drop)),
        ("a thread", std::thread::Builder::new().spawn(|| ()).map(drop)),
        ("an event", eventfd(0, EventfdFlags::empty()).map(drop).map_err(Into::into)),
        ("a datagram", made(datagram, Errno::NOTSOCK)),
        ("UDP", UdpSocket::bind("127.0.0.1:0").map(drop)),
        ("TCP", TcpListener::bind("127.0.0.1:0").map(drop)),
        ("raw IP", raw(socket2::Domain::IPV4, socket2::Type::RAW)),
        ("frames", raw(socket2::Domain::PACKET, socket2::Type::RAW)),
        ("a file on disk", file.sync_all()),
        ("a file in memory", memfd_create("none", MemfdFlags::empty()).map(drop).map_err(Into::into)),
        ("a process's group", rustix::process::getpgid(None).map(drop).map_err(Into::into)),
        ("memory that is a program", program),
        ("another root", rustix::process::chroot("/").map_err(Into::into)),
        ("a pipe", pipe_with(PipeFlags::CLOEXEC).map(drop).map_err(Into::into)),
        ("bytes through it", made(splice(file, None, file, None, 1, SpliceFlags::empty()), Errno::BADF)),
        ("more descriptors", setrlimit(Resource::Nofile, limits[0]).map_err(Into::into)),
        ("more memory", setrlimit(Resource::Memlock, limits[1]).map_err(Into::into)),
        ("a port below 1024", TcpListener::bind("127.0.0.1:81").map(drop)),
        ("a descriptor's flag", rustix::io::ioctl_fioclex(file).map_err(Into::into)),
        ("what waits", rustix::io::ioctl_fionread(file).map(drop).map_err(Into::into)),
    ]
}

/// Whether a role has a key.
fn is_keyed(name: &str) -> bool {
    ROLES.iter().any(|(role, .., keyed, _)| *role == name && *keyed)
}

/// Whether a call was made: it fails with this, as what it is for is not there.
fn made<T>(result: Result<T, Errno>, expected: Errno) -> io::Result<()> {
    match result {
        Err(errno) if errno == expected => Ok(()),
        result => result.map(drop).map_err(Into::into),
    }
}

#[test]
fn what_a_role_does_not_do_is_refused_and_told_by_name_and_what_it_does_works() {
    if let Ok(role) = std::env::var(ROLE) {
        return daemon(&role);
    }
    if !may_make_namespaces() {
        return;
    }
    for (name, ..) in ROLES {
        let mut again = Command::new(std::env::current_exe().expect("this program"));
        again.args(["--exact", ITSELF, "--nocapture", "--test-threads", "1"]).env(ROLE, name);
        let mut again =
            again.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("begun");
        // It ends when its input does: after what it tells, or when that does not come.
        let (input, (ended, end)) = (again.stdin.take(), mpsc::channel::<()>());
        std::thread::spawn(move || {
            let _ = end.recv_timeout(Duration::from_secs(60));
            drop(input);
        });
        let mut lines = BufReader::new(again.stderr.take().expect("its log")).lines().map(|line| line.expect("text"));
        let mut log = String::new();
        // Told once a second; the last of them by its number.
        for line in lines.by_ref() {
            log += &(line + "\n");
            if log.contains("memfd_create") {
                break;
            }
        }
        drop(ended);
        log.extend(lines.map(|line| line + "\n"));
        assert!(again.wait().expect("its end").success(), "{name}: {log}");
        if log.starts_with("skipped: ") {
            println!("{log}");
            continue;
        }
        for call in ["socket", "ioctl", "getpgid", "mprotect", "chroot", "memfd_create"] {
            assert_eq!(log.matches(&format!("call=\"{call}\"")).count(), 1, "{name}: {call}: {log}");
        }
        let splits = ["gateway", "proxy", "split"].contains(&name);
        for (call, refused) in [("pipe2", !splits), ("splice", !splits), ("prlimit64", !is_keyed(name))] {
            assert_eq!(log.contains(&format!("call=\"{call}\"")), refused, "{name}: {call}: {log}");
        }
        let is_keyed = is_keyed(name);
        for (call, refused) in [
            ("fsync", ["bond", "shape", "gateway", "proxy"].contains(&name)),
            ("eventfd2", !is_keyed),
            ("recvmsg", !is_keyed),
        ] {
            assert_eq!(log.contains(&format!("call=\"{call}\"")), refused, "{name}: {call}: {log}");
        }
    }
}

/// Begins a daemon, tries what it may not do, and runs it until there is nothing more to read.
fn daemon(role: &str) {
    let (_, role, text, keyed, does) = *ROLES.iter().find(|(name, ..)| *name == role).expect("a role");
    tracing::subscriber::set_global_default(Lines(Mutex::new(()), AtomicU64::new(1))).expect("a log");
    fairspan_live::enter_new_network_namespace().expect("a namespace");
    let folder = tempfile::tempdir().expect("a folder");
    let key = PrivateKey::generate(&mut OsEntropy::new()).to_base64();
    let own = if keyed { format!("private_key = \"{}\"\n", key.as_str()) } else { String::new() };
    let text = format!(
        "[interface]\nname = \"fs0\"\n{own}control_socket = \"{0}/fs0.sock\"\nstate_dir = \"{0}\"\n{1}",
        folder.path().display(),
        text.replace("PEER", "6J0aJYNeDEPqUnY6QnsyFBdH5g8RbCu5dMK8vPrgUmY=")
    );
    // A gateway leads packets to this host by it.
    let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("the `ip` command");
    assert!(up.success(), "{up}");
    let parsed = || Config::parse(&folder.path().join("fs0.toml"), &text).expect("a configuration");
    if does.contains(&"a pipe")
        && let Err(error) = Daemon::start(parsed(), None, None)
    {
        eprintln!("skipped: a gateway that is not confined does not start either: {error}");
        return;
    }
    let config = parsed();
    assert_eq!(Role::of(&config), role);
    let file = File::create(folder.path().join("file")).expect("a file");
    let limits = [Resource::Nofile, Resource::Memlock].map(getrlimit);
    let held = confinement::enter(&config).expect("confined");
    assert_eq!(held.seccomp.holds, Holds::On, "{held:?}");
    let mut daemon = Daemon::start(config, Some(held), None).expect("a daemon");
    for (thing, done) in things(&file, &limits) {
        match does.contains(&thing) {
            true => done.unwrap_or_else(|error| panic!("{thing}: {error}")),
            false => assert_eq!(done.expect_err(thing).kind(), ErrorKind::PermissionDenied, "{thing}"),
        }
    }
    daemon.run(io::stdin().as_fd()).expect("an end");
}

/// A log: a line for each event, with its fields.
struct Lines(Mutex<()>, AtomicU64);

impl Subscriber for Lines {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        *about.level() <= tracing::Level::INFO
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(self.1.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        struct Text(String);
        impl Visit for Text {
            fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
                self.0 += &format!("{field}={value:?} ");
            }
        }
        let mut text = Text(String::new());
        event.record(&mut text);
        let _one_at_once = self.0.lock().expect("a line is whole");
        eprintln!("{}", text.0);
    }

    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}
