//! `confine`: which restraints a daemon is to have.

/// `confine`: what a daemon does without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// All capabilities but two.
    pub capabilities: bool,
    /// System calls that no daemon makes.
    pub seccomp: bool,
    /// Files that it has nothing to do with.
    pub landlock: bool,
}

impl Wanted {
    /// The words of the setting, each with its place.
    pub(super) const WORDS: [&str; 3] = ["capabilities", "seccomp", "landlock"];

    /// What a list of words asks for, or the word that is none of them.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Result<Wanted, &'a str> {
        let mut wanted = Wanted { capabilities: false, seccomp: false, landlock: false };
        for word in words {
            match word {
                "capabilities" => wanted.capabilities = true,
                "seccomp" => wanted.seccomp = true,
                "landlock" => wanted.landlock = true,
                other => return Err(other),
            }
        }
        Ok(wanted)
    }
}
