//! A site that has joined: its keys and its configuration.

use super::{Made, SetupError, Turn, interface_of, quoted, stem};
use crate::config::{Config, ConfigError};
use crate::folders;
use crate::netlink::{Netlink, NetlinkError};
use crate::secure::PrivateKey;
use crate::secure::PublicKey;
use crate::secure::joining::Derived;
use fairspan_core::wire::invitation::{Host, Invitation};
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A channel of a site's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The device by which it leaves.
    pub device: String,
    /// Where the hub is called.
    pub place: SocketAddr,
    /// The address to send from, where only that one will do.
    pub source: Option<IpAddr>,
}

/// A site that joins. What it makes is gone again when it is dropped, until it is [written](Site::write).
pub struct Site {
    file: PathBuf,
    key_file: PathBuf,
    key: PrivateKey,
    made: Made,
    _turn: Turn,
}

impl Site {
    /// Makes the site's key, or takes the one that is there already. Nobody else may set something up in the folder meanwhile.
    ///
    /// # Errors
    /// There is a configuration already, or something cannot be written.
    pub fn begin(file: &Path) -> Result<Site, SetupError> {
        let turn = Turn::wait(file)?;
        if file.exists() {
            let problem = format!(
                "{}: is there already: name another file, as with `--file /etc/fairspan/fs1.toml`, or remove it",
                file.display()
            );
            return Err(SetupError::Wrong(problem));
        }
        let key_file = folders::of(file).join(format!("{}.key", stem(file)));
        let mut made = Made::default();
        let key = made.key(&key_file)?;
        Ok(Site { file: file.to_owned(), key_file, key, made, _turn: turn })
    }

    /// The site's key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// The key stays, whatever comes: the hub may have heard of it.
    pub fn keep_key(&mut self) -> &Path {
        std::mem::take(&mut self.made).keep();
        &self.key_file
    }

    /// Writes the configuration and checks it; the text, and what of it is hardly meant or stands in the daemon's way on this host.
    ///
    /// # Errors
    /// What cannot be written, or what `fairspan check` would say.
    pub fn write(
        mut self,
        invitation: &Invitation,
        channels: &[Channel],
    ) -> Result<(String, Vec<ConfigError>), SetupError> {
        let stem = stem(&self.file);
        let preshared = format!("{stem}.psk");
        let psk = Derived::of(&invitation.secret).preshared_key().to_base64();
        self.made.write(&folders::of(&self.file).join(&preshared), &Zeroizing::new(format!("{}\n", psk.as_str())))?;
        let text = text(&self.file, invitation, channels, [&format!("{stem}.key"), &preshared]);
        self.made.write(&self.file, &text)?;
        let config = Config::load_for_this_host(&self.file).map_err(|error| SetupError::Wrong(error.to_string()))?;
        self.made.keep();
        Ok((text, config.notices))
    }
}

/// The configuration of a site; `keys` are the files of its private and of the pre-shared key.
fn text(file: &Path, invitation: &Invitation, channels: &[Channel], keys: [&str; 2]) -> String {
    let network = |(address, prefix): (IpAddr, u8)| IpNet::new(address, prefix).map(|net| net.trunc()).ok();
    let inner = (invitation.hub, invitation.prefix);
    let behind = std::iter::once(inner).chain(invitation.networks.iter().copied()).filter_map(network);
    let behind: Vec<String> = behind.map(|net| format!("\"{net}\"")).collect();
    let mut text = format!(
        "# A site, written by `fairspan join`.\n[interface]\nname = {}\naddress = [\"{}/{}\"]\nprivate_key_file = {}\n\n\
         [[peer]]\nname = \"hub\"\npublic_key = \"{}\"\npreshared_key_file = {}\nallowed_ips = [{}]\n",
        quoted(&interface_of(file)),
        invitation.site,
        invitation.prefix,
        quoted(keys[0]),
        PublicKey::from_bytes(invitation.hub_key),
        quoted(keys[1]),
        behind.join(", "),
    );
    for channel in channels {
        text += &format!(
            "\n[[peer.channel]]\nname = {}\nkind = \"udp\"\ndevice = {}\n",
            quoted(&channel.device),
            quoted(&channel.device)
        );
        let named = invitation
            .places
            .iter()
            .find(|place| matches!(&place.host, Host::Name(_)) && place.port == channel.place.port());
        let is_given = |address: IpAddr| invitation.places.iter().any(|place| place.host == Host::Address(address));
        // A name is followed when its address changes.
        let endpoint = match named {
            Some(place) if !is_given(channel.place.ip()) => place.to_string(),
            _ => channel.place.to_string(),
        };
        text += &format!("endpoint = {}\n", quoted(&endpoint));
        if let Some(source) = channel.source {
            text += &format!("source = \"{source}\"\n");
        }
    }
    text
}

