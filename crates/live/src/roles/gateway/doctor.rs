//! Why traffic is not seen or not split: what a gateway needs of its host, and whether it is there.
//!
//! Nothing is changed. Without a running gateway its packet rules are shown to the kernel, to see whether it has all that they need,
//! without the word that puts them in force; and its queue is taken and given back at once.

use super::bypass::Why;
use super::intake::keeps_units;
use super::offloads;
pub(crate) use super::offloads::{active as features, changeable as changeable_features};
use super::rules::{self, Marks};
use crate::config::{Config, Gateway, Table};
pub use crate::finding::{Finding, Verdict};
use crate::finding::{Findings, setting};
use crate::netlink::nftables::tables;
use crate::netlink::queue::PacketQueue;
use crate::netlink::{Interface, Netlink, Route, TABLE_MAIN};
use crate::status::GatewayStatus;
use rustix::process::{Resource, getrlimit};
use std::fs;

/// What every link of IPv6 has to take (RFC 8200, 5).
const LEAST_MTU: u32 = 1280;

/// What is known of a gateway's daemon.
#[derive(Clone, Copy, Debug)]
pub enum Daemon<'a> {
    /// None runs.
    Absent,
    /// It runs, and has no such gateway yet: the file has changed since it was read.
    Without,
    /// What it tells of the gateway.
    Tells(&'a GatewayStatus),
}

impl<'a> Daemon<'a> {
    fn status(self) -> Option<&'a GatewayStatus> {
        match self {
            Daemon::Tells(status) => Some(status),
            Daemon::Absent | Daemon::Without => None,
        }
    }
}

/// What all gateways of one daemon take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Together {
    gateways: usize,
    connections: u64,
    memory: u64,
}

impl Together {
    /// What those of this configuration take.
    pub fn of(config: &Config) -> Together {
        let all = config.gateways();
        let gateways = || all.iter().filter_map(|(_, config)| config.gateway.as_ref());
        Together {
            gateways: all.len(),
            connections: gateways().map(|gateway| super::Budget::new(gateway).connections()).sum(),
            memory: gateways().map(|gateway| gateway.memory.as_u64()).sum(),
        }
    }
}

/// Looks at the host of a gateway with this configuration, in the network namespace of this thread; `together` is what it and others of its
/// daemon take. Nothing is found where the configuration has no gateway.
pub fn examine(config: &Config, daemon: Daemon<'_>, together: Together) -> Vec<Finding> {
    let mut findings = Findings::default();
    let Some(gateway) = &config.gateway else { return Vec::new() };
    let running = daemon.status();
    match Netlink::open() {
        Ok(mut netlink) => {
            devices(&mut findings, &mut netlink, gateway, running.is_some());
            let all = netlink.routes(TABLE_MAIN).unwrap_or_default();
            // Those to a peer are the daemon's own.
            if gateway.of_peer.is_none() || config.interface.table == Table::Off {
                routes(&mut findings, &all, gateway);
            }
            offloading(&mut findings, gateway);
            forwarding(&mut findings, gateway, all.iter().any(|route| route.destination.addr().is_ipv4()));
        }
        Err(error) => {
            findings.doubtful("devices", error.to_string(), "give this process access to rtnetlink");
            offloading(&mut findings, gateway);
            forwarding(&mut findings, gateway, true);
        }
    }
    reverse_path(&mut findings, gateway);
    rules(&mut findings, config, daemon);
    kernel(&mut findings, gateway);
    limits(&mut findings, gateway, together);
    traffic(&mut findings, gateway, daemon);
    findings.all()
}

