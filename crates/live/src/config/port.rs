//! `interface.kind = "port"`: an Ethernet device in place of a virtual interface, joined with the peer's as by a cable.

use super::peer::Peer;
use super::{ConfigError, RawInterface, Reader};
use std::ops::Range;
use toml::Spanned;

impl Reader<'_> {
    /// The interface's name, and the device where it is a port.
    pub(super) fn name_and_port(
        &self,
        span: Range<usize>,
        raw: &RawInterface,
    ) -> Result<(String, Option<String>), ConfigError> {
        let name = raw.name.as_ref().map(|name| self.device_name(name, "interface.name")).transpose()?;
        let device = raw.device.as_ref().map(|device| self.link_device(device, "interface.device")).transpose()?;
        let port = match &raw.kind {
            Some(kind) if kind.get_ref() == "port" => Some(kind.span()),
            Some(kind) if kind.get_ref() != "tun" => {
                let problem = format!(
                    "`{}` is neither \"tun\", a virtual interface for this host, nor \"port\", a device whose frames the peer gets",
                    kind.get_ref()
                );
                return Err(self.error(kind.span(), "interface.kind", problem));
            }
            _ => None,
        };
        let Some(port) = port else {
            if let Some(device) = &raw.device {
                let problem = "is for kind = \"port\": write that too, or leave this out";
                return Err(self.error(device.span(), "interface.device", problem));
            }
            let missing = || self.error(span, "interface.name", "missing: write one such as \"fs0\"");
            return Ok((self.new_name(raw.name.as_ref().ok_or_else(missing)?)?, None));
        };
        let named = || raw.name.as_ref().map(|name| self.link_device(name, "interface.name")).transpose();
        let Some(device) = device.map_or_else(named, |device| Ok(Some(device)))? else {
            let problem = "missing: name the Ethernet device whose frames the peer is to get, such as \"eth1\"";
            return Err(self.error(span, "interface.device", problem));
        };
        let meaningless = [
            (
                !raw.address.is_empty(),
                "address",
                "a port is no interface of this host: what is connected to it has addresses",
            ),
            (raw.mtu.is_some(), "mtu", "frames have the length that they have: set the device's MTU"),
            (raw.table.is_some(), "table", "nothing is routed into a port"),
            (raw.lock.is_some(), "lock", "this host sends nothing through a port"),
            (!raw.lock_except.is_empty(), "lock_except", "this host sends nothing through a port"),
            (!raw.dns.is_empty(), "dns", "this host sends nothing through a port"),
            (raw.offload.is_some(), "offload", "frames always travel one by one"),
        ];
        if let Some((_, setting, why)) = meaningless.into_iter().find(|(given, ..)| *given) {
            let problem = format!("has no meaning with kind = \"port\": {why}; leave it out");
            return Err(self.error(port, &format!("interface.{setting}"), problem));
        }
        Ok((name.unwrap_or_else(|| device.clone()), Some(device)))
    }

    /// Whether these can be the peers of a port.
    pub(super) fn peers_of_port(&self, span: Range<usize>, peers: &[Peer]) -> Result<(), ConfigError> {
        let [peer] = peers else {
            let problem = "a cable has two ends, and a port one peer: give each its own file and device";
            return Err(self.error(span, "peer", problem));
        };
        if !peer.allowed_ips.is_empty() {
            let problem =
                "has no meaning with kind = \"port\": all frames go to the peer and come from it; leave it out";
            return Err(self.error(span, "peer.allowed_ips", problem));
        }
        Ok(())
    }

    /// A port goes with peers only.
    pub(super) fn no_port(&self, kind: Option<&Spanned<String>>, section: &str) -> Result<(), ConfigError> {
        match kind.filter(|kind| kind.get_ref() == "port") {
            Some(kind) => {
                let problem = format!("\"port\" goes with a [[peer]], and this file has a {section}: leave one out");
                Err(self.error(kind.span(), "interface.kind", problem))
            }
            None => Ok(()),
        }
    }
}
