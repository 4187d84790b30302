//! What was for nothing, and is taken back.
//!
//! What it is: how a sender notices that a recovery or a timeout was not needed, because what it took for lost was only late. The window is then
//! what it was. Source: RFC 3522, 3.2 (Eifel: the echo of a timestamp is older than the first retransmission); RFC 3708, 2 (DSACKs for all
//! retransmissions); RFC 4015 (the answer). Which of the two counts when is what Linux does, described in our words below.
//!
//! | Linux | here |
//! |---|---|
//! | undo_marker | [`Undo::from`] |
//! | undo_retrans | [`Undo::pending`] |
//! | retrans_stamp | [`Undo::first`] |
//! | retrans_out | [`Sender::resent_out`] |
//!
//! 1. *The stamp is that of the first retransmission of all that are out.* An episode that begins while retransmissions of an earlier one are out keeps
//!    their stamp: else the answer to one of them has an older echo than whatever the new episode sends, and takes back a reduction that was right.
//!    So does a timeout of its own within the slow start after another one. A tail loss probe belongs to no episode: it sets no stamp, and keeps none.
//! 2. A timeout within a recovery that lowers the threshold no further begins no episode: the recovery's stamp stands.
//! 3. DSACKs count only for what lies above SND.UNA at the episode's beginning. What is not acknowledged yet has to have been sent again; below SND.UNA that is not
//!    known any more, and a copy that the path made counts as well. What was out again at the beginning, a probe too, has to be shown as unneeded like the rest.
//! 4. An ACK that ends the episode takes it back by either sign, and so does any that advances after a timeout.
//! 5. An ACK within a recovery with an older echo takes it back if nothing sent again is out. Else that one ACK marks no
//!    losses and sends nothing again, and the sender waits for a better one.
//! 6. DSACKs may come after the recovery ended, as long as no other episode has begun, and no mark has reduced the window.
//!
//! An older echo also says that the path reorders: RACK gives packets more time from then on, and a sender that counts duplicates waits for more of them.
//!
//! Departures: a DSACK counts as one segment, and also where there have been more of them than retransmissions. Without SACK the window that duplicates had inflated is let down before it is given back. Linux would forget
//! rule 1's stamp at the first ACK after a timeout that was taken back. Cost: constant; where an episode begins while something sent again is out, what
//! is outstanding is walked once. Invariant: `pending` is `None` until something went again.

use super::acknowledgment::{Acknowledgment, stamp};
use super::config::LossDetection;
use super::phase::{Frto, Phase};
use super::sender::Sender;
use fairspan_core::congestion::Law;
use fairspan_core::loss::scoreboard::{EVER, RETRANSMITTED, Sent};
use fairspan_core::units::{Bytes, Time};

/// What is known of the last episode.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Undo {
    /// SND.UNA at its beginning; `None`: there is nothing to take back.
    from: Option<u64>,
    /// Retransmissions that no DSACK has shown as unneeded; `None`: nothing went again yet.
    pending: Option<u32>,
    /// When the first of the retransmissions went, by the timestamp clock.
    first: Option<u32>,
    /// The end of the segment that the last tail loss probe sent again, if no episode has; 0: there is none.
    probed: u64,
    /// The last ACK tells that something sent again was only late, while more of it is out.
    pub(super) held: bool,
}

/// Most duplicates that a sender waits for (Linux's `tcp_max_reordering`).
const DUPLICATES_AT_MOST: u64 = 300;

impl Undo {
    /// A tail loss probe sends a segment again; `ever`: it had gone again before.
    pub(super) fn on_probe(&mut self, end: u64, ever: bool) {
        if !ever {
            self.probed = end;
        }
    }

    /// An episode sends the segment up to `end` again.
    pub(super) fn on_resent(&mut self, now: Time, end: u64) {
        if self.probed == end {
            self.probed = 0;
        }
        self.first.get_or_insert(stamp(now));
        self.pending = Some(self.pending.unwrap_or(0).saturating_add(1));
    }

    /// What comes from now on takes nothing back.
    pub(super) fn forget(&mut self) {
        self.from = None;
    }
}

