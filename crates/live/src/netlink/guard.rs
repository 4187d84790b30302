//! Changes to the host's network that undo themselves.

use super::home::Home;
use super::request::{Netlink, NetlinkError, refused};
use super::route::{Route, TABLE_MAIN};
use super::rule::Rule;
use super::windows::Windows;
use crate::system::system;
use ipnet::IpNet;

/// How traffic is drawn into the tunnel without looping: all packets but those with the mark look into a table of
/// the tunnel's own, after the main table, whose default routes do not count. The tunnel's own sockets set the mark.
///
/// The two rules of each family are those of wg-quick(8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The mark (`SO_MARK`) of the tunnel's own packets; not 0.
    pub fwmark: u32,
    /// The tunnel's routing table; two daemons need two.
    pub table: u32,
    /// The priority of the first rule; the second has the next one. Below 32765, before the main table's own rule.
    pub priority: u32,
}

impl Capture {
    /// The rules, in the order to add them.
    pub fn rules(&self) -> [Rule; 4] {
        let rule = |is_v6, draws| Rule {
            is_v6,
            priority: if draws { self.priority.saturating_add(1) } else { self.priority },
            fwmark: draws.then_some(self.fwmark),
            invert: draws,
            table: if draws { self.table } else { TABLE_MAIN },
            suppress_prefix_length: if draws { None } else { Some(0) },
        };
        [rule(false, false), rule(true, false), rule(false, true), rule(true, true)]
    }

    /// Removes what a killed daemon with these settings left: its rules. (Its interface, and with it all addresses
    /// and routes, went with its process.) Returns how many there were.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn cleanup_stale(&self, netlink: &mut Netlink) -> Result<usize, NetlinkError> {
        let ours = self.rules();
        let mut removed = 0;
        for rule in netlink.own_rules()? {
            // A rule into our table is ours whatever its priority was when it was made.
            if ours.contains(&rule) || rule.table == self.table {
                netlink.remove_rule(&rule)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

/// Changes the host's network, and undoes each change, last first, when it is dropped: also when a thread panics.
#[derive(Debug)]
pub struct Guard {
    netlink: Netlink,
    undo: Vec<Undo>,
    /// What may be there or not: changing it failed, and who asks may not hear of a change that was made.
    doubtful: Vec<Undo>,
}

/// What a guard added.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) addresses: Vec<IpNet>,
    pub(crate) routes: Vec<Route>,
    pub(crate) rules: Vec<Rule>,
}

impl Held {
    fn of<'a>(all: impl Iterator<Item = &'a Undo>) -> Held {
        let mut held = Held::default();
        for undo in all {
            match undo {
                Undo::Address { address, .. } => held.addresses.push(*address),
                Undo::Route(route) => held.routes.push(route.clone()),
                Undo::Rule(rule) => held.rules.push(*rule),
                Undo::Home(_)
                | Undo::Windows(_)
                | Undo::Mtu { .. }
                | Undo::Up { .. }
                | Undo::Mac { .. }
                | Undo::Setting { .. } => {}
            }
        }
        held
    }
}

#[derive(Debug, PartialEq)]
enum Undo {
    Address { device: String, address: IpNet },
    Route(Route),
    Rule(Rule),
    Home(Home),
    Windows(Windows),
    Mtu { device: String, mtu: u32 },
    Up { device: String, up: bool },
    Mac { device: String, mac: [u8; 6], given: [u8; 6] },
    Setting { path: String, value: String },
}

impl Guard {
    /// A guard that has nothing to undo yet, for the namespace of this thread.
    ///
    /// # Errors
    /// As [`Netlink::open`].
    pub fn new() -> Result<Guard, NetlinkError> {
        Ok(Guard { netlink: Netlink::open()?, undo: Vec::new(), doubtful: Vec::new() })
    }

    /// The connection, for queries and for changes that are to stay.
    pub fn netlink(&mut self) -> &mut Netlink {
        &mut self.netlink
    }

    /// Switches an interface on or off, until the guard is dropped.
    ///
    /// # Errors
    /// As [`Netlink::set_up`].
    pub fn set_up(&mut self, device: &str, up: bool) -> Result<(), NetlinkError> {
        let before = self.netlink.interface(device)?.up;
        if before != up {
            self.netlink.set_up(device, up)?;
            self.undo.push(Undo::Up { device: device.to_owned(), up: before });
        }
        Ok(())
    }

