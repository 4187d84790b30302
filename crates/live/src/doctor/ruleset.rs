//! What packet rules do with a packet, as far as they say it for certain.
//!
//! The rules are those that `nft -j list ruleset` prints (libnftables-json(5)). They are walked as the kernel walks them, with a packet of which not
//! everything is known. A condition is met, is not met, or cannot be told; what cannot be told, and what is not known here, may let the packet through. So a
//! packet that is said to be dropped is dropped whatever the rest of it is, and nothing is said of the others.

use serde_json::Value;
use std::collections::HashMap;
use std::net::IpAddr;

/// The deepest that chains jump into each other, as in the kernel.
const DEPTH: usize = 16;

/// Where chains see packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// What this host gets.
    Input,
    /// What this host sends.
    Output,
}

/// What is known of a packet.
#[derive(Clone, Debug)]
pub(super) struct Packet<'a> {
    pub(super) hook: Hook,
    pub(super) is_v6: bool,
    /// `udp` or `tcp`.
    pub(super) protocol: &'a str,
    /// The device by which it comes or leaves, where that is known.
    pub(super) device: Option<&'a str>,
    /// This host's other end; `None`: somebody, whose address is not known.
    pub(super) other: Option<IpAddr>,
    /// Ports that it may have, from the first to the last.
    pub(super) source_port: (u16, u16),
    pub(super) destination_port: (u16, u16),
    /// `new`, or `established`: it answers what was let out. `None`: not known.
    pub(super) state: Option<&'a str>,
}

/// A chain that drops something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Dropped {
    pub(super) family: String,
    pub(super) table: String,
    pub(super) chain: String,
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Truth {
    Yes,
    No,
    Unknown,
}

impl Truth {
    fn of(holds: bool) -> Truth {
        if holds { Truth::Yes } else { Truth::No }
    }

    fn not(self) -> Truth {
        match self {
            Truth::Yes => Truth::No,
            Truth::No => Truth::Yes,
            Truth::Unknown => Truth::Unknown,
        }
    }

    /// Both hold.
    fn and(self, other: Truth) -> Truth {
        match (self, other) {
            (Truth::No, _) | (_, Truth::No) => Truth::No,
            (Truth::Yes, Truth::Yes) => Truth::Yes,
            _ => Truth::Unknown,
        }
    }

    /// One of them holds.
    fn or(self, other: Truth) -> Truth {
        self.not().and(other.not()).not()
    }
}

/// What may become of a packet.
#[derive(Default)]
struct May {
    pass: bool,
    drop: bool,
}

/// How a walk through a chain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Walk {
    /// A verdict was reached for certain.
    Ended,
    /// The packet, or one that differs in what is not known, gets to the end.
    Goes,
}

/// A chain, by family, table and name.
type Name = (String, String, String);

/// All rules of a host.
#[derive(Debug, Default)]
pub(super) struct Ruleset {
    /// Hook, and whether what no rule settles passes.
    bases: Vec<(Name, Hook, bool)>,
    rules: HashMap<Name, Vec<Vec<Value>>>,
    /// Whether some packets may have no state, since a rule says so or one is not understood.
    has_stateless: bool,
}

impl Ruleset {
    /// Reads what `nft` prints; `None` where it is something else.
    pub(super) fn parse(text: &[u8]) -> Option<Ruleset> {
        let document: Value = serde_json::from_slice(text).ok()?;
        let mut ruleset = Ruleset::default();
        for object in document.get("nftables")?.as_array()? {
            if let Some(chain) = object.get("chain") {
                let Some(name) = name_of(chain, "name") else { continue };
                let hook = match chain["hook"].as_str() {
                    Some("input") => Hook::Input,
                    Some("output") => Hook::Output,
                    _ => continue,
                };
                // Of those that translate addresses the verdict is another matter.
                if chain["type"] == "filter" {
                    ruleset.bases.push((name, hook, chain["policy"] != "drop"));
                }
            } else if let Some(rule) = object.get("rule") {
                let Some(name) = name_of(rule, "chain") else { continue };
                let statements = rule["expr"].as_array().cloned().unwrap_or_default();
                let leaves = |(word, content): (&str, &Value)| {
                    word == "notrack" || word == "xt" && !is_bare_condition(word, content)
                };
                ruleset.has_stateless |= statements.iter().filter_map(only).any(leaves);
                ruleset.rules.entry(name).or_default().push(statements);
            }
        }
        Some(ruleset)
    }

