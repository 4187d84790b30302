//! Users of the host, by name or number.

/// A user's number and its group's.
pub(crate) fn find(user: &str) -> Option<(u32, u32)> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    entry(&passwd, user)
}

/// A line of passwd(5) is `name:password:user:group:...`.
fn entry(passwd: &str, user: &str) -> Option<(u32, u32)> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        (name == user || uid == user).then_some((uid.parse().ok()?, gid.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let passwd = "root:x:0:0:root:/root:/bin/sh\nfairspan:x:990:991::/:/sbin/nologin\nbroken:x\n";
        assert_eq!(entry(passwd, "fairspan"), Some((990, 991)));
        assert_eq!(entry(passwd, "990"), Some((990, 991)));
        assert_eq!(entry(passwd, "broken"), None);
        assert_eq!(entry(passwd, "nobody-such"), None);
    }
}
