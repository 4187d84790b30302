//! The settings of one end of a connection, and the presets that fill them.
//!
//! What it is: every constant of the TCP here, each with its unit, its source and a name by which a scenario sets it and
//! a report prints it. Three presets: `rfc` (the RFCs' own values and recommendations), `linux` (what a present-day Linux
//! does) and `ns2-1999` (the Reno of ns-2 as the papers of its time ran it).
//!
//! Departures of the presets:
//! - `rfc` never gives up on a peer (RFC 9293's R2 is at least 100 s, and an application decides): `retries = 0`.
//! - `linux` has what shows from outside: initial window, CUBIC, SACK, RACK-TLP, PRR, timers, quick acknowledgements and
//!   growing receive buffers. It does not pace unless `pacing` says so, has no small queues below TCP and no segmentation
//!   offload: one segment is one packet. Its receive buffer counts payload, not the kernel's bookkeeping.
//! - `ns2-1999` has packets of 1000 bytes in all, as ns-2 made them until headers were added to `packetSize_` by default
//!   (28 November 2001), so 960 of them are payload. Its two ends are connected from the start (`syn_` was false) and
//!   use no options. ns-2 rounds its smoothed round trip down to eighths of a tick; ours keeps nanoseconds.

use fairspan_core::congestion::window::{Basis, Counting, InitialWindow, SlowStart, initial_window};
use fairspan_core::congestion::{self, Algorithm, LawMaker};
use fairspan_core::loss::rtt;
use fairspan_core::options::Words;
use fairspan_core::units::{Bytes, Span};
use thiserror::Error;

/// A setting that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SettingError {
    /// There is no setting of this name.
    #[error("no TCP setting is called {name:?}; there are: {}", Config::NAMES.join(", "))]
    Name {
        /// What was asked for.
        name: String,
    },
    /// The value is not what this setting takes.
    #[error("TCP setting {name} = {value:?}: {expected} is needed")]
    Value {
        /// The setting.
        name: &'static str,
        /// What was given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
    /// There is no preset of this name.
    #[error("no TCP preset is called {name:?}; there are: {}", Config::PRESETS.join(", "))]
    Preset {
        /// What was asked for.
        name: String,
    },
}

/// A type of setting: read from text, written as text.
trait Value: Sized {
    /// What would be right.
    const EXPECTED: &'static str;
    fn parse(text: &str) -> Option<Self>;
    fn text(&self) -> String;
}

impl Value for bool {
    const EXPECTED: &'static str = "true or false";
    fn parse(text: &str) -> Option<bool> {
        match text {
            "true" | "on" => Some(true),
            "false" | "off" => Some(false),
            _ => None,
        }
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const EXPECTED: &'static str = "a whole number from 0 to 1000000";
    fn parse(text: &str) -> Option<u32> {
        text.parse().ok().filter(|n| *n <= 1_000_000)
    }
    fn text(&self) -> String {
        self.to_string()
    }
}

impl Value for f64 {
    const EXPECTED: &'static str = "a number from 0 to 1000";
    fn parse(text: &str) -> Option<f64> {
        text.parse().ok().filter(|x: &f64| (0.0..=1000.0).contains(x))
    }
    fn text(&self) -> String {
        format!("{self}")
    }
}

impl Value for Span {
    const EXPECTED: &'static str = "a time as \"200ms\" (ns, us, ms, s), at most 10000 s";
    fn parse(text: &str) -> Option<Span> {
        const UNITS: [(&str, f64); 4] = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
        let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))?;
        let ns = number.trim().parse::<f64>().ok()? * unit;
        (0.0..=1e13).contains(&ns).then(|| Span::from_nanos(ns.round() as u64))
    }
    fn text(&self) -> String {
        let ns = self.as_nanos();
        match ns {
            0 => "0s".into(),
            _ if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
            _ if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
            _ if ns.is_multiple_of(1_000) => format!("{}us", ns / 1_000),
            _ => format!("{ns}ns"),
        }
    }
}

