//! The files that stay within a daemon's reach (Landlock), and the TCP ports.
//!
//! Source: Linux `Documentation/userspace-api/landlock.rst`. What an older kernel cannot hold is left out, and told.

use super::held::{ConfinementError, Held, Holds};
use super::own::folders_of;
use crate::config::{ChannelKind, Config};
use crate::folders;
use landlock::{
    ABI, Access, AccessFs, AccessNet, NetPort, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use std::path::Path;

/// The newest restraints that are asked for.
const NEWEST: ABI = ABI::V5;

/// Leaves nothing within reach but what `config` names, the host's network settings and the TUN device.
pub(super) fn restrict(config: &Config) -> Result<Held, ConfinementError> {
    let interface = &config.interface;
    let own = folders_of(interface);
    // They can be within reach only if they are there; where one cannot be made, its owner says so.
    for folder in &own {
        let _ = folders::make(folder.path, folder.mode);
    }
    let folders = own.iter().map(|folder| folder.path).chain(interface.record.as_deref().map(folders::of));
    let settings = [Path::new("/proc/sys/net"), Path::new("/dev/net/tun")];
    let all = AccessFs::from_all(NEWEST) & !AccessFs::Execute;
    let access = |bound| if bound { AccessNet::BindTcp } else { AccessNet::ConnectTcp };
    let ports = if config.splits() { Vec::new() } else { tcp_ports(config) };
    let apply = || -> Result<RulesetStatus, RulesetError> {
        let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST))?;
        // A gateway calls whom its clients call.
        if !config.splits() {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST))?;
        }
        let ruleset = ruleset
            .create()?
            .add_rules(path_beneath_rules(folders, all))?
            .add_rules(path_beneath_rules(settings, all))?;
        let ruleset = ruleset
            .add_rules(ports.iter().map(|(port, bound)| Ok::<_, RulesetError>(NetPort::new(*port, access(*bound)))))?;
        Ok(ruleset.restrict_self()?.ruleset)
    };
    match apply() {
        Ok(RulesetStatus::FullyEnforced) if config.splits() => {
            Ok(Held::new(Holds::On, "files of its own, and any TCP"))
        }
        Ok(RulesetStatus::FullyEnforced) if config.interface.webhook.is_some() => Ok(Held::new(
            Holds::On,
            "files of its own, and no TCP ports but metrics, the page, the webhook and those of channels",
        )),
        Ok(RulesetStatus::FullyEnforced) if config.has_tcp() => {
            Ok(Held::new(Holds::On, "files of its own, and no TCP ports but metrics, the page and those of channels"))
        }
        Ok(RulesetStatus::FullyEnforced) => {
            Ok(Held::new(Holds::On, "files of its own, and no TCP but metrics and the page"))
        }
        Ok(RulesetStatus::PartiallyEnforced) => {
            Ok(Held::new(Holds::Partial, "this kernel knows an older Landlock, which limits less"))
        }
        Ok(RulesetStatus::NotEnforced) => {
            Ok(Held::new(Holds::Off, "this kernel has no Landlock, or it is not enabled"))
        }
        Err(error) => Err(ConfinementError::Refused { what: "landlock", problem: error.to_string() }),
    }
}

/// The TCP ports that the daemon binds, with `true`, and connects to.
pub(super) fn tcp_ports(config: &Config) -> Vec<(u16, bool)> {
    let interface = &config.interface;
    let served = [interface.metrics, interface.web].into_iter().flatten().map(|address| address.port());
    let bound = served.chain(interface.listen_tcp_port);
    let mut ports: Vec<_> = bound.map(|port| (port, true)).collect();
    ports.extend(interface.webhook.as_ref().map(|hook| (hook.address.port(), false)));
    for channel in config.peers.iter().flat_map(|peer| &peer.channels) {
        let (to, source) = match &channel.kind {
            ChannelKind::Tcp { endpoint, source } => (Some(*endpoint), source),
            ChannelKind::Udp { source, .. } => (channel.tcp_endpoint, source),
            ChannelKind::Ethernet { .. } => continue,
        };
        let Some(to) = to else { continue };
        ports.push((to.port(), false));
        // An address is bound with a port of the kernel's choice.
        ports.extend(source.map(|_| (0, true)));
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_a_webhook_one_port_may_be_connected_to_and_none_bound() {
        let ports = |settings: &str| {
            let text = format!(
                "[interface]\nname = \"br0\"\n{settings}[bond]\npolicy = \"brr\"\n[[bond.link]]\ndevice = \"eth1\"\n"
            );
            tcp_ports(&Config::parse(Path::new("br0.toml"), &text).expect("good"))
        };
        assert!(ports("").is_empty());
        assert_eq!(ports("webhook = \"http://192.0.2.5:8080/x\"\n"), [(8080, false)]);
    }
}
