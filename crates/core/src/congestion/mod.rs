//! Congestion control: how much may be under way, and how fast it may go.
//!
//! [`Law`] is what every sender calls: the simulator's TCP, a bond's channel, a reliable sender. [`AnyLaw`] is the law that a
//! [`Config`] names. [`window`] is what laws of a window have in common (slow start, the threshold, taking back); [`reno`] and
//! [`cubic`] are its curves, [`hystart`] its early ends of slow start, and so is [`vegas`] a curve, which goes by delay. [`delay`] and
//! [`ledbat`] go by delay alone, [`probe`], [`bbr`] and [`bbr1`] by a model of the path.
//!
//! A new law is a file of its own and a line of the table at the end of this one; every user then has it by its name. One from a
//! crate outside goes into [`Config::own`].

pub mod bbr;
pub mod bbr1;
pub mod cubic;
pub mod dctcp;
pub mod delay;
pub mod hystart;
pub mod law;
mod least;
pub mod ledbat;
mod overflow;
pub mod prague;
pub mod probe;
pub mod reno;
pub mod vegas;
pub mod window;

pub use law::{Acked, Congested, Law, PathRate, Sent};

use crate::options::words;
use crate::own::own;
use crate::units::{Bytes, Rate, Span};
use alloc::boxed::Box;
use bbr::Bbr;
use bbr1::Bbr1;
use cubic::Cubic;
use dctcp::Dctcp;
use delay::Delay;
use ledbat::Ledbat;
use prague::Prague;
use probe::Probe;
use reno::Reno;
use vegas::Vegas;
use window::Windowed;

/// Which law, and its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Config {
    /// The law.
    pub algorithm: Algorithm,
    /// What all laws of a window have.
    pub window: window::Config,
    /// CUBIC's constants.
    pub cubic: cubic::Config,
    /// A law of one's own, in place of `algorithm`.
    pub own: Option<LawMaker>,
}

own! {
    /// Makes a law of one's own from the constants of a sender, for [`Config::own`].
    LawMaker(&Config) -> OwnLaw: Law
}

impl Config {
    /// `algorithm` with RFC 3465's byte counting (L = 2) and RFC 6928's initial window, for packets of `segment` bytes.
    pub fn new(algorithm: Algorithm, segment: u32) -> Config {
        Config { algorithm, window: window::Config::new(segment), cubic: cubic::Config::default(), own: None }
    }
}

/// Names as a message offers them: `"a", "b" or "c"`.
macro_rules! offer {
    ($last:literal) => { concat!("\"", $last, "\"") };
    ($first:literal, $last:literal) => { concat!("\"", $first, "\" or \"", $last, "\"") };
    ($first:literal, $($rest:literal),+) => { concat!("\"", $first, "\", ", offer!($($rest),+)) };
}

