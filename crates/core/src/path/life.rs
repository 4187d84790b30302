//! When a path is silent although the peer is not.
//!
//! What it is: the peer sends heartbeats on all paths at the same times. So where one path brings something all the time and another
//! one nothing for longer than some heartbeats, that other path is gone: sooner than its silence alone could tell, and whatever happens to the
//! processes at both ends. One that does not run for a while is silent on all paths, and then no path brings something all the
//! time. Where a path was busy, and another one still is, half a dozen of its reports are missing by the time that counts
//! as silence; where it was not, three of its heartbeats are.
//!
//! | symbol | meaning | here |
//! |---|---|---|
//! | h | a heartbeat's interval while traffic flows | |
//! | S | the setting `silent_after` | |
//! | run of o | from when on path o brought something at least every 3h/2; over once it brought nothing for that long | `Life::run` |
//! | busy | at least [`BUSY`] frames in a tenth of a second | |
//!
//! Path c is silent when it brought nothing for S, or 3h, and the run of another path o covers all of that but 3h/4 at its end: the part of the
//! run that is behind the last that c brought, and behind the run's beginning by as much as c takes longer than o. Where both are
//! busy, 3/5 S are enough, of which h/4 may be uncovered. A run that is over tells nothing: while no traffic flows heartbeats are rare, and what
//! measures one path alone may have been the last that came before. So a train that measures makes no path busy, and behind it a run begins 3h/2 later.
//!
//! Source: ours; RFC 5880's detection time, with another path's arrivals as the clock. Cost: O(1) a frame, O(paths) a look. Invariant: without
//! another path that brings something nothing is silent by this rule.

use crate::units::{Span, Time};

/// Frames in [`WINDOW`] that make a path busy.
const BUSY: u32 = 8;
/// The time in which they are counted.
const WINDOW: Span = Span::from_millis(100);

/// What a path brought lately.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// When it last brought something, or came up.
    heard: Time,
    /// Since when it does so all the time.
    run: Time,
    /// Frames in the window that began then, and in the one before.
    window: Time,
    frames: [u32; 2],
}

/// The times that decide.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The setting; zero: never.
    pub(crate) silent_after: Span,
    pub(crate) heartbeat: Span,
}

fn part(span: Span, of: u64) -> Span {
    Span::from_nanos(span.as_nanos() / of)
}

/// The longest time without anything within a run.
fn gap(heartbeat: Span) -> Span {
    heartbeat + part(heartbeat, 2)
}

impl Life {
    pub(crate) fn new(now: Time) -> Life {
        Life { heard: now, run: now, window: now, frames: [0; 2] }
    }

    /// When the path last brought something.
    pub(crate) fn heard(&self) -> Time {
        self.heard
    }

    /// A valid frame arrived; while traffic flows the peer's heartbeats have this interval.
    #[inline]
    pub(crate) fn on_heard(&mut self, now: Time, heartbeat: Span) {
        if self.is_over(now, heartbeat) {
            self.run = now;
        }
        self.heard = now;
        let since = now.since(self.window);
        if since >= WINDOW {
            self.frames = [0, if since < WINDOW.times(2) { self.frames[0] } else { 0 }];
            self.window = now;
        }
        self.frames[0] += 1;
    }

    /// What was just heard belongs to a train that measures this path alone: it tells neither that traffic flows nor that the peer sends
    /// heartbeats on the others.
    pub(crate) fn on_train_frame(&mut self, now: Time, heartbeat: Span) {
        self.frames[0] = self.frames[0].saturating_sub(1);
        self.run = now + gap(heartbeat);
    }

    /// Whether nothing came for so long that the run has ended.
    fn is_over(&self, now: Time, heartbeat: Span) -> bool {
        now.since(self.heard) > gap(heartbeat)
    }

    /// This process did not run for so long.
    pub(crate) fn on_late(&mut self, late: Span) {
        for time in [&mut self.heard, &mut self.run, &mut self.window] {
            *time += late;
        }
    }

    /// Whether many frames came in the time before the last one.
    fn is_busy(&self) -> bool {
        self.frames[0].max(self.frames[1]) >= BUSY
    }

    /// Whether the path is silent at `now` by what `other` brought, which takes `less` time than this one.
    pub(crate) fn is_silent_beside(&self, now: Time, other: &Life, less: Span, limits: Limits) -> bool {
        let (silence, slack) = self.long(self.is_busy() && other.is_busy(), limits);
        let common = other.heard.since(self.heard.max(other.run + less));
        let told = common + slack >= silence && !other.is_over(now, limits.heartbeat);
        limits.silent_after > Span::ZERO && now.since(self.heard) >= silence && told
    }

    /// How long silence is, and how much sooner the other path may have brought its last: a heartbeat is due there once in so long.
    fn long(&self, busy: bool, limits: Limits) -> (Span, Span) {
        let Limits { silent_after, heartbeat } = limits;
        match busy {
            true => (part(silent_after.times(3), 5), part(heartbeat, 4)),
            false => (silent_after.max(heartbeat.times(3)), part(heartbeat.times(3), 4)),
        }
    }

