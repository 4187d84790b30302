//! What a compressed frame says of its packet beside the numbers that every frame has.

/// Where a packet stands among those of its flow bucket, as its envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The flow bucket.
    pub bucket: u16,
    /// Its number in it; the low 24 bits count.
    pub sequence: u32,
}

/// What a compressed frame carries beside what its envelope says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A packet as it differs from a reference.
    Coded,
    /// The same, and the packet becomes a reference.
    Renews,
    /// A packet whose headers but what follows from others are all there, and which becomes a reference.
    Founds {
        /// It is IPv6.
        v6: bool,
        /// It is UDP, and TCP otherwise.
        udp: bool,
    },
}

impl Form {
    const CODED: u8 = 0;
    const RENEWS: u8 = 1;
    const FOUNDS: u8 = 2;
    const V6: u8 = 4;
    const UDP: u8 = 8;

    /// Four bits that say it.
    #[inline]
    pub const fn to_bits(self) -> u8 {
        match self {
            Form::Coded => Form::CODED,
            Form::Renews => Form::RENEWS,
            Form::Founds { v6, udp } => Form::FOUNDS | if v6 { Form::V6 } else { 0 } | if udp { Form::UDP } else { 0 },
        }
    }

    /// What the four bits say; `None`: nothing yet.
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Form> {
        match bits {
            Form::CODED => Some(Form::Coded),
            Form::RENEWS => Some(Form::Renews),
            _ if bits & 3 == Form::FOUNDS => {
                Some(Form::Founds { v6: bits & Form::V6 != 0, udp: bits & Form::UDP != 0 })
            }
            _ => None,
        }
    }
}
