//! A game of quick moves: inputs of a player go to the server, and states of the world come back, both at their own clock, as datagrams.
//!
//! What it is: the exchange that shooters and racing games have. The flow's sender is the server and sends a state at each tick; the flow's
//! receiver is the player, whose inputs go the other way. A state tells of all inputs that came before its tick. No packet is sent again: an input that
//! is lost is told of by the next one, which repeats those before it.
//!
//! | measured | here |
//! |---|---|
//! | lag | from an input's leaving until the first state arrives that tells of it, or of a later one: way there, wait for the tick, way back |
//! | freeze | the player has shown the newest state there is, and the next one is not there; a state that comes when its own time is over does not end it |
//!
//! The player shows the world as it was some time ago (`interpolation`), so that states may be late or lost: the first state that arrives sets
//! the clock, and is shown so much later; each other one a tick after the one before. While the newest state that is there has been shown, the
//! picture stands still. Without bots or prediction, and without what server and player take to reckon.
//!
//! Cost: constant a packet. Memory: the inputs and the states that are on their way, as far as they are not too old to matter (`MOST_WAITING`).

use crate::endpoint::{Endpoint, Handled, Outgoing};
use crate::metrics::spread::Spread;
use crate::packet::{Body, Packet};
use crate::results::GameResult;
use crate::traffic::{ConfigError, Sampler, workload};
use fairspan_core::rng::Rng;
use fairspan_core::units::{Span, Time};
use std::collections::VecDeque;

/// More inputs or states than this are not followed on their way.
const MOST_WAITING: usize = 1 << 16;

/// Both ends of a game.
#[derive(Debug)]
pub struct Game {
    tick: Span,
    every: Span,
    interpolation: Span,
    header: u32,
    states: Sampler,
    inputs: Sampler,
    rng: Rng,
    /// When the next state and the next input leave.
    next: [Option<Time>; 2],
    /// How many states left, and how many inputs, in all.
    sent: [u64; 2],
    /// Inputs that the server has.
    heard: u64,
    /// What each state tells of, from `first_told` on.
    told: VecDeque<u64>,
    first_told: u64,
    /// When inputs left that no state has told of, from number `first_open` on, and whether that was in the measured time.
    open: VecDeque<Time>,
    first_open: u64,
    /// When state 0 would have been shown.
    clock: Option<Time>,
    /// The newest state that is there.
    newest: u64,
    delivered: u64,
    measured: Measured,
}

#[derive(Debug)]
struct Measured {
    from: Time,
    inputs: u64,
    states: u64,
    lag: Spread,
    freezes: u64,
    frozen: Span,
    /// Until when time that stood still has been counted.
    counted: Option<Time>,
}

impl Measured {
    fn new(from: Time) -> Measured {
        Measured { from, inputs: 0, states: 0, lag: Spread::new(true), freezes: 0, frozen: Span::ZERO, counted: None }
    }
}

impl Game {
    /// A game that has not begun, with `header` bytes of headers on each packet.
    ///
    /// # Errors
    /// Sizes that cannot be drawn.
    pub fn new(config: &workload::Game, header: u32, rng: Rng) -> Result<Game, ConfigError> {
        Ok(Game {
            tick: config.tick,
            every: config.every,
            interpolation: config.interpolation,
            header,
            states: Sampler::new(&config.state)?,
            inputs: Sampler::new(&config.input)?,
            rng,
            next: [None; 2],
            sent: [0; 2],
            heard: 0,
            told: VecDeque::new(),
            first_told: 0,
            open: VecDeque::new(),
            first_open: 0,
            clock: None,
            newest: 0,
            delivered: 0,
            measured: Measured::new(Time::ZERO),
        })
    }

    /// When the state `number` is shown.
    fn shown(&self, clock: Time, number: u64) -> Time {
        clock + self.tick.times(number)
    }

    /// For how long until `now` the picture has stood still, if it has, as far as that is not counted yet; and whether that is a new freeze.
    fn frozen(&self, now: Time) -> Option<(Span, bool)> {
        // The newest state is shown for a tick.
        let end = self.shown(self.clock?, self.newest + 1);
        let begin = end.max(self.measured.counted.unwrap_or(self.measured.from));
        (begin < now).then(|| (now.since(begin), self.measured.counted != Some(begin)))
    }

