//! Who is logged in: a random token each, kept in memory only, so that a cookie tells nothing of the password and ends.
//!
//! A session ends when somebody logs out, `UNUSED` after it was last used, `LONGEST` after it began, when the daemon ends, and when newer ones need its
//! place: the one that was used longest ago gives way.

use crate::secure::{Entropy, OsEntropy};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use fairspan_core::units::{Span, Time};

/// Most sessions.
const SESSIONS: usize = 64;
/// Random bytes of a token.
const TOKEN: usize = 32;
/// A session that is not used for so long ends.
const UNUSED: Span = Span::from_secs(24 * 3600);
/// A session ends at last.
pub(super) const LONGEST: Span = Span::from_secs(30 * 24 * 3600);

/// A session, while it lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Session(u64);

struct Known {
    session: Session,
    token: String,
    begun: Time,
    used: Time,
}

/// All sessions.
#[derive(Default)]
pub(super) struct Logins {
    known: Vec<Known>,
    begun: u64,
}

impl Logins {
    /// Begins a session; gives the token by which it is known.
    pub(super) fn begin(&mut self, now: Time) -> String {
        self.end_old(now);
        if self.known.len() >= SESSIONS
            && let Some(place) = (0..self.known.len()).min_by_key(|place| self.known[*place].used)
        {
            self.known.remove(place);
        }
        let mut bytes = [0; TOKEN];
        OsEntropy::new().fill(&mut bytes);
        let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.begun += 1;
        self.known.push(Known { session: Session(self.begun), token: token.clone(), begun: now, used: now });
        token
    }

    /// The session that a token is of, which is used by that.
    pub(super) fn of(&mut self, now: Time, token: &str) -> Option<Session> {
        self.end_old(now);
        // All are compared, so that the time tells nothing.
        let is_it = |known: &Known| verify_slices_are_equal(known.token.as_bytes(), token.as_bytes()).is_ok();
        let place =
            (0..self.known.len()).fold(None, |found, place| is_it(&self.known[place]).then_some(place).or(found));
        let known = &mut self.known[place?];
        known.used = now;
        Some(known.session)
    }

    /// Whether a session goes on, which is used by that.
    pub(super) fn goes_on(&mut self, now: Time, session: Session) -> bool {
        self.end_old(now);
        let known = self.known.iter_mut().find(|known| known.session == session);
        known.map(|known| known.used = now).is_some()
    }

    /// Ends a session.
    pub(super) fn end(&mut self, session: Session) {
        self.known.retain(|known| known.session != session);
    }

    fn end_old(&mut self, now: Time) {
        self.known.retain(|known| now.since(known.used) < UNUSED && now.since(known.begun) < LONGEST);
    }
}

impl std::fmt::Debug for Logins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logins").field("sessions", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_differ_and_are_shown_nowhere() {
        let mut logins = Logins::default();
        let (one, two) = (logins.begin(Time::ZERO), logins.begin(Time::ZERO));
        assert!(one.len() == 2 * TOKEN && one != two);
        assert!(!format!("{logins:?}").contains(&one));
        let session = logins.of(Time::ZERO, &one).expect("known");
        assert!(logins.of(Time::ZERO, &two).is_some_and(|other| other != session));
        for wrong in ["", &one[1..], &format!("{one}0"), &"0".repeat(2 * TOKEN)] {
            assert_eq!(logins.of(Time::ZERO, wrong), None, "{wrong}");
        }
        logins.end(session);
        assert_eq!((logins.of(Time::ZERO, &one), logins.goes_on(Time::ZERO, session)), (None, false));
        assert!(logins.of(Time::ZERO, &two).is_some(), "one who logs out ends nobody else's session");
    }

    #[test]
    fn a_session_ends_a_day_after_it_was_used_last_and_thirty_days_after_it_began() {
        let mut logins = Logins::default();
        let token = logins.begin(Time::ZERO);
        let half = Span::from_secs(12 * 3600);
        let mut now = Time::ZERO;
        let mut held = 0;
        while logins.of(now, &token).is_some() {
            now += half;
            held += 1;
        }
        assert_eq!(held, 60, "used twice a day, thirty days");
        let token = logins.begin(now);
        let session = logins.of(now, &token).expect("known");
        assert!(logins.goes_on(now + half, session), "a page that is open uses it");
        assert_eq!(logins.of(now + half + UNUSED, &token), None);
    }

    #[test]
    fn of_too_many_sessions_the_one_that_was_used_longest_ago_gives_way() {
        let mut logins = Logins::default();
        let tokens: Vec<String> = (0..SESSIONS as u64).map(|n| logins.begin(Time::from_millis(n * 1000))).collect();
        assert!(logins.of(Time::from_millis(1_000_000), &tokens[0]).is_some());
        logins.begin(Time::from_millis(1_001_000));
        assert_eq!(logins.known.len(), SESSIONS);
        assert!(logins.of(Time::from_millis(1_002_000), &tokens[0]).is_some());
        assert_eq!(logins.of(Time::from_millis(1_002_000), &tokens[1]), None);
    }
}