    /// Sets an interface's MTU, until the guard is dropped.
    ///
    /// # Errors
    /// As [`Netlink::set_mtu`].
    pub fn set_mtu(&mut self, device: &str, mtu: u32) -> Result<(), NetlinkError> {
        let before = self.netlink.interface(device)?.mtu;
        if before != mtu {
            self.netlink.set_mtu(device, mtu)?;
            self.undo.push(Undo::Mtu { device: device.to_owned(), mtu: before });
        }
        Ok(())
    }

    /// Sets an interface's Ethernet address, until the guard is dropped; one that takes none while it is on is switched
    /// off for that moment.
    ///
    /// # Errors
    /// As [`Netlink::set_address`].
    pub fn set_mac(&mut self, device: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
        self.set_mac_by(device, mac, set_mac)
    }

    /// As [`Guard::set_mac`], of an interface that is not to be switched off.
    ///
    /// # Errors
    /// As [`Netlink::set_address`]; one that takes no other address while it is on has `EBUSY`.
    pub(crate) fn set_mac_running(&mut self, device: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
        self.set_mac_by(device, mac, |netlink, device, mac| netlink.set_address(device, mac))
    }

    fn set_mac_by(
        &mut self,
        device: &str,
        mac: [u8; 6],
        set: impl FnOnce(&mut Netlink, &str, [u8; 6]) -> Result<(), NetlinkError>,
    ) -> Result<(), NetlinkError> {
        let before = self.netlink.interface(device)?.mac;
        if before == Some(mac) {
            return Ok(());
        }
        set(&mut self.netlink, device, mac)?;
        let Some(before) = before else { return Ok(()) };
        let known = self.undo.iter_mut().find_map(|undo| match undo {
            Undo::Mac { device: name, mac, given } if name == device => Some((mac, given)),
            _ => None,
        });
        match known {
            Some((first, given)) => {
                // Other than what we gave it: another device of the name.
                if *given != before {
                    *first = before;
                }
                *given = mac;
            }
            None => self.undo.push(Undo::Mac { device: device.to_owned(), mac: before, given: mac }),
        }
        Ok(())
    }

    /// Keeps the host's own stack away from a device whose frames belong to a bond: it answers no ARP there, has no IPv6
    /// there, and takes no IPv4 packet whose way back leads elsewhere.
    pub(crate) fn set_apart(&mut self, device: &str) {
        for (setting, value) in [
            (format!("/proc/sys/net/ipv4/conf/{device}/arp_ignore"), "8"),
            (format!("/proc/sys/net/ipv4/conf/{device}/rp_filter"), "1"),
            (format!("/proc/sys/net/ipv6/conf/{device}/disable_ipv6"), "1"),
        ] {
            self.set_setting(&setting, value);
        }
    }

    /// Gives an interface an address, until the guard is dropped.
    ///
    /// # Errors
    /// As [`Netlink::add_address`].
    pub fn add_address(&mut self, device: &str, address: IpNet) -> Result<(), NetlinkError> {
        self.netlink.add_address(device, address)?;
        self.undo.push(Undo::Address { device: device.to_owned(), address });
        Ok(())
    }

    /// Adds a route, until the guard is dropped.
    ///
    /// # Errors
    /// As [`Netlink::add_route`].
    pub fn add_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        self.netlink.add_route(route)?;
        self.undo.push(Undo::Route(route.clone()));
        Ok(())
    }

    /// What it added and has not removed.
    pub(crate) fn held(&self) -> Held {
        Held::of(self.undo.iter())
    }

    /// The same, and what may be there since a change of it failed.
    pub(crate) fn perhaps_held(&self) -> Held {
        Held::of(self.undo.iter().chain(&self.doubtful))
    }

    /// Gives an interface an address that it may have: the kernel takes some together with others. Whether it had not.
    ///
    /// # Errors
    /// As [`Netlink::add_address`].
    pub(crate) fn ensure_address(&mut self, device: &str, address: IpNet) -> Result<bool, NetlinkError> {
        let added = self.netlink.add_address(device, address);
        self.ensured(Undo::Address { device: device.to_owned(), address }, added, |_| Ok(true))
    }

    /// Adds a route that there may be, by the same interface. Whether there was none.
    ///
    /// # Errors
    /// As [`Netlink::add_route`].
    pub(crate) fn ensure_route(&mut self, route: &Route) -> Result<bool, NetlinkError> {
        let added = self.netlink.add_route(route);
        self.ensured(Undo::Route(route.clone()), added, |netlink| {
            let alike = |other: &Route| (&other.destination, &other.device) == (&route.destination, &route.device);
            Ok(netlink.routes(route.table)?.iter().any(alike))
        })
    }

