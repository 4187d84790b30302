//! Frames as lines of hexadecimal digits: what a person or a script writes when there is no capture.
//!
//! One Ethernet frame a line, without its check sequence. Between digits blanks, `:` and `-` mean nothing, nor does a
//! leading `0x`. Blank lines are skipped, and so is what stands behind `#`.

/// What some programs write before UTF-8.
const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];

/// Frames that were read, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HexFrames {
    bytes: Vec<u8>,
    /// Where each frame ends in `bytes`.
    ends: Vec<usize>,
}

/// Why a line is no frame, and what would be right. Lines are numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HexError {
    /// A character that is no digit.
    #[error(
        "line {line}, character {column}: {found:?} is no hexadecimal digit; write one Ethernet frame a line, such as 01005e0102030a1b2c3d4e5f0800…"
    )]
    Digit {
        /// The line.
        line: usize,
        /// The character's place, from 1.
        column: usize,
        /// What stands there.
        found: char,
    },
    /// Half a byte.
    #[error("line {line} has {digits} hexadecimal digits; a byte is two")]
    Odd {
        /// The line.
        line: usize,
        /// How many.
        digits: usize,
    },
}

impl HexFrames {
    /// Reads all lines.
    ///
    /// # Errors
    /// Names the first line that is no frame.
    pub fn read(text: &[u8]) -> Result<HexFrames, HexError> {
        let mut frames = HexFrames::default();
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        for (n, line) in text.split(|&byte| byte == b'\n').enumerate() {
            // A line that a carriage return alone ends is one as well.
            line.split(|&byte| byte == b'\r').try_for_each(|line| frames.line(n + 1, line))?;
        }
        Ok(frames)
    }

    fn line(&mut self, line: usize, text: &[u8]) -> Result<(), HexError> {
        let text = text.split(|&byte| byte == b'#').next().unwrap_or_default();
        let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        let prefix = if matches!(&text[blank..], [b'0', b'x' | b'X', ..]) { 2 } else { 0 };
        let mut digits = 0;
        for (at, &byte) in text.iter().enumerate().skip(blank + prefix) {
            let Some(digit) = char::from(byte).to_digit(16) else {
                if byte.is_ascii_whitespace() || matches!(byte, b':' | b'-') {
                    continue;
                }
                let found = String::from_utf8_lossy(&text[at..]).chars().next().unwrap_or_default();
                return Err(HexError::Digit { line, column: at + 1, found });
            };
            match self.bytes.last_mut() {
                Some(last) if digits % 2 == 1 => *last |= digit as u8,
                _ => self.bytes.push((digit as u8) << 4),
            }
            digits += 1;
        }
        if digits % 2 == 1 {
            return Err(HexError::Odd { line, digits });
        }
        if digits > 0 {
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// The frames.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, &end)| &self.bytes[begin..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Vec<u8>>, HexError> {
        HexFrames::read(text.as_bytes()).map(|frames| frames.iter().map(<[u8]>::to_vec).collect())
    }

    #[test]
    fn a_line_is_a_frame_however_its_bytes_are_set_apart() {
        let text = "# three frames\n0a1B2c\r\n\n  0x0a 1b:2c  # the same\n0A-1b-2c";
        assert_eq!(read(text).unwrap(), vec![vec![0x0a, 0x1b, 0x2c]; 3]);
        assert_eq!(read("\u{feff}0a1b2c\r0a1b2c\r\r0a1b2c\r").unwrap(), vec![vec![0x0a, 0x1b, 0x2c]; 3]);
        assert_eq!(read("").unwrap(), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn what_is_no_frame_is_refused_by_its_line() {
        assert_eq!(read("0a\n0g"), Err(HexError::Digit { line: 2, column: 2, found: 'g' }));
        assert_eq!(read("0a\n\n0a1"), Err(HexError::Odd { line: 3, digits: 3 }));
        assert_eq!(read("0a0xff"), Err(HexError::Digit { line: 1, column: 4, found: 'x' }));
        assert_eq!(read("0aé"), Err(HexError::Digit { line: 1, column: 3, found: 'é' }));
    }

    proptest! {
        #[test]
        fn any_frames_come_back(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..80), 0..20)) {
            let line = |frame: &Vec<u8>| frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            let text = frames.iter().map(line).collect::<Vec<_>>().join("\n");
            prop_assert_eq!(read(&text).unwrap(), frames);
        }

        #[test]
        fn any_bytes_are_frames_or_a_named_error(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = HexFrames::read(&text);
        }
    }
}
