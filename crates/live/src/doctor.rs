//! Why a bond does not work, or not as well as it could: this host, its configuration, and what a running daemon tells.
//!
//! What a configuration needs of the host is asked by the same code as `fairspan check` and `fairspan gateway doctor` use. Here is what these do
//! not look at: routes and packet filters of the ways to the other end, the clock, the processor, and the state of the channels.
//!
//! Nothing is changed but by [`Fixes`], which undo themselves.

mod firewall;
mod kernel;
mod ruleset;

use crate::config::{Channel, Config, ConfigError};
pub use crate::finding::{Finding, Verdict};
use crate::finding::{Findings, setting};
use crate::netlink::{Guard, Netlink, NetlinkError};
use crate::reverse_path;
use crate::roles::doctor as gateways;
use crate::roles::{Role, masquerade};
use crate::secure::has_aes_hardware;
use crate::status::{ChannelStatus, State, Status};
use crate::system::system;
use ipnet::IpNet;
use std::net::IpAddr;
use std::path::Path;

/// Each notice of [`Config::load_for_this_host`] about the moment begins so.
const NOW: &str = "on this host, now: ";
/// And so the one that the daemon's control socket takes calls.
const THERE: &str = "a daemon answers there";
/// A clock that is before this has not been set: 2025 began.
const CLOCK_SET: u64 = 1_735_689_600;
/// The longest packet that a channel needs for the shortest one of IPv6 inside: headers, seal and number around it.
const LEAST_MTU: u32 = 1280 + 80;

/// What can be changed on this host so that the bond works, and is safe.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Fix {
    /// A device lets in what comes by it though the way back leads elsewhere.
    Loosen(String),
    /// A device is switched on.
    SwitchOn(String),
    /// A device forwards IPv4.
    Forward(String),
}

/// Changes that are undone when this is dropped.
#[derive(Debug)]
pub struct Fixes {
    guard: Guard,
    /// What was changed, in words.
    pub done: Vec<String>,
    /// What could not be, and why.
    pub failed: Vec<String>,
}

/// What was found, and what can be done about it here.
#[derive(Debug)]
pub struct Diagnosis {
    /// What was looked at.
    pub findings: Vec<Finding>,
    fixes: Vec<Fix>,
}

impl Diagnosis {
    /// How many things can be changed here.
    pub fn fixable(&self) -> usize {
        self.fixes.len()
    }

    /// Changes them.
    ///
    /// # Errors
    /// No connection to the kernel. What it refuses is told in [`Fixes::failed`].
    pub fn fix(&self) -> Result<Fixes, NetlinkError> {
        let mut fixes = Fixes { guard: Guard::new()?, done: Vec::new(), failed: Vec::new() };
        for fix in &self.fixes {
            let (path, wanted) = match fix {
                Fix::Loosen(device) => {
                    fixes.guard.loosen_reverse_path(device);
                    (format!("net/ipv4/conf/{device}/rp_filter"), 2)
                }
                Fix::Forward(device) => {
                    fixes.guard.forward(device);
                    (format!("net/ipv4/conf/{device}/forwarding"), 1)
                }
                Fix::SwitchOn(device) => {
                    match fixes.guard.set_up(device, true) {
                        Ok(()) => fixes.done.push(format!("{device} is switched on")),
                        Err(error) => fixes.failed.push(error.to_string()),
                    }
                    continue;
                }
            };
            match setting(&path) {
                Some(value) if value == wanted => fixes.done.push(format!("{} = {wanted}", path.replace('/', "."))),
                _ => fixes.failed.push(format!("{} could not be set to {wanted}", path.replace('/', "."))),
            }
        }
        Ok(fixes)
    }
}

impl Fixes {
    /// Undoes all now; what could not be undone.
    pub fn undo(self) -> Vec<String> {
        self.guard.undo().iter().map(ToString::to_string).collect()
    }
}

