//! `[bond]`: one bond of Ethernet links that needs nothing at the other end.

use super::policy::RawPolicy;
use super::{ConfigError, Interface, Reader};
use crate::pool::PacketBuf;
use crate::quantity::parse_span;
use fairspan_core::lan::{self, Lan, LinkConfig, USUAL_JITTER};
use fairspan_core::options::Family;
use fairspan_core::select::active_backup::FailOverMac;
use fairspan_core::select::supervision::ArpValidate;
use fairspan_core::select::{Policy, Settings, supervision};
use fairspan_core::units::{ChannelId, Rate, Span};
use fairspan_core::wire::mac::Mac;
use serde::Deserialize;
use std::net::Ipv4Addr;
use toml::Spanned;

/// The longest delay of a link.
const LONGEST: Span = Span::from_secs(10);

/// `[bond]`: the links that the interface stands for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bond {
    /// `policy`: how links are chosen.
    pub settings: Settings,
    /// `mac`: of the interface; default: one made from the first link's, always the same.
    pub mac: Option<Mac>,
    /// `arp_ip_target`: who is asked whether a link works, with the policy's `arp_interval`; default nobody.
    pub arp_ip_target: Vec<Ipv4Addr>,
    /// `num_grat_arp`: how often a fail-over is announced; default 1.
    pub num_grat_arp: u8,
    /// `[[bond.link]]`, numbered from 0.
    pub links: Vec<BondLink>,
}

/// `[[bond.link]]`: one device.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BondLink {
    /// `name`: for people, metrics and options that name a link; default: the device's.
    pub name: String,
    /// `device`: the interface; it need not exist yet.
    pub device: String,
    /// `rate`: what it carries; default: what the device says.
    pub rate: Option<Rate>,
    /// `weight`: its share where rates are not known; default 1.
    pub weight: u32,
    /// `priority`: lower is better, where a policy looks for the best; default 0.
    pub priority: u32,
    /// `delay`: from leaving to arriving, for policies that adapt; default zero.
    pub delay: Span,
    /// `jitter`: by how much that varies; default 100 µs.
    pub jitter: Span,
}

impl Bond {
    /// Whose address a bond of these settings has.
    pub(crate) fn fail_over_mac(settings: &Settings) -> FailOverMac {
        match &settings.policy {
            Policy::ActiveBackup(config) => config.fail_over_mac,
            _ => FailOverMac::None,
        }
    }
}

