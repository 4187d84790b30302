//! Alternatives that go by a name and have options of their own: policies, fairness algorithms, queue disciplines.
//!
//! As text: `NAME`, `NAME:VALUE` for the main option where it has one, or `NAME:[VALUE,]OPTION=VALUE,…`, such as
//! `balance-xor:layer2+3` or `brr:12ms,expiry=30s`. Shown in the same form, with what is not the default.

use super::error::OptionError;
use super::kind::Dialect;
use super::table::{Fields, OptionSpec};
use super::value::{Field, Value};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// A member of a family: its name and what it is.
#[derive(Debug)]
pub struct Member<F: 'static> {
    /// As it is written.
    pub name: &'static str,
    /// A number that may stand for the name.
    pub mode: Option<u8>,
    /// The option that may be given without its name, as in `brr:12ms`.
    pub main: Option<&'static str>,
    /// What it does, for people.
    pub help: &'static str,
    /// The member with its defaults.
    pub plain: fn() -> F,
}

impl<F: Family> Member<F> {
    /// The member with its defaults.
    pub fn plain(&self) -> F {
        (self.plain)()
    }

    /// The options that the member has, in the order of its table, each with its default as it is written.
    pub fn options(&self) -> impl Iterator<Item = (&'static OptionSpec, String)> + use<F> {
        let (plain, all) = (self.plain(), self.plain().with_everything());
        let default = |spec: &'static OptionSpec| plain.get(spec.name).or_else(|| all.get(spec.name));
        let options = all.specs().into_iter().filter_map(|spec| Some((spec, spec.show(&default(spec)?))));
        options.collect::<Vec<_>>().into_iter()
    }
}

/// Alternatives with options.
pub trait Family: Sized + 'static {
    /// What a member is called in errors: `policy`.
    const WHAT: &'static str;
    /// How its texts are written.
    const DIALECT: Dialect;
    /// All members.
    const MEMBERS: &'static [Member<Self>];

    /// Whether both are the same member, whatever their options.
    fn same(&self, other: &Self) -> bool;

    /// The options that it has, with their fields.
    fn fields(&self) -> Fields<'_>;

    /// The field of the option of that name, if it has it.
    fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field>;

    /// With every option that an option of its own switches on.
    #[must_use]
    fn with_everything(self) -> Self {
        self
    }

    /// Whether the options can work together.
    ///
    /// # Errors
    /// Two of them cannot: which, and what would be right.
    fn check(&self) -> Result<(), OptionError> {
        Ok(())
    }

    /// Its entry among the members.
    fn member(&self) -> &'static Member<Self> {
        Self::MEMBERS.iter().find(|member| member.plain().same(self)).unwrap_or(&Self::MEMBERS[0])
    }

    /// Its name.
    fn name(&self) -> &'static str {
        self.member().name
    }

    /// The options that it has.
    fn specs(&self) -> Vec<&'static OptionSpec> {
        self.fields().into_iter().map(|(spec, _)| spec).collect()
    }

    /// The value of an option; `None`: it does not have it.
    fn get(&self, option: &str) -> Option<Value> {
        self.fields().into_iter().find(|(spec, _)| spec.name == option).map(|(_, field)| field.value())
    }

    /// An option as it is written, `NAME=VALUE`; `None`: it does not have it.
    fn written(&self, option: &str) -> Option<String> {
        let fields = self.fields();
        let (spec, field) = fields.iter().find(|(spec, _)| spec.name == option)?;
        Some(format!("{}={}", spec.name, spec.show(&field.value())))
    }

    /// Sets an option to what `text` says.
    ///
    /// # Errors
    /// It does not have the option, or not with that value.
    fn set(&mut self, option: &str, text: &str) -> Result<(), OptionError> {
        set(self, option, text)
    }
}

