//! Netlink messages by hand: headers and attributes, written and read.
//!
//! Sources: Linux `Documentation/userspace-api/netlink/intro.rst` and `include/uapi/linux/netlink.h`. Lengths and kinds have the
//! host's order. Values of netfilter are big-endian, those of rtnetlink are not.

/// An attribute holds others.
pub(super) const NESTED: u16 = 0x8000;
/// What is left of an attribute's kind without its flags.
const KIND: u16 = 0x3fff;
/// netlink's own kinds of messages: an acknowledgement or an error, and the end of a list.
pub(super) const ERROR: u16 = 2;
pub(super) const DONE: u16 = 3;

/// A message: its length, kind, flags and number, and what `fill` puts behind.
pub(super) fn message(out: &mut Vec<u8>, kind: u16, flags: u16, sequence: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 4]);
    out.extend(kind.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend(sequence.to_ne_bytes());
    out.extend([0; 4]);
    fill(out);
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

/// An attribute that holds those that `fill` writes.
pub(super) fn nested(out: &mut Vec<u8>, kind: u16, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend([0; 2]);
    out.extend((kind | NESTED).to_ne_bytes());
    fill(out);
    let length = (out.len() - start) as u16;
    out[start..start + 2].copy_from_slice(&length.to_ne_bytes());
}

/// An attribute, and the zeros behind it up to the next.
pub(super) fn attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend((value.len() as u16 + 4).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// A number of netfilter's.
pub(super) fn number(out: &mut Vec<u8>, kind: u16, value: u32) {
    attribute(out, kind, &value.to_be_bytes());
}

/// A text, with the zero that ends it.
pub(super) fn text(out: &mut Vec<u8>, kind: u16, value: &str) {
    attribute(out, kind, &[value.as_bytes(), &[0]].concat());
}

/// Some bytes of a message.
pub(super) fn field<const N: usize>(message: &[u8], at: usize) -> Option<[u8; N]> {
    message.get(at..)?.first_chunk().copied()
}

/// The kinds and values of attributes, as far as they are whole.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let &[l0, l1, k0, k1] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([l0, l1]));
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((u16::from_ne_bytes([k0, k1]) & KIND, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_were_written_are_read_and_cut_ones_end_the_list() {
        let mut bytes = Vec::new();
        number(&mut bytes, 3, 0x0102_0304);
        nested(&mut bytes, 4, |inner| text(inner, 1, "ab"));
        attribute(&mut bytes, 5, &[9]);
        let read: Vec<_> = attributes(&bytes).collect();
        assert_eq!(read[0], (3, &[1, 2, 3, 4][..]));
        assert_eq!(read[1].0, 4);
        assert_eq!(attributes(read[1].1).collect::<Vec<_>>(), [(1, &b"ab\0"[..])]);
        assert_eq!(read[2], (5, &[9][..]));
        for cut in 0..bytes.len() {
            let whole = attributes(&bytes[..cut]).count();
            assert!(whole <= 3 && (cut >= bytes.len() - 3 || whole < 3), "{whole} of the first {cut} bytes");
        }
        for length in [0u16, 3, 9, u16::MAX] {
            bytes[..2].copy_from_slice(&length.to_ne_bytes());
            let _ = attributes(&bytes).count();
        }
    }
}
