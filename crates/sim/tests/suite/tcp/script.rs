//! Packet scripts: what the peer sends, and what the connection under test must send, when.
//!
//! A script plays the peer of one [`Connection`]. Time stands still between calls and moves with [`Script::at`], which
//! lets timers fire at their own times on the way. Everything the connection sends is kept with the time of sending;
//! [`Script::expect`] takes the next of it, which must have been sent at the script's present time exactly. What was sent
//! and not expected is an error at the next segment from the peer, at the next [`Script::at`] and at the end.
//!
//! Segments are written as `FLAGS FIRST[:END] [ack N] [win N] [urg N] [mss N] [ws N] [sackok] [ts VALUE:ECHO] [sack A:B,C:D]`.
//! Flags: `S` SYN, `F` FIN, `R` RST, `.` ACK, `P` PSH (ignored in what is expected), `U` URG, `E` ECE, `W` CWR, `A` AE. Numbers are
//! relative to the initial sequence numbers, which lie shortly before 2^32, so that every script crosses the wrap. Of what
//! is expected, the window and the options of a SYN count only where they are written; `no-ws`, `no-sackok`, `no-ts` and
//! `no-mss` want them absent. SACK blocks count always, unless `sack any`.

use fairspan_core::units::{Span, Time};
use fairspan_sim::tcp::segment::{Flags, Segment};
use fairspan_sim::tcp::{Config, Connection, State};
use std::fmt::Write;

/// Initial sequence number of the connection under test.
pub(crate) const ISS: u32 = u32::MAX - 2_000;
/// The peer's.
pub(crate) const IRS: u32 = u32::MAX - 700;
/// Payload of a full segment in scripts that do not say otherwise.
pub(crate) const MSS: u64 = 1000;

pub(crate) struct Script {
    pub(crate) connection: Connection,
    now: Time,
    iss: u32,
    sent: Vec<(Time, Segment)>,
    taken: usize,
    history: String,
    /// Window field of the peer's segments that do not say one.
    pub(crate) window: u16,
    quiet: bool,
}

/// Settings by preset and name; the segment size is 1000 and there are no timestamps unless the changes say so.
pub(crate) fn config(preset: &str, changes: &[(&str, &str)]) -> Config {
    let mut config = Config::preset(preset).unwrap();
    config.set("mss", &MSS.to_string()).unwrap();
    config.set("timestamps", "false").unwrap();
    for (name, value) in changes {
        config.set(name, value).unwrap_or_else(|error| panic!("{error}"));
    }
    config
}

pub(crate) fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

pub(crate) fn span(ms: u64) -> Span {
    Span::from_millis(ms)
}

impl Script {
    /// A closed connection at time 0.
    pub(crate) fn new(config: &Config) -> Script {
        let iss = if config.handshake { ISS } else { 0 };
        Script {
            connection: Connection::new(config, Time::ZERO, iss),
            now: Time::ZERO,
            iss,
            sent: Vec::new(),
            taken: 0,
            history: String::new(),
            window: 65_535,
            quiet: false,
        }
    }

    /// A connection that opened actively and got the peer's SYN at 100 ms, its first round trip. The peer permits SACK
    /// where the connection does, and takes segments of 1000 bytes.
    pub(crate) fn established(config: &Config) -> Script {
        let mut script = Script::new(config);
        script.open();
        let sackok = if config.sack { "sackok" } else { "" };
        script.expect("S 0");
        script.at(100);
        script.peer(&format!("S. 0 ack 1 mss 1000 {sackok}"));
        script.expect(". 1 ack 1");
        script
    }

    /// As [`Script::established`], and `segments` full segments are written and sent at 100 ms.
    pub(crate) fn sending(config: &Config, segments: u64) -> Script {
        let mut script = Script::established(config);
        script.write(segments * MSS);
        for n in 0..segments {
            script.expect_data(n, 1);
        }
        script
    }

