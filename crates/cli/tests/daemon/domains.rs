//! Names whose addresses are reached through the bond, or past it: a site with a router, behind which there is the same internet as
//! behind the hub. Who answers there tells the way.

use crate::common::*;
use crate::reload::reload;
use rustix::process::Signal;
use serde_json::Value;
use simple_dns::rdata::{A, AAAA, CNAME, RData};
use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The resolver on the LAN, as a site asks it.
const RESOLVER: &str = "192.168.1.1:53";
const LISTED: &str = "[[domains]]\nnames = [\"example.com\"]\n";

/// What a resolver says of a name: another name, or addresses with times to live.
#[derive(Clone, Debug)]
enum Says {
    Name(&'static str),
    Addresses(Vec<(IpAddr, u32)>),
}

type Zone = Arc<Mutex<HashMap<String, Says>>>;

/// A site, a client behind it, a router and a hub; beyond router and hub whole networks answer on port 80 with who they are.
///
/// ```text
/// client -- eth2 site eth0 -- eth0 router eth1 -- hub
/// ```
struct House {
    lab: Lab,
    site_key: (String, String),
    hub_key: (String, String),
    zone: Zone,
    stop: Arc<AtomicBool>,
}

impl Drop for House {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl House {
    fn new() -> Option<House> {
        let lab = Lab::new(&["site", "router", "hub", "client"])?;
        lab.cable(("site", "eth0", "192.168.1.2/24"), ("router", "eth0", "192.168.1.1/24"));
        lab.cable(("router", "eth1", "198.51.100.1/24"), ("hub", "eth1", "198.51.100.2/24"));
        lab.cable(("client", "eth0", "10.5.0.2/24"), ("site", "eth2", "10.5.0.1/24"));
        for (host, device, address) in [
            ("site", "eth0", "2001:db8:1::2/64"),
            ("router", "eth0", "2001:db8:1::1/64"),
            ("router", "eth1", "2001:db8:2::1/64"),
            ("hub", "eth1", "2001:db8:2::2/64"),
        ] {
            lab.ip(host, &["address", "add", address, "dev", device, "nodad"]);
        }
        for (host, gateway) in
            [("site", "192.168.1.1"), ("site", "2001:db8:1::1"), ("hub", "198.51.100.1"), ("client", "10.5.0.1")]
        {
            lab.ip(host, &["route", "add", "default", "via", gateway]);
        }
        lab.ip("router", &["route", "add", "10.5.0.0/24", "via", "192.168.1.2"]);
        for host in ["router", "hub"] {
            for net in ["203.0.113.0/24", "2001:db8:f::/64"] {
                lab.ip(host, &["route", "add", "local", net, "dev", "lo"]);
            }
        }
        for host in ["site", "router"] {
            for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
                lab.run(host, move || std::fs::write(format!("/proc/sys/net/{setting}"), "1").expect("forwards"));
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let house = House { lab, site_key: keys(), hub_key: keys(), zone: Zone::default(), stop };
        for host in ["router", "hub"] {
            for all in ["0.0.0.0:80", "[::]:80"] {
                house.accept(host, all, move |mut stream| {
                    let _ = stream.write_all(host.as_bytes());
                });
            }
        }
        house.resolver("router", RESOLVER);
        Some(house)
    }

    /// Hands every connection to `local` to `with`, until the test ends.
    fn accept(&self, host: &str, local: &str, with: impl Fn(TcpStream) + Send + 'static) {
        let (local, stop): (SocketAddr, _) = (local.parse().expect("an address"), self.stop.clone());
        let listener = self.lab.run(host, move || {
            let domain = socket2::Domain::for_address(local);
            let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None).expect("a socket");
            if local.is_ipv6() {
                socket.set_only_v6(true).expect("apart");
            }
            socket.set_reuse_address(true).expect("again");
            socket.bind(&local.into()).expect("bound");
            socket.listen(64).expect("listens");
            TcpListener::from(socket)
        });
        listener.set_nonblocking(true).expect("non-blocking");
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((stream, _)) => {
                        stream.set_nonblocking(false).expect("blocking");
                        with(stream);
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                    Err(_) => {}
                }
            }
        });
    }

    /// Answers questions for names, over UDP and TCP.
    fn resolver(&self, host: &str, local: &str) {
        let (zone, stop, socket) = (self.zone.clone(), self.stop.clone(), self.lab.udp(host, local));
        std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            while !stop.load(Ordering::Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer)
                    && let Some(answer) = answer(&zone, &buffer[..length])
                {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        let zone = self.zone.clone();
        self.accept(host, local, move |mut stream| {
            let mut length = [0; 2];
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            if stream.read_exact(&mut question).is_ok()
                && let Some(answer) = answer(&zone, &question)
            {
                // In pieces, each a segment of its own.
                stream.set_nodelay(true).expect("at once");
                let framed = [&(answer.len() as u16).to_be_bytes()[..], &answer].concat();
                for piece in framed.chunks(7) {
                    let _ = stream.write_all(piece);
                }
            }
        });
    }

    fn say(&self, name: &str, addresses: &[&str]) {
        self.say_for(name, addresses, 60);
    }

    fn say_for(&self, name: &str, addresses: &[&str], ttl: u32) {
        let addresses = addresses.iter().map(|text| (ip_of(text), ttl)).collect();
        self.zone.lock().expect("a zone").insert(name.to_owned(), Says::Addresses(addresses));
    }

    fn site_with(&self, interface_more: &str, allowed: &str, sections: &str) -> String {
        interface("fs0", "[\"10.77.0.2/24\", \"fd77::2/64\"]", &self.site_key.0, interface_more)
            + &peer("hub", &self.hub_key.1, allowed, "")
            + &udp("link", "eth0", "198.51.100.2:51900")
            + sections
    }

    /// Nothing goes through the bond but what the sections say.
    fn split(&self, sections: &str) -> String {
        self.site_with("", "[\"10.77.0.1/32\", \"fd77::1/128\"]", sections)
    }

    /// Everything goes through the bond but what the sections say.
    fn default(&self, sections: &str) -> String {
        self.site_with("", "[\"0.0.0.0/0\", \"::/0\"]", sections)
    }

    fn hub(&self) -> Daemon {
        let text = interface("fs0", "[\"10.77.0.1/24\", \"fd77::1/64\"]", &self.hub_key.0, "listen_port = 51900")
            + &peer("site", &self.site_key.1, "[\"10.77.0.2/32\", \"fd77::2/128\", \"10.5.0.0/24\"]", "");
        self.lab.daemon("hub", "hub", &text)
    }

    fn site(&self, config: &str) -> Daemon {
        let site = self.lab.daemon("site", "site", config);
        site.wait_up(1);
        site
    }

    /// The addresses that a resolver gives a host for a name.
    fn ask(&self, host: &str, resolver: &str, name: &str) -> Vec<IpAddr> {
        let (resolver, name): (SocketAddr, _) = (resolver.parse().expect("an address"), name.to_owned());
        self.lab.run(host, move || ask(&connected(resolver), &name))
    }

    /// Who answers at an address: `router` or `hub`.
    fn who(&self, host: &str, address: &str) -> String {
        let address = ip_of(address);
        self.lab.run(host, move || who(address))
    }

    /// Asks for a name, and who answers at each of its addresses.
    fn reached(&self, name: &str) -> Vec<String> {
        let name = name.to_owned();
        self.lab.run("site", move || {
            let addresses = ask(&connected(RESOLVER.parse().expect("an address")), &name);
            addresses.into_iter().map(who).collect()
        })
    }

    /// Asks for a name until everybody at its addresses is `expected`. What is known for a second may be forgotten before a busy machine
    /// has connected, and a connection whose way changes is at its end: then the next question counts.
    fn until_reached(&self, name: &str, expected: &[&str]) {
        let (name, wanted) = (name.to_owned(), expected.join(" "));
        self.lab.run("site", move || {
            let end = Instant::now() + PATIENCE;
            loop {
                let addresses = ask(&connected(RESOLVER.parse().expect("an address")), &name);
                let within = Duration::from_secs(5);
                let found: Vec<String> =
                    addresses.into_iter().map(|address| who_within(address, within).unwrap_or_default()).collect();
                if found.join(" ") == wanted {
                    return;
                }
                assert!(Instant::now() < end, "{name}: {found:?}");
            }
        });
    }

    /// The routes of the daemon's own table.
    fn routes(&self) -> String {
        let show = |family: &str| {
            let args = [family, "route", "show", "table", "51900"];
            let shown = std::process::Command::new("ip").args(["-n", &self.lab.name("site")]).args(args).output();
            String::from_utf8_lossy(&shown.expect("`ip`").stdout).into_owned()
        };
        show("-4") + &show("-6")
    }
}

