//! What packets are to parity: octets.

use alloc::vec::Vec;

/// A packet that can be written as octets and made of them again.
pub trait Octets: Sized {
    /// Appends its octets.
    fn write(&self, out: &mut Vec<u8>);

    /// The packet of these octets; none where they are of no packet.
    fn read(octets: &[u8]) -> Option<Self>;
}

impl Octets for Vec<u8> {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }

    fn read(octets: &[u8]) -> Option<Vec<u8>> {
        Some(octets.to_vec())
    }
}

macro_rules! number {
    ($($number:ty),*) => {$(
        impl Octets for $number {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }

            fn read(octets: &[u8]) -> Option<$number> {
                octets.try_into().ok().map(<$number>::from_be_bytes)
            }
        }
    )*};
}

number!(u32, u64);
