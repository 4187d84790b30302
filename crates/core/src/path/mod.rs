//! One channel as it is measured: state, path MTU, round trip, one-way delay, and what the peer's feedback tells.
//!
//! | file | what |
//! |---|---|
//! | [`state`] | up, suspect, down or held, and the signs for it |
//! | `mtu` | the path MTU, probed (RFC 8899) |
//! | `life` | when it is silent although the peer is not |
//! | `hold` | how long it stays out of use after it failed again and again |
//! | `delay` | round trip and one-way delay, from echo requests |
//! | `receipts` | what arrived here of the frames that the peer counts, and when to tell it |
//! | `control` | a law of congestion control, where one is set |
//! | `tail` | when the end of what was sent is to be asked after, where losses are sent again |
//! | `train` | how fast the path is before traffic tells, where a law is to find out |
//! | `worth` | whether it loses so much that it is set aside, where losses are sent again |
//! | `flight` | what we sent and counted: delivered, lost, how fast and how late, as the peer tells |
//!
//! A bond has one `Path` a channel. Frames are counted where the sender's setting `feedback` asks for it; whoever gets counted
//! frames answers. What was measured is read as [`Measured`].

pub(crate) mod control;
pub(crate) mod delay;
pub(crate) mod flight;
pub(crate) mod hold;
pub(crate) mod life;
pub(crate) mod losses;
pub(crate) mod mtu;
pub(crate) mod receipts;
pub mod state;
pub(crate) mod tail;
pub mod train;
pub(crate) mod transit;
pub(crate) mod worth;

pub use state::State;

use crate::congestion::{Algorithm, PathRate};
use crate::units::{Bytes, Rate, Span, Time};
use crate::wire::envelope::Feedback;
use alloc::boxed::Box;
use control::Control;
use delay::Delay;
use flight::{Flight, Transit};
use hold::Hold;
use mtu::Pmtu;
use receipts::Receipts;
use state::Signs;
use tail::{Due, Tail};
use train::Train;
use worth::Worth;

/// What is known of a path. What only feedback tells is `None` without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// Whether it may carry data.
    pub state: State,
    /// For how long it is held back yet because it failed again and again.
    pub held: Option<Span>,
    /// How often it failed lately.
    pub failures: u32,
    /// Whether what goes there comes too late behind what goes by other channels.
    pub late: bool,
    /// Whether so much of what goes there is lost that it brings less than it costs.
    pub lossy: bool,
    /// The round trip, smoothed (RFC 6298).
    pub rtt: Option<Span>,
    /// The rate at which the peer got what we sent.
    pub delivery_rate: Option<Rate>,
    /// The rate that the path was found to carry, where it is measured and limits.
    pub path_rate: Option<Rate>,
    /// By how much its one-way delay, without queues, is longer than that of the fastest path of the bond.
    pub extra_delay: Option<Span>,
    /// What frames wait on the way beyond that.
    pub queue: Option<Span>,
    /// The part of frames that is lost, in millionths, of the last few hundred.
    pub loss_ppm: Option<u32>,
    /// Frames that arrived.
    pub delivered: Option<u64>,
    /// Frames that did not.
    pub lost: Option<u64>,
    /// Bytes that the peer has not told of yet.
    pub in_flight: Option<Bytes>,
}

/// What is done with the data frames of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counting {
    /// They are counted.
    pub(crate) counts: bool,
    /// And a law says how many go.
    pub(crate) law: Option<Algorithm>,
    /// Where none is named: whether the rates of channels that have none are measured.
    pub(crate) measures: bool,
    /// And those that are lost are sent again.
    pub(crate) resends: bool,
    /// A path that tells nothing of them is left as soon as others show that the peer is there.
    pub(crate) prompt: bool,
}

/// How many echo requests go soon where lost packets are sent again.
const FIRST_ECHOES: u8 = delay::ASKED as u8;

/// How long after a path began its trains are taken to be still about to tell its rate.
const TRAINS_WITHIN: Span = Span::from_secs(5);

/// The measurements of one channel, and its state.
#[derive(Debug)]
pub(crate) struct Path {
    /// When nothing was known of it.
    began: Time,
    pub(crate) signs: Signs,
    pub(crate) hold: Hold,
    pub(crate) mtu: Pmtu,
    /// The delay beyond what the bond has sent.
    pub(crate) delay: Delay,
    rtt: Option<Span>,
    /// Since when a first answer to an echo request is asked for; `None` once there was one.
    pub(crate) unanswered: Option<Time>,
    /// The token of the echo requests that are not answered yet, and when the first of them went.
    pub(crate) echo: Option<(u32, Time)>,
    pub(crate) next_echo: Time,
    /// How many echo requests are still to go soon, so that the peer knows how the delay varies before traffic flows.
    pub(crate) echoes: u8,
    /// Where frames are counted.
    pub(crate) flight: Option<Box<Flight>>,
    /// Where a law says how much may be under way; frames are counted then.
    pub(crate) control: Option<Box<Control>>,
    /// Where the law has no rate to begin with.
    pub(crate) train: Option<Box<Train>>,
    /// Where what is lost is sent again.
    tail: Option<Box<Tail>>,
    /// What is seen of its losses then.
    pub(crate) worth: Worth,
    pub(crate) receipts: Receipts,
    /// The newest transit.
    recent: Option<Transit>,
    /// How long the newest frame waited on its way, and when that was told.
    pub(crate) waited: Option<(Time, Span)>,
}

