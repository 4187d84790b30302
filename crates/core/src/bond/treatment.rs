//! Why a flow's packets go as they do: because of a traffic class, because they are urgent, or for no such reason.
//!
//! Of each packet it is noted in its flow's account as it comes from the host; what is told of a flow is the note of most of its bytes.
//! Cost: O(1) a packet, and nothing where flows are not told apart.

/// Why packets go as they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// They match no class, and are not urgent.
    Usual,
    /// They are urgent by their DSCP, or are ICMP.
    Marked,
    /// They are TCP acknowledgements without data.
    Acknowledges,
    /// Their flow sends little.
    SendsLittle,
    /// They match the traffic class with this place.
    Class(u8),
}

/// The numbers of those that are no class.
const OTHERS: [Treatment; 4] = [Treatment::Usual, Treatment::Marked, Treatment::Acknowledges, Treatment::SendsLittle];

impl Treatment {
    /// As an account notes it.
    #[inline]
    pub(super) fn note(self) -> u8 {
        match self {
            Treatment::Usual => 0,
            Treatment::Marked => 1,
            Treatment::Acknowledges => 2,
            Treatment::SendsLittle => 3,
            // There are at most 64 classes.
            Treatment::Class(place) => OTHERS.len() as u8 + (place & 63),
        }
    }

    /// From an account.
    pub(super) fn noted(note: u8) -> Treatment {
        OTHERS.get(usize::from(note)).copied().unwrap_or(Treatment::Class(note.wrapping_sub(OTHERS.len() as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_treatment_is_read_back_from_its_note() {
        for treatment in OTHERS.into_iter().chain((0..64).map(Treatment::Class)) {
            assert_eq!(Treatment::noted(treatment.note()), treatment);
        }
    }
}