    /// The chain that drops `packet`, whatever else it is; `None`: it passes, or may.
    pub(super) fn drops(&self, packet: &Packet<'_>) -> Option<Dropped> {
        let state = packet.state.filter(|_| !self.has_stateless);
        let packet = &Packet { state, ..packet.clone() };
        let families = ["inet", if packet.is_v6 { "ip6" } else { "ip" }];
        let bases = self.bases.iter().filter(|(name, hook, _)| *hook == packet.hook && families.contains(&&*name.0));
        for (name, _, passes) in bases {
            let mut may = May::default();
            if self.walk(name, packet, &mut may, 0) == Walk::Goes {
                *(if *passes { &mut may.pass } else { &mut may.drop }) = true;
            }
            if may.drop && !may.pass {
                let (family, table, chain) = name.clone();
                return Some(Dropped { family, table, chain });
            }
        }
        None
    }

    fn walk(&self, chain: &Name, packet: &Packet<'_>, may: &mut May, depth: usize) -> Walk {
        if depth > DEPTH {
            may.pass = true;
            return Walk::Ended;
        }
        // Whether the packet gets here for certain.
        let mut is_sure = true;
        for rule in self.rules.get(chain).into_iter().flatten() {
            let mut met = Truth::Yes;
            for statement in rule {
                let Some((word, content)) = only(statement) else {
                    met = met.and(Truth::Unknown);
                    continue;
                };
                match word {
                    "counter" | "log" | "mangle" | "notrack" | "comment" => {}
                    "match" => met = met.and(condition(content, packet)),
                    "vmap" => {
                        match self.choose(chain, content, packet, may, (met, depth)) {
                            Chosen::Ends(walk) if is_sure => return walk,
                            Chosen::Ends(_) | Chosen::Unsure => is_sure = false,
                            Chosen::Goes => {}
                        }
                        met = Truth::No;
                    }
                    _ if is_verdict(word) && met != Truth::No => {
                        let walk = self.verdict(chain, (word, content), packet, may, depth);
                        match is_end(word, walk) {
                            true if met == Truth::Yes && is_sure => return walk,
                            // Those for whom the condition holds are gone.
                            true => is_sure = false,
                            false => {}
                        }
                    }
                    _ if is_verdict(word) => {}
                    _ if is_bare_condition(word, content) => met = met.and(Truth::Unknown),
                    // It may end the walk by itself, as those do that give the packet to a program.
                    _ => {
                        met = met.and(Truth::Unknown);
                        may.pass = true;
                    }
                }
                if met == Truth::No {
                    break;
                }
            }
        }
        Walk::Goes
    }

    /// What a verdict does.
    fn verdict(
        &self,
        chain: &Name,
        (word, content): (&str, &Value),
        packet: &Packet<'_>,
        may: &mut May,
        depth: usize,
    ) -> Walk {
        match word {
            "drop" | "reject" => {
                may.drop = true;
                Walk::Ended
            }
            "jump" | "goto" => {
                let target = content["target"].as_str().unwrap_or_default().to_owned();
                self.walk(&(chain.0.clone(), chain.1.clone(), target), packet, may, depth + 1)
            }
            "return" | "continue" => Walk::Goes,
            // Accepted, or given to a program.
            _ => {
                may.pass = true;
                Walk::Ended
            }
        }
    }

