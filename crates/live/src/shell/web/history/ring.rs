//! A ring of records: the slots of one length for one link, in pages of which some are in memory.

use super::record::{Means, RECORD};
use std::collections::BTreeMap;

/// Bytes of a page, as the kernel's.
pub(super) const PAGE: usize = 4096;
/// Records in a page; what is left of it stays empty.
const RECORDS: u64 = (PAGE / RECORD) as u64;

/// Bytes of a page.
pub(super) type Page = [u8; PAGE];

/// How long slots are, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Level {
    /// The word by which it is asked for.
    pub(super) name: &'static str,
    /// Seconds of a slot.
    pub(super) step: u64,
    /// Slots that are shown.
    pub(super) slots: u64,
    /// Whether all of it stays in memory, or only what is not in the file yet.
    resident: bool,
}

/// From the finest to the coarsest.
pub(super) const LEVELS: [Level; 3] = [
    Level { name: "hour", step: 1, slots: 3600, resident: true },
    Level { name: "day", step: 10, slots: 8640, resident: true },
    Level { name: "year", step: 300, slots: 105_120, resident: false },
];

impl Level {
    /// Pages of its ring.
    pub(super) const fn pages(self) -> u64 {
        self.slots.div_ceil(RECORDS)
    }

    /// The slot of a second since 1970.
    fn slot(self, second: u64) -> u64 {
        second / self.step
    }

    /// The page of a slot, and where in it the record is.
    fn place(self, slot: u64) -> (u64, usize) {
        let place = slot % (self.pages() * RECORDS);
        (place / RECORDS, (place % RECORDS) as usize * RECORD)
    }
}

/// Where pages are that are not in memory.
pub(super) trait Pages {
    /// The page with this number of the ring; `None` where it cannot be read.
    fn read(&self, page: u64) -> Option<Page>;
}

/// The slot that is being filled.
#[derive(Clone, Copy, Debug)]
struct Filling {
    slot: u64,
    means: Means,
    seconds: f32,
}

/// A ring.
#[derive(Debug)]
pub(super) struct Ring {
    level: Level,
    pages: BTreeMap<u64, Held>,
    filling: Option<Filling>,
}

#[derive(Debug)]
struct Held {
    page: Box<Page>,
    is_new: bool,
}

impl Ring {
    pub(super) fn new(level: Level) -> Ring {
        Ring { level, pages: BTreeMap::new(), filling: None }
    }

    /// Adds what was seen in one second.
    pub(super) fn add(&mut self, second: u64, seen: &Means, stored: &dyn Pages) {
        let slot = self.level.slot(second);
        let filled = match self.filling {
            Some(filling) if filling.slot == slot => Some((filling.means, filling.seconds)),
            // A daemon before this one may have begun it. One that is full is of a time before the clock was set back.
            _ => {
                let begun = self.record(slot, stored).map(|(means, share)| (means, share * self.level.step as f32));
                begun.filter(|(_, seconds)| *seconds < self.level.step as f32 - 0.5)
            }
        };
        let (means, seconds) = match filled {
            Some((means, seconds)) => (means.mixed(seconds, seen, 1.0), seconds + 1.0),
            None => (*seen, 1.0),
        };
        self.filling = Some(Filling { slot, means, seconds });
        let record = means.encode(stamp(slot), seconds / self.level.step as f32);
        let (page, at) = self.level.place(slot);
        let held = self.held(page, stored);
        held.page[at..at + RECORD].copy_from_slice(&record);
        held.is_new = true;
    }

    /// What is known of a slot, and of which share of it.
    fn record(&self, slot: u64, stored: &dyn Pages) -> Option<(Means, f32)> {
        let (page, at) = self.level.place(slot);
        let read;
        let page = match self.pages.get(&page) {
            Some(held) => &*held.page,
            None => {
                read = stored.read(page)?;
                &read
            }
        };
        decode(page, at, slot)
    }

    /// Hands `take` each slot from `first` on, for as many as there are until `second`, with what is known of it.
    pub(super) fn each(
        &self,
        slots: std::ops::Range<u64>,
        stored: &dyn Pages,
        mut take: impl FnMut(Option<(Means, f32)>),
    ) {
        let mut read: Option<(u64, Option<Page>)> = None;
        for slot in slots {
            let (page, at) = self.level.place(slot);
            if let Some(held) = self.pages.get(&page) {
                take(decode(&held.page, at, slot));
                continue;
            }
            if read.as_ref().is_none_or(|(number, _)| *number != page) {
                read = Some((page, stored.read(page)));
            }
            take(read.as_ref().and_then(|(_, page)| decode(page.as_ref()?, at, slot)));
        }
    }

