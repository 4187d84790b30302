//! The lock, or kill switch: nothing leaves this host but through the interface, whether its daemon runs or not.
//!
//! A table of the kernel's packet rules, `inet fairspan-NAME`. It is there before the daemon changes a route, and stays when
//! the daemon stops, is killed or crashes, until it is taken away on purpose. Each packet is judged where it leaves, when
//! its device is settled, so that no rule of anyone's that leads it elsewhere comes after that. What this host makes and
//! what it forwards is judged before, too: only there a sender can be told.
//!
//! | what passes | why nothing else can look like it |
//! |---|---|
//! | through the interface, and to this host itself | |
//! | UDP with the daemon's mark, and TCP where channels use it | marks are set with CAP_NET_ADMIN or CAP_NET_RAW, and not carried out of another namespace |
//! | DHCP, neighbour discovery and listener reports of IPv6 | their ports and their protocol take a capability too; nothing of it is forwarded |
//! | to `lock_except`, but no DNS | the user's wish |
//!
//! With `dns`, questions of this host to any resolver are led to that one: whatever program puts whatever resolver into
//! /etc/resolv.conf, nothing has to be written there, and nothing be restored after a kill.
//!
//! Frames of packet sockets, such as those of Ethernet channels, pass none of this; they take CAP_NET_RAW.

use crate::config::Config;
use crate::netlink::NetlinkError;
use crate::netlink::nftables::{Hook, Kind, PacketRule, Transaction, tables};
use crate::status::LockStatus;
use std::fmt;
use std::net::IpAddr;
use thiserror::Error;

const TCP: u8 = 6;
const UDP: u8 = 17;
/// DNS, and DNS over TLS or QUIC.
const DNS: [u16; 2] = [53, 853];
/// Neighbour discovery without what routers say (RFC 4861): router solicitations, neighbour solicitations and
/// advertisements.
const DISCOVERY: [u8; 3] = [133, 135, 136];
/// What tells switches and routers whom to send neighbour discovery to (RFC 2710, RFC 3810): report, done, report.
const LISTENER: [u8; 3] = [131, 132, 143];
/// Where addresses are changed, by convention: of destinations, and of sources.
const BEFORE_ROUTING: i32 = -100;
const BEHIND_ROUTING: i32 = 100;
/// Behind what else looks at packets: the last word is that of whoever drops.
const LAST: i32 = 300;

/// Why there is no lock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}{}", .0, if self.lacks_tables() { ABSENT } else { "" })]
pub struct LockError(NetlinkError);

const ABSENT: &str = "; this kernel lacks what a lock needs: nf_tables for inet, with its expression `reject`, and `nat` and `masq` where \
                      there is `dns` (modules nf_tables, nft_reject_inet, nft_nat, nft_masq). Load them, or do without by `lock = false`";

impl LockError {
    /// Whether a privilege is missing.
    pub fn is_permission(&self) -> bool {
        matches!(self.0.errno(), Some(libc::EPERM | libc::EACCES))
    }

    fn lacks_tables(&self) -> bool {
        // Without nf_tables there is no such protocol or subsystem; without an expression no such entry.
        let lacking = [libc::EPROTONOSUPPORT, libc::EAFNOSUPPORT, libc::EOPNOTSUPP, libc::ENOENT];
        self.0.errno().is_some_and(|errno| lacking.contains(&errno))
    }
}

/// The lock of one interface, as its daemon knows it.
#[derive(Debug)]
pub struct Lock {
    interface: String,
    /// What puts it in place, where the configuration wants one.
    rules: Option<Rules>,
}

/// What a configuration says of its lock.
#[derive(Clone, Debug)]
struct Rules {
    mark: u32,
    /// Channels go over TCP too.
    tcp: bool,
    except: Vec<ipnet::IpNet>,
    dns: Vec<IpAddr>,
}

impl Lock {
    /// What `config` says of a lock; nothing is done yet.
    pub fn of(config: &Config) -> Lock {
        let interface = &config.interface;
        let rules = Rules {
            mark: interface.fwmark,
            tcp: config.has_tcp(),
            except: interface.lock_except.clone(),
            dns: interface.dns.clone(),
        };
        Lock { interface: interface.name.clone(), rules: interface.lock.then_some(rules) }
    }

    /// Whether the configuration wants one.
    pub fn is_wanted(&self) -> bool {
        self.rules.is_some()
    }

    /// Locks, where that is wanted. What an earlier lock of this interface was is replaced in one step.
    ///
    /// # Errors
    /// What the kernel says; then everything is as it was.
    pub fn set(&self) -> Result<(), LockError> {
        let Some(transaction) = self.transaction() else { return Ok(()) };
        transaction.commit(&format!("lock {}", self.interface)).map_err(LockError)
    }

    /// Whether the kernel could [`set`](Self::set) it: nothing is changed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn attempt(&self) -> Result<(), LockError> {
        let Some(transaction) = self.transaction() else { return Ok(()) };
        transaction.attempt(&format!("lock {}", self.interface)).map_err(LockError)
    }

    /// What puts it in place, where it is wanted.
    fn transaction(&self) -> Option<Transaction> {
        let rules = self.rules.as_ref()?;
        let mut transaction = Transaction::of(&table_of(&self.interface));
        // Only what is there can be deleted, and then it is gone.
        transaction.create();
        transaction.delete();
        transaction.create();
        rules.write(&self.interface, &mut transaction);
        Some(transaction)
    }

    /// Whether the kernel has a lock of this interface.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn is_set(&self) -> Result<bool, LockError> {
        tables(Some(&table_of(&self.interface))).map(|found| !found.is_empty()).map_err(LockError)
    }

    /// Sets it again where another program took it away, as one that empties all tables does, and says so.
    pub(crate) fn keep(&self) {
        if self.rules.is_none() || self.is_set() != Ok(false) {
            return;
        }
        match self.set() {
            Ok(()) => tracing::warn!(interface = self.interface, "another program removed the lock: it is set again"),
            Err(error) => tracing::warn!(interface = self.interface, %error, "another program removed the lock"),
        }
    }

    /// For status: nothing where there is no lock, nor should be.
    pub(crate) fn status(&self) -> Option<LockStatus> {
        let (wanted, set) = (self.is_wanted(), self.is_set());
        let detail = match &set {
            Ok(true) if wanted => self.to_string(),
            Ok(true) => LEFT.to_owned(),
            Ok(false) => "another program removed it".to_owned(),
            Err(error) => error.to_string(),
        };
        let set = set.unwrap_or(false);
        (wanted || set).then_some(LockStatus { wanted, set, detail })
    }
}

