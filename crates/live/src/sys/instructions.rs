//! How many instructions this thread has run, where the machine counts them (perf_event_open(2)).

use super::check;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

/// `struct perf_event_attr` in its first version, of 64 bytes, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

/// `PERF_COUNT_HW_INSTRUCTIONS`; its kind is `PERF_TYPE_HARDWARE`, 0.
const INSTRUCTIONS: u64 = 1;
/// `PERF_FLAG_FD_CLOEXEC`.
const CLOSE_ON_EXEC: libc::c_ulong = 1 << 3;
/// Pinned: an error rather than a guess where the counters do not suffice. Neither kernel nor hypervisor counts.
const FLAGS: u64 = 1 << 2 | 1 << 5 | 1 << 6;

/// A counter of this thread's instructions, without those of the kernel.
#[derive(Debug)]
pub struct Instructions(File);

impl Instructions {
    /// Begins to count.
    ///
    /// # Errors
    /// `ENOENT` or `EOPNOTSUPP` where the machine does not count, as in most virtual ones; `EACCES` or `EPERM` where
    /// `kernel.perf_event_paranoid` or a filter of system calls does not allow it.
    pub fn open() -> io::Result<Instructions> {
        let size = size_of::<Attributes>() as u32;
        let attributes = Attributes { size, config: INSTRUCTIONS, flags: FLAGS, ..Attributes::default() };
        let (this_thread, any_processor, no_group) = (0, -1, -1);
        // SAFETY: the call reads one structure of the size that it names, which outlives the call.
        let counter = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_processor,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        check(counter as libc::c_int)?;
        // SAFETY: the kernel has just given this descriptor, and nobody else has it.
        Ok(Instructions(unsafe { OwnedFd::from_raw_fd(counter as libc::c_int) }.into()))
    }

    /// How many so far.
    ///
    /// # Errors
    /// `UnexpectedEof` where the machine has no counter free.
    pub fn count(&self) -> io::Result<u64> {
        let mut count = [0; 8];
        (&self.0).read_exact(&mut count)?;
        Ok(u64::from_ne_bytes(count))
    }
}
