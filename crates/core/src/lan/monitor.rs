//! Which links work: carrier with its delays ([`Supervisor`]), and ARP probes.
//!
//! What it is: Linux's `miimon`, `updelay`, `downdelay` and `arp_interval`, `arp_ip_target`, `missed_max`, `arp_validate`,
//! `arp_all_targets`.
//! Source: the kernel's bonding documentation, and the 6.1 driver for what `arp_validate` counts. A link is *usable* while its carrier has been well for `updelay` (or is bad for less than
//! `downdelay`) and, where targets are given, it lately received what `arp_validate` lets count:
//!
//! | `arp_validate` | on the link in use | on the others |
//! |---|---|---|
//! | `none` | any frame | any frame |
//! | `active` | an answer | any frame |
//! | `backup` | any frame | an answer |
//! | `all` | an answer | an answer |
//! | `filter` | any ARP packet | any ARP packet |
//! | `filter_active` | an answer | any ARP packet |
//! | `filter_backup` | any ARP packet | an answer |
//!
//! An answer is a target's, to a probe of this very link. A policy that uses all links has no others; while there is no link
//! in use, each is treated as the one. With `arp_all_targets=all` every target has to answer where an answer is asked for; a frame that
//! counts although it is no answer counts for all of them.
//!
//! Departures: every link probes for itself, from an Ethernet address of its own, with the probe of RFC 5227 that makes
//! nobody learn an address. Linux probes from the link in use and lets the others listen for its broadcasts, which proves
//! less, and from the bond's address, which only the link in use may send without confusing the switch. An answer counts for
//! the link whose address it is for, also where a switch with a static trunk sends it over another link. The default is `all`,
//! where Linux's is `none`. As in Linux,
//! `updelay` does not count while no link is usable: the first one with carrier is used at once.
//!
//! Cost: O(links) a probe interval. Invariant: a link without carrier for longer than `downdelay` is not usable.

use crate::select::supervision::{ArpAllTargets, Config, Supervisor};
use crate::set::LinkSet;
use crate::units::{ChannelId, Span, Time};
use crate::wire::mac::Mac;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::Ipv4Addr;

/// What is known of one link's probes.
#[derive(Clone, Debug)]
struct Watch {
    /// From where it probes.
    mac: Mac,
    /// When each target answered last, or something came that counts as well.
    answered: Vec<Time>,
    /// Its probes are answered.
    reaches: bool,
}

impl Watch {
    /// Something that counts for all targets.
    fn hear(&mut self, now: Time) {
        self.answered.fill(now);
    }

    /// Since when what is asked for is missing.
    fn since(&self, all: ArpAllTargets) -> Time {
        let answered = self.answered.iter().copied();
        match all {
            ArpAllTargets::Any => answered.max(),
            ArpAllTargets::All => answered.min(),
        }
        .unwrap_or(Time::ZERO)
    }
}

/// The supervision of all links.
#[derive(Clone, Debug)]
pub(super) struct Monitor {
    config: Config,
    supervisor: Supervisor,
    carrier: LinkSet,
    targets: Vec<Ipv4Addr>,
    links: Vec<Watch>,
    next_probe: Option<Time>,
}

impl Monitor {
    /// Links that probe from `macs`, without carrier yet.
    pub(super) fn new(config: Config, mut targets: Vec<Ipv4Addr>, macs: impl Iterator<Item = Mac>) -> Monitor {
        // One that is named twice answers once.
        let mut seen = BTreeSet::new();
        targets.retain(|target| seen.insert(*target));
        let answered = alloc::vec![Time::ZERO; targets.len()];
        let watch = |mac| Watch { mac, answered: answered.clone(), reaches: true };
        let probes = config.arp_interval > Span::ZERO && !targets.is_empty();
        Monitor {
            config,
            supervisor: Supervisor::new(config),
            carrier: LinkSet::EMPTY,
            links: macs.map(watch).collect(),
            targets,
            next_probe: probes.then_some(Time::ZERO),
        }
    }

