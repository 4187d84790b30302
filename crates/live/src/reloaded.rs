//! What became of the wish to take over a configuration file while the daemon runs (`fairspan reload`, SIGHUP).

use crate::config::ConfigError;
use serde::{Deserialize, Serialize};

/// The answer to a reload. Either all of the file holds from then on, or nothing of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// All of the file holds now.
    pub ok: bool,
    /// The file.
    pub file: String,
    /// What was changed, each in some words; nothing where the file is as before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// The settings that a running daemon cannot take over: nothing was changed for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs_restart: Vec<String>,
    /// What the system refused of the changes; the others hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// What is wrong with the file, as `fairspan check` says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The setting that is wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setting: Option<String>,
    /// What is wrong with it, or why nothing could be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What of the file works and is hardly meant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<Notice>,
}

/// What works and is hardly meant, or is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The file.
    pub file: String,
    /// Its line.
    pub line: usize,
    /// The setting.
    pub setting: String,
    /// What is to be said of it.
    pub problem: String,
}

impl From<&ConfigError> for Notice {
    fn from(error: &ConfigError) -> Notice {
        Notice {
            file: error.file.display().to_string(),
            line: error.line,
            setting: error.setting.clone(),
            problem: error.problem.clone(),
        }
    }
}

impl From<&Notice> for ConfigError {
    fn from(notice: &Notice) -> ConfigError {
        let Notice { file, line, setting, problem } = notice.clone();
        ConfigError { file: file.into(), line, setting, problem }
    }
}

impl Reloaded {
    /// Nothing was done, for a reason that lies outside of the file.
    pub(crate) fn impossible(problem: impl Into<String>) -> Reloaded {
        Reloaded { problem: Some(problem.into()), ..Reloaded::default() }
    }

    /// The file is wrong.
    pub(crate) fn refused(wrong: Notice) -> Reloaded {
        let Notice { file, line, setting, problem } = wrong;
        Reloaded { file, line: Some(line), setting: Some(setting), problem: Some(problem), ..Reloaded::default() }
    }

    /// These settings need a restart.
    pub(crate) fn needing_restart(names: impl IntoIterator<Item = String>) -> Reloaded {
        Reloaded { needs_restart: names.into_iter().collect(), ..Reloaded::default() }
    }

    /// Whether the daemon has the configuration now, perhaps without what the system refused.
    pub(crate) fn is_taken(&self) -> bool {
        self.problem.is_none() && self.needs_restart.is_empty()
    }

    /// In words, a line each.
    pub fn lines(&self) -> Vec<String> {
        if let (Some(line), Some(setting), Some(problem)) = (self.line, &self.setting, &self.problem) {
            let wrong = Notice { file: self.file.clone(), line, setting: setting.clone(), problem: problem.clone() };
            return vec![ConfigError::from(&wrong).to_string()];
        }
        if let Some(problem) = &self.problem {
            return vec![problem.clone()];
        }
        if !self.needs_restart.is_empty() {
            let names = self.needs_restart.join(", ");
            return vec![format!("{}: nothing was changed, as this needs a restart of the daemon: {names}", self.file)];
        }
        let failed = self.failed.iter().map(|failed| format!("failed: {failed}"));
        match self.changed.is_empty() {
            true => std::iter::once(format!("{}: nothing differs", self.file)).chain(failed).collect(),
            false => self.changed.iter().cloned().chain(failed).collect(),
        }
    }
}