    /// A state is there.
    fn handle_state(&mut self, now: Time, number: u64) {
        self.measured.states += 1;
        if self.clock.is_none() {
            // Before the run's beginning nothing is shown: a clock that would have begun there begins with it.
            let first = now.since(Time::ZERO) + self.interpolation;
            self.clock = Some(Time::ZERO + (first - self.tick.times(number)));
            self.newest = number;
            return;
        }
        if number <= self.newest {
            return;
        }
        if let Some((span, new)) = self.frozen(now) {
            self.measured.freezes += u64::from(new);
            self.measured.frozen = self.measured.frozen + span;
            self.measured.counted = Some(now);
        }
        self.newest = number;
    }

    /// A state tells of all inputs below `upto`.
    fn handle_told(&mut self, now: Time, upto: u64) {
        while self.first_open < upto {
            let Some(left) = self.open.pop_front() else { break };
            self.first_open += 1;
            if left >= self.measured.from {
                self.measured.lag.add(now.since(left).as_nanos());
            }
        }
        self.first_open = self.first_open.max(upto);
    }

    /// What the player saw until now.
    pub fn result(&self, now: Time) -> GameResult {
        let (mut freezes, mut frozen) = (self.measured.freezes, self.measured.frozen);
        if let Some((span, new)) = self.frozen(now).filter(|_| self.next[0].is_some()) {
            freezes += u64::from(new);
            frozen = frozen + span;
        }
        GameResult {
            inputs: self.measured.inputs,
            states: self.measured.states,
            lag: self.measured.lag.summary(1e9),
            freezes,
            frozen_s: frozen.as_secs_f64(),
        }
    }
}

impl Endpoint for Game {
    fn start(&mut self, now: Time) {
        // The player's clock is not the server's: its phase is drawn.
        let phase = Span::from_nanos(self.rng.below(self.every.as_nanos().max(1)));
        self.next = [Some(now), Some(now + phase)];
    }

    fn stop(&mut self, _: Time) {
        self.next = [None; 2];
    }

    fn handle_packet(&mut self, now: Time, packet: &Packet) -> Handled {
        let number = u64::from(packet.connection);
        if packet.reverse {
            self.heard = self.heard.max(number + 1);
            return Handled::default();
        }
        self.delivered += u64::from(packet.size.saturating_sub(self.header));
        let told = number.checked_sub(self.first_told).and_then(|place| self.told.get(place as usize)).copied();
        if let Some(upto) = told {
            self.handle_told(now, upto);
            // What older states would tell is known.
            let known = (number - self.first_told) as usize;
            self.told.drain(..=known);
            self.first_told = number + 1;
        }
        self.handle_state(now, number);
        Handled::default()
    }

    fn handle_timeout(&mut self, _: Time) {}

    fn poll_transmit(&mut self, now: Time) -> Option<Outgoing> {
        for (way, every) in [self.tick, self.every].into_iter().enumerate() {
            let Some(due) = self.next[way].filter(|due| *due <= now) else { continue };
            self.next[way] = Some(due + every);
            let number = self.sent[way];
            self.sent[way] += 1;
            let payload = if way == 0 {
                self.told.push_back(self.heard);
                if self.told.len() > MOST_WAITING {
                    self.told.pop_front();
                    self.first_told += 1;
                }
                self.states.next(&mut self.rng)
            } else {
                self.measured.inputs += 1;
                self.open.push_back(now);
                if self.open.len() > MOST_WAITING {
                    self.open.pop_front();
                    self.first_open += 1;
                }
                self.inputs.next(&mut self.rng)
            };
            let size = payload.saturating_add(self.header);
            return Some(Outgoing { reverse: way == 1, connection: number as u32, size, body: Body::Datagram });
        }
        None
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next.into_iter().flatten().min()
    }

    fn poll_delivered(&mut self) -> u64 {
        std::mem::take(&mut self.delivered)
    }

    fn game(&self, now: Time) -> Option<GameResult> {
        Some(self.result(now))
    }