fn devices(findings: &mut Findings, netlink: &mut Netlink, gateway: &Gateway, is_running: bool) {
    let mut look = |findings: &mut Findings, device: &str, setting: &'static str| -> Option<Interface> {
        match netlink.interface(device) {
            Err(_) if gateway.of_peer.is_some() && setting == "long" && !is_running => {
                findings.doubtful("devices", format!("there is no device {device} yet"), "its daemon makes it");
                None
            }
            Err(_) => {
                let remedy = format!("name the right one in {}.{setting}, or create it", gateway.section());
                findings.wrong("devices", format!("there is no device {device}"), remedy);
                findings.of_setting(setting);
                None
            }
            Ok(interface) => {
                if !interface.up || !interface.running {
                    let remedy = format!("`ip link set {device} up`, and look at its cable or modem");
                    findings.wrong("devices", format!("{device} is down or has no carrier"), remedy);
                    findings.of_setting(setting);
                }
                Some(interface)
            }
        }
    };
    let long = look(findings, &gateway.long, "long");
    let inside: Vec<Interface> = gateway.inside.iter().filter_map(|device| look(findings, device, "inside")).collect();
    if let Some(long) = &long
        && inside.len() == gateway.inside.len()
        && long.up
    {
        findings.good("devices", format!("{} is there, with an MTU of {}", long.name, long.mtu));
    }
    for device in inside.iter().filter(|device| long.as_ref().is_some_and(|long| long.mtu < device.mtu)) {
        let found = format!("packets of {} may be longer ({}) than {} takes", device.name, device.mtu, gateway.long);
        let remedy = "split connections do not mind; others need the ICMP messages that this host then sends: do not filter them";
        findings.doubtful("mtu", found, remedy);
    }
    for device in inside.iter().chain(&long).filter(|device| device.mtu < LEAST_MTU) {
        let found = format!(
            "{} takes packets of {} bytes: too short for IPv6, which the kernel switches off there",
            device.name, device.mtu
        );
        findings.doubtful("mtu", found, format!("`ip link set {} mtu {LEAST_MTU}`, or more", device.name));
    }
}

/// What the devices do to packets before they are seen here.
fn offloading(findings: &mut Findings, gateway: &Gateway) {
    let devices: Vec<&String> = std::iter::once(&gateway.long).chain(&gateway.inside).collect();
    let mut harmless = Vec::new();
    for device in devices {
        // One that is not there is told of already.
        let Ok(active) = offloads::active(device) else { continue };
        let problems = offloads::problems(device, &active, keeps_units(gateway));
        if problems.is_empty() {
            harmless.push(device.as_str());
        }
        for (is_wrong, found, remedy) in problems {
            if is_wrong {
                findings.wrong("offload", found, remedy);
            } else {
                findings.doubtful("offload", found, remedy);
            }
        }
    }
    if !harmless.is_empty() {
        findings.good("offload", format!("{} joins segments in no way that matters", harmless.join(", ")));
    }
}

fn routes(findings: &mut Findings, all: &[Route], gateway: &Gateway) {
    let by_long: Vec<&Route> = all.iter().filter(|route| route.device == gateway.long).collect();
    let beyond = by_long.iter().filter(|route| route.gateway.is_some() || route.destination.prefix_len() == 0).count();
    if by_long.is_empty() {
        let found = format!("no route of the main table leaves by {}", gateway.long);
        let remedy = format!(
            "`ip route add default via ADDRESS dev {}`; without a route no packet is meant for it",
            gateway.long
        );
        findings.wrong("routes", found, remedy);
    } else if beyond == 0 {
        let found = format!("routes by {} lead to its own network alone", gateway.long);
        findings.doubtful("routes", found, "add the routes of what lies behind the long link");
    } else {
        findings.good("routes", format!("{} routes leave by {}", by_long.len(), gateway.long));
    }
}