impl Value for Bytes {
    const EXPECTED: &'static str = "a size as \"64000B\" (B, kB, MB, KiB, MiB) or \"unlimited\"";
    fn parse(text: &str) -> Option<Bytes> {
        if text == "unlimited" {
            return Some(UNLIMITED);
        }
        const UNITS: [(&str, u64); 6] =
            [("KiB", 1 << 10), ("MiB", 1 << 20), ("kB", 1_000), ("MB", 1_000_000), ("GB", 1_000_000_000), ("B", 1)];
        let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
        let bytes = number.trim().parse::<u64>().ok()?.checked_mul(unit)?;
        (bytes <= UNLIMITED.as_u64()).then_some(Bytes::new(bytes))
    }
    fn text(&self) -> String {
        if *self == UNLIMITED { "unlimited".into() } else { format!("{}B", self.as_u64()) }
    }
}

/// Gives the values of an enum names.
macro_rules! named {
    ($type:ident, $expected:literal { $($variant:ident = $name:literal,)* }) => {
        impl Value for $type {
            const EXPECTED: &'static str = $expected;
            fn parse(text: &str) -> Option<$type> {
                match text { $($name => Some($type::$variant),)* _ => None }
            }
            fn text(&self) -> String {
                match self { $($type::$variant => $name.into(),)* }
            }
        }
    };
}

