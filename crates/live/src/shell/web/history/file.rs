//! The file of the history: a region of fixed size for each link, so that the file never grows beyond a bound.
//!
//! A region begins with a page that names its link; the pages of the three rings follow. A region is allocated whole when its link
//! is first seen, so that a disk that fills up later does not stop it. Where there is no region left, the link that was seen
//! longest ago gives way.
//!
//! The file is no exchange format: another version begins with other bytes, and a daemon that does not know them leaves it alone.

use super::ring::{LEVELS, PAGE, Page, Pages};
use rustix::fs::{FallocateFlags, FlockOperation, OFlags, fallocate, flock, fstat};
use rustix::process::geteuid;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// What a region begins with.
const MAGIC: &[u8; 24] = b"fairspan link history 1\n";
/// Longest name of a link.
const NAME_LIMIT: usize = 512;
/// Most regions.
pub(super) const REGIONS: usize = 32;

/// Pages before those of a level, in a region.
fn pages_before(level: usize) -> u64 {
    1 + LEVELS[..level].iter().map(|level| level.pages()).sum::<u64>()
}

/// Bytes of a region.
pub(super) fn region_bytes() -> u64 {
    pages_before(LEVELS.len()) * PAGE as u64
}

/// The file, open.
#[derive(Debug)]
pub(super) struct Store {
    file: File,
}

/// A ring's pages in the file, or nowhere.
pub(super) struct Stored<'a> {
    pub(super) store: Option<&'a Store>,
    pub(super) region: usize,
    pub(super) level: usize,
}

impl Pages for Stored<'_> {
    fn read(&self, page: u64) -> Option<Page> {
        self.store?.read(self.region, pages_before(self.level) + page).ok()
    }
}

/// What a region says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Region {
    /// The link whose it is.
    pub(super) link: String,
    /// When that was last seen, in seconds since 1970.
    pub(super) seen: u64,
}

impl Store {
    /// Opens the file, which is made where there is none, and tells what is in it.
    ///
    /// # Errors
    /// What the system says; a file that is something else, another user's, or another process's.
    pub(super) fn open(path: &Path) -> io::Result<(Store, Vec<Region>)> {
        // Others may have put something in its place.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        let mut options = OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != geteuid().as_raw() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "it is no file of this user's"));
        }
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another process has it open"))?;
        let store = Store { file };
        let regions = (found.len() / region_bytes()).min(REGIONS as u64) as usize;
        let regions: Vec<io::Result<Region>> = (0..regions).map(|region| store.region(region)).collect();
        let is_ours = regions.iter().any(Result::is_ok);
        // One whose first page is damaged is nobody's.
        let regions: Vec<Region> = regions.into_iter().map(Result::unwrap_or_default).collect();
        let is_empty = found.len() < region_bytes() && store.is_blank(found.len())?;
        match is_ours || is_empty {
            true => Ok((store, regions)),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "it is no history of this version; move it away")),
        }
    }

    /// Whether a file that is too short for a region is one that was cut while it was made.
    fn is_blank(&self, len: u64) -> io::Result<bool> {
        let mut begin = vec![0; len.min(MAGIC.len() as u64) as usize];
        self.file.read_exact_at(&mut begin, 0)?;
        Ok(begin.iter().all(|byte| *byte == 0) || MAGIC.starts_with(&begin))
    }

    fn region(&self, region: usize) -> io::Result<Region> {
        let page = self.read(region, 0)?;
        let foreign = || io::Error::new(io::ErrorKind::InvalidData, "foreign");
        if page.iter().all(|byte| *byte == 0) {
            // It was allocated, and nothing more.
            return Ok(Region { link: String::new(), seen: 0 });
        }
        let rest = page.strip_prefix(MAGIC).ok_or_else(foreign)?;
        let (seen, rest) = rest.split_first_chunk::<8>().ok_or_else(foreign)?;
        let (len, rest) = rest.split_first_chunk::<2>().ok_or_else(foreign)?;
        let name = rest.get(..usize::from(u16::from_le_bytes(*len)).min(NAME_LIMIT)).ok_or_else(foreign)?;
        Ok(Region { link: String::from_utf8_lossy(name).into_owned(), seen: u64::from_le_bytes(*seen) })
    }

    /// Gives a region to a link; what another one left in it is gone.
    ///
    /// # Errors
    /// What the system says: the disk is full.
    pub(super) fn take(&self, region: usize, link: &Region) -> io::Result<()> {
        let at = region as u64 * region_bytes();
        if (fstat(&self.file)?.st_size.cast_unsigned()) > at {
            let nothing = [0; PAGE];
            for page in 0..pages_before(LEVELS.len()) {
                self.write(region, page, &nothing)?;
            }
        }
        match fallocate(&self.file, FallocateFlags::empty(), at, region_bytes()) {
            // Not all file systems can.
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => self.file.set_len(at + region_bytes())?,
            allocated => allocated?,
        }
        self.name(region, link)
    }

    /// Says whose a region is, and when that was seen.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn name(&self, region: usize, link: &Region) -> io::Result<()> {
        let name = link.link.as_bytes();
        let name = &name[..name.len().min(NAME_LIMIT)];
        let mut page = [0; PAGE];
        page[..24].copy_from_slice(MAGIC);
        page[24..32].copy_from_slice(&link.seen.to_le_bytes());
        page[32..34].copy_from_slice(&(name.len() as u16).to_le_bytes());
        page[34..34 + name.len()].copy_from_slice(name);
        self.write(region, 0, &page)
    }

    /// Writes a page of a level's ring.
    ///
    /// # Errors
    /// What the system says.
    pub(super) fn write_level(&self, region: usize, level: usize, page: u64, bytes: &Page) -> io::Result<()> {
        self.write(region, pages_before(level) + page, bytes)
    }

    fn read(&self, region: usize, page: u64) -> io::Result<Page> {
        let mut bytes = [0; PAGE];
        self.file.read_exact_at(&mut bytes, region as u64 * region_bytes() + page * PAGE as u64)?;
        Ok(bytes)
    }

    fn write(&self, region: usize, page: u64, bytes: &Page) -> io::Result<()> {
        self.file.write_all_at(bytes, region as u64 * region_bytes() + page * PAGE as u64)
    }
}
