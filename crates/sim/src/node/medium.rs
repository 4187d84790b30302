//! A medium that one sender has at a time: a radio channel, a bus, a cable that carries one direction only.
//!
//! What it is: who may send next. Directions of links share it. Each keeps its queue, and asks when it has something and does not have the
//! medium; the medium says from when on it may send. There are no collisions, and nothing is lost for the sharing's sake: what is modelled is a medium whose access is
//! ordered, as by polls or by reservations, or a contention so good that only its cost in time is left.
//!
//! | access | who is next |
//! |---|---|
//! | first come | who has asked for the longest time; who still has something after its turn asks again, behind the others |
//! | poll | the members are asked one after the other in their order for ever, and each question takes the turn-around time |
//!
//! Before each packet the medium is silent for `gap`. With first come, a sender that was not the last one has to wait for `turnaround` besides:
//! the radio changes between receiving and sending, or what was sent has to die away. A turn is a number of packets or of bytes, at least
//! one packet; the packet that goes beyond its bytes still goes.
//!
//! Cost: constant an event with first come; a walk over the members with polls. Invariants: one member at most has the medium, and a member that has asked gets it.

use crate::engine::measured::Measured;
use crate::model::{self, Access};
use crate::results::MediumResult;
use fairspan_core::buffer::Limit;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// What a member tells its medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// It has something to send, and does not have the medium.
    Ask,
    /// A packet of so many bytes has gone, or none was there after all; whether there is more.
    Done { bytes: u32, more: bool },
}

/// Who may send from when on, and who no longer, although that had been said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) link: u32,
    pub(crate) at: Time,
    pub(crate) revoked: Option<u32>,
}

/// The member that has it.
#[derive(Clone, Copy, Debug)]
struct Holder {
    member: usize,
    at: Time,
}

/// A medium.
#[derive(Debug)]
pub(crate) struct Medium {
    access: Access,
    turnaround: Span,
    gap: Span,
    turn: Limit,
    /// The links that share it, in the scenario's order.
    members: Vec<u32>,
    /// Who has asked, in that order.
    asking: VecDeque<usize>,
    holder: Option<Holder>,
    /// The last that sent.
    last: Option<usize>,
    /// When the last transmission ended.
    free: Time,
    /// What has gone in this turn.
    gone: (u32, u64),
    /// Since when somebody has had something, and nobody sent.
    silent: Time,
    measured: MediumMeter,
}

/// In the measured time.
#[derive(Clone, Copy, Debug, Default)]
struct MediumMeter {
    packets: u64,
    bytes: u64,
    turns: u64,
    busy: u64,
    overhead: u64,
}

impl Medium {
    /// The media of a scenario, idle.
    pub(crate) fn all(scenario: &model::Scenario) -> Vec<Medium> {
        let members = members(scenario.media.len(), scenario.links.iter().map(|link| link.medium));
        scenario.media.iter().zip(members).map(|(model, members)| Medium::new(model, members)).collect()
    }

    fn new(model: &model::Medium, members: Vec<u32>) -> Medium {
        Medium {
            access: model.access,
            turnaround: model.turnaround,
            gap: model.gap,
            turn: model.turn,
            members,
            asking: VecDeque::new(),
            holder: None,
            last: None,
            free: Time::ZERO,
            gone: (0, 0),
            silent: Time::ZERO,
            measured: MediumMeter::default(),
        }
    }

    /// A member tells something; whether somebody may send now or later that might not before.
    pub(crate) fn handle(&mut self, now: Time, measured: Measured, link: u32, request: Request) -> Option<Grant> {
        let member = self.members.binary_search(&link).ok()?;
        match request {
            Request::Ask => {
                self.asking.push_back(member);
                match self.holder {
                    None => self.silent = now,
                    // Who was to be asked first may have had nothing then.
                    Some(holder) if self.access == Access::Poll && holder.at > now + self.gap => {
                        let revoked = Some(self.members[holder.member]);
                        self.asking.push_front(holder.member);
                        self.holder = None;
                        let grant = self.next(now)?;
                        return Some(grant)
                            .filter(|grant| Some(grant.link) != revoked)
                            .map(|grant| Grant { revoked, ..grant });
                    }
                    Some(_) => return None,
                }
            }
            Request::Done { bytes, more } => {
                let holder = self.holder.take().filter(|holder| holder.member == member)?;
                self.measured.busy += measured.part(holder.at, now);
                self.measured.overhead += measured.part(self.silent, holder.at);
                if measured.counts(now) {
                    self.measured.packets += u64::from(bytes > 0);
                    self.measured.bytes += u64::from(bytes);
                }
                (self.free, self.silent, self.last) = (now, now, Some(member));
                self.gone = (self.gone.0 + 1, self.gone.1 + u64::from(bytes));
                if more && self.is_turn_left() {
                    let at = now + self.gap;
                    self.holder = Some(Holder { member, at });
                    return Some(Grant { link, at, revoked: None });
                }
                self.measured.turns += u64::from(measured.counts(now));
                self.gone = (0, 0);
                if more {
                    self.asking.push_back(member);
                }
            }
        }
        self.next(now)
    }