    /// A connection that waited for the peer's SYN, established at 100 ms; no options but the segment size.
    pub(crate) fn accepted(config: &Config, options: &str) -> Script {
        let mut script = Script::new(config);
        script.listen();
        script.peer(&format!("S 0 mss 1000 {options}"));
        script.expect("S. 0 ack 1");
        script.at(100);
        script.peer(". 1 ack 1");
        script
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// The state of the connection.
    pub(crate) fn state(&self) -> State {
        self.connection.state()
    }

    /// Goes to `millis` after the start.
    #[track_caller]
    pub(crate) fn at(&mut self, millis: u64) {
        self.at_time(ms(millis));
    }

    /// Goes to a time.
    #[track_caller]
    pub(crate) fn at_time(&mut self, time: Time) {
        self.nothing_left();
        assert!(time >= self.now, "a script goes forward");
        self.run(time);
    }

    /// Lets `millis` pass.
    #[track_caller]
    pub(crate) fn after(&mut self, millis: u64) {
        self.at_time(self.now + span(millis));
    }

    /// Goes to `millis` after the start; what was sent before then may be taken there.
    pub(crate) fn run_on(&mut self, millis: u64) {
        self.run(ms(millis));
    }

    fn run(&mut self, time: Time) {
        let mut last = (Time::ZERO, 0);
        while let Some(due) = self.connection.poll_timeout().filter(|&due| due <= time) {
            // A timer that is due again and again at one time would hang the world.
            let due = due.max(self.now);
            last = if last.0 == due { (due, last.1 + 1) } else { (due, 1) };
            if last.1 > 100 {
                self.fail(&format!("the timer is due at {due:?} for ever"));
            }
            self.now = due;
            self.connection.handle_timeout(due);
            self.collect();
        }
        self.now = time;
    }

    fn collect(&mut self) {
        while let Some(segment) = self.connection.poll_transmit(self.now) {
            let _ = writeln!(self.history, "{} > {}", self.clock(), self.text(&segment));
            self.sent.push((self.now, segment));
            if self.sent.len() > 100_000 {
                self.fail("it sends without end");
            }
        }
    }

    fn clock(&self) -> String {
        format!("{:>12.6}", self.now.as_nanos() as f64 / 1e6)
    }

    fn note(&mut self, what: &str) {
        let _ = writeln!(self.history, "{} - {what}", self.clock());
    }

    #[track_caller]
    fn fail(&self, what: &str) -> ! {
        panic!("{what}\nthe exchange (ms, > sent, < received, - application):\n{}", self.history);
    }

    /// Fails unless everything sent was expected.
    #[track_caller]
    pub(crate) fn nothing_left(&self) {
        if let Some((_, segment)) = self.sent.get(self.taken) {
            self.fail(&format!("not expected: {}", self.text(segment)));
        }
    }

    /// Fails unless nothing was sent since.
    #[track_caller]
    pub(crate) fn expect_nothing(&mut self) {
        self.nothing_left();
    }

    /// Forgets what was sent and not expected.
    pub(crate) fn skip(&mut self) {
        self.taken = self.sent.len();
    }

    /// Gives what was sent and not expected, and forgets it.
    pub(crate) fn take(&mut self) -> Vec<(Time, Segment)> {
        let rest = self.sent[self.taken..].to_vec();
        self.skip();
        rest
    }

    pub(crate) fn open(&mut self) {
        self.note("open");
        self.connection.open(self.now);
        self.collect();
    }

    pub(crate) fn listen(&mut self) {
        self.note("listen");
        self.connection.listen(self.now);
        self.collect();
    }

    pub(crate) fn write(&mut self, bytes: u64) -> u64 {
        let taken = self.connection.write(self.now, bytes);
        self.note(&format!("write {bytes}: {taken} taken"));
        self.collect();
        taken
    }

    pub(crate) fn read(&mut self, max: u64) -> u64 {
        let read = self.connection.read(self.now, max);
        self.note(&format!("read {max}: {read} read"));
        self.collect();
        read
    }

    /// What is written next is urgent, for so many bytes.
    pub(crate) fn urge(&mut self, bytes: u64) {
        self.connection.urge(bytes);
        self.collect();
    }

    pub(crate) fn close(&mut self) {
        self.note("close");
        self.connection.close(self.now);
        self.collect();
    }

    pub(crate) fn abort(&mut self) {
        self.note("abort");
        self.connection.abort(self.now);
        self.collect();
    }

    /// A segment from the peer arrives now.
    #[track_caller]
    pub(crate) fn peer(&mut self, text: &str) {
        self.nothing_left();
        self.more(text);
    }

    /// The same, whatever was sent before.
    pub(crate) fn more(&mut self, text: &str) {
        let segment = self.parse(text);
        let _ = writeln!(self.history, "{} < {text}", self.clock());
        self.connection.handle_segment(self.now, &segment);
        self.collect();
    }

    /// The peer acknowledges all before `bytes` of our stream.
    #[track_caller]
    pub(crate) fn ack(&mut self, bytes: u64) {
        self.peer(&format!(". 1 ack {}", bytes + 1));
    }

    /// The next segment, sent now.
    #[track_caller]
    pub(crate) fn expect(&mut self, text: &str) -> Segment {
        let Some(&(time, segment)) = self.sent.get(self.taken) else {
            self.fail(&format!("at {} ms nothing was sent; expected: {text}", self.clock().trim()));
        };
        self.taken += 1;
        if time != self.now {
            let late = time.as_nanos() as f64 / 1e6;
            self.fail(&format!("sent at {late} ms, not at {} ms: {text}", self.clock().trim()));
        }
        if let Err(why) = self.matches(text, &segment) {
            self.fail(&format!("{why}\nexpected {text}\n    sent {}", self.text(&segment)));
        }
        segment
    }

    /// The `n`-th (from 0) full segment of our stream, sent now.
    #[track_caller]
    pub(crate) fn expect_data(&mut self, n: u64, ack: u64) -> Segment {
        self.expect(&format!(". {}:{} ack {ack}", n * MSS + 1, (n + 1) * MSS + 1))
    }

    fn parse(&self, text: &str) -> Segment {
        let mut segment = Segment { window: self.window, ..Segment::default() };
        let mut words = text.split_whitespace();
        for flag in words.next().expect("flags").chars() {
            segment.flags = segment.flags.with(flag_of(flag));
        }
        let (first, end) = range(words.next().expect("a sequence number"));
        segment.sequence = IRS.wrapping_add(first as u32);
        segment.length = (end - first) as u32;
        if self.iss == 0 {
            segment.sequence = first as u32;
        }
        while let Some(word) = words.next() {
            let mut number = || words.next().expect("a value").to_owned();
            match word {
                "ack" => segment.acknowledgment = self.iss.wrapping_add(number().parse::<u64>().unwrap() as u32),
                "win" => segment.window = number().parse().unwrap(),
                "urg" => segment.urgent = number().parse().unwrap(),
                "mss" => segment.options.mss = Some(number().parse().unwrap()),
                "ws" => segment.options.window_scale = Some(number().parse().unwrap()),
                "sackok" => segment.options.sack_permitted = true,
                "ts" => {
                    let value = number();
                    let (value, echo) = value.split_once(':').expect("ts VALUE:ECHO");
                    segment.options.timestamps = Some((value.parse().unwrap(), echo.parse().unwrap()));
                }
                "sack" => {
                    for (n, block) in number().split(',').enumerate() {
                        let (left, right) = range(block);
                        let base = self.iss;
                        segment.options.sack[n] = (base.wrapping_add(left as u32), base.wrapping_add(right as u32));
                        segment.options.sack_count = n as u8 + 1;
                    }
                }
                _ => panic!("a script has no {word:?}"),
            }
        }
        segment
    }

    fn peer_base(&self) -> u32 {
        if self.iss == 0 { 0 } else { IRS }
    }

    fn matches(&self, text: &str, segment: &Segment) -> Result<(), String> {
        let same = |what: &str, want: String, got: String| {
            if want == got { Ok(()) } else { Err(format!("{what}: {want} expected, {got} sent")) }
        };
        let mut words = text.split_whitespace();
        let mut flags = Flags::default();
        for flag in words.next().expect("flags").chars() {
            flags = flags.with(flag_of(flag));
        }
        let plain = |flags: Flags| Flags(flags.0 & !Flags::PSH.0);
        same("flags", format!("{:?}", plain(flags)), format!("{:?}", plain(segment.flags)))?;
        let (first, end) = range(words.next().expect("a sequence number"));
        let relative = u64::from(segment.sequence.wrapping_sub(self.iss));
        same("sequence", first.to_string(), relative.to_string())?;
        same("length", (end - first).to_string(), segment.length.to_string())?;
        let base = self.peer_base();
        let blocks = &segment.options.sack[..usize::from(segment.options.sack_count)];
        let blocks: Vec<String> = blocks
            .iter()
            .map(|(left, right)| format!("{}:{}", left.wrapping_sub(base), right.wrapping_sub(base)))
            .collect();
        let mut sack = Some(String::new());
        while let Some(word) = words.next() {
            let mut number = || words.next().expect("a value").to_owned();
            let options = &segment.options;
            match word {
                "ack" => same(word, number(), segment.acknowledgment.wrapping_sub(base).to_string())?,
                "win" => same(word, number(), segment.window.to_string())?,
                "urg" => same(word, number(), segment.urgent.to_string())?,
                "mss" => same(word, number(), options.mss.map_or("none".into(), |mss| mss.to_string()))?,
                "ws" => same(word, number(), options.window_scale.map_or("none".into(), |scale| scale.to_string()))?,
                "ts" => {
                    let got = options.timestamps.map_or("none".into(), |(value, echo)| format!("{value}:{echo}"));
                    same(word, number(), got)?;
                }
                "sackok" => same(word, "true".into(), options.sack_permitted.to_string())?,
                "no-mss" => same(word, "true".into(), options.mss.is_none().to_string())?,
                "no-ws" => same(word, "true".into(), options.window_scale.is_none().to_string())?,
                "no-ts" => same(word, "true".into(), options.timestamps.is_none().to_string())?,
                "no-sackok" => same(word, "true".into(), (!options.sack_permitted).to_string())?,
                "sack" => {
                    let value = number();
                    sack = (value != "any").then_some(value);
                }
                _ => panic!("a script has no {word:?}"),
            }
        }
        match sack {
            Some(sack) => same("sack", sack, blocks.join(",")),
            None => Ok(()),
        }
    }

    /// A segment that the connection sent, as scripts write it.
    fn text(&self, segment: &Segment) -> String {
        let mut text = String::new();
        for (flag, letter) in FLAGS {
            if segment.flags.has(flag) {
                text.push(letter);
            }
        }
        let first = segment.sequence.wrapping_sub(self.iss);
        let _ = write!(text, " {first}:{}", first.wrapping_add(segment.length));
        let base = self.peer_base();
        if segment.flags.has(Flags::ACK) {
            let _ = write!(text, " ack {}", segment.acknowledgment.wrapping_sub(base));
        }
        let _ = write!(text, " win {}", segment.window);
        let options = &segment.options;
        if let Some(mss) = options.mss {
            let _ = write!(text, " mss {mss}");
        }
        if let Some(scale) = options.window_scale {
            let _ = write!(text, " ws {scale}");
        }
        if options.sack_permitted {
            text.push_str(" sackok");
        }
        if let Some((value, echo)) = options.timestamps {
            let _ = write!(text, " ts {value}:{echo}");
        }
        for (n, (left, right)) in options.sack[..usize::from(options.sack_count)].iter().enumerate() {
            let lead = if n == 0 { " sack " } else { "," };
            let _ = write!(text, "{lead}{}:{}", left.wrapping_sub(base), right.wrapping_sub(base));
        }
        text
    }

    /// The end of a script in which what follows does not matter.
    pub(crate) fn end(mut self) {
        self.quiet = true;
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        if !self.quiet && !std::thread::panicking() {
            self.nothing_left();
        }
    }
}

const FLAGS: [(Flags, char); 9] = [
    (Flags::SYN, 'S'),
    (Flags::FIN, 'F'),
    (Flags::RST, 'R'),
    (Flags::PSH, 'P'),
    (Flags::URG, 'U'),
    (Flags::AE, 'A'),
    (Flags::ECE, 'E'),
    (Flags::CWR, 'W'),
    (Flags::ACK, '.'),
];

fn flag_of(letter: char) -> Flags {
    FLAGS.iter().find(|(_, other)| *other == letter).unwrap_or_else(|| panic!("no flag is called {letter:?}")).0
}

fn range(text: &str) -> (u64, u64) {
    match text.split_once(':') {
        Some((first, end)) => (first.parse().unwrap(), end.parse().unwrap()),
        None => (text.parse().unwrap(), text.parse().unwrap()),
    }
}
