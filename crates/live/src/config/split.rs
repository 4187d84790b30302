//! `[peer.split]`: a gateway within the daemon of peers, which splits what goes to a peer's networks and comes from them.
//!
//! It has the settings of a `[gateway]`. What those of its own file would say besides follows from the peer: the long link is the bond's
//! interface, and what is split are connections with its `allowed_ips`.

use super::gateway::{OfPeer, RawGateway};
use super::{Config, ConfigError, Gateway, Interface, Peer, Reader, Table};
use crate::netlink::TABLE_MAIN;
use ipnet::IpNet;
use std::ops::Range;
use toml::Spanned;

/// Where errors have it.
const SECTION: &str = "peer.split";

impl OfPeer {
    /// What the peer with this number has, beside the others.
    fn of(peers: &[Peer], number: usize, slot: u32) -> OfPeer {
        let own = peers.get(number).map_or(&[][..], |peer| &peer.allowed_ips);
        let of_others =
            peers.iter().enumerate().filter(|(other, _)| *other != number).flat_map(|(_, peer)| &peer.allowed_ips);
        let within = of_others.filter(|net| own.iter().any(|own| own.contains(*net)));
        let mut networks: Vec<_> = own.iter().map(|net| (*net, true)).chain(within.map(|net| (*net, false))).collect();
        networks.sort_by_key(|(net, _)| std::cmp::Reverse(net.prefix_len()));
        OfPeer { slot, networks }
    }
}

impl Interface {
    /// That of a gateway within this daemon, which has no interface of its own.
    fn of_gateway(&self) -> Interface {
        Interface {
            name: self.name.clone(),
            port: None,
            addresses: Vec::new(),
            private_key: None,
            listen_port: None,
            listen_tcp_port: None,
            mtu: None,
            fwmark: self.fwmark,
            table: self.table,
            lock: false,
            lock_except: Vec::new(),
            masquerade: false,
            dns: Vec::new(),
            control_socket: self.control_socket.clone(),
            state_dir: self.state_dir.clone(),
            metrics: None,
            web: None,
            web_password: None,
            web_hosts: Vec::new(),
            web_control: false,
            webhook: None,
            record: None,
            offload: self.offload,
            padding: false,
            user: None,
            confine: self.confine,
        }
    }
}

impl Config {
    /// Whether the daemon splits connections, as a gateway or for a peer.
    pub(crate) fn splits(&self) -> bool {
        self.gateway.is_some() || self.peers.iter().any(|peer| peer.split.is_some())
    }

    /// The configuration of the gateway for the peer with this number, where it has one; `slot` in place of that by its place in the file.
    pub(crate) fn gateway_of(&self, number: usize, slot: Option<u32>) -> Option<Config> {
        let mut gateway = self.peers.get(number)?.split.clone()?;
        let before = self.peers[..number].iter().filter(|peer| peer.split.is_some()).count();
        let slot = slot.unwrap_or(before as u32);
        gateway.of_peer = Some(OfPeer::of(&self.peers, number, slot));
        Some(Config { gateway: Some(gateway), ..Config::without_role(self.interface.of_gateway()) })
    }

    /// That of the daemon's own gateway, and nothing else.
    pub(crate) fn own_gateway(&self) -> Option<Config> {
        let gateway = self.gateway.clone()?;
        Some(Config { gateway: Some(gateway), ..Config::without_role(self.interface.of_gateway()) })
    }

    /// The configurations of all gateways of the daemon: its own, or those for peers, each with the peer's number.
    pub fn gateways(&self) -> Vec<(Option<usize>, Config)> {
        let own = self.own_gateway().into_iter().map(|config| (None, config));
        let of_peers = (0..self.peers.len()).filter_map(|number| Some((Some(number), self.gateway_of(number, None)?)));
        own.chain(of_peers).collect()
    }
}