/// Declares an enum whose values have names.
macro_rules! choice {
    ($(#[$doc:meta])* $type:ident, $expected:literal { $($(#[$vdoc:meta])* $variant:ident = $name:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type { $($(#[$vdoc])* $variant,)* }

        named!($type, $expected { $($variant = $name,)* });
    };
}

impl Value for Algorithm {
    const EXPECTED: &'static str = Algorithm::EXPECTED;
    fn parse(text: &str) -> Option<Algorithm> {
        Algorithm::from_word(text)
    }
    fn text(&self) -> String {
        self.word().into()
    }
}

named!(SlowStart, "\"standard\", \"hystart\" or \"hystart-plus-plus\"" {
    Standard = "standard",
    HyStart = "hystart",
    HyStartPlusPlus = "hystart-plus-plus",
});
named!(Basis, "\"in-flight\" or \"window\"" { InFlight = "in-flight", Window = "window", });

choice! {
    /// How loss is found, and how it is repaired.
    LossDetection, "\"tahoe\", \"reno\", \"newreno\", \"sack\" or \"rack\"" {
        /// Duplicate ACKs, then slow start from one segment, as before fast recovery.
        Tahoe = "tahoe",
        /// Duplicate ACKs; fast recovery ends with the first new ACK (RFC 2001).
        Reno = "reno",
        /// Duplicate ACKs; partial ACKs keep fast recovery (RFC 6582).
        NewReno = "newreno",
        /// The scoreboard (RFC 6675); NewReno where the peer does not permit SACK.
        Sack = "sack",
        /// Send times (RFC 8985) over the scoreboard; NewReno where the peer does not permit SACK.
        Rack = "rack",
    }
}

choice! {
    /// Explicit congestion notification.
    Ecn, "\"off\", \"on\", \"accurate\", \"dctcp\" or \"l4s\"" {
        /// None.
        Off = "off",
        /// RFC 3168: a mark is echoed until the peer tells that it has reduced.
        On = "on",
        /// RFC 9768: packets with marks are counted, and three flags tell the count; `on` with a peer that has only that.
        Accurate = "accurate",
        /// RFC 8257: each mark is echoed, as DCTCP needs it.
        Dctcp = "dctcp",
        /// RFC 9331: as `accurate`, and what is sent says ECT(1), so that L4S queues take it; `on` with a peer that has only that.
        L4s = "l4s",
    }
}

choice! {
    /// Which small segments wait.
    Nagle, "\"off\", \"on\" or \"minshall\"" {
        /// None.
        Off = "off",
        /// All while anything is unacknowledged (RFC 9293, 3.7.4).
        On = "on",
        /// Those that follow an unacknowledged small one, as in Linux.
        Minshall = "minshall",
    }
}

choice! {
    /// What the retransmission timer does on partial ACKs (RFC 6582, section 4).
    PartialAck, "\"impatient\" or \"slow-but-steady\"" {
        /// Only the first partial ACK of a recovery restarts the timer.
        Impatient = "impatient",
        /// Every partial ACK restarts the timer.
        SlowButSteady = "slow-but-steady",
    }
}

choice! {
    /// The window after NewReno's recovery (RFC 6582, section 3.2, step 3, full acknowledgments).
    FullAck, "\"flight\" or \"threshold\"" {
        /// The smaller of the threshold and the flight plus one segment: no burst.
        Flight = "flight",
        /// The threshold.
        Threshold = "threshold",
    }
}

choice! {
    /// Where round-trip samples come from.
    RttSampling, "\"round\", \"ack\" or \"timestamps\"" {
        /// One timed segment at a time (RFC 6298, section 3).
        Round = "round",
        /// Every ACK for data never retransmitted, by the send times kept here; timestamps for the rest, as in Linux.
        Ack = "ack",
        /// Every ACK that advances, by the echoed timestamp (RFC 7323, section 4); as `round` without timestamps.
        Timestamps = "timestamps",
    }
}

impl Value for InitialWindow {
    const EXPECTED: &'static str = "a number of segments from 1 to 1000, \"rfc3390\" or \"rfc6928\"";
    fn parse(text: &str) -> Option<InitialWindow> {
        match text {
            "rfc3390" | "rfc5681" => Some(InitialWindow::Rfc3390),
            "rfc6928" => Some(InitialWindow::Rfc6928),
            _ => text.parse().ok().filter(|n| (1..=1000).contains(n)).map(InitialWindow::Segments),
        }
    }
    fn text(&self) -> String {
        match self {
            InitialWindow::Segments(n) => n.to_string(),
            InitialWindow::Rfc3390 => "rfc3390".into(),
            InitialWindow::Rfc6928 => "rfc6928".into(),
        }
    }
}

/// No bound: more than any connection moves.
pub const UNLIMITED: Bytes = Bytes::new(1 << 60);

/// Declares the settings once: field, type, value of the preset `rfc`, and what a value must satisfy.
macro_rules! settings {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $rfc:expr $(, $ok:expr => $expected:literal)?;)*) => {
        /// The settings of one end of a connection. The default is the preset `rfc`.
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct Config {
            $($(#[doc = $doc])* pub $name: $type,)*
            /// A law of congestion control of one's own, in place of `congestion`. It has no name in files.
            pub own_law: Option<LawMaker>,
        }

        impl Default for Config {
            fn default() -> Config {
                Config { $($name: $rfc,)* own_law: None }
            }
        }

        impl Config {
            /// The names of all settings.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)*];

            /// What each of [`Config::NAMES`] is, with its source.
            pub const MEANINGS: &'static [&'static str] = &[$(concat!($($doc,)*),)*];

            /// Every constant by name, with its value as [`Config::set`] takes it.
            pub fn constants(&self) -> Vec<(&'static str, String)> {
                vec![$((stringify!($name), Value::text(&self.$name)),)*]
            }

            /// Changes one setting. Numbers, truth values and names are given as text.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), SettingError> {
                match name {
                    $(stringify!($name) => {
                        let refused = |expected| SettingError::Value {
                            name: stringify!($name), value: value.into(), expected,
                        };
                        let parsed: $type = Value::parse(value).ok_or(refused(<$type as Value>::EXPECTED))?;
                        $(
                            let acceptable: fn(&$type) -> bool = $ok;
                            if !acceptable(&parsed) {
                                return Err(refused($expected));
                            }
                        )?
                        self.$name = parsed;
                        Ok(())
                    })*
                    _ => Err(SettingError::Name { name: name.into() }),
                }
            }
        }
    };
}