/// The answer to a question, by a zone; a name of which it says nothing is unknown.
fn answer(zone: &Zone, question: &[u8]) -> Option<Vec<u8>> {
    let asked = Packet::parse(question).ok()?;
    let mut packet = Packet::new_reply(asked.id());
    packet.questions.clone_from(&asked.questions);
    let zone = zone.lock().expect("a zone");
    let mut name = asked.questions.first()?.qname.to_string();
    let mut said = zone.get(&name.to_lowercase());
    while let Some(Says::Name(to)) = said {
        let data = RData::CNAME(CNAME(Name::new_unchecked(to)));
        packet.answers.push(ResourceRecord::new(Name::new(&name).ok()?.into_owned(), CLASS::IN, 60, data));
        name = (*to).to_owned();
        said = zone.get(&name);
    }
    match said {
        Some(Says::Addresses(addresses)) => packet.answers.extend(addresses.iter().map(|(ip, ttl)| {
            let data = match ip {
                IpAddr::V4(four) => RData::A(A::from(*four)),
                IpAddr::V6(six) => RData::AAAA(AAAA::from(*six)),
            };
            ResourceRecord::new(Name::new(&name).expect("a name").into_owned(), CLASS::IN, *ttl, data)
        })),
        _ => *packet.rcode_mut() = RCODE::NameError,
    }
    packet.build_bytes_vec_compressed().ok()
}

