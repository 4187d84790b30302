//! CUBIC on a connection: RFC 9438, section 4; HyStart++ and Linux's HyStart by their round trips: RFC 9406.

use super::script::*;
use fairspan_sim::tcp::Config;

fn cubic(changes: &[(&str, &str)]) -> Config {
    let mut all = vec![("congestion", "cubic"), ("limited_transmit", "false")];
    all.extend_from_slice(changes);
    config("rfc", &all)
}

/// A peer with a large window; a backlog without end; every segment acknowledged `rtt` after it was sent.
struct Path {
    script: Script,
    waiting: std::collections::VecDeque<(u64, u64)>,
}

impl Path {
    fn new(config: &Config) -> Path {
        let mut script = Script::new(config);
        script.open();
        script.expect("S 0");
        script.at(100);
        script.window = 65_535;
        script.peer("S. 0 ack 1 mss 1000 sackok ws 14");
        script.expect(". 1 ack 1");
        script.write(1 << 40);
        let mut path = Path { script, waiting: Default::default() };
        path.collect(100);
        path
    }

    fn collect(&mut self, rtt: u64) {
        let now = self.script.now().as_nanos() / 1_000_000;
        for (_, segment) in self.script.take() {
            let end = u64::from(segment.sequence.wrapping_sub(ISS).wrapping_add(segment.length)) - 1;
            self.waiting.push_back((now + rtt, end));
        }
    }

    /// Acknowledges for `millis`; each ACK's data comes back `rtt` later.
    fn run(&mut self, millis: u64, rtt: u64) {
        let end = self.script.now().as_nanos() / 1_000_000 + millis;
        while let Some(&(due, upto)) = self.waiting.front().filter(|(due, _)| *due <= end) {
            self.waiting.pop_front();
            self.script.skip();
            self.script.at(due);
            self.script.more(&format!(". 1 ack {}", upto + 1));
            self.collect(rtt);
        }
    }

    /// The first of what is under way was lost: three reports, and all acknowledged a round trip later.
    fn lose(&mut self, rtt: u64) {
        let (due, first) = self.waiting.pop_front().unwrap();
        self.script.skip();
        self.script.at(due + 3);
        let una = first - 1000;
        self.script.more(&format!(". 1 ack {} sack {}:{}", una + 1, first + 1, first + 3001));
        let last = self.waiting.back().unwrap().1;
        self.waiting.clear();
        self.script.skip();
        self.script.at(due + 3 + rtt);
        self.script.more(&format!(". 1 ack {}", last + 1));
        self.collect(rtt);
    }

    fn segments(&self) -> f64 {
        self.script.connection.window() as f64 / 1000.0
    }
}

// 4.6: beta = 0.7.
#[test]
fn a_loss_leaves_seven_tenths_of_the_flight() {
    let mut s = Script::sending(&cubic(&[]), 10);
    s.at(200);
    s.peer(". 1 ack 1 sack 1001:4001");
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (7000, 7000));
    s.end();
}

// 4.8: a timeout: the threshold by beta, the window one segment.
#[test]
fn a_timeout_leaves_one_segment_and_a_threshold_of_seven_tenths() {
    let mut s = Script::sending(&cubic(&[]), 10);
    s.at(1100);
    s.expect_data(0, 1);
    assert_eq!((s.connection.window(), s.connection.threshold()), (1000, 7000));
    s.end();
}

// 4.2, 4.4: after a loss at W_max the window is back there after K = cbrt(0.3 W_max / C), and flat about it.
#[test]
fn the_window_is_back_at_its_maximum_after_k_seconds() {
    let mut path = Path::new(&cubic(&[("cubic_reno_friendly", "false"), ("byte_counting_limit", "1000")]));
    path.run(600, 100);
    let w_max = path.segments();
    assert!(w_max > 300.0, "{w_max}");
    path.lose(100);
    let low = path.segments();
    assert!((low / w_max - 0.7).abs() < 0.02, "{low} of {w_max}");
    let k = libm::cbrt(0.3 * w_max / 0.4);
    path.run((k * 1000.0) as u64, 100);
    // A round trip's lag and the flight's rounding: a few segments of W_max.
    assert!((path.segments() - w_max).abs() < 0.02 * w_max, "{} of {w_max} after {k} s", path.segments());
    path.run(2000, 100);
    let expected = w_max + 0.4 * 8.0;
    assert!((path.segments() - expected).abs() < 0.02 * w_max, "{} of {expected}", path.segments());
    path.script.end();
}

// 4.3: with a small window and a short round trip it grows as Reno does, by alpha = 3 (1 - beta)/(1 + beta) a round trip,
// and by one once it has reached what it was.
#[test]
fn in_the_reno_friendly_region_it_grows_by_alpha_a_round_trip() {
    let mut path = Path::new(&cubic(&[]));
    path.run(125, 10);
    let w_max = path.segments();
    path.lose(10);
    let low = path.segments();
    assert!(low + 8.0 < w_max, "{low} of {w_max}");
    path.run(100, 10);
    let grown = path.segments() - low;
    let alpha = 3.0 * 0.3 / 1.7;
    assert!(grown > 8.0 * alpha && grown < 11.0 * alpha, "{grown} segments in ten round trips from {low} of {w_max}");
    path.script.end();
}

// RFC 9406: a rise of the round trip by an eighth ends slow start, after five rounds at a quarter of the growth.
#[test]
fn hystart_plus_plus_ends_slow_start_when_the_round_trip_rises() {
    let mut path = Path::new(&cubic(&[("slow_start", "hystart-plus-plus")]));
    path.run(350, 100);
    assert_eq!(path.script.connection.threshold(), u64::MAX);
    path.run(1500, 120);
    assert!(path.script.connection.threshold() < u64::MAX, "{} segments", path.segments());
    assert_eq!(path.script.connection.stats().recoveries, 0);
    path.script.end();
}

#[test]
fn hystart_plus_plus_goes_on_while_the_round_trip_stays() {
    let mut path = Path::new(&cubic(&[("slow_start", "hystart-plus-plus")]));
    path.run(900, 100);
    assert_eq!(path.script.connection.threshold(), u64::MAX);
    assert!(path.segments() > 1000.0, "{}", path.segments());
    path.script.end();
}

#[test]
fn linuxs_hystart_ends_slow_start_when_the_round_trip_rises() {
    let mut path = Path::new(&cubic(&[("slow_start", "hystart"), ("byte_counting_limit", "1000")]));
    path.run(350, 100);
    assert!(path.script.connection.threshold() > 1 << 40);
    path.run(250, 120);
    assert!(path.script.connection.threshold() < 1 << 40, "{} segments", path.segments());
    path.script.end();
}