/// Of a lock that the configuration does not want.
const LEFT: &str =
    "left by an earlier run or `fairspan lock`, as the configuration has none; `fairspan unlock` takes it away";

impl fmt::Display for Lock {
    /// What passes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nothing leaves but through {}", self.interface)?;
        match self.rules.as_ref().map(|rules| rules.except.as_slice()) {
            None | Some([]) => Ok(()),
            Some(except) => {
                let nets: Vec<String> = except.iter().map(ToString::to_string).collect();
                write!(f, ", and to {}", nets.join(", "))
            }
        }
    }
}

/// Takes the lock of an interface away; whether there was one.
///
/// # Errors
/// What the kernel says.
pub fn remove(interface: &str) -> Result<bool, LockError> {
    let table = table_of(interface);
    if tables(Some(&table)).map_err(LockError)?.is_empty() {
        return Ok(false);
    }
    let mut transaction = Transaction::of(&table);
    transaction.delete();
    transaction.commit(&format!("unlock {interface}")).map_err(LockError)?;
    Ok(true)
}

/// The interfaces that have a lock.
///
/// # Errors
/// What the kernel says.
pub fn locked() -> Result<Vec<String>, LockError> {
    let all = tables(None).map_err(LockError)?;
    Ok(all.iter().filter_map(|table| table.strip_prefix(PREFIX)).map(ToOwned::to_owned).collect())
}

const PREFIX: &str = "fairspan-";

fn table_of(interface: &str) -> String {
    format!("{PREFIX}{interface}")
}

impl Rules {
    /// The chains and rules, in the order in which they are tried.
    fn write(&self, interface: &str, to: &mut Transaction) {
        let mut rules: Vec<(&str, PacketRule)> = Vec::new();
        let rule = PacketRule::new;

        // What passes whether this host makes it or forwards it.
        rules.push(("passes", rule().leaves_by(interface).accept()));
        rules.push(("passes", rule().leaves_by("lo").accept()));
        for protocol in [UDP, TCP] {
            for port in DNS {
                rules.push(("passes", rule().protocol(protocol).towards_port(port).go_back()));
            }
        }
        for net in &self.except {
            rules.push(("passes", rule().towards(*net).accept()));
        }

        // What this host alone may send.
        rules.push(("own", rule().marked(self.mark).protocol(UDP).accept()));
        if self.tcp {
            rules.push(("own", rule().marked(self.mark).protocol(TCP).accept()));
        }
        rules.push(("own", rule().version(false).protocol(UDP).ports(68, 67).accept()));
        rules.push(("own", rule().version(true).protocol(UDP).ports(546, 547).accept()));
        for kind in DISCOVERY {
            rules.push(("own", rule().icmpv6(kind).of_the_link().accept()));
        }
        for kind in LISTENER {
            rules.push(("own", rule().icmpv6(kind).accept()));
        }

        for chain in ["passes", "own"] {
            to.chain(chain);
        }
        for (chain, hook, own) in
            [("output", Hook::Output, true), ("forward", Hook::Forward, false), ("leaves", Hook::Postrouting, true)]
        {
            to.base_chain(chain, Kind::Filter, hook, LAST);
            rules.push((chain, rule().jump("passes")));
            if own {
                rules.push((chain, rule().jump("own")));
            }
            if hook == Hook::Output && !self.dns.is_empty() {
                // It is led elsewhere now, and where it leaves is seen only there.
                for protocol in [UDP, TCP] {
                    rules.push((chain, rule().protocol(protocol).towards_port(DNS[0]).accept()));
                }
            }
            // Where a packet leaves, there is no more telling.
            rules.push((chain, if hook == Hook::Postrouting { rule().drop() } else { rule().reject() }));
        }
        if !self.dns.is_empty() {
            self.lead_names(interface, to, &mut rules);
        }
        for (chain, rule) in &rules {
            to.rule(chain, rule);
        }
    }

    /// Questions of this host to resolvers anywhere go to those of `dns`, through the interface and from its address.
    fn lead_names(&self, interface: &str, to: &mut Transaction, rules: &mut Vec<(&str, PacketRule)>) {
        let rule = PacketRule::new;
        to.base_chain("names", Kind::Nat, Hook::Output, BEFORE_ROUTING);
        to.base_chain("askers", Kind::Nat, Hook::Postrouting, BEHIND_ROUTING);
        // A resolver on this host asks others itself.
        rules.push(("names", rule().leaves_by("lo").accept()));
        rules.push(("names", rule().marked(self.mark).accept()));
        for server in &self.dns {
            for protocol in [UDP, TCP] {
                let asks = |rule: PacketRule| rule.version(server.is_ipv6()).protocol(protocol).towards_port(DNS[0]);
                rules.push(("names", asks(rule()).redirect(*server)));
                let led = asks(rule().leaves_by(interface)).towards((*server).into());
                rules.push(("askers", led.redirected().masquerade()));
            }
        }
    }
}
