//! Whether a path may carry data, and the signs that tell.
//!
//! | state | signs |
//! |---|---|
//! | down | the link is down or is to leave, nothing was heard for too long, the peer hears nothing or tells nothing of what was sent, or the socket took nothing for too long |
//! | held | all is well, and others are used: it failed again and again, what goes there comes too late, it loses too much, or a policy's supervision says so |
//! | suspect | in use, but the socket takes nothing at the moment, or what was sent is overdue in the peer's feedback |
//! | reserve | all is well, and it is not needed at the moment (`bond/reserve.rs`) |
//! | up | in use, and nothing is amiss |

use super::life::Life;
use crate::options::words;
use crate::units::Time;

/// What a path is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In use, and nothing is amiss.
    Up,
    /// In use, and something may be.
    Suspect,
    /// Out of use.
    Down,
    /// Well, but not in use while there are others.
    Held,
    /// Well, and in use when the others are not enough.
    Reserve,
    /// Well, and in use while no other one works.
    Metered,
}

words!(State {
    Up = "up",
    Suspect = "suspect",
    Down = "down",
    Held = "held",
    Reserve = "reserve",
    Metered = "metered",
});

/// The signs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Signs {
    /// Frames can be exchanged, as the driver sees it.
    pub(crate) up: bool,
    /// The socket takes nothing, and since when.
    pub(crate) blocked: Option<Time>,
    /// It takes nothing for too long.
    pub(crate) stalled: bool,
    /// Nothing arrived for too long.
    pub(crate) silent: bool,
    /// The peer hears nothing.
    pub(crate) unheard: bool,
    /// The peer told nothing of what was sent, and was asked.
    pub(crate) mute: bool,
    /// It is to leave the bond.
    pub(crate) leaving: bool,
    /// Its frames come too late behind those of the others to be of use.
    pub(crate) late: bool,
    /// It loses so much that it brings less than it costs.
    pub(crate) lossy: bool,
    /// What the path brought lately.
    pub(crate) life: Life,
    /// When the link came up.
    pub(crate) began: Time,
    /// The peer has told since then that it hears something here.
    pub(crate) heard: bool,
}

impl Signs {
    /// A link that is down, at `now`.
    pub(crate) fn new(now: Time) -> Signs {
        Signs {
            up: false,
            blocked: None,
            stalled: false,
            silent: false,
            unheard: false,
            mute: false,
            leaving: false,
            late: false,
            lossy: false,
            life: Life::new(now),
            began: now,
            heard: false,
        }
    }

    /// The link came up: what was amiss is forgotten.
    pub(crate) fn on_up(&mut self, now: Time) {
        *self = Signs { up: true, leaving: self.leaving, ..Signs::new(now) };
    }

    /// Whether data could be sent.
    pub(crate) fn are_well(&self) -> bool {
        self.up && !self.silent && !self.unheard && !self.mute && !self.stalled && !self.leaving
    }

    /// Whether something can arrive.
    #[inline]
    pub(crate) fn may_bring(&self) -> bool {
        self.up && !self.silent
    }

    /// Whether echo requests go although no data does: an answer is what it takes to be used again.
    #[inline]
    pub(crate) fn is_asked(&self) -> bool {
        self.mute || self.late || self.lossy
    }

    /// The state, given whether the path is `used` and whether what was sent is `overdue`.
    pub(crate) fn state(&self, used: bool, overdue: bool) -> State {
        if !self.are_well() {
            State::Down
        } else if !used {
            State::Held
        } else if overdue || self.blocked.is_some() {
            State::Suspect
        } else {
            State::Up
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_sign_decides() {
        let mut signs = Signs::new(Time::ZERO);
        assert_eq!(signs.state(false, false), State::Down);
        signs.on_up(Time::ZERO);
        assert_eq!([signs.state(true, false), signs.state(true, true)], [State::Up, State::Suspect]);
        assert_eq!(signs.state(false, true), State::Held);
        signs.blocked = Some(Time::ZERO);
        assert_eq!(signs.state(true, false), State::Suspect);
        for amiss in [
            Signs { silent: true, ..signs },
            Signs { unheard: true, ..signs },
            Signs { mute: true, ..signs },
            Signs { stalled: true, ..signs },
            Signs { leaving: true, ..signs },
            Signs { up: false, ..signs },
        ] {
            assert_eq!(amiss.state(true, false), State::Down);
        }
    }
}