/// `has_v4`: this host has a route of IPv4, so that its clients may have it too.
fn forwarding(findings: &mut Findings, gateway: &Gateway, has_v4: bool) {
    for (version, path) in [("IPv4", "net/ipv4/ip_forward"), ("IPv6", "net/ipv6/conf/all/forwarding")] {
        match setting(path) {
            Some(1..) => findings.good("forwarding", format!("this host forwards {version}")),
            Some(_) => {
                let (found, remedy) = (
                    format!("this host does not forward {version}"),
                    format!("`sysctl -w {}=1`, if its clients have {version}", path.replace('/', ".")),
                );
                // A proxy's clients call this host itself.
                if version == "IPv4" && has_v4 && gateway.transparent {
                    findings.wrong("forwarding", found, remedy);
                } else {
                    findings.doubtful("forwarding", found, remedy);
                }
            }
            None => {
                findings.doubtful("forwarding", format!("this kernel has no {version}"), "none is needed for the other")
            }
        }
    }
}

fn reverse_path(findings: &mut Findings, gateway: &Gateway) {
    let of = |device: &str| setting(&format!("net/ipv4/conf/{device}/rp_filter")).unwrap_or(0);
    let all = of("all");
    let strict: Vec<&str> = std::iter::once(&gateway.long)
        .chain(&gateway.inside)
        .map(String::as_str)
        .filter(|device| all.max(of(device)) == 1)
        .collect();
    if strict.is_empty() {
        findings.good("rp_filter", "no device has a strict reverse-path filter");
    } else {
        let found = format!("{} drops packets whose way back leads elsewhere (rp_filter 1)", strict.join(", "));
        let remedy = "where answers may come by another device than their routes say: `sysctl -w net.ipv4.conf.DEVICE.rp_filter=2`";
        findings.doubtful("rp_filter", found, remedy);
    }
}

/// The packet rules: whether they are set, or could be.
fn rules(findings: &mut Findings, config: &Config, daemon: Daemon<'_>) {
    match daemon {
        Daemon::Tells(GatewayStatus { problem: Some(problem), .. }) => {
            let remedy = "the daemon tries again by itself, at least every 30 s; what it would split passes until then";
            findings.wrong("rules", format!("its daemon could not do what its file says: {problem}"), remedy);
        }
        Daemon::Tells(running) => {
            let name = running.rules.clone().unwrap_or_else(|| rules::table_of(config));
            match tables(Some(&name)) {
                Ok(found) if found.is_empty() => {
                    let remedy = "another program emptied all tables: the daemon sets them again within a second, or says why not in its log";
                    findings.wrong("rules", format!("the packet rules {name} are not there"), remedy);
                }
                Ok(_) => findings.good("rules", format!("the packet rules {name} are set")),
                Err(error) => findings.doubtful("rules", error.to_string(), "run this as root"),
            }
        }
        // Which numbers it will get is the daemon's to say.
        Daemon::Without => {}
        Daemon::Absent => attempt(findings, config),
    }
}

/// Whether the kernel would take the rules, and has the queue.
fn attempt(findings: &mut Findings, config: &Config) {
    let marks = Marks::of(config);
    match rules::attempt(config, marks) {
        Ok(true) => findings.good("rules", "the kernel has all that the packet rules need"),
        Ok(false) => findings.doubtful(
            "rules",
            "the kernel has all that the packet rules need, but leaves them behind when the daemon is killed",
            "packets pass them then as if they were not there, and the next start replaces them; Linux 5.12 can do better",
        ),
        Err(error) if error.errno() == Some(libc::EBUSY) => {
            let remedy = "end the daemon that has them, or write another `name` in [interface]";
            findings.wrong("rules", error.to_string(), remedy);
        }
        Err(error) => {
            let remedy = "run this as root; else load nf_tables, nft_tproxy, nft_socket, nft_fib_inet, nft_ct, nft_queue (or nft_compat and \
                          xt_NFQUEUE), nft_reject_inet, nfnetlink_queue";
            findings.wrong("rules", error.to_string(), remedy);
        }
    }
    if let Err(error) = PacketQueue::open(marks.queue(), 1, super::HEADERS, false) {
        let remedy =
            "end the program that has it, or write another `fwmark` in [interface], from which its number follows";
        findings.wrong("rules", error.to_string(), remedy);
    }
}