fn question(number: u16, name: &str) -> Vec<u8> {
    let mut packet = Packet::new_query(number);
    let name = Name::new(name).expect("a name");
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec_compressed().expect("bytes")
}

fn connected(resolver: SocketAddr) -> UdpSocket {
    let any = if resolver.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).expect("a socket");
    socket.connect(resolver).expect("connected");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    socket
}

/// Asks until there is an answer.
fn ask(socket: &UdpSocket, name: &str) -> Vec<IpAddr> {
    static NUMBER: AtomicU16 = AtomicU16::new(1);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let end = Instant::now() + PATIENCE;
    let mut buffer = [0; 4096];
    while Instant::now() < end {
        let _ = socket.send(&question(number, name));
        while let Ok(length) = socket.recv(&mut buffer) {
            let Ok(packet) = Packet::parse(&buffer[..length]) else { continue };
            if packet.id() == number {
                return addresses(&packet);
            }
        }
    }
    panic!("no answer for {name}");
}

/// Of each answer so many addresses were refused. On a busy machine a question is asked again, and then there are two answers.
#[track_caller]
fn assert_refused(site: &Daemon, each: u64) {
    let counters = &site.status()["counters"];
    let [answers, refused] =
        ["domains_answers", "domains_refused"].map(|name| counters[name].as_u64().expect("a counter"));
    assert!(answers > 0 && refused == each * answers, "{refused} of {answers} answers");
}

fn addresses(packet: &Packet<'_>) -> Vec<IpAddr> {
    let address = |record: &ResourceRecord<'_>| match &record.rdata {
        RData::A(a) => Some(IpAddr::V4(a.address.into())),
        RData::AAAA(aaaa) => Some(IpAddr::V6(aaaa.address.into())),
        _ => None,
    };
    packet.answers.iter().filter_map(address).collect()
}

