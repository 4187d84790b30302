//! Rules that say which routing table counts.

use super::request::{Netlink, NetlinkError, PROTOCOL};
use netlink_packet_core::{NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL};
use netlink_packet_route::route::RouteProtocol;
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// A rule that says which routing table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// For IPv6, else for IPv4.
    pub is_v6: bool,
    /// Its place: lower ones are tried first.
    pub priority: u32,
    /// Applies to packets with this mark only.
    pub fwmark: Option<u32>,
    /// Applies to all packets but those.
    pub invert: bool,
    /// The table to look into.
    pub table: u32,
    /// Ignore what is found there if its prefix is this long or shorter: 0 ignores default routes.
    pub suppress_prefix_length: Option<u32>,
}

impl Netlink {
    /// Adds a rule.
    ///
    /// # Errors
    /// What the kernel says (`EEXIST`: there is one).
    pub fn add_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let action = format!("add {}", describe_rule(rule));
        self.change(RouteNetlinkMessage::NewRule(rule_message(rule)), NLM_F_CREATE | NLM_F_EXCL, &action)
    }

    /// Removes a rule that [`add_rule`](Netlink::add_rule) added.
    ///
    /// # Errors
    /// What the kernel says (`ENOENT`: there is none).
    pub(crate) fn remove_rule(&mut self, rule: &Rule) -> Result<(), NetlinkError> {
        let action = format!("remove {}", describe_rule(rule));
        self.change(RouteNetlinkMessage::DelRule(rule_message(rule)), 0, &action)
    }

    /// The rules of both families that carry our [`PROTOCOL`], those that a killed daemon left among them.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn own_rules(&mut self) -> Result<Vec<Rule>, NetlinkError> {
        let mut rules = Vec::new();
        for family in [AddressFamily::Inet, AddressFamily::Inet6] {
            let mut message = RuleMessage::default();
            message.header.family = family;
            match self.request(RouteNetlinkMessage::GetRule(message), NLM_F_DUMP, "list the routing rules") {
                Ok(answers) => rules.extend(answers.iter().filter_map(own_rule_of)),
                // The kernel has no rules for this family: then there are none of ours.
                Err(error) if matches!(error.errno(), Some(libc::EAFNOSUPPORT | libc::EOPNOTSUPP)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(rules)
    }
}

fn rule_message(rule: &Rule) -> RuleMessage {
    let mut message = RuleMessage::default();
    message.header.family = if rule.is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet };
    message.header.action = RuleAction::ToTable;
    message.header.flags = if rule.invert { RuleFlags::Invert } else { RuleFlags::empty() };
    message.attributes.push(RuleAttribute::Priority(rule.priority));
    message.attributes.push(RuleAttribute::Table(rule.table));
    message.attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
    if let Some(mark) = rule.fwmark {
        message.attributes.push(RuleAttribute::FwMark(mark));
        message.attributes.push(RuleAttribute::FwMask(u32::MAX));
    }
    if let Some(length) = rule.suppress_prefix_length {
        message.attributes.push(RuleAttribute::SuppressPrefixLen(length));
    }
    message
}

fn own_rule_of(message: &RouteNetlinkMessage) -> Option<Rule> {
    let RouteNetlinkMessage::NewRule(message) = message else { return None };
    let mut rule = Rule {
        is_v6: message.header.family == AddressFamily::Inet6,
        priority: 0,
        fwmark: None,
        invert: message.header.flags.contains(RuleFlags::Invert),
        table: u32::from(message.header.table),
        suppress_prefix_length: None,
    };
    let mut own = false;
    for attribute in &message.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => rule.priority = *priority,
            RuleAttribute::FwMark(mark) => rule.fwmark = Some(*mark),
            RuleAttribute::Table(table) => rule.table = *table,
            // The kernel says -1 for none.
            RuleAttribute::SuppressPrefixLen(u32::MAX) => {}
            RuleAttribute::SuppressPrefixLen(length) => rule.suppress_prefix_length = Some(*length),
            RuleAttribute::Protocol(protocol) => own = u8::from(*protocol) == PROTOCOL,
            _ => {}
        }
    }
    own.then_some(rule)
}

fn describe_rule(rule: &Rule) -> String {
    let not = if rule.invert { "not " } else { "" };
    let mark = rule.fwmark.map(|mark| format!("fwmark {mark:#x} ")).unwrap_or_default();
    let suppress =
        rule.suppress_prefix_length.map(|length| format!(" suppress_prefixlength {length}")).unwrap_or_default();
    let family = if rule.is_v6 { "IPv6" } else { "IPv4" };
    format!("{family} rule {}: {not}{mark}lookup {}{suppress}", rule.priority, rule.table)
}