    /// Notes what came of something that was added, which may have been there; `is_ours` says whether it is what was meant.
    fn ensured(
        &mut self,
        undo: Undo,
        added: Result<(), NetlinkError>,
        is_ours: impl FnOnce(&mut Netlink) -> Result<bool, NetlinkError>,
    ) -> Result<bool, NetlinkError> {
        let there = match added {
            Err(error) if error.errno() == Some(libc::EEXIST) => match is_ours(&mut self.netlink) {
                Ok(true) => Ok(false),
                Ok(false) => Err(error),
                Err(error) => Err(error),
            },
            added => added.map(|()| true),
        };
        self.forget(&undo);
        if there.is_ok() {
            self.undo.push(undo)
        } else {
            self.doubtful.push(undo)
        }
        there
    }

    /// Takes an address that [`add_address`](Guard::add_address) gave.
    ///
    /// # Errors
    /// As [`Netlink::remove_address`]. One that is gone already is none.
    pub(crate) fn remove_address(&mut self, device: &str, address: IpNet) -> Result<(), NetlinkError> {
        let removed = self.netlink.remove_address(device, address);
        self.removed(Undo::Address { device: device.to_owned(), address }, removed)
    }

    /// Removes a route that [`add_route`](Guard::add_route) added.
    ///
    /// # Errors
    /// As [`Netlink::remove_route`]. One that is gone already is none.
    pub(crate) fn remove_route(&mut self, route: &Route) -> Result<(), NetlinkError> {
        let removed = self.netlink.remove_route(route);
        self.removed(Undo::Route(route.clone()), removed)
    }

    /// Ends what [`capture`](Guard::capture) began.
    ///
    /// # Errors
    /// As [`Netlink::remove_rule`].
    pub(crate) fn release(&mut self) -> Result<(), NetlinkError> {
        for rule in self.perhaps_held().rules {
            let removed = self.netlink.remove_rule(&rule);
            self.removed(Undo::Rule(rule), removed)?;
        }
        Ok(())
    }

    /// Notes what came of something that was removed.
    fn removed(&mut self, undo: Undo, removed: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
        let removed = removed.or_else(unless_undone);
        self.forget(&undo);
        if removed.is_err() {
            self.doubtful.push(undo);
        }
        removed
    }

    fn forget(&mut self, undo: &Undo) {
        self.undo.retain(|other| other != undo);
        self.doubtful.retain(|other| other != undo);
    }