/// A wait that makes no difference: a law that looks for more leaves as much.
const UNNOTICED: Span = Span::from_millis(10);

impl Path {
    /// A path of which nothing is known, over a link whose MTU is `mtu` and whose rate is known or not; its frames are counted as
    /// `counting` says.
    pub(crate) fn new(now: Time, mtu: usize, has_rate: bool, counting: Counting) -> Path {
        let mut path = Path {
            began: now,
            signs: Signs::new(now),
            hold: Hold::default(),
            mtu: Pmtu::new(now, mtu),
            delay: Delay::default(),
            rtt: None,
            unanswered: Some(now),
            echo: None,
            next_echo: now,
            echoes: if counting.resends { FIRST_ECHOES } else { 0 },
            flight: counting.counts.then(Box::default),
            control: None,
            train: None,
            tail: counting.resends.then(|| Box::new(Tail::new(counting.prompt))),
            worth: Worth::default(),
            receipts: Receipts::default(),
            recent: None,
            waited: None,
        };
        path.set_law(mtu, has_rate, counting);
        path
    }

    /// Begins anew with the law that `counting` says for a path whose rate is known or not.
    pub(crate) fn set_law(&mut self, mtu: usize, has_rate: bool, counting: Counting) {
        let measures = counting.measures && counting.law.is_none() && !has_rate;
        let control = match counting.law {
            Some(law) => Some(Control::new(law, mtu)),
            None => measures.then(|| Control::measuring(mtu)),
        };
        self.control = control.map(Box::new);
        self.train = (measures || counting.law == Some(Algorithm::Probe)).then(Box::default);
    }

    /// Takes from the path that the channel had `before` what both ends count, with which the peer goes on, and its failures.
    pub(crate) fn succeed(&mut self, before: Path) {
        (self.receipts, self.hold) = (before.receipts, before.hold);
        if let Some(mut flight) = before.flight {
            flight.begin_anew();
            self.flight = Some(flight);
        }
    }

    /// Asks for a first answer to an echo request, from now on: the link came up, or the peer is another one.
    pub(crate) fn ask_echo(&mut self, now: Time) {
        self.unanswered = Some(now);
        self.next_echo = now;
        self.echo = None;
        if self.tail.is_some() {
            self.echoes = FIRST_ECHOES;
        }
    }

    /// A round trip was measured (RFC 6298: the smoothed one moves by an eighth).
    pub(crate) fn on_rtt(&mut self, rtt: Span) {
        let parts = |old: Span, new: Span, part: u64| {
            Span::from_nanos(old.as_nanos() - old.as_nanos() / part + new.as_nanos() / part)
        };
        let smooth = self.rtt.map_or(rtt, |old| parts(old, rtt, 8));
        self.rtt = Some(smooth);
        if let Some(tail) = &mut self.tail {
            tail.on_rtt(rtt);
        }
    }

    /// The round trip, smoothed.
    pub(crate) fn rtt(&self) -> Option<Span> {
        self.rtt
    }

    /// The peer is another one, with another clock and other counts.
    pub(crate) fn forget_peer(&mut self) {
        self.mtu.forget_peer();
        self.delay.forget_clock();
        (self.recent, self.signs.late) = (None, false);
        self.receipts = Receipts::default();
        if let Some(flight) = &mut self.flight {
            flight.forget_peer();
        }
        if let Some(control) = &mut self.control {
            control.forget_peer();
        }
    }

    /// The request of `sent` with this token was answered at `now`; the peer's clock was `arrived` when it came there. `false`: none waits for
    /// that answer.
    pub(crate) fn on_answered(&mut self, now: Time, token: u32, sent: Time, arrived: u64) -> bool {
        let ours = |(asked, first): (u32, Time)| asked == token && (first..=now).contains(&sent);
        if !self.echo.is_some_and(ours) || !self.delay.answered(now, sent, arrived) {
            return false;
        }
        if !self.delay.is_asked() {
            self.echo = None;
        }
        self.recent = Some(Transit { took: arrived.wrapping_sub(sent.as_nanos()) as i64, arrived });
        self.unanswered = None;
        if self.signs.lossy && self.worth.on_answered(sent) {
            self.signs.lossy = false;
        }
        true
    }

