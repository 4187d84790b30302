//! What happens to the links, and when.

use fairspan_core::units::{Rate, Span};
use fairspan_live::emulate::{Capacity, Limit, Outage, Profile, Series, Spell};

/// A link, the same in both directions while nothing happens to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    /// Its name, and that of the interfaces at its ends.
    pub(super) name: &'static str,
    /// Mbit/s, Ethernet headers included.
    pub(super) rate_mbit: u32,
    /// One way.
    pub(super) delay_ms: u32,
}

/// The two links, the better one first.
pub(super) const LINKS: [Link; 2] =
    [Link { name: "better", rate_mbit: 40, delay_ms: 15 }, Link { name: "worse", rate_mbit: 20, delay_ms: 30 }];
/// The place of the better link, and of the worse.
const BETTER: usize = 0;
const WORSE: usize = 1;
/// What a link's queue holds: what it sends in this time.
const QUEUE: Span = Span::from_millis(200);
/// When it happens, after the emulator has begun.
pub(super) const HAPPENS: Span = Span::from_secs(14);
/// How long most of it lasts.
const USUAL: Span = Span::from_secs(5);
/// A link that flaps: how long it is gone, and from one time to the next.
const GONE: Span = Span::from_secs(1);
const EVERY: Span = Span::from_millis(1500);
const TIMES: u64 = 8;

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Case {
    /// The better link carries nothing any more, without a word, for 5 s
    BetterFails,
    /// The same, the worse link
    WorseFails,
    /// The better link carries nothing from the sender any more
    FailsThere,
    /// The better link carries nothing to the sender any more
    FailsBack,
    /// The sender's device of the better link is down for 5 s
    Carrier,
    /// It is removed, and made again after 5 s
    Removed,
    /// It gets another address
    Address,
    /// The better link loses 10 % for 5 s
    #[value(name = "loses-10")]
    Loses10,
    /// The better link loses 30 % for 5 s
    #[value(name = "loses-30")]
    Loses30,
    /// The better link loses 50 % for 5 s
    #[value(name = "loses-50")]
    Loses50,
    /// The better link loses 90 % for 5 s
    #[value(name = "loses-90")]
    Loses90,
    /// The better link takes 300 ms longer for 5 s
    Delays,
    /// The better link carries a twentieth for 5 s
    Slows,
    /// The better link is gone for 1 s and there for 0.5 s, eight times
    Flaps,
    /// A translator of addresses (NAT) on the better link's way passes all on from another port
    Rebinding,
    /// The receiver's daemon stands still for 5 s
    Stopped,
    /// Both links carry nothing for 20 s
    AllDown,
}

impl Case {
    /// How long it lasts.
    pub(super) fn lasts(self) -> Span {
        match self {
            Case::AllDown => Span::from_secs(20),
            Case::Flaps => EVERY.times(TIMES - 1) + GONE,
            Case::Address | Case::Rebinding => Span::ZERO,
            _ => USUAL,
        }
    }

    /// For how long there is load after it: long enough for the next attempt of a TCP whose attempts all failed, and for a link
    /// that is held back because it failed often.
    pub(super) fn after(self) -> Span {
        match self {
            Case::AllDown | Case::Flaps => Span::from_secs(20),
            _ => Span::from_secs(6),
        }
    }

    /// The link that is looked at: whether it is in use again.
    pub(super) fn link(self) -> usize {
        if self == Case::WorseFails { WORSE } else { BETTER }
    }

    /// Whether the emulator does it, at its time to the microsecond.
    pub(super) fn is_emulated(self) -> bool {
        !matches!(self, Case::Carrier | Case::Removed | Case::Address | Case::Rebinding | Case::Stopped)
    }

    /// Whether it can happen to TCP without a tunnel.
    pub(super) fn needs_daemon(self) -> bool {
        matches!(self, Case::Rebinding | Case::Stopped)
    }