settings! {
    /// What sets the congestion window: `reno`, `cubic`, `delay`, `probe`, `vegas`, `ledbat++`, `dctcp`, `bbr` (version 3), `prague` or `bbr1` (BBR version 1, which Linux calls `bbr`).
    congestion: Algorithm = Algorithm::Reno;
    /// How loss is found and repaired.
    loss: LossDetection = LossDetection::Sack;
    /// How slow start may end before a loss.
    slow_start: SlowStart = SlowStart::Standard;
    /// What is reduced at a loss: the bytes under way (RFC 5681, equation 4) or the window (ns-2).
    reduction_basis: Basis = Basis::InFlight;

    /// Most bytes of payload in a segment without options: what the SYN announces (RFC 9293, 3.7.1). 1460: Ethernet.
    mss: u32 = 1460, |n| (64..=65_495).contains(n) => "a whole number from 64 to 65495";
    /// Whether options make the payload smaller (RFC 6691): 12 bytes less with timestamps.
    mss_counts_options: bool = true;
    /// Bytes of network header that each packet has before its TCP header; 20: IPv4.
    network_header: u32 = 20, |n| *n <= 1000 => "a whole number from 0 to 1000";
    /// What may be sent before the first ACK.
    initial_window: InitialWindow = InitialWindow::Rfc6928;
    /// How many SYNs have to be sent again for the window to begin with one segment (RFC 5681, 3.1: one). None counts where `undo` and timestamps
    /// show that the first one had arrived.
    syns_lost: u32 = 1, |n| (1..=255).contains(n) => "a whole number from 1 to 255";
    /// The slow start threshold at the beginning.
    initial_threshold: Bytes = UNLIMITED;
    /// Most segments ever in flight, whatever the congestion window says; 0: no bound. ns-2's `window_`.
    window_limit: u32 = 0;
    /// Whether the window falls to the initial one after as long as a retransmission timeout without sending
    /// (RFC 5681, 4.1).
    restart_after_idle: bool = true;
    /// Whether the window grows only while it is what limits sending (RFC 9438, 5.8; RFC 7661).
    window_validation: bool = true;
    /// Whether segments go out one by one at congestion control's pacing rate, once a round trip of data was measured, and not
    /// as the window lets them.
    pacing: bool = false;
    /// Most segments that one ACK counts for in slow start (RFC 3465's L); 0 counts ACKs and not bytes, 1000: no limit.
    byte_counting_limit: u32 = 2, |n| *n <= 1000 => "a whole number from 0 to 1000";

    /// Duplicate ACKs that set off fast retransmit (RFC 5681, 3.2).
    duplicate_threshold: u32 = 3, |n| (1..=255).contains(n) => "a whole number from 1 to 255";
    /// Whether the first two duplicate ACKs send new segments (RFC 3042).
    limited_transmit: bool = true;
    /// What partial ACKs do to the retransmission timer.
    partial_ack: PartialAck = PartialAck::Impatient;
    /// The window after NewReno's recovery.
    full_ack: FullAck = FullAck::Flight;
    /// Whether recovery's sending is spread by proportional rate reduction (RFC 6937), with the scoreboard.
    rate_reduction: bool = false;
    /// Whether a timeout within recovery lowers the threshold again; Linux lowers it once for a window of data.
    reduce_again_at_timeout: bool = true;
    /// Whether spurious timeouts are found (F-RTO, RFC 5682) and undone.
    frto: bool = false;
    /// Whether recovery that DSACKs or timestamps show as unneeded is undone (RFC 3708, RFC 4015).
    undo: bool = false;
    /// Whether tail loss probes are sent (RFC 8985, section 7), with RACK.
    tail_loss_probe: bool = true;

    /// Explicit congestion notification, if both ends want it: marks in place of drops by queues that mark. `on` is RFC 3168, `accurate` counts
    /// marks (RFC 9768), `dctcp` echoes each (RFC 8257), `l4s` counts and says ECT(1) (RFC 9331), as `prague` needs it.
    ecn: Ecn = Ecn::Off;
    /// Whether SACK is permitted to the peer (RFC 2018).
    sack: bool = true;
    /// Whether duplicates are reported (RFC 2883), where SACK is in use.
    dsack: bool = true;
    /// Whether what was reported by SACK still counts after a timeout; RFC 2018, section 8, says no.
    sack_kept_over_timeout: bool = false;
    /// Whether timestamps are offered (RFC 7323).
    timestamps: bool = true;
    /// Whether window scaling is offered (RFC 7323).
    window_scaling: bool = true;
    /// Whether the connection begins with SYNs. `false`: both ends are connected from the start, with sequence number 0.
    handshake: bool = true;

    /// Where round-trip samples come from.
    rtt_sampling: RttSampling = RttSampling::Timestamps;
    /// Samples are rounded to multiples of this, at least one; zero: not at all. ns-2's `tcpTick_`.
    rtt_tick: Span = Span::ZERO;
    /// The retransmission timeout before any sample (RFC 6298, 2.1).
    rto_initial: Span = Span::from_secs(1), |s| s.as_nanos() > 0 => "a time above zero";
    /// The same once the SYN had to be sent again (RFC 6298, 5.7).
    rto_initial_after_syn_loss: Span = Span::from_secs(3), |s| s.as_nanos() > 0 => "a time above zero";
    /// Least retransmission timeout (RFC 6298, 2.4: 1 s).
    rto_minimum: Span = Span::from_secs(1), |s| s.as_nanos() > 0 => "a time above zero";
    /// Most (RFC 6298, 2.5: at least 60 s).
    rto_maximum: Span = Span::from_secs(60), |s| s.as_nanos() > 0 => "a time above zero";
    /// Clock granularity G of RFC 6298, 2.2: least that is added to the smoothed round trip.
    rto_granularity: Span = Span::from_millis(1);
    /// Times a segment is sent again before the connection is given up; 0: never (`tcp_retries2` of Linux: 15).
    retries: u32 = 0;
    /// Times a SYN is sent again before the connection is given up; 0: never.
    syn_retries: u32 = 0;

    /// How long an ACK waits for a second segment or for data; zero: not at all (RFC 9293, 3.8.6.3: below 500 ms).
    delayed_ack: Span = Span::from_millis(200), |s| s.as_nanos() <= 500_000_000 => "a time from 0s to 500ms";
    /// Where above `delayed_ack`, the wait follows the data's arrivals between the two, as in Linux.
    delayed_ack_maximum: Span = Span::from_millis(200), |s| s.as_nanos() <= 500_000_000 => "a time from 0s to 500ms";
    /// Whether `ack_every` counts segments of any size, as BSD does, and not full ones.
    ack_small_segments: bool = false;
    /// Full segments that are acknowledged at once (RFC 5681, 4.2: every second).
    ack_every: u32 = 2, |n| (1..=1000).contains(n) => "a whole number from 1 to 1000";
    /// Segments acknowledged at once at the beginning and after a pause, so that the peer's slow start is not slowed.
    quick_acks: u32 = 0;

    /// Which small segments wait.
    nagle: Nagle = Nagle::On;
    /// Whether each write of the application begins a segment of its own.
    segment_per_write: bool = false;
    /// How long sender-side avoidance of silly windows holds back a segment (RFC 9293, 3.8.6.2.1: 0.1 s to 1 s).
    silly_window_override: Span = Span::from_millis(200), |s| s.as_nanos() > 0 => "a time above zero";
    /// Bytes that may be written ahead of what is acknowledged.
    send_buffer: Bytes = UNLIMITED, |b| b.as_u64() > 0 => "a size above zero";
    /// Bytes that arrive before the application reads them: the window offered.
    receive_buffer: Bytes = Bytes::new(1 << 20), |b| b.as_u64() > 0 => "a size above zero";
    /// Where above `receive_buffer`, the buffer grows to this with what is read in a round trip, as in Linux. A scenario that
    /// sets `receive_buffer` alone sets this too.
    receive_buffer_maximum: Bytes = Bytes::new(1 << 20), |b| b.as_u64() > 0 => "a size above zero";
    /// How long a connection stays in TIME-WAIT: twice the segments' lifetime (RFC 9293: 4 minutes).
    time_wait: Span = Span::from_secs(240);
    /// Least time between ACKs for segments that are out of the window and carry nothing (RFC 5961, section 7).
    challenge_interval: Span = Span::from_millis(500);

    /// How long an end hears nothing before it asks whether its peer is there (RFC 9293, 3.8.4: 2 hours at least by default); zero: it never
    /// asks.
    keepalive: Span = Span::ZERO;
    /// From one such question to the next, while there is no answer.
    keepalive_interval: Span = Span::from_secs(75), |s| s.as_nanos() > 0 => "a time above zero";
    /// Questions without an answer after which the connection is given up, with a reset.
    keepalive_probes: u32 = 9, |n| (1..=1000).contains(n) => "a whole number from 1 to 1000";

    /// CUBIC's C, in segments per second cubed (RFC 9438, 5.1).
    cubic_c: f64 = 0.4, |x| *x > 0.0 => "a number above 0";
    /// CUBIC's window after a loss, as share of the one before (RFC 9438, 4.6).
    cubic_beta: f64 = 0.7, |x| *x > 0.0 && *x < 1.0 => "a number between 0 and 1";
    /// Whether CUBIC gives way to new flows (RFC 9438, 4.7).
    cubic_fast_convergence: bool = true;
    /// Whether CUBIC is at least as fast as Reno (RFC 9438, 4.3).
    cubic_reno_friendly: bool = true;
    /// Whether CUBIC departs from the RFC as Linux does.
    cubic_linux: bool = false;
}

