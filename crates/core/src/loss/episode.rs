//! Which loss is a new sign of congestion, and which belongs to the last one.
//!
//! What it is: all losses of what was sent before a reaction tell of the same congestion; the window is reduced once for them.
//! Source: RFC 9002, 7.3.2 (a recovery period lasts until a packet that was sent during it is acknowledged); RFC 6675, 5
//! (RecoveryPoint); RFC 3168, 6.1.2 (marks likewise).
//!
//! Cost: a comparison. Invariant: of packets with numbers below [`Episode::end`] only one began an episode.

/// The last episode of losses or marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Episode {
    end: u64,
}

impl Episode {
    /// The packet at `position` is lost or marked, and `next` is the position of the next new one: whether a new episode begins.
    pub fn begins(&mut self, position: u64, next: u64) -> bool {
        let begins = position >= self.end;
        if begins {
            self.end = next;
        }
        begins
    }

    /// Whether the episode goes on when everything, or the highest, before `up_to` is acknowledged.
    pub fn goes_on(&self, up_to: u64) -> bool {
        up_to <= self.end && self.end > 0
    }

    /// The position after what was sent when it began; zero before the first.
    pub fn end(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_one_window_are_one_episode_and_the_next_windows_another() {
        let mut episode = Episode::default();
        assert!(!episode.goes_on(0), "none began");
        assert!(episode.begins(0, 20), "the very first packet");
        assert!(!episode.begins(7, 25) && !episode.begins(19, 30), "sent before the reaction");
        assert!(episode.goes_on(20), "nothing sent since is acknowledged");
        assert!(!episode.goes_on(21));
        assert!(episode.begins(20, 40));
        assert_eq!(episode.end(), 40);
    }
}