fn who(address: IpAddr) -> String {
    who_within(address, PATIENCE).unwrap_or_else(|error| panic!("{address}: {error}"))
}

fn who_within(address: IpAddr, patience: Duration) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&SocketAddr::new(address, 80), patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// The addresses of a name of the file, as the status has them.
fn known(status: &Value, name: &str) -> Vec<String> {
    let domains = status["domains"].as_array().cloned().unwrap_or_default();
    let domain = domains.iter().find(|domain| domain["name"] == name).unwrap_or_else(|| panic!("no {name}: {status}"));
    let addresses = domain["addresses"].as_array().expect("addresses");
    addresses.iter().map(|known| known["address"].as_str().expect("an address").to_owned()).collect()
}

#[test]
fn names_go_through_the_bond_from_their_first_packet_on_and_others_do_not() {
    let Some(house) = House::new() else { return };
    let (hub, site) = (house.hub(), house.site(&house.split(LISTED)));
    house.say("example.com", &["203.0.113.10"]);
    house.say("www.example.com", &["203.0.113.11", "2001:db8:f::11"]);
    house.say("other.example", &["203.0.113.12", "2001:db8:f::12"]);
    house.zone.lock().expect("a zone").insert("led.example.com".into(), Says::Name("a.cdn.example"));
    house.zone.lock().expect("a zone").insert("a.cdn.example".into(), Says::Name("b.cdn.example"));
    house.say_for("b.cdn.example", &["203.0.113.13"], 1_000_000_000);
    assert_eq!(house.who("site", "203.0.113.10"), "router");
    assert_eq!(house.reached("example.com"), ["hub"]);
    assert_eq!(house.reached("wWw.eXample.COM"), ["hub", "hub"]);
    assert_eq!(house.reached("led.example.com"), ["hub"]);
    assert_eq!(house.reached("other.example"), ["router", "router"]);
    // The route is there whenever the answer is.
    for n in 20..120 {
        let name = format!("n{n}.example.com");
        house.say(&name, &[&format!("203.0.113.{n}")]);
        assert_eq!(house.reached(&name), ["hub"], "{name}");
    }
    // What the daemon tells.
    let status = site.status();
    assert_eq!(known(&status, "example.com").len(), 104, "{status}");
    let domain = &status["domains"][0];
    assert_eq!((domain["way"].as_str(), domain["peer"].as_str()), (Some("through"), Some("hub")));
    let led = domain["addresses"].as_array().expect("some").iter().find(|known| known["address"] == "203.0.113.13");
    let led = led.expect("known");
    assert_eq!(led["asked"], "led.example.com");
    let expires = led["expires_s"].as_f64().expect("a number");
    assert!((80_000.0..=86_400.0).contains(&expires), "{expires}");
    let socket = site.socket.display().to_string();
    let explained = house.lab.fairspan("site", &["explain", "--socket", &socket]);
    let text = String::from_utf8_lossy(&explained.stdout).into_owned();
    assert!(text.contains("name example.com, and those below it: through the bond, by peer hub"), "{text}");
    assert!(text.contains("203.0.113.13 because it was given for led.example.com"), "{text}");
    let explained = house.lab.fairspan("site", &["explain", "--json", "--socket", &socket]);
    let document: Value = serde_json::from_slice(&explained.stdout).expect("JSON");
    assert_eq!(known(&document, "example.com").len(), 104);
    let shown = house.lab.fairspan("site", &["status", "--socket", &socket]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("and 98 more"), "{shown:?}");
    for counter in ["domains_refused", "domains_unread", "domains_failed", "domains_missed"] {
        assert_eq!(site.counter(counter), 0, "{counter}");
    }
    site.stop();
    hub.stop();
}

