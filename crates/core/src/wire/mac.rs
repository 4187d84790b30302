//! Hardware addresses.

use alloc::string::String;
use core::fmt;
use core::str::FromStr;

/// A hardware address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every station of the LAN.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// No station: what stands where there is no address.
    pub const ZERO: Mac = Mac([0; 6]);

    /// Whether it names one station.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self != Mac::ZERO
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The text is not six bytes in hexadecimal, separated by colons.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a MAC address: write for example 02:00:5e:10:00:01")]
pub struct MacError {
    text: String,
}

impl FromStr for Mac {
    type Err = MacError;

    fn from_str(text: &str) -> Result<Mac, MacError> {
        let wrong = || MacError { text: text.into() };
        let mut mac = [0u8; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().filter(|p| p.len() == 2 && p.bytes().all(|b| b.is_ascii_hexdigit()));
            *byte = u8::from_str_radix(part.ok_or_else(wrong)?, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() { Err(wrong()) } else { Ok(Mac(mac)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_mac_address_reads_as_it_is_written() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        assert_eq!("02:00:00:00:00:01".parse(), Ok(mac));
        assert_eq!(mac.to_string(), "02:00:00:00:00:01");
        for bad in
            ["", "02:00:00:00:00", "02:00:00:00:00:01:02", "0g:00:00:00:00:01", "+2:00:00:00:00:01", "2:0:0:0:0:1"]
        {
            assert!(bad.parse::<Mac>().is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_and_nobody_are_no_stations() {
        let unicast =
            [Mac([2, 0, 0, 0, 0, 1]), Mac::ZERO, Mac::BROADCAST, Mac([1, 0x80, 0xc2, 0, 0, 2])].map(Mac::is_unicast);
        assert_eq!(unicast, [true, false, false, false]);
    }
}
