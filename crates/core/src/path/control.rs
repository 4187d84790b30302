//! A law of congestion control on one path: how much may be under way there, and how fast it goes.
//!
//! What it is: what the peer's feedback says of our frames ([`Report`]) is told to a [`Law`], and a frame may
//! go while less is under way than the law's window. Which law, is a setting; nothing here depends on it. Frames that are
//! lost are not sent again: what they carried is others' business. Where nothing is told for a retransmission timeout (RFC 6298),
//! all that is under way is given up, so that a path whose reports are lost does not stop for ever.
//!
//! Losses and marks of one window are one sign ([`Episode`]; RFC 3168, 6.1.2). A scalable law answers a loss also where a mark of the same window came
//! first (RFC 8257, 3.5; RFC 9331, 4.3), since what it did for that was little. Cost: the law's, once a frame and once a report. Invariant: a
//! timeout is set whenever something is under way.

use super::flight::Report;
use super::receipts::REPORT_WITHIN;
use crate::congestion::{Acked, Algorithm, AnyLaw, Config, Congested, Law, PathRate, Sent, window};
use crate::loss::episode::Episode;
use crate::loss::rtt::{self, Rtt};
use crate::units::{Bytes, Rate, Span, Time};

/// Least time until what is not told of counts as lost.
const LEAST_TIMEOUT: Span = Span::from_millis(200);
/// Nor this much longer, however often nothing was told: what an outage cost is tried again soon after it, and in mode
/// `stripe` a channel that is not tried holds up all others. A frame each time is no load.
const MOST_TIMEOUT: Span = Span::from_secs(3);

/// The law of one path.
#[derive(Clone, Debug)]
pub(crate) struct Control {
    law: AnyLaw,
    episode: Episode,
    /// The last one that a loss began, of a scalable law.
    losses: Option<Episode>,
    rtt: Rtt,
    last_sent: Time,
    /// When all that is under way is given up.
    due: Option<Time>,
    /// Whether the window stopped the sender since the last report.
    limited: bool,
    /// Nobody asked for a law, but for rates.
    measures: bool,
    /// The path is so fast that it is not what limits.
    fast: bool,
    /// There is no other path, so that nothing depends on its rate.
    alone: bool,
}

/// A path that was found this fast is not what limits: the processors of both ends are, and pacing would only cost their time.
const FAST: Rate = Rate::from_mbit(1000);
/// Until it is found to be slower than this.
const NO_LONGER: Rate = Rate::from_mbit(700);

impl Control {
    /// A law that measures the path's rate, so that it and other paths can share traffic, and limits no more than that needs.
    pub(crate) fn measuring(segment: usize) -> Control {
        Control { measures: true, ..Control::new(Algorithm::Probe, segment) }
    }

    /// `algorithm` at the beginning, for frames of `segment` bytes at most.
    pub(crate) fn new(algorithm: Algorithm, segment: usize) -> Control {
        let mut config = Config::new(algorithm, u32::try_from(segment).unwrap_or(u32::MAX));
        config.window.slow_start = window::SlowStart::HyStartPlusPlus;
        config.window.grow_only_when_limited = true;
        config.window.paced = true;
        let rtt = rtt::Config { minimum: LEAST_TIMEOUT, maximum: MOST_TIMEOUT, ..rtt::Config::default() };
        Control {
            law: AnyLaw::new(&config),
            episode: Episode::default(),
            losses: algorithm.is_scalable().then(Episode::default),
            rtt: Rtt::new(&rtt),
            last_sent: Time::ZERO,
            due: None,
            limited: false,
            measures: false,
            fast: false,
            alone: false,
        }
    }

    /// Whether a frame may go while `in_flight` is under way.
    #[inline]
    pub(crate) fn has_room(&self, in_flight: Bytes) -> bool {
        self.is_free() || in_flight < self.law.window()
    }

    /// How long a report may be away: the peer may hold it back, which round trips do not count (RFC 9002, 6.2.1).
    fn patience(&self) -> Span {
        self.rtt.timeout() + REPORT_WITHIN
    }

    /// How fast frames go; `None` before a round trip was measured, and where the path is not what limits.
    pub(crate) fn pacing_rate(&self) -> Option<Rate> {
        self.law.pacing_rate().filter(|_| !self.is_free())
    }

    /// Says whether there is no other path.
    pub(crate) fn set_alone(&mut self, alone: bool) {
        self.alone = alone;
    }

    /// Whether there is no other path.
    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Whether frames go as the host sends them, where the law only measures.
    #[inline]
    fn is_free(&self) -> bool {
        (self.fast || self.alone) && self.measures
    }

    /// Looks whether the path is what limits.
    fn look(&mut self) {
        let bound = if self.fast { NO_LONGER } else { FAST };
        self.fast = self.law.path_rate().is_some_and(|rate| rate >= bound);
    }