/// Looks at the host of a configuration, in the network namespace of this thread. `running` is what its daemon tells.
///
/// # Errors
/// The configuration is wrong.
pub fn examine(file: &Path, running: Option<&Status>) -> Result<Diagnosis, ConfigError> {
    let config = Config::load_for_this_host(file)?;
    let (mut findings, mut fixes) = (Findings::default(), Vec::new());
    notices(&mut findings, &config);
    this_host(&mut findings);
    match Netlink::open() {
        Ok(mut netlink) => {
            let channels = || config.peers.iter().flat_map(|peer| &peer.channels);
            let mark = config.interface.fwmark;
            channels().for_each(|channel| way(&mut findings, &mut fixes, &mut netlink, channel, mark));
            if Role::of(&config) == Role::Peers {
                let routes = netlink.all_routes().unwrap_or_default();
                firewall::examine(&mut findings, &config, &routes, running);
            }
            forwarding(&mut findings, &mut fixes, &config, running.is_some());
        }
        Err(error) => findings.doubtful("routes", error.to_string(), "give this process access to rtnetlink"),
    }
    kernel::buffers(&mut findings, &config);
    kernel::offloads(&mut findings, &config);
    kernel::connections(&mut findings);
    served(&mut findings, running);
    alarms(&mut findings, running);
    if Role::of(&config) == Role::Peers {
        let is_there =
            |notice: &ConfigError| notice.problem.strip_prefix(NOW).is_some_and(|problem| problem.starts_with(THERE));
        daemon(&mut findings, running, config.notices.iter().any(is_there));
    }
    for (number, gateway) in config.gateways() {
        let name = number.and_then(|number| config.peers.get(number)).map(|peer| peer.name.clone());
        let known = running.map_or(gateways::Daemon::Absent, |status| {
            let told = match &name {
                None => status.gateway.as_ref(),
                Some(name) => {
                    status.peers.iter().find(|peer| peer.name == *name).and_then(|peer| peer.split.as_deref())
                }
            };
            told.map_or(gateways::Daemon::Without, gateways::Daemon::Tells)
        });
        for finding in gateways::examine(&gateway, known, gateways::Together::of(&config)) {
            findings.push(Finding { peer: name.clone(), ..finding });
        }
    }
    Ok(Diagnosis { findings: findings.all(), fixes })
}

/// What the configuration and the host are to each other, as `fairspan check` says it.
fn notices(findings: &mut Findings, config: &Config) {
    for notice in &config.notices {
        let place = format!("line {}, {}", notice.line, notice.setting);
        match notice.problem.strip_prefix(NOW) {
            // That is as it should be, or told of with the daemon.
            Some(problem) if problem.starts_with(THERE) => {}
            Some(problem) => findings.wrong("host", problem, format!("see {place} of the configuration")),
            None => findings.doubtful("configuration", notice.problem.clone(), format!("see {place}")),
        }
    }
    if config.notices.is_empty() {
        findings.good("configuration", "nothing in it is odd, and nothing on this host stands in its way");
    }
}

/// What every daemon needs.
fn this_host(findings: &mut Findings) {
    let also = match instructions().as_slice() {
        [] => String::new(),
        some => format!(" (it has {})", some.join(", ")),
    };
    match has_aes_hardware() {
        true => findings.good("processor", format!("it computes AES in hardware{also}")),
        false => findings.good("processor", format!("it has no instructions for AES, so ChaCha20 is used{also}")),
    }
    let clock = system().wall().as_secs();
    match clock < CLOCK_SET {
        true => findings.doubtful(
            "clock",
            format!("it is {} by the clock of this host", crate::day::utc(clock)),
            "set it (`timedatectl set-ntp true`): invitations expire, and months of quotas begin, by the clock",
        ),
        false => findings.good("clock", format!("it is {}", crate::day::utc(clock))),
    }
}

