//! What somebody found who looked for what is wrong, and what helps.

use serde::Serialize;
use std::fs;

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Good,
    /// It works, but perhaps not as wanted; or it could not be found out.
    Doubtful,
    /// It does not work.
    Wrong,
}

/// Something that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What: `devices`, `routes`, and so on.
    pub subject: &'static str,
    /// How it is.
    pub verdict: Verdict,
    /// What was found, in a sentence.
    pub found: String,
    /// What to do, where there is something to do.
    pub remedy: Option<String>,
    /// The peer before whose bond the gateway is, where it is one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The setting of its section that it is about, where it is one.
    #[serde(skip)]
    pub setting: Option<&'static str>,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Finding>);

impl Findings {
    pub(crate) fn good(&mut self, subject: &'static str, found: impl Into<String>) {
        self.0.push(Finding {
            subject,
            verdict: Verdict::Good,
            found: found.into(),
            remedy: None,
            peer: None,
            setting: None,
        });
    }

    pub(crate) fn doubtful(&mut self, subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding {
            subject,
            verdict: Verdict::Doubtful,
            found: found.into(),
            remedy: Some(remedy.into()),
            peer: None,
            setting: None,
        });
    }

    pub(crate) fn wrong(&mut self, subject: &'static str, found: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Finding {
            subject,
            verdict: Verdict::Wrong,
            found: found.into(),
            remedy: Some(remedy.into()),
            peer: None,
            setting: None,
        });
    }

    /// The last one is about this setting.
    pub(crate) fn of_setting(&mut self, setting: &'static str) {
        self.0.iter_mut().last().into_iter().for_each(|finding| finding.setting = Some(setting));
    }

    /// One that was found elsewhere.
    pub(crate) fn push(&mut self, finding: Finding) {
        self.0.push(finding);
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// All, in the order in which they were found.
    pub(crate) fn all(self) -> Vec<Finding> {
        self.0
    }
}

/// A number in `/proc/sys`.
pub(crate) fn setting(path: &str) -> Option<i64> {
    fs::read_to_string(format!("/proc/sys/{path}")).ok()?.trim().parse().ok()
}