    fn begin(&mut self, now: Time) {
        self.measured = Measured::new(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::Sizes;

    const MS: fn(u64) -> Time = Time::from_millis;

    /// 50 states and 100 inputs a second.
    fn game(interpolation: u64) -> Game {
        let config = workload::Game {
            tick: Span::from_millis(20),
            every: Span::from_millis(10),
            interpolation: Span::from_millis(interpolation),
            state: Sizes::Constant(300),
            input: Sizes::Constant(60),
        };
        let mut game = Game::new(&config, 28, Rng::new(1)).expect("a game");
        game.start(Time::ZERO);
        // A phase that can be reckoned with: inputs leave at 5, 15, 25 ms.
        game.next[1] = Some(MS(5));
        game
    }

    /// Runs it; packets take `ways`, and those of which the function says so are lost: (reverse, number).
    fn run(game: &mut Game, until: u64, ways: [u64; 2], lost: impl Fn(bool, u32) -> bool) {
        let mut under_way: Vec<(u64, Packet)> = Vec::new();
        for now in 0..until {
            let time = MS(now);
            let (arrived, rest) = under_way.into_iter().partition(|(at, _)| *at == now);
            under_way = rest;
            let arrived: Vec<(u64, Packet)> = arrived;
            for (_, packet) in arrived {
                let _ = game.handle_packet(time, &packet);
            }
            while let Some(out) = game.poll_transmit(time) {
                assert_eq!(out.size, if out.reverse { 88 } else { 328 });
                let packet = Packet {
                    flow: 0,
                    reverse: out.reverse,
                    number: 0,
                    size: out.size,
                    created: time,
                    connection: out.connection,
                    step: 0,
                    dscp: 0,
                    body: out.body,
                };
                if !lost(out.reverse, out.connection) {
                    under_way.push((now + ways[usize::from(out.reverse)], packet));
                }
            }
        }
    }

    #[test]
    fn the_lag_is_way_there_wait_for_the_tick_and_way_back() {
        let mut game = game(40);
        run(&mut game, 1000, [30, 10], |_, _| false);
        let result = game.result(MS(1000));
        // An input of 5 ms is there at 15 and told of at 20 + 30; one of 15 ms is there at 25, told of at 40 + 30.
        assert_eq!((result.lag.min, result.lag.max), (0.045, 0.055));
        assert!((result.lag.mean - 0.05).abs() < 1e-3, "{}", result.lag.mean);
        assert_eq!((result.inputs, result.freezes, result.frozen_s), (100, 0, 0.0));
    }

    #[test]
    fn an_input_that_is_lost_is_told_of_by_the_next_one() {
        let mut game = game(40);
        run(&mut game, 1000, [30, 10], |reverse, number| reverse && (number == 10 || number == 11));
        // Input 10 leaves at 105 ms; input 12, at 125, tells of it: there at 135, told of at 140 + 30.
        assert_eq!(game.result(MS(1000)).lag.max, 0.065);
    }

    #[test]
    fn states_that_are_missing_for_longer_than_is_shown_later_freeze_the_picture() {
        for (interpolation, frozen) in [(40, 0.02), (60, 0.0), (0, 0.06)] {
            let mut game = game(interpolation);
            // States 20, 21 and 22 are lost: 23 comes 80 ms after 19.
            run(&mut game, 1000, [30, 10], |reverse, number| !reverse && (20..23).contains(&number));
            let result = game.result(MS(1000));
            assert!((result.frozen_s - frozen).abs() < 1e-9, "{interpolation}: {}", result.frozen_s);
            assert_eq!(result.freezes, u64::from(frozen > 0.0), "{interpolation}");
        }
    }

    #[test]
    fn states_that_all_come_too_late_are_one_freeze_and_no_time_counts_twice() {
        let mut game = game(40);
        (0..10).for_each(|number| game.handle_state(MS(30 + 20 * number), number));
        // The delay grows by a second. State 9 is shown until 70 + 200, and when state 100 comes its time is over as well.
        (10..=100).for_each(|number| game.handle_state(MS(1030 + 20 * number), number));
        for now in [3030, 3040] {
            let result = game.result(MS(now));
            assert_eq!((result.freezes, result.frozen_s), (1, (now - 270) as f64 / 1e3));
        }
        // State 150 is there before its time, 3070; the next one is half a tick late.
        game.handle_state(MS(3050), 150);
        game.handle_state(MS(3100), 151);
        let result = game.result(MS(3100));
        assert_eq!((result.freezes, result.frozen_s), (2, 2.79));
    }

    #[test]
    fn a_picture_that_stands_still_at_the_end_counts_until_then_and_one_of_a_game_that_is_over_does_not() {
        let mut game = game(40);
        run(&mut game, 1000, [30, 10], |reverse, number| !reverse && number >= 40);
        // The last state, 39, is shown from 70 + 780 on for a tick.
        let result = game.result(MS(1000));
        assert_eq!((result.freezes, result.frozen_s), (1, 0.13));
        game.stop(MS(1000));
        assert_eq!(game.result(MS(1000)).freezes, 0);
    }

    #[test]
    fn what_was_before_the_measured_time_does_not_count() {
        let mut game = game(0);
        run(&mut game, 500, [30, 10], |reverse, number| !reverse && number >= 10);
        game.begin(MS(400));
        let result = game.result(MS(500));
        assert_eq!((result.inputs, result.freezes, result.frozen_s), (0, 1, 0.1));
        assert_eq!(result.lag.count, 0);
    }
}
