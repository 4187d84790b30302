//! What each mode is made of: four questions, each answered by a part of the bond.
//!
//! | question | part |
//! |---|---|
//! | which channel carries a packet | [`distribute`](super::distribute) |
//! | what number its envelope has | [`number`](super::number) |
//! | what is sent besides, so that a loss does no harm | [`protect`](super::protect) |
//! | what the receiver does before it delivers | [`resequence`](super::resequence) |
//!
//! A mode is a line of [`Preset::of`], and nothing else in the bond asks for the mode: a new preset is a name in
//! `config.rs` and a line here. The receiver takes every kind of frame whatever its own mode is, since each direction's
//! sender decides for its direction; but for logical reception, which both ends must have.

use super::config::{Config, Mode, Scheduler};
use crate::path::Counting;
use crate::queue::{DisciplineConfig, End};
use crate::select::Policy;
use crate::units::Span;
use crate::wire::envelope;

/// Which channel carries a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Distribution {
    /// A causal discipline, when the packet leaves.
    Discipline,
    /// The usable channel of the best priority; with copies, the best ones.
    Best,
    /// The discipline that both ends of the stripe follow.
    Agreed,
    /// A link policy, when the packet comes; each channel has a queue.
    Policy,
}

/// What a packet is numbered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// Nothing.
    None,
    /// Its place among the packets of its channel, between the stripe's markers.
    Place,
    /// Its place, and one number for all packets that confirms it.
    Confirmed,
    /// A number for each of its fragments.
    Fragment,
    /// One number in the bond.
    Bond,
    /// Its number in its flow bucket and its number in the bond.
    Flow,
}

/// What is sent beside the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    /// Nothing.
    None,
    /// The same packet on other channels.
    Copies,
    /// What is lost is sent again.
    Resend,
}

/// What the receiver does before it delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resequencing {
    /// Nothing.
    None,
    /// The first copy of each number is delivered.
    FirstCopy,
    /// Order within each flow bucket.
    PerFlow,
    /// The same, behind delay lines that give the bond one delay.
    Equalized,
    /// The sender's discipline is followed.
    Logical,
    /// Fragments are put in order and together.
    Joined,
}

/// The four parts of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Preset {
    pub(super) distribute: Distribution,
    pub(super) number: Numbering,
    pub(super) protect: Protection,
    pub(super) resequence: Resequencing,
}

impl Preset {
    /// Whether anything depends on the flow bucket of a packet.
    pub(super) fn tells_flows(&self, discipline: DisciplineConfig) -> bool {
        self.number == Numbering::Flow || discipline != DisciplineConfig::Fifo
    }

    /// The parts of the mode that `config` says.
    pub(super) fn of(config: &Config) -> Preset {
        let policy = match (config.mode, &config.policy.policy) {
            (Mode::Flow, policy) => Some(policy),
            _ => None,
        };
        let (distribute, number, protect, resequence) = match (config.mode, policy) {
            (Mode::Ordered, _) => {
                (Distribution::Discipline, Numbering::Flow, Protection::None, Resequencing::Equalized)
            }
            (Mode::Reliable, _) => {
                (Distribution::Discipline, Numbering::Flow, Protection::Resend, Resequencing::Equalized)
            }
            (Mode::Backup, _) => (Distribution::Best, Numbering::Flow, Protection::None, Resequencing::PerFlow),
            (Mode::Duplicate, _) => (Distribution::Best, Numbering::Bond, Protection::Copies, Resequencing::FirstCopy),
            (Mode::Stripe, _) if config.cuts() => {
                (Distribution::Discipline, Numbering::Fragment, Protection::None, Resequencing::Joined)
            }
            (Mode::Stripe, _) => {
                let number = if config.confirm_order { Numbering::Confirmed } else { Numbering::Place };
                (Distribution::Agreed, number, Protection::None, Resequencing::Logical)
            }
            (Mode::Plain, _) => (Distribution::Discipline, Numbering::None, Protection::None, Resequencing::None),
            (Mode::Flow, Some(Policy::Broadcast(_))) => {
                (Distribution::Policy, Numbering::Bond, Protection::Copies, Resequencing::FirstCopy)
            }
            (Mode::Flow, Some(Policy::TrafficMeter(_))) => {
                (Distribution::Policy, Numbering::Flow, Protection::None, Resequencing::PerFlow)
            }
            (Mode::Flow, _) => (Distribution::Policy, Numbering::None, Protection::None, Resequencing::None),
        };
        Preset { distribute, number, protect, resequence }
    }

    /// Whether data frames are the packet itself on a channel that is [`raw`](super::ChannelConfig::raw).
    pub(super) fn bare(&self) -> bool {
        match self.number {
            Numbering::Place => true,
            // A peer that puts nothing in order takes such frames of a policy only.
            Numbering::None => self.distribute == Distribution::Policy,
            Numbering::Bond | Numbering::Flow | Numbering::Confirmed | Numbering::Fragment => false,
        }
    }