    /// Whether the law finds the rate of the path.
    pub(crate) fn finds_rate(&self) -> bool {
        self.law.wants_delivery_rate()
    }

    /// The rate that the path was found to carry, where that is what limits.
    pub(crate) fn path_rate(&self) -> Option<Rate> {
        self.law.path_rate().filter(|_| !self.is_free())
    }

    /// The same, whether or not frames keep to it.
    pub(crate) fn measured_rate(&self) -> Option<Rate> {
        self.law.path_rate()
    }

    /// Whether a queue stands on the path, as far as the law looks for one.
    pub(crate) fn has_queue(&self) -> bool {
        self.law.has_queue()
    }

    /// Whether the path may carry much more than what was found.
    pub(crate) fn is_starting(&self) -> bool {
        self.law.is_starting()
    }

    /// The path's rate was measured before anything was sent.
    pub(crate) fn on_path_rate(&mut self, rate: PathRate) {
        self.law.on_path_rate(rate);
        self.look();
    }

    /// A frame of `bytes` went out, `in_flight` before it; the next one's position is `end`.
    pub(crate) fn on_sent(&mut self, now: Time, bytes: Bytes, in_flight: Bytes, end: u64) {
        if in_flight == Bytes::ZERO {
            let idle = now.since(self.last_sent);
            if idle > self.rtt.timeout() {
                self.law.on_idle(idle);
            }
        }
        self.law.on_sent(&Sent { now, bytes, in_flight, end });
        self.last_sent = now;
        self.due.get_or_insert(now + self.patience());
        self.limited |= !self.has_room(in_flight + bytes);
    }

    /// The peer told of our frames; `in_flight` is under way now, and the next frame's position is `next`.
    pub(crate) fn on_report(&mut self, now: Time, report: &Report, in_flight: Bytes, next: u64) {
        if let Some(rtt) = report.rtt {
            self.rtt.on_sample(rtt);
        }
        let congested = |bytes, begins| Congested {
            now,
            bytes,
            in_flight: report.in_flight,
            limit: Bytes::new(u64::MAX),
            begins,
            exact: true,
        };
        if let Some(lost) = report.lost_up_to {
            let begins = self.begins_by_loss(lost, next);
            self.law.on_lost(&congested(report.lost, begins));
        }
        if report.marked > 0 {
            let begins = self.episode.begins(report.highest, next);
            // The peer counts frames: of the bytes the same share had marks.
            let bytes = u128::from(report.delivered.as_u64()) * u128::from(report.marked);
            let bytes = bytes / u128::from(report.packets.max(report.marked));
            self.law.on_ecn(&congested(Bytes::new(bytes as u64), begins));
        }
        if report.delivered > Bytes::ZERO {
            self.law.on_acked(&Acked {
                now,
                bytes: report.delivered,
                in_flight: report.in_flight,
                rtt: report.rtt,
                waited: report.waited,
                smoothed_rtt: self.rtt.smoothed(),
                up_to: report.highest + 1,
                next,
                limited: core::mem::take(&mut self.limited),
                recovering: self.episode.goes_on(report.highest + 1),
                delivery: report.sample,
            });
            self.rtt.reset_backoff();
        }
        self.look();
        self.due = (in_flight > Bytes::ZERO).then(|| now + self.patience());
    }

    /// The frame at `position` is lost: whether an episode begins.
    fn begins_by_loss(&mut self, position: u64, next: u64) -> bool {
        if let Some(losses) = &mut self.losses
            && losses.begins(position, next)
        {
            self.episode = *losses;
            return true;
        }
        self.episode.begins(position, next)
    }