    fn is_turn_left(&self) -> bool {
        match self.turn {
            Limit::Packets(most) => self.gone.0 < most,
            Limit::Bytes(most) => self.gone.1 < most,
        }
    }

    /// Gives the medium to one of those who ask, if there is one.
    fn next(&mut self, now: Time) -> Option<Grant> {
        let (place, at) = match self.access {
            Access::FirstCome => {
                let first = *self.asking.front()?;
                let turned = if self.last == Some(first) { Span::ZERO } else { self.turnaround };
                (0, now + turned + self.gap)
            }
            Access::Poll => {
                // Questions that take no time are in order all the same.
                let asked =
                    |(place, member): (usize, &usize)| (self.asked_at(now, *member), self.steps(*member), place);
                let (at, _, place) = self.asking.iter().enumerate().map(asked).min()?;
                (place, at + self.gap)
            }
        };
        let member = self.asking.remove(place)?;
        self.holder = Some(Holder { member, at });
        Some(Grant { link: self.members[member], at, revoked: None })
    }

    /// How many questions there are from the last transmission to the first one to a member.
    fn steps(&self, member: usize) -> u64 {
        let count = self.members.len();
        let first = self.last.map_or(0, |last| last + 1);
        ((member + count - first % count) % count + 1) as u64
    }

    /// When the question to a member that has something now will have been asked: questions have gone round since the last transmission.
    fn asked_at(&self, now: Time, member: usize) -> Time {
        let at = self.free + self.turnaround.times(self.steps(member));
        let round = self.turnaround.times(self.members.len() as u64);
        if at >= now || round == Span::ZERO {
            return at.max(now);
        }
        at + round.times(now.since(at).as_nanos().div_ceil(round.as_nanos()))
    }

    /// What was measured until now.
    pub(crate) fn result(&self, now: Time, measured: Measured, name: &str) -> MediumResult {
        let nanos = (measured.span().as_nanos() as f64).max(1.0);
        let mut meter = self.measured;
        if let Some(holder) = self.holder {
            meter.overhead += measured.part(self.silent, holder.at.min(now));
            meter.busy += measured.part(holder.at.min(now), now);
        }
        MediumResult {
            name: name.to_owned(),
            packets: meter.packets,
            bytes: meter.bytes,
            turns: meter.turns,
            load: meter.busy as f64 / nanos,
            overhead: meter.overhead as f64 / nanos,
        }
    }
}