    /// The slots that are shown at a second, the newest last.
    pub(super) fn window(&self, second: u64) -> std::ops::Range<u64> {
        let end = self.level.slot(second) + 1;
        end.saturating_sub(self.level.slots)..end
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    fn held(&mut self, page: u64, stored: &dyn Pages) -> &mut Held {
        self.pages.entry(page).or_insert_with(|| {
            let page = stored.read(page).unwrap_or([0; PAGE]);
            Held { page: Box::new(page), is_new: false }
        })
    }

    /// Reads into memory what stays there.
    pub(super) fn load(&mut self, stored: &dyn Pages) {
        for page in (0..self.level.pages()).filter(|_| self.level.resident) {
            if let Some(page_read) = stored.read(page).filter(|read| read.iter().any(|byte| *byte != 0)) {
                self.pages.insert(page, Held { page: Box::new(page_read), is_new: false });
            }
        }
    }

    /// Takes over what another ring of the same link holds in memory.
    pub(super) fn absorb(&mut self, other: Ring, stored: &dyn Pages) {
        for (number, theirs) in other.pages {
            let own = self.held(number, stored);
            own.is_new = true;
            let records = own.page.chunks_exact_mut(RECORD).zip(theirs.page.chunks_exact(RECORD));
            for (own, theirs) in records.filter(|(_, theirs)| theirs.iter().any(|byte| *byte != 0)) {
                own.copy_from_slice(theirs);
            }
        }
    }

    /// Hands `write` each page that is not stored yet, until one fails.
    ///
    /// # Errors
    /// What `write` says; what is not stored stays in memory.
    pub(super) fn store<E>(&mut self, mut write: impl FnMut(u64, &Page) -> Result<(), E>) -> Result<(), E> {
        for (number, held) in self.pages.iter_mut().filter(|(_, held)| held.is_new) {
            write(*number, &held.page)?;
            held.is_new = false;
        }
        if !self.level.resident {
            // The page that is being filled stays.
            let filled = self.filling.map(|filling| self.level.place(filling.slot).0);
            self.pages.retain(|number, _| Some(*number) == filled);
        }
        Ok(())
    }
}

/// A slot as records have it; none has 0.
fn stamp(slot: u64) -> u32 {
    u32::try_from(slot).unwrap_or(u32::MAX)
}

fn decode(page: &Page, at: usize, slot: u64) -> Option<(Means, f32)> {
    Means::decode(page.get(at..at + RECORD)?.try_into().ok()?, stamp(slot))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// A store in memory.
    #[derive(Default)]
    struct Stored(RefCell<HashMap<u64, Page>>);

    impl Pages for Stored {
        fn read(&self, page: u64) -> Option<Page> {
            self.0.borrow().get(&page).copied()
        }
    }

    fn sent(rate: f32) -> Means {
        Means { sent: rate, up: 1.0, ..Means::default() }
    }

    fn shown(ring: &Ring, second: u64, stored: &Stored) -> Vec<Option<f32>> {
        let mut all = Vec::new();
        ring.each(ring.window(second), stored, |known| all.push(known.map(|(means, _)| means.sent)));
        all
    }

    proptest! {
        #[test]
        fn a_ring_shows_the_mean_of_each_slot_as_a_list_of_all_seconds_would(
            gaps in prop::collection::vec((1..40u64, 0f32..1000.0), 1..300), level in 0..3usize, stores in any::<bool>(),
        ) {
            let level = LEVELS[level];
            let (mut ring, stored) = (Ring::new(level), Stored::default());
            let mut model: HashMap<u64, Vec<f32>> = HashMap::new();
            let mut now = 1_700_000_000;
            for (number, (gap, rate)) in gaps.into_iter().enumerate() {
                now += gap * level.step / 3 + 1;
                ring.add(now, &sent(rate), &stored);
                model.entry(now / level.step).or_default().push(rate);
                if stores && number % 7 == 0 {
                    ring.store(|page, bytes| { stored.0.borrow_mut().insert(page, *bytes); Ok::<_, ()>(()) }).unwrap();
                }
                if stores && number % 21 == 0 {
                    // Another daemon begins.
                    ring = Ring::new(level);
                    ring.load(&stored);
                }
            }
            let all = shown(&ring, now, &stored);
            prop_assert_eq!(all.len() as u64, level.slots);
            for (slot, found) in ring.window(now).zip(all) {
                let mean = model.get(&slot).map(|rates| rates.iter().sum::<f32>() / rates.len() as f32);
                match (found, mean) {
                    // A slot that was begun before is weighed by parts of it: of these there are 200.
                    (Some(found), Some(_)) if stores && level.step > 200 => {
                        let rates = &model[&slot];
                        let (least, most) = rates.iter().fold((f32::MAX, 0f32), |(least, most), rate| (least.min(*rate), most.max(*rate)));
                        prop_assert!(found >= least - 0.5 && found <= most + 0.5, "{} {} {}", found, least, most);
                    }
                    (Some(found), Some(mean)) => prop_assert!((found - mean).abs() <= 0.02 * mean + 0.5, "{} {}", found, mean),
                    (found, mean) => prop_assert_eq!(found, mean),
                }
            }
        }
    }

    #[test]
    fn what_lies_a_turn_back_is_not_shown_as_new() {
        let (mut ring, stored) = (Ring::new(LEVELS[0]), Stored::default());
        let turn = LEVELS[0].pages() * RECORDS;
        ring.add(1_700_000_000, &sent(7.0), &stored);
        assert!(shown(&ring, 1_700_000_000, &stored).contains(&Some(7.0)));
        assert!(shown(&ring, 1_700_000_000 + turn, &stored).iter().all(Option::is_none));
    }

    #[test]
    fn what_cannot_be_stored_stays_in_memory_and_is_stored_later() {
        let (mut ring, stored) = (Ring::new(LEVELS[2]), Stored::default());
        let second = |page: u64| 1_700_000_000 + page * RECORDS * LEVELS[2].step;
        for page in 0..3 {
            ring.add(second(page), &sent(page as f32 + 1.0), &stored);
        }
        assert_eq!(ring.store(|_, _| Err("full")), Err("full"));
        assert_eq!(ring.pages.len(), 3);
        ring.store(|page, bytes| {
            stored.0.borrow_mut().insert(page, *bytes);
            Ok::<_, ()>(())
        })
        .expect("room");
        assert_eq!((ring.pages.len(), stored.0.borrow().len()), (1, 3), "a year is not held in memory");
        let all = shown(&ring, second(2), &stored);
        assert_eq!(all.into_iter().flatten().collect::<Vec<_>>(), [1.0, 2.0, 3.0]);
    }
}