#[test]
fn names_go_past_the_bond_that_everything_else_goes_through() {
    let Some(house) = House::new() else { return };
    let past =
        "[[domains]]\nnames = [\"bank.example\"]\nway = \"past\"\n[[domains]]\nnames = [\"foreign.bank.example\"]\n";
    let (hub, site) = (house.hub(), house.site(&house.default(past)));
    house.say("www.bank.example", &["203.0.113.20", "2001:db8:f::20"]);
    house.say("foreign.bank.example", &["203.0.113.21", "2001:db8:f::21"]);
    house.say("other.example", &["203.0.113.22", "2001:db8:f::22"]);
    assert_eq!(house.who("site", "203.0.113.20"), "hub");
    assert_eq!(house.reached("www.bank.example"), ["router", "router"]);
    assert_eq!(house.reached("foreign.bank.example"), ["hub", "hub"]);
    assert_eq!(house.reached("other.example"), ["hub", "hub"]);
    // One address of two names that want different ways: the first decides.
    house.say("www.foreign.bank.example", &["203.0.113.20"]);
    assert_eq!(house.reached("www.foreign.bank.example"), ["router"]);
    assert_eq!(site.counter("domains_contested"), 1);
    assert_eq!(known(&site.status(), "bank.example"), ["2001:db8:f::20", "203.0.113.20"]);
    site.stop();
    hub.stop();
}

#[test]
fn answers_over_tcp_to_a_client_behind_and_from_a_resolver_on_this_host_count_too() {
    let Some(house) = House::new() else { return };
    let (hub, site) = (house.hub(), house.site(&house.split(LISTED)));
    house.say("tcp.example.com", &["203.0.113.30"]);
    house.say("client.example.com", &["203.0.113.31"]);
    house.say("local.example.com", &["203.0.113.32"]);
    let way = house.lab.run("site", || {
        let mut stream = TcpStream::connect(RESOLVER).expect("the resolver");
        let asked = question(9, "tcp.example.com");
        stream.write_all(&[&(asked.len() as u16).to_be_bytes()[..], &asked].concat()).expect("asked");
        let mut length = [0; 2];
        stream.read_exact(&mut length).expect("a length");
        let mut bytes = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut bytes).expect("an answer");
        who(addresses(&Packet::parse(&bytes).expect("a message"))[0])
    });
    assert_eq!(way, "hub");
    assert_eq!(house.ask("client", RESOLVER, "client.example.com"), [ip_of("203.0.113.31")]);
    assert_eq!(house.who("client", "203.0.113.31"), "hub");
    house.resolver("site", "127.0.0.53:53");
    assert_eq!(house.ask("site", "127.0.0.53:53", "local.example.com"), [ip_of("203.0.113.32")]);
    assert_eq!(house.who("site", "203.0.113.32"), "hub");
    assert_eq!(house.who("site", "203.0.113.33"), "router");
    site.stop();
    hub.stop();
}

#[test]
fn a_name_s_new_address_is_followed_and_an_old_one_forgotten_when_its_time_is_over() {
    let Some(house) = House::new() else { return };
    let (hub, site) = (house.hub(), house.site(&house.split(&format!("{LISTED}keep = \"1s\"\n"))));
    house.say_for("example.com", &["203.0.113.40"], 0);
    house.until_reached("example.com", &["hub"]);
    house.say_for("example.com", &["203.0.113.41", "2001:db8:f::41"], 2);
    house.until_reached("example.com", &["hub", "hub"]);
    site.wait("nothing is known", |site| known(&site.status(), "example.com").is_empty());
    assert_eq!(house.routes(), "");
    for address in ["203.0.113.40", "203.0.113.41", "2001:db8:f::41"] {
        assert_eq!(house.who("site", address), "router", "{address}");
    }
    house.until_reached("example.com", &["hub", "hub"]);
    site.stop();
    hub.stop();
}

#[test]
fn an_address_of_a_version_that_the_interface_has_not_is_left_alone() {
    let Some(house) = House::new() else { return };
    let config = house.split(LISTED).replace("\"10.77.0.2/24\", \"fd77::2/64\"", "\"10.77.0.2/24\"");
    let (hub, site) = (house.hub(), house.site(&config.replace(", \"fd77::1/128\"", "")));
    house.say("example.com", &["203.0.113.35", "2001:db8:f::35"]);
    assert_eq!(house.reached("example.com"), ["hub", "router"]);
    assert_refused(&site, 1);
    site.stop();
    hub.stop();
}

