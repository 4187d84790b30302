//! Files and standard input as traffic.

use crate::cmd::trace::WITHOUT_PACKETS;
use crate::exit::BadInput;
use fairspan_core::units::Span;
use fairspan_trace::capture::{Capture, CaptureError, unpacked};
use fairspan_trace::hex::HexFrames;
use fairspan_trace::select::{Gathered, Traffic};
use std::io::Read;
use std::path::Path;

/// What a file holds.
#[derive(Debug)]
pub(super) struct Content {
    /// For messages.
    name: String,
    kind: Kind,
    /// Why not all of it could be unpacked.
    trouble: Option<String>,
}

#[derive(Debug)]
enum Kind {
    Capture(Vec<u8>),
    Frames(HexFrames),
}

/// All files as one sequence.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) traffic: Traffic<'a>,
    /// Files of which the rest could not be read, and why.
    pub(super) problems: Vec<String>,
}

/// How compressed files begin that are not unpacked here, what they are called, and what unpacks them.
const COMPRESSED: [(&[u8], &str, &str); 2] =
    [(b"BZh", "bzip2", "bzip2 -dc"), (&[0x04, 0x22, 0x4d, 0x18], "lz4", "lz4 -dc")];

impl Content {
    /// Reads a file, or standard input where it is called `-`.
    pub(super) fn read(file: &Path, hex: bool) -> Result<Content, BadInput> {
        let is_stdin = file.as_os_str() == "-";
        let name = if is_stdin { "standard input".to_owned() } else { file.display().to_string() };
        let bytes = if is_stdin {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(file)
        };
        let bytes = bytes.map_err(|error| BadInput(format!("{name}: {error}")))?;
        if let Some((_, format, command)) = COMPRESSED.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
            let instead = format!("unpack it, or write `{command} FILE | fairspan select - …`");
            return Err(BadInput(format!("{name} is compressed ({format}); {instead}")));
        }
        let (bytes, trouble) = unpacked(bytes);
        let trouble = trouble.map(|error| format!("{name} could not be unpacked to its end: {error}"));
        if let Some(trouble) = trouble.as_ref().filter(|_| bytes.is_empty()) {
            return Err(BadInput(trouble.clone()));
        }
        let is_capture = Capture::is_one(&bytes);
        let kind = match (hex, is_capture) {
            (false, true) => Kind::Capture(bytes),
            (false, false) => {
                let also = match HexFrames::read(&bytes) {
                    Ok(frames) if frames.iter().next().is_some() => "; to read lines of hexadecimal frames, add --hex",
                    _ => "",
                };
                let why = if bytes.is_empty() { CaptureError::Empty } else { CaptureError::Format };
                return Err(BadInput(format!("{name}: {why}{also}")));
            }
            (true, true) => return Err(BadInput(format!("{name} is a capture; leave --hex out"))),
            (true, false) => {
                let frames = HexFrames::read(&bytes).map_err(|error| BadInput(format!("{name}, {error}")))?;
                Kind::Frames(frames)
            }
        };
        Ok(Content { name, kind, trouble })
    }
}

/// The frames of all files. `interval`: between frames that have no times.
pub(super) fn gather(contents: &[Content], interval: Option<Span>) -> Result<Source<'_>, BadInput> {
    let mut gathered = Gathered::default();
    let mut problems = Vec::new();
    for Content { name, kind, trouble } in contents {
        problems.extend(trouble.clone());
        match kind {
            Kind::Capture(data) => match gathered.capture(data) {
                Ok(None) => {}
                Ok(Some(error)) | Err(error) => problems.push(format!("{name}: {error}")),
            },
            Kind::Frames(frames) => gathered.hex(frames, interval.unwrap_or(Span::from_micros(1))),
        }
    }
    let traffic = gathered.finish().map_err(|error| BadInput(error.to_string()))?;
    if traffic.packets().is_empty() {
        if let Some(reason) = traffic.left_out().keys().next() {
            return Err(BadInput(format!("no packet can be forwarded: {reason}")));
        }
        let captures =
            contents.iter().filter(|content| problems.is_empty() && matches!(content.kind, Kind::Capture(_)));
        captures.for_each(|content| eprintln!("fairspan: {}: {WITHOUT_PACKETS}", content.name));
    }
    Ok(Source { traffic, problems })
}
