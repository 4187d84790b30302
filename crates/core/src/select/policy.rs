//! All policies as one type, and all selectors: made from the list in [`super`].

use super::{BurstStats, Frame, Links, PolicyConfig, Select, own};
use crate::options::{Field, Fields};
use crate::set::LinkSet;
use crate::units::{ChannelId, Time};

macro_rules! define {
    ($($(#[$doc:meta])* $policy:ident($config:ty),)+) => {
        /// How links are chosen, with the options of that way.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Policy {
            $($(#[$doc])* $policy($config),)+
            /// One's own. It has no name in texts.
            Own(own::Config),
        }

        impl Policy {
            /// The options that it has, with their fields.
            pub(super) fn fields(&self) -> Fields<'_> {
                match self {
                    $(Policy::$policy(config) => <$config>::OPTIONS.fields(config),)+
                    Policy::Own(config) => own::Config::OPTIONS.fields(config),
                }
            }

            /// The field of the option of that name, if it has it.
            pub(super) fn field_mut(&mut self, option: &str) -> Option<&mut dyn Field> {
                match self {
                    $(Policy::$policy(config) => <$config>::OPTIONS.field_mut(config, option),)+
                    Policy::Own(config) => own::Config::OPTIONS.field_mut(config, option),
                }
            }

            /// Its name.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Policy::$policy(_) => <$config>::NAME,)+
                    Policy::Own(_) => own::Config::NAME,
                }
            }

            /// Whether it looks at what waits for the links and how long that takes.
            pub fn looks_at_queues(&self) -> bool {
                match self {
                    $(Policy::$policy(_) => <$config>::LOOKS_AT_QUEUES,)+
                    Policy::Own(_) => own::Config::LOOKS_AT_QUEUES,
                }
            }

            /// The policy at work.
            pub(super) fn selector(&self, seed: u64) -> Selector {
                match self {
                    $(Policy::$policy(config) => Selector::$policy(config.selector(seed)),)+
                    Policy::Own(config) => Selector::Own(config.selector(seed)),
                }
            }
        }

        /// A policy at work.
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Selector {
            $($(#[$doc])* $policy(<$config as PolicyConfig>::Selector),)+
            /// One's own.
            Own(own::Own),
        }

        impl Select for Selector {
            #[inline]
            fn select(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> LinkSet {
                match self {
                    $(Selector::$policy(selector) => selector.select(now, frame, links),)+
                    Selector::Own(selector) => selector.select(now, frame, links),
                }
            }

            #[inline]
            fn select_held(&mut self, now: Time, frame: &Frame<'_>, links: &Links) -> (LinkSet, Time) {
                match self {
                    $(Selector::$policy(selector) => selector.select_held(now, frame, links),)+
                    Selector::Own(selector) => selector.select_held(now, frame, links),
                }
            }

            fn on_links(&mut self, now: Time, links: &Links) {
                match self {
                    $(Selector::$policy(selector) => selector.on_links(now, links),)+
                    Selector::Own(selector) => selector.on_links(now, links),
                }
            }

            fn poll_timeout(&self) -> Option<Time> {
                match self {
                    $(Selector::$policy(selector) => selector.poll_timeout(),)+
                    Selector::Own(selector) => selector.poll_timeout(),
                }
            }

            fn handle_timeout(&mut self, now: Time, links: &Links) {
                match self {
                    $(Selector::$policy(selector) => selector.handle_timeout(now, links),)+
                    Selector::Own(selector) => selector.handle_timeout(now, links),
                }
            }

            fn current(&self) -> Option<ChannelId> {
                match self {
                    $(Selector::$policy(selector) => selector.current(),)+
                    Selector::Own(selector) => selector.current(),
                }
            }

            fn stats(&self) -> BurstStats {
                match self {
                    $(Selector::$policy(selector) => selector.stats(),)+
                    Selector::Own(selector) => selector.stats(),
                }
            }
        }
    };
}

policies!(define);