    /// When [`Control::on_timeout`] is due.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Time> {
        self.due
    }

    /// Nothing was told for too long: `lost` bytes were under way and are given up.
    pub(crate) fn on_timeout(&mut self, now: Time, lost: Bytes, next: u64) {
        self.due = None;
        let begins = self.begins_by_loss(next.saturating_sub(1), next);
        self.law.on_timeout(&Congested {
            now,
            bytes: lost,
            in_flight: lost,
            limit: Bytes::new(u64::MAX),
            begins,
            exact: true,
        });
        self.rtt.back_off();
    }

    /// The peer is another one: nothing is under way.
    pub(crate) fn forget_peer(&mut self) {
        self.due = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::delivery_rate::Sample;
    use crate::options::Words;

    const MS: fn(u64) -> Time = Time::from_millis;
    const FRAME: Bytes = Bytes::new(1000);

    /// As many frames as the window lets go at `now`; how many are under way then.
    fn fill(control: &mut Control, now: Time, next: &mut u64, mut in_flight: u64) -> u64 {
        while control.has_room(Bytes::new(in_flight * 1000)) {
            *next += 1;
            control.on_sent(now, FRAME, Bytes::new(in_flight * 1000), *next);
            in_flight += 1;
        }
        in_flight
    }

    fn report(in_flight: u64, delivered: u64, highest: u64) -> Report {
        Report {
            in_flight: Bytes::new(in_flight * 1000),
            delivered: Bytes::new(delivered * 1000),
            highest,
            rtt: Some(Span::from_millis(50)),
            sample: Some(Sample {
                delivered: Bytes::new(delivered * 1000),
                interval: Span::from_millis(50),
                prior_delivered: Bytes::new((highest - delivered) * 1000),
                delivered_at: MS(50 * highest),
                app_limited: false,
            }),
            ..Report::default()
        }
    }

    #[test]
    fn every_law_opens_with_deliveries_and_those_of_loss_close_with_one() {
        for &algorithm in Algorithm::ALL {
            let mut control = Control::new(algorithm, 1000);
            let mut next = 1;
            let sent = fill(&mut control, MS(0), &mut next, 0);
            assert_eq!(sent, 10, "{}: RFC 6928", algorithm.word());
            control.on_report(MS(50), &report(sent, sent, next - 1), Bytes::ZERO, next);
            let more = fill(&mut control, MS(50), &mut next, 0);
            assert!(more > sent && control.pacing_rate().is_some(), "{}", algorithm.word());
            let lost = Report { lost: FRAME, lost_up_to: Some(next - 4), ..report(more, more - 1, next - 1) };
            control.on_report(MS(100), &lost, Bytes::ZERO, next);
            let less = fill(&mut control, MS(100), &mut next, 0);
            let closes = !(algorithm == Algorithm::Delay || algorithm.has_model());
            assert_eq!(less < more, closes, "{}: {less} after {more}", algorithm.word());
        }
    }

    /// The window after a mark, then a loss of the same window, then another one, and then one of the window before the first loss was answered.
    fn marked_and_lost(algorithm: Algorithm) -> [u64; 4] {
        let mut control = Control::new(algorithm, 1000);
        let mut next = 1;
        for round in 1..=5 {
            let sent = fill(&mut control, MS(50 * round), &mut next, 0);
            control.on_report(MS(50 * (round + 1)), &report(sent, sent, next - 1), Bytes::ZERO, next);
        }
        let first = next;
        fill(&mut control, MS(300), &mut next, 0);
        let room = |control: &Control| (0..).find(|frames| !control.has_room(Bytes::new(frames * 1000))).unwrap();
        let mut told = |report: Report| {
            control.on_report(MS(350), &report, Bytes::new(1000), next);
            room(&control)
        };
        let lost = |position| Report {
            lost: FRAME,
            lost_up_to: Some(position),
            in_flight: Bytes::new(20_000),
            ..Report::default()
        };
        let mark = Report { marked: 1, packets: 1, ..report(20, 1, first) };
        [
            told(Report { delivered: Bytes::new(1000), ..mark }),
            told(lost(first + 1)),
            told(lost(first + 2)),
            told(lost(first)),
        ]
    }

    #[test]
    fn a_loss_in_the_window_of_a_mark_is_answered_once_by_scalable_laws_and_by_others_with_the_mark() {
        for &algorithm in Algorithm::ALL {
            let [mark, loss, second, earlier] = marked_and_lost(algorithm);
            let answered = algorithm.is_scalable();
            assert_eq!(loss < mark, answered, "{}: {mark}, then {loss}", algorithm.word());
            assert_eq!((second, earlier), (loss, loss), "{}", algorithm.word());
        }
        assert!(Algorithm::Prague.is_scalable() && Algorithm::Dctcp.is_scalable() && !Algorithm::Cubic.is_scalable());
    }

    #[test]
    fn silence_gives_up_what_is_under_way_and_backs_off() {
        let mut control = Control::new(Algorithm::ALL[0], 1000);
        let mut next = 1;
        let sent = fill(&mut control, MS(0), &mut next, 0);
        assert_eq!(control.timeout(), Some(MS(1005)), "RFC 6298 (2.1), and the report's time");
        control.on_timeout(MS(1005), Bytes::new(sent * 1000), next);
        assert_eq!(control.timeout(), None);
        assert_eq!(fill(&mut control, MS(1005), &mut next, 0), 1, "the loss window");
        assert_eq!(control.timeout(), Some(MS(3010)));
    }

    #[test]
    fn after_a_long_outage_a_frame_goes_within_three_seconds() {
        let mut control = Control::new(Algorithm::ALL[0], 1000);
        let (mut next, mut now) = (1, MS(0));
        for _ in 0..20 {
            let sent = fill(&mut control, now, &mut next, 0);
            let due = control.timeout().expect("something is under way");
            assert!(due.since(now) <= MOST_TIMEOUT + REPORT_WITHIN, "{:?} after {now:?}", due.since(now));
            now = due;
            control.on_timeout(now, Bytes::new(sent * 1000), next);
        }
    }
}
