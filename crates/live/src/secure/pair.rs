//! Two ends that know each other, for tests.

use super::{Config, Past, PeerConfig, PeerId, PrivateKey, SeededEntropy, Sessions};
use fairspan_core::units::Time;

/// Both ends at `now`, and who the second is to the first.
pub(crate) fn pair(now: Time) -> (Sessions, Sessions, PeerId) {
    let keys = [1, 2].map(|byte| PrivateKey::from_bytes([byte; 32]));
    let [mut a, mut b] = keys.each_ref().map(|key| {
        let entropy = Box::new(SeededEntropy::new(7));
        Sessions::new(Config::default(), key.clone(), entropy, Past::forgotten(5), now).expect("settings that work")
    });
    let peer = a.add_peer(PeerConfig::new(keys[1].public_key())).expect("a peer");
    b.add_peer(PeerConfig::new(keys[0].public_key())).expect("a peer");
    (a, b, peer)
}