/// The links of each of `count` media, in order, by the medium of each link; a walk over the links for all media together.
fn members(count: usize, links: impl Iterator<Item = Option<u32>>) -> Vec<Vec<u32>> {
    let mut members = vec![Vec::new(); count];
    for (link, medium) in links.enumerate() {
        if let Some(its) = medium.and_then(|medium| members.get_mut(medium as usize)) {
            its.push(link as u32);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_media_find_their_links_in_one_walk() {
        let mut asked = 0;
        let media = [Some(1), None, Some(0), Some(1), Some(3)];
        let found = members(4, media.into_iter().inspect(|_| asked += 1));
        assert_eq!(found, [vec![2], vec![0, 3], vec![], vec![4]]);
        assert_eq!(asked, 5);
    }

    fn medium(access: Access, members: u32, turnaround: u64, gap: u64, turn: Limit) -> Medium {
        let (turnaround, gap) = (Span::from_micros(turnaround), Span::from_micros(gap));
        let model = model::Medium { name: "m".into(), access, turnaround, gap, turn };
        Medium::new(&model, (0..members).map(|number| 10 * number).collect())
    }

    fn us(micros: u64) -> Time {
        Time::ZERO + Span::from_micros(micros)
    }

    fn all() -> Measured {
        Measured::new(Span::ZERO, Span::from_secs(1))
    }

    fn ask(medium: &mut Medium, now: u64, link: u32) -> Option<(u32, Time)> {
        medium.handle(us(now), all(), link, Request::Ask).map(|grant| (grant.link, grant.at))
    }

    fn done(medium: &mut Medium, now: u64, link: u32, more: bool) -> Option<(u32, Time)> {
        let request = Request::Done { bytes: 1000, more };
        medium.handle(us(now), all(), link, request).map(|grant| (grant.link, grant.at))
    }

    #[test]
    fn who_asked_first_is_next_and_a_change_of_the_sender_takes_the_turn_around() {
        let mut shared = medium(Access::FirstCome, 3, 50, 10, Limit::Packets(1));
        assert_eq!(ask(&mut shared, 100, 20), Some((20, us(160))));
        assert_eq!((ask(&mut shared, 120, 0), ask(&mut shared, 130, 10)), (None, None));
        // It has more, and asks again behind the others.
        assert_eq!(done(&mut shared, 500, 20, true), Some((0, us(560))));
        assert_eq!(done(&mut shared, 700, 0, false), Some((10, us(760))));
        assert_eq!(done(&mut shared, 800, 10, false), Some((20, us(860))));
        assert_eq!(done(&mut shared, 900, 20, true), Some((20, us(910))), "nobody else wants it");
        assert_eq!(done(&mut shared, 1000, 20, false), None);
        let result = shared.result(us(2000), all(), "m");
        assert_eq!((result.packets, result.turns), (5, 5));
        // 340 + 140 + 40 + 40 + 90 us of a second, and four changes and a gap.
        assert!((result.load - 650e-6).abs() < 1e-12, "{}", result.load);
        assert!((result.overhead - 250e-6).abs() < 1e-12, "{}", result.overhead);
    }

    #[test]
    fn a_turn_holds_so_many_packets_or_bytes_and_the_last_one_goes_whole() {
        for turn in [Limit::Packets(3), Limit::Bytes(2500)] {
            let mut shared = medium(Access::FirstCome, 2, 50, 10, turn);
            assert_eq!(ask(&mut shared, 0, 0), Some((0, us(60))));
            assert_eq!(ask(&mut shared, 0, 10), None);
            assert_eq!(done(&mut shared, 100, 0, true), Some((0, us(110))));
            assert_eq!(done(&mut shared, 200, 0, true), Some((0, us(210))));
            assert_eq!(done(&mut shared, 300, 0, true), Some((10, us(360))), "{turn:?}");
        }
    }

    // The poller goes round all the time, and each question takes 100 us.
    #[test]
    fn polls_go_round_and_who_has_something_sends_when_it_is_asked() {
        let mut shared = medium(Access::Poll, 4, 100, 0, Limit::Packets(1));
        // Questions end at 100, 200, 300, 400 and so on: member 1 is asked at 200, 600, 1000.
        assert_eq!(ask(&mut shared, 650, 10), Some((10, us(1000))));
        // Member 3 is asked before that, at 800, and member 1 after it has sent.
        let grant = shared.handle(us(700), all(), 30, Request::Ask).expect("a grant");
        assert_eq!(grant, Grant { link: 30, at: us(800), revoked: Some(10) });
        assert_eq!(done(&mut shared, 900, 30, true), Some((10, us(1100))));
        // Those who have nothing are asked, too: 2, then 3.
        assert_eq!(done(&mut shared, 1200, 10, false), Some((30, us(1400))));
        assert_eq!(done(&mut shared, 1500, 30, false), None);
    }

    #[test]
    fn polls_that_take_no_time_are_turns_in_order() {
        let mut shared = medium(Access::Poll, 3, 0, 0, Limit::Packets(1));
        assert_eq!(ask(&mut shared, 5, 20), Some((20, us(5))));
        assert_eq!((ask(&mut shared, 6, 10), ask(&mut shared, 7, 0)), (None, None));
        assert_eq!(done(&mut shared, 10, 20, true), Some((0, us(10))), "behind the last comes the first");
        assert_eq!(done(&mut shared, 20, 0, true), Some((10, us(20))));
        assert_eq!(done(&mut shared, 30, 10, false), Some((20, us(30))));
    }

    // By the same questions as a slow model that asks one after the other.
    #[test]
    fn the_next_question_is_found_without_walking_through_those_before() {
        let mut rng = fairspan_core::rng::Rng::new(7);
        for _ in 0..500 {
            let count = 1 + rng.below(6) as u32;
            let mut shared = medium(Access::Poll, count, 1 + rng.below(50), 0, Limit::Packets(1));
            let last = rng.below(u64::from(count) + 1) as usize;
            shared.last = last.checked_sub(1);
            shared.free = us(rng.below(100));
            let (member, now) = (rng.below(u64::from(count)) as usize, us(100 + rng.below(2000)));
            let (mut asked, mut at) = (last % count as usize, shared.free + shared.turnaround);
            while asked != member || at < now {
                asked = (asked + 1) % count as usize;
                at += shared.turnaround;
            }
            assert_eq!(shared.asked_at(now, member), at, "{shared:?} {member} {now:?}");
        }
    }
}
