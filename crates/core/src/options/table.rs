//! The options of one component: a table of its settings' fields.

use super::error::OptionError;
use super::kind::{Dialect, Kind, number};
use super::value::{Field, Value};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What an option is, wherever it is read, written or explained.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// As it is written in scenarios, recordings and on the command line; it stays for ever.
    pub name: &'static str,
    /// Its name in a configuration file of the daemon, if it may be set there.
    pub file: Option<&'static str>,
    /// What it takes.
    pub kind: Kind,
    /// What it does, for people. The default is the component's.
    pub help: &'static str,
    /// The version of the recorded settings that first has it; what a recording has by place ends with version 3.
    pub since: u16,
}

impl OptionSpec {
    /// An option that is as old as its component.
    pub const fn new(name: &'static str, kind: Kind, help: &'static str) -> OptionSpec {
        OptionSpec { name, file: None, kind, help, since: 1 }
    }

    /// The option may be set in a configuration file, under this name.
    pub const fn file(mut self, name: &'static str) -> OptionSpec {
        self.file = Some(name);
        self
    }

    /// The option came with this version of the recorded settings.
    pub const fn since(mut self, version: u16) -> OptionSpec {
        self.since = version;
        self
    }

    /// The value that `text` says.
    ///
    /// # Errors
    /// It is none that the option takes.
    pub fn parse(&self, text: &str, dialect: Dialect) -> Result<Value, OptionError> {
        let wrong = || OptionError::Value { option: self.name, value: text.into(), expected: self.expected() };
        self.kind.parse(text, dialect).ok_or_else(wrong)
    }

    /// `value` as it is written.
    pub fn show(&self, value: &Value) -> String {
        self.kind.show(value)
    }

    /// What it takes, for people.
    pub fn expected(&self) -> String {
        self.kind.expected()
    }
}

/// An option of the settings `C`, and where it is in them.
#[derive(Clone, Copy)]
pub struct Entry<C: 'static> {
    /// What it is.
    pub spec: OptionSpec,
    field: fn(&C) -> &dyn Field,
    field_mut: fn(&mut C) -> &mut dyn Field,
}

impl<C> fmt::Debug for Entry<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option {}", self.spec.name)
    }
}

impl<C> Entry<C> {
    /// An entry; written by [`option!`](crate::option_entry).
    pub const fn new(
        spec: OptionSpec,
        field: fn(&C) -> &dyn Field,
        field_mut: fn(&mut C) -> &mut dyn Field,
    ) -> Entry<C> {
        Entry { spec, field, field_mut }
    }

    /// Its value in `config`.
    pub fn get(&self, config: &C) -> Value {
        (self.field)(config).value()
    }

    /// Sets a value that [`OptionSpec::parse`] gave, or that [`Kind::allows`].
    pub fn set(&self, config: &mut C, value: Value) {
        (self.field_mut)(config).take(value);
    }
}

/// A number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange {
    /// The option.
    pub option: &'static str,
    /// What it is, in nanoseconds, bytes or bits per second.
    pub value: u64,
    /// The least that works.
    pub least: u64,
    /// The most that works.
    pub most: u64,
}

/// The options of the settings `C`, in the order in which they are shown.
#[derive(Debug)]
pub struct Table<C: 'static>(pub &'static [Entry<C>]);

impl<C> Table<C> {
    /// All options.
    pub fn iter(&self) -> impl Iterator<Item = &'static Entry<C>> + use<C> {
        self.0.iter()
    }

    /// The option of that name.
    pub fn find(&self, name: &str) -> Option<&'static Entry<C>> {
        self.0.iter().find(|entry| entry.spec.name == name)
    }

    /// Every option with its field.
    pub fn fields<'a>(&self, config: &'a C) -> Fields<'a> {
        self.0.iter().map(|entry| (&entry.spec, (entry.field)(config))).collect()
    }

    /// The field of the option of that name, to be changed.
    pub fn field_mut<'a>(&self, config: &'a mut C, name: &str) -> Option<&'a mut dyn Field> {
        self.find(name).map(|entry| (entry.field_mut)(config))
    }

    /// The first number outside its range.
    pub fn out_of_range(&self, config: &C) -> Option<OutOfRange> {
        self.0.iter().find_map(|entry| {
            let (least, most) = entry.spec.kind.range()?;
            let value = number(&entry.get(config)).filter(|value| !(least..=most).contains(value))?;
            Some(OutOfRange { option: entry.spec.name, value, least, most })
        })
    }
}

/// Options with their fields.
pub type Fields<'a> = Vec<(&'static OptionSpec, &'a dyn Field)>;

/// One entry of a [`Table`]: the field, what it takes, what it does; or what an option is, and the field.
#[macro_export]
#[doc(hidden)]
macro_rules! option_entry {
    ($field:ident: $kind:expr, $help:expr $(, file $file:literal)? $(, since $since:literal)?) => {
        $crate::option_entry!(
            $crate::options::OptionSpec::new(stringify!($field), $kind, $help)$(.file($file))?$(.since($since))? => $field
        )
    };
    ($spec:expr => $($field:tt).+) => {
        $crate::options::Entry::new($spec, |config| &config.$($field).+, |config| &mut config.$($field).+)
    };
}

pub use crate::option_entry as option;