/// What of the instructions that make encryption and checksums fast the processor has.
fn instructions() -> Vec<&'static str> {
    let has: &[(&str, bool)] = &[
        #[cfg(target_arch = "x86_64")]
        ("PCLMULQDQ", std::arch::is_x86_feature_detected!("pclmulqdq")),
        #[cfg(target_arch = "x86_64")]
        ("AVX2", std::arch::is_x86_feature_detected!("avx2")),
        #[cfg(target_arch = "x86_64")]
        ("VAES", std::arch::is_x86_feature_detected!("vaes")),
        #[cfg(target_arch = "aarch64")]
        ("PMULL", std::arch::is_aarch64_feature_detected!("pmull")),
        #[cfg(target_arch = "aarch64")]
        ("SHA2", std::arch::is_aarch64_feature_detected!("sha2")),
    ];
    has.iter().filter(|(_, has)| *has).map(|(name, _)| *name).collect()
}

/// The way of a channel to the other end.
fn way(findings: &mut Findings, fixes: &mut Vec<Fix>, netlink: &mut Netlink, channel: &Channel, fwmark: u32) {
    let (name, Some(device)) = (&channel.name, &channel.device) else { return };
    // One that does not exist is told of already.
    let Ok(interface) = netlink.interface(device) else { return };
    if !interface.up {
        findings.wrong(
            "devices",
            format!("channel {name}: {device} is switched off"),
            format!("`ip link set {device} up`"),
        );
        fixes.push(Fix::SwitchOn(device.clone()));
        return;
    }
    if !interface.running {
        let remedy = "look at its cable, its modem, or who is at its other end";
        return findings.wrong("devices", format!("channel {name}: {device} has no carrier"), remedy);
    }
    if interface.mtu < LEAST_MTU {
        let found = format!(
            "channel {name}: {device} has an MTU of {}, so that what IPv6 needs goes in fragments",
            interface.mtu
        );
        findings.doubtful("mtu", found, format!("`ip link set {device} mtu 1500`, if that link carries as much"));
    }
    let endpoint = channel.kind.ends().map(|(endpoint, _)| endpoint.ip()).filter(|ip| !ip.is_unspecified());
    let Some(endpoint) = endpoint else { return };
    let mut routes = netlink.all_routes().unwrap_or_default();
    routes.retain(|route| {
        let is_default = route.destination.prefix_len() == 0;
        let of_version = route.destination.addr().is_ipv4() == endpoint.is_ipv4();
        route.device == *device && of_version && (is_default || route.destination.contains(&endpoint))
    });
    let Some(leads) = routes.iter().max_by_key(|route| route.destination.prefix_len()) else {
        let found = format!("channel {name}: no route by {device} leads to {endpoint}");
        return findings.wrong("routes", found, format!("`ip route add default via ADDRESS dev {device} metric 100`"));
    };
    findings.good("routes", format!("channel {name}: a route by {device} leads to {endpoint}"));
    kernel::rules(findings, netlink, channel, fwmark, leads.table);
    let source = channel.kind.ends().and_then(|(_, source)| source);
    let own = source.or_else(|| {
        let addresses = netlink.addresses(device).unwrap_or_default();
        addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == endpoint.is_ipv4())
    });
    way_back(findings, fixes, netlink, (name, device), (endpoint, own));
}

/// Whether the kernel drops what the other end sends by this device.
fn way_back(
    findings: &mut Findings,
    fixes: &mut Vec<Fix>,
    netlink: &mut Netlink,
    (name, device): (&str, &str),
    (endpoint, own): (IpAddr, Option<IpAddr>),
) {
    match reverse_path::obstacle(netlink, device, endpoint, own) {
        Some(obstacle) => {
            let found = format!("channel {name}: {obstacle}");
            findings.wrong("rp_filter", found, format!("`sysctl -w net.ipv4.conf.{device}.rp_filter=2`"));
            let fix = Fix::Loosen(device.to_owned());
            if !fixes.contains(&fix) {
                fixes.push(fix);
            }
        }
        None => findings.good("rp_filter", format!("channel {name}: what comes by {device} is let in")),
    }
}

