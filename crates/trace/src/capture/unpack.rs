//! Packed captures: gzip, xz and zstd, known by how they begin.
//!
//! Source: RFC 1952, 2.3.1; the .xz file format, 2.1.1.1; RFC 8878, 3.1.1 and 3.1.2. Files that were put together of several
//! packed ones are read to their end. Memory is bounded: what an xz file asks for up to 256 MiB, a zstd file's window up to 100 MiB.

use flate2::bufread::MultiGzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, BufReader, Read};

/// What tells how a file is packed: no longer than this.
pub(super) const MARK: usize = 6;

/// Most memory for one xz file, in bytes.
const XZ_MEMORY: u64 = 256 << 20;

type Source<'a> = Box<dyn Read + 'a>;

/// Whether something that begins with `mark` is packed.
pub(super) fn is_packed(mark: &[u8]) -> bool {
    let (gzip, xz, zstd) = ([0x1f, 0x8b], [0xfd, b'7', b'z', b'X', b'Z', 0], [0x28, 0xb5, 0x2f, 0xfd]);
    let is_skippable = matches!(mark, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    mark.starts_with(&gzip) || mark.starts_with(&xz) || mark.starts_with(&zstd) || is_skippable
}

/// What is packed in `source`, which begins with `mark`; `source` itself where nothing is packed.
pub(super) fn unpacked<'a>(mark: &[u8], source: impl Read + 'a) -> io::Result<Source<'a>> {
    match mark {
        [0x1f, 0x8b, ..] => Ok(Box::new(MultiGzDecoder::new(buffered(source)))),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            let stream = Stream::new_stream_decoder(XZ_MEMORY, CONCATENATED)?;
            Ok(Box::new(liblzma::bufread::XzDecoder::new_stream(buffered(source), stream)))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => {
            Ok(Box::new(Zstd { source: buffered(source), decoder: FrameDecoder::new(), inside: false }))
        }
        _ => Ok(Box::new(source)),
    }
}

fn buffered<'a>(source: impl Read + 'a) -> BufReader<impl Read + 'a> {
    BufReader::with_capacity(1 << 16, source)
}

/// The frames of a zstd file, one behind the other.
struct Zstd<R> {
    source: R,
    decoder: FrameDecoder,
    /// Within a frame.
    inside: bool,
}

impl<R: BufRead> Zstd<R> {
    /// Goes on to the next frame; false: there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.source.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.inside {
                self.inside = self.begin()?;
                if !self.inside {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBytes(1 << 16);
                self.decoder.decode_blocks(&mut self.source, some).map_err(io::Error::other)?;
            }
            let read = self.decoder.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.inside = false;
            let (told, found) = (self.decoder.get_checksum_from_data(), self.decoder.get_calculated_checksum());
            if told.is_some() && told != found {
                return Err(io::Error::other("a checksum of the zstd file is wrong"));
            }
        }
    }
}