impl Config {
    /// The presets' names.
    pub const PRESETS: &'static [&'static str] = &["rfc", "linux", "ns2-1999"];

    /// A preset by its name.
    pub fn preset(name: &str) -> Result<Config, SettingError> {
        match name {
            "rfc" => Ok(Config::default()),
            "linux" => Ok(Config::linux()),
            "ns2-1999" => Ok(Config::ns2_1999()),
            _ => Err(SettingError::Preset { name: name.into() }),
        }
    }

    /// A table of every setting: its value in each preset, what it is and from where; in Markdown.
    pub fn table() -> String {
        let presets: Vec<_> = Config::PRESETS.iter().filter_map(|name| Config::preset(name).ok()).collect();
        let values: Vec<_> = presets.iter().map(Config::constants).collect();
        let mut out = format!("| setting | {} | what it is |\n", Config::PRESETS.join(" | "));
        out += &format!("|---|{}---|\n", "---|".repeat(presets.len()));
        for (n, (name, meaning)) in Config::NAMES.iter().zip(Config::MEANINGS).enumerate() {
            let cells: Vec<&str> = values.iter().map(|values| values[n].1.as_str()).collect();
            out += &format!("| `{name}` | {} | {} |\n", cells.join(" | "), meaning.trim());
        }
        out
    }

    /// What congestion control is told, for segments of `mss` bytes.
    pub(super) fn law(&self, mss: u32) -> congestion::Config {
        let mut law = congestion::Config::new(self.congestion, mss);
        law.window.initial_window = initial_window(self.initial_window, mss);
        law.window.initial_threshold =
            if self.initial_threshold == UNLIMITED { u64::MAX } else { self.initial_threshold.as_u64() };
        law.window.counting = match self.byte_counting_limit {
            0 => Counting::Acks,
            1000.. => Counting::Bytes { limit: u32::MAX },
            limit => Counting::Bytes { limit },
        };
        law.window.basis = self.reduction_basis;
        law.window.slow_start = self.slow_start;
        law.window.paced = self.pacing;
        law.window.grow_only_when_limited = self.window_validation;
        law.cubic.c = self.cubic_c;
        law.cubic.beta = self.cubic_beta;
        law.cubic.fast_convergence = self.cubic_fast_convergence;
        law.cubic.reno_friendly = self.cubic_reno_friendly;
        law.cubic.linux = self.cubic_linux;
        law.own = self.own_law;
        law
    }

    /// What the estimator of round trips is told.
    pub(super) fn rtt(&self) -> rtt::Config {
        rtt::Config {
            initial: self.rto_initial,
            minimum: self.rto_minimum,
            maximum: self.rto_maximum,
            granularity: self.rto_granularity,
            tick: self.rtt_tick,
        }
    }

    fn linux() -> Config {
        Config {
            congestion: Algorithm::Cubic,
            loss: LossDetection::Rack,
            slow_start: SlowStart::HyStart,
            cubic_linux: true,
            initial_window: InitialWindow::Segments(10),
            // As tcp_init_transfer has it, since the first timeout is 1 s and no longer 3.
            syns_lost: 2,
            // Linux counts every segment that an ACK covers.
            byte_counting_limit: 1000,
            rate_reduction: true,
            reduce_again_at_timeout: false,
            frto: true,
            undo: true,
            sack_kept_over_timeout: true,
            rtt_sampling: RttSampling::Ack,
            rto_minimum: Span::from_millis(200),
            rto_maximum: Span::from_secs(120),
            // The kernel's floor is on four times the variance and not on the timeout: TCP_RTO_MIN in tcp_rtt_estimator.
            rto_granularity: Span::from_millis(200),
            rto_initial_after_syn_loss: Span::from_secs(3),
            retries: 15,
            syn_retries: 6,
            delayed_ack: Span::from_millis(40),
            delayed_ack_maximum: Span::from_millis(200),
            quick_acks: 16,
            nagle: Nagle::Minshall,
            // Half of tcp_rmem's default and maximum: the other half is the kernel's bookkeeping.
            receive_buffer: Bytes::new(65_536),
            receive_buffer_maximum: Bytes::new(3 << 20),
            time_wait: Span::from_secs(60),
            ..Config::default()
        }
    }

    fn ns2_1999() -> Config {
        Config {
            loss: LossDetection::Reno,
            reduction_basis: Basis::Window,
            mss: 960,
            initial_window: InitialWindow::Segments(1),
            // windowInit_, window_ and the absence of validation: tcp.cc's opencwnd() grows whatever limits sending.
            window_limit: 20,
            window_validation: false,
            initial_threshold: Bytes::new(20 * 960),
            byte_counting_limit: 0,
            limited_transmit: false,
            partial_ack: PartialAck::SlowButSteady,
            full_ack: FullAck::Threshold,
            tail_loss_probe: false,
            dsack: false,
            timestamps: false,
            // ns-2 has no receive window at all. There is no handshake, so this adds no option: it lets the window field say
            // more than `window_limit` will ever ask for.
            window_scaling: true,
            handshake: false,
            rtt_sampling: RttSampling::Round,
            rtt_tick: Span::from_millis(100),
            // rtxcur_init_ was 6 s until 2006.
            rto_initial: Span::from_secs(6),
            rto_initial_after_syn_loss: Span::from_secs(6),
            rto_granularity: Span::ZERO,
            // maxrto_
            rto_maximum: Span::from_secs(64),
            delayed_ack: Span::ZERO,
            delayed_ack_maximum: Span::ZERO,
            nagle: Nagle::Off,
            receive_buffer: UNLIMITED,
            receive_buffer_maximum: UNLIMITED,
            ..Config::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_of_every_preset_reads_back_as_it_prints() {
        for preset in Config::PRESETS {
            let config = Config::preset(preset).unwrap();
            let mut again = Config::default();
            for (name, value) in config.constants() {
                again.set(name, &value).unwrap_or_else(|error| panic!("{preset}: {error}"));
            }
            assert_eq!(again, config, "{preset}");
        }
    }

    #[test]
    fn a_refused_setting_says_what_would_be_right() {
        let mut config = Config::default();
        let error = config.set("mss", "9").unwrap_err();
        assert_eq!(error.to_string(), "TCP setting mss = \"9\": a whole number from 64 to 65495 is needed");
        let error = config.set("rto_minimum", "200").unwrap_err().to_string();
        assert!(error.contains("200ms"), "{error}");
        let error = config.set("colour", "red").unwrap_err().to_string();
        assert!(error.contains("\"colour\"") && error.contains("initial_window"), "{error}");
        assert!(Config::preset("bsd").unwrap_err().to_string().contains("ns2-1999"));
        assert_eq!(config, Config::default());
    }
}
