//! The churn detection machines: a port that stays out of synchronization is told of, since the two ends then cannot agree.
//!
//! Source: IEEE 802.1AX-2014, 6.4.17 (figures 6-23 and 6-24), one machine for each end.

use super::CHURN_DETECTION_TIME;
use crate::units::Time;
use core::fmt;

/// Whether one end of a port comes into synchronization.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Churn {
    /// It has 60 s for it.
    #[default]
    Monitoring,
    /// It is.
    None,
    /// It did not.
    Churned,
}

impl fmt::Display for Churn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Churn::Monitoring => "monitoring",
            Churn::None => "none",
            Churn::Churned => "churned",
        })
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChurnMachine {
    pub(super) state: Churn,
    pub(super) due: Option<Time>,
    /// How often it churned.
    pub(super) count: u64,
}

impl ChurnMachine {
    pub(super) fn begin(&mut self, now: Time) {
        self.state = Churn::Monitoring;
        self.due = Some(now + CHURN_DETECTION_TIME);
    }

    /// Says whether it churned now.
    pub(super) fn run(&mut self, enabled: bool, synchronized: bool, now: Time) -> bool {
        match self.state {
            _ if !enabled => (self.state, self.due) = (Churn::Monitoring, None),
            Churn::Monitoring | Churn::Churned if synchronized => (self.state, self.due) = (Churn::None, None),
            Churn::None if !synchronized => self.begin(now),
            Churn::Monitoring if self.due.is_none() => self.begin(now),
            Churn::Monitoring if self.due.is_some_and(|due| due <= now) => {
                (self.state, self.due) = (Churn::Churned, None);
                self.count += 1;
                return true;
            }
            _ => {}
        }
        false
    }
}
