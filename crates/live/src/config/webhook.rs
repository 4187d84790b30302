//! `webhook`: where the daemon tells of what went wrong, and of what is well again.

use std::fmt;
use std::net::SocketAddr;
use zeroize::Zeroizing;

/// The longest address that is taken, in bytes.
const LONGEST: usize = 1024;
/// The longest password.
pub(super) const LONGEST_PASSWORD: usize = 1024;
pub(super) const EXAMPLE: &str = "http://192.0.2.5:8080/alarms";

/// Where alarms go.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The host that is called.
    pub(crate) address: SocketAddr,
    /// What is asked for there; it may be a secret.
    pub(crate) path: Zeroizing<String>,
    /// `webhook_password_file`: what shows who calls.
    pub(crate) password: Option<Zeroizing<String>>,
}

/// Without what may be a secret.
impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhook").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Nothing in it ends a line of a request.
pub(super) fn is_token(text: &str) -> bool {
    (1..=LONGEST_PASSWORD).contains(&text.len()) && text.bytes().all(|c| c.is_ascii_graphic())
}

/// The address that is called, and what is asked for there.
pub(super) fn parse(url: &str) -> Result<(SocketAddr, String), &'static str> {
    if url.len() > LONGEST || !url.bytes().all(|c| c.is_ascii_graphic()) {
        return Err("is too long or has characters that no address has: write a shorter one");
    }
    if url.starts_with("https://") {
        return Err("the daemon speaks no TLS: name a program of this host or network that passes alarms on");
    }
    let rest = url.strip_prefix("http://").ok_or("write an address that begins with http://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    if host.contains('@') {
        return Err("has a user: put what is secret into the file of `webhook_password_file`");
    }
    if path.contains('#') {
        return Err("leave out what follows `#`, which no server sees");
    }
    let port_80 = || {
        let address = host.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        Some(SocketAddr::new(address, 80))
    };
    let address: SocketAddr = host
        .parse()
        .ok()
        .or_else(port_80)
        .ok_or("its host is a number, as the daemon asks nobody for names: write one")?;
    if address.port() == 0 || address.ip().is_unspecified() || address.ip().is_multicast() {
        return Err("nobody can be called there: write the address of a host");
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((address, format!("{slash}{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_that_is_a_number_and_a_path_and_nothing_that_could_end_a_line() {
        let good = |url: &str| parse(url).map(|(address, path)| (address.to_string(), path));
        assert_eq!(good("http://192.0.2.5:8080/a?b=1"), Ok(("192.0.2.5:8080".into(), "/a?b=1".into())));
        assert_eq!(good("http://192.0.2.5"), Ok(("192.0.2.5:80".into(), "/".into())));
        assert_eq!(good("http://[fd00::1]?x"), Ok(("[fd00::1]:80".into(), "/?x".into())));
        assert_eq!(good("http://[fd00::1]:99/"), Ok(("[fd00::1]:99".into(), "/".into())));
        for (wrong, says) in [
            ("https://192.0.2.5/", "no TLS"),
            ("192.0.2.5:80", "http://"),
            ("http://hub.example.net/", "number"),
            ("http://", "number"),
            ("http://user:secret@192.0.2.5/", "webhook_password_file"),
            ("http://192.0.2.5/#a", "`#`"),
            ("http://192.0.2.5:0/", "nobody"),
            ("http://0.0.0.0:1/", "nobody"),
            ("http://192.0.2.5/a b", "characters"),
            ("http://192.0.2.5/\r\nHost: x", "characters"),
        ] {
            assert!(good(wrong).is_err_and(|problem| problem.contains(says)), "{wrong}: {:?}", good(wrong));
        }
        assert!(good(&format!("http://192.0.2.5/{}", "a".repeat(LONGEST))).is_err());
    }
}
