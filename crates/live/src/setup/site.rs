//! A site that has joined: its keys and its configuration.

use super::{Made, SetupError, Turn, interface_of, quoted, read_key, replace, stem};
use crate::config::{Config, ConfigError};
use crate::folders;
use crate::netlink::{Netlink, NetlinkError};
use crate::secure::joining::Derived;
use crate::secure::{OsEntropy, PrivateKey, PublicKey};
use fairspan_core::wire::invitation::Invitation;
use ipnet::IpNet;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// A channel of a site's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Channel {
    /// The device by which it leaves.
    pub device: String,
    /// Where the hub is called: an address or a name, and a port.
    pub endpoint: String,
    /// Where it is called over TCP while no UDP gets through; then `endpoint` is no name.
    pub tcp_endpoint: Option<SocketAddr>,
    /// The address to send from, where only that one will do.
    pub source: Option<IpAddr>,
}

/// A site that joins. It writes nothing before it [keeps its key](Site::keep_key).
pub struct Site {
    file: PathBuf,
    key_file: PathBuf,
    key: PrivateKey,
    /// The key was not there before.
    is_new: bool,
    _turn: Turn,
}

/// The file of the private key of a site with this configuration.
pub fn key_file_of(file: &Path) -> PathBuf {
    folders::of(file).join(format!("{}.key", stem(file)))
}

impl Site {
    /// A new key, or the one that is there already. Nobody else may set something up in the folder meanwhile.
    ///
    /// # Errors
    /// There is a configuration already, or something cannot be read.
    pub fn begin(file: &Path) -> Result<Site, SetupError> {
        let turn = Turn::wait(file)?;
        if file.exists() {
            let problem = format!(
                "{}: is there already: name another file, as with `--file /etc/fairspan/fs1.toml`, or remove it",
                file.display()
            );
            return Err(SetupError::Wrong(problem));
        }
        let key_file = key_file_of(file);
        let found = read_key(&key_file)?;
        let is_new = found.is_none();
        let key = found.unwrap_or_else(|| PrivateKey::generate(&mut OsEntropy::new()));
        Ok(Site { file: file.to_owned(), key_file, key, is_new, _turn: turn })
    }

    /// The site's key.
    pub fn key(&self) -> &PrivateKey {
        &self.key
    }

    /// Writes the key, before the hub hears that it is to be a peer's: its answer may be lost. The file.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep_key(&self) -> Result<&Path, SetupError> {
        if self.is_new {
            let mut made = Made::default();
            made.write_key(&self.key_file, &self.key)?;
            made.keep();
        }
        Ok(&self.key_file)
    }

    /// Removes the key again, if it is new: the hub has refused it.
    pub fn forget_key(&self) {
        if self.is_new {
            let _ = std::fs::remove_file(&self.key_file);
        }
    }

    /// Writes the configuration and checks it; the text, and what of it is hardly meant or stands in the daemon's way on this host.
    ///
    /// # Errors
    /// What cannot be written, or what `fairspan check` would say.
    pub fn write(
        self,
        invitation: &Invitation,
        channels: &[Channel],
    ) -> Result<(String, Vec<ConfigError>), SetupError> {
        let stem = stem(&self.file);
        let preshared = format!("{stem}.psk");
        let psk = Derived::of(&invitation.secret).preshared_key().to_base64();
        let (psk, path) = (Zeroizing::new(format!("{}\n", psk.as_str())), folders::of(&self.file).join(&preshared));
        let mut made = Made::default();
        match path.exists() {
            // Of a site that was here before.
            true => replace(&path, &psk)?,
            false => made.write(&path, &psk)?,
        }
        let text = text(&self.file, invitation, channels, [&format!("{stem}.key"), &preshared]);
        made.write(&self.file, &text)?;
        let config = Config::load_for_this_host(&self.file).map_err(|error| SetupError::Wrong(error.to_string()))?;
        made.keep();
        Ok((text, config.notices))
    }
}

/// What a site is to reach through the hub, each network once: the network inside, and what lies behind the hub.
pub fn networks(invitation: &Invitation) -> Vec<IpNet> {
    let inner = (invitation.hub, invitation.prefix);
    let mut networks = Vec::new();
    for (address, prefix) in std::iter::once(&inner).chain(&invitation.networks) {
        if let Ok(net) = IpNet::new(*address, *prefix)
            && !networks.contains(&net.trunc())
        {
            networks.push(net.trunc());
        }
    }
    networks
}

/// The configuration of a site; `keys` are the files of its private and of the pre-shared key.
fn text(file: &Path, invitation: &Invitation, channels: &[Channel], keys: [&str; 2]) -> String {
    let behind: Vec<String> = networks(invitation).iter().map(|net| format!("\"{net}\"")).collect();
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
        text += &format!("endpoint = {}\n", quoted(&channel.endpoint));
        if let Some(endpoint) = channel.tcp_endpoint {
            text += &format!("tcp_endpoint = \"{endpoint}\"\n");
        }
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
    use fairspan_core::wire::invitation::{Host, Place};

    fn invitation() -> Invitation {
        let hub = PrivateKey::from_bytes([3; 32]);
        Invitation {
            hub_key: *hub.public_key().as_bytes(),
            secret: [5; 16],
            expires: 1_800_000_000,
            hub: "10.77.0.1".parse().expect("an address"),
            site: "10.77.0.2".parse().expect("an address"),
            prefix: 24,
            networks: vec![
                ("192.168.0.0".parse().expect("an address"), 16),
                ("192.168.1.0".parse().expect("an address"), 16),
            ],
            places: vec![
                Place { host: Host::Address("203.0.113.1".parse().expect("an address")), port: 51900 },
                Place { host: Host::Name("hub.example.net".into()), port: 51900 },
            ],
            name: "site1".into(),
            tcp_port: None,
        }
    }

    #[test]
    fn what_is_written_is_what_the_daemon_reads_with_keys_in_files_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("site.toml");
        // A pre-shared key that a former site left is no obstacle.
        std::fs::write(folder.path().join("site.psk"), "left").expect("written");
        let site = Site::begin(&file).expect("begun");
        let key = site.key().public_key();
        site.keep_key().expect("kept");
        let channel = |device: &str, place: &str, source: Option<&str>| Channel {
            device: device.into(),
            endpoint: place.into(),
            tcp_endpoint: place.starts_with("203").then(|| "203.0.113.1:443".parse().expect("an address")),
            source: source.map(|source| source.parse().expect("an address")),
        };
        let channels =
            [channel("eth1", "203.0.113.1:51900", None), channel("wwan0", "hub.example.net:51900", Some("192.0.2.1"))];
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
        let tcp: Vec<_> = peer.channels.iter().map(|channel| channel.tcp_endpoint).collect();
        assert_eq!(tcp, [channels[0].tcp_endpoint, None]);
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
        let site = Site::begin(&file).expect("begun");
        site.keep_key().expect("kept");
        site.forget_key();
        drop(site);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
        let site = Site::begin(&file).expect("begun");
        let key = site.key().public_key();
        site.keep_key().expect("kept");
        drop(site);
        let again = Site::begin(&file).expect("begun");
        assert_eq!(again.key().public_key(), key);
        again.forget_key();
        assert!(folder.path().join("fs0.key").exists(), "it was there before");
        // What cannot be right is taken back.
        assert!(again.write(&invitation(), &[]).is_err());
        assert!(!file.exists() && !folder.path().join("fs0.psk").exists() && folder.path().join("fs0.key").exists());
    }
}