    /// The links with what happens to them, from the sender and back.
    pub(super) fn profiles(self) -> [[Profile; 2]; 2] {
        [BETTER, WORSE].map(|link| [true, false].map(|there| self.profile(link, there)))
    }

    fn profile(self, index: usize, there: bool) -> Profile {
        let Link { rate_mbit, delay_ms, .. } = LINKS[index];
        let rate = Rate::from_mbit(u64::from(rate_mbit));
        let mut profile = Profile::new(rate, Span::from_millis(u64::from(delay_ms)));
        profile.queue = Limit::Bytes(rate.bytes_in(QUEUE).as_u64());
        if index != self.link() && self != Case::AllDown {
            return profile;
        }
        let outage = Outage { start: HAPPENS, length: self.lasts(), every: None };
        let spell = Spell { start: HAPPENS, length: self.lasts(), ..Spell::default() };
        match self {
            Case::BetterFails | Case::WorseFails | Case::AllDown => profile.outages.push(outage),
            Case::FailsThere if there => profile.outages.push(outage),
            Case::FailsBack if !there => profile.outages.push(outage),
            Case::Loses10 => profile.spells.push(Spell { loss: 0.1, ..spell }),
            Case::Loses30 => profile.spells.push(Spell { loss: 0.3, ..spell }),
            Case::Loses50 => profile.spells.push(Spell { loss: 0.5, ..spell }),
            Case::Loses90 => profile.spells.push(Spell { loss: 0.9, ..spell }),
            Case::Delays => profile.spells.push(Spell { delay: Span::from_millis(300), ..spell }),
            Case::Slows => {
                let slow = Rate::from_bits_per_sec(rate.as_bits_per_sec() / 20);
                let steps = vec![(Span::ZERO, rate), (HAPPENS, slow), (HAPPENS + self.lasts(), rate)];
                profile.capacity = Series::new(steps, Span::from_secs(3600)).map_or(profile.capacity, Capacity::Series);
            }
            Case::Flaps => profile.outages.extend((0..TIMES).map(|time| Outage {
                start: HAPPENS + EVERY.times(time),
                length: GONE,
                every: None,
            })),
            _ => {}
        }
        profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use fairspan_core::units::Time;
    use fairspan_live::emulate::{Schedule, Verdict};

    #[test]
    fn what_the_emulator_does_begins_at_its_time_and_ends_after_its_length() {
        let end = |case: Case| HAPPENS + case.lasts();
        for &case in Case::value_variants() {
            for (index, ways) in case.profiles().iter().enumerate() {
                for profile in ways {
                    assert!(profile.check().is_ok(), "{case:?}");
                    let outages = profile.outages.iter().map(|one| (one.start, one.length));
                    let spells = profile.spells.iter().map(|one| (one.start, one.length));
                    let all: Vec<_> = outages.chain(spells).collect();
                    assert!(all.first().is_none_or(|first| first.0 == HAPPENS), "{case:?}");
                    assert!(all.last().is_none_or(|last| last.0 + last.1 == end(case)), "{case:?}");
                    assert!(case.is_emulated() || all.is_empty(), "{case:?}");
                    assert!(all.is_empty() || index == case.link() || case == Case::AllDown, "{case:?}");
                }
            }
        }
        let failing = |case: Case| case.profiles()[BETTER].each_ref().map(|profile| profile.outages.len());
        assert_eq!([failing(Case::FailsThere), failing(Case::FailsBack)], [[1, 0], [0, 1]]);
        // 1000 bytes at a twentieth of 40 Mbit/s, and 15 ms of delay.
        let [[there, _], _] = Case::Slows.profiles();
        let mut slow = Schedule::new(there, 1).unwrap();
        for (at, took) in [(13_000, 15_200), (15_000, 19_000), (20_000, 15_200)] {
            let due = slow.offer(Time::from_millis(at), 1000);
            assert_eq!(due, Verdict::Deliver(Time::from_millis(at) + Span::from_micros(took)));
        }
    }
}