/// Declares the laws once, in the order of their numbers: name, state and how it begins.
macro_rules! laws {
    ($($(#[doc = $doc:literal])* $law:ident = $name:literal: $state:ty = $begin:expr;)*) => {
        /// The laws by name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Algorithm {
            $($(#[doc = $doc])* $law,)*
        }

        words!(Algorithm { $($law = $name),* });

        impl Algorithm {
            /// What may be written for one, as a message says it.
            pub const EXPECTED: &'static str = offer!($($name),*);

            /// Whether it answers each mark with a little, in proportion to how many there are (RFC 9330, section 3: scalable), and a loss with much more.
            pub fn is_scalable(self) -> bool {
                matches!(self, Algorithm::Dctcp | Algorithm::Prague)
            }

            /// Whether it goes by a model of the path, which is nothing without its pace.
            pub fn has_model(self) -> bool {
                matches!(self, Algorithm::Probe | Algorithm::Bbr | Algorithm::Bbr1)
            }
        }

        /// The state of whichever law a [`Config`] names. A large state lies elsewhere: who has Reno, or does not send at all, pays for no other.
        #[derive(Clone, Debug)]
        pub enum AnyLaw {
            $($(#[doc = $doc])* $law($state),)*
            /// One's own.
            Own(Box<dyn OwnLaw>),
        }

        impl AnyLaw {
            /// A fresh sender's.
            pub fn new(config: &Config) -> AnyLaw {
                if let Some(maker) = config.own {
                    return AnyLaw::Own((maker.0)(config));
                }
                match config.algorithm {
                    $(Algorithm::$law => {
                        let begin: fn(&Config) -> $state = $begin;
                        AnyLaw::$law(begin(config))
                    })*
                }
            }
        }

        impl Law for AnyLaw {
            #[inline]
            fn on_sent(&mut self, sent: &Sent) {
                match self { $(AnyLaw::$law(law) => law.on_sent(sent),)* AnyLaw::Own(law) => law.on_sent(sent) }
            }
            #[inline]
            fn on_acked(&mut self, acked: &Acked) {
                match self { $(AnyLaw::$law(law) => law.on_acked(acked),)* AnyLaw::Own(law) => law.on_acked(acked) }
            }
            fn on_lost(&mut self, lost: &Congested) {
                match self { $(AnyLaw::$law(law) => law.on_lost(lost),)* AnyLaw::Own(law) => law.on_lost(lost) }
            }
            fn on_ecn(&mut self, marked: &Congested) {
                match self { $(AnyLaw::$law(law) => law.on_ecn(marked),)* AnyLaw::Own(law) => law.on_ecn(marked) }
            }
            fn on_timeout(&mut self, timeout: &Congested) {
                match self { $(AnyLaw::$law(law) => law.on_timeout(timeout),)* AnyLaw::Own(law) => law.on_timeout(timeout) }
            }
            fn on_idle(&mut self, idle: Span) {
                match self { $(AnyLaw::$law(law) => law.on_idle(idle),)* AnyLaw::Own(law) => law.on_idle(idle) }
            }
            #[inline]
            fn on_recovery(&mut self, window: Bytes) {
                match self { $(AnyLaw::$law(law) => law.on_recovery(window),)* AnyLaw::Own(law) => law.on_recovery(window) }
            }
            fn on_path_rate(&mut self, rate: PathRate) {
                match self { $(AnyLaw::$law(law) => law.on_path_rate(rate),)* AnyLaw::Own(law) => law.on_path_rate(rate) }
            }
            fn on_undo(&mut self) {
                match self { $(AnyLaw::$law(law) => law.on_undo(),)* AnyLaw::Own(law) => law.on_undo() }
            }
            #[inline]
            fn window(&self) -> Bytes {
                match self { $(AnyLaw::$law(law) => law.window(),)* AnyLaw::Own(law) => law.window() }
            }
            #[inline]
            fn threshold(&self) -> Bytes {
                match self { $(AnyLaw::$law(law) => law.threshold(),)* AnyLaw::Own(law) => law.threshold() }
            }
            fn wants_delivery_rate(&self) -> bool {
                match self { $(AnyLaw::$law(law) => law.wants_delivery_rate(),)* AnyLaw::Own(law) => law.wants_delivery_rate() }
            }
            fn path_rate(&self) -> Option<Rate> {
                match self { $(AnyLaw::$law(law) => law.path_rate(),)* AnyLaw::Own(law) => law.path_rate() }
            }
            fn has_queue(&self) -> bool {
                match self { $(AnyLaw::$law(law) => law.has_queue(),)* AnyLaw::Own(law) => law.has_queue() }
            }
            fn is_starting(&self) -> bool {
                match self { $(AnyLaw::$law(law) => law.is_starting(),)* AnyLaw::Own(law) => law.is_starting() }
            }
            #[inline]
            fn pacing_rate(&self) -> Option<Rate> {
                match self { $(AnyLaw::$law(law) => law.pacing_rate(),)* AnyLaw::Own(law) => law.pacing_rate() }
            }
        }
    };
}

laws! {
    /// RFC 5681: one segment a round trip, half at a loss. Reno, NewReno and SACK differ in recovery, not in this.
    Reno = "reno": Windowed<Reno> =
        |config| Windowed::new(&config.window, Reno::new(config.window.segment, config.window.counting));
    /// RFC 9438.
    Cubic = "cubic": Box<Windowed<Cubic>> =
        |config| Box::new(Windowed::new(&config.window, Cubic::new(config.window.segment, config.cubic)));
    /// By delay, with probing for bandwidth: for paths within a site. A loss is not a sign of congestion.
    Delay = "delay": Delay = |config| Delay::new(&config.window);
    /// By a model of the path, its rate and its queue, probed in turn: for paths of which nothing is known. A loss is not a sign of congestion.
    Probe = "probe": Box<Probe> = |config| Box::new(Probe::new(&config.window));
    /// Brakmo and Peterson 1995: two to four packets in the queue, found by the delay.
    Vegas = "vegas": Box<Windowed<Vegas>> = |config| Box::new(Windowed::new(&config.window, Vegas::new(config.window.segment)));
    /// draft-irtf-iccrg-ledbat-plus-plus: for what has time, behind everything else.
    LedbatPlusPlus = "ledbat++": Box<Ledbat> = |config| Box::new(Ledbat::new(&config.window));
    /// RFC 8257: the window shrinks by as much as is marked (ECN). Without marks it is Reno.
    Dctcp = "dctcp": Box<Windowed<Dctcp>> =
        |config| Box::new(Windowed::new(&config.window, Dctcp::new(config.window.segment, config.window.counting)));
    /// draft-ietf-ccwg-bbr, version 3: by a model of the path; losses bound how much is under way.
    Bbr = "bbr": Box<Bbr> = |config| Box::new(Bbr::new(&config.window));
    /// draft-briscoe-iccrg-prague-congestion-control: as DCTCP, for the internet with L4S (ECN). Without marks it is Reno.
    Prague = "prague": Box<Windowed<Prague>> = |config| Box::new(Windowed::new(&config.window, Prague::new(config.window.segment)));
    /// BBR, version 1, which Linux calls `bbr`: by a model of the path; a loss is not a sign of congestion.
    Bbr1 = "bbr1": Box<Bbr1> = |config| Box::new(Bbr1::new(&config.window));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Words;

    #[test]
    fn every_law_is_found_by_its_name_and_a_message_offers_all() {
        for &law in Algorithm::ALL {
            assert_eq!(Algorithm::from_word(law.word()), Some(law));
            assert!(Algorithm::EXPECTED.contains(law.word()));
        }
        assert_eq!(Algorithm::from_word("westwood"), None);
        assert!(Algorithm::EXPECTED.starts_with("\"reno\", \"cubic\", \"delay\", \"probe\", \"vegas\""));
        assert_eq!(offer!("a", "b", "c"), "\"a\", \"b\" or \"c\"");
    }
}
