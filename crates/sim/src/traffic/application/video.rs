//! A film in chunks of several qualities, chosen by the level of the player's buffer.
//!
//! Source: T.-Y. Huang, R. Johari, N. McKeown, M. Trunnell, M. Watson, "A Buffer-Based Approach to Rate Adaptation", SIGCOMM 2014,
//! algorithm 1 (BBA-0). The player looks at nothing but how much it has in store.
//!
//! | symbol | field |
//! |---|---|
//! | `R_min` … `R_max` | `levels` |
//! | r, the reservoir; cu, the cushion | `reservoir`, `cushion` |
//! | `Buf_now` | `Video::stored` |
//! | f(B), from `R_min` at r straight to `R_max` at r + cu | `Video::allowed` |
//!
//! The flow's receiver is the player. It has one connection to the flow's sender, asks for one chunk at a time, and for the next one as
//! soon as the last is there and the buffer has room. It plays from the moment when `resume` is in store. When nothing is left it
//! stands still until `resume` is in store again: a stall. A chunk has the bytes of its quality's rate, exactly. A connection that fails
//! is opened anew, and its chunk is asked for again.
//!
//! Departures: chunks of a quality are alike, so BBA-1's reservoir that follows their sizes has nothing to follow; and there is no
//! faster start-up (BBA-2). Invariant: between `begin` and the end, played + stalled + start-up is all the time.

use super::{Application, End, Pair, Pairs, Transfers};
use crate::results::VideoResult;
use crate::traffic::workload;
use fairspan_core::units::{Rate, Span, Time};

/// A player.
#[derive(Clone, Debug)]
pub struct Video {
    config: workload::Video,
    begun: Option<Time>,
    /// When the numbers below were brought up to date.
    updated: Time,
    /// Of the film: what is there, and what was played.
    there: Span,
    played: Span,
    state: State,
    level: usize,
    /// Of the chunk under way: its connection, and its bytes.
    connection: Option<u32>,
    chunk: Option<Chunk>,
    /// When the next chunk is asked for.
    next: Option<Time>,
    counted: Counted,
    transfers: Transfers,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    begun: Time,
    size: u64,
    answered: bool,
    /// Bytes that the server, and the player, have when it is there.
    asked: u64,
    done: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// It has not played yet.
    Starting,
    Playing,
    Stalled,
    /// The film, or the flow, is over.
    Over,
}

/// What is measured; times until `updated`.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    chunks: u64,
    /// Sums over chunks.
    rates: f64,
    levels: u64,
    switches: u64,
    stalls: u64,
    stalled: Span,
    played: Span,
    start: Option<Span>,
}

impl Video {
    /// The player; what it measures of chunks goes to `transfers`.
    pub fn new(config: &workload::Video, transfers: Transfers) -> Video {
        Video {
            config: config.clone(),
            begun: None,
            updated: Time::ZERO,
            there: Span::ZERO,
            played: Span::ZERO,
            state: State::Starting,
            level: 0,
            connection: None,
            chunk: None,
            next: None,
            counted: Counted::default(),
            transfers,
        }
    }

    /// What is in store.
    fn stored(&self) -> Span {
        self.there - self.played
    }

    /// Brings what was played up to date.
    fn advance(&mut self, now: Time) {
        let passed = now.since(self.updated);
        self.updated = now;
        match self.state {
            State::Starting | State::Over => {}
            State::Stalled => self.counted.stalled = self.counted.stalled + passed,
            State::Playing => {
                let playing = passed.min(self.stored());
                self.played = self.played + playing;
                self.counted.played = self.counted.played + playing;
                if self.stored() == Span::ZERO && playing < passed {
                    self.run_dry(passed - playing);
                }
            }
        }
    }

    /// Nothing has been left to play for so long.
    fn run_dry(&mut self, since: Span) {
        if self.config.length.is_some_and(|length| self.there >= length) {
            self.state = State::Over;
        } else {
            self.state = State::Stalled;
            self.counted.stalls += 1;
            self.counted.stalled = self.counted.stalled + since;
        }
    }

    /// f(B): the rate that the buffer allows, between reservoir and cushion's end.
    fn allowed(&self, stored: Span) -> f64 {
        let (least, most) = (bits(self.config.levels[0]), bits(self.config.levels[self.config.levels.len() - 1]));
        let above = (stored - self.config.reservoir).as_nanos() as f64;
        least + (most - least) * above / self.config.cushion.as_nanos().max(1) as f64
    }

