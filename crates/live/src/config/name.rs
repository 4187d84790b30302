//! Names in place of addresses.

/// The name and the port in `hub.example.net:51900`; `None` where that is no name.
pub(super) fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    is_name(host).then(|| Some((host.to_owned(), port.parse().ok()?)))?
}

/// Whether that is the name of a host, or of a domain.
pub(super) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // What ends in a number is an address, or meant as one.
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && last.bytes().any(|byte| byte.is_ascii_alphabetic()) && text.split('.').all(is_label)
}
