//! Values that settings of several sections have: networks, rates, weights, MTUs, tables, and names of devices.

use super::{ConfigError, Reader, Table};
use crate::quantity::parse_rate;
use fairspan_core::units::Rate;
use ipnet::IpNet;
use std::net::IpAddr;
use toml::Spanned;

impl Reader<'_> {
    /// Networks, or single addresses.
    pub(super) fn networks(&self, texts: &[Spanned<String>], setting: &str) -> Result<Vec<IpNet>, ConfigError> {
        let network = |text: &Spanned<String>| {
            let net: IpNet = match text.get_ref().parse::<IpAddr>() {
                Ok(address) => address.into(),
                Err(_) => self.parsed(text, setting, "10.77.0.2/32")?,
            };
            if net.addr() != net.network() {
                let problem = format!("`{net}` has bits behind its prefix: write `{}`", net.trunc());
                return Err(self.error(text.span(), setting, problem));
            }
            Ok(net)
        };
        let mut nets: Vec<IpNet> = Vec::new();
        for text in texts {
            let net = network(text)?;
            if nets.contains(&net) {
                return Err(self.error(text.span(), setting, format!("{net} is there twice: leave one out")));
            }
            nets.push(net);
        }
        Ok(nets)
    }

    pub(super) fn positive_rate(
        &self,
        value: Option<&Spanned<String>>,
        setting: &str,
    ) -> Result<Option<Rate>, ConfigError> {
        let rate = self.quantity(value, setting, parse_rate)?;
        match (rate, value) {
            (Some(r), Some(v)) if r.as_bits_per_sec() < 1_000 => {
                Err(self.error(v.span(), setting, "must be at least 1kbit; leave it out for no limit"))
            }
            _ => Ok(rate),
        }
    }

    pub(super) fn weight(&self, value: Option<&Spanned<u32>>, setting: &str) -> Result<u32, ConfigError> {
        match value {
            Some(v) if !(1..=1000).contains(v.get_ref()) => {
                Err(self.error(v.span(), setting, format!("{} is not from 1 to 1000", v.get_ref())))
            }
            other => Ok(other.map_or(1, |v| *v.get_ref())),
        }
    }

    pub(super) fn mtu(&self, value: Option<&Spanned<u16>>, setting: &str) -> Result<Option<u16>, ConfigError> {
        match value {
            Some(v) if *v.get_ref() < 576 => {
                Err(self.error(v.span(), setting, format!("{} is below 576, what every IPv4 host takes", v.get_ref())))
            }
            other => Ok(other.map(|v| *v.get_ref())),
        }
    }

    /// Where routes go.
    pub(super) fn table(&self, value: Option<&Spanned<toml::Value>>) -> Result<Table, ConfigError> {
        let Some(value) = value else { return Ok(Table::Auto) };
        let problem = match value.get_ref() {
            toml::Value::String(s) if s == "auto" => return Ok(Table::Auto),
            toml::Value::String(s) if s == "off" => return Ok(Table::Off),
            toml::Value::Integer(255) => {
                "255 is the kernel's own table `local`: write \"auto\", \"off\" or another number".to_owned()
            }
            toml::Value::Integer(n) if (1..=i64::from(u32::MAX)).contains(n) => return Ok(Table::Number(*n as u32)),
            other => format!("{other} is none of \"auto\", \"off\" or a table's number"),
        };
        Err(self.error(value.span(), "interface.table", problem))
    }

    pub(super) fn device_name(&self, value: &Spanned<String>, setting: &str) -> Result<String, ConfigError> {
        let name = value.get_ref();
        let legal = (1..=15).contains(&name.len())
            && name != "."
            && name != ".."
            && name.bytes().all(|b| b.is_ascii_graphic() && b != b'/' && b != b':' && b != b'%');
        if legal {
            Ok(name.clone())
        } else {
            let problem =
                format!("`{name}` is no interface name: 1 to 15 letters, digits, `-`, `_`, `.`, such as `fs0`");
            Err(self.error(value.span(), setting, problem))
        }
    }

    pub(super) fn mac(&self, value: &Spanned<String>, setting: &str) -> Result<[u8; 6], ConfigError> {
        let mut mac = [0; 6];
        let mut parts = value.get_ref().split(':');
        let mut good = true;
        for byte in &mut mac {
            match parts.next().filter(|p| p.len() == 2).and_then(|p| u8::from_str_radix(p, 16).ok()) {
                Some(b) => *byte = b,
                None => good = false,
            }
        }
        if good && parts.next().is_none() && mac[0] & 1 == 0 && mac != [0; 6] {
            Ok(mac)
        } else {
            let problem = format!("`{}` is no unicast address such as `02:00:5e:10:00:01`", value.get_ref());
            Err(self.error(value.span(), setting, problem))
        }
    }
}