    /// Before when no look at the other paths is worth it.
    pub(crate) fn look_at(&self, limits: Limits) -> Time {
        self.heard + self.long(self.is_busy(), limits).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Time = Time::from_millis;
    const SPAN: fn(u64) -> Span = Span::from_millis;
    const LIMITS: Limits = Limits { silent_after: SPAN_300, heartbeat: SPAN_100 };
    const SPAN_300: Span = Span::from_millis(300);
    const SPAN_100: Span = Span::from_millis(100);

    /// Brings something every `every` in `from..until`.
    fn brings(life: &mut Life, from: u64, until: u64, every: u64) {
        (from..until).step_by(every as usize).for_each(|at| life.on_heard(MS(at), SPAN_100));
    }

    /// When `quiet`, last heard at 1000, is silent beside one that brings something every `every` from then on.
    fn found(quiet: &Life, mut other: Life, every: u64, less: u64) -> u64 {
        for at in 1000.. {
            if (at - 1000) % every == 0 {
                other.on_heard(MS(at), SPAN_100);
            }
            if quiet.is_silent_beside(MS(at), &other, SPAN(less), LIMITS) {
                return at - 1000;
            }
            assert!(at < 10_000, "never");
        }
        unreachable!()
    }

    #[test]
    fn a_busy_path_is_found_silent_sooner_than_one_with_heartbeats_alone() {
        let (mut busy, mut quiet) = (Life::new(MS(0)), Life::new(MS(0)));
        brings(&mut busy, 5, 1001, 5);
        brings(&mut quiet, 0, 1001, 100);
        assert_eq!(found(&busy, busy, 5, 0), 180);
        assert_eq!(found(&quiet, busy, 5, 0), 300, "three heartbeats");
        assert_eq!(found(&quiet, quiet, 100, 0), 300);
        assert_eq!(found(&busy, quiet, 100, 0), 300, "the stream ended on both, and this one brings no heartbeats");
    }

    #[test]
    fn where_nobody_is_heard_nothing_is_silent_nor_when_all_begin_again() {
        let (mut one, mut other) = (Life::new(MS(0)), Life::new(MS(0)));
        brings(&mut one, 5, 1001, 5);
        brings(&mut other, 5, 1001, 5);
        assert!(!one.is_silent_beside(MS(3000), &other, Span::ZERO, LIMITS));
        // The peer stands still for two seconds; then one path is 150 ms longer than the other.
        brings(&mut other, 3000, 3150, 5);
        assert!(!one.is_silent_beside(MS(3150), &other, SPAN(150), LIMITS));
        brings(&mut other, 3150, 3400, 5);
        assert!(one.is_silent_beside(MS(3400), &other, SPAN(150), LIMITS));
    }

    #[test]
    fn what_one_path_brought_alone_before_traffic_began_is_no_silence_of_the_other() {
        let (mut one, mut other) = (Life::new(MS(0)), Life::new(MS(0)));
        brings(&mut one, 0, 100, 20);
        brings(&mut other, 0, 501, 20);
        assert!(!one.is_silent_beside(MS(4000), &other, Span::ZERO, LIMITS));
        // From the beginning of traffic on the peer sends heartbeats on both.
        brings(&mut other, 4000, 4201, 100);
        assert!(!one.is_silent_beside(MS(4201), &other, Span::ZERO, LIMITS));
        brings(&mut other, 4300, 4301, 100);
        assert!(one.is_silent_beside(MS(4301), &other, Span::ZERO, LIMITS));
    }

    #[test]
    fn a_train_on_one_path_right_before_traffic_begins_is_no_silence_of_the_other() {
        let (mut one, mut other) = (Life::new(MS(0)), Life::new(MS(0)));
        let measures = |life: &mut Life, from: u64, until: u64| {
            for at in from..until {
                life.on_heard(MS(at), SPAN_100);
                life.on_train_frame(MS(at), SPAN_100);
            }
        };
        measures(&mut one, 0, 200);
        measures(&mut other, 200, 390);
        // A report is on its way.
        other.on_heard(MS(400), SPAN_100);
        brings(&mut other, 500, 693, 1);
        assert!(
            !one.is_silent_beside(MS(693), &other, Span::ZERO, LIMITS),
            "neither was busy, and this one may have heartbeats later"
        );
        brings(&mut other, 693, 800, 1);
        assert!(one.is_silent_beside(MS(800), &other, Span::ZERO, LIMITS));
    }

    #[test]
    fn idle_heartbeats_are_no_run() {
        let (mut one, mut other) = (Life::new(MS(0)), Life::new(MS(0)));
        brings(&mut other, 0, 60_000, 5000);
        assert!(!one.is_silent_beside(MS(60_000), &other, Span::ZERO, LIMITS));
        one.on_late(SPAN(7));
        assert_eq!(one.look_at(LIMITS), MS(307));
    }
}
