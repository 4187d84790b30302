//! The links as selectors see them.

use crate::set::LinkSet;
use crate::units::{Bytes, ChannelId, Rate, Span, Time};
use alloc::vec::Vec;

/// What is known of one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// It is one of the bond's links. Numbers of links that left are not given to others.
    pub member: bool,
    /// It carries packets now.
    pub usable: bool,
    /// What it carries; `None` where that is not known.
    pub rate: Option<Rate>,
    /// Whether both ends may send at once. Default true.
    pub full_duplex: bool,
    /// Share of the traffic, from 1 to 1000, where the rates are not known. Default 1.
    pub weight: u32,
    /// Lower is better, where a policy looks for the best. Default 0.
    pub priority: u32,
    /// Bytes that were given to it and have not left yet, as far as the sender knows.
    pub backlog: Bytes,
    /// When all that was given to it will have left; in the past where it is idle.
    pub free: Time,
    /// From leaving to arriving, without the sender's own queue, as measured or configured; `None` while not known.
    pub delay: Option<Span>,
    /// By how much that delay varies: a packet may take up to `delay + jitter`.
    pub jitter: Span,
}

impl Default for LinkState {
    fn default() -> LinkState {
        LinkState {
            member: true,
            usable: true,
            rate: None,
            full_duplex: true,
            weight: 1,
            priority: 0,
            backlog: Bytes::ZERO,
            free: Time::ZERO,
            delay: None,
            jitter: Span::ZERO,
        }
    }
}

/// All links, numbered from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Links {
    states: Vec<LinkState>,
    members: LinkSet,
    usable: LinkSet,
}

impl Links {
    /// Links in this state, at most [`ChannelId::LIMIT`]; more are left out.
    pub fn new(states: impl IntoIterator<Item = LinkState>) -> Links {
        let mut links = Links::default();
        for (n, state) in states.into_iter().take(ChannelId::LIMIT).enumerate() {
            links.set(ChannelId(n as u8), state);
        }
        links
    }

    /// Gives `link` this state; the numbers below that were never given are no members.
    pub fn set(&mut self, link: ChannelId, state: LinkState) {
        let absent = LinkState { member: false, usable: false, ..LinkState::default() };
        while self.states.len() <= link.index() {
            self.states.push(absent);
        }
        self.states[link.index()] = state;
        let put = |set: LinkSet, is: bool| if is { set.with(link) } else { set.without(link) };
        self.members = put(self.members, state.member);
        self.usable = put(self.usable, state.member && state.usable);
    }

    /// What is known of `link`; `None` for a number that was never given.
    #[inline]
    pub fn get(&self, link: ChannelId) -> Option<&LinkState> {
        self.states.get(link.index())
    }

    /// Says what waits for `link` and until when.
    #[inline]
    pub fn set_backlog(&mut self, link: ChannelId, backlog: Bytes, free: Time) {
        if let Some(state) = self.states.get_mut(link.index()) {
            (state.backlog, state.free) = (backlog, free);
        }
    }

    /// One more than the highest number given.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no link was ever given.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The bond's links, usable or not.
    #[inline]
    pub fn members(&self) -> LinkSet {
        self.members
    }

    /// The links that carry packets now.
    #[inline]
    pub fn usable(&self) -> LinkSet {
        self.usable
    }

    /// The usable links and their states, lowest number first.
    pub fn each_usable(&self) -> impl Iterator<Item = (ChannelId, &LinkState)> + Clone {
        self.usable.iter().filter_map(|link| Some((link, self.states.get(link.index())?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_usable_links_follow_their_states() {
        assert!(Links::default().is_empty());
        let mut links = Links::new([LinkState::default(); 3]);
        assert!(!links.is_empty());
        links.set(ChannelId(1), LinkState { usable: false, ..LinkState::default() });
        links.set(ChannelId(5), LinkState::default());
        assert_eq!(links.len(), 6);
        assert_eq!(links.get(ChannelId(4)).map(|state| (state.member, state.usable)), Some((false, false)));
        assert_eq!(links.members().bits(), 0b10_0111);
        assert_eq!(links.usable().iter().map(ChannelId::index).collect::<Vec<_>>(), [0, 2, 5]);
        assert_eq!((links.usable().nth(1), links.usable().nth(3)), (Some(ChannelId(2)), None));
        links.set(ChannelId(0), LinkState { member: false, ..LinkState::default() });
        assert_eq!(links.usable().first(), Some(ChannelId(2)));
    }
}