impl BondLink {
    /// The link as the bond takes it, with the address that it sends from.
    pub(crate) fn config(&self, mac: Mac) -> LinkConfig {
        let mut config = LinkConfig::new(self.name.clone(), mac);
        (config.priority, config.weight) = (self.priority, self.weight);
        (config.delay, config.jitter) = (self.delay, self.jitter);
        config
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawBond {
    policy: Spanned<RawPolicy>,
    mac: Option<Spanned<String>>,
    #[serde(default)]
    arp_ip_target: Vec<Spanned<String>>,
    num_grat_arp: Option<Spanned<u8>>,
    #[serde(default)]
    link: Vec<Spanned<RawLink>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawLink {
    name: Option<Spanned<String>>,
    device: Spanned<String>,
    rate: Option<Spanned<String>>,
    weight: Option<Spanned<u32>>,
    priority: Option<u32>,
    delay: Option<Spanned<String>>,
    jitter: Option<Spanned<String>>,
}

impl Reader<'_> {
    pub(super) fn bond(&self, interface: &Interface, raw: Spanned<RawBond>) -> Result<Bond, ConfigError> {
        let span = raw.span();
        let raw = raw.into_inner();
        let mut links = Vec::new();
        for link in raw.link {
            let span = link.span();
            let link = self.bond_link(link.into_inner())?;
            if link.device == interface.name {
                let problem = format!("`{}` is the bond's own interface: name the device of a link", link.device);
                return Err(self.error(span, "bond.link.device", problem));
            }
            if let Some(other) = links.iter().find(|l: &&BondLink| l.device == link.device || l.name == link.name) {
                let problem = format!("`{}` is there twice: each link has its own device and name", other.name);
                return Err(self.error(span, "bond.link.device", problem));
            }
            links.push(link);
        }
        if links.is_empty() {
            return Err(self.error(span, "bond.link", "there is none: add a [[bond.link]] for each device"));
        }
        if links.len() > ChannelId::LIMIT {
            let problem = format!("{} links: at most {} make one bond", links.len(), ChannelId::LIMIT);
            return Err(self.error(span, "bond.link", problem));
        }
        let mut settings = self.policy(&raw.policy, "bond.policy")?;
        let names: Vec<&str> = links.iter().map(|link| link.name.as_str()).collect();
        settings
            .resolve(&names)
            .map_err(|e| self.policy_error(&raw.policy, "bond.policy", e.option(), &e.to_string()))?;
        self.possible(&settings, &raw.policy)?;
        let made = links.iter().map(|link: &BondLink| link.config(Mac::default())).collect();
        Lan::<PacketBuf>::new(lan::Config::new(settings.clone(), Mac::default()), made, 0)
            .map_err(|e| self.policy_error(&raw.policy, "bond.policy", e.option(), &e.to_string()))?;
        self.effective(&settings, &raw.policy, links.len())?;
        if Bond::fail_over_mac(&settings) == FailOverMac::Active
            && let Some(mac) = &raw.mac
        {
            let problem = "the bond has the address of the device in use, as fail_over_mac=active says: leave one out";
            return Err(self.error(mac.span(), "bond.mac", problem));
        }
        if let Some(times) = &raw.num_grat_arp
            && !has_current(&settings.policy)
        {
            let problem = format!(
                "nothing is announced under `{}`, which uses all links at once: leave it out, or use active-backup, \
                 balance-tlb or balance-alb",
                settings.policy.name()
            );
            return Err(self.error(times.span(), "bond.num_grat_arp", problem));
        }

        let arp_ip_target =
            raw.arp_ip_target.iter().map(|target| self.target(target)).collect::<Result<Vec<Ipv4Addr>, _>>()?;
        let probes = settings.supervision.arp_interval.as_nanos() > 0;
        if probes && arp_ip_target.is_empty() {
            let problem = "missing: `arp_interval` probes somebody; name a station that always answers";
            return Err(self.error(span, "bond.arp_ip_target", problem));
        }
        if !probes && !arp_ip_target.is_empty() {
            let problem = "nobody is asked without `arp_interval`: add it to the policy, such as `arp_interval=200ms`";
            return Err(self.error(span, "bond.arp_ip_target", problem));
        }
        if arp_ip_target.len() > 16 {
            return Err(self.error(span, "bond.arp_ip_target", "at most 16 stations are asked"));
        }
        Ok(Bond {
            settings,
            mac: raw.mac.as_ref().map(|mac| self.station(mac, "bond.mac")).transpose()?,
            arp_ip_target,
            num_grat_arp: raw.num_grat_arp.map_or(1, Spanned::into_inner),
            links,
        })
    }

    fn target(&self, value: &Spanned<String>) -> Result<Ipv4Addr, ConfigError> {
        const SETTING: &str = "bond.arp_ip_target";
        let target: Ipv4Addr = self.parsed(value, SETTING, "10.3.31.1")?;
        if target.is_unspecified() || target.is_loopback() || target.is_multicast() || target.is_broadcast() {
            let problem = format!("`{target}` is no station of a LAN: write one such as `10.3.31.1`");
            return Err(self.error(value.span(), SETTING, problem));
        }
        Ok(target)
    }

    fn bond_link(&self, raw: RawLink) -> Result<BondLink, ConfigError> {
        let device = self.link_device(&raw.device, "bond.link.device")?;
        let name = match raw.name {
            Some(name) if name.get_ref().is_empty() || name.get_ref().len() > 64 => {
                return Err(self.error(name.span(), "bond.link.name", "must have 1 to 64 bytes"));
            }
            Some(name) => name.into_inner(),
            None => device.clone(),
        };
        Ok(BondLink {
            name,
            device,
            rate: self.positive_rate(raw.rate.as_ref(), "bond.link.rate")?,
            weight: self.weight(raw.weight.as_ref(), "bond.link.weight")?,
            priority: raw.priority.unwrap_or(0),
            delay: self.link_time(raw.delay.as_ref(), "bond.link.delay")?.unwrap_or(Span::ZERO),
            jitter: self.link_time(raw.jitter.as_ref(), "bond.link.jitter")?.unwrap_or(USUAL_JITTER),
        })
    }

    /// Policies and options that cannot work on Ethernet links.
    fn possible(&self, settings: &Settings, raw: &Spanned<RawPolicy>) -> Result<(), ConfigError> {
        let refused = |problem: &str| Err(self.policy_error(raw, "bond.policy", Some("name"), problem));
        if settings.flush.is_some() && !matches!(settings.policy, Policy::Ieee8023ad(_)) {
            return refused(
                "`flush` needs an end that answers markers: policy 802.3ad, or a [[peer]] with mode = \"flow\"",
            );
        }
        match &settings.policy {
            Policy::TrafficMeter(_) => refused(
                "`traffic_meter` needs a receiver that puts packets in order: use it in a [[peer]] with mode = \"flow\"",
            ),
            _ => Ok(()),
        }
    }

    /// Options that would change nothing, or leave a bond that never carries anything.
    fn effective(&self, settings: &Settings, raw: &Spanned<RawPolicy>, links: usize) -> Result<(), ConfigError> {
        let refused = |option: &str, problem: &str| Err(self.policy_error(raw, "bond.policy", Some(option), problem));
        let default = settings.member().plain();
        let given = |name: &str| {
            let changed = settings.get(name) != default.get(name);
            changed || raw.get_ref().has(name)
        };
        let (primary, ports) = match &settings.policy {
            Policy::ActiveBackup(config) => (config.primary.is_some(), None),
            Policy::BalanceTlb(config) => (config.primary.is_some(), None),
            Policy::BalanceAlb(config) => (config.primary.is_some(), None),
            Policy::Ieee8023ad(config) => (false, Some(config.min_links)),
            _ => (false, None),
        };
        if !primary && given("primary_reselect") {
            return refused(
                "primary_reselect",
                "primary_reselect is about the primary link, and there is none: add primary=DEVICE, or leave it out",
            );
        }
        if let Some(least) = ports.filter(|least| usize::from(*least) > links) {
            let problem = format!("min_links={least} of {links} links: the bond would never carry anything");
            return refused("min_links", &problem);
        }
        let supervision::Config { arp_interval, arp_validate, .. } = settings.supervision;
        if arp_interval == Span::ZERO && given("missed_max") {
            return refused(
                "missed_max",
                "missed_max counts probes without an answer, and nobody is probed without arp_interval: add \
                 arp_interval=200ms and bond.arp_ip_target, or leave it out",
            );
        }
        if arp_interval > Span::ZERO && ports.is_some() {
            return refused(
                "arp_interval",
                "arp_interval: Linux refuses it with 802.3ad, and so does this: the partner takes no probe before LACP has \
                 brought a link up, and LACP leaves a silent link by itself: leave it out; lacp_rate=fast notices within 3 s",
            );
        }
        if arp_interval == Span::ZERO && given("arp_validate") {
            return refused(
                "arp_validate",
                "arp_validate says what counts as an answer to probes, and nobody is probed without arp_interval: add \
                 arp_interval=200ms and bond.arp_ip_target, or leave it out",
            );
        }
        if given("arp_all_targets") {
            let validated = !matches!(arp_validate, ArpValidate::None | ArpValidate::Filter);
            if arp_interval == Span::ZERO {
                return refused(
                    "arp_all_targets",
                    "arp_all_targets says who has to answer probes, and nobody is probed without arp_interval: add \
                     arp_interval=200ms and bond.arp_ip_target, or leave it out",
                );
            }
            if !validated {
                return refused(
                    "arp_all_targets",
                    "arp_all_targets says who has to answer, and arp_validate=none and =filter ask for no answers: choose another \
                     value of arp_validate, or leave it out",
                );
            }
        }
        Ok(())
    }

    fn link_time(&self, value: Option<&Spanned<String>>, setting: &str) -> Result<Option<Span>, ConfigError> {
        let time = self.quantity(value, setting, parse_span)?;
        match (time, value) {
            (Some(time), Some(value)) if time > LONGEST => {
                Err(self.error(value.span(), setting, "is longer than 10 s, which no link of a LAN takes"))
            }
            _ => Ok(time),
        }
    }

    fn station(&self, value: &Spanned<String>, setting: &str) -> Result<Mac, ConfigError> {
        let mac: Mac = self.parsed(value, setting, "02:00:5e:10:00:01")?;
        if mac.is_unicast() {
            return Ok(mac);
        }
        let problem = format!("`{mac}` is no station's address: write one such as `02:00:5e:10:00:01`");
        Err(self.error(value.span(), setting, problem))
    }
}

/// Whether the policy has one current link, a change of which is announced.
fn has_current(policy: &Policy) -> bool {
    matches!(policy, Policy::ActiveBackup(_) | Policy::BalanceTlb(_) | Policy::BalanceAlb(_))
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use std::path::Path;

    const HEAD: &str = "[interface]\nname = \"bond0\"\n[bond]\n";
    const LINKS: &str = "[[bond.link]]\ndevice = \"eth1\"\n[[bond.link]]\ndevice = \"eth2\"\nname = \"second\"\n";

    fn parse(text: &str) -> Result<Config, super::ConfigError> {
        Config::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn links_are_called_by_their_devices_or_names_and_numbered_in_order() {
        let text = format!("{HEAD}policy = \"active-backup:second\"\n{LINKS}");
        let bond = parse(&text).expect("good").bond.expect("a bond");
        assert_eq!(bond.settings.to_string(), "active-backup:1");
        let names: Vec<_> = bond.links.iter().map(|link| (link.name.as_str(), link.device.as_str())).collect();
        assert_eq!(names, [("eth1", "eth1"), ("second", "eth2")]);
        assert_eq!((bond.num_grat_arp, bond.arp_ip_target.len(), bond.mac), (1, 0, None));
    }

    /// Each row: what follows `[bond]`, the line and setting that the error names, and a word of advice.
    #[test]
    fn each_error_names_line_setting_and_what_would_be_right() {
        let with = |more: &str| format!("{more}\n{LINKS}");
        let probing =
            |targets: &str| with(&format!("policy = \"brr:arp_interval=100ms\"\narp_ip_target = [{targets}]"));
        let link = |link: &str| format!("policy = \"brr\"\n[[bond.link]]\n{link}");
        let many: String = (0..65).map(|n| format!("[[bond.link]]\ndevice = \"eth{n}\"\n")).collect();
        let rows = [
            (with("policy = \"brr:flush=on\""), 4, "bond.policy", "[[peer]]"),
            (with("policy = \"traffic_meter\""), 4, "bond.policy", "[[peer]]"),
            (with("policy = \"active-backup:eth3\""), 4, "bond.policy", "eth1, second"),
            (with("policy = { name = \"active-backup\",\nprimary = 2 }"), 5, "bond.policy.primary", "eth1, second"),
            (with("policy = \"brr\"\nmac = \"01:00:5e:00:00:01\""), 5, "bond.mac", "no station"),
            (with("policy = \"brr:arp_interval=100ms\""), 3, "bond.arp_ip_target", "missing"),
            (with("policy = \"brr\"\narp_ip_target = [\"10.0.0.1\"]"), 3, "bond.arp_ip_target", "arp_interval"),
            (probing("\"10.0.0.1\", \"fe80::1\""), 5, "bond.arp_ip_target", "10.3.31.1"),
            (probing("\"255.255.255.255\""), 5, "bond.arp_ip_target", "no station"),
            (probing("\"0.0.0.0\""), 5, "bond.arp_ip_target", "no station"),
            (probing("\"127.0.0.1\""), 5, "bond.arp_ip_target", "no station"),
            (probing("\"224.0.0.1\""), 5, "bond.arp_ip_target", "no station"),
            (probing(&"\"10.0.0.1\",".repeat(17)), 3, "bond.arp_ip_target", "at most 16"),
            ("policy = \"brr\"".into(), 3, "bond.link", "[[bond.link]]"),
            (format!("policy = \"brr\"\n{many}"), 3, "bond.link", "at most 64"),
            (link("device = \"bond0\""), 5, "bond.link.device", "own interface"),
            (link("device = \"lo\""), 6, "bond.link.device", "this host alone"),
            (link("device = \"a/b\""), 6, "bond.link.device", "no interface name"),
            (link("device = \"eth1\"\nname = \"\""), 7, "bond.link.name", "1 to 64"),
            (link("device = \"eth1\"\n[[bond.link]]\ndevice = \"eth1\""), 7, "bond.link.device", "twice"),
            (link("device = \"eth1\"\n[[bond.link]]\ndevice = \"eth2\"\nname = \"eth1\""), 7, "bond.link", "twice"),
            (link("device = \"eth1\"\nrate = \"0\""), 7, "bond.link.rate", "1kbit"),
            (link("device = \"eth1\"\nweight = 0"), 7, "bond.link.weight", "1000"),
        ];
        for (text, line, setting, advice) in rows {
            let error = parse(&format!("{HEAD}{text}")).expect_err(&text).to_string();
            let place = format!("x.toml:{line}: {setting}");
            assert!(error.starts_with(&place) && error.contains(advice), "{text}\n{error}");
        }
    }

    /// What `up` makes of a file that was read is what it was checked by, so no policy that passes is refused later.
    #[test]
    fn a_bond_that_is_accepted_is_one_that_the_core_takes() {
        let (mut taken, mut refused) = (0, 0);
        for policy in [
            "brr",
            "brr:0ms",
            "brr:12ms",
            "active-backup:eth1",
            "active-backup:eth3",
            "balance-rr",
            "balance-rr:packets=0",
            "balance-xor:layer2",
            "balance-xor:layer9",
            "balance-tlb",
            "balance-alb",
            "802.3ad:min_links=2",
            "802.3ad:min_links=3",
            "broadcast",
            "flowlet",
            "least_queue",
            "traffic_meter",
            "fastest_transmit",
            "potent",
            "n_to_one",
            "n_to_one:eth2",
            "hash",
            "7",
            "4",
            "brr:miimon=0ms",
        ] {
            let text = format!("{HEAD}policy = \"{policy}\"\n{LINKS}");
            match parse(&text) {
                Ok(config) => {
                    let bond = config.bond.expect("a bond");
                    let links = bond.links.iter().map(|link| link.config(Mac::default())).collect();
                    let made = Lan::<PacketBuf>::new(lan::Config::new(bond.settings, Mac::default()), links, 1);
                    assert!(made.is_ok(), "{policy}");
                    taken += 1;
                }
                Err(error) => {
                    assert_eq!((error.line, error.setting.as_str()), (4, "bond.policy"), "{policy}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(taken > 10 && refused > 4, "{taken} taken, {refused} refused");
    }
}