/// A network of this host that has addresses in common with `inner`, those of the interface `own` aside: of a device, or behind one by a
/// route that is no default route.
///
/// # Errors
/// What the kernel says.
pub fn overlap(inner: IpNet, own: &str) -> Result<Option<String>, NetlinkError> {
    let mut netlink = Netlink::open()?;
    let meets = |net: &IpNet| net.contains(&inner.network()) || inner.contains(&net.network());
    let routes = netlink.all_routes()?;
    let found = routes.iter().find(|route| {
        let (net, is_wide) = (route.destination, route.destination.prefix_len() == 0);
        !is_wide && route.device != own && meets(&net)
    });
    Ok(found.map(|route| format!("{} by {}", route.destination, route.device)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::wire::invitation::Place;

    fn invitation() -> Invitation {
        let hub = PrivateKey::from_bytes([3; 32]);
        Invitation {
            hub_key: *hub.public_key().as_bytes(),
            secret: [5; 16],
            expires: 1_800_000_000,
            hub: "10.77.0.1".parse().expect("an address"),
            site: "10.77.0.2".parse().expect("an address"),
            prefix: 24,
            networks: vec![("192.168.0.0".parse().expect("an address"), 16)],
            places: vec![
                Place { host: Host::Address("203.0.113.1".parse().expect("an address")), port: 51900 },
                Place { host: Host::Name("hub.example.net".into()), port: 51900 },
            ],
            name: "site1".into(),
        }
    }

    #[test]
    fn what_is_written_is_what_the_daemon_reads_with_keys_in_files_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("site.toml");
        let site = Site::begin(&file).expect("begun");
        let key = site.key().public_key();
        let channel = |device: &str, place: &str, source: Option<&str>| Channel {
            device: device.into(),
            place: place.parse().expect("an address"),
            source: source.map(|source| source.parse().expect("an address")),
        };
        let channels =
            [channel("eth1", "203.0.113.1:51900", None), channel("wwan0", "198.51.100.9:51900", Some("192.0.2.1"))];
        let (text, _) = site.write(&invitation(), &channels).expect("written");
        let config = Config::load(&file).expect("good");
        assert_eq!(config.interface.name, "site");
        assert_eq!(config.interface.private_key.as_ref().map(PrivateKey::public_key), Some(key));
        let peer = &config.peers[0];
        assert_eq!(peer.public_key.map(|key| *key.as_bytes()), Some(invitation().hub_key));
        let psk = peer.preshared_key.as_ref().expect("a key").to_base64();
        assert_eq!(*psk, *Derived::of(&[5; 16]).preshared_key().to_base64());
        assert_eq!(
            peer.allowed_ips.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["10.77.0.0/24", "192.168.0.0/16"]
        );
        assert_eq!(peer.channels.len(), 2);
        assert!(!text.contains(psk.as_str()), "keys stand in files of their own");
        assert!(
            text.contains("endpoint = \"203.0.113.1:51900\"") && text.contains("endpoint = \"hub.example.net:51900\"")
        );
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 3);
        // A second one finds the file, and leaves it.
        let error = Site::begin(&file).err().expect("refused").to_string();
        assert!(error.contains("is there already") && error.contains("--file"), "{error}");
    }

    #[test]
    fn a_site_that_does_not_join_leaves_nothing_but_a_key_that_the_hub_may_have_heard_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("fs0.toml");
        drop(Site::begin(&file).expect("begun"));
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let mut site = Site::begin(&file).expect("begun");
        let key = site.key().public_key();
        site.keep_key();
        drop(site);
        let again = Site::begin(&file).expect("begun");
        assert_eq!(again.key().public_key(), key);
        // What cannot be right is taken back.
        assert!(again.write(&invitation(), &[]).is_err());
        assert!(!file.exists() && !folder.path().join("fs0.psk").exists() && folder.path().join("fs0.key").exists());
    }
}