/// Whether sites reach each other, and others, through this host.
fn forwarding(findings: &mut Findings, fixes: &mut Vec<Fix>, config: &Config, is_running: bool) {
    let name = &config.interface.name;
    let is_hub = config.peers.len() > 1 && config.interface.port.is_none();
    if let Some(problem) =
        masquerade::problem(config).filter(|_| !config.notices.iter().any(|n| n.setting == "interface.masquerade"))
    {
        findings.doubtful("forwarding", problem, "see interface.masquerade");
    }
    if !is_hub || config.interface.masquerade {
        return;
    }
    let scope = if is_running { name.as_str() } else { "default" };
    match setting(&format!("net/ipv4/conf/{scope}/forwarding")) {
        Some(0) => {
            let found = format!(
                "this host does not forward what comes by {name}, so its {} peers do not reach each other",
                config.peers.len()
            );
            findings.doubtful(
                "forwarding",
                found,
                format!("if they are to: `sysctl -w net.ipv4.conf.{name}.forwarding=1`"),
            );
            if is_running {
                fixes.push(Fix::Forward(name.clone()));
            }
        }
        Some(_) => findings.good("forwarding", format!("this host forwards what comes by {name}")),
        None => {}
    }
}

/// Whether a running daemon serves its page and its metrics.
fn served(findings: &mut Findings, running: Option<&Status>) {
    let Some(status) = running else { return };
    let both = [
        ("page", "it is", "", "interface.web", &status.web),
        ("metrics", "they are", "metrics", "interface.metrics", &status.metrics),
    ];
    for (subject, are, path, setting, endpoint) in both {
        let Some(endpoint) = endpoint else { continue };
        let address = &endpoint.address;
        match &endpoint.problem {
            None => findings.good(subject, format!("{are} served at http://{address}/{path}")),
            Some(problem) => findings.wrong(
                subject,
                format!("{are} not served at {address}: {problem}"),
                format!(
                    "end the program that has that port (`ss -nlpt` shows it), give an interface that address, or write another in {setting}; the \
                     daemon tries again by itself"
                ),
            ),
        }
    }
}

/// Whether alarms reach who is to know of them.
fn alarms(findings: &mut Findings, running: Option<&Status>) {
    let Some(webhook) = running.and_then(|status| status.webhook.as_ref()) else { return };
    let address = &webhook.address;
    match &webhook.problem {
        None => findings.good("webhook", format!("{} alarms were brought to http://{address}", webhook.delivered)),
        Some(problem) => findings.wrong(
            "webhook",
            format!("alarms do not reach http://{address}: {problem}; {} wait", webhook.waiting),
            "start the program that takes alarms there, or write its address in interface.webhook; the daemon tries again by itself".to_owned(),
        ),
    }
}

/// What a running daemon tells of its channels; `is_there`: something takes calls at its control socket.
fn daemon(findings: &mut Findings, running: Option<&Status>, is_there: bool) {
    let Some(status) = running else {
        if is_there {
            let remedy = "is its process stopped (`ps` shows `T` then), or another user's?";
            return findings.wrong("daemon", "its daemon is there, and does not answer", remedy);
        }
        return findings.doubtful("daemon", "its daemon does not run", "`fairspan up FILE`, then ask again");
    };
    for peer in &status.peers {
        let invited = peer.invitation.as_ref().filter(|invitation| invitation.state != "joined");
        if let Some(invitation) = invited {
            let until = crate::day::utc(invitation.expires);
            match invitation.state.as_str() {
                "unreadable" => {
                    let remedy = "look into the log for the file in `state_dir`, and give it to the daemon's user, or put it back";
                    findings.wrong("daemon", format!("whether peer {} has joined cannot be read", peer.name), remedy);
                }
                "expired" => {
                    let remedy = "remove its [[peer]], and invite again if it is still to join";
                    findings.doubtful(
                        "daemon",
                        format!("peer {} was invited, and had not joined by {until}", peer.name),
                        remedy,
                    );
                }
                _ => findings.good("daemon", format!("peer {} is invited, and has until {until} to join", peer.name)),
            }
            continue;
        }
        if peer.channels.is_empty() {
            let remedy =
                "does the other end run, and do this host's firewall and the routers before it let `listen_port` in?";
            findings.doubtful("daemon", format!("peer {} has not called", peer.name), remedy);
        }
        channels(findings, &peer.name, &peer.channels);
    }
}

