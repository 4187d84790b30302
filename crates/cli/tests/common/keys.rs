//! Keys for configurations in tests, and a folder with files of them.

use fairspan_core::wire::invitation::{Host, Invitation, Place};
use fairspan_live::secure::PrivateKey;
use std::fs;

pub(crate) const KEY: &str = "\"QHRWemFtcGxlLWtleS1leGFtcGxlLWtleS1leGFtcGw=\"";
pub(crate) const PEER_KEY: &str = "\"hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=\"";

/// Files of a private and a pre-shared key, and of an invitation to the hub of that private key.
pub(crate) fn key_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for file in ["private.key", "preshared.key", "web.password"] {
        fs::write(folder.path().join(file), KEY.trim_matches('"')).expect("a key file");
    }
    let key: PrivateKey = KEY.trim_matches('"').parse().expect("a key");
    let invitation = Invitation {
        hub_key: *key.public_key().as_bytes(),
        secret: [7; 16],
        expires: u32::MAX,
        hub: "10.77.0.1".parse().expect("an address"),
        site: "10.77.0.9".parse().expect("an address"),
        prefix: 24,
        networks: Vec::new(),
        places: vec![Place { host: Host::Name("hub.example.net".into()), port: 51900 }],
        name: "site1".into(),
        tcp_port: None,
    };
    fs::write(folder.path().join("site1.invitation"), invitation.encode().expect("a line")).expect("a file");
    folder
}