impl Sender {
    /// An episode begins, which may turn out to be for nothing. The phase is still the one before it.
    pub(super) fn begin_undo(&mut self) {
        let ever = |sent: &Sent<_>| sent.is(EVER) && sent.end != self.undo.probed;
        if self.phase == Phase::Open && self.resent_out() == 0 && !self.board.front().is_some_and(ever) {
            self.undo.first = None;
        }
        let out = self.board.resent_segments();
        self.undo.from = Some(self.una);
        self.undo.pending = (out > 0).then_some(out);
    }

    /// Segments that an episode sent again and that are out.
    fn resent_out(&self) -> u32 {
        let probe = self.undo.probed > self.una
            && self.board.get(self.board.find(self.undo.probed - 1)).is_some_and(|sent| sent.is(RETRANSMITTED));
        self.board.resent_segments() - u32::from(probe)
    }

    /// RFC 3522 §3.2: the ACK was caused by a segment that is older than the first retransmission.
    fn is_late(&self, ack: &Acknowledgment) -> bool {
        match self.undo.first {
            Some(first) => ack.echo.is_some_and(|echo| (echo.wrapping_sub(first) as i32) < 0),
            // Nothing went again. Without SACK that cannot be told from an episode that is over.
            None => self.is_scoreboard_used() || self.una < self.recover,
        }
    }

    /// RFC 3708 §2: a DSACK for a retransmission of this episode. To be asked before the scoreboard learns of the ACK.
    pub(super) fn count_duplicate(&mut self, ack: &Acknowledgment) {
        let (Some(from), Some(pending), Some((left, right))) = (self.undo.from, self.undo.pending, ack.duplicate)
        else {
            return;
        };
        let again = || self.board.get(self.board.find(left)).is_some_and(|sent| sent.is(EVER));
        if right > from && (right <= self.una || again()) {
            self.undo.pending = Some(pending.saturating_sub(1));
        }
    }

    /// An ACK that moved SND.UNA by `newly`, or not: takes the episode back, or holds it. Gives whether it was taken back.
    pub(super) fn look_for_undo(&mut self, ack: &Acknowledgment, newly: u64) -> bool {
        self.undo.held = false;
        if self.undo.from.is_none() {
            return false;
        }
        let (advanced, unneeded) = (newly > 0, self.undo.pending == Some(0));
        let over = advanced && self.una >= self.recover;
        match self.phase {
            Phase::Loss if advanced && (unneeded || self.is_late(ack)) => self.take_back(!over),
            Phase::Loss => return false,
            Phase::Recovery if over && (unneeded || self.is_late(ack)) => self.take_back(false),
            Phase::Recovery if advanced && !over && self.is_late(ack) => {
                self.on_reordering(self.una - newly);
                if self.resent_out() > 0 {
                    self.undo.held = true;
                    return false;
                }
                self.take_back(true);
            }
            _ if unneeded => self.take_back(false),
            _ => return false,
        }
        true
    }

    /// What lay at `position` was late and not lost.
    fn on_reordering(&mut self, position: u64) {
        match self.loss {
            LossDetection::Rack => self.rack.on_reordering(),
            LossDetection::Sack => {
                let over = self.board.highest_sacked().saturating_sub(position).div_ceil(self.mss);
                self.threshold = self.threshold.max(over.min(DUPLICATES_AT_MOST) as u32);
            }
            _ => {}
        }
    }

    /// The episode was for nothing. `all`: what is taken for lost is not, either.
    pub(super) fn take_back(&mut self, all: bool) {
        self.stats.spurious += 1;
        if self.phase == Phase::Recovery && !self.is_scoreboard_used() {
            self.law.on_recovery(Bytes::new(self.law.threshold().as_u64()));
        }
        self.law.on_undo();
        self.undo.forget();
        if all {
            self.board.unlose();
        }
        if self.phase != Phase::Open {
            self.phase = Phase::Open;
            self.frto = Frto::Off;
            self.forced = false;
            self.duplicates = 0;
            self.recover = self.una.saturating_sub(1);
            self.rtt.reset_backoff();
        }
    }
}