/// What is told of a peer's channels: those that are not up for the same reason are one fault.
fn channels(findings: &mut Findings, peer: &str, channels: &[ChannelStatus]) {
    // How often each has called is no difference, and by which device it goes is one.
    let cause = |channel: &ChannelStatus| {
        let words = channel.reason.as_deref().unwrap_or_default().split(' ');
        let words: Vec<String> = words.filter(|word| word.parse::<f64>().is_err()).map(str::to_owned).collect();
        (channel.state, words)
    };
    for (number, channel) in channels.iter().enumerate() {
        if channel.state == State::Up {
            findings.good("daemon", format!("peer {peer}: channel {} is up", channel.name));
            continue;
        }
        if channels[..number].iter().any(|former| cause(former) == cause(channel)) {
            continue;
        }
        let alike: Vec<_> = channels[number..].iter().filter(|other| cause(other) == cause(channel)).collect();
        let names = alike.iter().map(|channel| channel.name.as_str()).collect::<Vec<_>>().join(", ");
        let (noun, verb) = if alike.len() == 1 { ("channel", "is") } else { ("channels", "are") };
        let reason = channel.reason.as_ref().map_or_else(String::new, |reason| format!(": {reason}"));
        let found = format!("peer {peer}: {noun} {names} {verb} {}{reason}", channel.state);
        if channel.state == State::Held {
            // All is well with it now.
            findings.doubtful(
                "daemon",
                found,
                "if it happens again, look at that link: the log says what happened to it",
            );
        } else {
            let remedy = "look at what is said of its device and its routes here, then at the other end";
            findings.wrong("daemon", found, remedy);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_that_are_down_for_one_reason_are_one_fault() {
        let channel = |name: &str, state: &str, reason: Option<&str>| {
            let document = serde_json::json!({
                "number": 0, "name": name, "kind": "udp", "state": state, "reason": reason, "remote": null, "rate_mbit": null,
                "rtt_ms": null, "queued_packets": null, "queued_bytes": null, "counters": {},
            });
            serde_json::from_value::<ChannelStatus>(document).expect("a channel")
        };
        let all = [
            channel("dsl", "connecting", Some("no answer to 81 calls: is a daemon running there?")),
            channel("lte", "up", None),
            channel("cable", "connecting", Some("no answer to 82 calls: is a daemon running there?")),
            channel("sat", "connecting", Some("there is no device sat0")),
            channel("geo", "connecting", Some("there is no device sat1")),
            channel("old", "held", Some("failed 2 times lately; used again in 0.3 s")),
        ];
        let mut findings = Findings::default();
        channels(&mut findings, "hub", &all);
        daemon(&mut findings, None, true);
        let findings = findings.all();
        let verdicts =
            [Verdict::Wrong, Verdict::Good, Verdict::Wrong, Verdict::Wrong, Verdict::Doubtful, Verdict::Wrong];
        assert!(findings.iter().map(|finding| finding.verdict).eq(verdicts));
        let found: Vec<_> = findings.into_iter().map(|finding| finding.found).collect();
        let expected = [
            "peer hub: channels dsl, cable are connecting: no answer to 81 calls: is a daemon running there?",
            "peer hub: channel lte is up",
            "peer hub: channel sat is connecting: there is no device sat0",
            "peer hub: channel geo is connecting: there is no device sat1",
            "peer hub: channel old is held: failed 2 times lately; used again in 0.3 s",
            "its daemon is there, and does not answer",
        ];
        assert_eq!(found, expected);
    }
}
