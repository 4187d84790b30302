//! Name and password by which somebody may use something.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use blake2::{Blake2s256, Digest};
use std::fmt;
use zeroize::Zeroizing;

/// A name, if one is asked for, and a password. The password is wiped when this is dropped, and never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    name: Option<String>,
    password: Zeroizing<String>,
}

impl Login {
    /// Longest name and password, in bytes: what RFC 1929 can say.
    pub const LONGEST: usize = 255;

    pub(crate) fn new(name: Option<String>, password: Zeroizing<String>) -> Login {
        Login { name, password }
    }

    /// The name; without one any name will do.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether these are they. How long it takes tells nothing of how much of them is right.
    pub(crate) fn admits(&self, name: &[u8], password: &[u8]) -> bool {
        let own = self.name.as_ref().map_or(name, String::as_bytes);
        verify_slices_are_equal(&digest(name, password), &digest(own, self.password.as_bytes())).is_ok()
    }
}

/// Of one length, whatever that of its parts is.
fn digest(name: &[u8], password: &[u8]) -> [u8; 32] {
    let mut hash = Blake2s256::new();
    hash.update((name.len() as u64).to_le_bytes());
    hash.update(name);
    hash.update(password);
    hash.finalize().into()
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_password_are_right_together_and_the_password_is_not_shown() {
        let login = Login::new(Some("alice".into()), Zeroizing::new("hunter2".into()));
        assert!(login.admits(b"alice", b"hunter2"));
        for (name, password) in
            [("alice", "hunter"), ("alice", "hunter22"), ("alic", "ehunter2"), ("aliceh", "unter2"), ("", "hunter2")]
        {
            assert!(!login.admits(name.as_bytes(), password.as_bytes()), "{name} {password}");
        }
        assert!(!format!("{login:?}").contains("hunter"), "{login:?}");
        let anybody = Login::new(None, Zeroizing::new("hunter2".into()));
        assert!(anybody.admits(b"bob", b"hunter2") && anybody.admits(b"", b"hunter2") && !anybody.admits(b"bob", b""));
    }
}
