//! Which privilege is missing where the system refuses.

use rustix::thread::capabilities;
use std::io;

/// What to do where the system refused for want of `capability`: nothing where another error is meant.
pub(crate) fn lacking(error: &io::Error, capability: &str) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return String::new();
    }
    let has = capabilities(None).is_ok_and(|sets| {
        let names = sets.effective.iter_names();
        names.map(|(name, _)| format!("CAP_{name}")).filter(|name| capability.contains(name.as_str())).count()
            == capability.matches("CAP_").count()
    });
    match has {
        false => format!("; it needs {capability}: run as root"),
        true => format!(
            "; this process has {capability}, but not over this network or file: it belongs to another user namespace, or a \
             security module refuses"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

    #[test]
    fn a_message_names_what_is_really_missing() {
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        std::thread::spawn(move || {
            let none = CapabilitySet::empty();
            set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
                .expect("fewer capabilities");
            let text = lacking(&refused, "CAP_NET_ADMIN");
            assert!(text.contains("needs CAP_NET_ADMIN"), "{text}");
            assert_eq!(lacking(&io::Error::from_raw_os_error(libc::EBUSY), "CAP_NET_ADMIN"), "");
        })
        .join()
        .expect("a thread");
        let refused = io::Error::from_raw_os_error(libc::EPERM);
        let has = capabilities(None).expect("sets").effective.contains(CapabilitySet::NET_ADMIN);
        let text = lacking(&refused, "CAP_NET_ADMIN");
        assert_eq!(text.contains("another user namespace"), has, "{text}");
    }
}