#[test]
fn hostile_answers_lead_nothing_into_the_bond() {
    let Some(house) = House::new() else { return };
    let tcp = "\"198.51.100.2:51900\"\ntcp_endpoint = \"203.0.113.54:443\"";
    let config = house.split(LISTED).replace("\"198.51.100.2:51900\"", tcp);
    let (hub, site) = (house.hub(), house.site(&config));
    // Loopback, multicast, one link's, nobody's; the hub outside, in use or not, and inside, the router, another host of the LAN, and this one.
    let never = [
        "127.0.0.1",
        "224.0.0.251",
        "169.254.1.1",
        "0.0.0.0",
        "255.255.255.255",
        "::1",
        "ff02::fb",
        "fe80::1",
        "::ffff:203.0.113.50",
        "198.51.100.2",
        "203.0.113.54",
        "10.77.0.1",
        "fd77::1",
        "192.168.1.1",
        "192.168.1.99",
        "192.168.1.2",
        "10.5.0.2",
        "2001:db8:1::1",
        "2001:db8:1::99",
    ];
    house.say("bad.example.com", &never);
    assert_eq!(house.ask("site", RESOLVER, "bad.example.com").len(), never.len());
    assert_refused(&site, never.len() as u64);
    assert_eq!(house.routes(), "");
    // The name of another, with an address for one of ours beside it.
    house.say("other.example", &["203.0.113.51"]);
    assert_eq!(house.reached("other.example"), ["router"]);
    // Nobody asked: the ends, the number, or the name are others.
    let forged = |number: u16, name: &str| {
        house.say(name, &["203.0.113.52"]);
        answer(&house.zone, &question(number, name)).expect("an answer")
    };
    let (asker, from) = (house.lab.udp("site", "192.168.1.2:5555"), house.lab.udp("router", "198.51.100.1:53"));
    let sent = |socket: &UdpSocket, bytes: &[u8]| {
        let before = site.counter("domains_unasked");
        socket.send_to(bytes, "192.168.1.2:5555").expect("sent");
        site.wait("it is counted", |site| site.counter("domains_unasked") > before);
    };
    sent(&from, &forged(1, "forged.example.com"));
    // A resolver that never answers; and answers from elsewhere, or to something else.
    let silent = house.lab.udp("router", "203.0.113.53:53");
    asker.send_to(&question(77, "late.example.com"), "203.0.113.53:53").expect("asked");
    let mut buffer = [0; 512];
    assert!(silent.recv(&mut buffer).is_ok());
    sent(&from, &forged(77, "late.example.com"));
    sent(&silent, &forged(78, "late.example.com"));
    sent(&silent, &forged(77, "other.example.com"));
    // Cut, or nonsense.
    let whole = forged(77, "late.example.com");
    for cut in 12..whole.len() {
        let before = site.counter("domains_unread");
        silent.send_to(&whole[..cut], "192.168.1.2:5555").expect("sent");
        site.wait("it is counted", |site| site.counter("domains_unread") > before);
    }
    assert_eq!(house.routes(), "");
    // And yet the true one counts.
    silent.send_to(&whole, "192.168.1.2:5555").expect("sent");
    site.wait("the answer", |site| known(&site.status(), "example.com") == ["203.0.113.52"]);
    assert_eq!(house.who("site", "203.0.113.52"), "hub");
    // Traffic of the bond itself goes on.
    house.lab.echo("hub", "10.77.0.1:7");
    assert!(house.lab.until_answered("site", "10.77.0.2:0", "10.77.0.1:7").is_some());
    site.stop();
    hub.stop();
}

