//! Names in place of addresses.

/// The name and the port in `hub.example.net:51900`; `None` where that is no name.
pub(super) fn host_and_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    // What ends in a number is an address, or meant as one.
    let ends_in_letters = host.rsplit('.').next()?.bytes().any(|byte| byte.is_ascii_alphabetic());
    let is_name = host.len() <= 253 && ends_in_letters && host.split('.').all(is_label);
    is_name.then(|| Some((host.to_owned(), port.parse().ok()?)))?
}
