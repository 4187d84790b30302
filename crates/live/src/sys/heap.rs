//! How much of the heap is taken, for programs that measure what something needs.
//!
//! Every allocation of the program passes here. While nobody measures, that costs one read of a flag. What was allocated before the
//! measuring began and is given back meanwhile counts as negative, so what counts are differences.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

static COUNTING: AtomicBool = AtomicBool::new(false);
static HELD: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

/// The system's allocator, which counts once [`count_heap`] was called.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heap;

/// From here on bytes of the heap are counted, by all threads.
pub fn count_heap() {
    COUNTING.store(true, Ordering::Relaxed);
}

/// Bytes that are held, and the most that were since the last call of this function. Only differences mean anything.
pub fn heap() -> (i64, i64) {
    let held = HELD.load(Ordering::Relaxed);
    (held, MOST.swap(held, Ordering::Relaxed).max(held))
}

fn change(taken: usize, given: usize) {
    if COUNTING.load(Ordering::Relaxed) {
        let by = taken as i64 - given as i64;
        MOST.fetch_max(HELD.fetch_add(by, Ordering::Relaxed) + by, Ordering::Relaxed);
    }
}

// SAFETY: each call goes to the system's allocator as it came, and gives what that gives; the counting allocates nothing.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(layout.size(), 0);
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(layout.size(), 0);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        change(0, layout.size());
        // SAFETY: as above; what it gives back came from there.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        change(size, layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(place, layout, size) }
    }
}