#[test]
fn thousands_of_names_leave_as_many_routes_as_are_kept_and_all_go_at_the_end() {
    const ASKED: u32 = 2500;
    let Some(house) = House::new() else { return };
    let before = house.lab.traces("site");
    let (hub, site) = (house.hub(), house.site(&house.split(LISTED)));
    for n in 0..ASKED {
        let address = format!("2001:db8:f::{:x}:{:x}", 1 + n / 256, n % 256);
        house.say(&format!("n{n}.example.com"), &[&address]);
    }
    house.lab.run("site", || {
        let socket = connected(RESOLVER.parse().expect("an address"));
        for n in 0..ASKED {
            assert_eq!(ask(&socket, &format!("n{n}.example.com")).len(), 1);
        }
    });
    let known = known(&site.status(), "example.com");
    assert_eq!((known.len(), house.routes().lines().count()), (2048, 2048));
    assert_eq!(site.counter("domains_evicted"), u64::from(ASKED) - 2048);
    let last = format!("2001:db8:f::{:x}:{:x}", 1 + (ASKED - 1) / 256, (ASKED - 1) % 256);
    assert!(known.contains(&last) && !known.contains(&"2001:db8:f::1:0".to_owned()));
    site.stop();
    hub.stop();
    assert_eq!(house.lab.traces("site"), before);
}

#[test]
fn without_the_daemon_all_is_as_before_also_when_it_was_killed_or_stands_still() {
    let Some(house) = House::new() else { return };
    let before = house.lab.traces("site");
    let sections = "[[domains]]\nnames = [\"bank.example\"]\nway = \"past\"\n[[domains]]\nnames = [\"example.com\"]\n";
    let hub = house.hub();
    house.say("example.com", &["203.0.113.60"]);
    house.say("bank.example", &["203.0.113.61"]);
    let tables = || house.lab.run("site", || fairspan_live::netlink::nftables::tables(None).expect("tables"));
    for _ in 0..2 {
        let site = house.site(&house.default(sections));
        assert_eq!(
            (house.reached("example.com"), house.reached("bank.example")),
            (vec!["hub".into()], vec!["router".into()])
        );
        assert_eq!(tables(), ["fairspan-dns-fs0"]);
        site.kill();
        // Nobody holds answers up, and addresses are as all others.
        assert_eq!(tables(), Vec::<String>::new());
        assert_eq!(
            (house.reached("example.com"), house.reached("bank.example")),
            (vec!["router".into()], vec!["router".into()])
        );
    }
    // What the killed one left is taken over, and goes with this one.
    let site = house.site(&house.default(sections));
    assert_eq!(house.routes().matches("throw").count(), 0);
    assert_eq!(house.who("site", "203.0.113.61"), "hub");
    site.signal(Signal::STOP);
    site.signal(Signal::CONT);
    assert_eq!(house.reached("bank.example"), ["router"]);
    site.stop();
    assert_eq!(house.lab.traces("site"), before);
    hub.stop();
}

