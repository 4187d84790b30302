//! The service class of a packet from the host, by its DiffServ codepoint.
//!
//! | codepoint | class |
//! |---|---|
//! | EF, VOICE-ADMIT | A, where this node has reserved some |
//! | AF11 to AF43 | B, where it has committed some |
//! | all others | C |

use fairspan_core::ring::Class;
use fairspan_core::ring::control::Reservation;

const EXPEDITED: u8 = 46;
const VOICE_ADMIT: u8 = 44;

/// Which classes the node may use beside C.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Classes {
    reserved: bool,
    committed: bool,
}

impl Classes {
    pub(super) fn of(reservations: &[Reservation]) -> Classes {
        let any = |class| reservations.iter().any(|r| r.class == class);
        Classes { reserved: any(Class::A), committed: any(Class::B) }
    }

    /// The class of an IP packet.
    pub(super) fn class(self, packet: &[u8]) -> Class {
        match traffic_class(packet) >> 2 {
            EXPEDITED | VOICE_ADMIT if self.reserved => Class::A,
            codepoint if self.committed && is_assured(codepoint) => Class::B,
            _ => Class::C,
        }
    }
}

/// The traffic class (DSCP and ECN) of an IP packet; 0 of what is none.
pub(super) fn traffic_class(packet: &[u8]) -> u8 {
    match *packet {
        [first, second, ..] if first >> 4 == 4 => second,
        [first, second, ..] if first >> 4 == 6 => first << 4 | second >> 4,
        _ => 0,
    }
}

/// AFxy: class 1 to 4 in the upper three bits, drop precedence 1 to 3 in the next two.
fn is_assured(codepoint: u8) -> bool {
    (1..=4).contains(&(codepoint >> 3)) && codepoint & 7 != 0 && codepoint & 1 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairspan_core::units::Rate;

    fn v4(codepoint: u8) -> Vec<u8> {
        vec![0x45, codepoint << 2 | 1]
    }

    fn v6(codepoint: u8) -> Vec<u8> {
        vec![0x60 | codepoint >> 2, codepoint << 6 | 0x1f]
    }

    fn classes(classes: &[Class]) -> Classes {
        let rate = Rate::from_mbit(1);
        Classes::of(&classes.iter().map(|class| Reservation { to: None, class: *class, rate }).collect::<Vec<_>>())
    }

    #[test]
    fn a_class_is_used_only_where_something_is_reserved_for_it() {
        for packet in [v4, v6] {
            let class = |reserved: &[Class], codepoint| classes(reserved).class(&packet(codepoint));
            for (codepoint, expected) in [(46, Class::A), (44, Class::A), (10, Class::B), (38, Class::B), (0, Class::C)]
            {
                assert_eq!(class(&[Class::A, Class::B], codepoint), expected, "{codepoint}");
                assert_eq!(class(&[], codepoint), Class::C, "{codepoint}");
            }
            assert_eq!(class(&[Class::B], 46), Class::C);
            assert_eq!(class(&[Class::A], 10), Class::C);
        }
    }

    #[test]
    fn the_twelve_assured_codepoints_are_those_of_rfc_2597() {
        let assured: Vec<u8> = (0..64).filter(|codepoint| is_assured(*codepoint)).collect();
        assert_eq!(assured, [10, 12, 14, 18, 20, 22, 26, 28, 30, 34, 36, 38]);
    }

    #[test]
    fn what_is_no_ip_packet_is_best_effort() {
        for bytes in [&[][..], &[0x45], &[0x15, 46 << 2]] {
            assert_eq!(classes(&[Class::A, Class::B]).class(bytes), Class::C);
        }
    }
}