    /// Bytes of the envelope of a data frame, on a channel that is raw or not.
    pub(super) fn head_len(&self, raw: bool) -> usize {
        match self.number {
            // What is sent again is the longest; it is counted itself.
            Numbering::Flow if self.protect == Protection::Resend => envelope::AGAIN_LEN,
            Numbering::Flow | Numbering::Confirmed => envelope::ORDERED_LEN,
            Numbering::Bond => envelope::DUPLICATE_LEN,
            Numbering::Fragment => envelope::FRAGMENT_LEN,
            _ if raw && self.bare() => 0,
            Numbering::None | Numbering::Place => envelope::PLAIN_LEN,
        }
    }
}

impl Config {
    /// What the daemon has between peers over UDP, and the simulator for a bond: [`Mode::USUAL`], rates that nobody says are
    /// measured, slow channels are in reserve, and flows that send little go first; one that is silent while others are not is left at once, and one that fails again and again is
    /// held back.
    pub fn usual() -> Config {
        Config {
            mode: Mode::USUAL,
            measure_rates: true,
            by_pace: true,
            reserve: true,
            sparse: true,
            ack_filter: true,
            silent_after: Span::from_millis(300),
            await_hearing: true,
            hold_down: Span::from_secs(60),
            ..Config::default()
        }
        .with_queue(None, None, End::Source)
    }

    /// What is done with the data frames of each path.
    pub(super) fn counting(&self) -> Counting {
        let resends = Preset::of(self).protect == Protection::Resend;
        Counting {
            counts: self.feedback || self.congestion.is_some() || resends,
            law: self.congestion,
            measures: self.measure_rates && resends && self.scheduler == Scheduler::Srr,
            resends,
            prompt: self.silent_after > Span::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Words;

    fn of(mode: Mode, policy: &str) -> Preset {
        Preset::of(&Config { mode, policy: policy.parse().unwrap(), ..Config::default() })
    }

    #[test]
    fn every_receiver_can_use_the_numbers_that_its_preset_sends() {
        let modes = Mode::ALL;
        for &mode in modes {
            for policy in ["brr", "broadcast", "traffic_meter"] {
                let preset = of(mode, policy);
                let wanted = match preset.resequence {
                    Resequencing::None => Numbering::None,
                    Resequencing::FirstCopy => Numbering::Bond,
                    Resequencing::PerFlow | Resequencing::Equalized => Numbering::Flow,
                    Resequencing::Logical => Numbering::Place,
                    Resequencing::Joined => Numbering::Fragment,
                };
                assert_eq!(preset.number, wanted, "{mode} {policy}");
                let copies = preset.protect == Protection::Copies;
                assert_eq!(copies, preset.resequence == Resequencing::FirstCopy, "{mode} {policy}");
                assert!(preset.protect != Protection::Resend || preset.number == Numbering::Flow, "{mode} {policy}");
                let agreed = preset.distribute == Distribution::Agreed;
                assert_eq!(agreed, preset.resequence == Resequencing::Logical, "{mode} {policy}");
            }
        }
    }

    #[test]
    fn a_policy_matters_in_mode_flow_only() {
        assert_eq!(of(Mode::Ordered, "broadcast"), of(Mode::Ordered, "brr"));
        assert_ne!(of(Mode::Flow, "broadcast"), of(Mode::Flow, "brr"));
        assert_ne!(of(Mode::Flow, "broadcast"), of(Mode::Flow, "traffic_meter"));
    }

    #[test]
    fn envelopes_have_the_lengths_of_the_wire_format() {
        let lengths = |mode, policy| [false, true].map(|raw| of(mode, policy).head_len(raw));
        assert_eq!(lengths(Mode::Ordered, "brr"), [10, 10]);
        assert_eq!(lengths(Mode::Reliable, "brr"), [16, 16]);
        assert_eq!(lengths(Mode::Backup, "brr"), [10, 10]);
        assert_eq!(lengths(Mode::Duplicate, "brr"), [6, 6]);
        assert_eq!(lengths(Mode::Plain, "brr"), [2, 2]);
        assert_eq!(lengths(Mode::Stripe, "brr"), [2, 0]);
        assert_eq!(lengths(Mode::Flow, "brr"), [2, 0]);
        assert_eq!(lengths(Mode::Flow, "broadcast"), [6, 6]);
        assert_eq!(lengths(Mode::Flow, "traffic_meter"), [10, 10]);
        let cuts = Config { mode: Mode::Stripe, fragment_delay: Some(Span::from_millis(30)), ..Config::default() };
        assert_eq!([false, true].map(|raw| Preset::of(&cuts).head_len(raw)), [6, 6]);
    }
}
