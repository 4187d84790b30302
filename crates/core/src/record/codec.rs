//! Numbers, options and packets as a recording has them.

use super::error::ReplayError;
use crate::packet::Packet;
use alloc::vec::Vec;

/// What is left of a recording.
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n: usize) -> Result<&'a [u8], ReplayError> {
        let cut = ReplayError::Truncated { at: self.at };
        let end = self.at.checked_add(n).ok_or(cut.clone())?;
        let bytes = self.bytes.get(self.at..end).ok_or(cut)?;
        self.at = end;
        Ok(bytes)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ReplayError> {
        let at = self.at;
        self.take(N)?.first_chunk::<N>().copied().ok_or(ReplayError::Truncated { at })
    }

    pub(super) fn byte(&mut self) -> Result<u8, ReplayError> {
        self.array::<1>().map(|[b]| b)
    }

    pub(super) fn u64_fixed(&mut self) -> Result<u64, ReplayError> {
        self.array::<8>().map(u64::from_be_bytes)
    }

    pub(super) fn number(&mut self) -> Result<u64, ReplayError> {
        let at = self.at;
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(ReplayError::Damaged { at })
    }

    pub(super) fn option(&mut self) -> Result<Option<u64>, ReplayError> {
        if self.byte()? == 0 { Ok(None) } else { self.number().map(Some) }
    }
}

pub(super) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn put_option(out: &mut Vec<u8>, value: Option<u64>) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

pub(super) fn put_packet<P: Packet>(out: &mut Vec<u8>, packet: &P) {
    put(out, packet.footprint() as u64);
    put(out, packet.bytes().len() as u64);
    out.extend_from_slice(packet.bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive(value: u64) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(Reader { bytes: &out, at: 0 }.number(), Ok(value));
        }
    }
}