    /// The newest transit, of an echo request or a counted frame.
    pub(crate) fn recent(&self) -> Option<Transit> {
        self.recent
    }

    /// How long what goes now waits on its way, as far as that is longer than [`UNNOTICED`]: what the peer told of last, less the time since.
    #[inline]
    pub(crate) fn waits(&self, now: Time) -> Span {
        self.waited.map_or(Span::ZERO, |(told, waited)| waited - now.since(told) - UNNOTICED)
    }

    /// This process did not run for so long, until `now`.
    pub(crate) fn on_late(&mut self, now: Time, late: Span) {
        self.signs.life.on_late(late);
        if let Some(tail) = &mut self.tail {
            tail.on_late(now);
        }
    }

    /// What was just heard is a frame of a train that measures this path, or the answer to one: what goes there waits behind the train, and so
    /// does what the peer tells. That is no sign of a failure.
    pub(crate) fn on_train_frame(&mut self, now: Time, heartbeat: Span) {
        self.signs.life.on_train_frame(now, heartbeat);
        if let Some(tail) = &mut self.tail {
            tail.on_train_frame(now);
        }
    }

    /// A data frame of `bytes` goes out; its number. The frames of this path are counted.
    #[inline]
    pub(crate) fn on_counted(&mut self, now: Time, bytes: usize, idle: bool) -> u32 {
        let Some(flight) = &mut self.flight else { return 0 };
        let in_flight = flight.in_flight();
        let number = flight.on_sent(now, bytes);
        if let Some(control) = &mut self.control {
            control.on_sent(now, Bytes::from(bytes), in_flight, flight.next());
        }
        if idle {
            flight.on_idle();
        }
        number
    }

    /// A frame of a train was answered; the rate of the path, if that is known now.
    pub(crate) fn on_train(&mut self, now: Time, frame: (u32, u64), arrived: u64) -> Option<PathRate> {
        self.train.as_mut()?.on_answer(now, frame, arrived)
    }

    /// When [`Path::on_train_timeout`] is due: at once where a train is to go, for which a first round trip must be known, other paths
    /// be there, and nothing be under way.
    #[inline]
    pub(crate) fn train_timeout(&self) -> Option<Time> {
        let train = self.train.as_ref()?;
        if !train.wants_to_go() {
            return train.timeout();
        }
        let idle = self.flight.as_ref().is_none_or(|flight| flight.in_flight() == Bytes::ZERO);
        let needed = self.control.as_ref().is_some_and(|control| !control.is_alone());
        (idle && needed && self.echoes == 0 && self.rtt.is_some()).then_some(Time::ZERO)
    }

    /// Whether trains are still to tell the path's rate, and soon: where traffic goes on they cannot.
    pub(crate) fn awaits_rate(&self, now: Time) -> bool {
        self.train.as_ref().is_some_and(|train| !train.is_done())
            && self.control.as_ref().is_some_and(|control| control.is_starting() && !control.is_alone())
            && now < self.began + TRAINS_WITHIN
    }

    /// A train is over, or the next one leaves, of frames of `bytes` on the wire with this token: how many frames it has, and the rate
    /// of the path, if that is known now.
    pub(crate) fn on_train_timeout(&mut self, now: Time, token: u32, bytes: usize) -> (u16, Option<PathRate>) {
        let Some(train) = &mut self.train else { return (0, None) };
        if !train.wants_to_go() {
            return (0, train.handle_timeout(now));
        }
        (train.leave(now, token, bytes), None)
    }