    /// The links that can be used.
    pub(super) fn usable(&self) -> LinkSet {
        let reaching = self.links.iter().enumerate().filter(|(_, watch)| watch.reaches);
        let reaching = reaching.fold(LinkSet::EMPTY, |set, (n, _)| set.with(ChannelId(n as u8)));
        self.supervisor.usable() & reaching
    }

    pub(super) fn set_carrier(&mut self, now: Time, link: ChannelId, carrier: bool) {
        let Some(watch) = self.links.get_mut(link.index()) else { return };
        if carrier && !self.carrier.contains(link) {
            // Its targets have their time to answer.
            watch.hear(now);
            watch.reaches = true;
        }
        self.carrier = if carrier { self.carrier.with(link) } else { self.carrier.without(link) };
        self.observe(now);
    }

    /// `link` probes from `mac` from now on; its targets have their time to answer there.
    pub(super) fn set_mac(&mut self, now: Time, link: ChannelId, mac: Mac) {
        if let Some(watch) = self.links.get_mut(link.index()) {
            watch.mac = mac;
            watch.hear(now);
        }
    }

    fn observe(&mut self, now: Time) {
        let members = LinkSet::below(self.links.len());
        self.supervisor.observe(now, members, self.carrier);
    }

    /// Whether `mac` is where a link probes from.
    pub(super) fn is_prober(&self, mac: Mac) -> bool {
        self.next_probe.is_some() && self.links.iter().any(|watch| watch.mac == mac)
    }

    /// `from` answered a probe that came from `mac`.
    pub(super) fn on_answer(&mut self, now: Time, mac: Mac, from: Ipv4Addr) {
        let (all, patience) = (self.config.arp_all_targets, self.config.silence().unwrap_or(Span::ZERO));
        let Some(target) = self.targets.iter().position(|target| *target == from) else { return };
        for watch in self.links.iter_mut().filter(|watch| watch.mac == mac) {
            watch.answered[target] = now;
            watch.reaches |= now.since(watch.since(all)) <= patience;
        }
    }

    /// `link` received some frame; `active`: it is in use. Whether it can be used now and could not before.
    pub(super) fn on_frame(&mut self, now: Time, link: ChannelId, is_arp: bool, active: bool) -> bool {
        if self.next_probe.is_none() || !self.config.arp_validate.takes(is_arp, active) {
            return false;
        }
        let Some(watch) = self.links.get_mut(link.index()) else { return false };
        watch.hear(now);
        !core::mem::replace(&mut watch.reaches, true)
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.supervisor.poll_timeout().into_iter().chain(self.next_probe).min()
    }