    /// Packets are this host's until the guard is dropped, as these say.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn lead_home(&mut self, homes: [Home; 2]) -> Result<(), NetlinkError> {
        for home in homes {
            match self.netlink.add_home(&home) {
                // A kernel without IPv6 has no such packets, and one where it is switched off (EACCES) neither.
                Err(error)
                    if home.is_v6
                        && matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP | libc::EACCES)) => {}
                other => {
                    other?;
                    self.undo.push(Undo::Home(home));
                }
            }
        }
        Ok(())
    }

    /// Sockets with a mark have other initial windows until the guard is dropped, once [`Netlink::follow_main`] was called.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn widen_windows(&mut self, windows: &Windows) -> Result<(), NetlinkError> {
        self.netlink.add_windows(windows)?;
        self.undo.push(Undo::Windows(windows.clone()));
        Ok(())
    }

    /// Adds a rule, until the guard is dropped.
    ///
    /// # Errors
    /// As [`Netlink::add_rule`].
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        self.netlink.add_rule(rule)?;
        self.undo.push(Undo::Rule(*rule));
        Ok(())
    }

    /// Draws the host's traffic into `capture.table`: removes the rules that a killed daemon left, and adds its own, as far as it has
    /// not done so. The table's routes are added with [`add_route`](Guard::add_route), best before.
    ///
    /// # Errors
    /// As [`Netlink::add_rule`]. What was added by then is undone when the guard is dropped.
    pub fn capture(&mut self, capture: &Capture) -> Result<(), NetlinkError> {
        let held = self.held().rules;
        if held.is_empty() {
            capture.cleanup_stale(&mut self.netlink)?;
        }
        for rule in capture.rules().iter().filter(|rule| !held.contains(rule)) {
            let added = self.netlink.add_rule(rule);
            match self.ensured(Undo::Rule(*rule), added, |_| Ok(true)) {
                // A kernel without IPv6 has no IPv6 traffic to draw.
                Err(error) if rule.is_v6 && matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {
                    self.forget(&Undo::Rule(*rule));
                }
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Lets packets in through `device`, a link of the tunnel, although the rules of [`capture`](Guard::capture)
    /// would send answers elsewhere: the strict reverse-path filter of IPv4 (RFC 3704), where it is on, becomes the
    /// loose one. The peer's packets come without the mark and would fail the strict one.
    pub fn loosen_reverse_path(&mut self, device: &str) {
        let path = |scope: &str| format!("/proc/sys/net/ipv4/conf/{scope}/rp_filter");
        let is_strict = |scope: &str| system().read_setting(&path(scope)).is_ok_and(|value| value.trim() == "1");
        let is_loose = |scope: &str| system().read_setting(&path(scope)).is_ok_and(|value| value.trim() == "2");
        // The larger of the two counts: 0 off, 1 strict, 2 loose.
        if (is_strict("all") || is_strict(device)) && !is_loose("all") {
            self.set_setting(&path(device), "2");
        }
    }

    /// Has what comes by `device` forwarded, over IPv4.
    pub(crate) fn forward(&mut self, device: &str) {
        self.set_setting(&format!("/proc/sys/net/ipv4/conf/{device}/forwarding"), "1");
    }

    /// Undoes everything now, and says what could not be undone.
    pub fn undo(mut self) -> Vec<NetlinkError> {
        self.undo_all()
    }

    /// Sets a kernel setting where that is possible (`/proc/sys` may be read-only in a container).
    fn set_setting(&mut self, path: &str, value: &str) {
        let Ok(before) = system().read_setting(path) else { return };
        let before = before.trim().to_owned();
        if before == value {
            return;
        }
        match system().write_setting(path, value) {
            Ok(()) => self.undo.push(Undo::Setting { path: path.to_owned(), value: before }),
            Err(error) => tracing::warn!(path, value, %error, "cannot change a kernel setting"),
        }
    }

    fn undo_all(&mut self) -> Vec<NetlinkError> {
        let mut failures = Vec::new();
        self.undo.append(&mut self.doubtful);
        while let Some(undo) = self.undo.pop() {
            let netlink = &mut self.netlink;
            let result = match &undo {
                Undo::Address { device, address } => netlink.remove_address(device, *address),
                Undo::Route(route) => netlink.remove_route(route),
                Undo::Rule(rule) => netlink.remove_rule(rule),
                Undo::Home(home) => netlink.remove_home(home),
                Undo::Windows(windows) => netlink.remove_windows(windows),
                Undo::Mtu { device, mtu } => netlink.set_mtu(device, *mtu),
                Undo::Up { device, up } => netlink.set_up(device, *up),
                Undo::Mac { device, mac, .. } => set_mac(netlink, device, *mac),
                // The device, and its settings with it, is gone.
                Undo::Setting { path, .. } if system().read_setting(path).is_err() => Ok(()),
                Undo::Setting { path, value } => system()
                    .write_setting(path, value)
                    .map_err(|error| refused(&format!("set {path} back to {value}"), &error)),
            };
            match result {
                Err(error) if !is_undone_already(&error) => failures.push(error),
                _ => {}
            }
        }
        failures
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for error in self.undo_all() {
            tracing::warn!(%error, "a change to the network stays");
        }
    }
}

fn set_mac(netlink: &mut Netlink, device: &str, mac: [u8; 6]) -> Result<(), NetlinkError> {
    match netlink.set_address(device, mac) {
        Err(error) if error.errno() == Some(libc::EBUSY) => {
            netlink.set_up(device, false)?;
            let result = netlink.set_address(device, mac);
            netlink.set_up(device, true)?;
            result
        }
        other => other,
    }
}

/// The interface, and all that hung on it, is gone; or someone else removed the entry.
fn is_undone_already(error: &NetlinkError) -> bool {
    matches!(error, NetlinkError::NoInterface { .. })
        || matches!(error.errno(), Some(libc::ENODEV | libc::ENOENT | libc::ESRCH | libc::EADDRNOTAVAIL))
}

fn unless_undone(error: NetlinkError) -> Result<(), NetlinkError> {
    if is_undone_already(&error) { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_a_capture_are_those_of_wg_quick_with_the_suppressing_one_first() {
        let capture = Capture { fwmark: 0x51, table: 5100, priority: 32_000 };
        for (i, is_v6) in [(0, false), (1, true)] {
            let rules = capture.rules();
            let suppress = Rule {
                is_v6,
                priority: 32_000,
                fwmark: None,
                invert: false,
                table: TABLE_MAIN,
                suppress_prefix_length: Some(0),
            };
            let draw = Rule {
                is_v6,
                priority: 32_001,
                fwmark: Some(0x51),
                invert: true,
                table: 5100,
                suppress_prefix_length: None,
            };
            assert_eq!((rules[i], rules[i + 2]), (suppress, draw));
        }
    }
}
