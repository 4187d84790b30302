//! A bond of imagined links, with a policy and markers or without.

use super::{LinkList, Report, Traffic, flushing};
use fairspan_core::options::OptionError;
use fairspan_core::select::{Selector, Settings, flush};

/// A bond that packets are tried on.
#[derive(Clone, Debug)]
pub struct Bond {
    selector: Selector,
    links: LinkList,
    flush: Option<flush::Config>,
}

impl Bond {
    /// A bond of `links` with the policy `settings`, whose options may name links. `seed`: for what is random.
    ///
    /// # Errors
    /// The policy cannot work, or not with these links.
    pub fn new(settings: &Settings, links: &LinkList, seed: u64) -> Result<Bond, OptionError> {
        let mut settings = settings.clone();
        settings.resolve(&links.names())?;
        let selector = Selector::new(&settings, &links.states(), seed)?;
        Ok(Bond { selector, links: links.clone(), flush: settings.flush })
    }

    /// Sends `traffic` over it. `trace`: keep each packet's links.
    pub fn run(mut self, traffic: &Traffic<'_>, trace: bool) -> Report {
        match self.flush {
            None => super::run(&mut self.selector, &self.links, traffic, trace),
            Some(config) => flushing::run(&mut self.selector, config, &self.links, traffic, trace),
        }
    }
}