    /// Algorithm 1: the next chunk's quality.
    fn choose(&self) -> usize {
        let (levels, last) = (&self.config.levels, self.config.levels.len() - 1);
        let stored = self.stored();
        if stored <= self.config.reservoir {
            return 0;
        }
        if stored >= self.config.reservoir + self.config.cushion {
            return last;
        }
        let allowed = self.allowed(stored);
        let (above, below) = ((self.level + 1).min(last), self.level.saturating_sub(1));
        if allowed >= bits(levels[above]) {
            // max {R : R < f(B)}
            levels.iter().rposition(|&rate| bits(rate) < allowed).unwrap_or(0)
        } else if allowed <= bits(levels[below]) {
            // min {R : R > f(B)}
            levels.iter().position(|&rate| bits(rate) > allowed).unwrap_or(last)
        } else {
            self.level
        }
    }

    fn ask(&mut self, now: Time, pairs: &mut Pairs) {
        self.next = None;
        let pair = match self.connection {
            Some(number) => match pairs.get(number) {
                Some(pair) => pair,
                // It is over, which is told next.
                None => return,
            },
            None => pairs.open(now, End::Receiver),
        };
        self.connection = Some(pair.number());
        let again = self.chunk.is_some();
        let level = if again { self.level } else { self.choose() };
        self.counted.switches += u64::from(level != self.level);
        self.level = level;
        let chunk = self.length_of_next();
        let size = (bits(self.config.levels[level]) * chunk.as_nanos() as f64 / 8e9).max(1.0) as u64;
        let request = self.config.request.as_u64();
        let begun = self.chunk.map_or(now, |chunk| chunk.begun);
        match self.chunk {
            Some(chunk) if again => self.transfers.handle_resized(chunk.size, size),
            _ => self.transfers.handle_begun(size),
        }
        self.chunk = Some(Chunk {
            begun,
            size,
            answered: false,
            asked: pair.received(End::Sender) + request,
            done: pair.received(End::Receiver) + size,
        });
        pair.write(now, End::Receiver, request);
    }

    /// How long the next chunk plays; the last one may be shorter.
    fn length_of_next(&self) -> Span {
        let left = self.config.length.map_or(Span::MAX, |length| length - self.there);
        self.config.chunk.min(left)
    }

    fn handle_chunk(&mut self, now: Time, chunk: Chunk) {
        self.advance(now);
        self.transfers.handle_completed(now, chunk.begun, chunk.size);
        self.counted.chunks += 1;
        self.counted.rates += bits(self.config.levels[self.level]);
        self.counted.levels += self.level as u64;
        self.there = self.there + self.length_of_next();
        let all = self.config.length.is_some_and(|length| self.there >= length);
        if matches!(self.state, State::Starting | State::Stalled) && (all || self.stored() >= self.config.resume) {
            if self.state == State::Starting {
                self.counted.start = self.begun.map(|begun| now.since(begun));
            }
            self.state = State::Playing;
        }
        self.next = None;
        if !all && self.state != State::Over {
            // Until the buffer has room for one more; while it stands still there is room.
            let full = (self.stored() + self.config.chunk) - self.config.buffer;
            self.next = Some(now + full);
        }
    }

    /// What the viewer saw until now.
    pub fn result(&self, now: Time) -> VideoResult {
        let mut seen = self.clone();
        seen.advance(now);
        let counted = seen.counted;
        let mean = |sum: f64| if counted.chunks == 0 { 0.0 } else { sum / counted.chunks as f64 };
        VideoResult {
            chunks: counted.chunks,
            bitrate: mean(counted.rates),
            level: mean(counted.levels as f64),
            switches: counted.switches,
            // Who waits still has waited so long at least.
            start_s: counted.start.or(seen.begun.map(|begun| seen.updated.since(begun))).map(Span::as_secs_f64),
            stalls: counted.stalls,
            stalled_s: counted.stalled.as_secs_f64(),
            played_s: counted.played.as_secs_f64(),
        }
    }
}

fn bits(rate: Rate) -> f64 {
    rate.as_bits_per_sec() as f64
}

impl Application for Video {
    fn start(&mut self, now: Time, pairs: &mut Pairs) {
        self.begun = Some(now);
        self.updated = now;
        self.ask(now, pairs);
    }

    /// The viewer goes: what is under way is of no use.
    fn stop(&mut self, now: Time, pairs: &mut Pairs) {
        self.advance(now);
        self.state = State::Over;
        self.next = None;
        if let Some(chunk) = self.chunk.take() {
            self.transfers.handle_given_up(chunk.size);
        }
        if let Some(pair) = self.connection.and_then(|number| pairs.get(number)) {
            pair.end_mut(End::Receiver).abort(now);
        }
    }