#[test]
fn names_change_while_the_daemon_runs() {
    let Some(house) = House::new() else { return };
    let hub = house.hub();
    let site = house.site(&house.default(""));
    let before = house.lab.traces("site");
    house.say("a.example", &["203.0.113.70"]);
    house.say("b.example", &["203.0.113.71"]);
    assert_eq!(house.reached("a.example"), ["hub"]);
    let past = |names: &str| format!("[[domains]]\nnames = [{names}]\nway = \"past\"\n");
    let change = |sections: &str| reload(&house.lab, "site", &site, &house.default(sections));
    // The first names of all, which needs what a confined daemon can still have.
    assert_eq!(change(&past("\"a.example\"")), ["domains"]);
    assert_eq!((house.reached("a.example"), house.reached("b.example")), (vec!["router".into()], vec!["hub".into()]));
    assert_eq!(change(&past("\"a.example\", \"b.example\"")), ["domains"]);
    assert_eq!(house.who("site", "203.0.113.70"), "router");
    assert_eq!(house.reached("b.example"), ["router"]);
    // The other way, without being asked for again.
    let both = past("\"b.example\"") + "[[domains]]\nnames = [\"a.example\"]\n";
    assert_eq!(change(&both), ["domains"]);
    assert_eq!((house.who("site", "203.0.113.70"), house.who("site", "203.0.113.71")), ("hub".into(), "router".into()));
    assert!(house.routes().contains("203.0.113.70 dev fs0"), "{}", house.routes());
    // The default route goes and comes: names stay.
    let split = house.split("[[domains]]\nnames = [\"a.example\"]\n");
    reload(&house.lab, "site", &site, &split);
    assert_eq!((house.who("site", "203.0.113.70"), house.who("site", "203.0.113.71")), ("hub".into(), "router".into()));
    reload(&house.lab, "site", &site, &house.default(&both));
    assert_eq!((house.who("site", "203.0.113.70"), house.who("site", "203.0.113.71")), ("hub".into(), "hub".into()));
    assert_eq!(house.reached("b.example"), ["router"]);
    // With the default route's rules went none of ours, and with the interface's address no route.
    for address in ["10.77.0.3/24", "10.77.0.2/24"] {
        reload(&house.lab, "site", &site, &split.replace("10.77.0.2/24", address));
        assert!(house.routes().contains("203.0.113.70 dev fs0"), "{}", house.routes());
    }
    assert_eq!(house.who("site", "203.0.113.70"), "hub");
    reload(&house.lab, "site", &site, &house.default(&both));
    assert_eq!(change(""), ["domains"]);
    assert_eq!((house.who("site", "203.0.113.70"), house.who("site", "203.0.113.71")), ("hub".into(), "hub".into()));
    assert_eq!(house.lab.traces("site"), before);
    site.stop();
    hub.stop();
}

#[test]
fn a_lock_s_resolver_beyond_the_bond_counts_and_names_past_a_lock_are_refused() {
    let Some(house) = House::new() else { return };
    let hub = house.hub();
    house.resolver("hub", "10.77.0.1:53");
    house.say("example.com", &["203.0.113.80"]);
    let locked = "lock = true\ndns = [\"10.77.0.1\"]\n";
    let site = house.site(&house.site_with(locked, "[\"10.77.0.1/32\", \"fd77::1/128\"]", LISTED));
    // Whoever is asked, the hub's answers, and the addresses are reached by the one way that there is.
    assert_eq!(house.ask("site", "203.0.113.53:53", "example.com"), [ip_of("203.0.113.80")]);
    assert_eq!(house.who("site", "203.0.113.80"), "hub");
    site.stop();
    let text = house.site_with(locked, "[\"0.0.0.0/0\"]", &format!("{LISTED}way = \"past\"\n"));
    let file = house.lab.config("wrong", &text).display().to_string();
    let refused = house.lab.fairspan("site", &["check", &file]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("domains.way"), "{refused:?}");
    hub.stop();
}

#[test]
fn who_has_the_number_of_another_daemon_s_queue_is_told_and_touches_nothing() {
    let Some(house) = House::new() else { return };
    let (hub, site) = (house.hub(), house.site(&house.split(LISTED)));
    house.say("example.com", &["203.0.113.90"]);
    assert_eq!(house.reached("example.com"), ["hub"]);
    let text = house.split(LISTED).replace("\"fs0\"", "\"fs1\"").replace("10.77.0.2/24", "10.78.0.2/24");
    let text = text
        .replace("fd77::2/64", "fd78::2/64")
        .replace("10.77.0.1/32", "10.78.0.1/32")
        .replace("fd77::1/128", "fd78::1/128");
    let mut other = house.lab.start("site", "other", &text);
    assert!(!other.ended().success());
    assert!(other.log().contains("another process has it"), "{}", other.log());
    let file = house.lab.config("other", &text).display().to_string();
    let said = house.lab.fairspan("site", &["check", &file]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("no other daemon has"), "{said:?}");
    assert_eq!(house.who("site", "203.0.113.90"), "hub");
    assert_eq!(house.reached("example.com"), ["hub"]);
    site.stop();
    hub.stop();
}