    /// There is nothing to send, although the path may take more.
    pub(crate) fn on_idle(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.on_idle();
        }
    }

    /// The peer tells of our frames, on this path or, if `around`, on another one. `false`: of some that were never sent.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: &Feedback, around: bool, framing: usize) -> bool {
        let Some(flight) = &mut self.flight else { return false };
        let Some(mut report) = flight.on_feedback(now, feedback) else { return false };
        self.mtu.on_arrived(now, (report.longest as usize).saturating_sub(framing));
        if report.waited.is_some() {
            self.recent = flight.latest();
            self.waited = report.waited.map(|waited| (now, waited));
        }
        // Where losses are sent again, news of them takes the fastest way: that is no round trip of this path.
        report.rtt = report.rtt.filter(|_| !(around && self.tail.is_some()));
        if let Some(tail) = &mut self.tail
            && report.delivered > Bytes::ZERO
        {
            tail.on_told(now);
            self.signs.mute = false;
        }
        if self.tail.is_some()
            && let Some(waited) = report.waited
        {
            let settled = (flight.delivered_packets, flight.lost_packets);
            self.worth.on_told(now, settled, waited, self.rtt.unwrap_or(Span::ZERO));
        }
        if let Some(control) = &mut self.control {
            control.on_report(now, &report, flight.in_flight(), flight.next());
        }
        if let Some(rtt) = report.rtt {
            self.on_rtt(rtt);
        }
        true
    }

    /// Whether the law lets another frame go.
    #[inline]
    pub(crate) fn has_room(&self) -> bool {
        match (&self.control, &self.flight) {
            (Some(control), Some(flight)) => control.has_room(flight.in_flight()),
            _ => true,
        }
    }

    /// When [`Path::handle_timeout`] or a report is due.
    #[inline]
    pub(crate) fn timeout(&self) -> Option<Time> {
        // Where losses are sent again, the end of what was sent is asked after, and nothing is given up here.
        let control = self.control.as_ref().filter(|_| self.tail.is_none()).and_then(|control| control.timeout());
        let first = match (self.receipts.timeout(), control) {
            (Some(report), Some(control)) => Some(report.min(control)),
            (report, control) => report.or(control),
        };
        match self.tail_timeout() {
            Some(at) => Some(first.map_or(at, |first| first.min(at))),
            None => first,
        }
    }

    #[inline]
    fn tail_timeout(&self) -> Option<Time> {
        let tail = self.tail.as_ref()?;
        let flight = self.flight.as_ref()?;
        let (number, sent) = flight.first_open()?;
        let at = tail.timeout(sent);
        Some(if flight.is_overtaken(number) { at.min(sent + tail.overdue()) } else { at })
    }

    /// The round trip with how much it varies, where losses are sent again.
    pub(crate) fn most_rtt(&self) -> Option<Span> {
        self.rtt.and(self.tail.as_ref()).map(|tail| tail.round_trip())
    }

    /// What is to be done about the end of what was sent. What others overtook long ago is lost.
    pub(crate) fn poll_tail(&mut self, now: Time) -> Due {
        let (Some(tail), Some(flight)) = (&mut self.tail, &mut self.flight) else { return Due::Nothing };
        let Some((number, sent)) = flight.first_open() else { return Due::Nothing };
        if flight.is_overtaken(number) && sent + tail.overdue() <= now {
            let before = Time::from_nanos(now.as_nanos().saturating_sub(tail.overdue().as_nanos()));
            let report = flight.lose_overdue(before);
            if let Some(control) = &mut self.control {
                control.on_report(now, &report, flight.in_flight(), flight.next());
            }
        }
        match flight.first_open() {
            Some((_, sent)) => tail.poll(now, sent),
            None => Due::Nothing,
        }
    }

    /// Gives up what is under way, if nothing was told of it for too long.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        if let (None, Some(control), Some(flight)) = (&self.tail, &mut self.control, &mut self.flight)
            && control.timeout().is_some_and(|at| at <= now)
        {
            let lost = flight.abandon();
            control.on_timeout(now, lost, flight.next());
        }
    }

    /// Whether what was sent is overdue in the peer's feedback: for two round trips and two reports' time.
    fn is_overdue(&self, now: Time) -> bool {
        let oldest = self.flight.as_ref().and_then(|flight| flight.oldest());
        let wait = (self.rtt.unwrap_or(Span::from_secs(1)) + receipts::REPORT_WITHIN).times(2);
        oldest.is_some_and(|sent| now.since(sent) > wait)
    }

    /// What is known at `now`. `used`: data may be sent here; `least`: the smallest transit of the bond's paths.
    pub(crate) fn measured(&self, now: Time, used: bool, least: Option<i64>) -> Measured {
        let flight = self.flight.as_ref();
        let transit = flight.and_then(|flight| flight.transit());
        let extra = |transit: i64| Span::from_nanos(transit.saturating_sub(least.unwrap_or(transit)).max(0) as u64);
        Measured {
            state: self.signs.state(used, self.is_overdue(now)),
            held: self.hold.until().map(|until| until.since(now)).filter(|_| !used),
            failures: self.hold.failures(),
            late: self.signs.late,
            lossy: self.signs.lossy,
            rtt: self.rtt,
            delivery_rate: flight.and_then(|flight| flight.delivery_rate()),
            path_rate: self.control.as_ref().and_then(|control| control.path_rate()),
            extra_delay: transit.map(extra),
            queue: flight.filter(|_| transit.is_some()).map(|flight| flight.queue()),
            loss_ppm: flight.map(|flight| flight.losses.ppm()),
            delivered: flight.map(|flight| flight.delivered_packets),
            lost: flight.map(|flight| flight.lost_packets),
            in_flight: flight.map(|flight| flight.in_flight()),
        }
    }
}