fn kernel(findings: &mut Findings, gateway: &Gateway) {
    if let Some(law) = &gateway.congestion {
        let known = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
        if known.split_whitespace().any(|name| name == law) {
            findings.good("congestion", format!("the kernel has {law}"));
        } else {
            let remedy = format!("`modprobe tcp_{law}`, or one of: {}", known.trim());
            findings.wrong("congestion", format!("the kernel has no congestion control named {law}"), remedy);
        }
    }
    if setting("net/ipv4/tcp_window_scaling") == Some(0) {
        let remedy = "`sysctl -w net.ipv4.tcp_window_scaling=1`; without it no window is larger than 64 kB";
        findings.wrong("windows", "TCP windows are not scaled", remedy);
    }
}

fn limits(findings: &mut Findings, gateway: &Gateway, together: Together) {
    let Together { gateways, connections, memory } = together;
    let all = if gateways > 1 { format!(" of all {gateways} gateways") } else { String::new() };
    let descriptors = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
    // Two sockets each, and pipes of those that are stuck.
    if descriptors < 3 * connections {
        let found =
            format!("{descriptors} descriptors do for {} connections{all}, memory for {connections}", descriptors / 3);
        findings.doubtful(
            "descriptors",
            found,
            format!("`ulimit -Hn {}`, or LimitNOFILE= of its unit", 3 * connections),
        );
    } else {
        findings.good("descriptors", format!("{descriptors} do for {connections} connections{all}"));
    }
    let pages = fs::read_to_string("/proc/sys/net/ipv4/tcp_mem").unwrap_or_default();
    let most = pages.split_whitespace().nth(2).and_then(|pages| pages.parse::<u64>().ok()).map(|pages| pages * 4096);
    if let Some(most) = most.filter(|most| *most < memory) {
        let setting = format!("{}.memory", gateway.section());
        let found = format!("the kernel gives all of TCP {most} B, less than {setting}{all} ({memory} B)");
        findings.doubtful("memory", found, format!("`sysctl -w net.ipv4.tcp_mem=...`, in pages, or less {setting}"));
    }
}

fn traffic(findings: &mut Findings, gateway: &Gateway, daemon: Daemon<'_>) {
    let status = match daemon {
        // Why not is said of its rules.
        Daemon::Tells(status) if status.problem.is_some() => return,
        Daemon::Tells(status) => status,
        Daemon::Without => {
            let found = "its daemon runs without this gateway";
            return findings.doubtful("traffic", found, "`fairspan reload`, or start it again where that says so");
        }
        Daemon::Absent => {
            return findings.doubtful("traffic", "its daemon does not run", "`fairspan up FILE`, then ask again");
        }
    };
    let packets = status.counters.get("packets_passed").copied().unwrap_or(0);
    let bypassed: u64 = status.bypassed.values().sum();
    let waits = status.opened + status.half_open + status.refused + bypassed;
    if waits == 0 && packets == 0 {
        let remedy = format!(
            "is this host the clients' router, do their packets arrive by {}, and does `ip route get ADDRESS` name {}?",
            if gateway.inside.is_empty() {
                "a device other than the long one".to_owned()
            } else {
                gateway.inside.join(", ")
            },
            gateway.long
        );
        findings.wrong("traffic", "no packet has come to the gateway", remedy);
    } else if waits == 0 && gateway.transparent {
        let remedy = "what was open before the gateway is not split, nor what is no TCP; begin a new connection";
        findings.doubtful("traffic", format!("{packets} packets passed, and none was a TCP SYN"), remedy);
    } else {
        findings.good("traffic", format!("{} connections were split, {} are", status.opened, status.open));
    }
    for why in Why::ALL {
        let count = status.bypassed.get(why.name()).copied().unwrap_or(0);
        if count > 0 {
            findings.doubtful("bypass", format!("{count} connections passed unsplit: {}", why.meaning()), why.remedy());
        }
    }
    if status.refused > 0 {
        findings.good("refused", format!("{} far ends refused, and so were their callers", status.refused));
    }
}