    fn serve(&mut self, now: Time, pair: &mut Pair) {
        if self.connection != Some(pair.number()) {
            return;
        }
        let Some(chunk) = &mut self.chunk else { return };
        if !chunk.answered && pair.received(End::Sender) >= chunk.asked {
            chunk.answered = true;
            pair.write(now, End::Sender, chunk.size);
        }
        if chunk.answered && pair.received(End::Receiver) >= chunk.done {
            let chunk = *chunk;
            self.chunk = None;
            self.handle_chunk(now, chunk);
        }
    }

    fn over(&mut self, now: Time, pair: &Pair) {
        if self.connection == Some(pair.number()) {
            self.connection = None;
            if self.state != State::Over && self.chunk.is_some() {
                self.next = Some(now);
            }
        }
    }

    fn handle_timeout(&mut self, now: Time, pairs: &mut Pairs) {
        if self.next.is_some_and(|next| next <= now) {
            self.advance(now);
            self.ask(now, pairs);
        }
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next
    }

    fn transfers(&self) -> Option<&Transfers> {
        Some(&self.transfers)
    }

    fn video(&self, now: Time) -> Option<VideoResult> {
        Some(self.result(now))
    }

    fn begin(&mut self, now: Time) {
        self.advance(now);
        self.counted = Counted { start: self.counted.start, ..Counted::default() };
        self.transfers.begin();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Bytes;

    const S: fn(u64) -> Span = Span::from_secs;

    fn player() -> Video {
        let levels = [1_000_000, 2_000_000, 4_000_000, 8_000_000].map(Rate::from_bits_per_sec);
        let config = workload::Video {
            levels: levels.into(),
            chunk: S(4),
            length: None,
            buffer: S(60),
            reservoir: S(10),
            cushion: S(35),
            resume: S(4),
            request: Bytes::new(200),
        };
        Video::new(&config, Transfers::new())
    }

    #[test]
    fn the_quality_follows_the_buffer_with_the_hysteresis_of_the_paper() {
        let mut player = player();
        // f(B) is 1 Mbit/s at 10 s and grows by 0.2 Mbit/s a second to 8 at 45 s.
        for (stored, level, chosen) in [
            (10, 3, 0),
            (45, 0, 3),
            (14, 0, 0), // 1.8 is below the next level, 2
            (16, 0, 1), // 2.2 passes 2: the largest below 2.2
            (31, 0, 2), // 5.2 passes 2: the largest below 5.2 is 4
            (20, 2, 2), // 3: between 2 and 8, it stays
            (14, 2, 1), // 1.8 is not above 2: the least above 1.8 is 2
            (11, 3, 1), // 1.2 is not above 4: the least above 1.2 is 2
        ] {
            player.there = S(stored);
            player.level = level;
            assert_eq!(player.choose(), chosen, "{stored} s in store at level {level}");
        }
    }

    #[test]
    fn what_runs_dry_stalls_and_times_add_up() {
        let mut player = player();
        player.begun = Some(Time::ZERO);
        let chunk = Chunk { begun: Time::ZERO, size: 500_000, answered: true, asked: 0, done: 0 };
        player.handle_chunk(Time::from_millis(2000), chunk);
        assert_eq!((player.state, player.counted.start), (State::Playing, Some(S(2))));
        // 4 s of film from 2 s on; the next chunk comes at 9 s.
        player.handle_chunk(Time::from_millis(9000), chunk);
        let seen = player.result(Time::from_millis(10000));
        assert_eq!((seen.stalls, seen.stalled_s, seen.played_s), (1, 3.0, 5.0));
        let start = seen.start_s.expect("it began");
        assert_eq!(start + seen.stalled_s + seen.played_s, 10.0);
    }

    #[test]
    fn a_film_that_is_over_does_not_stall() {
        let mut player = player();
        player.config.length = Some(S(6));
        player.begun = Some(Time::ZERO);
        let chunk = Chunk { begun: Time::ZERO, size: 500_000, answered: true, asked: 0, done: 0 };
        player.handle_chunk(Time::from_millis(1000), chunk);
        assert_eq!(player.length_of_next(), S(2), "the last chunk is shorter");
        player.handle_chunk(Time::from_millis(2000), chunk);
        assert_eq!(player.next, None);
        let seen = player.result(Time::from_millis(60000));
        assert_eq!((seen.stalls, seen.stalled_s, seen.played_s), (0, 0.0, 6.0));
    }
}