impl Reader<'_> {
    /// The section; `networks` are the peer's.
    pub(super) fn split(
        &self,
        interface: &Interface,
        raw: Spanned<RawGateway>,
        networks: &[IpNet],
    ) -> Result<Gateway, ConfigError> {
        let span = raw.span();
        let problem = if interface.port.is_some() {
            Some("splits connections of IP, and the peer of a `port` gets frames: leave it out, or `kind`")
        } else if interface.lock {
            Some("answers callers from this host, which `interface.lock` does not let out: leave out one of both")
        } else if networks.is_empty() {
            Some("splits what goes to the peer's `allowed_ips` and comes from there, and these are empty: add them")
        } else {
            None
        };
        if let Some(problem) = problem {
            return Err(self.error(span, SECTION, problem));
        }
        let inner = Reader { gateway_is: SECTION, ..Reader::new(self.file, self.text) };
        let read = inner.gateway_of_peer(raw, &interface.name);
        self.notices.borrow_mut().append(&mut inner.notices.take());
        read
    }

    /// An initial window is a matter of routes, and of those of the main table: also of those to other peers, to which the gateway's
    /// own connections go when somebody behind its peer calls them. `splits`: where each peer's section stands, if it has one.
    pub(super) fn windows_fit(
        &self,
        interface: &Interface,
        peers: &[Peer],
        splits: &[Option<Range<usize>>],
    ) -> Result<(), ConfigError> {
        let has_window = |peer: &Peer| peer.split.as_ref().is_some_and(|split| split.initial_window.is_some());
        let first = peers.iter().zip(splits).find(|(peer, _)| has_window(peer));
        let Some(span) = first.and_then(|(_, span)| span.clone()) else { return Ok(()) };
        let elsewhere = |net: &&IpNet| match interface.table {
            Table::Auto => net.prefix_len() == 0,
            Table::Number(table) => table != TABLE_MAIN,
            Table::Off => false,
        };
        match peers.iter().flat_map(|peer| &peer.allowed_ips).find(elsewhere) {
            Some(net) => {
                let problem = format!(
                    "goes with routes of the main table, and that to {net} is in another: connections would leave past the \
                     tunnel; leave it out, or write more specific networks"
                );
                Err(self.error(span, &format!("{SECTION}.initial_window"), problem))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const HEAD: &str = "[interface]\nname = \"fs0\"\nprivate_key = \"YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=\"\nlisten_port = 51900\n";
    const KEYS: [&str; 2] =
        ["xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=", "6J0aJYNeDEPqUnY6QnsyFBdH5g8RbCu5dMK8vPrgUmY="];

    fn peer(number: usize, nets: &str, split: &str) -> String {
        let key = KEYS[number];
        format!("[[peer]]\nname = \"p{number}\"\npublic_key = \"{key}\"\nallowed_ips = [{nets}]\n{split}")
    }

    fn parse(text: &str) -> Result<Config, ConfigError> {
        Config::parse(Path::new("x.toml"), text)
    }

    #[test]
    fn it_is_a_gateway_before_the_bond_for_what_lies_behind_the_peer_and_not_for_what_lies_behind_others() {
        let text = HEAD.to_owned()
            + &peer(0, "\"10.20.0.0/16\", \"10.20.7.7/32\"", "[peer.split]\nrate = \"9Mbit\"\ninside = [\"lan0\"]\n")
            + &peer(1, "\"10.20.7.0/24\", \"10.30.0.0/16\"", "[peer.split]\n");
        let config = parse(&text).expect("good");
        assert!(config.splits() && config.gateway.is_none() && config.notices.is_empty(), "{:?}", config.notices);
        let gateways = config.gateways();
        let numbers: Vec<_> = gateways.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [Some(0), Some(1)]);
        let [first, second] = [0, 1].map(|n| gateways[n].1.gateway.clone().expect("a gateway"));
        assert_eq!((first.long.as_str(), first.inside.as_slice()), ("fs0", &["lan0".to_owned()][..]));
        assert!(first.transparent && first.proxy.is_none() && first.rate.is_some() && second.rate.is_none());
        let net = |text: &str| text.parse::<IpNet>().expect("a network");
        let (own, other) = (first.of_peer.expect("a peer's"), second.of_peer.expect("a peer's"));
        let nets = [(net("10.20.7.7/32"), true), (net("10.20.7.0/24"), false), (net("10.20.0.0/16"), true)];
        assert_eq!((own.slot, own.networks.as_slice()), (0, &nets[..]));
        let nets = [(net("10.20.7.7/32"), false), (net("10.20.7.0/24"), true), (net("10.30.0.0/16"), true)];
        assert_eq!((other.slot, other.networks.as_slice()), (1, &nets[..]));
    }

    #[test]
    fn what_stands_for_a_gateway_of_its_own_or_cannot_work_beside_the_peer_is_refused_where_it_stands() {
        let rows = [
            ("long = \"sat0\"", 10, "peer.split.long", "the bond's interface"),
            ("transparent = true", 10, "peer.split.transparent", "leave it out"),
            ("proxy = \"10.0.0.1:1080\"", 10, "peer.split.proxy", "[gateway]"),
            ("proxy_local = true", 10, "peer.split.proxy_local", "[gateway]"),
            ("proxy_user = \"a\"", 10, "peer.split.proxy_user", "[gateway]"),
            ("proxy_password = \"a\"", 10, "peer.split.proxy_password", "[gateway]"),
            ("proxy_password_file = \"a\"", 10, "peer.split.proxy_password_file", "[gateway]"),
            ("inside = [\"fs0\"]", 10, "peer.split.inside", "on the other side"),
            ("rate = \"1kbit\"", 10, "peer.split.rate", "from 8kbit"),
            ("discipline = \"fair\"", 10, "peer.split.discipline", "drr"),
            ("memory = \"10kB\"", 10, "peer.split.memory", "from 1MB"),
            ("nonsense = 1", 10, "", "nonsense"),
        ];
        for (line, at, setting, advice) in rows {
            let text = HEAD.to_owned() + &peer(0, "\"10.20.0.0/16\"", &format!("[peer.split]\n{line}\n"));
            let error = parse(&text).expect_err(line);
            assert_eq!((error.line, error.setting.as_str()), (at, setting), "{line}\n{error}");
            assert!(error.problem.contains(advice), "{line}\n{error}");
        }
        let split = "[peer.split]\ninitial_window = \"4MB\"\n";
        for (head, nets, setting) in [
            (HEAD.to_owned() + "lock = true\n", "\"0.0.0.0/0\"", "peer.split"),
            (HEAD.to_owned(), "", "peer.split"),
            (HEAD.to_owned(), "\"0.0.0.0/0\"", "peer.split.initial_window"),
            (HEAD.to_owned() + "table = 7\n", "\"10.20.0.0/16\"", "peer.split.initial_window"),
            (HEAD.replace("\"fs0\"", "\"fs0\"\nkind = \"port\"\ndevice = \"eth0\""), "", "peer.split"),
        ] {
            let error = parse(&(head + &peer(0, nets, split))).expect_err(nets);
            assert_eq!(error.setting, setting, "{error}");
        }
        assert!(parse(&(HEAD.to_owned() + &peer(0, "\"10.20.0.0/16\"", split))).is_ok());
        // What lies behind its peer may call what lies behind others, whether these come before it or after.
        for (own, other) in [(0, 1), (1, 0)] {
            let mut peers = [peer(own, "\"10.20.0.0/16\"", split), peer(other, "\"0.0.0.0/0\"", "")];
            for _ in 0..2 {
                let error = parse(&(HEAD.to_owned() + &peers.concat())).expect_err("the other peer's routes");
                assert_eq!(error.setting, "peer.split.initial_window", "{error}");
                assert!(error.problem.contains("0.0.0.0/0"), "{error}");
                peers.reverse();
            }
        }
        let text = HEAD.to_owned() + &peer(0, "\"10.20.0.0/16\"", "[[peer.split]]\n");
        assert!(parse(&text).expect_err("two").problem.contains("write `[peer.split]`"));
        // What has no effect is told, where it stands.
        let text =
            HEAD.to_owned() + &peer(0, "\"10.20.0.0/16\"", "[peer.split]\nfair_queueing = false\nqueue = \"1MB\"\n");
        let notices = parse(&text).expect("good").notices;
        let told: Vec<_> = notices.iter().map(|notice| (notice.line, notice.setting.as_str())).collect();
        assert_eq!(told, [(11, "peer.split.queue")]);
    }

    #[test]
    fn what_is_part_of_rules_and_sockets_needs_a_restart_as_of_a_gateway() {
        let with = |line: &str| {
            let split = format!("[peer.split]\n{line}\n");
            parse(&(HEAD.to_owned() + &peer(0, "\"10.20.0.0/16\"", &split))).expect(line)
        };
        for (line, restart) in [
            ("rate = \"9Mbit\"", false),
            ("memory = \"9MB\"", false),
            ("inside = [\"lan0\"]", true),
            ("fair_queueing = false", true),
            ("congestion = \"bbr\"", true),
        ] {
            let needing: Vec<String> = with("").needing_restart(&with(line)).into_iter().collect();
            let name = line.split(' ').next().unwrap_or_default();
            assert_eq!(needing, Vec::from_iter(restart.then(|| format!("peer.split.{name}"))), "{line}");
        }
    }
}