/// Sets an option of `of` to what `text` says.
///
/// # Errors
/// It does not have the option, or not with that value.
pub fn set<F: Family>(of: &mut F, option: &str, text: &str) -> Result<(), OptionError> {
    let Some(spec) = of.specs().into_iter().find(|spec| spec.name == option) else {
        return Err(OptionError::Option { of: of.name(), option: option.into(), known: known(of) });
    };
    let value = spec.parse(text, F::DIALECT)?;
    if let Some(field) = of.field_mut(option) {
        field.take(value);
    }
    Ok(())
}

/// The names of the options that it has.
fn known<F: Family>(of: &F) -> String {
    match of.specs().into_iter().map(|spec| spec.name).collect::<Vec<_>>() {
        names if names.is_empty() => "none".into(),
        names => names.join(", "),
    }
}

/// The member of that name, or number, with its defaults.
///
/// # Errors
/// There is none.
pub fn named<F: Family>(name: &str) -> Result<F, OptionError> {
    let member = F::MEMBERS.iter().find(|member| {
        member.name.eq_ignore_ascii_case(name) || member.mode.is_some_and(|mode| name.parse() == Ok(mode))
    });
    member.map(Member::plain).ok_or_else(|| OptionError::Unknown {
        what: F::WHAT,
        name: name.into(),
        known: F::MEMBERS.iter().map(|member| member.name).collect::<Vec<_>>().join(", "),
    })
}

/// The member `name` with these options, in any order, each as its name and its value.
///
/// # Errors
/// There is no such member, it does not have an option or not with that value, an option comes twice, or the options
/// cannot work together.
pub fn build<'a, F: Family>(
    name: &str,
    options: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<F, OptionError> {
    let mut built = named::<F>(name)?;
    let all = named::<F>(name)?.with_everything().specs();
    let place = |name: &str| all.iter().position(|spec| spec.name == name);
    let mut given: Vec<_> = options.into_iter().map(|(name, value)| (place(name), name, value)).collect();
    // An option that another one switches on stands behind it in the table.
    given.sort_by_key(|(place, ..)| *place);
    for pair in given.windows(2) {
        if let [(Some(n), name, _), (_, next, _)] = pair
            && name == next
        {
            return Err(OptionError::Twice { option: all[*n].name });
        }
    }
    for (_, name, value) in given {
        built.set(name, value)?;
    }
    built.check()?;
    Ok(built)
}

/// What `text` says.
///
/// # Errors
/// See [`build`]; or a value stands alone where no option goes without its name.
pub fn parse<F: Family>(text: &str) -> Result<F, OptionError> {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let name = name.trim();
    let plain = named::<F>(name)?;
    let member = plain.member();
    let parts = rest.split(',').map(str::trim).enumerate().filter(|_| !rest.trim().is_empty());
    let pairs = parts.map(|(n, part)| match (part.split_once('='), member.main) {
        (Some((option, value)), _) => Ok((option.trim(), value.trim())),
        (None, Some(main)) if n == 0 => Ok((main, part)),
        (None, _) => Err(OptionError::Bare { of: member.name, value: part.into(), known: known(&plain) }),
    });
    build(name, pairs.collect::<Result<Vec<_>, _>>()?)
}

/// Writes `of` as [`parse`] reads it, without what is the default.
///
/// # Errors
/// The formatter's.
pub fn write<F: Family>(of: &F, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let member = of.member();
    f.write_str(member.name)?;
    // What the defaults do not have comes with its own.
    let (plain, all) = (member.plain(), member.plain().with_everything());
    let default = |option: &str| plain.get(option).or_else(|| all.get(option));
    let fields = of.fields();
    let main = |spec: &OptionSpec| member.main == Some(spec.name);
    let first = fields.iter().filter(|(spec, _)| main(spec));
    let rest = fields.iter().filter(|(spec, _)| !main(spec));
    let mut before = ":";
    for (spec, field) in first.chain(rest) {
        let value = field.value();
        if default(spec.name).as_ref() == Some(&value) {
            continue;
        }
        let name = if main(spec) { "" } else { spec.name };
        let sign = if main(spec) { "" } else { "=" };
        write!(f, "{before}{name}{sign}{}", spec.show(&value))?;
        before = ",";
    }
    Ok(())
}
