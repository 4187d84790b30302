//! Days and times by the calendar, UTC.

use std::fmt::{self, Display};
use std::str::FromStr;
use std::time::Duration;

/// A day by the calendar, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Day {
    year: u32,
    month: u8,
    day: u8,
}

impl Day {
    /// The day of this time since 1970.
    pub(crate) fn of(wall: Duration) -> Day {
        let mut left = wall.as_secs() / 86_400;
        let mut year = 1970;
        while left >= days_of(year) {
            left -= days_of(year);
            year += 1;
        }
        let mut month = 1;
        while left >= days_in(year, month) {
            left -= days_in(year, month);
            month += 1;
        }
        Day { year, month, day: left as u8 + 1 }
    }

    /// The last `first` of a month, from 1 to 28, up to this day.
    pub(crate) fn month_from(self, first: u8) -> Day {
        match self {
            Day { day, .. } if day >= first => Day { day: first, ..self },
            Day { year, month: 1, .. } => Day { year: year - 1, month: 12, day: first },
            Day { year, month, .. } => Day { year, month: month - 1, day: first },
        }
    }
}

fn days_of(year: u32) -> u64 {
    (1..=12).map(|month| days_in(year, month)).sum()
}

fn days_in(year: u32, month: u8) -> u64 {
    let leaps = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u64::from(leaps),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

impl FromStr for Day {
    type Err = ();

    fn from_str(text: &str) -> Result<Day, ()> {
        let mut parts = text.splitn(3, '-');
        let mut next = || parts.next()?.parse::<u32>().ok();
        let (year, month, day) = next().zip(next()).zip(next()).map(|((y, m), d)| (y, m, d)).ok_or(())?;
        let fits = (1..=12).contains(&month) && (1..=31).contains(&day);
        if fits { Ok(Day { year, month: month as u8, day: day as u8 }) } else { Err(()) }
    }
}

/// A moment by the calendar, to the minute, as people read it; `seconds` are since 1970.
pub fn utc(seconds: u64) -> String {
    let day = Day::of(Duration::from_secs(seconds));
    format!("{day} {:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60)
}