    /// What a map of verdicts does.
    fn choose(
        &self,
        chain: &Name,
        map: &Value,
        packet: &Packet<'_>,
        may: &mut May,
        (met, depth): (Truth, usize),
    ) -> Chosen {
        if met == Truth::No {
            return Chosen::Goes;
        }
        let Some(entries) = map["data"]["set"].as_array() else {
            // One with a name is not read.
            may.pass = true;
            return Chosen::Unsure;
        };
        let mut is_sure = true;
        for entry in entries {
            let (value, verdict) = (&entry[0], &entry[1]);
            let holds = met.and(equal(&map["key"], value, packet));
            let Some((word, content)) = only(verdict).filter(|_| holds != Truth::No) else { continue };
            let walk = self.verdict(chain, (word, content), packet, may, depth);
            match (is_end(word, walk), holds) {
                (true, Truth::Yes) if is_sure => return Chosen::Ends(walk),
                (true, _) => is_sure = false,
                (false, Truth::Yes) => break,
                (false, _) => {}
            }
        }
        if is_sure { Chosen::Goes } else { Chosen::Unsure }
    }
}

/// What a map of verdicts did.
enum Chosen {
    /// The walk through the chain ends so.
    Ends(Walk),
    /// The next rule has its turn, for those packets that are still there.
    Unsure,
    /// The next rule has its turn.
    Goes,
}

/// Whether a verdict whose walk ended so leaves nothing to the rest of its chain.
fn is_end(word: &str, walk: Walk) -> bool {
    walk == Walk::Ended || matches!(word, "goto" | "return")
}

fn name_of(object: &Value, name: &str) -> Option<Name> {
    let text = |key: &str| object[key].as_str().map(str::to_owned);
    Some((text("family")?, text("table")?, text(name)?))
}

/// The one word that a statement consists of, with what belongs to it.
fn only(statement: &Value) -> Option<(&str, &Value)> {
    let object = statement.as_object()?;
    object.iter().next().filter(|_| object.len() == 1).map(|(word, content)| (word.as_str(), content))
}

fn is_verdict(word: &str) -> bool {
    matches!(word, "accept" | "drop" | "reject" | "jump" | "goto" | "return" | "continue" | "queue")
}

/// Whether a statement, of which it cannot be told whether it holds, does nothing but let the rest of its rule go on or not.
fn is_bare_condition(word: &str, content: &Value) -> bool {
    matches!(word, "limit" | "quota" | "ct count") || word == "xt" && content["type"] == "match"
}

/// Whether a condition holds.
fn condition(content: &Value, packet: &Packet<'_>) -> Truth {
    let (left, equal) = (&content["left"], || equal(&content["left"], &content["right"], packet));
    // The kernel asks first whether a packet has such a header, and `nft` leaves that out. So no operator fits one without it.
    if lacks(&left["payload"], packet) {
        return Truth::No;
    }
    match content["op"].as_str() {
        Some("==" | "in") => equal(),
        Some("!=") => equal().not(),
        _ => Truth::Unknown,
    }
}

/// Whether a packet has no header of the protocol from which a condition takes something.
fn lacks(payload: &Value, packet: &Packet<'_>) -> bool {
    match payload["protocol"].as_str().unwrap_or_default() {
        protocol @ ("tcp" | "udp") => protocol != packet.protocol,
        protocol @ ("ip" | "ip6") => (protocol == "ip6") != packet.is_v6,
        protocol => matches!(protocol, "icmp" | "icmpv6"),
    }
}