    /// Does what is due; `probe` is called for each probe to send: on which link, from which address, for whom.
    pub(super) fn handle_timeout(&mut self, now: Time, mut probe: impl FnMut(ChannelId, Mac, Ipv4Addr)) {
        self.observe(now);
        let (Some(due), Some(patience)) = (self.next_probe, self.config.silence()) else { return };
        if now < due {
            return;
        }
        self.next_probe = Some(now + self.config.arp_interval);
        for (n, watch) in self.links.iter_mut().enumerate() {
            let link = ChannelId(n as u8);
            watch.reaches &= now.since(watch.since(self.config.arp_all_targets)) <= patience;
            if self.carrier.contains(link) {
                self.targets.iter().for_each(|target| probe(link, watch.mac, *target));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const LINK: ChannelId = ChannelId(0);
    const OTHER: ChannelId = ChannelId(1);
    const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn monitor(change: impl FnOnce(&mut Config), targets: &[Ipv4Addr]) -> Monitor {
        let mut config = Config::default();
        change(&mut config);
        let mut monitor = Monitor::new(config, targets.to_vec(), [MAC, Mac([2, 0, 0, 0, 0, 2])].into_iter());
        monitor.set_carrier(at(0), LINK, true);
        monitor.set_carrier(at(0), OTHER, true);
        // What `updelay` holds back at the start.
        monitor.handle_timeout(at(0) + config.updelay, |_, _, _| {});
        monitor.next_probe = monitor.next_probe.map(|_| at(0));
        monitor
    }

    impl Monitor {
        fn is_usable(&self, link: ChannelId) -> bool {
            self.usable().contains(link)
        }
    }

    #[test]
    fn a_link_is_used_during_downdelay_and_a_short_failure_is_not_seen() {
        let mut monitor = monitor(|c| c.downdelay = Span::from_millis(200), &[]);
        monitor.set_carrier(at(100), LINK, false);
        assert!(monitor.is_usable(LINK) && monitor.poll_timeout() == Some(at(300)));
        monitor.set_carrier(at(250), LINK, true);
        monitor.handle_timeout(at(400), |_, _, _| {});
        assert!(monitor.is_usable(LINK));
        monitor.set_carrier(at(500), LINK, false);
        monitor.handle_timeout(at(699), |_, _, _| {});
        assert!(monitor.is_usable(LINK));
        monitor.handle_timeout(at(700), |_, _, _| {});
        assert!(!monitor.is_usable(LINK));
    }

    #[test]
    fn updelay_counts_only_while_another_link_is_usable() {
        let mut monitor = monitor(|c| c.updelay = Span::from_millis(200), &[]);
        monitor.set_carrier(at(1000), LINK, false);
        monitor.set_carrier(at(1100), LINK, true);
        assert!(!monitor.is_usable(LINK) && monitor.poll_timeout() == Some(at(1300)));
        monitor.handle_timeout(at(1300), |_, _, _| {});
        assert!(monitor.is_usable(LINK));
        monitor.set_carrier(at(1400), LINK, false);
        monitor.set_carrier(at(1400), OTHER, false);
        monitor.set_carrier(at(1500), LINK, true);
        assert!(monitor.is_usable(LINK), "at once: there is no other");
    }

    /// Probes at 0, 100, 200 ms; answers until 200; with missed_max = 2 it is down at the first check after 450.
    #[test]
    fn a_link_whose_probes_are_not_answered_goes_down_after_missed_max_and_comes_back_with_an_answer() {
        let mut monitor = monitor(|c| c.arp_interval = Span::from_millis(100), &[TARGET]);
        let mut probes = 0;
        for ms in (0..=400).step_by(100) {
            assert_eq!(monitor.poll_timeout(), Some(at(ms)));
            monitor.handle_timeout(at(ms), |_, _, target| probes += usize::from(target == TARGET));
            if ms <= 200 {
                monitor.on_answer(at(ms), MAC, TARGET);
                // Somebody else's word counts for nothing.
                monitor.on_answer(at(ms), Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 9));
            }
        }
        assert_eq!(probes, 10);
        assert_eq!((monitor.is_usable(LINK), monitor.is_usable(OTHER)), (true, false));
        monitor.handle_timeout(at(500), |_, _, _| {});
        assert!(!monitor.is_usable(LINK));
        monitor.on_answer(at(510), MAC, TARGET);
        assert!(monitor.is_usable(LINK));
    }

    #[test]
    fn a_target_that_is_named_twice_is_asked_and_answers_once() {
        let all = |c: &mut Config| (c.arp_interval, c.arp_all_targets) = (Span::from_millis(100), ArpAllTargets::All);
        let mut monitor = monitor(all, &[TARGET, TARGET]);
        let mut probes = 0;
        for ms in (0..=1000).step_by(100) {
            monitor.handle_timeout(at(ms), |link, _, _| probes += usize::from(link == LINK));
            monitor.on_answer(at(ms), MAC, TARGET);
        }
        assert_eq!((probes, monitor.is_usable(LINK), monitor.is_usable(OTHER)), (11, true, false));
    }
}