/// Whether what stands left of a condition is what stands right of it, or in it.
fn equal(left: &Value, right: &Value, packet: &Packet<'_>) -> Truth {
    let all = right.get("set").unwrap_or(right);
    if let Some(several) = all.as_array() {
        return several.iter().map(|one| equal(left, one, packet)).fold(Truth::No, Truth::or);
    }
    // A set with a name, which is not read.
    if all.as_str().is_some_and(|text| text.starts_with('@')) {
        return Truth::Unknown;
    }
    let word = |known: &str| all.as_str().map_or(Truth::Unknown, |text| Truth::of(text == known));
    let (device, others) = match packet.hook {
        Hook::Input => (["iifname", "iif"], ["oifname", "oif"]),
        Hook::Output => (["oifname", "oif"], ["iifname", "iif"]),
    };
    if let Some(key) = left["meta"]["key"].as_str() {
        return match key {
            "l4proto" => word(packet.protocol),
            "nfproto" => word(if packet.is_v6 { "ipv6" } else { "ipv4" }),
            "protocol" => word(if packet.is_v6 { "ip6" } else { "ip" }),
            key if device.contains(&key) => match (packet.device, all.as_str()) {
                (Some(known), Some(text)) => match text.strip_suffix('*') {
                    Some(begin) => Truth::of(known.starts_with(begin)),
                    None => Truth::of(known == text),
                },
                // Nobody calls from elsewhere by the device of this host's own.
                (None, Some("lo")) => Truth::No,
                _ => Truth::Unknown,
            },
            key if others.contains(&key) => Truth::No,
            _ => Truth::Unknown,
        };
    }
    if left["ct"]["key"] == "state" {
        return packet.state.map_or(Truth::Unknown, word);
    }
    let payload = &left["payload"];
    let (protocol, field) =
        (payload["protocol"].as_str().unwrap_or_default(), payload["field"].as_str().unwrap_or_default());
    match (protocol, field) {
        _ if lacks(payload, packet) => Truth::No,
        ("tcp" | "udp" | "th", "dport") => port(all, packet.destination_port),
        ("tcp" | "udp" | "th", "sport") => port(all, packet.source_port),
        ("ip", "protocol") | ("ip6", "nexthdr") => word(packet.protocol),
        ("ip" | "ip6", "saddr") if packet.hook == Hook::Input => address(all, packet.other),
        ("ip" | "ip6", "daddr") if packet.hook == Hook::Output => address(all, packet.other),
        _ => Truth::Unknown,
    }
}

/// Whether one of some ports is a value, or in its range.
fn port(value: &Value, (first, last): (u16, u16)) -> Truth {
    let number = |value: &Value| value.as_u64();
    let (from, to) = match value["range"].as_array().map(Vec::as_slice) {
        Some([from, to]) => (number(from), number(to)),
        _ => (number(value), number(value)),
    };
    let (Some(from), Some(to)) = (from, to) else { return Truth::Unknown };
    let (first, last) = (u64::from(first), u64::from(last));
    if from <= first && last <= to {
        Truth::Yes
    } else if last < from || to < first {
        Truth::No
    } else {
        Truth::Unknown
    }
}

/// Whether an address is a value, or in its network or range. Somebody's may be in each, and is in that of all.
fn address(value: &Value, other: Option<IpAddr>) -> Truth {
    let parse = |value: &Value| value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
    let prefix = &value["prefix"];
    if let (Some(net), Some(length)) = (parse(&prefix["addr"]), prefix["len"].as_u64()) {
        let Some(other) = other else { return if length == 0 { Truth::Yes } else { Truth::Unknown } };
        let net = u8::try_from(length).ok().and_then(|length| ipnet::IpNet::new(net, length).ok());
        return net.map_or(Truth::Unknown, |net| Truth::of(net.contains(&other)));
    }
    let Some(other) = other else { return Truth::Unknown };
    if let Some([from, to]) = value["range"].as_array().map(Vec::as_slice) {
        let (Some(from), Some(to)) = (parse(from), parse(to)) else { return Truth::Unknown };
        return Truth::of(from <= other && other <= to);
    }
    parse(value).map_or(Truth::Unknown, |value| Truth::of(value == other))
}

#[cfg(test)]
mod tests;
